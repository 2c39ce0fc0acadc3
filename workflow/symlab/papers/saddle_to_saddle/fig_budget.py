"""Where speed is lost, layer by layer: an identity for log(|X| |G| / s), drawn as bars."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.papers.saddle_to_saddle.escapes import NONE_FLAT, at_first_snapshot, paper_networks, say_how_many
from symlab.plotting.style import PAGE, Style, legend, palette, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, below, mean_of
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COURSE, LAYERS, POLYGON = "escape_course.csv", "escape_layers.csv", "polygon_budget.csv"
TERMS = {
    "rank": "rank of activations",
    "cut": "cut off by relu",
    "alignment": "weights not aligned with inputs",
    "norms": "unequal norms",
    "output": "outputs not aligned with -G",
}
DEEP = 3
"""The first layer that counts as deep: Example 1, the paper's own, loses speed in the first two."""


def bars_by_layer(tables: Tables, style: Style) -> Figure:
    """Stacked bars of the terms of every layer, a panel a network or mean of networks."""
    shown = list(_budgets(tables))
    colors = dict(zip(TERMS, palette(style), strict=False))
    figure, axes = panels(1, len(shown), PAGE, 2.6, sharex=False, sharey=True)
    for axis, (title, table) in zip(axes[0], shown, strict=True):
        _stack(axis, table, colors)
        total = table["lost"].sum()
        axis.set(title=f"{title}\nsum {total:.2f}", xlabel="layer")
    axes[0, 0].set_ylabel(r"lost of $\log(|X||G|/s)$")
    from matplotlib.patches import Patch

    legend(figure, [Patch(color=colors[term], label=name) for term, name in TERMS.items()], "")
    return figure


def _stack(axis: Axes, table: pd.DataFrame, colors: dict[str, tuple[float, float, float]]) -> None:
    layers = np.arange(table["layer"].max() + 1)
    above, under = np.zeros(len(layers)), np.zeros(len(layers))
    for term in TERMS:
        lost = table[table["term"] == term].groupby("layer")["lost"].sum().reindex(layers, fill_value=0).to_numpy()
        axis.bar(layers, lost, bottom=np.where(lost < 0, under, above), color=colors[term], width=0.8)
        above, under = above + lost.clip(min=0), under + lost.clip(max=0)
    axis.axhline(0, color="0.3", linewidth=0.6)
    axis.set_xticks(layers, ["X", *map(str, layers[1:-1]), "Y"])


def _budgets(tables: Tables) -> Iterator[tuple[str, pd.DataFrame]]:
    """Titles and tables of ``term``, ``layer`` and ``lost``: on the circle, then of the networks of each depth."""
    polygon = need(tables, POLYGON)
    circle = polygon[(polygon["N"] == 8) & (polygon["L"] == 3)]
    for of, tables_of in circle.groupby("of"):
        # What a run loses is the less the faster it is.
        width = tables_of.groupby("width")["lost"].sum().idxmin()
        yield ("Example 1" if of == "Example 1" else f"circle, width {width}"), tables_of[tables_of["width"] == width]
    course = need(tables, COURSE)
    for L in sorted(course.loc[course["activation"] == "relu", "L"].unique()):
        found = losses(tables, int(L))
        if len(found):
            name = paper_networks(course, int(L))["dataset"].iloc[0]
            yield f"{name}, depth {L}", found.groupby(["term", "layer"], as_index=False)["lost"].mean()


def losses(tables: Tables, L: int) -> pd.DataFrame:
    """Terms of the networks of a depth at their first snapshots: ``seed``, ``term``, ``layer``, ``lost``.

    The tables hold those of the networks as they are; here they are those of their direction, on the sphere.
    """
    course, layers = (paper_networks(tables[name], L) for name in (COURSE, LAYERS))
    then = at_first_snapshot(course)
    rows = layers.merge(then[["seed", "step", "norm"]])
    rows["lost_norms"] += np.log(rows["norm"] / np.sqrt(L))
    of_layers = rows.melt(["seed", "layer"], [f"lost_{term}" for term in TERMS if term != "output"], "term", "lost")
    of_layers["term"] = of_layers["term"].str.removeprefix("lost_")
    output = then[["seed", "lost_output"]].rename(columns={"lost_output": "lost"}).assign(term="output", layer=L + 1)
    # A layer has the terms that belong to it: none has relu after the outputs.
    return pd.concat([of_layers.dropna(subset=["lost"]), output], ignore_index=True)


def _see(tables: Tables) -> str:
    told = []
    for title, table in _budgets(tables):
        total = table["lost"].sum()
        deep = table[(table["layer"] >= DEEP) & table["term"].isin(["rank", "cut", "alignment"])]["lost"].sum()
        told.append(f"{title}: {100 * deep / total:.2g} %")
    return f"Of all that is lost, layers from the third on lose: {'; '.join(told)}."


FIGURES = (
    Drawing(
        "saddle-budget",
        "Where speed is lost",
        "The escape speed s of weights on the sphere is |X| |G| but for what is lost on the way: log(|X| |G| / s) is a "
        "sum over layers of what the activations' rank, relu and the alignment of weights with their inputs cost, of "
        "what unequal norms of the layers do (in sum no gain), and of how far the outputs point from -G. Bars at X are "
        "of the inputs, at Y of the outputs. On the circle: Example 1 and the fastest run; of the study `{study}`: "
        "means over its networks after their first escape.",
        bars_by_layer,
        seen=_see,
        differs="Not in the paper; the identity is behind its Proposition 3.4.",
    ),
)


def lost_in_deep_layers(tables: Tables) -> list[Found]:
    """Share of log(|X| |G| / s) that rank, cut and alignment of layers from the third on take, networks of depth 6."""
    found = losses(tables, 6)
    if found.empty:
        return [NONE_FLAT]
    deep = found[(found["layer"] >= DEEP) & found["term"].isin(["rank", "cut", "alignment"])]
    shares = deep.groupby("seed")["lost"].sum() / found.groupby("seed")["lost"].sum()
    missing = say_how_many(len(shares), paper_networks(tables[COURSE], 6))
    return [mean_of(shares.to_numpy(), detail=missing, unit="networks")]


CLAIMS = (
    Claim(
        id="saddle-budget-deep",
        statement="After the first escape, layers from the third on lose next to no speed",
        quantity="their share in log(|X| |G| / s), by rank, relu and alignment, mean over networks of depth 6",
        bound=below(0.1),
        owner="derived",
        origin="ours",
        reason="Rank one and linear layers lose none; they are four of six layers.",
        tables=(COURSE, LAYERS),
        measure=lost_in_deep_layers,
    ),
)
