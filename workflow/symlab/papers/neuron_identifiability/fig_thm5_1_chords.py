"""Theorems 5.1 and D.1: chord deviation of single layers against beta."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.papers.neuron_identifiability.points import color_entries, draw_points, say_left_out
from symlab.papers.neuron_identifiability.rows import assumptions_hold
from symlab.papers.neuron_identifiability.variants import label_all
from symlab.papers.neuron_identifiability.worst_rows import EXACT, NO_ALLOWANCE, QUADRATURE, divide, find_worst
from symlab.plotting import style as plot
from symlab.plotting.log_axes import scale_log
from symlab.plotting.pairs import PAIR
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, between, mean_of, slope
from symlab.study.tables import need, where

if TYPE_CHECKING:
    from matplotlib.figure import Figure


THEOREMS = {"relu": ("ReLU (Thm. 5.1)", 1.5, 0.1), "gelu": ("GELU (Thm. D.1)", 2.0, 0.01)}
"""Of each nonlinearity the name, the power of beta, and up to which beta it is small."""
SPREAD = 0.6
"""Share of the distance between two layers over which variants are spread."""


def exponents(tables: Tables, style: plot.Style) -> Figure:
    """Figure thm5.1: fitted powers of beta above, largest share of the bound below, by layer, a column a nonlinearity.

    A point is a layer of a pair of networks, whose trainable part is scaled down step by step.
    """
    rows, variants = label_all(need(tables, "chord_deviation.csv"))
    fixed = (rows["norm_F"] > 0) & np.isfinite(rows["beta"])
    found = _fits(rows[fixed & (rows["beta"] > 0) & (rows["chord"] > 0)])
    if found.empty:
        raise UserError(
            f"{where(rows)}.variants has no variant with fixed weights, over which the trainable ones are small; add "
            "one with scheme.sigma_F above 0."
        )
    looks = variant_looks(variants, style)
    kinds = [name for name in THEOREMS if name in set(found["nonlinearity"])]
    labels = [label for label in looks if label in set(found["label"])]
    layers = sorted(found["layer"].unique())
    figure, axes = plot.panels(2, len(kinds), plot.PAGE if len(kinds) > 1 else 0.6 * plot.PAGE, 4.4, sharey="row")
    for column, kind in enumerate(kinds):
        name, power, _ = THEOREMS[kind]
        axes[0, column].axhline(power, color="0.4", linewidth=0.8, zorder=0)
        axes[1, column].axhline(1, color="0.4", linewidth=0.8, zorder=0)
        for label in labels:
            part = found[(found["nonlinearity"] == kind) & (found["label"] == label)]
            x = part["layer"] + (labels.index(label) - (len(labels) - 1) / 2) * SPREAD / len(labels)
            hollow, color = (part["inputs"] != "gaussian").to_numpy(), looks[label].color
            draw_points(axes[0, column], x, part["slope"], hollow, color, "o", label)
            draw_points(axes[1, column], x, part["share"], hollow, color, "o", label)
        axes[0, column].set_title(name)
        axes[0, column].annotate(
            rf"$\beta^{{{power:g}}}$",
            (0, power),
            (3, 2),
            axes[0, column].get_yaxis_transform(),
            "offset points",
            fontsize="small",
        )
        axes[1, column].set_xticks(layers)
        axes[1, column].set_xlim(layers[0] - 0.6, layers[-1] + 0.6)
    scale_log(axes[1], "y")
    plot.name_axes(axes, "layer", "")
    for axis in axes[0]:
        axis.set_ylabel(r"fitted power of $\beta$")
    for axis in axes[1]:
        axis.set_ylabel("largest deviation\nover its bound")
    hollow = found["inputs"] != "gaussian"
    entries = [
        *color_entries(looks, found),
        *([plot.mark_entry("hollow: inputs not Gaussian", "o", mfc="white", mec="0.4")] if hollow.any() else []),
        plot.line_entry("power, bound of the theorem", linewidth=0.8),
    ]
    sentences = ["a point a layer of a pair", say_left_out(rows[~fixed], rows, r"F = 0, or $\beta$ infinite")]
    plot.legend(figure, entries, plot.wrap_sentences(sentences, plot.PAGE, style))
    return figure


def _fits(rows: pd.DataFrame) -> pd.DataFrame:
    """Slope over small beta and largest share of the bound of each layer of each pair, by nonlinearity and inputs."""
    found = []
    place = ["variant", "label", *PAIR, "layer", "nonlinearity", "inputs"]
    for key, line in rows.groupby(place, sort=False):
        small = line[line["beta"] <= THEOREMS[str(key[-2])][2]]
        if len(small) > 1:
            share = (line["chord"] / line["bound"])[line["beta"] < 1].max()
            found.append((*key, slope(small.set_index("beta")["chord"]), share))
    return pd.DataFrame(found, columns=[*place, "slope", "share"])


def _seen(tables: Tables) -> str:
    rows = tables["chord_deviation.csv"].assign(label="")
    found = _fits(rows[(rows["norm_F"] > 0) & (rows["beta"] > 0) & (rows["chord"] > 0)])
    told = []
    for kind, (name, power, _) in THEOREMS.items():
        own = found[(found["nonlinearity"] == kind) & (found["inputs"] == "gaussian")]
        if len(own):
            told.append(
                f"{name.partition(' ')[0]}: β^{own['slope'].mean():.3g} (theorem: β^{power:g}), at most "
                f"{own['share'].max():.2g} of the bound"
            )
    return f"The mean fitted powers on Gaussian inputs are {'; '.join(told)}."


FIGURES = (
    Drawing(
        "identifiability-thm5.1",
        "Chord deviation against beta (Thms. 5.1, D.1)",
        """\
