"""What a report says first of this paper, from the values that its claims measure; its words; the paper's own sizes.

Every start of the workflow reads this module, so it imports nothing heavy.
"""

from typing import Any

from symlab.study.card import At, Sentence, at

STANDARD: dict[str, Any] = {"scheme": "standard"}
SYRE: dict[str, Any] = {"scheme": "syre", "sigma_F": 1}


def _fixed(sigma_F: float) -> dict[str, Any]:
    return {"scheme": "w_asymmetric", "sigma_F": sigma_F}


def _at(claim: str, **key: Any) -> At:
    return at(f"identifiability-{claim}", **key)


_NEURONS = {name: _at(f"neurons-{name}") for name in ("kept", "partner", "control")}

HEADING = "Give every neuron a name tag, and networks can be averaged"
HEADLINE = (
    Sentence(
        "On the straight line between two ordinary networks train accuracy drops by **{standard:~} percentage "
        "points**.",
        {"standard": _at("4a-barrier", **STANDARD)},
    ),
    Sentence(
        "With name tags, random weights of scale 1 that are the same in both and never trained, it drops by {fixed:~}.",
        {"fixed": _at("4a-connected", **_fixed(1))},
    ),
    Sentence(
        "Beyond the paper: of a neuron that has the same place in both networks and one that has not, the first would "
        "need the larger weights to do another's job in {kept:~%} of cases (by chance, half).",
        {"kept": _at("neurons-kept", **_fixed(0.5))},
    ),
    Sentence(
        "With the largest name tags that were tried, validation accuracy is {price:~} points below that with the best.",
        {"price": _at("sec4.5-trade-off")},
    ),
)
THUMBNAIL = (
    "identifiability-neurons",
    0,
    "Up: more neurons have the same place in both networks; right: those that would need larger weights elsewhere. A "
    "line for each size of the name tags (σ_F), first layer.",
)

FOUND = (
    Sentence(
        "On the line between two networks from different seeds train accuracy drops by {standard} percentage points, "
        "{masks} if some of their weights are fixed at 0 (masks alone, σ_F = 0), {fixed} if they are fixed at random "
        "values of scale σ_F = 1, and {syre} in syre networks.",
        {
            "standard": _at("4a-barrier", **STANDARD),
            "masks": _at("4a-barrier", **_fixed(0)),
            "fixed": _at("4a-connected", **_fixed(1)),
            "syre": _at("4a-connected", **SYRE),
        },
    ),
    Sentence(
        "Within one σ_F a neuron keeps its place where its cheapest swap is costly: of one that does and one that does "
        "not, the first has the costlier swap in {kept:%} of cases. A neuron that moves goes where {partner:%} of its "
        "swaps are cheaper; with weights fixed at 0, {control:%}.",
        _NEURONS,
        "In pairs of a neuron that keeps its place and one that does not, the first has the costlier cheapest swap in "
        "{kept:%} of cases within one σ_F. A neuron that moves goes where {partner:%} of its swaps are cheaper; "
        "with weights fixed at 0, {control:%}.",
    ),
    Sentence(
        "Over all kinds of networks, the barrier before alignment has a rank correlation of {identity} with how near "
        "the identity comes to the optimal matching, and of {cost} with the median swap cost. At −1, more identifiable "
        "neurons always mean a lower barrier.",
        {"identity": _at("thesis-identity"), "cost": _at("thesis-swap-cost")},
    ),
    Sentence(
        "The identity, neuron i with neuron i, comes {masks:%} of the way from random pairings to the optimal one with "
        "weights fixed at 0 (σ_F = 0) and {fixed:%} with σ_F = 1. It passes one half at σ_F = {transition}.",
        {
            "masks": _at("3a-unbroken", **_fixed(0)),
            "fixed": _at("3a-identifiable", **_fixed(1)),
            "transition": _at("3a-transition"),
        },
    ),
    Sentence(
        "In networks that share nothing but F and D it comes {untrained:%} of that way before any training (σ_F = 1).",
        {"untrained": _at("3c-untrained", **_fixed(1))},
    ),
    Sentence(
        "After alignment train accuracy drops by {standard} points for standard networks, {masks} with σ_F = 0, {half} "
        "with σ_F = 0.5 and {sigma} for σ-MLPs.",
        {
            "standard": _at("4c-aligned", **STANDARD),
            "masks": _at("4c-aligned", **_fixed(0)),
            "half": _at("4c-aligned", **_fixed(0.5)),
            "sigma": _at("4c-sigma"),
        },
    ),
    Sentence(
        "The largest σ_F costs {price} points of validation accuracy against the best σ_F of the sweep.",
        {"price": _at("sec4.5-trade-off")},
    ),
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
