"""Figs. 16 to 19: swap costs of each layer of one network: standard, W-asymmetric without and with F, syre."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Tables, at_least, at_most, stated
from symlab.papers.neuron_identifiability.architectures import STANDARD, SYRE_1, W_0, W_1
from symlab.papers.neuron_identifiability.swap_costs import (
    ESTIMATORS,
    MAHALANOBIS,
    RIDGE,
    claim_around_zero,
    largest,
    largest_share_over_layers,
    measure_costs,
    median,
    median_over_baselines,
    negative_share,
    positive_share,
    relative_by_layer,
    share_by_layer,
)
from symlab.papers.neuron_identifiability.swap_panels import (
    MAHALANOBIS_NAME,
    beta_name,
    choose_network,
    cost_matrix,
    count_complete,
    draw_maps,
    join_lines,
    map_panels,
    robust_limit,
    split_estimators,
)
from symlab.plotting.rows import (
    BLOCK,
    any_of,
    compared_variants,
    first_block,
    name_variant,
    smallest_large,
    variants_of,
    w_asymmetric,
    where,
)
from symlab.plotting.style import Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def maps_standard(tables: Tables, style: Style) -> Figure:
    """Fig. 16: heat maps of each layer of a standard network."""
    return _maps_by_layer(tables, "standard", style)


def maps_w_zero(tables: Tables, style: Style) -> Figure:
    """Fig. 17: heat maps of each layer of a W-asymmetric network with sigma_F = 0."""
    return _maps_by_layer(tables, "W-asymmetric with sigma_F = 0", style)


def maps_w_large(tables: Tables, style: Style) -> Figure:
    """Fig. 18: heat maps of each layer of a W-asymmetric network with the smallest sigma_F >= 1."""
    return _maps_by_layer(tables, "W-asymmetric with sigma_F >= 1", style)


def maps_syre(tables: Tables, style: Style) -> Figure:
    """Fig. 19: heat maps of each layer of a syre network with the smallest sigma_F >= 1."""
    return _maps_by_layer(tables, "syre with sigma_F >= 1", style)


def _maps_by_layer(tables: Tables, name: str, style: Style) -> Figure:
    costs = split_estimators(tables)
    shown = _shown(costs[MAHALANOBIS_NAME])
    if shown[name].empty:
        raise UserError(f"{where(costs[MAHALANOBIS_NAME])}.variants has no variant that is {name}; add one.")
    several = shown[name]["dataset"].nunique() > 1
    blocks = {estimator: _blocks(table, shown) for estimator, table in costs.items()}
    # Estimators are compared on the neurons that both have.
    sizes: dict[tuple[str, str, int], int] = {}
    for of_estimator in blocks.values():
        for key, rows in of_estimator.items():
            sizes[key] = min(count_complete(rows), sizes.get(key, BLOCK))
    own: dict[str, dict[tuple[str, str], np.ndarray]] = {}
    limits = {}
    for estimator, of_estimator in blocks.items():
        matrices = {key: cost_matrix(rows, sizes[key]) for key, rows in of_estimator.items()}
        # The limit is that of all four figures, so that their colours can be compared.
        limits[estimator] = robust_limit(list(matrices.values()))
        own[estimator] = {
            (join_lines(dataset if several else "", estimator if len(costs) > 1 else ""), f"layer {layer}"): matrix
            for (which, dataset, layer), matrix in matrices.items()
            if which == name
        }
        if not own[estimator]:
            raise UserError(
                f"{where(costs[MAHALANOBIS_NAME])} has no {estimator} costs of its variant that is {name}, only of "
                "others; take swap_costs.parquet and ridge_swap_costs.parquet from the same run."
            )
    cells = [cell for matrices in own.values() for cell in matrices]
    figure, axes = map_panels(cells, len({len(m) for matrices in own.values() for m in matrices.values()}) == 1)
    draw_maps(figure, axes, own, limits)
    title = ",  ".join(filter(None, [name_variant(shown[name].iloc[0], latex=True), beta_name(costs)]))
    figure.suptitle(title, fontsize=style.font_size)
    return figure


def _shown(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The variants of Figs. 16-19 that the study has, by their name in this module."""
    variants = variants_of(table)
    plain = variants[variants["activation"] != "sigma"]
    w = compared_variants(table).loc[lambda rows: w_asymmetric(rows)]
    syre = plain[plain["scheme"] == "syre"]
    shown = {
        "standard": plain[plain["scheme"] == "standard"],
        "W-asymmetric with sigma_F = 0": w[w["sigma_F"] == 0],
        "W-asymmetric with sigma_F >= 1": w[w["sigma_F"] == smallest_large(w["sigma_F"])],
        "syre with sigma_F >= 1": syre[syre["sigma_F"] == smallest_large(syre["sigma_F"])],
    }
    return {name: rows.drop_duplicates("dataset") for name, rows in shown.items()}


def _blocks(costs: pd.DataFrame, shown: dict[str, pd.DataFrame]) -> dict[tuple[str, str, int], pd.DataFrame]:
    """The first network's costs by the variant's name in Figs. 16-19, data set and layer."""
    block = costs[first_block(costs)]
    return {
        (which, dataset, layer): part
        for which, variants in shown.items()
        for variant, dataset in variants["dataset"].items()
        for layer, part in choose_network(block[block["variant"] == variant]).groupby("layer")
    }


