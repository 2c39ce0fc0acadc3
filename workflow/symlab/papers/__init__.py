"""The papers that symlab reproduces, one line each: a paper is a folder here and its line in ``PAPERS``."""

from symlab.papers.card import Paper
from symlab.papers.neuron_identifiability import NEURON_IDENTIFIABILITY
from symlab.papers.permutation_invariance import PERMUTATION_INVARIANCE

PAPERS: tuple[Paper, ...] = (
    NEURON_IDENTIFIABILITY,
    PERMUTATION_INVARIANCE,
)
