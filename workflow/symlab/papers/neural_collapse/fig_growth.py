"""Networks grown by splitting blocks beside those trained from scratch: loss and NC1 against depth."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.papers.neural_collapse.finals import (
    COURSE,
    DEPTHS,
    LARGE,
    add_excess,
    finals,
    name_setting,
    rates_over_bound,
    slope_with_depth,
)
from symlab.plotting.style import COLUMN, PAGE, Style, legend, line_entry, palette, panels, set_ticks
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Measurement, Tables, at_least, below, between, ratio_of
from symlab.study.tables import need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

TABLE = "collapse_growth.csv"


def grown(tables: Tables) -> pd.DataFrame:
    """Grown networks with their total loss and its ``excess`` over the optimum."""
    table = need(tables, TABLE)
    table = table.assign(total=table["fit"] + table["hidden"] + table["last"], NC2=table["NC2A"])
    return add_excess(table)


def _from_scratch(tables: Tables, of: pd.DataFrame) -> pd.DataFrame:
    """The same networks trained from scratch on the same samples with the same penalty; empty if the study has none."""
    if COURSE not in tables:
        return of.iloc[:0]
    found = finals(tables[COURSE])
    same = (found["loss"] == "cross_entropy") & ~found["pre_norm"] & (found["blocks"] > 0)
    for column in ("network", "by_depth", "dataset", "N", "last_penalty", "width"):
        same &= found[column] == of[column].iloc[0]
    return add_excess(found[same])


def _settings(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Grown networks by what they are called."""
    for (network, by, dataset), rows in table.groupby(["network", "by_depth", "dataset"], sort=False):
        kind = {"network": network, "by_depth": by, "dataset": dataset, "pre_norm": False, "loss": "cross_entropy"}
        yield name_setting(kind), rows


def growth_against_depth(tables: Tables, style: Style) -> Figure:
    """Excess loss and NC1 (rows) against depth: grown after training and right after a split, and from scratch."""
    settings = list(_settings(grown(tables)))
    blue, orange, grey = palette(style)[0], palette(style)[1], palette(style)[7]
    looks = {"grown by splitting": (blue, "-"), "right after a split": (grey, ""), "from scratch": (orange, "-")}
    figure, axes = panels(2, len(settings), PAGE if len(settings) > 1 else COLUMN, 3.8, sharey="row")
    drawn = set()
    for column, (name, table) in zip(axes.T, settings, strict=True):
        parts = [table[table["moment"] == moment] for moment in ("trained", "split")]
        for axis, value in zip(column, ("excess", "NC1"), strict=True):
            for (kind, (color, line)), rows in zip(looks.items(), [*parts, _from_scratch(tables, table)], strict=True):
                if len(rows):
                    drawn.add(kind)
                    axis.scatter(rows["L"], rows[value], s=8, facecolors="none", edgecolors=[color], linewidths=0.6)
                    means = rows.groupby("L")[value].mean()
                    axis.plot(means.index, means, color=color, linestyle=line, linewidth=0.9, marker="")
            axis.set(xscale="log", yscale="log")
        column[0].set_title(name)
        column[1].set_xlabel("depth L")
        set_ticks(column[1].xaxis, sorted({L for _, rows in settings for L in rows["L"]}))
    for axis, name in zip(axes[:, 0], ("loss over the optimum", "NC1"), strict=True):
        axis.set_ylabel(name)
    entries = [
        line_entry(kind, color=color, marker="o", linestyle=line)
        for kind, (color, line) in looks.items()
        if kind in drawn
    ]
    counts = sorted({rows["seed"].nunique() for _, rows in settings})
    legend(figure, entries, f"{'–'.join(map(str, counts))} networks grown")
    return figure


def _see(tables: Tables) -> str:
    told = []
    for name, rows in _settings(grown(tables)):
        ends = rows[rows["moment"] == "trained"].groupby("L")[["excess", "NC1"]].mean()
        first, last = ends.iloc[0], ends.iloc[-1]
        told.append(
            f"{name}: from L = {ends.index[0]} to {ends.index[-1]} the loss over the optimum goes from "
            f"{first['excess']:.4f} to {last['excess']:.4f}, NC1 from {first['NC1']:.3f} to {last['NC1']:.3f}"
        )
    return f"{'; '.join(told)}."


