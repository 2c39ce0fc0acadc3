"""Theorems 4.6 and 4.8: gaps of trained networks' fixed weights against the bounds on them."""

import numpy as np
import pandas as pd

from symlab.papers.neuron_identifiability import theorems
from symlab.papers.neuron_identifiability.fig_11_centre_gaps import draw_rates, name_rates, slope_over_draws
from symlab.papers.neuron_identifiability.variants import label_all
from symlab.plotting import style as plot
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, between
from symlab.study.facets import Panel, draw_grid, labelled
from symlab.study.tables import need, some, where

GAPS = {"out": r"$\gamma_{\mathrm{out}}$ (Thm. 4.6)", "in": r"$\gamma_{\mathrm{in}}$ (Thm. 4.8)"}


def against_bounds(tables: Tables, style: plot.Style) -> plot.Figure:
    """gamma_out and gamma_in over their lower bounds by layer, a row a data set, with the upper bound.

    Where centre gaps give it, a third panel has gamma_in against the width m with lines of slope 1/2.
    """
    rows, variants = label_all(need(tables, "network_gaps.csv"))
    none = (rows["gamma"] == 0) & (rows["sigma_F"].isna() | (rows["sigma_F"] == 0))
    # A gap of 0 (two inputs that are the same on all data) has no place on a logarithmic axis.
    ratio = theorems.divide(rows["gamma"], rows["lower"].where(rows["lower"] > 0))
    rows = rows.assign(ratio=ratio, reach=theorems.divide(rows["upper"], rows["lower"]))
    lacking = "has no variant with fixed weights, whose gaps are above 0; add one with scheme.sigma_F above 0."
    shown = theorems.mark_hollow(some(rows[ratio > 0], f"{where(rows)}.variants {lacking}"))
    looks = theorems.point_looks(variants, style)
    shown = shown.assign(place=theorems.dodge(shown, "layer", list(looks)))
    datasets, layers = list(shown["dataset"].unique()), sorted(shown["layer"].unique())
    axes = labelled("layer", "gap / lower bound", "y", xticks=layers)

    def panel(dataset: str, gap: str) -> Panel:
        part = shown[(shown["dataset"] == dataset) & (shown["gap"] == gap)]
        return Panel(part, "place", "ratio", {**axes, "title": GAPS[gap]}, _draw_gaps, more=theorems.line_at(1))

    grid = [[panel(dataset, gap) for gap in GAPS if gap in set(shown["gap"])] for dataset in datasets]
    entries = [plot.line_entry("lower bound", linewidth=0.8), plot.mark_entry("upper bound", "_", markersize=7)]
    entries += theorems.hollow_entry(shown)
    if (widths := _widths(tables)) is not None:
        grid[0].append(_against_width(widths))
        entries += name_rates(widths, r"$\propto \sqrt{m}$")
    left = ~none & ~rows.index.isin(shown.index)
    sentences = [
        theorems.say_left_out(rows[none], "F = 0 and with it the gaps"),
        theorems.count_left_out(rows[left], rows[~none], "where gap or bound is 0 or undefined"),
    ]
    return draw_grid(
        grid, looks, sharex=False, sharey=False, rows_named=datasets if len(datasets) > 1 else (), entries=entries,
        note="\n".join(sentences),
    )  # fmt: skip


def _draw_gaps(axis: plot.Axes, rows: pd.DataFrame, x: str, y: str, look: plot.Look, label: str) -> None:
    theorems.draw_cases(axis, rows, x, y, look, label)
    axis.plot(rows[x], rows["reach"], color=look.color, linestyle="", marker="_", markersize=6)


def _widths(tables: Tables) -> pd.DataFrame | None:
    """Gaps of the densest sampled F over several widths, if the study has them."""
    table = tables.get("centre_gaps.csv")
    if table is None or "gamma_in" not in table:
        return None
    table = table[table["gamma_in"].notna() & (table["fixed_fraction"] == table["fixed_fraction"].max())]
    return table if table["m"].nunique() > 1 else None