# What the captions of all four say of ridge costs.
CAPTION_OF_RIDGE = """\
If the study has ridge costs too (Definition E.3: what approximating the other neuron's function costs in squared
error, divided by β, and in squared weights), the second row shows them for the same networks and pairs. β stands in
the title: it is the study's `ridge.reported`. Both rows are cut to the neurons that both estimators have (the study's
`ridge.block`), and each has its own colour scale, shared by Figures 16 to 19. The rows should tell the same story on
their own scales; ridge costs count errors of outputs, so without large fixed weights they may all be positive, but
should be small beside those of σ_F ≥ 1.
"""

FIGURES = (
    Drawing(
        "identifiability-16",
        "Swap costs, standard network",
        """\
Swap costs between the first neurons of each layer (at most 128) of one standard network, study `{study}`. Shown is
sign(Δ)·√|Δ|, in units of weight norm, on the colour scale that Figures 16 to 19 share: linear around 0, logarithmic
far from it, saturating at the 99th percentile of all four. Black marks an infinite cost. The median of the pairs
stands above each panel.

Without masks and fixed weights every swap is free, so the panels should be blank.

"""
        + CAPTION_OF_RIDGE,
        maps_standard,
    ),
    Drawing(
        "identifiability-17",
        "Swap costs, W-asymmetric network, σ_F = 0",
        """\
Swap costs between the first neurons of each layer (at most 128) of one W-asymmetric network without fixed weights
(σ_F = 0), study `{study}`. Shown is sign(Δ)·√|Δ|, in units of weight norm, on the colour scale that Figures 16 to 19
share: linear around 0, logarithmic far from it, saturating at the 99th percentile of all four. Black marks an
infinite cost. The median of the pairs stands above each panel.

Mahalanobis costs should be small and of both signs: the masks alone hardly tell neurons apart.

"""
        + CAPTION_OF_RIDGE,
        maps_w_zero,
    ),
    Drawing(
        "identifiability-18",
        "Swap costs, W-asymmetric network, σ_F ≥ 1",
        """\
Swap costs between the first neurons of each layer (at most 128) of one W-asymmetric network with large fixed weights
(the smallest σ_F ≥ 1 of the study), study `{study}`. Shown is sign(Δ)·√|Δ|, in units of weight norm, on the colour
scale that Figures 16 to 19 share: linear around 0, logarithmic far from it, saturating at the 99th percentile of all
four. Black marks an infinite cost. The median of the pairs stands above each panel.

All swaps but the diagonal should be blue: a neuron cannot take another's place cheaply.

"""
        + CAPTION_OF_RIDGE,
        maps_w_large,
    ),
    Drawing(
        "identifiability-19",
        "Swap costs, syre network",
        """\
Swap costs between the first neurons of each layer (at most 128) of one syre network (the smallest σ_F ≥ 1 of the
study), study `{study}`. Shown is sign(Δ)·√|Δ|, in units of weight norm, on the colour scale that Figures 16 to 19
share: linear around 0, logarithmic far from it, saturating at the 99th percentile of all four. Black marks an
infinite cost. The median of the pairs stands above each panel.

As with large W-asymmetric fixed weights, all swaps but the diagonal should be blue.

"""
        + CAPTION_OF_RIDGE,
        maps_syre,
    ),
)


LARGE = (("identifiability-18", "W-asymmetric", W_1), ("identifiability-19", "syre", SYRE_1))
"""Figures of large fixed weights, what they call the networks, and which rows are those."""

CLAIMS = (
    stated(
        "identifiability-16-zero",
        "identifiability-16",
        "In standard networks every swap is free: largest |swap cost| among the first "
        "128 neurons, in units of the median at W sigma_F = 1",
        at_most(1e-6),
        "With F = 0 and D = 1 all neurons have the same functions at the same cost, so the costs are zero up to "
        "rounding, whatever the weights: this one checks the implementation.",
        MAHALANOBIS,
        measure_costs(
            relative_by_layer,
            MAHALANOBIS,
            which=STANDARD,
            statistic=largest,
            reference=W_1,
            reference_statistic=median,
            pairs=first_block,
        ),
    ),
    claim_around_zero("identifiability-16", STANDARD, "standard networks", first_block),
    stated(
        "identifiability-17-negative",
        "identifiability-17",
        "At sigma_F = 0 many swaps lower the cost: share of negative costs "
        "among the first 128 neurons in the layer with most",
        at_least(0.1),
        "As in Fig. 5, negative costs are to be common at sigma_F = 0; ten percent is more than stray pairs.",
        MAHALANOBIS,
        measure_costs(
            largest_share_over_layers,
            MAHALANOBIS,
            which=W_0,
            pairs=first_block,
            statistic=negative_share,
        ),
    ),
    claim_around_zero("identifiability-17", W_0, "networks with sigma_F = 0", first_block),
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
            measure_costs(
                share_by_layer,
                table,
                which=architecture,
                pairs=first_block,
                statistic=positive_share,
            ),
        )
        for figure, networks, architecture in LARGE
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
            measure_costs(
                median_over_baselines,
                RIDGE,
                which=architecture,
                baselines=any_of(STANDARD, W_0),
                pairs=first_block,
            ),
        )
        for figure, networks, architecture in LARGE
    ),
)
