"""Theorem 5 in one product: collapse lies between two critical rates, where E log|1 - lr h| < 0, or nowhere."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from symlab.plotting.style import Look, Style, line_entry, palette
from symlab.plotting.types import Axes, Figure
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import cases
from symlab.study.claim import Claim, Found, Tables, at_least
from symlab.study.facets import Panel, draw_grid, draw_rows
from symlab.study.tables import need

EDGES = "mirror_edges.csv"
CERTAIN = 3.0
"""By how many standard deviations of its noise a run must have drifted for a cell to be decided."""
EXACT, SECOND = "growth", "second_order"
COLUMNS = 3


def decided(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows in which |Lambda| T exceeds the noise of T steps clearly, and Lambda its own error."""
    clear = rows["growth"].abs() * np.sqrt(rows["steps"]) > CERTAIN * rows["deviation"]
    return rows[clear & (rows["growth"].abs() > CERTAIN * rows["error"])]


def _collapse_between_edges(tables: Tables, style: Style) -> Figure:
    rows = need(tables, EDGES).sort_values("lr").assign(label="measured")
    measured, second, exact = palette(style, 3)

    def panel(size: int) -> Panel:
        of = rows[rows["batch"] == size]

        def windows(axis: Axes) -> None:
            for name, color, height in ((EXACT, exact, (0.0, 0.5)), (SECOND, second, (0.5, 1.0))):
                axis.fill_between(
                    of["lr"], *height, where=of[name] < 0, color=color, alpha=0.3, step="mid", linewidth=0
                )

        title = f"{size:g} sample{'s' if size > 1 else ''} a step"
        axes = {"xscale": "log", "ylim": (-0.03, 1.03), "title": title, "xlabel": "rate λ", "ylabel": "share collapsed"}
        return Panel(of, "lr", "share", axes, draw_rows, {"join": True, "markersize": 2.5}, windows)

    every = [panel(size) for size in sorted(rows["batch"].unique())]
    grid = [every[first : first + COLUMNS] for first in range(0, len(every), COLUMNS)]
    entries = [
        line_entry("Λ < 0", color=exact, linewidth=5, alpha=0.4),
        line_entry("to second order (Eq. 5)", color=second, linewidth=5, alpha=0.4),
    ]
    return draw_grid(grid, {"measured": Look(measured, "-", "o")}, height=1.5, entries=entries)


def _cells_as_said(tables: Tables, by: str) -> list[Found]:
    rows = decided(tables[EDGES])
    right = np.where(rows["share"].isna() | rows[by].isna(), np.nan, (rows["share"] > 0.5) == (rows[by] < 0))
    found = cases(rows.assign(right=right.astype(float)), "right", ["batch"], "lr", "{batch:g} samples")
    return found.of_all(np.mean) or ["no rate at which a run drifts farther than its noise"]


FIGURES = (
    Drawing(
        "mirror-edges",
        "Collapse lies between two critical rates",
        "SGD of one product u w that starts right beside its mirrors: the share of runs that end nearer to them than "
        "they began, against the rate. Shaded below, where Λ = E log|1 - λh| < 0 on both mirrors; shaded above, where "
        "the second-order criterion (Eq. 5) says collapse.",
        _collapse_between_edges,
        seen=Sentence(
            "With one sample a step the sign of Λ is right at {exact:%} of the rates, Eq. 5 at {second:%}.",
            {"exact": at("mirror-edges-sign", batch=1), "second": at("mirror-edges-second", batch=1)},
        ),
        differs="Not in the paper, which says that a large enough rate suffices.",
    ),
)
_claim = partial(Claim, tables=(EDGES,))
CLAIMS = (
    _claim(
        id="mirror-edges-sign",
        statement="SGD collapses onto a mirror if and only if E log|1 - λh| < 0, which has a lower and an upper edge",
        quantity="share of decided rates at which most runs do as the sign says",
        bound=at_least(0.95),
        owner="derived",
        origin="pilot",
        reason="The criterion is exact near the mirror for infinitely many steps; rates are decided where the drift "
        "exceeds three standard deviations of the steps' noise. One run was seen before the threshold was written.",
        measure=lambda tables: _cells_as_said(tables, EXACT),
    ),
    _claim(
        id="mirror-edges-second",
        statement="Any rate above the one of Eq. 5 makes mirrors attract",
        quantity="share of decided rates at which most runs do as the second-order criterion says",
        bound=at_least(0.95),
        owner="paper",
        origin="pilot",
        reason="The paper: the second-order criterion is negative for any large rate. One run was seen before.",
        measure=lambda tables: _cells_as_said(tables, SECOND),
        why={
            "": "Eq. 5 expands log|1 - λh| to second order, which is wrong once λh is of order 1: the logarithm's mean "
            "rises again, and beyond its second root runs are thrown off. For large batches it never is negative."
        },
    ),
)
