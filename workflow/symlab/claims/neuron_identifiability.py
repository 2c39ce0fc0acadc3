"""The claims of "Beyond Structural Symmetries: Linear Mode Connectivity via Neuron Identifiability" (arXiv 2606.04754).

Each threshold turns a sentence or a figure of the paper into a number; the reason beside each says how it follows from
the paper. All were fixed before the first run but one: the near-zero bound of Fig. 5 was one-sided and got a lower end
after it, which made it stricter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from symlab.claims import centres, coherence, connectivity, matching, swap_costs
from symlab.claims.claim import (
    Bound,
    Claim,
    Measurement,
    Tables,
    above,
    at_least,
    at_most,
    below,
    between,
    bounded,
)
from symlab.claims.variants import any_of, apart_from_fractions, scheme, sigma_mlp, smallest_sigma

STANDARD = scheme("standard")
W = apart_from_fractions(scheme("w_asymmetric"))
W_0 = apart_from_fractions(scheme("w_asymmetric", 0, 0))
W_1 = apart_from_fractions(scheme("w_asymmetric", 1, 1))
W_FROM_1 = apart_from_fractions(scheme("w_asymmetric", 1, math.inf))
W_FROM_2 = apart_from_fractions(scheme("w_asymmetric", 2, math.inf))
SYRE = scheme("syre")
SYRE_1 = scheme("syre", 1, 1)
SYRE_FROM_1 = scheme("syre", 1, math.inf)
SYRE_FROM_2 = scheme("syre", 2, math.inf)

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
LOW_COST = "Low-cost swaps are counted as those below a tenth of the layer's own median, so that no scale enters."


def _claim(
    id: str,
    figure: str,
    statement: str,
    bound: Bound,
    reason: str,
    table: str,
    measure: Callable[[Tables], list[Measurement]],
    also: tuple[str, ...] = (),
) -> Claim:
    return Claim(id, figure, statement, bound.text, reason, (table,), bounded(measure, bound), also)


def _sweep(figure: str, layerwise: bool, large: float) -> tuple[Claim, ...]:
    """Objectives against sigma_F at the end of training (Figs. 3a, 3b, 8, 9)."""
    where = "in the worst layer" if layerwise else "averaged over layers"
    measure = partial(matching.at_the_end, layerwise=layerwise)
    ratio = matching.identity_over_optimal
    from_large = apart_from_fractions(scheme("w_asymmetric", large, math.inf))
    return (
        _claim(
            f"{figure}-unbroken",
            figure,
            f"At sigma_F = 0 the identity is far from the optimal matching: ratio of their objectives {where}",
            at_most(0.15),
            NO_IDENTITY,
            "matching.csv",
            partial(measure, which=W_0, quantity=ratio, worst=matching.LARGEST),
        ),
        _claim(
            f"{figure}-identifiable",
            figure,
            f"At sigma_F of {large:g} and more the identity is nearly optimal: ratio of the objectives {where}",
            at_least(0.9),
            NEAR_OPTIMAL,
            "matching.csv",
            partial(measure, which=from_large, quantity=ratio, worst=matching.SMALLEST),
        ),
        _claim(
            f"{figure}-random",
            figure,
            f"Random permutations stay near an objective of 0 at every sigma_F: objective {where}",
            between(-0.05, 0.05),
            RANDOM_IS_ZERO,
            "matching.csv",
            partial(measure, which=W, quantity=matching.random_alone, worst=matching.FARTHEST_FROM_ZERO),
        ),
    )


def _epochs(figure: str, layerwise: bool) -> tuple[Claim, ...]:
    """Objectives against the epoch (Figs. 3c, 7)."""
    where = "in the worst layer" if layerwise else "averaged over layers"
    measure = partial(matching.through_training, quantity=matching.identity_over_optimal, layerwise=layerwise)
    return (
        _claim(
            f"{figure}-unbroken",
            figure,
            f"At sigma_F = 0 the identity stays far from optimal after the first few epochs: largest ratio {where}",
            at_most(0.25),
            ALL_STAGES,
            "matching.csv",
            partial(measure, which=W_0, worst=matching.LARGEST),
        ),
        _claim(
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
    _claim(
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
    _claim(
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

FIG_4 = (
    _claim(
        "4a-barrier",
        "4a",
        "Unaligned, two standard networks or two with sigma_F = 0 cannot be averaged: largest "
        "drop of train accuracy on the line between them, mean over pairs",
        at_least(10, "pp"),
        "The paper calls these barriers high; ten percentage points are far more than networks of one kind differ by.",
        "barriers.csv",
        partial(connectivity.accuracy_drop, which=any_of(STANDARD, W_0), aligned=False),
        also=("4",),
    ),
    _claim(
        "4a-connected",
        "4a",
        "Unaligned, two networks with sigma_F of 1 and more can be averaged: largest drop "
        "of train accuracy on the line between them, mean over pairs",
        at_most(3, "pp"),
        "The paper says unaligned connectivity is achieved for large sigma_F; "
        "connected is read as less than a third of a high barrier.",
        "barriers.csv",
        partial(connectivity.accuracy_drop, which=any_of(W_FROM_1, SYRE_FROM_1), aligned=False),
        also=("4",),
    ),
    _claim(
        "4c-aligned",
        "4c",
        "Aligned, every pair of networks can be averaged: largest drop of train "
        "accuracy on the line between them, mean over pairs",
        at_most(3, "pp"),
        "The paper says all models have reasonably low barriers once aligned; "
        "the same few points as for the identifiable ones.",
        "barriers.csv",
        partial(connectivity.accuracy_drop, which=any_of(STANDARD, W, SYRE), aligned=True),
        also=("4",),
    ),
)


def _gmm_swap_costs(figure: str, table: str, also: tuple[str, ...]) -> tuple[Claim, ...]:
    """Swap costs of all pairs on Gaussian mixtures (Fig. 5 = 14)."""
    return (
        _claim(
            f"{figure}-negative",
            figure,
            "At sigma_F = 0 many swaps lower the cost: share of negative swap costs in layer 1",
            at_least(0.1),
            "The paper finds near-zero and negative costs to dominate; ten percent is more than stray pairs.",
            table,
            partial(swap_costs.share_by_k, table=table, which=W_0, statistic=swap_costs.negative_share),
            also,
        ),
        _claim(
            f"{figure}-near-zero",
            figure,
            "At sigma_F = 0 swaps are cheap: median swap cost in layer 1 as a fraction of that at sigma_F = 1",
            between(-0.1, 0.1),
            "The paper finds near-zero costs to dominate at sigma_F = 0; near zero is "
            "read as an order of magnitude below sigma_F = 1.",
            table,
            partial(swap_costs.median_ratio_by_k, table=table, small=W_0, large=W_1),
            also,
        ),
        _claim(
            f"{figure}-growth",
            figure,
            "At sigma_F = 1 swaps cost more the larger k is: smallest step "
            "between the median layer-1 costs at k = 2, 8, 32",
            above(0),
            "The paper finds a strong dependence on k in this order; no size "
            "is stated, so only the order is asked for.",
            table,
            partial(swap_costs.median_growth_with_k, table=table, which=W_1, pairs=swap_costs.every_pair),
            also,
        ),
        _claim(
            f"{figure}-cheap-swaps",
            figure,
            "At sigma_F = 1 low-cost swaps are more common at k = 2 than at k "
            "= 32: difference of their shares in layer 1",
            above(0),
            f"The paper finds many low-cost swaps at k = 2 and none off the diagonal at k = 32. {LOW_COST}",
            table,
            partial(swap_costs.cheap_share_fall, table=table, which=W_1),
            also,
        ),
        _claim(
            f"{figure}-diagonal",
            figure,
            "At sigma_F = 1 and k = 32 only the diagonal is cheap: share of low-cost swaps off it in layer 1",
            at_most(0.01),
            f"The paper finds only the diagonal at low cost; one pair in a hundred is left for chance. {LOW_COST}",
            table,
            partial(swap_costs.cheap_share_at, table=table, which=W_1, k=32),
            also,
        ),
    )


FIG_5_DROP = Claim(
    "5-drop",
    "5",
    "At sigma_F = 1 the unaligned midpoint drop of train accuracy falls with k: "
    "smaller of the steps from k = 2 to 8 and from 8 to 32",
    "k = 2 above k = 8, k = 8 not below k = 32",
    "The paper's drops are 46.4, 15.7 and 6.1 percentage points; their size "
    "depends on the mixture, their order is the claim.",
    ("barriers.csv",),
    partial(connectivity.drop_falls_with_k, which=W_1, ks=swap_costs.INTRINSIC_DIMENSIONS),
    also=("14",),
)

FIG_6 = (
    _claim(
        "6-ends",
        "6",
        "With F = 0, coherent data make networks connected: midpoint test-loss "
        "barrier at nu = 1 as a fraction of that at nu = 0.1",
        below(0.2),
        "The paper calls the barrier high at low and low at high coherence; a factor of five tells high from low.",
        "barriers.csv",
        connectivity.coherent_over_incoherent,
    ),
    _claim(
        "6-trend",
        "6",
        "With F = 0, the mean midpoint barrier falls as nu rises: Spearman correlation over the levels of nu",
        at_most(-0.9),
        "The paper says connectivity depends on coherence in this direction, for both "
        "embeddings; -0.9 lets neighbouring levels change places.",
        "barriers.csv",
        connectivity.barrier_against_coherence,
    ),
)

EVERY_W_0 = scheme("w_asymmetric", 0, 0)
EVERY_W_1 = scheme("w_asymmetric", 1, 1)

FIG_10 = (
    _claim(
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
    _claim(
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

FIG_11 = (
    *(
        _claim(
            f"11-k{k}",
            "11",
            "The centre gap gamma_out falls with the width m as m^(-2/k) at k = "
            f"{k}: slope of log mean gamma_out against log m",
            between(-2.5 / k, -1.5 / k),
            f"Theorem 4.6 predicts {-2 / k:g}; a quarter of it is left for finite widths.",
            "centre_gaps.csv",
            partial(centres.slopes, k=k),
        )
        for k in (2, 8)
    ),
    _claim(
        "11-k32",
        "11",
        "The centre gap gamma_out falls slowly with the width m at k = 32: slope of log mean gamma_out against log m",
        between(-0.15, -0.05),
        "Theorem 4.6 predicts -0.0625 for m to infinity; up to some thousand neurons the gap falls more steeply.",
        "centre_gaps.csv",
        partial(centres.slopes, k=32),
    ),
)

FIG_12 = (
    _claim(
        "12-positive",
        "12",
        "Swaps in networks with sigma_F = 1 cost something: share of positive swap costs in layer 1, consecutive pairs",
        at_least(0.95),
        "The figure's point is positive costs at W 1 and syre 1; one pair in twenty is left for outliers.",
        "swap_costs.parquet",
        partial(
            swap_costs.share_in_first_layer,
            which=any_of(W_1, SYRE_1),
            pairs=swap_costs.consecutive,
            statistic=swap_costs.positive_share,
        ),
    ),
    _claim(
        "12-large",
        "12",
        "Swaps in networks with sigma_F = 1 are expensive: median swap cost in multiples of the "
        "largest |median| of standard networks and sigma_F = 0, consecutive pairs",
        at_least(10),
        "The figure's point is large costs at W 1 and syre 1 beside costs around "
        "zero; large is read as an order of magnitude more.",
        "swap_costs.parquet",
        partial(
            swap_costs.median_over_baselines,
            which=any_of(W_1, SYRE_1),
            baselines=any_of(STANDARD, W_0),
            pairs=swap_costs.consecutive,
        ),
    ),
    _claim(
        "12-around-zero",
        "12",
        "Swap costs of standard networks and sigma_F = 0 lie around zero: distance of the interquartile range of "
        "signed square roots from 0, in units of the median at W sigma_F = 1, consecutive pairs",
        at_most(0.1),
        "The figure's point is costs around zero; around is read as within a "
        "tenth of the median at W 1, on the scale of the plot.",
        "swap_costs.parquet",
        partial(
            swap_costs.relative_by_layer,
            which=any_of(STANDARD, W_0),
            statistic=swap_costs.box_gap_to_zero,
            reference=W_1,
            reference_statistic=swap_costs.median_root,
            pairs=swap_costs.consecutive,
        ),
    ),
)

FIG_13 = (
    _claim(
        "13-sigma",
        "13",
        "Swaps cost more at sigma_F = 1 than at sigma_F = 0: difference of the median layer-1 costs, consecutive pairs",
        above(0),
        "The finding of Fig. 5 on the pairs of this figure; no size is stated, so only the order is asked for.",
        "swap_costs.parquet",
        partial(
            swap_costs.median_excess_by_k,
            table="swap_costs.parquet",
            small=W_0,
            large=W_1,
            pairs=swap_costs.consecutive,
        ),
    ),
    _claim(
        "13-growth",
        "13",
        "At sigma_F = 1 swaps cost more the larger k is: smallest step between the "
        "median layer-1 costs at k = 2, 8, 32, consecutive pairs",
        above(0),
        "The finding of Fig. 5 on the pairs of this figure; no size is stated, so only the order is asked for.",
        "swap_costs.parquet",
        partial(swap_costs.median_growth_with_k, table="swap_costs.parquet", which=W_1, pairs=swap_costs.consecutive),
    ),
)

FIG_16_TO_19 = (
    _claim(
        "16-zero",
        "16",
        "In standard networks every swap is free: largest |swap cost| among the first "
        "128 neurons, in units of the median at W sigma_F = 1",
        at_most(1e-6),
        "With F = 0 and D = 1 all neurons have the same functions at the same cost, so the costs are zero up to "
        "rounding, whatever the weights: this one checks the implementation.",
        "swap_costs.parquet",
        partial(
            swap_costs.relative_by_layer,
            which=STANDARD,
            statistic=swap_costs.largest,
            reference=W_1,
            reference_statistic=swap_costs.median,
            pairs=swap_costs.first_block,
        ),
    ),
    _claim(
        "17-negative",
        "17",
        "At sigma_F = 0 many swaps lower the cost: share of negative costs "
        "among the first 128 neurons in the layer with most",
        at_least(0.1),
        "As in Fig. 5, negative costs are to be common at sigma_F = 0; ten percent is more than stray pairs.",
        "swap_costs.parquet",
        partial(
            swap_costs.largest_share_over_layers,
            which=W_0,
            pairs=swap_costs.first_block,
            statistic=swap_costs.negative_share,
        ),
    ),
    *(
        _claim(
            f"{figure}-positive",
            figure,
            f"In {name} networks at sigma_F = 1 swaps cost something: share of "
            "positive costs among the first 128 neurons",
            at_least(0.9),
            "Costs at sigma_F = 1 are to be positive off the diagonal in each "
            "layer; one pair in ten is left for exceptions.",
            "swap_costs.parquet",
            partial(
                swap_costs.share_by_layer,
                which=architecture,
                pairs=swap_costs.first_block,
                statistic=swap_costs.positive_share,
            ),
        )
        for figure, name, architecture in (("18", "W-asymmetric", W_1), ("19", "syre", SYRE_1))
    ),
)

FIG_21 = tuple(
    _claim(
        f"21-{point}",
        "21",
        f"At the end of training, networks with sigma_F = 1 hold a higher coherence nu {where} than "
        "standard ones and sigma_F = 0: difference from the higher of the two",
        above(0),
        "The paper says variants without effective symmetry breaking have low coherence in "
        "later layers; no size is stated, so only the order is asked for.",
        "subspaces.csv",
        partial(measure, which=any_of(W_1, SYRE_1), baselines=(STANDARD, W_0)),
    )
    for point, where, measure in (
        ("hidden", "at the last hidden layer", coherence.excess_at_last_hidden),
        ("output", "at the output", coherence.excess_at_output),
    )
)

# Figures of networks and estimators that the MLP pipeline lacks: studies cannot list them until they are drawn.
RESNET_AND_VIT = (
    *_sweep("3b", layerwise=False, large=2),
    *_sweep("9", layerwise=True, large=2),
    _claim(
        "4b-barrier",
        "4b",
        "Unaligned, two standard ResNets or two with sigma_F = 0 cannot be averaged: largest "
        "drop of train accuracy on the line between them, mean over pairs",
        at_least(10, "pp"),
        "The paper calls these barriers high; for large sigma_F it claims "
        "connectivity only to some degree, so no bound is set there.",
        "barriers.csv",
        partial(connectivity.accuracy_drop, which=any_of(STANDARD, W_0), aligned=False),
    ),
    _claim(
        "4d-aligned",
        "4d",
        "Aligned, every pair of ResNets can be averaged: largest drop of train "
        "accuracy on the line between them, mean over pairs",
        at_most(10, "pp"),
        "The paper calls the aligned barriers reasonably low: below what counts as high in Fig. 4b.",
        "barriers.csv",
        partial(connectivity.accuracy_drop, which=any_of(STANDARD, W_0, W_FROM_2, SYRE_FROM_2), aligned=True),
    ),
    _claim(
        "20-barrier",
        "20",
        "Unaligned, standard vision transformers and those with sigma_F = 0 have a "
        "pronounced barrier: midpoint drop of train accuracy, mean over pairs",
        at_least(10, "pp"),
        "The paper calls the barrier pronounced and finds masks alone to match it; ten points as in Fig. 4.",
        "barriers.csv",
        partial(connectivity.accuracy_drop, which=any_of(STANDARD, W_0), aligned=False, column="drop_mid_pp"),
    ),
)

CLAIMS: tuple[Claim, ...] = (
    *_sweep("3a", layerwise=False, large=1),
    *_epochs("3c", layerwise=False),
    *FIG_4,
    *_gmm_swap_costs("5", "swap_costs.parquet", also=("14",)),
    FIG_5_DROP,
    *FIG_6,
    *_epochs("7", layerwise=True),
    *FIG_7_OTHERS,
    *_sweep("8", layerwise=True, large=1),
    *FIG_10,
    *FIG_11,
    *FIG_12,
    *FIG_13,
    *_gmm_swap_costs("15", "ridge_swap_costs.parquet", also=()),
    *FIG_16_TO_19,
    *FIG_21,
    *RESNET_AND_VIT,
)
