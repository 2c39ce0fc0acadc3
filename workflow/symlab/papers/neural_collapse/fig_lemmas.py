"""Lemma 4.2 with its converse, and the example of one dimension of Section 4.3."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from symlab.plotting.style import Look, Style, palette
from symlab.plotting.types import Figure
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import cases
from symlab.study.claim import Claim, Found, Measurement, Tables, at_least, at_most, slope
from symlab.study.facets import Panel, assign_looks, draw_grid, draw_rows, labelled
from symlab.study.tables import need

FREE, SCALAR = "free_features.csv", "scalar_depth.csv"
LAYERS = {1: "one layer a block", 2: "two layers"}
CLOSE = 1e-3
"""The excess and metrics that count as none: L-BFGS ends where it is told to."""


def lemma_and_example(tables: Tables, style: Style) -> Figure:
    """Left: what minimised free features leave of collapse, a mark a start. Right: squared weights of the example."""
    free, scalar = need(tables, FREE), need(tables, SCALAR)
    long = free.melt(["loss", "seed", "excess"], ["NC1", "NC2", "NC3"], "metric", "value")
    long = long.assign(label=long["loss"].str.replace("_", " "), value=long["value"].clip(lower=1e-16))
    losses = list(dict.fromkeys(long["label"]))
    marks = {name: replace(look, linestyle="") for name, look in assign_looks(losses, style).items()}
    places = {"NC1": 0, "NC2": 1, "NC3": 2}
    spread = long.groupby(["metric", "label"], sort=False).ngroup() % len(marks)
    long["x"] = long["metric"].map(places) + 0.2 * (spread - 1)
    axes = labelled("", "metric at the optimum of free features", "y")
    left = Panel(long, "x", "value", axes, draw_rows, more=lambda axis: axis.set_xticks(range(3), list(places)))
    trained = scalar.assign(label=scalar["layers"].map(LAYERS))
    closed = trained.drop_duplicates(["L", "layers"])
    closed = closed.assign(trained=closed["closed"], label=closed["label"] + ", closed form")
    colors = dict(zip(LAYERS.values(), palette(style, 5)[3:], strict=True))
    looks = marks | {name: Look(color, "", "x") for name, color in colors.items()}
    looks |= {f"{name}, closed form": Look(color, "--", "") for name, color in colors.items()}
    axes = labelled("depth L", "squared weights", "xy", xticks=sorted(scalar["L"].unique()))
    right = Panel(pd.concat([trained, closed]), "L", "trained", axes, draw_rows, {"join": True})
    return draw_grid([[left, right]], looks, height=2.4, sharex="none", sharey="none")


def worst_of_loss(tables: Tables, values: tuple[str, ...], less: float = 0.0) -> list[Found]:
    """The largest of some values (less a number) of all starts, a case a loss."""
    table = tables[FREE]
    worst = (table[list(values)] - less).abs().max(axis=1, skipna=False)
    name = lambda key: key["loss"].replace("_", " ")  # noqa: E731
    return cases(table.assign(worst=worst), "worst", by=["loss"], name=name).of_all(np.max)


def collapsed_at_optimum(tables: Tables) -> list[Found]:
    """The largest metric of all starts, a case a loss; undecided where one has not reached the least loss."""
    found: list[Found] = []
    far = worst_of_loss(tables, ("excess",))
    for each, over in zip(worst_of_loss(tables, ("NC1", "NC2", "NC3")), far, strict=True):
        assert isinstance(each, Measurement) and isinstance(over, Measurement)
        close = over.value <= CLOSE
        late = "" if close else f"not at an optimum: a start ended {over.value:.2g} of the least loss above it"
        found.append(replace(each, open=late))
    return found


def slope_of_example(tables: Tables, layers: int) -> list[Found]:
    """Slope of log squared weights on log L over all depths, mean over starts."""
    table = tables[SCALAR]
    rows = table[table["layers"] == layers].set_index("L")
    return cases(rows, "trained", name=LAYERS[layers], several=slope).means() if len(rows) else ["needs the example"]


FIGURES = {
    "collapse-lemmas": Drawing(
        "Free features collapse, and what depth costs in one dimension",
        "Left: NC1, NC2 and NC3 of free features and a last layer that L-BFGS has minimised from random starts "
        "(study `{study}`). Right: least squared weights with which residual networks of one dimension multiply by e, "
        "trained, and in closed form: L (e^(1/L) − 1)² with one layer a block, 2 L (e^(1/L) − 1) with two.",
        lemma_and_example,
        seen=Sentence(
            "The slope of the squared weights on the depth is {one} with one layer and {two} with two.",
            {"one": at("collapse-lemmas-one"), "two": at("collapse-lemmas-two")},
        ),
        differs="The paper proves the one and counts the other; of two layers it counts one matrix.",
    ),
}


_of_lemma = partial(Claim, owner="paper", origin="derived", tables=(FREE,))
_of_example = partial(
    Claim,
    quantity="slope of log squared weights on log L, mean over random starts",
    owner="paper",
    origin="derived",
    tables=(SCALAR,),
)
CLAIMS = {
    "collapse-lemmas-optimum": _of_lemma(
        bound=at_most(CLOSE),
        statement="Free features reach the closed form of the least loss, and none below it",
        quantity="minimised loss over the closed form, less 1, largest of all random starts",
        reason="Proof of Lemma 4.2, with the norm of W's rows under squared error corrected.",
        measure=partial(worst_of_loss, values=("excess",)),
    ),
    "collapse-lemmas-collapsed": _of_lemma(
        bound=at_most(10 * CLOSE),
        statement="At that optimum free features are collapsed",
        quantity="the largest of NC1, NC2 and NC3, of all random starts",
        reason="Lemma 4.2: all of them are 0 at an optimum; NC2 is linear in the distance to it, and the "
        "loss quadratic.",
        measure=collapsed_at_optimum,
    ),
    "collapse-lemmas-converse": _of_lemma(
        bound=at_most(CLOSE),
        statement="A collapsed pair is optimal at one scale of the last layer",
        quantity="loss at the best scale over the closed form, less 1, largest of all random pairs",
        reason="The converse of Lemma 4.2.",
        measure=partial(worst_of_loss, values=("scaled_excess",)),
    ),
    "collapse-lemmas-unique": _of_lemma(
        bound=at_most(0),
        statement="No other scale of a collapsed pair is a local minimum",
        quantity="local minima of the loss along the scale, less 1, largest of all random pairs",
        reason="The converse of Lemma 4.2: the scale is unique.",
        measure=partial(worst_of_loss, values=("minima",), less=1.0),
    ),
    "collapse-lemmas-one": _of_example(
        bound=at_most(-0.95),
        statement="In one dimension, with one layer a block, depth makes a given map cheap",
        reason="Section 4.3: (1 + a/L)^L goes to e^a, at a cost of a²/L; the closed form's slope is steeper at "
        "finite depth.",
        measure=partial(slope_of_example, layers=1),
    ),
    "collapse-lemmas-two": _of_example(
        bound=at_least(-0.15),
        statement="In one dimension, with two layers a block, depth makes nothing cheap",
        reason="Section 4.3: the cost stays (2 a of both matrices); at finite depth the closed form falls a little.",
        measure=partial(slope_of_example, layers=2),
    ),
}
