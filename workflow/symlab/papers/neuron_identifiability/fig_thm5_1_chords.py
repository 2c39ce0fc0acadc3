"""Theorems 5.1 and D.1: chord deviation of single layers against beta."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Found, Tables, between, mean_of, slope, stated
from symlab.papers.neuron_identifiability.worst_rows import EXACT, NO_ALLOWANCE, QUADRATURE, divide, find_worst
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
from symlab.plotting.rows import PAIR, assumptions_hold, label_all, need, where
from symlab.plotting.style import (
    PAGE,
    Style,
    legend,
    line_entry,
    name_axes,
    name_row,
    panels,
    variant_looks,
    wrap_sentences,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


INPUTS = {"gaussian": "Gaussian inputs", "data": "the data's inputs"}
NONLINEARITIES = {"relu": "ReLU", "gelu": "GELU"}
SLOPES = {1.5: ("slope 3/2", (0, (1, 1.5))), 2.0: ("slope 2", (0, (6, 2, 1, 2)))}


def against_beta(tables: Tables, style: Style) -> Figure:
    """Figure thm5.1: sup over lambda of |xi|_L2, in units of |F Sigma^(1/2)|_F, against beta.

    A row a nonlinearity, a column a distribution of the inputs; a line a layer of a pair, over scales of its trainable
    part; bounds are dashed.
    """
    rows, variants = label_all(need(tables, "chord_deviation.csv"))
    fixed = (rows["norm_F"] > 0) & np.isfinite(rows["beta"])
    shown = rows[fixed & (rows["beta"] > 0) & (rows["chord"] > 0)]
    if shown.empty:
        raise UserError(
            f"{where(rows)}.variants has no variant with fixed weights, in whose units chords are measured; add one "
            "with scheme.sigma_F above 0."
        )
    shown = shown.assign(chord=shown["chord"] / shown["norm_F"], bound=shown["bound"] / shown["norm_F"])
    looks, marks = variant_looks(variants, style), assign_markers(sorted(shown["layer"]))
    kinds = [name for name in NONLINEARITIES if name in set(shown["nonlinearity"])]
    inputs = [name for name in INPUTS if name in set(shown["inputs"])]
    width = PAGE if len(inputs) > 1 else 0.7 * PAGE
    figure, axes = panels(len(kinds), len(inputs), width, 1.5 + 1.9 * len(kinds), sharey="row")
    for row, kind in enumerate(kinds):
        for column, name in enumerate(inputs):
            axis = axes[row, column]
            part = shown[(shown["nonlinearity"] == kind) & (shown["inputs"] == name)]
            for (_, _, _, layer), of_line in part.groupby(["variant", "mask_seed", "pair", "layer"], sort=False):
                ordered = of_line.sort_values("beta")
                label, beta, chord = str(ordered["label"].iloc[0]), ordered["beta"], ordered["chord"]
                color, named = looks[label].color, f"{label}, layer {layer}"
                axis.plot(beta, chord, color=color, lw=0.7, alpha=0.6, label=f"line, {named}")
                draw_points(axis, beta, chord, fails(ordered), color, marks[layer], named)
                axis.plot(beta, ordered["bound"], color=color, ls="--", lw=0.8, label=f"bound, {named}")
            _slopes(axis, part)
            if row == 0:
                axis.set_title(INPUTS[name])
        name_row(axes[row, -1], NONLINEARITIES[kind])
    scale_log(axes, "x")
    for of_kind in axes:
        scale_log(of_kind, "y")
    name_axes(
        axes,
        r"$\beta$ (trainable over fixed)",
        r"chord deviation / $\|F\,\Sigma^{1/2}\|_F$",
    )
    entries = [
        *color_entries(looks, shown),
        *marker_entries({f"layer {layer}": mark for layer, mark in marks.items()}),
        line_entry("bound", linestyle="--"),
        *(line_entry(name, color="0.5", linestyle=dashes) for name, dashes in SLOPES.values()),
        *hollow_entry(fails(shown)),
    ]
    missing, straight = rows[~fixed], rows[fixed & ~rows.index.isin(shown.index)]
    none_drawn = straight[~straight["label"].isin(shown["label"])]
    sentences = [
        say_left_out(missing, rows, r"F = 0 and with it the unit, or $\beta$ infinite"),
        say_left_out(none_drawn, rows, r"chord or $\beta$ is 0"),
        say_points_left_out(straight.drop(none_drawn.index), rows[fixed], r"where the chord or $\beta$ is 0"),
    ]
    legend(figure, entries, wrap_sentences(sentences, width, style))
    return figure


def _slopes(axis: Axes, rows: pd.DataFrame) -> None:
    """Lines of the theorems' powers of beta through the logarithmic mean of a panel's points."""
    if rows.empty:
        return
    x = np.array([rows["beta"].min(), rows["beta"].max()])
    at, height = (np.exp(np.log(rows[name]).mean()) for name in ("beta", "chord"))
    for power, (name, dashes) in SLOPES.items():
        axis.plot(x, height * (x / at) ** power, color="0.5", linestyle=dashes, linewidth=1.0, label=name, zorder=0)


FIGURES = (
    Drawing(
        "identifiability-thm5.1",
        "Chord deviation against beta (Thms. 5.1, D.1)",
        """\
