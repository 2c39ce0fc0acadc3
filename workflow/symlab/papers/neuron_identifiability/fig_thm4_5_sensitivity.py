"""Theorems 4.5 and 4.7: costs of permutations over the leading term that fixed weights give."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.papers.neuron_identifiability.points import (
    assign_markers,
    color_entries,
    draw_points,
    fails,
    hollow_entry,
    marker_entries,
    raise_to_floor,
    say_left_out,
    say_points_left_out,
)
from symlab.papers.neuron_identifiability.rows import MODEL, assumptions_hold
from symlab.papers.neuron_identifiability.variants import every_row, label_all, split_variants
from symlab.papers.neuron_identifiability.worst_rows import bound_claim, count_held, divide, find_worst
from symlab.plotting import style as plot
from symlab.plotting.log_axes import floor_of, scale_log
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Measurement, Tables, between, spread, standard_error
from symlab.study.tables import need, where

if TYPE_CHECKING:
    from matplotlib.figure import Figure


PERMUTATIONS = {"transposition": "transpositions", "random": "random permutations"}
LARGEST_RHO = 10.0
"""Ten times the largest rho of which the theorems say something; farther points would squeeze the others."""


def of_outputs(tables: Tables, style: plot.Style) -> Figure:
    """Figure thm4.5: |Delta_out(pi) mu_D / |delta_out|_F^2 - 1| over its bound against rho."""
    return _ratios(tables, "output", style)


def of_inputs(tables: Tables, style: plot.Style) -> Figure:
    """Figure thm4.7: |Delta_in(tau) mu_D / |delta_in|_F^2 - 1| over its bound against rho."""
    return _ratios(tables, "input", style)


def _ratios(tables: Tables, side: str, style: plot.Style) -> Figure:
    """A row a kind of permutation, a column a layer; at most 1 where the theorem holds."""
    table = need(tables, "sensitivity.csv")
    rows, variants = label_all(table[table["side"] == side])
    without = ~(rows["leading"] > 0)
    share = _share_of_bound(rows)
    bounded = share.notna() & (rows["rho"] > 0)
    shown = rows.assign(share=share)[bounded & (rows["rho"] <= LARGEST_RHO)]
    if shown.empty:
        raise UserError(
            f"{where(table)}.variants has no variant whose fixed weights give the costs of {side} permutations a "
            "leading term and a bound; add one with scheme.sigma_F above 0."
        )
    floor = floor_of(shown["share"])
    looks = variant_looks(variants, style)
    marks = assign_markers(shown["dataset"])
    kinds = [kind for kind in PERMUTATIONS if kind in set(shown["permutation"])]
    layers = sorted(shown["layer"].unique())
    figure, axes = plot.panels(len(kinds), len(layers), plot.PAGE, 1.5 + 1.6 * len(kinds))
    for row, kind in enumerate(kinds):
        for column, layer in enumerate(layers):
            axis = axes[row, column]
            axis.axhline(1, color="0.4", linewidth=0.8, zorder=0)
            part = shown[(shown["permutation"] == kind) & (shown["layer"] == layer)]
            for (label, dataset), of_variant in part.groupby(["label", "dataset"], sort=False):
                y = raise_to_floor(of_variant["share"], floor)
                color, marker = looks[str(label)].color, marks[dataset]
                draw_points(axis, of_variant["rho"], y, fails(of_variant), color, marker, str(label))
            if row == 0:
                axis.set_title(f"layer {layer}")
        plot.name_row(axes[row, -1], PERMUTATIONS[kind])
    scale_log(axes, "x")
    scale_log(axes, "y")
    plot.name_axes(axes, r"$\rho$ (trainable over fixed)", "|cost / leading term − 1|\nover its bound")
    entries = [
        *color_entries(looks, shown),
        *(marker_entries(marks) if len(marks) > 1 else []),
        plot.line_entry("bound", linewidth=0.8),
        *hollow_entry(fails(shown)),
    ]
    # Variants with a leading term somewhere.
    some = rows["label"].isin(rows.loc[~without, "label"])
    sentences = [
        "a point a permutation",
        say_left_out(rows[without & ~some], rows, "F = 0 and with it the leading term"),
        say_points_left_out(rows[without & some], rows[some], "where the permutation moves no centre"),
        say_points_left_out(rows[~without & ~bounded], rows[some], "without a bound or of infinite cost"),
        say_points_left_out(rows[bounded & (rows["rho"] > LARGEST_RHO)], rows[some], rf"$\rho$ > {LARGEST_RHO:g}"),
    ]
    plot.legend(figure, entries, plot.wrap_sentences(sentences, plot.PAGE, style))
    return figure


def _share_of_bound(rows: pd.DataFrame) -> pd.Series:
    return divide((rows["cost"] / rows["leading"].where(rows["leading"] > 0) - 1).abs(), rows["bound"])


def _seen(tables: Tables, side: str) -> str:
    rows = tables["sensitivity.csv"]
    rows = rows[rows["side"] == side]
    share, holds = _share_of_bound(rows), assumptions_hold(rows)
    if not holds.any():
        return f"The assumptions hold for none of {len(rows)} permutations; all points are hollow."
    return (
        f"The assumptions hold for {int(holds.sum())} of {len(rows)} permutations, whose costs leave the leading term "
        f"by {share[holds].max():.2g} of the bound at most, {share[holds].median():.2g} in the median."
    )


def _drawing(theorem: str, side: str, cost: str, shift: str, equation: int) -> Drawing:
    return Drawing(
        f"identifiability-thm{theorem}",
        f"Cost of {side} permutations (Thm. {theorem})",
        f"""\
