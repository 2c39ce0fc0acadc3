"""What a report says first of this paper, from the values that its claims measure; its words; the paper's own sizes.

Every start of the workflow reads this module, so it imports nothing heavy.
"""

from functools import partial

from symlab.study.card import sentence_of

_say = partial(sentence_of, "identifiability")

HEADING = "Give every neuron a name tag, and networks can be averaged"
HEADLINE = (
    _say(
        "On the straight line between two ordinary networks train accuracy drops by **{4a-barrier(scheme=standard):~} "
        "percentage points**."
    ),
    _say(
        "With name tags, random weights of scale 1 that are the same in both and never trained, it drops by "
        "{4a-connected(scheme=w_asymmetric, sigma_F=1):~}."
    ),
    _say(
        "Beyond the paper: of a neuron that has the same place in both networks and one that has not, the first would "
        "need the larger weights to do another's job in {neurons-kept(scheme=w_asymmetric, sigma_F=0.5):~%} of cases "
        "(by chance, half)."
    ),
    _say(
        "With the largest name tags that were tried, validation accuracy is {sec4.5-trade-off:~} points below that "
        "with the best."
    ),
)
THUMBNAIL = (
    "identifiability-neurons",
    0,
    "Up: more neurons have the same place in both networks; right: those that would need larger weights elsewhere. A "
    "line for each size of the name tags (σ_F), first layer.",
)

FOUND = (
    _say(
        "On the line between two networks from different seeds train accuracy drops by {4a-barrier(scheme=standard)} "
        "percentage points, {4a-barrier(scheme=w_asymmetric, sigma_F=0)} if some of their weights are fixed at 0 "
        "(masks alone, σ_F = 0), {4a-connected(scheme=w_asymmetric, sigma_F=1)} if they are fixed at random values of "
        "scale σ_F = 1, and {4a-connected(scheme=syre, sigma_F=1)} in syre networks."
    ),
    _say(
        "Within one σ_F a neuron keeps its place where its cheapest swap is costly: of one that does and one that does "
        "not, the first has the costlier swap in {neurons-kept:%} of cases. A neuron that moves goes where "
        "{neurons-partner:%} of its swaps are cheaper; with weights fixed at 0, {neurons-control:%}.",
        "In pairs of a neuron that keeps its place and one that does not, the first has the costlier cheapest swap in "
        "{neurons-kept:%} of cases within one σ_F. A neuron that moves goes where {neurons-partner:%} of its swaps are "
        "cheaper; with weights fixed at 0, {neurons-control:%}.",
    ),
    _say(
        "Over all kinds of networks, the barrier before alignment has a rank correlation of {thesis-identity} with how "
        "near the identity comes to the optimal matching, and of {thesis-swap-cost} with the median swap cost. At −1, "
        "more identifiable neurons always mean a lower barrier."
    ),
    _say(
        "The identity, neuron i with neuron i, comes {3a-unbroken(scheme=w_asymmetric, sigma_F=0):%} of the way from "
        "random pairings to the optimal one with weights fixed at 0 (σ_F = 0) and "
        "{3a-identifiable(scheme=w_asymmetric, sigma_F=1):%} with σ_F = 1. It passes one half at σ_F = "
        "{3a-transition}."
    ),
    _say(
        "In networks that share nothing but F and D it comes {3c-untrained(scheme=w_asymmetric, sigma_F=1):%} of that "
        "way before any training (σ_F = 1)."
    ),
    _say(
        "After alignment train accuracy drops by {4c-aligned(scheme=standard)} points for standard networks, "
        "{4c-aligned(scheme=w_asymmetric, sigma_F=0)} with σ_F = 0, {4c-aligned(scheme=w_asymmetric, sigma_F=0.5)} "
        "with σ_F = 0.5 and {4c-sigma} for σ-MLPs."
    ),
    _say("The largest σ_F costs {sec4.5-trade-off} points of validation accuracy against the best σ_F of the sweep."),
)

TERMS = (
    ("W_eff = F + D * W", "weights of every layer: F and D are fixed and shared by all runs, W is trained"),
    ("F, σ_F", "fixed weights, drawn once with the standard deviation σ_F; σ_F = 0: weights fixed at 0"),
    ("D", "mask or scale of each trained weight, drawn once"),
    ("W-asymmetric", "a few weights of each neuron are fixed at F and never trained; the others are trained"),
    ("syre", "all weights are trained, each with a fixed part F added to it"),
    ("σ-MLP", "no fixed weights; a nonlinearity x * sigmoid(Cx) that mixes neurons by a fixed matrix C"),
    (
        "optimal, identity matching",
        "optimal: the one-to-one pairing of neurons with the highest total correlation; identity: neuron i with "
        "neuron i",
    ),
    ("identifiable", "a neuron that does the same in every run at the same place: the identity is optimal"),
    ("swap cost", "by how much the squared weight norm must grow for two neurons to exchange their functions"),
    (
        "barrier, drop",
        "how much worse the worst network on the line between two trained networks is than they are; where it is so "
        "said, the one halfway",
    ),
    ("pp", "percentage points"),
    ("ν", "coherence of the subspace in which a layer's inputs lie: 1 along single inputs, k/d spread over all"),
    ("k", "dimension of that subspace: the directions that carry 90 % of the variance"),
)

SCALE = "MNIST, three layers of 512 neurons, 8 pairs, 100 epochs; ResNet20 of eightfold width and ViT on CIFAR-10"
