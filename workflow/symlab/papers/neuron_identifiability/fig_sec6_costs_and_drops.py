"""Section 6, Q3, in numbers of its own: drops by k with their control, and the cheapest swaps of wider layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.architectures import W_1
from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.papers.neuron_identifiability.rows import MODEL, one_path, signed_sqrt
from symlab.papers.neuron_identifiability.swap_costs import MAHALANOBIS, SMALL, by_unit
from symlab.papers.neuron_identifiability.swap_panels import name_dataset, need_k
from symlab.papers.neuron_identifiability.variants import label_rows, sigma_regimes
from symlab.plotting import style as plot
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Measurement, Tables, above, difference_of, mean
from symlab.study.tables import need, where

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def drops_by_k(tables: Tables, style: plot.Style) -> Figure:
    """Unaligned midpoint drop of train accuracy against k, at sigma_F = 1 and its control 0; a point a pair."""
    rows = one_path(need_k(need(tables, "barriers.csv")), "train", aligned=False)
    sweep, scales = sigma_regimes(rows)
    looks = variant_looks(sweep, style)
    shown = label_rows(rows, sweep[sweep["sigma_F"].isin(scales)])
    figure, axes = plot.panels(1, 1, 1.3 * plot.COLUMN, 2.8)
    axis = axes[0, 0]
    axis.set_xscale("log", base=2)
    for label, of_variant in shown.groupby("label", sort=False):
        look = looks[str(label)]
        means = of_variant.groupby("k")["drop_mid_pp"].mean()
        axis.plot(means.index, means, color=look.color, linestyle=look.linestyle, label=label)
        axis.plot(
            of_variant["k"], of_variant["drop_mid_pp"], color=look.color, marker=look.marker, linestyle="", alpha=0.5
        )
    plot.set_ticks(axis.xaxis, sorted(shown["k"].unique()))
    axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
    plot.name_axes(axes, "intrinsic dimension $k$", "midpoint drop of\ntrain accuracy (points)")
    n = int(shown.groupby(["label", "k"]).size().max())
    plot.legend(
        figure, plot.handles({label: looks[label] for label in shown["label"].unique()}), f"a point a pair, n = {n}"
    )
    return figure


def cheapest_by_width(tables: Tables, style: plot.Style) -> Figure:
    """Distribution over layer 1's neurons of the cost of their cheapest swap, at W 1; a panel a k, a colour a width."""
    cheapest = _cheapest(need_k(need(tables, MAHALANOBIS)))
    widths, datasets = sorted(cheapest["m"].unique()), list(cheapest["dataset"].unique())
    if len(widths) < 2:
        raise UserError(
            f"{where(tables[MAHALANOBIS])}.variants needs W-asymmetric variants with sigma_F 1 of two widths or more; "
            "add sweep: {network.widths: [[16], [64]]}."
        )
    figure, axes = plot.panels(1, len(datasets), plot.PAGE if len(datasets) > 1 else 1.3 * plot.COLUMN, 2.8)
    colors = dict(zip(widths, plot.ordered_colors(len(widths)), strict=True))
    for axis, dataset in zip(axes[0], datasets, strict=True):
        own = cheapest[cheapest["dataset"] == dataset]
        for (m, _, _), costs in own.groupby(["m", "mask_seed", "seed"]):
            roots = np.sort(signed_sqrt(costs["cost"]))
            axis.step(roots, np.arange(1, len(roots) + 1) / len(roots), color=colors[m], alpha=0.7, linewidth=0.9)
        axis.axvline(0, color="0.7", linewidth=0.6, zorder=0)
        axis.set_title(name_dataset(own))
    axes[0, 0].set_ylim(0, 1)
    plot.name_axes(axes, "cost of a neuron's cheapest swap,\nsigned square root (weight norm)", "share of neurons")
    networks = cheapest[["variant", "mask_seed", "seed"]].drop_duplicates().groupby("variant").size().max()
    entries = [plot.line_entry(f"$m$ = {m} neurons", color=color) for m, color in colors.items()]
    plot.legend(figure, entries, f"a line a network, n = {networks}")
    return figure


def _cheapest(costs: pd.DataFrame) -> pd.DataFrame:
    """The cost of each first-layer neuron's cheapest swap, at W 1."""
    rows = costs[W_1(costs) & (costs["layer"] == 1)]
    either = pd.concat([rows.assign(neuron=rows["i"]), rows.assign(neuron=rows["j"])])
    by = ["variant", "source", "dataset", "k", "mask_seed", "seed", "neuron"]
    found = either.groupby(by, sort=False, dropna=False)["swap_cost"].agg(lambda each: each.min(skipna=False))
    found = found.rename("cost").reset_index()
    return found.assign(m=found.groupby(["variant", "mask_seed", "seed"])["neuron"].transform("size"))


