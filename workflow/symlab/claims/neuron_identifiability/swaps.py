"""Claims about what it costs to swap neurons: Figs. 5 (= 14), 12, 13, 15 to 19, by Mahalanobis distances and by ridge.

Ridge costs are those at the reported beta, which the details name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from symlab.claims import connectivity, swap_costs
from symlab.papers.claim import Claim, Measurement, Tables, above, at_least, at_most, between
from symlab.claims.neuron_identifiability.stated import STANDARD, SYRE_1, W_0, W_1, stated
from symlab.claims.ridge import MAHALANOBIS, RIDGE, at_reported_beta
from symlab.claims.variants import Mask, any_of

LOW_COST = "Low-cost swaps are counted as those below a tenth of the layer's own median, so that no scale enters."
FROZEN_NORMS = (
    "By ridge regression a swap costs something even where F = 0 and D = 1, because the batch norms, which are left "
    "fixed, give neurons scales and offsets of their own."
)
# What is added to ids and statements, and the table, of either estimator.
ESTIMATORS = (("", "", MAHALANOBIS), ("ridge-", ", ridge estimate", RIDGE))


def _measured(
    measure: Callable[..., list[Measurement]], table: str, **settings: Any
) -> Callable[[Tables], list[Measurement]]:
    """The measurement on one estimator's table; of ridge costs, on the reported beta alone."""
    measured = partial(measure, table=table, **settings)
    return at_reported_beta(measured) if table == RIDGE else measured


def _gmm_swap_costs(figure: str, estimate: str, table: str, also: tuple[str, ...]) -> tuple[Claim, ...]:
    """Swap costs of all pairs on Gaussian mixtures (Fig. 5 = 14; by ridge regression Fig. 15)."""
    return (
        stated(
            f"{figure}-negative",
            figure,
            f"At sigma_F = 0 many swaps lower the cost: share of negative swap costs in layer 1{estimate}",
            at_least(0.1),
            "The paper finds near-zero and negative costs to dominate; ten percent is more than stray pairs.",
            table,
            _measured(swap_costs.share_by_k, table, which=W_0, statistic=swap_costs.negative_share),
            also,
        ),
        stated(
            f"{figure}-near-zero",
            figure,
            "At sigma_F = 0 swaps are cheap: median swap cost in layer 1 as a fraction "
            f"of that at sigma_F = 1{estimate}",
            between(-0.1, 0.1),
            "The paper finds near-zero costs to dominate at sigma_F = 0; near zero is "
            "read as an order of magnitude below sigma_F = 1.",
            table,
            _measured(swap_costs.median_ratio_by_k, table, small=W_0, large=W_1),
            also,
        ),
        stated(
            f"{figure}-growth",
            figure,
            "At sigma_F = 1 swaps cost more the larger k is: smallest step "
            f"between the median layer-1 costs at k = 2, 8, 32{estimate}",
            above(0),
            "The paper finds a strong dependence on k in this order; no size "
            "is stated, so only the order is asked for.",
            table,
            _measured(swap_costs.median_growth_with_k, table, which=W_1, pairs=swap_costs.every_pair),
            also,
        ),
        stated(
            f"{figure}-cheap-swaps",
            figure,
            "At sigma_F = 1 low-cost swaps are more common at k = 2 than at k "
            f"= 32: difference of their shares in layer 1{estimate}",
            above(0),
            f"The paper finds many low-cost swaps at k = 2 and none off the diagonal at k = 32. {LOW_COST}",
            table,
            _measured(swap_costs.cheap_share_fall, table, which=W_1),
            also,
        ),
        stated(
            f"{figure}-diagonal",
            figure,
            "At sigma_F = 1 and k = 32 only the diagonal is cheap: share of low-cost swaps off it "
            f"in layer 1{estimate}",
            at_most(0.01),
            f"The paper finds only the diagonal at low cost; one pair in a hundred is left for chance. {LOW_COST}",
            table,
            _measured(swap_costs.cheap_share_at, table, which=W_1, k=32),
            also,
        ),
    )


