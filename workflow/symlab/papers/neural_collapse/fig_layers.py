"""Collapse layer by layer: NC1 of every layer's features, and of the layers before the last against depth."""

from dataclasses import replace

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neural_collapse import evidence
from symlab.papers.neural_collapse.evidence import DEPTHS, LAYERS, RUNS, SAMPLES, SETTING, paper_claim
from symlab.plotting.style import Style
from symlab.plotting.types import Figure
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import Cases, Values
from symlab.study.claim import Case, Found, Tables, below
from symlab.study.facets import Panel, assign_looks, draw_grid, labelled
from symlab.study.tables import need

ACROSS = 4
BEFORE = {1: "one layer", 2: "2 layers"}
"""Layers before the last that the paper's remark on the last layers is checked on."""


def grown_layers(tables: Tables) -> pd.DataFrame:
    """Layers of lineages that have several depths, with what is told of their networks.

    ``before``: how many layers are between a layer and the last one; ``place``: from 0, the first, to 1, the last.
    """
    networks = evidence.lineages(tables).drop(columns="NC1")
    table = need(tables, LAYERS)
    table = table.merge(networks, on=list(table.columns.intersection(networks.columns)), validate="many_to_one")
    table = table[table.groupby(SETTING)["L"].transform("nunique") >= DEPTHS]
    last = table.groupby([*SETTING, "L", "seed"])["layer"].transform("max")
    return table.assign(before=last - table["layer"], place=(table["layer"] - 1) / (last - 1).clip(lower=1))


def collapse_by_layer(tables: Tables, style: Style) -> Figure:
    """A panel a setting: NC1 against the layer over the last one, a line a depth, mean over lineages."""
    table = grown_layers(tables)
    if table.empty:
        raise UserError(f"it needs networks of {DEPTHS} depths (neural_collapse.runs.L).")
    table = table.assign(label=table["L"].map("L = {}".format), log=np.log10(table["NC1"]))
    axes, unit = labelled("place of layer", r"$\log_{10}$ NC1"), {"unit": ("seed",)}
    means = table.groupby(["title", "L", "label", "place"], sort=False)["log"].mean().reset_index().assign(seed=0)
    panels = [
        Panel(rows, "place", "log", axes | {"title": evidence.in_lines(str(name))}, options=unit)
        for name, rows in means.groupby("title", sort=False)
    ]
    grid = [panels[start : start + ACROSS] for start in range(0, len(panels), ACROSS)]
    looks = assign_looks([f"L = {L}" for L in sorted(table["L"].unique())], style, ordered=True, marked=False)
    return draw_grid(grid, looks, height=1.7, sharey="none", note="mean over networks")


def falls_before_the_last(tables: Tables) -> list[Found]:
    """Slope of log10 NC1 on log10 L of the first and second layer before the last, mean over lineages at an optimum."""
    table = grown_layers(tables)
    table = table[evidence.of_kind("plotted", "theorem")(table) & (table["layer"] > 1)]
    found: list[Values] = []
    for before, place in BEFORE.items():
        for each in evidence.slopes_at_optima(table[table["before"] == before], ["NC1"]):
            key = each.case.key
            found.append(replace(each, case=Case(f"{place} before the last, {key['setting']}", **key, before=before)))
    return Cases(tuple(found), "lineages").means() or [evidence.LACKS]


FIGURES = {
    "collapse-layers": Drawing(
        "Collapse layer by layer",
        "log₁₀ NC1 of the features after every layer, from the first (0) to the last (1), for each depth (study "
        "`{study}`).",
        collapse_by_layer,
        seen=Sentence(
            "One layer before the last the slope of log₁₀ NC1 on log₁₀ L is {slope}.",
            {"slope": at("collapse-layers-before-last", before=1)},
        ),
        differs="Not in the paper, which remarks that the last layers collapse too.",
    ),
}
CLAIMS = {
    "collapse-layers-before-last": paper_claim(
        statement="The layers before the last collapse with depth too",
        quantity="slope of log₁₀ NC1 on log₁₀ L, mean over lineages at an optimum",
        bound=below(0),
        reason="Section 4.2: any finite number of layers at the end converges to collapse.",
        tables=(LAYERS, RUNS, SAMPLES),
        measure=falls_before_the_last,
    ),
}