def _seen_drops(tables: Tables) -> str:
    rows = one_path(tables["barriers.csv"], "train", aligned=False)
    sweep, scales = sigma_regimes(need_k(rows))
    told = []
    for sigma_F in scales:
        means = rows[rows["variant"].isin(sweep.index[sweep["sigma_F"] == sigma_F])].groupby("k")["drop_mid_pp"].mean()
        told.append(f"{', '.join(f'{value:.2g}' for value in means)} points at σ_F = {sigma_F:g}")
    ks = ", ".join(f"{k:g}" for k in means.index)
    return f"At k = {ks} the mean drop is {' and '.join(told)}."


def _seen_widths(tables: Tables) -> str:
    medians = _cheapest(tables[MAHALANOBIS]).groupby(["k", "m"])["cost"].median()
    told = []
    for k, of_k in medians.groupby(level="k"):
        listed = ", ".join(f"{cost:.2g} at m = {m}" for (_, m), cost in of_k.items())
        told.append(f"{listed} for k = {k:g}")
    return f"The median cost Δ of a neuron's cheapest swap is {'; '.join(told)}."


FIGURES = (
    Drawing(
        "identifiability-sec6",
        "Unaligned midpoint drop by k (Section 6, Q3)",
        """\
Drop of train accuracy at the midpoint between two W-asymmetric networks, unaligned, against the intrinsic dimension k
of the Gaussian mixture, study `{study}`. Lines are means over pairs. σ_F = 0, where swaps are free, is the control: it
shows what the task alone does.
""",
        drops_by_k,
        _seen_drops,
        "The paper tells the drops at σ_F = 1 in its text, 46.4, 15.7 and 6.1 points, without a control.",
    ),
    Drawing(
        "identifiability-thm4.6",
        "Cheapest swaps by width (Section 6, Q3; Thm. 4.6)",
        """\
Cost of each first-layer neuron's cheapest swap in W-asymmetric networks with σ_F = 1, as a distribution over the
neurons of a network, by the layer's width m at fixed k, study `{study}`. Shown is sign(Δ)·√|Δ|, in units of weight
norm.
""",
        cheapest_by_width,
        _seen_widths,
        "The paper has no such figure.",
    ),
)


def accessible_by_width(tables: Tables) -> list[Measurement]:
    """Share of first-layer neurons with a low-cost swap: of the widest layer less that of the narrowest, for each k."""
    costs = tables[MAHALANOBIS]
    low = costs[W_1(costs) & (costs["layer"] == 1)]
    medians = low.groupby(MODEL)["swap_cost"].agg(lambda each: np.median(each)).rename("median").reset_index()
    cheapest = _cheapest(costs).merge(medians, on=MODEL)
    # A cost that is not a number is neither low nor not.
    accessible = (cheapest["cost"] < SMALL * cheapest["median"]).astype(float)
    cheapest["swap_cost"] = accessible.where(cheapest["cost"].notna() & cheapest["median"].notna())
    measured = []
    for k, of_k in cheapest.groupby("k"):
        shares = {m: by_unit(rows, lambda each: float(np.mean(each))) for m, rows in of_k.groupby("m")}
        if len(shares) > 1:
            wide, narrow = shares[max(shares)], shares[min(shares)]
            told = ", ".join(f"m = {m}: {mean(share.values):.2g}" for m, share in shares.items())
            measured.append(difference_of(wide.values, narrow.values, f"k = {k:g}", told, wide.unit))
    return measured


CLAIMS = (
    Claim(
        id="identifiability-thm4.6-width",
        statement="At fixed low k, more neurons make swaps cheap again",
        quantity="share of layer-1 neurons with a swap below a tenth of the layer's median cost, at σ_F = 1: of the "
        "widest networks less that of the narrowest",
        bound=above(0),
        owner="paper",
        origin="pilot",
        reason="Q3: “for low k and high-enough m, neuron swaps again become accessible at lower weight cost”; no size "
        "is stated. Low cost is read as for Fig. 5. A pilot with one hidden layer asked for the cost of the cheapest "
        "swap instead, which was negative at every width.",
        tables=(MAHALANOBIS,),
        measure=accessible_by_width,
    ),
)
