"""Depth where the optimum does not depend on it: as many samples as dimensions, beside enough of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neural_collapse.finals import COURSE, ENOUGH, SAMPLES, add_excess, finals, slope_with_depth
from symlab.plotting.style import PAGE, Style, legend, line_entry, palette, panels, set_ticks
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Measurement, Tables, between
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VALUES = {"NC1": "NC1", "NC2": "NC2", "NC3": "NC3", "excess": "excess loss"}


def by_samples(tables: Tables) -> dict[tuple[int, int], pd.DataFrame]:
    """RN1 with a constant penalty by (N, rank of what the first layer reads), from few samples to many."""
    found = finals(need(tables, COURSE))
    found = found[(found["network"] == "rn1") & (found["by_depth"] == "constant") & (found["loss"] == "cross_entropy")]
    ranks = need(tables, SAMPLES).set_index(["dataset", "N"])["rank"]
    parts = {
        (int(N), int(ranks[dataset, N])): add_excess(rows)
        for (dataset, N), rows in found[~found["pre_norm"]].groupby(["dataset", "N"])
    }
    return dict(sorted(parts.items(), key=lambda item: item[0][0] / item[0][1]))


def _both(tables: Tables) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Networks on as few samples as the rank, and on five times as many at least."""
    parts = by_samples(tables)
    few = [rows for (N, rank), rows in parts.items() if rank == N]
    enough = [rows for (N, rank), rows in parts.items() if ENOUGH * rank <= N]
    return (few[0], enough[0]) if few and enough else None


def depth_by_samples(tables: Tables, style: Style) -> Figure:
    """Metrics and the loss over the optimum against depth, a colour a number of samples; dashed without blocks."""
    if _both(tables) is None:
        raise UserError("it needs rn1 on as few samples as the rank of its inputs, and on five times as many.")
    figure, axes = panels(1, len(VALUES), PAGE, 2.3, sharey=False)
    entries = []
    for color, ((N, rank), rows) in zip(palette(style), by_samples(tables).items(), strict=False):
        for axis, value in zip(axes[0], VALUES, strict=True):
            logs = np.log10(rows[value])
            of_blocks, alone = logs[rows["blocks"] > 0], logs[rows["blocks"] == 0]
            depths = rows.loc[of_blocks.index, "L"]
            axis.scatter(depths, of_blocks, s=8, facecolors="none", edgecolors=[color], linewidths=0.6)
            means = of_blocks.groupby(depths).mean()
            axis.plot(means.index, means, color=color, linewidth=0.9, marker="")
            if len(alone):
                axis.axhline(float(alone.mean()), color=color, linestyle="--", linewidth=0.8)
        entries.append(line_entry(f"{N:,} samples of rank {rank}", color=color, marker="o"))
    for axis, name in zip(axes[0], VALUES.values(), strict=True):
        axis.set(xscale="log", xlabel="depth L", title=name)
        set_ticks(axis.xaxis, sorted(depths.unique()))
    axes[0, 0].set_ylabel(r"$\log_{10}$")
    entries.append(line_entry("no block", color="0.5", linestyle="--"))
    legend(figure, entries, "circles: networks")
    return figure


def _see(tables: Tables) -> str:
    told = []
    for (N, rank), rows in by_samples(tables).items():
        means = rows.groupby("L")["excess"].mean()
        told.append(
            f"{means.iloc[0]:.4f} at L = {means.index[0]} to {means.iloc[-1]:.4f} at L = {means.index[-1]} with {N} "
            f"samples of rank {rank}"
        )
    return f"The loss over the optimum goes from {'; '.join(told)}."


def slope_over_enough(tables: Tables) -> list[Found]:
    """Slope of log10 metric on log10 L on few samples over that on enough; 0 if it does not depend on depth."""
    both = _both(tables)
    if both is None:
        return ["needs rn1 on as few samples as the rank of its inputs, and on five times as many"]
    cases: list[Found] = []
    for metric in ("NC1", "NC2", "NC3"):
        few, enough = (slope_with_depth(rows[rows["blocks"] > 0], metric, metric) for rows in both)
        if isinstance(few, Measurement) and isinstance(enough, Measurement):
            value = few.value / enough.value
            error = float(np.hypot(few.error or 0, value * (enough.error or 0)) / abs(enough.value))
            told = f"slopes {few.value:.3g} and {enough.value:.3g}"
            cases.append(replace(few, value=value, error=error, detail=told))
    return cases or ["needs four depths"]


FIGURES = (
    Drawing(
        "collapse-few",
        "Depth where it has nothing to do",
        "Networks with one linear layer a block on as few samples as the rank of their inputs, which the first layer "
        "can collapse alone, and on five times as many (study `{study}`). Dashed: LayerNorm and a linear map without "
        "blocks.",
        depth_by_samples,
        seen=_see,
        differs="Not in the paper.",
    ),
)
CLAIMS = (
    Claim(
        id="collapse-few-flat",
        statement="Where samples are as few as the rank of the inputs, metrics of collapse do not depend on depth",
        quantity="slope of log₁₀ of the metric on log₁₀ L over that on enough samples",
        bound=between(-0.25, 0.25),
        owner="ours",
        origin="ours",
        reason="The embedding has no penalty and can collapse such samples alone, so that the optimum is the same at "
        "every depth. What is left for noise is as of Figure 2's control.",
        why={
            "": "The optimum is the same at all depths, so that what depends on depth here is how far the optimiser "
            "comes in these steps: falling metrics alone do not show what the paper proves."
        },
        tables=(COURSE, SAMPLES),
        measure=slope_over_enough,
    ),
)
