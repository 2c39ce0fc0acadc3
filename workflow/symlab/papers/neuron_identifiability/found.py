"""What a study found of the paper, in sentences with the measured values, and the words that they use."""

from __future__ import annotations

from symlab.study.card import Sentence


def _of(**values: tuple[str, str]) -> dict[str, tuple[str, str]]:
    return {name: (f"identifiability-{claim}", case) for name, (claim, case) in values.items()}


FOUND = (
    Sentence(
        "Averaging two networks trained from different seeds costs {standard} percentage points of train accuracy; "
        "with masks alone (σ_F = 0), which break the permutation symmetry too, {masks}; with fixed weights of scale "
        "σ_F = 1 it costs {fixed}, in syre networks {syre}.",
        _of(
            standard=("4a-barrier", "standard"),
            masks=("4a-barrier", "W σ_F = 0"),
            fixed=("4a-connected", "W σ_F = 1"),
            syre=("4a-connected", "syre σ_F = 1"),
        ),
    ),
    Sentence(
        "Over all kinds of networks, the unaligned barrier has a rank correlation of {identity} with the identity's "
        "share of the optimal matching, and of {cost} with the median swap cost (-1: the more identifiable the "
        "neurons, the lower the barrier).",
        _of(identity=("thesis-identity", ""), cost=("thesis-swap-cost", "")),
    ),
    Sentence(
        "Without fixed weights the identity reaches {masks:%} of the optimal matching, and {fixed:%} with σ_F = 1; it "
        "passes one half at σ_F = {transition}.",
        _of(
            masks=("3a-unbroken", "W σ_F = 0"), fixed=("3a-identifiable", "W σ_F = 1"), transition=("3a-transition", "")
        ),
    ),
    Sentence(
        "Before any training, when both networks have nothing in common but F and D, the identity is at {untrained:%} "
        "of the optimum with σ_F = 1.",
        _of(untrained=("3c-untrained", "W σ_F = 1")),
    ),
    Sentence(
        "Aligned, standard networks lose {standard} points and {masks} with σ_F = 0; σ-MLPs {sigma}. In between "
        "aligning helps little or hurts: {half} points are lost with σ_F = 0.5.",
        _of(
            standard=("4c-aligned", "standard"),
            masks=("4c-aligned", "W σ_F = 0"),
            sigma=("4c-sigma", "σ-MLP"),
            half=("4c-aligned", "W σ_F = 0.5"),
        ),
    ),
    Sentence(
        "At the largest σ_F validation accuracy is at least {price} points below the best of the sweep over σ_F "
        "(the difference less three standard errors).",
        _of(price=("sec4.5-trade-off", "")),
    ),
)

TERMS = (
    ("W_eff = F + D * W", "weights of every layer: F and D are fixed and shared by all runs, W is trained"),
    ("F, σ_F", "fixed weights, drawn once with the standard deviation σ_F; 0 where there are none"),
    ("D", "mask or scale of each trained weight, drawn once"),
    ("W-asymmetric", "a few weights of each neuron are fixed at F, masked out of training; the others are free"),
    ("syre", "all weights are trained, each with a fixed part F added to it"),
    ("σ-MLP", "no fixed weights; a nonlinearity x * sigmoid(Cx) that mixes neurons by a fixed matrix C"),
    (
        "optimal, identity matching",
        "pair each neuron of one network with the most alike of the other; with the one at its own place",
    ),
    ("identifiable", "a neuron does the same in every run at the same place: the identity is as good as the optimum"),
    ("swap cost", "by how much the squared weight norm must grow for two neurons to exchange their functions"),
    ("barrier, drop", "what is lost on the straight line between two networks, beside what its ends have"),
    ("pp", "percentage points"),
    ("ν", "coherence of the subspace in which a layer's inputs lie: 1 along single inputs, k/d spread over all"),
    ("k", "dimension of that subspace: what carries 90 % of the variance"),
)

SCALE = (
    "MLPs with three hidden layers of 512 neurons on MNIST, 100 epochs, 8 pairs of networks; ResNet20 of eightfold "
    "width and a vision transformer on CIFAR-10"
)

PICTURES = ("identifiability-4", "identifiability-thesis")
