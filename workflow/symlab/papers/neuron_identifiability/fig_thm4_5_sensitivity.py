"""Theorems 4.5 and 4.7: costs of permutations over the leading term that fixed weights give."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Claim, Found, Measurement, Tables, between, spread, stated
from symlab.papers.neuron_identifiability.worst_rows import EXACT, NO_ALLOWANCE, count_held, divide, find_worst
from symlab.plotting.points import (
    assign_markers,
    color_entries,
    draw_points,
    fails,
    hollow_entry,
    marker_entries,
    say_left_out,
    say_points_left_out,
    scale_log,
)
from symlab.plotting.rows import every_row, label_all, need, split_variants, where
from symlab.plotting.style import (
    PAGE,
    Style,
    legend,
    mark_entry,
    name_axes,
    name_row,
    panels,
    set_ticks,
    variant_looks,
    wrap_sentences,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PERMUTATIONS = {"transposition": "transpositions", "random": "random permutations"}
LINEAR = 2.0
"""Ratio of cost and leading term up to which the axis is linear."""
TICKS = (-1000, -100, -10, -1, 0, 1, 2, 10, 100, 1000)


def of_outputs(tables: Tables, style: Style) -> Figure:
    """Figure thm4.5: Delta_out(pi) / (|delta_out|_F^2 / mu_D) against rho, a row a kind of pi, a column a layer."""
    return _ratios(tables, "output", style)


def of_inputs(tables: Tables, style: Style) -> Figure:
    """Figure thm4.7: Delta_in(tau) / (|delta_in|_F^2 / mu_D) against rho, a row a kind of tau, a column a layer."""
    return _ratios(tables, "input", style)


def _ratios(tables: Tables, side: str, style: Style) -> Figure:
    """Ratios as points, 1 +- bound of each point as a vertical line through it."""
    table = need(tables, "sensitivity.csv")
    rows, variants = label_all(table[table["side"] == side])
    drawable = np.isfinite(rows["rho"]) & (rows["rho"] > 0) & (rows["leading"] > 0) & np.isfinite(rows["cost"])
    without = ~(rows["leading"] > 0)
    shown = rows[drawable]
    if shown.empty:
        raise UserError(
            f"{where(table)}.variants has no variant whose fixed weights give the costs of {side} permutations a "
            "leading term; add one with scheme.sigma_F above 0."
        )
    shown = shown.assign(ratio=shown["cost"] / shown["leading"])
    looks = variant_looks(variants, style)
    marks = assign_markers(shown["dataset"])
    kinds = [kind for kind in PERMUTATIONS if kind in set(shown["permutation"])]
    layers = sorted(shown["layer"].unique())
    figure, axes = panels(len(kinds), len(layers), PAGE, 1.5 + 1.6 * len(kinds))
    for row, kind in enumerate(kinds):
        for column, layer in enumerate(layers):
            axis = axes[row, column]
            axis.axhline(1, color="0.4", linewidth=0.8, zorder=0)
            part = shown[(shown["permutation"] == kind) & (shown["layer"] == layer)]
            for (label, dataset), of_variant in part.groupby(["label", "dataset"], sort=False):
                color, rho, bound = looks[str(label)].color, of_variant["rho"], of_variant["bound"]
                axis.vlines(rho, 1 - bound, 1 + bound, color=color, lw=0.8, alpha=0.25, zorder=1)
                draw_points(axis, rho, of_variant["ratio"], fails(of_variant), color, marks[dataset], str(label))
            if row == 0:
                axis.set_title(f"layer {layer}")
        name_row(axes[row, -1], PERMUTATIONS[kind])
    _fit(axes, shown)
    x = r"$\rho$ (trainable over fixed)"
    name_axes(axes, x, r"cost / leading term")
    entries = [
        *color_entries(looks, shown),
        *(marker_entries(marks) if len(marks) > 1 else []),
        mark_entry("1 ± bound", "|", alpha=0.5, markersize=8),
        *hollow_entry(fails(shown)),
    ]
    # Variants with a leading term somewhere.
    some = rows["label"].isin(rows.loc[~without, "label"])
    sentences = [
        say_left_out(rows[without & ~some], rows, "F = 0 and with it the leading term"),
        say_points_left_out(rows[without & some], rows[some], "where the permutation moves no centre"),
        say_points_left_out(rows[~drawable & ~without], rows[some], "with infinite cost or no trainable part"),
    ]
    legend(figure, entries, wrap_sentences(sentences, PAGE, style))
    return figure


def _fit(axes: np.ndarray, shown: pd.DataFrame) -> None:
    """Limits that show every point and the bounds where the assumptions hold; other bounds may leave the panel."""
    held = shown.loc[~fails(shown), "bound"].max()
    reach = 1.2 if np.isnan(held) else 1.1 * held
    low, high = min(1 - reach, shown["ratio"].min()), max(1 + reach, shown["ratio"].max())
    for axis in axes.flat:
        axis.set_yscale("symlog", linthresh=LINEAR)
        axis.set_ylim(min(1.2 * low, 0.0), 1.2 * high)
        bottom, top = axis.get_ylim()
        # Beyond the first power of ten the labels of 1 and 2 would touch.
        near = (-1, 1, 2) if max(-bottom, top) < 10 else (1,)
        ticks = [tick for tick in TICKS if bottom <= tick <= top and (abs(tick) > 2 or tick == 0 or tick in near)]
        set_ticks(axis.yaxis, ticks)
    scale_log(axes, "x")


def _caption(theorem: str, cost: str, shift: str, equation: int) -> str:
    return f"""\
