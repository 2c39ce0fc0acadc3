"""Figs. 1, 2: metrics of neural collapse against depth."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neural_collapse.finals import (
    COURSE,
    DEPTHS,
    LARGE,
    METRICS,
    RATES,
    SAMPLES,
    ended,
    kind_of,
    rates_over_bound,
    settings_of,
    slope_with_depth,
)
from symlab.plotting.style import PAGE, Style, legend, line_entry, name_row, palette, panels, set_ticks
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Measurement, Tables, above, at_least, below, between, mean_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CONTROL = ("rn1", "t11", "rn2")
ROWS = ("RN1", "T11", "pre-LN T11", "RN2")
"""The paper's rows of Fig. 1; other networks come below."""
DOTTED = {"NC1": "NC1_half", "NC2": "NC2A_centred"}
"""What is drawn beside metrics: NC1 half-way, NC2 without the two directions of W that weight decay alone moves."""
LEAST = 1e-12
"""What a metric is drawn as where it is less."""
BY = ("constant", "uniform", "split")


def metrics_against_depth(tables: Tables, style: Style) -> Figure:
    """Fig. 1: a row an architecture, a column a metric, a colour for how penalties fall with depth."""
    found = ended(tables)
    rows = _rows(found)
    figure, axes = panels(len(rows), 3, PAGE, 1.7 * len(rows) + 0.5, sharey=False)
    for place, (name, of_row) in enumerate(rows.items()):
        for axis, metric in zip(axes[place], METRICS, strict=True):
            _draw_depths(axis, found, of_row, metric, style)
            if place == 0:
                axis.set_title(metric)
        axes[place, 0].set_ylabel(r"$\log_{10}$")
        name_row(axes[place, 2], name)
    for axis in axes[-1]:
        axis.set_xlabel("depth L")
    _explain(figure, found, style)
    return figure