How a layer's chord deviation (the L² norm of the difference between its output on the line between two networks and
the mixture of their outputs) falls with β, which bounds the trainable part of every neuron over its fixed part, study
`{study}`: above, the power of β fitted where β is small (up to 0.1 for ReLU, 0.01 for GELU); below, the largest
deviation over its bound, for β < 1. A point is a layer of one pair, whose trainable part is scaled down step by step.
Inputs are Gaussian with the covariance of the layer's, as the theorems ask, or the data themselves (hollow).
""",
        exponents,
        _seen,
        "The paper has no such figure.",
    ),
)


def chord_over_bound(tables: Tables, nonlinearity: str) -> list[Found]:
    """Largest chord deviation of a layer in units of its bound (Thms. 5.1 and D.1)."""
    table = tables["chord_deviation.csv"]
    table = table[table["nonlinearity"] == nonlinearity]
    return find_worst(table, divide(table["chord"], table["bound"]))


def chord_exponent(tables: Tables, nonlinearity: str, largest_beta: float) -> list[Found]:
    """Least-squares slope of log chord deviation against log beta, mean over the layers of a pair and over pairs.

    From Gaussian inputs and the scales with beta up to ``largest_beta``; a layer with fewer than two is left out.
    """
    table = tables["chord_deviation.csv"]
    rows = table[(table["nonlinearity"] == nonlinearity) & (table["inputs"] == "gaussian") & assumptions_hold(table)]
    # The negation keeps a beta that is not a number, which is to show.
    rows = rows[~(rows["beta"] > largest_beta)]
    slopes = {
        key: slope(layer.set_index("beta")["chord"])
        for key, layer in rows.groupby(["variant", *PAIR, "layer"])
        if len(layer) > 1
    }
    if not slopes:
        return []
    told = f"β = {rows['beta'].min():.2g} to {rows['beta'].max():.2g}"
    of_pairs = pd.Series(slopes).groupby(level=[0, 1, 2]).agg(lambda layers: layers.mean(skipna=False))
    return [mean_of(of_pairs.to_numpy(), detail=told)]


CLAIMS = (
    *(
        Claim(
            id=f"identifiability-thm5.1-{nonlinearity}-bound",
            statement=f"The chord deviation of a {name} layer on Gaussian inputs is within the bound of Theorem "
            f"{theorem}",
            quantity="largest deviation in units of the bound",
            bound=bound,
            owner="paper",
            origin="paper",
            reason=reason,
            tables=("chord_deviation.csv",),
            measure=partial(chord_over_bound, nonlinearity=nonlinearity),
            kind="theorem",
        )
        for nonlinearity, name, theorem, bound, reason in (
            ("relu", "ReLU", "5.1", EXACT, NO_ALLOWANCE),
            ("gelu", "GELU", "D.1", QUADRATURE, f"{NO_ALLOWANCE} Deviations of GELU come from a quadrature."),
        )
    ),
    *(
        Claim(
            id=f"identifiability-thm5.1-{nonlinearity}-slope",
            statement=f"The chord deviation of a {name} layer on Gaussian inputs grows as "
            f"β^{THEOREMS[nonlinearity][1]:g}",
            quantity=f"slope of log deviation against log β for β up to {THEOREMS[nonlinearity][2]:g}, mean over "
            "layers and pairs",
            bound=between(THEOREMS[nonlinearity][1] - margin, THEOREMS[nonlinearity][1] + margin),
            owner="derived",
            origin="ours",
            reason=reason,
            tables=("chord_deviation.csv",),
            measure=partial(chord_exponent, nonlinearity=nonlinearity, largest_beta=THEOREMS[nonlinearity][2]),
        )
        for nonlinearity, name, margin, reason in (
            (
                "relu",
                "ReLU",
                0.1,
                "Theorem 5.1 has β^(3/2) (1 + β), whose second factor adds less than 0.1 to the slope at these β.",
            ),
            (
                "gelu",
                "GELU",
                0.2,
                "Theorem D.1 has β². GELU bends over about one unit of the pre-activation, and fixed parts alone move "
                "it by several: only a hundredth of that is small beside the bend, so β is to be smaller than for "
                "ReLU, and the margin wider.",
            ),
        )
    ),
)
