"""Theorem 4.4: how far the Gram matrices S_i are from mu_D I, against the coherence of their inputs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.papers.neuron_identifiability.points import color_entries, draw_points, fails, hollow_entry, say_left_out
from symlab.papers.neuron_identifiability.rows import assumptions_hold
from symlab.papers.neuron_identifiability.variants import every_row, label_all, split_variants
from symlab.papers.neuron_identifiability.worst_rows import count_held, divide, say_what_fails
from symlab.plotting import style as plot
from symlab.plotting.log_axes import scale_log
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, at_most, mean, mean_of
from symlab.study.tables import need, where

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MASKS = {"own": "masks of the networks", "fresh": "masks drawn afresh"}


def against_nu(tables: Tables, style: plot.Style) -> Figure:
    """Figure thm4.4: |S_i - mu_D I|_op / mu_D of a layer's worst neuron against nu(U), and the bound for all of them.

    A panel the networks' own masks and one masks drawn afresh; a line joins what belongs to a layer.
    """
    rows, variants = label_all(need(tables, "gram_deviation.csv"))
    constant = (rows["sigma_D2"] == 0) & (rows["b_D"] == 0)
    shown = rows[~constant]
    if shown.empty:
        raise UserError(
            f"{where(rows)}.variants has no variant with masks (all entries of D are alike), whose Gram matrices "
            "could deviate; add a w_asymmetric or syre one."
        )
    scaled = shown.assign(**{name: shown[name] / shown["mu_D"] for name in ("deviation_max", "bound_all")})
    looks = variant_looks(variants, style)
    masks = [name for name in MASKS if name in set(shown["masks"])]
    figure, axes = plot.panels(1, len(masks), plot.PAGE, 3.2)
    for axis, name in zip(axes[0], masks, strict=True):
        for label, part in scaled[scaled["masks"] == name].groupby("label", sort=False):
            color, measured, bound = looks[str(label)].color, part["deviation_max"], part["bound_all"]
            axis.vlines(part["nu"], measured, bound, color=color, lw=0.5, alpha=0.4)
            draw_points(axis, part["nu"], measured, fails(part), color, "o", f"{label} deviation_max")
            axis.plot(part["nu"], bound, color=color, marker="_", markersize=7, linestyle="", label=f"{label} bound")
        axis.axhline(1, color="0.4", linestyle=":", linewidth=0.9)
        axis.set_title(MASKS[name])
    scale_log(axes, "x")
    scale_log(axes, "y")
    plot.name_axes(axes, r"coherence $\nu(U)$ of the layer's inputs", r"$\|S_i - \mu_D I\|_{\mathrm{op}}\,/\,\mu_D$")
    entries = [
        *color_entries(looks, shown),
        plot.mark_entry("worst neuron of a layer", "o"),
        plot.mark_entry("bound", "_", markersize=7),
        plot.line_entry(r"below: $S_i$ is invertible", linestyle=":"),
        *hollow_entry(fails(shown)),
    ]
    delta = " or ".join(f"{value:g}" for value in sorted(shown["delta"].unique()))
    sentences = [
        rf"bounds hold with probability $1 - \delta$ for all neurons of a layer, $\delta$ = {delta}",
        say_left_out(rows[constant], rows, "all of D alike, so deviation and bound are 0"),
    ]
    plot.legend(figure, entries, plot.wrap_sentences(sentences, plot.PAGE, style))
    return figure


def _seen(tables: Tables) -> str:
    shown = _sampled(tables["gram_deviation.csv"])
    ratio = shown["bound_all"] / shown["deviation_max"]
    useful = float(np.mean(shown["bound_all"] < shown["mu_D"]))
    return (
        f"The worst neuron of a layer is {ratio.min():.2g} to {ratio.max():.2g} times below its bound, which shows "
        f"that S_i is invertible in {100 * useful:.0f} % of the {len(shown)} cases."
    )


FIGURES = (
    Drawing(
        "identifiability-thm4.4",
        "Concentration of S_i (Thm. 4.4)",
        """\
How far the Gram matrices S_i = Uᵀ diag(d_i)² U of a layer's neurons are from their mean μ_D I (in the operator norm,
over μ_D) against the coherence ν of the layer's inputs, study `{study}`. A point is the worst neuron of one layer of
one network, the dash above it the bound of Theorem 4.4 for all of them, with the constants of the proof. Masks are
those of the networks, or drawn afresh, independent of all that training did. Hollow points: an assumption fails, such
as a subspace U that depends on the masks.
""",
        against_nu,
        _seen,
        "The paper has no such figure.",
    ),
)


def exceedance(tables: Tables) -> list[Found]:
    """Largest share of neurons above Thm. 4.4's bound for one neuron, over delta, of any variant, layer, kind of masks.

    Own and fresh masks count apart; shares are means over models.
    Layers with constant masks sample nothing and are left out.
    """
    table = _sampled(tables["gram_deviation.csv"])
    return _largest_share(table, table["share_above"])


def exceedance_anywhere(tables: Tables) -> list[Found]:
    """Largest share of networks with a neuron above Thm. 4.4's bound for all neurons, as in ``exceedance``."""
    table = _sampled(tables["gram_deviation.csv"])
    ratio = divide(table["deviation_max"], table["bound_all"])
    told = f"largest deviation in units of its bound: {ratio[assumptions_hold(table)].max():.3g}; "
    found = _largest_share(table, (ratio > 1).astype(float).where(ratio.notna()))
    return [each if isinstance(each, str) else replace(each, detail=told + each.detail) for each in found]


def _largest_share(table: pd.DataFrame, shares: pd.Series) -> list[Found]:
    rows = table.assign(share=shares)[assumptions_hold(table)]
    if rows.empty:
        return [say_what_fails(table)]
    groups = [
        (f"{name}, layer {layer}, {masks} masks", (of_group["share"] / of_group["delta"]).to_numpy())
        for name, of_variant in split_variants(rows, every_row)
        for (layer, masks), of_group in of_variant.groupby(["layer", "masks"])
    ]
    # A share that is not a number ranks first, so that it is not passed over.
    place, values = max(groups, key=lambda each: (np.isnan(mean(each[1])), mean(each[1])))
    told = f"{place}; delta = {rows['delta'].max():g}; {count_held(table)}"
    return [mean_of(values, detail=told, unit="networks")]


def _sampled(gram: pd.DataFrame) -> pd.DataFrame:
    return gram[gram["sigma_D2"] != 0]


BOUND_CLAIM = partial(
    Claim,
    bound=at_most(1),
    owner="paper",
    origin="paper",
    tables=("gram_deviation.csv",),
    kind="theorem",
)
CLAIMS = (
    BOUND_CLAIM(
        id="identifiability-thm4.4-share",
        statement="The Gram matrix S_i of one neuron deviates from μ_D I by more than the bound of Theorem 4.4 with "
        "probability δ at most",
        quantity="share of neurons above the bound in the worst variant, layer and kind of masks, over δ",
        reason="Matrix Bernstein bounds are far from tight, so the share is not given room for chance.",
        measure=exceedance,
    ),
    BOUND_CLAIM(
        id="identifiability-thm4.4-all",
        statement="All Gram matrices of a layer are within the bound of Theorem 4.4 for all neurons at once with "
        "probability 1 - δ",
        quantity="share of networks with a neuron above it in the worst variant, layer and kind of masks, over δ",
        reason="The statement of footnote 4, read as a share of the networks that were looked at.",
        measure=exceedance_anywhere,
    ),
)