def rate_of_grown(tables: Tables) -> list[Found]:
    """``rates_over_bound`` of the grown networks of one layer a block."""
    table = grown(tables)
    table = table[(table["moment"] == "trained") & (table["network"] == "rn1")]
    return rates_over_bound(table) or [f"needs rn1 of four depths from {LARGE} on"]


def loss_over_scratch(tables: Tables) -> list[Found]:
    """Excess loss of grown networks over that of those from scratch that are no shallower.

    Of the deepest grown ones that have such, a case a setting.
    """
    cases: list[Found] = []
    for name, table in _settings(grown(tables)):
        scratch = _from_scratch(tables, table)
        table = table[(table["moment"] == "trained") & (table["L"] <= scratch["L"].max())]
        if table.empty or scratch.empty:
            continue
        deepest = table[table["L"] == table["L"].max()]
        deeper = scratch[scratch["L"] >= table["L"].max()]
        of = deeper[deeper["L"] == deeper["L"].min()]
        told = ", ".join(f"{rows['excess'].mean():.3g} at L = {rows['L'].iloc[0]}" for rows in (deepest, of))
        ratio = ratio_of(deepest["excess"].to_numpy(), of["excess"].to_numpy(), name, told, "networks")
        cases.append(replace(ratio, spread=None))
    return cases or ["needs the same networks from scratch at least as deep"]


def slopes_of_two_layers(tables: Tables) -> list[Found]:
    """Slope of log10 excess on log10 L of two layers a block at a constant penalty over that of one layer."""
    table = grown(tables)
    table = table[(table["moment"] == "trained") & (table["by_depth"] == "constant")]
    two, one = (slope_with_depth(table[table["network"] == name], "excess", "") for name in ("rn2", "rn1"))
    if not (isinstance(two, Measurement) and isinstance(one, Measurement)):
        return [f"needs rn1 and rn2 with by_depth: constant grown to {DEPTHS} depths"]
    value = two.value / one.value
    error = float(np.hypot(two.error or 0, value * (one.error or 0)) / abs(one.value))
    return [replace(two, value=value, error=error, detail=f"slopes {two.value:.3g} and {one.value:.3g}")]


FIGURES = (
    Drawing(
        "collapse-growth",
        "Networks grown by splitting their blocks",
        "Loss over the optimum of the unconstrained features model, and NC1, against depth (study `{study}`). Networks "
        "of one block are trained, then every block becomes two of half the branch, and all are trained on. With one "
        "linear layer a block that halves the penalty of blocks, with two it leaves it.",
        growth_against_depth,
        seen=_see,
        differs="Not in the paper, whose proof splits a map over blocks in this way.",
    ),
)
CLAIMS = (
    Claim(
        id="collapse-growth-rate",
        statement="Networks that are grown approach collapse as fast as the bound on global optima",
        quantity="slope on log₁₀ L over that of the bound (−1; −1/2 for NC2), L ≥ 5, over all networks",
        bound=at_least(1),
        owner="ours",
        origin="derived",
        reason="As for networks from scratch (Figure 1): at most of order L^(−1/2) from the optimum, up to logarithms.",
        tables=(TABLE,),
        measure=rate_of_grown,
    ),
    Claim(
        id="collapse-growth-lower",
        statement="Growing, with more steps in all, ends at a lower loss than training from scratch",
        quantity="loss over the optimum of the deepest grown networks over that of networks from scratch, no shallower",
        bound=below(1),
        owner="ours",
        origin="ours",
        reason="What remains over the optimum from scratch is then left in part by the optimiser. Grown networks are "
        "trained at every depth on the way, six times as many steps by default.",
        tables=(TABLE, COURSE),
        measure=loss_over_scratch,
    ),
    Claim(
        id="collapse-growth-control",
        statement="With two linear layers a block and a constant penalty, growing lowers the loss far less",
        quantity="slope of log₁₀ of the loss over the optimum on log₁₀ L, over that with one layer a block",
        bound=between(-0.25, 0.25),
        owner="ours",
        origin="ours",
        reason="Half a branch of two layers costs half, so that splitting blocks leaves the penalty as it is. What is "
        "left for noise is as of Figure 2's control.",
        tables=(TABLE,),
        measure=slopes_of_two_layers,
    ),
)