Chord deviation of single layers, the L² norm of the difference between the layer's output at λ on the line between
two networks and the same mixture of the two networks' outputs, largest over λ, in units of ‖F Σ^½‖, against β, study
`{study}` (Theorem 5.1 for ReLU, D.1 for GELU). β bounds the trainable part of every neuron over its fixed part; a
line is one layer of one pair whose trainable part is scaled down step by step. Inputs are Gaussian with the
covariance of the layer's inputs on the left, and the data themselves on the right. Dashed lines are the bounds in the
colour of their networks, grey ones have slopes 3/2 and 2. Both axes are logarithmic. Hollow points: an assumption of
the theorem fails, mostly β ≥ 1 or inputs that are not Gaussian. Networks without fixed weights have no β and are
named above.

For small β points should follow slope 3/2 with ReLU and slope 2 with GELU, below their bounds. If the right panels
look like the left ones, the theorem's assumption of Gaussian inputs does not matter.
""",
        against_beta,
    ),
)


def chord_over_bound(tables: Tables, nonlinearity: str) -> list[Found]:
    """Largest chord deviation of a layer in units of its bound (Thms. 5.1 and D.1)."""
    table = tables["chord_deviation.csv"]
    table = table[table["nonlinearity"] == nonlinearity]
    return find_worst(table, divide(table["chord"], table["bound"]))


def chord_exponent(tables: Tables, nonlinearity: str, largest_beta: float) -> list[Found]:
    """Least-squares slope of log chord deviation against log beta, mean over the layers of all pairs.

    From Gaussian inputs and the scales with beta up to ``largest_beta``; a layer with fewer than two is left out.
    """
    table = tables["chord_deviation.csv"]
    rows = table[(table["nonlinearity"] == nonlinearity) & (table["inputs"] == "gaussian") & assumptions_hold(table)]
    # The negation keeps a beta that is not a number, which is to show.
    rows = rows[~(rows["beta"] > largest_beta)]
    slopes = [
        slope(layer.set_index("beta")["chord"])
        for _, layer in rows.groupby(["variant", *PAIR, "layer"])
        if len(layer) > 1
    ]
    if not slopes:
        return []
    told = f"beta = {rows['beta'].min():.2g} to {rows['beta'].max():.2g}"
    return [mean_of(np.array(slopes), detail=told)]


CLAIMS = (
    *(
        stated(
            f"identifiability-thm5.1-{nonlinearity}-bound",
            "identifiability-thm5.1",
            f"The chord deviation of a {name} layer on Gaussian inputs is within the bound of Theorem {theorem}: "
            "largest deviation in units of the bound",
            bound,
            reason,
            "chord_deviation.csv",
            partial(chord_over_bound, nonlinearity=nonlinearity),
        )
        for nonlinearity, name, theorem, bound, reason in (
            ("relu", "ReLU", "5.1", EXACT, NO_ALLOWANCE),
            ("gelu", "GELU", "D.1", QUADRATURE, f"{NO_ALLOWANCE} Deviations of GELU come from a quadrature."),
        )
    ),
    *(
        stated(
            f"identifiability-thm5.1-{nonlinearity}-slope",
            "identifiability-thm5.1",
            f"The chord deviation of a {name} layer on Gaussian inputs grows as beta^{exponent}: slope of log "
            f"deviation against log beta for beta up to {small}, mean over layers and pairs",
            between(exponent - margin, exponent + margin),
            reason,
            "chord_deviation.csv",
            partial(chord_exponent, nonlinearity=nonlinearity, largest_beta=small),
        )
        for nonlinearity, name, exponent, margin, small, reason in (
            (
                "relu",
                "ReLU",
                1.5,
                0.1,
                0.1,
                "Theorem 5.1 has beta^(3/2) (1 + beta), whose second factor adds less than 0.1 to the slope at these "
                "beta.",
            ),
            (
                "gelu",
                "GELU",
                2,
                0.2,
                0.01,
                "Theorem D.1 has beta^2. GELU bends over about one unit of the pre-activation, and fixed parts alone "
                "move it by several: only a hundredth of that is small beside the bend, so beta is to be smaller than "
                "for ReLU, and the margin wider.",
            ),
        )
    ),
)