def _around_zero(figure: str, which: Mask, networks: str, pairs: swap_costs.Pairs) -> Claim:
    """Ridge costs where nothing breaks the symmetry (Figs. 12, 16, 17)."""
    among = "consecutive pairs" if pairs is swap_costs.consecutive else "first 128 neurons"
    return stated(
        f"{figure}-ridge-around-zero",
        figure,
        f"Swap costs of {networks} lie around zero: how far from 0 their interquartile range reaches on either side, "
        f"in units of the median at W sigma_F = 1, {among}, ridge estimate",
        at_most(0.1),
        f"{FROZEN_NORMS} Around zero is therefore measured by the costs that the same plot shows at W 1, and read as "
        "an order of magnitude below them.",
        RIDGE,
        _measured(
            swap_costs.relative_by_layer,
            RIDGE,
            which=which,
            statistic=swap_costs.middle_half,
            reference=W_1,
            reference_statistic=swap_costs.median,
            pairs=pairs,
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

FIG_12 = (
    *(
        claim
        for name, estimate, table in ESTIMATORS
        for claim in (
            stated(
                f"12-{name}positive",
                "12",
                "Swaps in networks with sigma_F = 1 cost something: share of positive swap costs in layer 1, "
                f"consecutive pairs{estimate}",
                at_least(0.95),
                "The figure's point is positive costs at W 1 and syre 1; one pair in twenty is left for outliers.",
                table,
                _measured(
                    swap_costs.share_in_first_layer,
                    table,
                    which=any_of(W_1, SYRE_1),
                    pairs=swap_costs.consecutive,
                    statistic=swap_costs.positive_share,
                ),
            ),
            stated(
                f"12-{name}large",
                "12",
                "Swaps in networks with sigma_F = 1 are expensive: median swap cost in multiples of the "
                f"largest |median| of standard networks and sigma_F = 0, consecutive pairs{estimate}",
                at_least(10),
                "The figure's point is large costs at W 1 and syre 1 beside costs around "
                "zero; large is read as an order of magnitude more.",
                table,
                _measured(
                    swap_costs.median_over_baselines,
                    table,
                    which=any_of(W_1, SYRE_1),
                    baselines=any_of(STANDARD, W_0),
                    pairs=swap_costs.consecutive,
                ),
            ),
        )
    ),
    stated(
        "12-around-zero",
        "12",
        "Swap costs of standard networks and sigma_F = 0 lie around zero: distance of the interquartile range of "
        "signed square roots from 0, in units of the median at W sigma_F = 1, consecutive pairs",
        at_most(0.1),
        "The figure's point is costs around zero; around is read as within a "
        "tenth of the median at W 1, on the scale of the plot.",
        MAHALANOBIS,
        _measured(
            swap_costs.relative_by_layer,
            MAHALANOBIS,
            which=any_of(STANDARD, W_0),
            statistic=swap_costs.box_gap_to_zero,
            reference=W_1,
            reference_statistic=swap_costs.median_root,
            pairs=swap_costs.consecutive,
        ),
    ),
    _around_zero("12", any_of(STANDARD, W_0), "standard networks and sigma_F = 0", swap_costs.consecutive),
)

FIG_13 = tuple(
    claim
    for name, estimate, table in ESTIMATORS
    for claim in (
        stated(
            f"13-{name}sigma",
            "13",
            "Swaps cost more at sigma_F = 1 than at sigma_F = 0: difference of the median layer-1 costs, "
            f"consecutive pairs{estimate}",
            above(0),
            "The finding of Fig. 5 on the pairs of this figure; no size is stated, so only the order is asked for.",
            table,
            _measured(swap_costs.median_excess_by_k, table, small=W_0, large=W_1, pairs=swap_costs.consecutive),
        ),
        stated(
            f"13-{name}growth",
            "13",
            "At sigma_F = 1 swaps cost more the larger k is: smallest step between the "
            f"median layer-1 costs at k = 2, 8, 32, consecutive pairs{estimate}",
            above(0),
            "The finding of Fig. 5 on the pairs of this figure; no size is stated, so only the order is asked for.",
            table,
            _measured(swap_costs.median_growth_with_k, table, which=W_1, pairs=swap_costs.consecutive),
        ),
    )
)

FIG_16_TO_19 = (
    stated(
        "16-zero",
        "16",
        "In standard networks every swap is free: largest |swap cost| among the first "
        "128 neurons, in units of the median at W sigma_F = 1",
        at_most(1e-6),
        "With F = 0 and D = 1 all neurons have the same functions at the same cost, so the costs are zero up to "
        "rounding, whatever the weights: this one checks the implementation.",
        MAHALANOBIS,
        _measured(
            swap_costs.relative_by_layer,
            MAHALANOBIS,
            which=STANDARD,
            statistic=swap_costs.largest,
            reference=W_1,
            reference_statistic=swap_costs.median,
            pairs=swap_costs.first_block,
        ),
    ),
    _around_zero("16", STANDARD, "standard networks", swap_costs.first_block),
    stated(
        "17-negative",
        "17",
        "At sigma_F = 0 many swaps lower the cost: share of negative costs "
        "among the first 128 neurons in the layer with most",
        at_least(0.1),
        "As in Fig. 5, negative costs are to be common at sigma_F = 0; ten percent is more than stray pairs.",
        MAHALANOBIS,
        _measured(
            swap_costs.largest_share_over_layers,
            MAHALANOBIS,
            which=W_0,
            pairs=swap_costs.first_block,
            statistic=swap_costs.negative_share,
        ),
    ),
    _around_zero("17", W_0, "networks with sigma_F = 0", swap_costs.first_block),
    *(
        stated(
            f"{figure}-{name}positive",
            figure,
            f"In {networks} networks at sigma_F = 1 swaps cost something: share of "
            f"positive costs among the first 128 neurons{estimate}",
            at_least(0.9),
            "Costs at sigma_F = 1 are to be positive off the diagonal in each "
            "layer; one pair in ten is left for exceptions.",
            table,
            _measured(
                swap_costs.share_by_layer,
                table,
                which=architecture,
                pairs=swap_costs.first_block,
                statistic=swap_costs.positive_share,
            ),
        )
        for figure, networks, architecture in (("18", "W-asymmetric", W_1), ("19", "syre", SYRE_1))
        for name, estimate, table in ESTIMATORS
    ),
    *(
        stated(
            f"{figure}-ridge-large",
            figure,
            f"In {networks} networks at sigma_F = 1 swaps are expensive: median swap cost in multiples of the largest "
            "|median| of standard networks and sigma_F = 0, first 128 neurons, ridge estimate",
            at_least(10),
            "The maps' point is large costs off the diagonal beside costs around "
            "zero; large is read as an order of magnitude more, as in Fig. 12.",
            RIDGE,
            _measured(
                swap_costs.median_over_baselines,
                RIDGE,
                which=architecture,
                baselines=any_of(STANDARD, W_0),
                pairs=swap_costs.first_block,
            ),
        )
        for figure, networks, architecture in (("18", "W-asymmetric", W_1), ("19", "syre", SYRE_1))
    ),
)

CLAIMS = (
    *_gmm_swap_costs("5", "", MAHALANOBIS, also=("14",)),
    FIG_5_DROP,
    *FIG_12,
    *FIG_13,
    *_gmm_swap_costs("15", ", ridge estimate", RIDGE, also=()),
    *FIG_16_TO_19,
)
