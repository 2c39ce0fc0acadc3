"""What a report says first of this paper: sentences that its claims' values fill, and the words that they use.

Every start of the workflow reads this module, so it imports nothing heavy.
"""

from __future__ import annotations

from symlab.study.card import Sentence

_TEACHER = "M = 6, d = 8"
_ALGORITHM, _ASSIGNMENT = f"{_TEACHER}, Algorithm 1", f"{_TEACHER}, linear assignment"

FOUND = (
    Sentence(
        "Once neurons are matched, the barrier between students of a teacher of M = 6 neurons is largest at a width of "
        "{samples} M for random minima and of {by_types} M (Algorithm 1) or {assigned} M (linear assignment) for "
        "trained students. The paper: at 2 M.",
        {
            "samples": ("permutation-2-peak-at-2M", f"{_TEACHER}, samples"),
            "by_types": ("permutation-2-peak-at-2M", _ALGORITHM),
            "assigned": ("permutation-2-peak-at-2M", _ASSIGNMENT),
        },
    ),
    Sentence(
        "At every width above M matching divides the barrier by {samples} or more for random minima; for trained "
        "students by {trained} or more by Algorithm 1, {assigned} by linear assignment.",
        {
            "samples": ("permutation-2-below-direct", f"{_TEACHER}, samples"),
            "trained": ("permutation-2-below-direct", _ALGORITHM),
            "assigned": ("permutation-2-below-direct", _ASSIGNMENT),
        },
    ),
    Sentence(
        "The matched barrier of random minima decays with the width to the power of {slope}. Theorem 6: −0.5 or less.",
        {"slope": ("permutation-2-theorem-6", _TEACHER)},
    ),
    Sentence(
        "Wide trained students have {by_types:%} (Algorithm 1) or {assigned:%} (linear assignment) of the matched "
        "barrier of random minima. The paper explains this by sparsity; their sparsity index differs by {excess}.",
        {
            "by_types": ("permutation-2-slightly-below-uniform", _ALGORITHM),
            "assigned": ("permutation-2-slightly-below-uniform", _ASSIGNMENT),
            "excess": ("permutation-2-sparser", _TEACHER),
        },
    ),
    Sentence(
        "Whole neurons become zero from a learning rate of {threshold} on. Past it, the matched barrier at the "
        "largest rate is {by_types:%} of what it was below by Algorithm 1, and {assigned:%} by linear assignment.",
        {
            "threshold": ("permutation-6-threshold", ""),
            "by_types": ("permutation-13-collapse", "Algorithm 1"),
            "assigned": ("permutation-13-collapse", "linear assignment"),
        },
    ),
    Sentence(
        "From the paper's initialisation, how trained students share out a teacher's neuron is {paper} standard errors "
        "from a uniform draw; from a larger one, {larger}.",
        {
            "paper": ("permutation-9-column", "initial weights of 1/(md)"),
            "larger": ("permutation-9-column", "initial weights of 1/√d"),
        },
    ),
    Sentence(
        "On MNIST the permuted barrier at widths in between is {activation} (matched by activations) or {weight} (by "
        "weights) times the larger one at the ends; the paper's peak would be a number above 1.",
        {
            "activation": ("permutation-7-peak", "mnist, depth 4, activation matching"),
            "weight": ("permutation-7-peak", "mnist, depth 4, weight matching"),
        },
    ),
)

TERMS = (
    ("teacher, student", "networks f(x) = Σ relu(w·x) of M and of m neurons; the student is to equal the teacher"),
    ("random minima, samples", "students drawn uniformly from those that equal the teacher, instead of trained"),
    ("barrier", "by how much the loss halfway between two students, or elsewhere on the line, exceeds theirs"),
    ("direct, matched", "the barrier with neurons as they are, or after reordering one student's to fit the other's"),
    ("Algorithm 1", "the paper's matching: neurons of the same teacher neuron, in the order of their size"),
    ("linear assignment", "the matching with the largest sum of inner products of neurons"),
    ("sparsity index (PQ)", "0 if all neurons are equally large, near 1 if few are not zero"),
    ("c", "the learning rate in units of d/m, d being the dimension of the inputs"),
)

SCALE = (
    "teachers of M = 6, 12 and 30 neurons with students of up to 6 M, 20 pairs a width, 10,000 draws for Figure 1; "
    "MNIST networks of four layers, 10,000 epochs, 10 pairs"
)