Cost {cost}, divided by the leading term ‖{shift}‖² / μ_D that the fixed weights give, against ρ, the scale of the
trainable part over that of the fixed one, study `{{study}}` (Theorem {theorem}). The upper row has transpositions, the
lower one random permutations; there is a column for each layer. Each point is one permutation of one network. The
vertical line through it reaches from 1 − bound to 1 + bound, where the bound is that of Equation {equation} at the
point's own ρ and ε; there is none where ε is not below μ_D. The axis is linear up to 2 and logarithmic beyond. Hollow
points: an assumption of the theorem fails, mostly ρ > 1 or ε > μ_D / 2. The column `assumption` of
`tables/sensitivity.csv` says which for each point. Networks without fixed weights have no leading term and are named
above.

Filled points have to lie on their vertical lines, and should come close to 1 as ρ becomes small. A point below 0 is a
permutation that saves weight norm, which large fixed weights should rule out.
"""


FIGURES = (
    Drawing(
        "identifiability-thm4.5",
        "Cost of output permutations (Thm. 4.5)",
        _caption("4.5", "Δ_out(π) of reassigning neurons", "δ_out", 87),
        of_outputs,
    ),
    Drawing(
        "identifiability-thm4.7",
        "Cost of input permutations (Thm. 4.7)",
        _caption("4.7", "Δ_in(τ) of reindexing a layer's inputs", "δ_in", 147),
        of_inputs,
    ),
)


def deviation_from_leading(tables: Tables, side: str) -> list[Found]:
    """Largest |cost / leading term - 1| of a permutation in units of its bound (Thms. 4.5 and 4.7)."""
    table = tables["sensitivity.csv"]
    table = table[table["side"] == side]
    deviation = (table["cost"] / table["leading"] - 1).abs()
    return find_worst(table, divide(deviation, table["bound"]))


def cost_in_leading_terms(tables: Tables, side: str, largest_rho: float) -> list[Found]:
    """Median cost of a permutation in units of the leading term, for each variant, where rho is small.

    Whether the theorem's other assumption, the concentration of the Gram matrices, holds is told, not asked for.
    """
    table = tables["sensitivity.csv"]
    table = table[table["side"] == side]
    rows = table[table["rho"] <= largest_rho]
    if rows.empty:
        finite = table["rho"][np.isfinite(table["rho"])]
        nearest = "there are no fixed weights" if finite.empty else f"the smallest rho is {finite.min():.3g}"
        return [f"no permutation with rho <= {largest_rho:g}; {nearest}"]
    found: list[Found] = []
    for name, of_variant in split_variants(rows, every_row):
        ratios = (of_variant["cost"] / of_variant["leading"]).to_numpy()
        value = float(np.median(ratios)) if np.isfinite(ratios).all() else float("nan")
        told = f"{np.min(ratios):.3g} to {np.max(ratios):.3g}; {count_held(of_variant)}"
        found.append(Measurement(value, len(ratios), spread(ratios), name, told))
    return found


NEAR_LEADING = between(0.5, 1.5)


def _sensitivity(theorem: str, side: str, statement: str) -> tuple[Claim, ...]:
    return (
        stated(
            f"identifiability-thm{theorem}-bound",
            f"identifiability-thm{theorem}",
            f"{statement} follows the leading term |delta|^2 / mu_D within the bound of Theorem {theorem}: "
            "largest |cost / leading term - 1| in units of the bound",
            EXACT,
            NO_ALLOWANCE,
            "sensitivity.csv",
            partial(deviation_from_leading, side=side),
        ),
        stated(
            f"identifiability-thm{theorem}-leading",
            f"identifiability-thm{theorem}",
            f"Beyond Theorem {theorem}: {statement[0].lower()}{statement[1:]} is about the leading term where fixed "
            "centres dominate (rho of 0.1 and less): median cost in units of the leading term",
            NEAR_LEADING,
            "Beyond the theorem, whose bound needs concentrated Gram matrices too. Its error is 2 rho, here at most "
            "0.2, and a term of the masks; 0.3 is left for that one.",
            "sensitivity.csv",
            partial(cost_in_leading_terms, side=side, largest_rho=0.1),
        ),
    )


CLAIMS = (
    *_sensitivity("4.5", "output", "What reassigning a layer's neurons costs"),
    *_sensitivity("4.7", "input", "What permuting a layer's inputs costs"),
)
