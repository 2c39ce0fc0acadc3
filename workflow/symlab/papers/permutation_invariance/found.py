"""What a report says first of this paper, from the values that its claims measure; its words; the paper's own sizes.

Every start of the workflow reads this module, so it imports nothing heavy.
"""

from __future__ import annotations

from symlab.study.card import Sentence

_TEACHER = "M = 6, d = 8"
_ALGORITHM, _ASSIGNMENT = f"{_TEACHER}, Algorithm 1", f"{_TEACHER}, linear assignment"

HEADING = "Reorder the neurons, and wide networks can nearly be averaged"
HEADLINE = (
    Sentence(
        "Small networks learn to copy a known one of 6 neurons. Putting the neurons of two of them in the same order "
        "divides the loss of their average by **{assigned:~} or more**.",
        {"assigned": ("permutation-2-below-direct", _ASSIGNMENT)},
    ),
    Sentence(
        "Averages are worst at a width of {peak:~} times the known network's; the paper says 2.",
        {"peak": ("permutation-2-peak-at-2M", _ASSIGNMENT)},
    ),
    Sentence(
        "Trained networks do better than random solutions because they are sparser, as the paper says (sparsity index "
        "{excess:~} higher).",
        {"excess": ("permutation-2-sparser", _TEACHER)},
        "But the paper's explanation, that training makes networks sparse, does not hold: their sparsity index differs "
        "by {excess:~} from that of random solutions.",
    ),
)
THUMBNAIL = ("permutation-2", 0)

FOUND = (
    Sentence(
        "After matching, the barrier between students of a teacher of M = 6 neurons is largest at a width of {samples} "
        "M for random minima and of {by_types} M (Algorithm 1) or {assigned} M (linear assignment) for trained "
        "students. The paper: at 2 M.",
        {
            "samples": ("permutation-2-peak-at-2M", f"{_TEACHER}, samples"),
            "by_types": ("permutation-2-peak-at-2M", _ALGORITHM),
            "assigned": ("permutation-2-peak-at-2M", _ASSIGNMENT),
        },
    ),
    Sentence(
        "At every width above M, matching divides the barrier by at least {samples} for random minima; for trained "
        "students by at least {trained} (Algorithm 1) or {assigned} (linear assignment).",
        {
            "samples": ("permutation-2-below-direct", f"{_TEACHER}, samples"),
            "trained": ("permutation-2-below-direct", _ALGORITHM),
            "assigned": ("permutation-2-below-direct", _ASSIGNMENT),
        },
    ),
    Sentence(
        "The matched barrier of random minima falls with the width to the power of {slope}. Theorem 6: −0.5 or less.",
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
        "From a learning rate of {threshold} on, whole neurons become zero. At the largest rate the matched barrier is "
        "{by_types:%} (Algorithm 1) or {assigned:%} (linear assignment) of its value below that rate.",
        {
            "threshold": ("permutation-6-threshold", ""),
            "by_types": ("permutation-13-collapse", "Algorithm 1"),
            "assigned": ("permutation-13-collapse", "linear assignment"),
        },
    ),
    Sentence(
        "How trained students share a teacher's neuron among theirs is {paper} standard errors from uniform with the "
        "paper's initialisation, {larger} with a larger one.",
        {
            "paper": ("permutation-9-column", "initial weights of 1/(md)"),
            "larger": ("permutation-9-column", "initial weights of 1/√d"),
        },
    ),
    Sentence(
        "On MNIST, the matched barrier at widths in between is {activation} (matched by activations) or {weight} (by "
        "weights) times the larger of those at the narrowest and widest; the peak that the paper reports is a number "
        "above 1.",
        {
            "activation": ("permutation-7-peak", "mnist, depth 4, activation matching"),
            "weight": ("permutation-7-peak", "mnist, depth 4, weight matching"),
        },
    ),
)

TERMS = (
    ("teacher, student", "networks f(x) = Σ relu(w·x) of M and of m neurons; the student learns to equal the teacher"),
    ("random minima, samples", "students drawn uniformly from those that equal the teacher, instead of trained"),
    ("barrier", "by how much the loss halfway between two students, or elsewhere on the line, exceeds theirs"),
    (
        "direct, matched",
        "the barrier with neurons as they are, or after one student's are reordered to fit the other",
    ),
    ("Algorithm 1", "the paper's matching: neurons of the same teacher neuron, in the order of their size"),
    ("linear assignment", "the matching with the largest sum of inner products of neurons"),
    ("sparsity index (PQ)", "0 if all neurons are equally large, near 1 if few are not zero"),
    ("c", "the learning rate in units of d/m, d being the dimension of the inputs"),
)

SCALE = "teachers of 6, 12 and 30 neurons, 20 pairs a width, 10,000 draws; MNIST, 4 layers, 10 pairs, 10,000 epochs"
