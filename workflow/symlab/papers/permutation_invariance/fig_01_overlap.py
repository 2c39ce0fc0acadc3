"""Fig. 1 and Theorem 5: the overlap P of the types of two students drawn uniformly from the minima, against width."""

import math
from functools import partial

import pandas as pd

from symlab.errors import UserError
from symlab.papers.permutation_invariance.drawing import WIDTH, key_of, mark_widths, width_marks
from symlab.plotting.style import PAGE, Axes, Color, Figure, LineStyleType, Look, Style, palette
from symlab.study.card import Drawing
from symlab.study.claim import Bound, Claim, Found, Tables, exact_value
from symlab.study.facets import draw_rows, facets, labelled
from symlab.study.tables import need

TABLE = "overlap.csv"
LINES: dict[str, tuple[str, int, LineStyleType]] = {
    "overlap": (r"exact $T(m, M)$", 0, "-"),
    "poisson_limit": ("limit at fixed $m/M$ (Poisson)", 2, (0, (6, 1.5))),
    "gaussian_limit": ("limit as printed (Thm. 5b)", 4, (0, (1, 1.5))),
    "lower_bound": ("lower bound (Thm. 5a)", 7, (0, (4, 1.5, 1, 1.5))),
    "overlap_mean": ("mean of draws ± s.e.", 1, ""),
}
"""The name, colour and line of each column that is drawn."""


def against_width(tables: Tables, style: Style) -> Figure:
    table = need(tables, TABLE).sort_values(["M", "m"])
    if table.groupby("M")["m"].nunique().max() < 3:
        raise UserError(f"{key_of(table, 'overlap')} gives fewer than three widths m of each M; raise up_to.")
    colors = palette(style)
    rows = pd.concat(table.assign(label=name, value=table[column]) for column, (name, _, _) in LINES.items())
    looks = {
        name: Look(colors[color], line, "" if line else "o", None if line else "white")
        for name, color, line in LINES.values()
    }
    draws = " or ".join(f"{value:,}" for value in sorted(table["draws"].unique()))
    return facets(
        rows, "m", "value", looks, column="M", draw=_draw_line, width=PAGE, height=2.5, sharex=False, sharey=True,
        axes=labelled(WIDTH, "mean overlap $P$ of types"), title="$M$ = {}".format,
        more=partial(_mark_minimum, colors[3]), entries=width_marks(),
        note=f"{draws} pairs of students drawn at each $m$; star: exact minimum",
    )  # fmt: skip


def _draw_line(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str) -> None:
    """A curve, or some of the means of draws with their errors, at most twelve: they leave the curve to be seen."""
    if look.marker:
        some = rows.iloc[:: -(-len(rows) // 12)]
        axis.errorbar(some[x], some[y], some["overlap_se"], fmt="none", ecolor=look.color, capsize=1.5, elinewidth=0.8)
        draw_rows(axis, some, x, y, look, label)
    else:
        draw_rows(axis, rows, x, y, look, label, join=True, linewidth=1.0)


def _mark_minimum(color: Color, axis: Axes, rows: pd.DataFrame) -> None:
    lowest = rows.loc[rows["label"] == LINES["overlap"][0]].set_index("m")["value"]
    m, P = lowest.idxmin(), lowest.min()
    axis.plot(m, P, color=color, marker="*", markersize=9, linestyle="", label="_minimum")
    axis.annotate(f"$m$ = {m:g}", (m, P), (3, 7), textcoords="offset points", color=color, fontsize="small")
    mark_widths(rows["M"].iloc[0], (2,), axis)


FIGURES = {
    "permutation-1": Drawing(
        "Overlap of types against student width",
        "Mean overlap P of the types of two students of m neurons, drawn uniformly from the global minima for a "
        "teacher of M neurons, against m, a panel for each M. P is the share of neurons that have a partner of their "
        "type in the other student. The solid line is the exact expectation T(m, M); circles are means over draws, at "
        "some of the widths.",
        against_width,
        seen="In the limit of wide teachers the overlap is smallest at a width of {minimum-at-2M} M.",
        differs="The paper draws means of 10,000 draws alone; the exact curve, the bound of Theorem 5a and the two "
        "limits at fixed m/M are added.",
    ),
}


def minimum(tables: Tables) -> list[Found]:
    """The width at which the limit of the overlap is smallest, in units of M, on the finest grid: of the largest M.

    The detail tells where the exact overlap is smallest at each M.
    """
    table = tables[TABLE].sort_values(["M", "m"])
    rows = table[table["M"] == table["M"].max()]
    limit = pd.Series(rows["poisson_limit"].to_numpy(dtype=float), rows["m"] / rows["M"])
    ratio = limit.index
    if not ((ratio > 2) & (ratio <= 2.4)).any() or 2 not in ratio or ratio.min() >= 2 or ratio.max() <= 2.4:
        return ["needs widths below 2M, of 2M, up to 2.4M and beyond"]
    place = math.nan if limit.isna().any() else limit.idxmin()
    lowest = table.dropna(subset="overlap").sort_values("overlap").groupby("M")["m"].first()
    told = "".join(f"; smallest at m = {m:g} for M = {M:g}" for M, m in lowest.items())
    detail = f"limit {limit.min():.4f} at {place:.3g} M, {limit[2]:.4f} at 2 M{told}"
    return [exact_value(place, len(limit), detail=detail, unit="widths")]


CLAIMS = {
    "permutation-1-minimum-at-2M": Claim(
        kind="theorem",
        statement="In the limit of wide teachers and students, two random minima have the fewest neurons of a type in "
        "common at m = 2M (Theorem 5b)",
        quantity="width at which the limit of T(m, M) at fixed m/M is smallest, in units of M",
        bound=Bound("2 (m = 2M)", 2, 2),
        owner="paper",
        origin="paper",
        reason="'In this limiting sense, the overlap is minimized when t = 1/2, which is m = 2M' (proof of Theorem 5). "
        "Judged so since 28 November 2026, after values were seen: before by T(m, M) at M = 6 and 20, of which the "
        "theorem says nothing.",
        tables=(TABLE,),
        measure=minimum,
        why="The proof takes the number of neurons of a type for Gaussian. At fixed m/M = r it tends to a Poisson "
        "variable of mean r − 1 instead, whose overlap is measured here.",
    ),
}
