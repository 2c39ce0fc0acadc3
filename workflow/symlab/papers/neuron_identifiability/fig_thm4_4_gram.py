"""Theorem 4.4: how far the Gram matrices S_i are from mu_D I, against the coherence of their inputs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Claim, Tables, Verdict, mean, spread
from symlab.papers.neuron_identifiability.worst_rows import count_held, divide, say_what_fails
from symlab.plotting.points import (
    color_entries,
    draw_points,
    fails,
    floor_of,
    hollow_entry,
    marker_entries,
    raise_to_floor,
    say_left_out,
    scale_log,
)
from symlab.plotting.rows import assumptions_hold, every_row, label_all, need, split_variants, where
from symlab.plotting.style import (
    PAGE,
    Style,
    legend,
    line_entry,
    mark_entry,
    name_axes,
    panels,
    variant_looks,
    wrap_sentences,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MASKS = {"own": "own masks", "fresh": "fresh masks"}
MEASURED = {"deviation_median": ("median neuron", "o"), "deviation_max": ("worst neuron", "^")}
BOUNDS = {"bound": ("bound, one neuron", "_", 1.0), "bound_all": ("bound, all neurons", "_", 0.45)}


def against_nu(tables: Tables, style: Style) -> Figure:
    """Figure thm4.4: |S_i - mu_D I|_op / mu_D against nu(U), median and largest of a layer's neurons, and bounds.

    A panel the networks' own masks and one masks drawn afresh; a vertical line joins what belongs to a layer.
    """
    rows, variants = label_all(need(tables, "gram_deviation.csv"))
    constant = (rows["sigma_D2"] == 0) & (rows["b_D"] == 0)
    shown = rows[~constant]
    if shown.empty:
        raise UserError(
            f"{where(rows)}.variants has no variant with masks (all entries of D are alike), whose Gram matrices "
            "could deviate; add a w_asymmetric or syre one."
        )
    columns = [*MEASURED, *BOUNDS]
    scaled = shown.assign(**{column: shown[column] / shown["mu_D"] for column in columns})
    floor = floor_of(scaled[columns].to_numpy().ravel())
    looks = variant_looks(variants, style)
    masks = [name for name in MASKS if name in set(shown["masks"])]
    figure, axes = panels(1, len(masks), PAGE, 3.5)
    for axis, name in zip(axes[0], masks, strict=True):
        for label, part in scaled[scaled["masks"] == name].groupby("label", sort=False):
            color, hollow = looks[str(label)].color, fails(part)
            ends = np.array([raise_to_floor(part[column], floor) for column in columns])
            axis.vlines(part["nu"], np.nanmin(ends, axis=0), np.nanmax(ends, axis=0), color=color, lw=0.5, alpha=0.4)
            for column, (_, marker) in MEASURED.items():
                draw_points(
                    axis, part["nu"], raise_to_floor(part[column], floor), hollow, color, marker, f"{label} {column}"
                )
            for column, (_, marker, alpha) in BOUNDS.items():
                mark = {"color": color, "alpha": alpha, "markersize": 7, "markeredgewidth": 1.4, "linestyle": ""}
                axis.plot(
                    part["nu"], raise_to_floor(part[column], floor), marker=marker, label=f"{label} {column}", **mark
                )
        axis.axhline(1, color="0.4", linestyle=":", linewidth=0.9)
        axis.set_title(MASKS[name])
    scale_log(axes, "x")
    scale_log(axes, "y")
    name_axes(
        axes,
        r"coherence $\nu(U)$ of the layer's inputs",
        r"$\|S_i - \mu_D I\|_{\mathrm{op}}\,/\,\mu_D$",
    )
    entries = [
        *color_entries(looks, shown),
        *marker_entries(dict(MEASURED.values())),
        *(mark_entry(name, marker, color="0.2", alpha=alpha, ms=7, mew=1.4) for name, marker, alpha in BOUNDS.values()),
        line_entry(r"below: $S_i$ is invertible", linestyle=":"),
        *hollow_entry(fails(shown)),
    ]
    delta = " or ".join(f"{value:g}" for value in sorted(shown["delta"].unique()))
    sentences = [
        rf"one column of marks a layer of a network, bounds hold with probability $1 - \delta$, $\delta$ = {delta}",
        say_left_out(rows[constant], rows, "all of D alike, so deviation and bound are 0"),
    ]
    legend(figure, entries, wrap_sentences(sentences, PAGE, style))
    return figure


FIGURES = (
    Drawing(
        "identifiability-thm4.4",
        "Concentration of S_i (Thm. 4.4)",
        """\
