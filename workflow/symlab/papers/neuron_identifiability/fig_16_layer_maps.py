"""Figs. 16 to 19: swap costs of each layer of one network: standard, W-asymmetric without and with F, syre."""

import numpy as np

from symlab.errors import UserError
from symlab.papers.neuron_identifiability import swap_panels
from symlab.papers.neuron_identifiability.rows import BLOCK, first_block
from symlab.plotting.style import Figure, Style
from symlab.study.card import Drawing, Sentence, at
from symlab.study.claim import Claim, Tables
from symlab.study.tables import where


def maps_by_layer(tables: Tables, style: Style) -> Figure:
    """Heat maps of each layer of the first network of each kind, of the neurons whose pairs every estimator has.

    A row a kind of networks and data set, by each estimator; an estimator has one colour scale. By the Mahalanobis form
    the costs of standard networks are all 0, and are not drawn.
    """
    costs = swap_panels.split_estimators(tables)
    variants = swap_panels.paper_variants(costs["Mahalanobis"])
    several = variants["dataset"].nunique() > 1
    blocks = {
        (variant, estimator, layer): rows
        for estimator, table in costs.items()
        for variant in variants.index
        for layer, rows in swap_panels.choose_network(
            table[first_block(table) & (table["variant"] == variant)]
        ).groupby("layer")
    }
    maps: dict[str, dict[tuple[str, str], np.ndarray]] = {}
    for (variant, estimator, layer), rows in blocks.items():
        kind = variants.loc[variant]
        if kind["scheme"] == "standard" and estimator == "Mahalanobis":
            continue
        by_each = [blocks[variant, each, layer] for each in costs if (variant, each, layer) in blocks]
        size = min(map(swap_panels.count_complete, by_each))
        name = (kind["dataset"] if several else "", kind["label"], estimator if len(costs) > 1 else "")
        cell = "\n".join(filter(None, name)), f"layer {layer}"
        maps.setdefault(estimator, {})[cell] = swap_panels.cost_matrix(rows, size)
    if not maps:
        raise UserError(
            f"{where(costs['Mahalanobis'])}.variants has no network whose swaps have a cost; add a W-asymmetric one."
        )
    return swap_panels.draw_maps(maps, style, "one network of each kind", swap_panels.LINEAR_OF_ALL)


FIGURES = {
    "identifiability-16": Drawing(
        "Swap costs of each layer (Figs. 16 to 19)",
        f"""\
Cost Δ of swapping each two of the first neurons of each layer (at most {BLOCK}) of one network of each kind, study
`{{study}}`: standard (by ridge regression alone: without masks and fixed weights Mahalanobis costs are 0 by
definition), W-asymmetric with σ_F = 0 and with the smallest σ_F ≥ 1, syre. Shown is sign(Δ)·√|Δ|, in units of weight
norm: blue swaps cost weight norm, white ones are free, red ones save some. All maps of an estimator have one scale of
colours, linear around 0, logarithmic far from it, which saturates at the 99th percentile; black marks infinite costs.
""",
        maps_by_layer,
        Sentence(
            "Without fixed weights the middle half of the costs reaches {around} times the median at σ_F = 1 from 0.",
            {"around": at("identifiability-12-around-zero")},
        ),
        "The paper has a figure for each kind of networks, with a colour scale of its own.",
    ),
}
# What the paper says of these maps it says of the distributions of Fig. 12, whose claims are about them too.
CLAIMS: dict[str, Claim] = {}
