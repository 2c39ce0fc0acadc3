"""The claims of "Analyzing the Role of Permutation Invariance in Linear Mode Connectivity" (arXiv 2503.06001).

M is the number of the teacher's neurons, m that of a student's, d the dimension of the inputs. Thresholds were fixed
before the first run, with an eye to a small trial in NumPy whose numbers the reasons give. What that did not reproduce,
or what cannot be decided at an affordable scale, is reported ("agrees", "disagrees") with what explains a disagreement.
"""

from symlab.papers.claim import Claim
from symlab.claims.permutation_invariance import (
    dimensions,
    learning_rates,
    minima,
    networks,
    overlap,
    ratios,
    sparsity,
    widths,
)

CLAIMS: tuple[Claim, ...] = (
    *overlap.CLAIMS,
    *widths.CLAIMS,
    *ratios.CLAIMS,
    *sparsity.CLAIMS,
    *learning_rates.CLAIMS,
    *minima.CLAIMS,
    *dimensions.CLAIMS,
    *networks.CLAIMS,
)
