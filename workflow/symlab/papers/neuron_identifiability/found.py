"""What a report says first of this paper, from the values that its claims measure; its words; the paper's own sizes.

Every start of the workflow reads this module, so it imports nothing heavy.
"""

from __future__ import annotations

from symlab.study.card import Sentence


def _of(**values: tuple[str, str]) -> dict[str, tuple[str, str]]:
    return {name: (f"identifiability-{claim}", case) for name, (claim, case) in values.items()}


HEADING = "Give every neuron a name tag, and networks can be averaged"
HEADLINE = (
    Sentence(
        "Averaging two networks trained from different seeds loses **{standard:~} points** of train accuracy. If a few "
        "weights of each neuron are fixed at the same random values in both (its name tag), the average loses "
        "{fixed:~}.",
        _of(standard=("4a-barrier", "standard"), fixed=("4a-connected", "W σ_F = 1")),
    ),
    Sentence(
        "The more the tags hold neurons in place, the smaller the loss (rank correlation {identity:~}).",
        _of(identity=("thesis-identity", "")),
        "How firmly the tags hold neurons in place and how little is lost have a rank correlation of {identity:~}; "
        "the paper expects one near −1.",
    ),
    Sentence(
        "But the strongest tags cost at least {price:~} points of validation accuracy.",
        _of(price=("sec4.5-trade-off", "")),
        "The strongest tags cost {price:~} points of validation accuracy.",
    ),
)
THUMBNAIL = ("identifiability-thesis", 0)

FOUND = (
    Sentence(
        "Averaging two networks from different seeds costs {standard} percentage points of train accuracy, {masks} if "
        "some of their weights are fixed at 0 (masks alone, σ_F = 0), {fixed} if they are fixed at random values of "
        "scale σ_F = 1, and {syre} in syre networks.",
        _of(
            standard=("4a-barrier", "standard"),
            masks=("4a-barrier", "W σ_F = 0"),
            fixed=("4a-connected", "W σ_F = 1"),
            syre=("4a-connected", "syre σ_F = 1"),
        ),
    ),
    Sentence(
        "Over all kinds of networks, the barrier before alignment has a rank correlation of {identity} with the "
        "identity's share of the optimal matching, and of {cost} with the median swap cost. At −1, more identifiable "
        "neurons always mean a lower barrier.",
        _of(identity=("thesis-identity", ""), cost=("thesis-swap-cost", "")),
    ),
    Sentence(
        "The identity matching reaches {masks:%} of the optimal one without fixed weights and {fixed:%} with σ_F = 1. "
        "It passes one half at σ_F = {transition}.",
        _of(
            masks=("3a-unbroken", "W σ_F = 0"), fixed=("3a-identifiable", "W σ_F = 1"), transition=("3a-transition", "")
        ),
    ),
    Sentence(
        "Before any training, two networks that share F and D alone already have {untrained:%} of the optimal matching "
        "at the identity (σ_F = 1).",
        _of(untrained=("3c-untrained", "W σ_F = 1")),
    ),
    Sentence(
        "After alignment the average costs {standard} points for standard networks, {masks} with σ_F = 0, {half} with "
        "σ_F = 0.5 and {sigma} for σ-MLPs.",
        _of(
            standard=("4c-aligned", "standard"),
            masks=("4c-aligned", "W σ_F = 0"),
            sigma=("4c-sigma", "σ-MLP"),
            half=("4c-aligned", "W σ_F = 0.5"),
        ),
    ),
    Sentence(
        "The largest σ_F costs at least {price} points of validation accuracy against the best σ_F of the sweep (the "
        "difference less three standard errors).",
        _of(price=("sec4.5-trade-off", "")),
    ),
)

TERMS = (
    ("W_eff = F + D * W", "weights of every layer: F and D are fixed and shared by all runs, W is trained"),
    ("F, σ_F", "fixed weights, drawn once with the standard deviation σ_F; 0 where there are none"),
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
    ("barrier, drop", "how much worse the network halfway between two trained networks is than those two"),
    ("pp", "percentage points"),
    ("ν", "coherence of the subspace in which a layer's inputs lie: 1 along single inputs, k/d spread over all"),
    ("k", "dimension of that subspace: the directions that carry 90 % of the variance"),
)

SCALE = "MNIST, three layers of 512 neurons, 8 pairs, 100 epochs; ResNet20 of eightfold width and ViT on CIFAR-10"