def _rows(found: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Networks of at least four depths trained by cross-entropy, by architecture, on the first data set of each.

    The control, two layers in each block at a constant penalty, is Fig. 2's where there is anything else.
    """
    rows: dict[str, list[pd.DataFrame]] = {}
    for _, of_setting in settings_of(found[found["loss"] == "cross_entropy"]):
        one = of_setting.iloc[0]
        rows.setdefault(("pre-LN " if one["pre_norm"] else "") + one["network"].upper(), []).append(of_setting)
    if not rows:
        raise UserError(f"it needs networks of {DEPTHS} depths with blocks: add to neural_collapse.runs.L.")
    chosen = {}
    for name in sorted(rows, key=lambda name: ROWS.index(name) if name in ROWS else len(ROWS)):
        parts = [part for part in rows[name] if kind_of(part) != "control"] or rows[name]
        dataset = parts[0]["dataset"].iloc[0]
        chosen[f"{name}, {dataset}"] = pd.concat([part for part in parts if part["dataset"].iloc[0] == dataset])
    return chosen


def _draw_depths(axis: Axes, found: pd.DataFrame, rows: pd.DataFrame, metric: str, style: Style) -> None:
    for by, of_by in rows.groupby("by_depth", sort=False):
        color = palette(style)[BY.index(by)]
        values = of_by.assign(log=np.log10(of_by[metric].clip(lower=LEAST)))
        axis.scatter(values["L"], values["log"], s=10, facecolors="none", edgecolors=[color], linewidths=0.5)
        if metric in DOTTED:
            # Two rows, once centred, are always a simplex.
            shown = of_by[of_by[DOTTED[metric]] > LEAST]
            dotted = np.log10(shown[DOTTED[metric]]).groupby(shown["L"]).mean()
            axis.plot(dotted.index, dotted, color=color, linestyle=":", linewidth=0.9, marker="")
        kept = values[values["converged"]].groupby("L")["log"].agg(["mean", "std", "count"]).reset_index()
        several = kept["count"] > 1
        # The line breaks where no network of a depth has converged.
        line = kept.set_index("L")["mean"].reindex(sorted(of_by["L"].unique()))
        axis.plot(line.index, line, color=color, marker="o", markersize=3)
        axis.errorbar(kept["L"][several], kept["mean"][several], kept["std"][several], color=color, linestyle="")
    one = rows.iloc[0]
    same = (found["blocks"] == 0) & (found["dataset"] == one["dataset"]) & (found["kind"] == one["kind"])
    # Where every penalty falls with depth, so does that of a network without blocks.
    fixed = rows.loc[rows["by_depth"] != "uniform", "last_penalty"].unique()
    for penalty in fixed:
        alone = found[same & (found["loss"] == one["loss"]) & (found["last_penalty"] == penalty)]
        if len(alone):
            axis.axhline(float(np.log10(alone[metric]).mean()), color="0.5", linestyle="--", linewidth=0.8)
    axis.set_xscale("log")
    set_ticks(axis.xaxis, sorted(found.loc[found["blocks"] > 0, "L"].unique()))


def _explain(figure: Figure, found: pd.DataFrame, style: Style) -> None:
    used = [by for by in BY if (found["by_depth"] == by).any()]
    names = {
        "constant": r"$\lambda$ constant",
        "uniform": r"$\lambda/L$",
        "split": r"$\lambda/L$, last $\lambda$",
    }
    entries = [line_entry(names[by], color=palette(style)[BY.index(by)], marker="o") for by in used]
    if (found["blocks"] == 0).any():
        entries += [line_entry("no block", color="0.5", linestyle="--")]
    entries += [line_entry("NC1 at half of the steps, NC2 of W centred", color="0.3", linestyle=":")]
    counts = sorted(found.groupby(["dataset", "network"])["seed"].nunique().unique())
    told = "–".join(dict.fromkeys(map(str, (counts[0], counts[-1]))))
    legend(figure, entries, f"circles: all runs; lines: mean ± std of the converged of {told} seeds")


def control_beside_others(tables: Tables, style: Style) -> Figure:
    """Fig. 2: columns RN1, T11 and RN2 with a constant penalty on one data set, a row a metric."""
    found = ended(tables)
    columns = _columns(found)
    figure, axes = panels(3, len(columns), PAGE, 4.6, sharey="row")
    for place, of_column in enumerate(columns):
        one = of_column.iloc[0]
        for axis, metric in zip(axes[:, place], METRICS, strict=True):
            _draw_depths(axis, found, of_column, metric, style)
            if place == 0:
                axis.set_ylabel(rf"$\log_{{10}}$ {metric}")
        axes[0, place].set_title(f"{one['network'].upper()}, {one['dataset']}")
        axes[-1, place].set_xlabel("depth L")
    _explain(figure, found[found["by_depth"] == "constant"], style)
    return figure


def _columns(found: pd.DataFrame) -> list[pd.DataFrame]:
    """RN1, T11 and RN2 with a constant penalty of the data set that has most of them, RN2 among them."""
    chosen: dict[str, dict[str, pd.DataFrame]] = {}
    for _, rows in settings_of(found[(found["by_depth"] == "constant") & (found["loss"] == "cross_entropy")]):
        one = rows.iloc[0]
        if one["network"] in CONTROL and not one["pre_norm"]:
            chosen.setdefault(one["dataset"], {})[one["network"]] = rows
    complete = [of for of in chosen.values() if {"rn1", "rn2"} <= set(of)]
    if not complete:
        raise UserError(
            f"it needs rn1 and rn2 with by_depth: constant at {DEPTHS} depths on one data set (neural_collapse.runs)."
        )
    most = max(complete, key=len)
    return [most[network] for network in CONTROL if network in most]


def _see_slopes(tables: Tables) -> str:
    told = []
    for name, rows in settings_of(ended(tables)):
        slope, half = (slope_with_depth(rows, metric, name) for metric in ("NC1", "NC1_half"))
        if isinstance(slope, Measurement) and isinstance(half, Measurement):
            told.append(f"{slope.value:+.2f} ± {slope.error:.2f} ({half.value:+.2f}) for {name}")
    return (
        f"log₁₀ NC1 changes with log₁₀ L at a slope of {'; '.join(told)} (all runs; in brackets at half of the steps)."
    )


def _see_control(tables: Tables) -> str:
    told = []
    for rows in _columns(ended(tables)):
        means = np.log10(rows.groupby("L")["NC1"].mean())
        told.append(f"{means.iloc[0]:.2f} to {means.iloc[-1]:.2f} for {rows['network'].iloc[0].upper()}")
    return f"From the least depth to the largest log₁₀ NC1 goes from {', '.join(told)}."


FIGURES = (
    Drawing(
        "collapse-1",
        "Metrics of collapse against depth",
        "log₁₀ of NC1, NC2A and NC3 of the last features at the end of training, against the depth L (study "
        "`{study}`). Lines are converged networks alone, circles all; dashed is LayerNorm and a linear map without "
        "blocks. Dotted is the mean over all networks of NC1 at half of the steps, and of NC2A of the last layer less "
        "the means of its rows and columns, which weight decay alone moves. `uniform` divides every penalty by L, "
        "`split` those of hidden weights alone. An architecture with several data sets is shown on the first.",
        metrics_against_depth,
        seen=_see_slopes,
        differs="Samples, steps and seeds are fewer than the paper's 5000 epochs; circles show what a filter by "
        "convergence leaves out; `split`, the setting of Theorem 4.6, is drawn beside the paper's λ/L.",
    ),
    Drawing(
        "collapse-2",
        "Networks that collapse with depth, and one that does not",
        "As Figure 1, on one data set: one linear layer a block (RN1, T11), and two with a constant penalty (RN2).",
        control_beside_others,
        seen=_see_control,
        differs="The paper prints three images of three metrics; here they are one.",
    ),
)


def slopes_of(tables: Tables, kind: str, converged: bool = False) -> list[Found]:
    """Slope of log10 metric on log10 L over the networks of each setting of a kind, a case a setting and metric."""
    cases: list[Found] = []
    for name, rows in settings_of(ended(tables)):
        if kind_of(rows) == kind:
            for metric in METRICS:
                chosen = rows[rows["converged"]] if converged else rows
                found = slope_with_depth(chosen, metric, f"{metric}, {name}")
                if isinstance(found, Measurement):
                    told = f"slope {found.value:.3g}, {int(rows['converged'].sum())} of {len(rows)} converged"
                    half = slope_with_depth(chosen, "NC1_half", "") if metric == "NC1" else None
                    told += f", {half.value:.3g} at half of the steps" if isinstance(half, Measurement) else ""
                    cases.append(replace(found, detail=told))
    return cases or [f"needs {'converged ' if converged else ''}networks of {DEPTHS} depths of this kind"]


def better_in_log_depth(tables: Tables) -> list[Found]:
    """R2 of a line in log L less that of a line in L, from L = 5 on, of log10 metric of residual networks.

    Not a number where the metric does not fall.
    """
    cases: list[Found] = []
    for name, rows in settings_of(ended(tables)):
        large = rows[(rows["L"] >= LARGE) & rows["network"].str.startswith("rn")]
        if large["L"].nunique() < DEPTHS or kind_of(rows) == "control":
            continue
        for metric in METRICS:
            gains = []
            for _, line in large.sort_values("L").groupby("seed"):
                y, L = np.log10(line[metric].to_numpy()), line["L"].to_numpy(dtype=float)
                in_log, in_depth = (np.corrcoef(x, y)[0, 1] for x in (np.log10(L), L))
                gains.append(in_log**2 - in_depth**2 if in_log < 0 else np.nan)
            few = rows["open"].iloc[0] or ("" if len(gains) > 1 else "one seed")
            told = "the metric does not fall with depth in every seed" if np.isnan(gains).any() else ""
            cases.append(replace(mean_of(np.array(gains), f"{metric}, {name}", told, "seeds"), open=few))
    return cases or [f"needs residual networks of {DEPTHS} depths from {LARGE} on"]


def rate_of_optima(tables: Tables) -> list[Found]:
    """``rates_over_bound`` of post-LN RN1's networks; of squared error NC2 is NC2B."""
    found = ended(tables)
    of_rn1 = settings_of(found[(found["network"] == "rn1") & ~found["pre_norm"]])
    cases = [case for name, rows in of_rn1 for case in rates_over_bound(rows, f", {name}")]
    return cases or [f"needs rn1 at {DEPTHS} depths from {LARGE} on"]


def slope_of_control(tables: Tables) -> list[Found]:
    """The control's slope of log10 metric over that of RN1 on the same data; 0 if it does not depend on depth."""
    try:
        columns = {rows["network"].iloc[0]: rows for rows in _columns(ended(tables))}
    except UserError as reason:
        return [str(reason)]
    cases: list[Found] = []
    for metric in METRICS:
        control, rn1 = (slope_with_depth(columns[network], metric, "") for network in ("rn2", "rn1"))
        if isinstance(control, Measurement) and isinstance(rn1, Measurement):
            value = control.value / rn1.value
            error = float(np.hypot(control.error or 0, value * (rn1.error or 0)) / abs(rn1.value))
            told = f"slopes {control.value:.3g} and {rn1.value:.3g}"
            cases.append(replace(control, value=value, error=error, case=metric, detail=told))
    return cases


def _claim(name: str, **texts: object) -> Claim:
    return Claim(id=f"collapse-1-{name}", tables=(COURSE, SAMPLES), **texts)  # type: ignore[arg-type]


FAR = {
    "NC2, RN1 on cifar10_jpeg": "Those that count as converged are not at an optimum either: after 2,000 steps the "
    "norm of the gradient is 0.01, ten times that of networks on MNIST, whose NC2 falls. The two directions of the "
    "last layer that decay alone shrinks are not the reason: without them NC2 is the same."
}
SQUARED = (
    "At these depths the loss is far from the optimum, 15 times of it at L = 21, though all networks count as "
    "converged. Nearly all scatter that is left is "
    "where the last layer does not read it, which costs in proportion to λ alone, and it begins to fall at L = 13."
)
SLOPE = "slope of log₁₀ of the metric on log₁₀ L over all networks"
CLAIMS = (
    _claim(
        "falls",
        statement="Deeper networks with one linear layer a block are closer to collapse",
        quantity=SLOPE,
        bound=below(0),
        owner="paper",
        origin="paper",
        reason="Section 5: the metrics decrease with depth.",
        also=("collapse-2",),
        why=FAR,
        measure=partial(slopes_of, kind="plotted"),
    ),
    _claim(
        "falls-converged",
        statement="Deeper networks with one linear layer a block are closer to collapse, of those that converged",
        quantity="slope of log₁₀ of the metric on log₁₀ L over converged networks",
        bound=below(0),
        owner="paper",
        origin="paper",
        reason="Section 5 reports converged runs alone. Where this holds and the claim about all networks does not, it "
        "holds only after selection.",
        also=("collapse-2",),
        why=FAR,
        measure=partial(slopes_of, kind="plotted", converged=True),
    ),
    _claim(
        "falls-uniform",
        statement="With every penalty at λ/L, deeper networks with two linear layers a block are closer to collapse",
        quantity=SLOPE,
        bound=below(0),
        owner="paper",
        origin="paper",
        reason="Figure 1, row 4, as its caption and Section 5 read; Theorem 4.6 keeps the last layer's penalty.",
        why={
            "": "These networks count as converged and are not at an optimum: of those on digits, trained on with "
            "L-BFGS, NC1 falls further at every depth, and its rise from L = 2 to 8 is gone (one seed). What holds of "
            "optima is open."
        },
        measure=partial(slopes_of, kind="uniform"),
    ),
    _claim(
        "falls-theorems",
        statement="Where theorems let deep networks collapse, deeper ones are closer to it",
        quantity=SLOPE,
        bound=below(0),
        owner="derived",
        origin="derived",
        reason="Theorem 4.6 (two linear layers a block, hidden penalty λ/L) and the corollaries for squared error.",
        measure=partial(slopes_of, kind="theorem"),
    ),
    _claim(
        "log-linear",
        statement="For large depth, log₁₀ of a metric is straighter in log L than in L",
        quantity="R² of a line of log₁₀ metric in log L less R² of a line in L, L ≥ 5, mean over seeds",
        bound=above(0),
        owner="paper",
        origin="ours",
        reason="Section 5: polynomial dependence, log-linear for large enough depth; a straight line in L is the other "
        "simple law. Any curve that flattens is straighter in log L.",
        why={"NC1, RN1 on digits, squared error": SQUARED},
        measure=better_in_log_depth,
    ),
    _claim(
        "rate",
        statement="Networks approach collapse as fast as the bound on global optima",
        quantity="slope on log₁₀ L over that of the bound (−1; −1/2 for NC2), L ≥ 5, over all networks",
        bound=at_least(1),
        owner="derived",
        origin="derived",
        reason="Theorem 4.3's distance to the optimum is at most of order L^(−1/2) up to logarithms; NC1, NC3 and the "
        "excess loss are quadratic in it, NC2 is linear. Slower networks are not optimal, or not yet asymptotic.",
        why={
            "": "Trained networks are not global optima: grown by splitting (Figure growth), networks of the same "
            "depth end at lower losses. Those fall more slowly than the bound too."
        }
        | dict.fromkeys((f"{metric}, RN1 on digits, squared error" for metric in RATES), SQUARED),
        measure=rate_of_optima,
    ),
    Claim(
        id="collapse-2-control",
        statement="With two linear layers a block and a constant penalty, the metrics do not depend on depth",
        quantity="slope of log₁₀ of the metric on log₁₀ L over that of RN1 on the same samples",
        bound=between(-0.25, 0.25),
        owner="paper",
        origin="ours",
        reason="Figure 2 shows the control flat; a quarter of what one layer a block gives is left for noise.",
        why={
            "": "Whether branches live at this penalty depends on the samples (Figure critical), and these networks "
            "still move: trained five times as long on digits, those of L = 2 and 5 differ by 0.04 in log₁₀ NC1 (one "
            "seed). What holds of optima is open."
        },
        tables=(COURSE, SAMPLES),
        measure=slope_of_control,
    ),
)
