"""Fig. 6: sparsity and the number of zero rows of trained students against the learning rate, at one width."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.papers.permutation_invariance import drawing
from symlab.papers.permutation_invariance.measuring import estimate, largest, means, of_table, over, smallest
from symlab.papers.permutation_invariance.rate_threshold import BELOW, CLOSE, LACKING, SETTING, THRESHOLD, keep_setting
from symlab.papers.permutation_invariance.selection import keep, select_trained
from symlab.plotting import style as plot
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Measurement, Tables, at_most, between
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE = "learning_rates_runs.csv"
STABILITY = "stability limit (mean)"


def against_learning_rate(tables: Tables, style: plot.Style) -> Figure:
    """Fig. 6: PQ index of all entries (and of those above 1e-3), that of row norms, and the number of zero rows, by lr.

    A column an (M, d, m). The vertical line is 2 / lambda_max of the Hessian, mean over runs that ended without zero
    rows. Runs that diverged or missed zero loss are left out; a cross is a learning rate at which some diverged.
    """
    table = need(tables, TABLE)
    drawing.check_rates(table)
    trained = select_trained(table)
    colors = plot.palette(style)
    indices = {
        "pq_entries": ("all entries", plot.Look(colors[0], "-", "o")),
        "pq_entries_cleaned": ("entries below $10^{-3}$ set to 0", plot.Look(colors[2], "--", "s")),
    }
    zero, by_rows = plot.Look(colors[3], "-", "^"), plot.Look(colors[4], "-", "D")
    students = drawing.title_students(trained)
    width = 1.5 * plot.COLUMN if len(students) == 1 else plot.PAGE
    figure, axes = plot.panels(3, len(students), width, 6.2, sharex="col", sharey="row")
    limits, crossed = False, False
    for (above, middle, below), (student, rows) in zip(axes.T, students.items(), strict=True):
        diverged = rows["diverged"].astype(bool)
        runs = keep(rows)
        for column, (label, look) in indices.items():
            drawing.draw_curve(above, drawing.Curve(drawing.mean_se(runs, "lr", column), look, label))
        drawing.draw_curve(middle, drawing.Curve(drawing.mean_se(runs, "lr", "pq_rows"), by_rows, "row norms"))
        drawing.draw_curve(below, drawing.Curve(drawing.mean_se(runs, "lr", "zero_rows"), zero, "zero rows"))
        limit = runs.loc[runs["zero_rows"] == 0, "stability_limit"].mean()
        for axis in (above, middle, below):
            if pd.notna(limit):
                limits = True
                axis.axvline(
                    limit, color=drawing.MARK_COLOR, linestyle=(0, (1, 1.2)), zorder=0, linewidth=1.0, label=STABILITY
                )
        if diverged.any():
            crossed = True
            drawing.draw_crosses(above, [(plot.Look((0.3, 0.3, 0.3)), sorted(rows.loc[diverged, "lr"].unique()))])
        above.set_title(student, pad=6)
        below.set_ylim(-0.05, max(1.0, below.get_ylim()[1]))
    plot.name_axes(axes, drawing.LR, "zero rows of $W$")
    for above, middle in axes[:2].T:
        above.set_ylabel("PQ index of entries")
        middle.set_ylabel("PQ index of row norms")
    entries = plot.handles(
        {label: look for label, look in indices.values()} | {"row norms": by_rows, "zero rows": zero}
    )
    if limits:
        entries.append(
            plot.line_entry(
                r"$2/\lambda_{\max}$, no zero rows", color=drawing.MARK_COLOR, linestyle=(0, (1, 1.2)), linewidth=1.0
            )
        )
    if crossed:
        entries.append(plot.line_entry("some or all runs diverged", color="0.3", **drawing.CROSS))
    note = [drawing.say_pairs(keep(trained), ["m", "lr"], "students"), drawing.say_runs_not_drawn(trained, "lr")]
    plot.legend(figure, entries, plot.wrap_sentences(note, width, style))
    return figure


def see_threshold(tables: Tables) -> str:
    """The first rate with zero rows, beside the stability limit, and the index by row norms on both sides of it."""
    runs = keep(select_trained(tables[TABLE]))
    told = []
    for student, rows in drawing.title_students(runs).items():
        curves = rows.groupby("lr")[["zero_rows", "pq_rows"]].mean()
        limit = rows.loc[rows["zero_rows"] == 0, "stability_limit"].mean()
        name, at = student.replace("$", ""), _threshold(curves["zero_rows"])
        if not np.isfinite(at):
            told.append(f"with {name} no learning rate has half a zero row a student")
            continue
        index = curves["pq_rows"]
        low = index[index.index < at]
        told.append(
            f"with {name} students have half a zero row or more from a learning rate of {at:g} on"
            + ("" if np.isnan(limit) else f" (stability limit {limit:.3g})")
            + f", where the index of row norms is {index[at]:.3f}"
            + (f" after {low.min():.3f} to {low.max():.3f}" if len(low) else "")
        )
    sentence = "; ".join(told)
    return sentence[0].upper() + sentence[1:] + "."


FIGURES = (
    Drawing(
        "permutation-6",
        "Sparsity and zero rows against the learning rate",
        "Sparsity of trained students against the learning rate: the PQ index (p = 1/2, q = 1) of all entries of W, "
        "and the same with entries below 1e-3 set to 0; that of the norms of the rows; and the number of rows with "
        "norm below 0.01. The dotted line is the stability limit of gradient descent, 2 over the largest eigenvalue of "
        "the Hessian, mean over runs without zero rows. Entries that have yet to become 0 raise the index of all "
        "entries little by little, so most of its slow rise is convergence.",
        against_learning_rate,
        see_threshold,
        "The paper draws the index of all entries alone, and does not say for which M, d and m.",
    ),
)


def zero_rows_below(table: pd.DataFrame) -> list[Found]:
    """Largest mean number of zero rows of a student over the learning rates below the threshold."""
    rows = keep_setting(table)
    rows = rows[rows["lr"] <= BELOW + CLOSE]
    if rows.empty:
        return [f"{LACKING} at learning rates up to {BELOW}"]
    told = _range(means(rows, "zero_rows", "lr"))
    return [_estimate(rows, ("zero_rows",), lambda of: largest(of["zero_rows"]), told)]


def first_with_zero_rows(table: pd.DataFrame) -> list[Found]:
    """The smallest learning rate at which every other student or more has a zero row; infinite if none has."""
    rows = keep_setting(table)
    if not _crosses(rows):
        return [f"{LACKING} at learning rates up to {BELOW} and from {THRESHOLD} on"]
    curve = means(rows, "zero_rows", "lr")
    at = _threshold(curve)
    told = f"{curve[at]:.3g} zero rows there; {_range(curve)}" if np.isfinite(at) else _range(curve)
    return [_estimate(rows, ("zero_rows",), lambda of: _threshold(of["zero_rows"]), told)]


def spread_below_over_jump(table: pd.DataFrame) -> list[Found]:
    """Range of the mean PQ index below the threshold as a fraction of the jump at it."""
    rows = keep_setting(table)
    if not _crosses(rows) or rows.loc[rows["lr"] <= BELOW + CLOSE, "lr"].nunique() < 3:
        return [f"{LACKING} at three learning rates up to {BELOW} and one from {THRESHOLD} on"]

    def parts(curve: pd.Series, at: float) -> tuple[float, float, float]:
        below = curve[curve.index <= BELOW + CLOSE]
        jump = float(curve[at]) - largest(below) if np.isfinite(at) else float("nan")
        return smallest(below), largest(below), jump

    def statistic(of: pd.DataFrame) -> float:
        low, high, jump = parts(of["pq_rows"], _threshold(of["zero_rows"]))
        return over(high - low, jump)

    low, high, jump = parts(means(rows, "pq_rows", "lr"), _threshold(means(rows, "zero_rows", "lr")))
    told = f"{low:.3g} to {high:.3g} below; jump {jump:.3g}"
    return [_estimate(rows, ("pq_rows", "zero_rows"), statistic, told)]


def _estimate(
    rows: pd.DataFrame, columns: tuple[str, ...], statistic: Callable[[pd.DataFrame], float], told: str
) -> Measurement:
    return estimate("", rows, statistic, columns, "lr", told, "students")


def _crosses(rows: pd.DataFrame) -> bool:
    return bool((rows["lr"] <= BELOW + CLOSE).any() and (rows["lr"] >= THRESHOLD - CLOSE).any())


def _threshold(zero_rows: pd.Series) -> float:
    """The smallest rate with half a zero row a student or more; infinite without one, NaN if a mean is not a number."""
    if zero_rows.isna().any():
        return float("nan")
    return float(min(zero_rows.index[zero_rows >= 0.5], default=np.inf))


def _range(curve: pd.Series) -> str:
    return f"learning rates {curve.index[0]:g} to {curve.index[-1]:g}"


CLAIMS = (
    Claim(
        id="permutation-6-dense-below",
        statement="Below the threshold gradient descent switches no neuron off",
        quantity=f"largest mean number of zero rows of a student over the learning rates up to {BELOW}",
        bound=at_most(0),
        owner="paper",
        origin="pilot",
        reason=f"'Having no zero rows', the paper says. {SETTING} It had no zero row at rates up to {BELOW}.",
        tables=(TABLE,),
        measure=of_table(TABLE, zero_rows_below),
        why={
            "": f"Students have a row shorter than 0.01 already at rates just below {THRESHOLD}, since the threshold "
            "is at the stability limit, which is 1.92 on average."
        },
    ),
    Claim(
        id="permutation-6-threshold",
        statement="At a learning rate near 2 whole neurons become exactly zero",
        quantity="smallest learning rate at which the mean number of zero rows of a student is 0.5 or more",
        bound=between(1.9, 2.1),
        owner="paper",
        origin="pilot",
        reason=f"The paper: 'for example, learning rate = 2'. {SETTING} One step of 0.1 is left on either side.",
        tables=(TABLE,),
        measure=of_table(TABLE, first_with_zero_rows),
    ),
    Claim(
        id="permutation-6-jump",
        statement="Sparsity is flat below the threshold and jumps at it",
        quantity=f"range of the mean PQ index by neuron over the learning rates up to {BELOW} as a fraction of the "
        "jump at the first rate with zero rows",
        bound=at_most(0.5),
        owner="paper",
        origin="pilot",
        reason=f"{SETTING} Half was chosen when it had 0.05 to 0.065 below and 0.13 at 2, so 0.23. At a minimum the "
        "paper's index of all entries follows from this one, 1 − (1 − I)/d; of unconverged students it measures what "
        "is left off the axes.",
        tables=(TABLE,),
        measure=of_table(TABLE, spread_below_over_jump),
    ),
)
