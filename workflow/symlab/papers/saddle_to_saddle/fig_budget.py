"""Where speed is lost, layer by layer: an identity for log(|X| |G| / s), drawn as bars."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from symlab.papers.saddle_to_saddle.escapes import EVENTS, LAYERS, NETWORK, by_network, escaped, small
from symlab.plotting.style import PAGE, Axes, Figure, Style, legend, palette, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, below
from symlab.study.tables import need

POLYGON = "polygon_budget.csv"
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
    for (name, L), rows in losses(tables).groupby(["dataset", "L"]):
        yield f"{name}, depth {L}", rows.groupby(["term", "layer"], as_index=False)["lost"].mean()


def losses(tables: Tables) -> pd.DataFrame:
    """Terms of ReLU networks from the smallest weights at the escape: ``NETWORK``, ``term``, ``layer``, ``lost``."""
    events, layers = (small(escaped(tables[name])) for name in (EVENTS, LAYERS))
    events, layers = (each[each["std"] == each["std"].min()] for each in (events, layers))
    of_layers = layers.melt([*NETWORK, "layer"], [f"lost_{term}" for term in TERMS if term != "output"], "term", "lost")
    of_layers["term"] = of_layers["term"].str.removeprefix("lost_")
    output = events.rename(columns={"lost_output": "lost"}).assign(term="output", layer=events["L"] + 1)
    # A layer has the terms that belong to it: none has relu after the outputs.
    belongs = {"norms": (1, 0), "rank": (0, 1), "cut": (1, 1), "alignment": (1, 0)}
    first, above = (
        of_layers["term"].map({term: ends[place] for term, ends in belongs.items()}).astype(int) for place in (0, 1)
    )
    of_layers = of_layers[of_layers["layer"].between(first, of_layers["L"] - above)]
    return pd.concat([of_layers, output[[*NETWORK, "term", "layer", "lost"]]], ignore_index=True)


FIGURES = {
    "saddle-budget": Drawing(
        "Where speed is lost",
        "The escape speed s of weights on the sphere is |X| |G| but for what is lost on the way: log(|X| |G| / s) is a "
        "sum over layers of what the activations' rank, relu and the alignment of weights with their inputs cost, of "
        "what unequal norms of the layers do (in sum no gain), and of how far the outputs point from -G. Bars at X are "
        "of the inputs, at Y of the outputs. On the circle: Example 1 and the fastest run; of the study `{study}`: "
        "means over its networks from the smallest weights, when the loss has dropped by 1 %.",
        bars_by_layer,
        seen="Layers from the third on lose {deep:%} of all that networks of depth 6 lose.",
        differs="Not in the paper; the identity is behind its Proposition 3.4.",
    ),
}


def lost_in_deep_layers(tables: Tables) -> list[Found]:
    rows = losses(tables)
    rows = rows[rows["L"] == 6]
    inner = rows["term"].isin(["rank", "cut", "alignment"]) & (rows["layer"] >= DEEP)
    sums = [
        of.groupby(NETWORK)["lost"].agg(lambda lost: lost.sum(skipna=False)).reset_index() for of in (rows[inner], rows)
    ]
    deep, whole = (by_network(each, "lost") for each in sums)
    return (deep / whole).means() or ["needs networks of depth 6 from small weights"]


CLAIMS = {
    "saddle-budget-deep": Claim(
        statement="At the first escape, layers from the third on lose next to no speed",
        quantity="their share in log(|X| |G| / s), by rank, relu and alignment, mean over networks of depth 6",
        bound=below(0.1),
        owner="derived",
        origin="ours",
        reason="Rank one and linear layers lose none; they are four of six layers.",
        tables=(EVENTS, LAYERS),
        measure=lost_in_deep_layers,
    ),
}
