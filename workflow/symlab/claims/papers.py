"""Papers whose claims are checked: one line a paper."""

from symlab.claims import neuron_identifiability
from symlab.claims.claim import Claim

PAPERS: dict[str, tuple[Claim, ...]] = {
    "neuron-identifiability": neuron_identifiability.CLAIMS,
}
