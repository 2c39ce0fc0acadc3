"""Claims about activation-matching objectives: Figs. 3, 7 to 10."""

from __future__ import annotations

import math
from functools import partial

from symlab.claims import matching
from symlab.papers.claim import Claim, at_least, at_most, between
from symlab.claims.neuron_identifiability.stated import SYRE_FROM_1, W_0, W_FROM_1, W, stated
from symlab.claims.variants import apart_from_fractions, scheme, sigma_mlp, smallest_sigma

NO_IDENTITY = "The paper's ratio starts near 0 at sigma_F = 0; less than a sixth of the optimum is read as near 0."
NEAR_OPTIMAL = (
    "The paper calls the identity nearly optimal for large enough sigma_F; a tenth is left for noise between runs."
)
RANDOM_IS_ZERO = (
    "A random permutation pairs unrelated neurons, which correlate 0 on average; "
    "0.05 is small beside the optimum of any trained network."
)
ALL_STAGES = (
    "The paper says the trend holds at all stages of training; looser than at the end, because the weights still move."
)


def _against_sigma_F(figure: str, layerwise: bool, large: float) -> tuple[Claim, ...]:
    """Objectives against sigma_F at the end of training (Figs. 3a, 3b, 8, 9)."""
    where = "in the worst layer" if layerwise else "averaged over layers"
    measure = partial(matching.at_the_end, layerwise=layerwise)
    ratio = matching.identity_over_optimal
    from_large = apart_from_fractions(scheme("w_asymmetric", large, math.inf))
    return (
        stated(
            f"{figure}-unbroken",
            figure,
            f"At sigma_F = 0 the identity is far from the optimal matching: ratio of their objectives {where}",
            at_most(0.15),
            NO_IDENTITY,
            "matching.csv",
            partial(measure, which=W_0, quantity=ratio, worst=matching.LARGEST),
        ),
        stated(
            f"{figure}-identifiable",
            figure,
            f"At sigma_F of {large:g} and more the identity is nearly optimal: ratio of the objectives {where}",
            at_least(0.9),
            NEAR_OPTIMAL,
            "matching.csv",
            partial(measure, which=from_large, quantity=ratio, worst=matching.SMALLEST),
        ),
        stated(
            f"{figure}-random",
            figure,
            f"Random permutations stay near an objective of 0 at every sigma_F: objective {where}",
            between(-0.05, 0.05),
            RANDOM_IS_ZERO,
            "matching.csv",
            partial(measure, which=W, quantity=matching.random_alone, worst=matching.FARTHEST_FROM_ZERO),
        ),
    )


def _against_epoch(figure: str, layerwise: bool) -> tuple[Claim, ...]:
    """Objectives against the epoch (Figs. 3c, 7)."""
    where = "in the worst layer" if layerwise else "averaged over layers"
    measure = partial(matching.through_training, quantity=matching.identity_over_optimal, layerwise=layerwise)
    return (
        stated(
            f"{figure}-unbroken",
            figure,
            f"At sigma_F = 0 the identity stays far from optimal after the first few epochs: largest ratio {where}",
            at_most(0.25),
            ALL_STAGES,
            "matching.csv",
            partial(measure, which=W_0, worst=matching.LARGEST),
        ),
        stated(
            f"{figure}-identifiable",
            figure,
            "At the smallest sigma_F of 1 or more the identity is near the optimum "
            f"after the first few epochs: smallest ratio {where}",
            at_least(0.75),
            ALL_STAGES,
            "matching.csv",
            partial(measure, which=smallest_sigma(W_FROM_1), worst=matching.SMALLEST),
        ),
    )


FIG_7_OTHERS = (
    stated(
        "7-sigma",
        "7",
        "In sigma-MLPs the identity is no better than random permutations after the first "
        "few epochs: largest difference of the objectives in any layer",
        between(-0.05, 0.05),
        "The paper finds the identity's objective no higher than that of random "
        "permutations; 0.05 is the room given to noise.",
        "matching.csv",
        partial(
            matching.through_training,
            which=sigma_mlp,
            quantity=matching.identity_above_random,
            worst=matching.FARTHEST_FROM_ZERO,
            layerwise=True,
        ),
    ),
    stated(
        "7-syre",
        "7",
        "In syre networks with sigma_F of 1 and more the identity ends nearly "
        "optimal: ratio of the objectives in the worst layer",
        at_least(0.9),
        NEAR_OPTIMAL,
        "matching.csv",
        partial(
            matching.at_the_end,
            which=SYRE_FROM_1,
            quantity=matching.identity_over_optimal,
            worst=matching.SMALLEST,
            layerwise=True,
        ),
    ),
)

EVERY_W_0 = scheme("w_asymmetric", 0, 0)
EVERY_W_1 = scheme("w_asymmetric", 1, 1)

FIG_10 = (
    stated(
        "10-sparse",
        "10",
        "Sparsity without fixed weights does not give identifiability: ratio of "
        "identity to optimal objective in the worst layer at sigma_F = 0",
        at_most(0.25),
        "The paper says sparsity alone does not yield strong identifiability; a quarter of the optimum is not strong.",
        "matching.csv",
        partial(
            matching.at_the_end,
            which=lambda table: EVERY_W_0(table) & table["fixed_fraction"].notna(),
            quantity=matching.identity_over_optimal,
            worst=matching.LARGEST,
            layerwise=True,
        ),
    ),
    stated(
        "10-fixed",
        "10",
        "At sigma_F = 1, fixing 5 % of the weights or more does: ratio of "
        "identity to optimal objective in the worst layer",
        at_least(0.75),
        "The paper finds that it takes fixed weights of large scale; looser "
        "than in Fig. 3, because few of them are fixed here.",
        "matching.csv",
        partial(
            matching.at_the_end,
            which=lambda table: EVERY_W_1(table) & (table["fixed_fraction"] >= 0.05),
            quantity=matching.identity_over_optimal,
            worst=matching.SMALLEST,
            layerwise=True,
        ),
    ),
)

CLAIMS = (
    *_against_sigma_F("3a", layerwise=False, large=1),
    *_against_sigma_F("3b", layerwise=False, large=2),
    *_against_epoch("3c", layerwise=False),
    *_against_epoch("7", layerwise=True),
    *FIG_7_OTHERS,
    *_against_sigma_F("8", layerwise=True, large=1),
    *_against_sigma_F("9", layerwise=True, large=2),
    *FIG_10,
)
