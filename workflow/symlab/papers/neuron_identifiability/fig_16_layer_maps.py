"""Figs. 16 to 19: swap costs of each layer of one network: standard, W-asymmetric without and with F, syre."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neuron_identifiability import swap_panels
from symlab.papers.neuron_identifiability.rows import BLOCK, first_block
from symlab.papers.neuron_identifiability.swap_costs import MAHALANOBIS, RIDGE
from symlab.papers.neuron_identifiability.variants import name_variant
from symlab.plotting.style import Style
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Tables
from symlab.study.tables import need, where

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Maps = dict[str, dict[tuple[str, str], np.ndarray]]
STANDARD, W_ZERO, W_LARGE, SYRE = (
    "standard",
    "W-asymmetric with sigma_F = 0",
    "W-asymmetric with sigma_F >= 1",
    "syre with sigma_F >= 1",
)


def maps_standard(tables: Tables, style: Style) -> Figure:
    """Fig. 16: heat maps of each layer of a standard network by ridge regression; Mahalanobis costs are all 0."""
    return _maps_by_layer(tables, STANDARD, style)


def maps_w_zero(tables: Tables, style: Style) -> Figure:
    """Fig. 17: heat maps of each layer of a W-asymmetric network with sigma_F = 0."""
    return _maps_by_layer(tables, W_ZERO, style)


def maps_w_large(tables: Tables, style: Style) -> Figure:
    """Fig. 18: heat maps of each layer of a W-asymmetric network with the smallest sigma_F >= 1."""
    return _maps_by_layer(tables, W_LARGE, style)


def maps_syre(tables: Tables, style: Style) -> Figure:
    """Fig. 19: heat maps of each layer of a syre network with the smallest sigma_F >= 1."""
    return _maps_by_layer(tables, SYRE, style)


def _maps_by_layer(tables: Tables, name: str, style: Style) -> Figure:
    costs = swap_panels.split_estimators(tables)
    variants = _variants(tables, name)
    title = [name_variant(variants.iloc[0], latex=True) + ", one network", swap_panels.beta_name(costs)]
    return swap_panels.draw_maps(_maps(tables, name), style, ",  ".join(filter(None, title)))


def _variants(tables: Tables, name: str) -> pd.DataFrame:
    costs = need(tables, MAHALANOBIS)
    variants = swap_panels.paper_variants(costs)[name]
    if variants.empty:
        raise UserError(f"{where(costs)}.variants has no variant that is {name}; add one.")
    return variants


def _maps(tables: Tables, name: str) -> Maps:
    """The first network's maps by estimator, of the neurons whose pairs both estimators have."""
    if name == STANDARD:
        need(tables, RIDGE)
    costs, variants = swap_panels.split_estimators(tables), _variants(tables, name)
    several = len(variants) > 1
    blocks: dict[str, dict[tuple[str, int], pd.DataFrame]] = {}
    for estimator, table in costs.items():
        block = table[first_block(table)]
        blocks[estimator] = {
            (dataset, layer): part
            for variant, dataset in variants["dataset"].items()
            for layer, part in swap_panels.choose_network(block[block["variant"] == variant]).groupby("layer")
        }
        if not blocks[estimator]:
            raise UserError(
                f"{where(table)} has no {estimator} costs of its variant that is {name}, only of others; take "
                f"{MAHALANOBIS} and {RIDGE} from the same run."
            )
    maps: Maps = {}
    for estimator, of_estimator in blocks.items():
        if (name, estimator) == (STANDARD, swap_panels.MAHALANOBIS_NAME):
            continue
        maps[estimator] = {}
        for (dataset, layer), rows in of_estimator.items():
            sizes = [
                swap_panels.count_complete(each[dataset, layer]) for each in blocks.values() if (dataset, layer) in each
            ]
            row = swap_panels.join_lines(dataset if several else "", estimator if len(blocks) > 1 else "")
            maps[estimator][row, f"layer {layer}"] = swap_panels.cost_matrix(rows, min(sizes))
    return maps


def _seen(tables: Tables, name: str) -> str:
    told = []
    for estimator, cells in _maps(tables, name).items():
        layers = [
            f"{np.median(costs):.2g} in {column} ({100 * np.mean(costs < 0):.0f} % negative)"
            for (_, column), matrix in cells.items()
            for costs in [swap_panels.pair_costs(matrix)]
        ]
        by = f"by {estimator} " if RIDGE in tables else ""
        told.append(f"{by}{', '.join(layers)}")
    return f"The median swap cost Δ is {'; '.join(told)}."


def _drawing(number: int, title: str, network: str, name: str, further: str = "") -> Drawing:
    draw = {16: maps_standard, 17: maps_w_zero, 18: maps_w_large, 19: maps_syre}[number]
    return Drawing(
        f"identifiability-{number}",
        f"Swap costs, {title}",
        f"""\
Cost Δ of swapping each two of the first neurons of each layer (at most {BLOCK}) of one {network}, study `{{study}}`.
Shown is sign(Δ)·√|Δ|, in units of weight norm: blue swaps cost weight norm, white ones are free, red ones save some.
Colours are linear around 0, logarithmic far from it, and saturate at the 99th percentile; black marks infinite costs.
{further}
The row of ridge costs (Definition E.3), where there is one, is of the same network at the β above.
""",
        draw,
        lambda tables: _seen(tables, name),
        "Each figure and estimator has a colour scale of its own.",
    )


FIGURES = (
    _drawing(
        *(16, "standard network", "standard network", STANDARD),
        "Without masks and fixed weights the Mahalanobis costs are all 0 by definition, and are not drawn.",
    ),
    _drawing(17, "W-asymmetric network, σ_F = 0", "W-asymmetric network without fixed weights (σ_F = 0)", W_ZERO),
    _drawing(
        18, "W-asymmetric network, σ_F ≥ 1", "W-asymmetric network with the smallest σ_F ≥ 1 of the study", W_LARGE
    ),
    _drawing(19, "syre network", "syre network with the smallest σ_F ≥ 1 of the study", SYRE),
)
# What the paper says of these maps it says of the distributions of Fig. 12, whose claims are about them too.
CLAIMS: tuple[Claim, ...] = ()
