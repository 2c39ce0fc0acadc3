"""What the loss of a network certifies about its collapse, against what was measured, run by run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neural_collapse.finals import COURSE, SETTING, ended, name_setting
from symlab.papers.neural_collapse.gufm import certify_all
from symlab.plotting.style import COLUMN, Color, Style, legend, mark_entry, palette, panels, set_ticks
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, at_most, exact_value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


MEASURED = {"cross_entropy": "NC1", "squared_error": r"$\mathrm{tr}\,\Sigma_W$"}
"""What the losses bound."""
CASES = {"cross_entropy": "", "squared_error": "squared error"}


def certified(tables: Tables) -> pd.DataFrame:
    """Networks with what their losses bound as ``measured`` and the bound as ``certified``, where it says anything."""
    found = ended(tables)
    found["measured"] = found["NC1"].where(found["loss"] == "cross_entropy", found["NC1"] * found["between"])
    parts = []
    for (d, K, loss), rows in found.groupby(["width", "classes", "loss"]):
        losses, penalties = (rows["fit"] + rows["last"]).to_numpy(), rows["last_penalty"].to_numpy()
        parts.append(rows.assign(certified=certify_all(losses, int(d), int(K), penalties, loss == "squared_error")))
    table = pd.concat(parts)
    return table[np.isfinite(table["certified"])]


def measured_against_certified(tables: Tables, style: Style) -> Figure:
    """What a loss bounds against the bound, a panel a loss, a circle a network, a colour a setting.

    Nothing can lie above the diagonal.
    """
    table = certified(tables)
    losses = [loss for loss in MEASURED if (table["loss"] == loss).any()]
    if not losses:
        raise UserError("it needs networks whose loss is below that of constant features.")
    figure, axes = panels(1, len(losses), (1.4, 2.0)[len(losses) - 1] * COLUMN, 3.2, sharex=False, sharey=False)
    colors = dict(zip(table.groupby(SETTING, sort=False).groups, cycle(palette(style))))
    for axis, loss in zip(axes[0], losses, strict=True):
        _draw_bounds(axis, table[table["loss"] == loss], MEASURED[loss], colors)
    entries = [
        mark_entry(name_setting(dict(zip(SETTING, keys, strict=True))), "o", color=color)
        for keys, color in colors.items()
    ]
    legend(figure, entries, "a circle a network, the larger the deeper")
    return figure


def _draw_bounds(axis: Axes, table: pd.DataFrame, name: str, colors: Mapping[Any, Color]) -> None:
    for keys, rows in table.groupby(SETTING, sort=False):
        sizes = 6 + 2 * rows["L"]
        axis.scatter(rows["certified"], rows["measured"], s=sizes, facecolors="none", edgecolors=[colors[keys]])
    ends = np.array([table["certified"].min(), table["certified"].max()])
    axis.plot(ends, ends, color="0.5", linestyle="--", linewidth=0.8, marker="")
    axis.set(xlabel=f"largest {name} that the loss allows", ylabel=f"{name} measured")
    if name != MEASURED["cross_entropy"]:
        # Scatter is at most d, and is of that order.
        return
    axis.set(xscale="log", yscale="log")
    places = [digit * 10.0**power for power in range(-4, 3) for digit in (1, 2, 5)]
    for each, values in ((axis.xaxis, table["certified"]), (axis.yaxis, table["measured"])):
        set_ticks(each, [place for place in places if values.min() <= place <= values.max()])


def _see(tables: Tables) -> str:
    table = certified(tables)
    ratio = table["measured"] / table["certified"]
    return (
        f"The {len(table)} networks reach {ratio.median():.0%} of what their losses allow (median; from "
        f"{ratio.min():.0%} to {ratio.max():.0%})."
    )


def largest_violation(tables: Tables) -> list[Found]:
    """What a loss bounds over its certificate, the largest of all networks, a case a loss."""
    table = certified(tables)
    ratio = table["measured"] / table["certified"]
    cases: list[Found] = [
        exact_value(float(of_loss.max()), len(of_loss), CASES[str(loss)], unit="networks")
        for loss, of_loss in ratio.groupby(table["loss"])
    ]
    return cases or ["no loss of a network is low enough to say anything"]


FIGURES = (
    Drawing(
        "collapse-certificate",
        "What a loss certifies",
        "NC1 of every network of the study `{study}`, against the largest NC1 that any balanced network of the same "
        "cross-entropy and last-layer penalty can have; of networks trained by squared error the scatter within "
        "classes, tr Σ_W, against the largest of the same squared error and penalty.",
        measured_against_certified,
        seen=_see,
        differs="Not in the paper, whose theorems are asymptotic: this bound holds for every single network.",
    ),
)
CLAIMS = (
    Claim(
        id="collapse-certificate-holds",
        statement="A network's loss bounds how far it is from collapse",
        quantity="NC1 (with squared error tr Σ_W) over the largest that the loss allows, largest of all networks",
        bound=at_most(1),
        owner="derived",
        origin="derived",
        reason="Jensen's inequality within classes, and the unconstrained features model at a given scatter of means; "
        "of squared error, ridge regression on features of a given scatter within classes.",
        kind="theorem",
        tables=(COURSE,),
        measure=largest_violation,
    ),
)