How far the cost {cost} is from the leading term ‖{shift}‖² / μ_D that the fixed weights give: |cost / leading term − 1|
over its bound (Equation {equation}), against ρ, the scale of the trainable part over that of the fixed one, study
`{{study}}`. The theorem says: at or below 1. A point is one permutation of one network; both axes are logarithmic.
Hollow points: an assumption fails, mostly ρ > 1 or ε > μ_D / 2.
""",
        of_outputs if side == "output" else of_inputs,
        partial(_seen, side=side),
        "The paper has no such figure.",
    )


FIGURES = (
    _drawing("4.5", "output", "Δ_out(π) of reassigning neurons", "δ_out", 87),
    _drawing("4.7", "input", "Δ_in(τ) of reindexing a layer's inputs", "δ_in", 147),
)


def deviation_from_leading(tables: Tables, side: str) -> list[Found]:
    """Largest |cost / leading term - 1| of a permutation in units of its bound (Thms. 4.5 and 4.7)."""
    table = tables["sensitivity.csv"]
    table = table[table["side"] == side]
    return find_worst(table, _share_of_bound(table))


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
        # The permutations of a network share its weights.
        networks = [part for _, part in of_variant.groupby(MODEL)]
        medians = np.array([np.median(part["cost"] / part["leading"]) for part in networks])
        error = standard_error(medians)
        found.append(Measurement(value, len(medians), spread(medians), name, told, error, "networks"))
    return found


def _sensitivity(theorem: str, side: str, what: str) -> tuple[Claim, ...]:
    return (
        bound_claim(
            id=f"identifiability-thm{theorem}-bound",
            statement=f"What {what} costs follows the leading term ‖δ‖² / μ_D within the bound of Theorem {theorem}",
            quantity="largest |cost / leading term − 1| in units of the bound",
            tables=("sensitivity.csv",),
            measure=partial(deviation_from_leading, side=side),
        ),
        Claim(
            id=f"identifiability-thm{theorem}-leading",
            statement=f"Where fixed centres dominate (ρ of 0.1 and less), what {what} costs is about the leading term",
            quantity="median cost in units of the leading term",
            bound=between(0.5, 1.5),
            owner="ours",
            origin="ours",
            reason=f"Beyond Theorem {theorem}, whose bound needs concentrated Gram matrices too. Its error is 2 ρ, "
            "here at most 0.2, and a term of the masks; 0.3 is left for that one.",
            tables=("sensitivity.csv",),
            measure=partial(cost_in_leading_terms, side=side, largest_rho=0.1),
            why={
                "": "The fixed weights of a W-asymmetric neuron sit where its mask hides inputs, so its centre points "
                "where its own Gram matrix is small, and a swap costs more."
            },
        ),
    )


CLAIMS = (
    *_sensitivity("4.5", "output", "reassigning a layer's neurons"),
    *_sensitivity("4.7", "input", "permuting a layer's inputs"),
)
