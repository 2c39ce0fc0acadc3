"""The claims of "Beyond Structural Symmetries: Linear Mode Connectivity via Neuron Identifiability" (arXiv 2606.04754).

Each threshold turns a sentence, a figure or a theorem of the paper into a number; the reason beside each says how it
follows from the paper. All were fixed before the first run of the networks that they are about but one: the near-zero
bound of Fig. 5 was one-sided and got a lower end after it, which made it stricter.
"""

from symlab.papers.claim import Claim
from symlab.claims.neuron_identifiability import estimates, geometry, objectives, paths, swaps, theory

# What has no figure number is listed in this order: theorems first, then the estimators of swap costs.
CLAIMS: tuple[Claim, ...] = (
    *objectives.CLAIMS,
    *paths.CLAIMS,
    *swaps.CLAIMS,
    *geometry.CLAIMS,
    *theory.CLAIMS,
    *estimates.CLAIMS,
)
