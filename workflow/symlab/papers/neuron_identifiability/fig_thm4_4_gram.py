"""Theorem 4.4: how far the Gram matrices S_i are from mu_D I, against the coherence of their inputs."""

import operator

import pandas as pd

from symlab.papers.neuron_identifiability import theorems
from symlab.papers.neuron_identifiability.rows import MODEL
from symlab.papers.neuron_identifiability.variants import by_variant, label_all
from symlab.plotting import style as plot
from symlab.study.card import Drawing
from symlab.study.claim import Found, Tables, at_most, worst_of_each
from symlab.study.facets import facets, labelled
from symlab.study.tables import need, some, where

MASKS = {"own": "masks of the networks", "fresh": "masks drawn afresh"}


def against_nu(tables: Tables, style: plot.Style) -> plot.Figure:
    rows, variants = label_all(need(tables, "gram_deviation.csv"))
    constant = (rows["sigma_D2"] == 0) & (rows["b_D"] == 0)
    shown = some(
        theorems.mark_hollow(rows[~constant]),
        f"{where(rows)}.variants has no variant with masks (all entries of D are alike), whose Gram matrices could "
        "deviate; add a w_asymmetric or syre one.",
    )
    shown = shown.assign(**{name: shown[name] / shown["mu_D"] for name in ("deviation_max", "bound_all")})
    delta = " or ".join(f"{value:g}" for value in sorted(shown["delta"].unique()))
    sentences = [
        rf"bounds hold with probability $1 - \delta$ for all neurons of a layer, $\delta$ = {delta}",
        theorems.say_left_out(rows[constant], "all of D alike, so deviation and bound are 0"),
    ]
    entries = [plot.mark_entry("worst neuron of a layer", "o"), plot.mark_entry("bound", "_", markersize=7)]
    entries += [plot.line_entry(r"below: $S_i$ is invertible", linestyle=":"), *theorems.hollow_entry(shown)]
    return facets(
        shown.sort_values("masks", key=lambda names: names.map(list(MASKS).index), kind="stable"),
        "nu", "deviation_max", theorems.point_looks(variants, style), column="masks", title=MASKS.__getitem__,
        axes=labelled(r"coherence $\nu(U)$ of inputs", r"$\|S_i - \mu_D I\|_{\mathrm{op}}\,/\,\mu_D$", "xy"),
        draw=_draw_with_bound, more=lambda axis, _: axis.axhline(1, color="0.4", linestyle=":", linewidth=0.9),
        entries=entries, height=2.3, note="\n".join(sentences),
    )  # fmt: skip


def _draw_with_bound(axis: plot.Axes, rows: pd.DataFrame, x: str, y: str, look: plot.Look, label: str) -> None:
    axis.vlines(rows[x], rows[y], rows["bound_all"], color=look.color, lw=0.5, alpha=0.4)
    theorems.draw_cases(axis, rows, x, y, look, label)
    axis.plot(rows[x], rows["bound_all"], color=look.color, marker="_", markersize=7, linestyle="")


FIGURES = {
    "identifiability-thm4.4": Drawing(
        "Concentration of S_i (Thm. 4.4)",
        "How far the Gram matrices S_i = Uᵀ diag(d_i)² U of a layer's neurons are from their mean μ_D I (in the "
        "operator norm, over μ_D) against the coherence ν of the layer's inputs, study `{study}`. A point is the "
        "worst neuron of one layer of one network, the dash above it the bound of Theorem 4.4 for all of them, with "
        "the constants of the proof. Masks are those of the networks, or drawn afresh, independent of all that "
        "training did. Hollow points: an assumption fails, such as a subspace U that depends on the masks.",
        against_nu,
        seen="The worst neuron of a layer reaches {all} of its bound at most.",
        differs="The paper has no such figure.",
    ),
}


def exceedance(tables: Tables) -> list[Found]:
    """Largest share of neurons above Thm. 4.4's bound for one neuron, over delta, of all places and kinds of masks."""
    table = tables["gram_deviation.csv"].query("sigma_D2 != 0")
    rows = table[theorems.assumptions_hold(table)]
    if rows.empty:
        return [theorems.say_what_fails(table)]
    rows = rows.assign(place=rows["masks"] + " masks; " + theorems.count_held(table))
    shares = by_variant(rows, "share_above / delta", by=("layer", "place"), unit=MODEL[1:], name="")
    return worst_of_each(shares.means(), operator.pos, "variant", "layer", "place")


CLAIMS = {
    "identifiability-thm4.4-share": theorems.bound_claim(
        statement="The Gram matrix S_i of one neuron deviates from μ_D I by more than the bound of Theorem 4.4 with "
        "probability δ at most",
        quantity="share of neurons above the bound in the worst variant, layer and kind of masks, over δ",
        bound=at_most(1),
        reason="Matrix Bernstein bounds are far from tight, so the share is not given room for chance.",
        tables=("gram_deviation.csv",),
        measure=exceedance,
    ),
    "identifiability-thm4.4-all": theorems.worst_claim(
        *("gram_deviation.csv", "deviation_max / bound_all", "sigma_D2 != 0"),
        statement="All Gram matrices of a layer are within the bound of Theorem 4.4 for all neurons at once",
        quantity="largest deviation in units of the bound",
        reason="The statement of footnote 4 holds with probability 1 - δ. Its union bound is so far from tight that "
        "chance is given no room; a share of a few networks could not tell δ from 0.",
    ),
}
