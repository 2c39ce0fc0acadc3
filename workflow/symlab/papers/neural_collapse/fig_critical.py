"""Branches of two-layer blocks die above a critical penalty, which hardly depends on depth."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from symlab.papers.neural_collapse.evidence import our_claim
from symlab.plotting.style import Look, Style, palette
from symlab.plotting.types import Figure
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import Cases, cases
from symlab.study.claim import Found, Measurement, Tables, above, between
from symlab.study.facets import facets, labelled
from symlab.study.tables import need

TABLE = "critical_penalty.csv"
MOST = 1.25
"""By how much prediction and switch may differ."""
DRAWN = {"predicted": "predicted", "born": "born above nothing", "dies": "living ones die"}
CONTROL = 0.0025
"""The paper's penalty of Figure 2's control."""


def phase_line(tables: Tables, style: Style) -> Figure:
    """Penalties of hidden weights at which branches are born and die against the last layer's, a panel a depth."""
    table = need(tables, TABLE)
    long = table.melt(["L", "last_penalty", "seed"], list(DRAWN), "kind", "penalty")
    long["label"] = long["kind"].map(DRAWN)
    grey, blue, orange = (0.4, 0.4, 0.4), *palette(style, 2)
    looks = dict(zip(DRAWN.values(), (Look(grey, "--", ""), Look(blue), Look(orange, "-", "s")), strict=True))
    ticks = sorted(table["last_penalty"].unique())
    axes = labelled(r"penalty $\lambda$ of the last layer", r"penalty $\lambda$ of hidden weights", "xy", xticks=ticks)
    options, note = {"unit": ("seed",), "band": False}, f"mean ± std of {table['seed'].nunique()} networks"
    long["depth"] = long["L"].map("L = {}".format)
    of_grid: dict[str, Any] = {"axes": axes, "options": options, "height": 2.2, "note": note}
    return facets(long, "last_penalty", "penalty", looks, column="depth", **of_grid)


def _found(tables: Tables, value: str, rows: pd.DataFrame | None = None) -> Cases:
    table = tables[TABLE] if rows is None else rows
    return cases(table, value, by=["dataset", "L", "last_penalty"], name="L = {L}, last λ = {last_penalty:g}")


def born_over_predicted(tables: Tables) -> list[Found]:
    """The penalty above which branches next to nothing vanish over the predicted one, mean over seeds."""
    return _within_steps(_found(tables, "born") / _found(tables, "predicted"), tables, 1)


def dies_over_born(tables: Tables) -> list[Found]:
    """The penalty above which living branches die over that above which new ones vanish, mean over seeds."""
    return _within_steps(_found(tables, "dies") / _found(tables, "born"), tables, 2)


def _within_steps(ratios: Cases, tables: Tables, found: int) -> list[Found]:
    """Means of ratios of which so many numbers were found by bisection: intervals, however well networks agree.

    What was found lies within half a step to either side, on the scale of logarithms: the interval is that of the mean
    of the lower ends, at its lower end, and of the upper ends.
    """
    reach = float(tables[TABLE]["step"].max()) ** (found / 2)
    # Where all networks are at one place of the bisection, what is left of their difference is rounding.
    means = ratios.map(lambda values: values.round(9)).means()
    ends = [each.interval or (np.nan, np.nan) for each in means if isinstance(each, Measurement)]
    return [
        replace(each, error=None, ends=(low / reach, high * reach) if np.isfinite(low) else None)
        for each, (low, high) in zip(means, ends, strict=True)
        if isinstance(each, Measurement)
    ]


def control_over_predicted(tables: Tables) -> list[Found]:
    """The penalty of Figure 2's control over the critical one at it, mean over seeds."""
    rows = tables[TABLE][tables[TABLE]["last_penalty"] == CONTROL]
    if rows.empty:
        return [f"needs critical_penalty.last_penalty to list {CONTROL:g}"]
    rows = rows.assign(over=CONTROL / rows["predicted"])
    return _found(tables, "over", rows).means()


FIGURES = {
    "collapse-critical": Drawing(
        "The penalty above which branches vanish",
        "The penalty of hidden weights below which the best small neuron grows in a network without branches, and "
        "below which living branches stay, found by bisection, against the penalty of the last layer, in networks with "
        "two linear layers in each block (study `{study}`). Dashed: above it a single neuron costs more than it gains.",
        phase_line,
        seen=Sentence(
            "Found over predicted is {ratio}, and living branches hold out to {more} times the penalty.",
            {"ratio": at("collapse-critical-switch"), "more": at("collapse-critical-hysteresis")},
        ),
        differs="Not in the paper; it predicts whether Figure 2's control can depend on depth.",
    ),
}
_claim = partial(our_claim, tables=(TABLE,))
CLAIMS = {
    "collapse-critical-switch": _claim(
        statement="In networks without branches new ones grow below the predicted penalty alone, at every depth",
        quantity="penalty above which the best small neuron vanishes over the predicted one, mean over networks, "
        "widened by half a step of the bisection to either side",
        bound=between(1 / MOST, MOST),
        origin="pilot",
        reason="The network without branches is a local minimum above S alone, by a first-order expansion. A quarter "
        "is left for the step of the bisection and for blocks that add biases; chosen after one network of a pilot.",
        measure=born_over_predicted,
    ),
    "collapse-critical-hysteresis": _claim(
        statement="Branches that live hold out to a higher penalty than that at which new ones grow",
        quantity="penalty at which living branches die over that at which new ones vanish, mean over networks, "
        "widened by half a step of either bisection",
        bound=above(1),
        reason="Above the critical penalty the network without branches is a local minimum, which says nothing of "
        "others: one with branches may be a minimum too.",
        measure=dies_over_born,
    ),
    "collapse-critical-control": _claim(
        statement="The penalty of Figure 2's control is above the critical one",
        quantity="λ of the control over the predicted one at that λ of the last layer, mean over networks",
        bound=above(1),
        origin="derived",
        reason="Where its branches are dead, a network of any depth is one without blocks, and the control is flat.",
        measure=control_over_predicted,
    ),
}
