"""The next saddle: what the cost's gradient at the second plateau says of the second escape."""

from functools import partial

import pandas as pd

from symlab.papers.saddle_to_saddle.escapes import by_depth, by_network
from symlab.plotting.style import PAGE, Figure, Style
from symlab.study.card import Drawing, Sentence, at
from symlab.study.claim import Claim, Found, Tables, at_least, below
from symlab.study.facets import Panel, assign_looks, draw_grid, draw_rows
from symlab.study.tables import need

NEXT = "escape_next.csv"


def left(table: pd.DataFrame) -> pd.DataFrame:
    """The networks that have left the second plateau within the run."""
    return table[(table["ends"] == table["ends"].max()) & (table["left"] == 1)]


def predicted_and_gained(tables: Tables, style: Style) -> Figure:
    rows = left(need(tables, NEXT))
    rows = by_depth(rows).assign(relative=rows["gained_speed"] / rows["next_speed"])
    looks = assign_looks(list(rows["label"].unique()), style, ordered=True)
    shown = {
        "cosine": "cosine to new neuron",
        "relative": "speed over its speed",
        "second_gained": "$s_2/s_1$ of what is gained",
    }
    axes = {"xlabel": "depth $L$", "ylim": (-0.05, 1.05), "xticks": sorted(rows["L"].unique())}
    grid = [Panel(rows, "L", value, axes | {"title": title}, draw_rows) for value, title in shown.items()]
    return draw_grid([grid], looks, width=PAGE, height=1.8, note="a mark a network that has left the second plateau")


FIGURES = {
    "saddle-next": Drawing(
        "The second escape, and a new neuron at the second plateau",
        "Networks of the study `{study}` between the second plateau, where the loss is flattest over log s after the "
        "first escape, and the end of their runs: what their weights have gained. It is set beside the fastest "
        "neuron for the cost's gradient at the plateau, which is what would leave if new neurons of small weights "
        "stood beside the network.",
        predicted_and_gained,
        seen=Sentence(
            "The first layer's gain has a cosine of {three} to the new neuron at depth 3.",
            {"three": at("saddle-next-neuron", L=3)},
        ),
        differs="Not in the paper, which conjectures that saddles of growing bottleneck rank follow (Section 5).",
    ),
}


def of_those_that_left(tables: Tables, value: str) -> list[Found]:
    return by_network(left(tables[NEXT]), value).means() or ["no network has left the second plateau within its run"]


_claim = partial(Claim, owner="ours", origin="ours", tables=(NEXT,))
CLAIMS = {
    "saddle-next-neuron": _claim(
        statement="The second escape is that of the fastest new neuron at the second plateau",
        quantity="cosine of what the first layer gains in it to that neuron's input weights, mean over networks",
        bound=at_least(0.9),
        reason="What the paper's theory of the origin would say if new neurons left beside a network that stays as "
        "it is.",
        measure=partial(of_those_that_left, value="cosine"),
    ),
    "saddle-next-rank": _claim(
        statement="The second escape has rank one in every layer",
        quantity="second over first singular value of what weights gain, of the layer where it is largest, mean of "
        "networks",
        bound=below(0.2),
        reason="A new neuron a layer adds one; a fifth is left for what the first one still gains.",
        measure=partial(of_those_that_left, value="second_gained"),
    ),
}
