"""The papers that symlab reproduces, one line each: a paper is a folder here and its line in ``PAPERS``."""

from symlab.papers.mirror_symmetry import MIRROR_SYMMETRY
from symlab.papers.neural_collapse import NEURAL_COLLAPSE
from symlab.papers.neuron_identifiability import NEURON_IDENTIFIABILITY
from symlab.papers.permutation_invariance import PERMUTATION_INVARIANCE
from symlab.papers.saddle_to_saddle import SADDLE_TO_SADDLE
from symlab.study.card import Paper

PAPERS: tuple[Paper, ...] = (
    NEURON_IDENTIFIABILITY,
    PERMUTATION_INVARIANCE,
    SADDLE_TO_SADDLE,
    NEURAL_COLLAPSE,
    MIRROR_SYMMETRY,
)
