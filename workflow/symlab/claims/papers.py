"""Papers whose claims are checked: one line a paper, under its name in ``symlab.papers``."""

from symlab.claims import neuron_identifiability, permutation_invariance
from symlab.papers.claim import Claim

PAPERS: dict[str, tuple[Claim, ...]] = {
    "neuron-identifiability": neuron_identifiability.CLAIMS,
    "permutation-invariance": permutation_invariance.CLAIMS,
}