How far the Gram matrices S_i = Uᵀ diag(d_i)² U of a layer's neurons are from their mean μ_D I, against the coherence
ν of the layer's inputs, study `{study}` (Theorem 4.4). Distances are operator norms divided by μ_D; both axes are
logarithmic. Each column of marks is one layer of one network: its median neuron, its worst neuron, the bound for one
neuron and the bound for all of them at once, both with the constants of the proof. On the left the masks are the
network's own, on the right they are drawn afresh, independent of everything that training did. Hollow marks: an
assumption of the theorem fails, for instance the subspace U of a later layer depends on the masks. Networks whose
entries of D are all alike deviate by nothing and are named above.

Measured distances should lie below their bounds and rise with ν. A bound above the dotted line says nothing about
whether S_i is invertible, and bounds are usually many times larger than what is measured. If left and right look
alike, the dependence of U on the masks does not matter.
""",
        against_nu,
    ),
)


def exceedance(tables: Tables) -> Verdict:
    """Largest share of neurons above Thm. 4.4's bound for one neuron, of any variant, layer and kind of masks.

    Own and fresh masks count apart; shares are means over models. It holds if no share is above the delta of its rows.
    Layers with constant masks sample nothing and are left out.
    """
    table = _sampled(tables["gram_deviation.csv"])
    return _largest_share(table, table["share_above"])


def exceedance_anywhere(tables: Tables) -> Verdict:
    """Largest share of networks with a neuron above Thm. 4.4's bound for all neurons, as in ``exceedance``."""
    table = _sampled(tables["gram_deviation.csv"])
    ratio = divide(table["deviation_max"], table["bound_all"])
    told = f"largest deviation in units of its bound: {ratio[assumptions_hold(table)].max():.3g}; "
    verdict = _largest_share(table, (ratio > 1).astype(float).where(ratio.notna()))
    return verdict if verdict.holds is None else replace(verdict, detail=told + verdict.detail)


def _largest_share(table: pd.DataFrame, shares: pd.Series) -> Verdict:
    rows = table.assign(share=shares)[assumptions_hold(table)]
    if rows.empty:
        return Verdict(math.nan, None, 0, detail=say_what_fails(table))
    groups = [
        (f"{name}, layer {layer}, {masks} masks", of_group["share"].to_numpy(), of_group["delta"].max())
        for name, of_variant in split_variants(rows, every_row)
        for (layer, masks), of_group in of_variant.groupby(["layer", "masks"])
    ]
    # A share that is not a number ranks first, so that it is not passed over.
    place, values, _ = max(groups, key=lambda each: (np.isnan(mean(each[1])), mean(each[1])))
    holds = all(mean(of_group) <= delta for _, of_group, delta in groups)
    told = f"{place}; delta = {rows['delta'].max():g}; {count_held(table)}"
    return Verdict(mean(values), holds, len(values), spread(values), detail=told)


def _sampled(gram: pd.DataFrame) -> pd.DataFrame:
    return gram[gram["sigma_D2"] != 0]


CLAIMS = (
    Claim(
        "identifiability-thm4.4-share",
        "identifiability-thm4.4",
        "The Gram matrix S_i of one neuron deviates from mu_D I by more than the bound of Theorem 4.4 with probability "
        "delta at most: share of neurons above the bound in the worst variant, layer and kind of masks",
        "at most delta",
        "Matrix Bernstein bounds are far from tight, so the share is not given room for chance.",
        ("gram_deviation.csv",),
        exceedance,
    ),
    Claim(
        "identifiability-thm4.4-all",
        "identifiability-thm4.4",
        "All Gram matrices of a layer are within the bound of Theorem 4.4 for all neurons at once with probability "
        "1 - delta: share of networks with a neuron above it in the worst variant, layer and kind of masks",
        "at most delta",
        "The statement of footnote 4, read as a share of the networks that were looked at.",
        ("gram_deviation.csv",),
        exceedance_anywhere,
    ),
)
