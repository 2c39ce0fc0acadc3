"""Theorems 5.1 and D.1: chord deviation of single layers against beta."""

from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.neuron_identifiability import theorems
from symlab.papers.neuron_identifiability.variants import label_all
from symlab.plotting import style as plot
from symlab.plotting.pairs import PAIR
from symlab.study.card import Drawing
from symlab.study.cases import cases
from symlab.study.claim import Bound, Claim, Found, Tables, between
from symlab.study.facets import Panel, draw_grid, labelled
from symlab.study.statistics import slope
from symlab.study.tables import need, some, where

THEOREMS = {"relu": ("ReLU (Thm. 5.1)", 1.5, 0.1), "gelu": ("GELU (Thm. D.1)", 2.0, 0.01)}
"""Of each nonlinearity the name, the power of beta, and up to which beta it is small."""


def draw_exponents(tables: Tables, style: plot.Style) -> plot.Figure:
    rows, variants = label_all(need(tables, "chord_deviation.csv"))
    fixed = (rows["norm_F"] > 0) & np.isfinite(rows["beta"])
    kept = some(
        rows[fixed & (rows["beta"] > 0) & (rows["chord"] > 0) & rows["nonlinearity"].isin(THEOREMS)],
        f"{where(rows)}.variants has no variant with fixed weights, over which the trainable ones are small; add one "
        "with scheme.sigma_F above 0.",
    )
    kinds = [name for name in THEOREMS if name in set(kept["nonlinearity"])]
    shown = pd.concat(fit(kept[kept["nonlinearity"] == kind], THEOREMS[kind][2]) for kind in kinds)
    shown = shown.assign(hollow=shown["inputs"] != "gaussian")
    looks = theorems.point_looks(variants, style)
    shown["place"] = theorems.dodge(shown, "layer", list(looks), 0.6)

    def panel(kind: str, value: str) -> Panel:
        name, power, _ = THEOREMS[kind]
        layers, level = sorted(shown["layer"].unique()), power if value == "slope" else 1.0
        if value == "slope":
            axes = labelled("layer", "fitted power of $\\beta$", title=name, xticks=layers)
        else:
            axes = labelled("layer", "largest deviation\nover its bound", "y", xticks=layers)
        part = shown[shown["nonlinearity"] == kind]
        return Panel(part, "place", value, axes, theorems.draw_cases, more=theorems.line_at(level))

    sentences = ["a point a layer of a pair", theorems.say_left_out(rows[~fixed], r"F = 0, or $\beta$ infinite")]
    entries = [
        *theorems.hollow_entry(shown, "hollow: inputs not Gaussian"),
        plot.line_entry("power, bound of the theorem", linewidth=0.8),
    ]
    return draw_grid(
        [[panel(kind, value) for kind in kinds] for value in ("slope", "share")], looks, height=1.8, entries=entries,
        width=plot.PAGE if len(kinds) > 1 else 0.6 * plot.PAGE, note="\n".join(sentences),
    )  # fmt: skip


def fit(rows: pd.DataFrame, largest_beta: float) -> pd.DataFrame:
    """Of each layer of each pair, by nonlinearity and inputs: ``slope`` of log chord against log beta up to
    ``largest_beta``, and the largest ``share`` of the bound. A layer with fewer than two such beta is left out."""
    place = ["variant", *(["label"] if "label" in rows else []), *PAIR, "layer", "nonlinearity", "inputs"]
    found = []
    for key, line in rows.groupby(place, sort=False):
        # The negation keeps a beta that is not a number, which is to show.
        small = line[~(line["beta"] > largest_beta)]
        if len(small) > 1:
            share = (line["chord"] / line["bound"])[line["beta"] < 1].max()
            found.append((*key, slope(small.set_index("beta")["chord"]), share))
    return pd.DataFrame(found, columns=[*place, "slope", "share"])


FIGURES = {
    "identifiability-thm5.1": Drawing(
        "Chord deviation against beta (Thms. 5.1, D.1)",
        "How a layer's chord deviation (the L² norm of the difference between its output on the line between two "
        "networks and the mixture of their outputs) falls with β, which bounds the trainable part of every neuron "
        "over its fixed part, study `{study}`: above, the power of β fitted where β is small (up to 0.1 for ReLU, "
        "0.01 for GELU); below, the largest deviation over its bound, for β < 1. A point is a layer of one pair, "
        "whose trainable part is scaled down step by step. Inputs are Gaussian with the covariance of the layer's, "
        "as the theorems ask, or the data themselves (hollow).",
        draw_exponents,
        seen="The mean fitted powers on Gaussian inputs are {relu-slope} for ReLU (theorem: 1.5) and {gelu-slope} for "
        "GELU (2).",
        differs="The paper has no such figure.",
    ),
}


def chord_exponent(tables: Tables, nonlinearity: str, largest_beta: float) -> list[Found]:
    """Least-squares slope of log chord deviation against log beta, mean over the layers of a pair and over pairs.

    From Gaussian inputs and the scales with beta up to ``largest_beta``; a layer with fewer than two is left out.
    """
    table = tables["chord_deviation.csv"]
    rows = table[theorems.assumptions_hold(table)].query("nonlinearity == @nonlinearity and inputs == 'gaussian'")
    told = f"β up to {largest_beta:g}"
    fitted = fit(rows, largest_beta)
    return [] if fitted.empty else cases(fitted, "slope", unit=["variant", *PAIR]).detailed(lambda _: told).means()


def _bound(nonlinearity: str, theorem: str, bound: Bound, quadrature: str = "") -> Claim:
    name = THEOREMS[nonlinearity][0].split()[0]
    return theorems.worst_claim(
        *("chord_deviation.csv", "chord / bound", f"nonlinearity == '{nonlinearity}'"),
        statement=f"The chord deviation of a {name} layer on Gaussian inputs is within the bound of Theorem {theorem}",
        quantity="largest deviation in units of the bound",
        bound=bound,
        reason=f"{theorems.NO_ALLOWANCE}{quadrature}",
    )


def _slope(nonlinearity: str, margin: float, why: str) -> Claim:
    name, power, small = THEOREMS[nonlinearity]
    return Claim(
        statement=f"The chord deviation of a {name.split()[0]} layer on Gaussian inputs grows as β^{power:g}",
        quantity=f"slope of log deviation against log β for β up to {small:g}, mean over layers and pairs",
        bound=between(power - margin, power + margin),
        owner="derived",
        origin="ours",
        reason=why,
        tables=("chord_deviation.csv",),
        measure=partial(chord_exponent, nonlinearity=nonlinearity, largest_beta=small),
    )


CLAIMS = {
    "identifiability-thm5.1-relu-bound": _bound("relu", "5.1", theorems.EXACT),
    "identifiability-thm5.1-gelu-bound": _bound(
        "gelu", "D.1", theorems.QUADRATURE, " Deviations of GELU come from a quadrature."
    ),
    "identifiability-thm5.1-relu-slope": _slope(
        *("relu", 0.1),
        "Theorem 5.1 has β^(3/2) (1 + β), whose second factor adds less than 0.1 to the slope at these β.",
    ),
    "identifiability-thm5.1-gelu-slope": _slope(
        *("gelu", 0.2),
        "Theorem D.1 has β². GELU bends over about one unit of the pre-activation, and fixed parts alone move it by "
        "several: only a hundredth of that is small beside the bend, so β is to be smaller than for ReLU, and the "
        "margin wider.",
    ),
}
