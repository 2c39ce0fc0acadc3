"""Networks of other libraries by name, see building.py."""

from families_of_images import IMAGES
from families_of_others import OTHERS
from families_of_texts import TEXTS

FAMILIES = TEXTS | IMAGES | OTHERS
