"""What a report says first of this paper, from the values that its claims measure; its words; the paper's own sizes.

Every start of the workflow reads this module, so it imports nothing heavy.
"""

from functools import partial

from symlab.study.card import Sentence, at, sentence_of

_say = partial(sentence_of, "permutation")

HEADING = "Reorder the neurons, and wide networks can nearly be averaged"
HEADLINE = (
    _say(
        "Two networks learn to copy a given one of 6 hidden neurons. Reordering the neurons of one divides the barrier "
        "between them by **{2-below-direct(M=6, source=gd, matching=linear assignment)}** or more at every width above "
        "6 that was tried."
    ),
    _say(
        "The barrier that is left is highest at {2-peak-at-2M(M=6, source=gd, matching=linear assignment):~} times the "
        "given network's width; the paper: 2 times."
    ),
    _say(
        "The paper: wide trained networks average better than random exact copies, in part because high learning rates "
        "make them sparse. At a moderate rate their sparsity index less that of random copies is "
        "{2-sparser(source=gd):~} (M: neurons of the given network, d: its inputs)."
    ),
)
THUMBNAIL = (
    "permutation-2",
    0,
    "Dashed: neurons as they are, solid: reordered; blue: trained copies, orange: random exact copies.",
)

FOUND = (
    _say(
        "After matching, the barrier between students of a teacher of M = 6 neurons is largest at a width of "
        "{2-peak-at-2M(M=6, source=uniform)} M for random minima and of "
        "{2-peak-at-2M(M=6, source=gd, matching=Algorithm 1)} M (Algorithm 1) or "
        "{2-peak-at-2M(M=6, source=gd, matching=linear assignment)} M (linear assignment) for trained students. The "
        "paper: at 2 M."
    ),
    _say(
        "At every width above M, matching divides the barrier by at least {2-below-direct(M=6, source=uniform)} for "
        "random minima; for trained students by at least {2-below-direct(M=6, source=gd, matching=Algorithm 1)} "
        "(Algorithm 1) or {2-below-direct(M=6, source=gd, matching=linear assignment)} (linear assignment)."
    ),
    _say(
        "The matched barrier of random minima falls with the width to the power of {2-theorem-6(M=6)}. Theorem 6: −0.5 "
        "or less."
    ),
    _say(
        "Algorithm 1 leaves a barrier {best-algorithm-1:~} times the lowest that any permutation leaves (teachers of 3 "
        "neurons)."
    ),
    _say(
        "Wide trained students have {2-slightly-below-uniform(M=6, source=gd, matching=Algorithm 1):%} (Algorithm 1) "
        "or {2-slightly-below-uniform(M=6, source=gd, matching=linear assignment):%} (linear assignment) of the "
        "matched barrier of random minima. The paper explains this in part by sparsity; their sparsity index differs "
        "by {2-sparser(M=6, source=gd)}."
    ),
    _say(
        "From a learning rate of {6-threshold} on, whole neurons become zero. At the largest rate the matched barrier "
        "is {13-collapse(matching=Algorithm 1):%} (Algorithm 1) or {13-collapse(matching=linear assignment):%} (linear "
        "assignment) of its value below that rate."
    ),
    Sentence(
        "How trained students share a teacher's neuron among theirs is {paper} standard errors from uniform with the "
        "paper's initialisation, {larger} with a larger one.",
        {"paper": at("permutation-9-column", init="1/(md)"), "larger": at("permutation-9-column", init="1/√d")},
    ),
    _say(
        "On MNIST, the matched barrier at widths in between is {7-peak(dataset=mnist, matching=activation)} (matched "
        "by activations) or {7-peak(dataset=mnist, matching=weight)} (by weights) times the larger of those at the "
        "narrowest and widest; the peak that the paper reports is a number above 1."
    ),
)

TERMS = (
    ("teacher, student", "networks f(x) = Σ relu(w·x) of M and of m neurons; the student learns to equal the teacher"),
    ("random minima, samples", "students drawn uniformly from those that equal the teacher, instead of trained"),
    ("barrier", "by how much the loss halfway between two students, or elsewhere on the line, exceeds theirs"),
    ("direct, matched", "the barrier with neurons as they are, or after one student's are reordered to fit the other"),
    ("Algorithm 1", "the paper's matching: neurons of the same teacher neuron, in the order of their size"),
    ("linear assignment", "the matching with the largest sum of inner products of neurons"),
    ("sparsity index (PQ)", "0 if all neurons are equally large, near 1 if few are not zero"),
    ("c", "the learning rate in units of d/m, d being the dimension of the inputs"),
)

SCALE = (
    "teachers of 6, 12 and 30 neurons, 20 pairs of trained networks a width, overlaps from 10,000 random pairs; MNIST, "
    "4 layers, 10 pairs, 10,000 epochs"
)
SUBJECTS = "networks with one hidden layer that learn to copy another (students and their teacher)"