def _against_width(gaps: pd.DataFrame) -> Panel:
    """gamma_in against m for each k, and the line of slope 1/2 from the smallest width's mean."""
    widths = sorted(gaps["m"].unique())
    axes = labelled(
        *("width $m$ (neurons)", r"$\gamma_{\mathrm{in}}$ (weight norm)", "y"),
        title=r"$\gamma_{\mathrm{in}}$ of sampled $F$",
        xticks=widths[:: -(-len(widths) // 3)],
    )

    def draw(axis: plot.Axes) -> None:
        axis.set_xscale("log", base=2)
        draw_rates(axis, gaps, "gamma_in", lambda k: 0.5)

    return Panel(gaps, "m", "gamma_in", axes, more=draw)


FIGURES = {
    "identifiability-thm4.8": Drawing(
        "Gaps of trained networks and their bounds (Thms. 4.6, 4.8)",
        "Gaps of the fixed weights of trained networks over their lower bounds, by layer, study `{study}`: γ_out, "
        "the smallest change of the projected centres that a swap of two neurons makes (Theorem 4.6), and γ_in, the "
        "smallest that a swap of two inputs makes (Theorem 4.8), which has an upper bound too. A point is a network; "
        "points must lie above the line, and below the dash. Hollow points: an assumption fails. A third panel, "
        "where centre gaps are measured, has γ_in of sampled fixed weights against the width m (mean ± std over "
        "draws), which should grow as √m.",
        against_bounds,
        seen="Where the assumptions hold, the lower bound is at most {out} of γ_out, and γ_in comes to {in} of a bound "
        "of its own at most.",
        differs="The paper has no such figure.",
    ),
}


def of_either_bound(table: pd.DataFrame) -> pd.Series:
    """Thm. 4.8's lower bound over gamma_in, or gamma_in over its upper bound, whichever is larger."""
    return np.maximum(theorems.divide(table["lower"], table["gamma"]), theorems.divide(table["gamma"], table["upper"]))


def growth_of_gamma_in(tables: Tables) -> list[Found]:
    """Least-squares slope of log(mean gamma_in over draws) against log m, for each setting of F and data set.

    Over the widths m >= 12 (1/p + 1) log(d^2), p the fraction of fixed entries: Thm. 4.8 needs m to be large beside
    log(d^2) and the fourth moment of F's entries. The difference z of two entries has E z^4 / (E z^2)^2 =
    1.5 (1/p + 1), and from that width on, the least of the d^2 / 2 sums of m squares is above half its mean.
    """
    table = tables["centre_gaps.csv"]
    enough = 12 * (1 / table["fixed_fraction"] + 1) * np.log(table["d"].astype(float) ** 2)
    found = slope_over_draws(table[table["m"] >= enough], "gamma_in")
    return found or [f"no two widths are large enough, from m = {enough.min():.0f} on"]


CLAIMS = {
    "identifiability-thm4.8-out": theorems.worst_claim(
        *("network_gaps.csv", "lower / gamma", "gap == 'out'"),
        statement="The gap γ_out between a layer's projected centres is above the lower bound of Theorem 4.6",
        quantity="largest ratio of the bound to the gap",
    ),
    "identifiability-thm4.8-in": theorems.worst_claim(
        *("network_gaps.csv", of_either_bound, "gap == 'in'"),
        statement="The gap γ_in of a layer's inputs lies between the bounds of Theorem 4.8",
        quantity="largest ratio of the lower bound to the gap, or of the gap to the upper bound",
    ),
    "identifiability-thm4.8-growth": Claim(
        statement="The gap γ_in grows with the width m as √m",
        quantity="slope of log mean γ_in against log m, over the widths that are large beside log d",
        bound=between(0.4, 0.6),
        owner="paper",
        origin="ours",
        reason="Theorem 4.8 says Θ(√m), so 0.5 for m to infinity; at finite widths the least of many sums is small, "
        "which steepens the slope, by less than a fifth of it from these widths on.",
        tables=("centre_gaps.csv",),
        measure=growth_of_gamma_in,
        also=("identifiability-11",),
    ),
}
