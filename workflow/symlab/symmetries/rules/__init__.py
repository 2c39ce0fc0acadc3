"""What each ATen operation does to the axes of its inputs: the rules by which a network's symmetries are traced."""

# Importing a module of rules registers them.
from symlab.symmetries.rules import (  # noqa: F401
    complex_numbers,
    contractions,
    grids,
    indexing,
    rearrangements,
    recurrent,
    reductions,
)
