"""Fig. 6: sparsity and the number of zero rows of trained students against the learning rate, at one width."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.papers.card import Drawing
from symlab.papers.claim import Found, Measurement, Tables, at_most, between, stated
from symlab.papers.permutation_invariance.drawing import (
    CROSS,
    LR,
    MARK_COLOR,
    OVER_RUNS,
    Curve,
    check_rates,
    draw_crosses,
    draw_curve,
    mean_se,
    say_runs_not_drawn,
    title_students,
)
from symlab.papers.permutation_invariance.measuring import fewest, largest, means, of_table, over, smallest
from symlab.papers.permutation_invariance.rate_threshold import BELOW, CLOSE, LACKING, SETTING, THRESHOLD, keep_setting
from symlab.papers.permutation_invariance.selection import keep, select_trained
from symlab.plotting.rows import need
from symlab.plotting.style import (
    COLUMN,
    PAGE,
    Look,
    Style,
    handles,
    legend,
    line_entry,
    name_axes,
    palette,
    panels,
    wrap_sentences,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE = "learning_rates_runs.csv"
STABILITY = "stability limit (mean)"


def against_learning_rate(tables: Tables, style: Style) -> Figure:
    """Fig. 6: PQ index of all entries (and of those above 1e-3), and below it the number of zero rows, against lr.

    A column an (M, d, m). The vertical line is 2 / lambda_max of the Hessian, mean over runs that ended without zero
    rows. Runs that diverged or missed zero loss are left out; a cross is a learning rate at which some diverged.
    """
    table = need(tables, TABLE)
    check_rates(table)
    trained = select_trained(table)
    colors = palette(style)
    indices = {
        "pq_entries": ("all entries", Look(colors[0], "-", "o")),
        "pq_entries_cleaned": ("entries below $10^{-3}$ set to 0", Look(colors[2], "--", "s")),
    }
    zero = Look(colors[3], "-", "^")
    students = title_students(trained)
    width = 1.5 * COLUMN if len(students) == 1 else PAGE
    figure, axes = panels(2, len(students), width, 4.6, sharex="col", sharey="row")
    limits, crossed = False, False
    for (above, below), (student, rows) in zip(axes.T, students.items(), strict=True):
        diverged = rows["diverged"].astype(bool)
        runs = keep(rows)
        for column, (label, look) in indices.items():
            draw_curve(above, Curve(mean_se(runs, "lr", column), look, label))
        draw_curve(below, Curve(mean_se(runs, "lr", "zero_rows"), zero, "zero rows"))
        limit = runs.loc[runs["zero_rows"] == 0, "stability_limit"].mean()
        for axis in (above, below):
            if pd.notna(limit):
                limits = True
                axis.axvline(limit, color=MARK_COLOR, linestyle=(0, (1, 1.2)), zorder=0, linewidth=1.0, label=STABILITY)
        if diverged.any():
            crossed = True
            draw_crosses(above, [(Look((0.3, 0.3, 0.3)), sorted(rows.loc[diverged, "lr"].unique()))])
        above.set_title(student, pad=6)
        below.set_ylim(-0.05, max(1.0, below.get_ylim()[1]))
    name_axes(axes, LR, "zero rows of $W$")
    for above in axes[0]:
        above.set_ylabel("PQ index of entries")
    entries = handles({label: look for label, look in indices.values()} | {"zero rows": zero})
    if limits:
        entries.append(
            line_entry(r"$2/\lambda_{\max}$, no zero rows", color=MARK_COLOR, linestyle=(0, (1, 1.2)), linewidth=1.0)
        )
    if crossed:
        entries.append(line_entry("some or all runs diverged", color="0.3", **CROSS))
    legend(figure, entries, wrap_sentences([OVER_RUNS, say_runs_not_drawn(trained)], width, style))
    return figure


FIGURES = (
    Drawing(
        "permutation-6",
        "Sparsity and zero rows against the learning rate",
        "Sparsity of trained students against the learning rate, study `{study}`: above, the PQ index (p = "
        "1/2, q = 1) of all entries of W, and the same with entries below 1e-3 set to 0; below, the number of "
        "rows of W with norm below 0.01. Points are means over runs, error bars one standard error. The "
        "dotted line is the stability limit of gradient descent, 2 over the largest eigenvalue of the "
        "Hessian, as a mean over runs that ended without zero rows. Runs that diverged or ended with a loss "
        "above 1e-5 are not drawn; a cross marks a learning rate at which some or all diverged.\n\n"
        "There should be no zero rows up to a sharp threshold, slightly above the stability limit, and with "
        "them a jump of the index. The slow rise of the index of all entries before it is mostly incomplete "
        "convergence: entries that are not yet 0 count as much as their square roots.",
        against_learning_rate,
    ),
)


def zero_rows_below(table: pd.DataFrame) -> list[Found]:
    """Largest mean number of zero rows of a student over the learning rates below the threshold."""
    rows = keep_setting(table)
    rows = rows[rows["lr"] <= BELOW + CLOSE]
    if rows.empty:
        return [f"{LACKING} at learning rates up to {BELOW}"]
    curve = means(rows, "zero_rows", "lr")
    return [Measurement(largest(curve), fewest(rows, "lr"), None, "", _range(curve))]


def first_with_zero_rows(table: pd.DataFrame) -> list[Found]:
    """The smallest learning rate at which every other student or more has a zero row; infinite if none has."""
    rows = keep_setting(table)
    if not _crosses(rows):
        return [f"{LACKING} at learning rates up to {BELOW} and from {THRESHOLD} on"]
    curve = means(rows, "zero_rows", "lr")
    at = _threshold(curve)
    told = f"{curve[at]:.3g} zero rows there; {_range(curve)}" if np.isfinite(at) else _range(curve)
    return [Measurement(at, fewest(rows, "lr"), None, "", told)]


def spread_below_over_jump(table: pd.DataFrame) -> list[Found]:
    """Range of the mean PQ index below the threshold as a fraction of the jump at it."""
    rows = keep_setting(table)
    if not _crosses(rows) or rows.loc[rows["lr"] <= BELOW + CLOSE, "lr"].nunique() < 3:
        return [f"{LACKING} at three learning rates up to {BELOW} and one from {THRESHOLD} on"]
    curve, at = means(rows, "pq_rows", "lr"), _threshold(means(rows, "zero_rows", "lr"))
    below = curve[curve.index <= BELOW + CLOSE]
    jump = float(curve[at]) - largest(below) if np.isfinite(at) else float("nan")
    told = f"{smallest(below):.3g} to {largest(below):.3g} below; jump {jump:.3g}"
    return [Measurement(over(largest(below) - smallest(below), jump), fewest(rows, "lr"), None, "", told)]


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
    stated(
        "permutation-6-dense-below",
        "permutation-6",
        "Below the threshold gradient descent switches no neuron off: largest mean number of zero rows of a student "
        f"over the learning rates up to {BELOW}",
        at_most(0),
        f"{SETTING} It had no zero row at rates up to {BELOW}.",
        TABLE,
        of_table(TABLE, zero_rows_below),
    ),
    stated(
        "permutation-6-threshold",
        "permutation-6",
        "At a learning rate near 2.0 whole neurons become exactly zero: smallest learning rate at which the mean "
        "number of zero rows of a student is 0.5 or more",
        between(1.9, 2.1),
        f"{SETTING} One step of 0.1 is left on either side of 2.0.",
        TABLE,
        of_table(TABLE, first_with_zero_rows),
    ),
    stated(
        "permutation-6-jump",
        "permutation-6",
        "Sparsity is flat below the threshold and jumps at it: range of the mean PQ index by neuron over the learning "
        f"rates up to {BELOW} as a fraction of the jump at the first rate with zero rows",
        at_most(0.5),
        f"{SETTING} It had 0.05 to 0.065 below and 0.13 at 2.0, so 0.23. At a minimum the paper's index of all entries "
        "follows from this one, 1 - (1 - I) / d; of unconverged students it measures what is left off the axes.",
        TABLE,
        of_table(TABLE, spread_below_over_jump),
    ),
)
