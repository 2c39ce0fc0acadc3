"""Theorem 5 in one product: collapse lies between two critical rates, where E log|1 - lr h| < 0, or nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.plotting.style import PAGE, Style, legend, line_entry, palette, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, at_least, value_of_all
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EDGES = "mirror_edges.csv"
CERTAIN = 3.0
"""By how many standard deviations of its noise a run must have drifted for a cell to be decided."""
EXACT, SECOND = "growth", "second_order"


def decided(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows in which |Lambda| T exceeds the noise of T steps clearly, and Lambda its own error."""
    clear = rows["growth"].abs() * np.sqrt(rows["steps"]) > CERTAIN * rows["deviation"]
    return rows[clear & (rows["growth"].abs() > CERTAIN * rows["error"])]


def collapse_between_edges(tables: Tables, style: Style) -> Figure:
    """The share of runs that collapse over rate and batch size, a panel a batch size, with both criteria's windows."""
    rows = need(tables, EDGES).sort_values("lr")
    sizes = sorted(rows["batch"].unique())
    columns = min(3, len(sizes))
    figure, axes = panels(-(-len(sizes) // columns), columns, PAGE, 1.0 + 1.5 * -(-len(sizes) // columns))
    measured, exact, second = palette(style, 4)[0], palette(style, 4)[2], palette(style, 4)[1]
    for axis, size in zip(axes.flat, sizes, strict=False):
        of = rows[rows["batch"] == size]
        axis.plot(of["lr"], of["share"], color=measured, marker="o", markersize=2.5, linewidth=0.8)
        for name, color, height in ((EXACT, exact, (0.0, 0.5)), (SECOND, second, (0.5, 1.0))):
            axis.fill_between(of["lr"], *height, where=of[name] < 0, color=color, alpha=0.3, step="mid", linewidth=0)
        axis.set(xscale="log", ylim=(-0.03, 1.03), title=f"{size:g} sample{'s' if size > 1 else ''} a step")
    for axis in axes[-1]:
        axis.set_xlabel(r"rate $\lambda$")
    for axis in axes[:, 0]:
        axis.set_ylabel("share collapsed")
    entries = [
        line_entry("measured", color=measured, marker="o"),
        line_entry(r"$\Lambda < 0$", color=exact, linewidth=5, alpha=0.4),
        line_entry("to second order (Eq. 5)", color=second, linewidth=5, alpha=0.4),
    ]
    legend(figure, entries, "")
    return figure


def cells_as_said(tables: Tables, by: str) -> list[Found]:
    """The share of decided cells, by batch size, in which most runs collapse just where a growth rate is below 0."""
    cases: list[Found] = []
    for size, of in decided(tables[EDGES]).groupby("batch"):
        right = (of["share"] > 0.5) == (of[by] < 0)
        wrong = of.loc[~right, "lr"]
        told = f"wrong from rate {wrong.min():.3g} to {wrong.max():.3g}" if len(wrong) else "none wrong"
        cases.append(value_of_all(float(right.mean()), len(of), f"{size:g} samples", told, "rates"))
    return cases or ["no rate at which a run drifts farther than its noise"]


def _see(tables: Tables) -> str:
    told = []
    for size, of in tables[EDGES].groupby("batch"):
        inside = of.loc[of["share"] > 0.5, "lr"]
        told.append(f"{inside.min():.2g} to {inside.max():.2g} at {size:g}" if len(inside) else f"nowhere at {size:g}")
    return f"Most runs collapse at rates from {', '.join(told)} samples a step."


FIGURES = (
    Drawing(
        "mirror-edges",
        "Collapse lies between two critical rates",
        "SGD of one product u w that starts right beside its mirrors: the share of runs that end nearer to them than "
        "they began, against the rate. Shaded below, where Λ = E log|1 - λh| < 0 on both mirrors; shaded above, where "
        "the second-order criterion (Eq. 5) says collapse.",
        collapse_between_edges,
        seen=_see,
        differs="Not in the paper, which says that a large enough rate suffices.",
    ),
)
CLAIMS = (
    Claim(
        id="mirror-edges-sign",
        statement="SGD collapses onto a mirror if and only if E log|1 - λh| < 0, which has a lower and an upper edge",
        quantity="share of decided rates at which most runs do as the sign says",
        bound=at_least(0.95),
        owner="derived",
        origin="pilot",
        reason="The criterion is exact near the mirror for infinitely many steps; rates are decided where the drift "
        "exceeds three standard deviations of the steps' noise. One run was seen before the threshold was written.",
        tables=(EDGES,),
        measure=lambda tables: cells_as_said(tables, EXACT),
    ),
    Claim(
        id="mirror-edges-second",
        statement="Any rate above the one of Eq. 5 makes mirrors attract",
        quantity="share of decided rates at which most runs do as the second-order criterion says",
        bound=at_least(0.95),
        owner="paper",
        origin="pilot",
        reason="The paper: the second-order criterion is negative for any large rate. One run was seen before.",
        tables=(EDGES,),
        measure=lambda tables: cells_as_said(tables, SECOND),
        why={
            "": "Eq. 5 expands log|1 - λh| to second order, which is wrong once λh is of order 1: the logarithm's mean "
            "rises again, and beyond its second root runs are thrown off. For large batches it never is negative."
        },
    ),
)
