"""Theorems 4.5 and 4.7: costs of permutations over the leading term that fixed weights give."""

from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.neuron_identifiability import theorems
from symlab.papers.neuron_identifiability.rows import MODEL, describe
from symlab.papers.neuron_identifiability.variants import by_variant, label_all
from symlab.plotting import style as plot
from symlab.plotting.log_axes import floor_of
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, between
from symlab.study.facets import facets, labelled
from symlab.study.tables import need, some, where

PERMUTATIONS = {"transposition": "transpositions", "random": "random permutations"}
LARGEST_RHO = 10.0
"""Ten times the largest rho of which the theorems say something; farther points would squeeze the others."""


def draw_shares(tables: Tables, style: plot.Style, side: str) -> plot.Figure:
    """|cost / leading term - 1| over its bound against rho, a row a kind of permutation, a column a layer."""
    table = need(tables, "sensitivity.csv")
    rows, variants = label_all(table[table["side"] == side])
    rows = rows.assign(share=_share_of_bound(rows))
    without = ~(rows["leading"] > 0)
    bounded = rows["share"].notna() & (rows["rho"] > 0)
    shown = some(
        rows[bounded & (rows["rho"] <= LARGEST_RHO)],
        f"{where(table)}.variants has no variant whose fixed weights give the costs of {side} permutations a leading "
        "term and a bound; add one with scheme.sigma_F above 0.",
    )
    shown = theorems.mark_hollow(shown.assign(share=shown["share"].clip(floor_of(shown["share"]))))
    shown = shown.sort_values("layer", kind="stable").sort_values("permutation", ascending=False, kind="stable")
    # Variants with a leading term somewhere.
    led = rows["label"].isin(rows.loc[~without, "label"])
    sentences = [
        "a point a permutation",
        theorems.say_left_out(rows[without & ~led], "F = 0 and with it the leading term"),
        theorems.count_left_out(rows[without & led], rows[led], "where the permutation moves no centre"),
        theorems.count_left_out(rows[~without & ~bounded], rows[led], "without a bound or of infinite cost"),
        theorems.count_left_out(rows[bounded & (rows["rho"] > LARGEST_RHO)], rows[led], rf"$\rho$ > {LARGEST_RHO:g}"),
    ]
    return facets(
        shown, "rho", "share", theorems.point_looks(variants, style), row="permutation", column="layer",
        title="layer {}".format,
        axes=labelled(r"$\rho$ (trainable over fixed)", "error of the leading\nterm / its bound", "xy"),
        draw=theorems.draw_cases, more=theorems.line_at(1),
        rows_named=[PERMUTATIONS[kind] for kind in dict.fromkeys(shown["permutation"])],
        entries=[plot.line_entry("bound", linewidth=0.8), *theorems.hollow_entry(shown)], sharey=True, height=1.6,
        note="\n".join(sentences),
    )  # fmt: skip


def _share_of_bound(rows: pd.DataFrame) -> pd.Series:
    return theorems.divide((rows["cost"] / rows["leading"].where(rows["leading"] > 0) - 1).abs(), rows["bound"])


def _drawing(theorem: str, side: str, cost: str, shift: str, equation: int) -> Drawing:
    return Drawing(
        f"Cost of {side} permutations (Thm. {theorem})",
        f"How far the cost {cost} is from the leading term ‖{shift}‖² / μ_D that the fixed weights give: |cost / "
        f"leading term − 1| over its bound (Equation {equation}), against ρ, the scale of the trainable part over "
        "that of the fixed one, study `{study}`. The theorem says: at or below 1. A point is one permutation of "
        "one network; both axes are logarithmic. Hollow points: an assumption fails, mostly ρ > 1 or ε > μ_D / 2.",
        partial(draw_shares, side=side),
        "Where the assumptions hold, costs leave the leading term by {bound} of the bound at most.",
        "The paper has no such figure.",
    )


FIGURES = {
    "identifiability-thm4.5": _drawing("4.5", "output", "Δ_out(π) of reassigning neurons", "δ_out", 87),
    "identifiability-thm4.7": _drawing("4.7", "input", "Δ_in(τ) of reindexing a layer's inputs", "δ_in", 147),
}


def cost_in_leading_terms(tables: Tables, side: str, largest_rho: float) -> list[Found]:
    """Median cost of a network's permutations in units of the leading term, mean over networks, where rho is small.

    Whether the theorem's other assumption, the concentration of the Gram matrices, holds is told, not asked for.
    """
    table = tables["sensitivity.csv"]
    table = table[table["side"] == side]
    rows = table[table["rho"] <= largest_rho]
    if rows.empty:
        finite = table["rho"][np.isfinite(table["rho"])]
        nearest = "there are no fixed weights" if finite.empty else f"the smallest rho is {finite.min():.3g}"
        return [f"no permutation with rho <= {largest_rho:g}; {nearest}"]
    ratios = (rows["cost"] / rows["leading"]).rename("ratio").groupby([rows[name] for name in MODEL], sort=False)
    medians = describe(ratios.agg(lambda each: np.median(each)).reset_index(), rows)
    return by_variant(medians, "ratio", unit=MODEL[1:]).detailed(lambda _: theorems.count_held(rows)).means()


def _sensitivity(theorem: str, side: str, what: str) -> dict[str, Claim]:
    """The claims about permutations on one side: within the bound, and about the leading term."""
    return {
        f"identifiability-thm{theorem}-bound": theorems.worst_claim(
            *("sensitivity.csv", _share_of_bound, f"side == '{side}'"),
            statement=f"What {what} costs follows the leading term ‖δ‖² / μ_D within the bound of Theorem {theorem}",
            quantity="largest |cost / leading term − 1| in units of the bound",
        ),
        f"identifiability-thm{theorem}-leading": Claim(
            statement=f"Where fixed centres dominate (ρ of 0.1 and less), what {what} costs is about the leading term",
            quantity="median cost in units of the leading term",
            bound=between(0.5, 1.5),
            owner="ours",
            origin="ours",
            reason=f"Beyond Theorem {theorem}, whose bound needs concentrated Gram matrices too. Its error is 2 ρ, "
            "here at most 0.2, and a term of the masks; 0.3 is left for that one.",
            tables=("sensitivity.csv",),
            measure=partial(cost_in_leading_terms, side=side, largest_rho=0.1),
            why="The fixed weights of a W-asymmetric neuron sit where its mask hides inputs, so its centre points "
            "where its own Gram matrix is small, and a swap costs more.",
        ),
    }


CLAIMS = {
    **_sensitivity("4.5", "output", "reassigning a layer's neurons"),
    **_sensitivity("4.7", "input", "permuting a layer's inputs"),
}
