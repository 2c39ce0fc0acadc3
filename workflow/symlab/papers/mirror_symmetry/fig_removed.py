"""Which pairs of neurons decay merges, and what is left of it where fixed weights remove the symmetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.fig_06_homogeneity import scale_decay
from symlab.plotting.style import PAGE, Style, legend, line_entry, palette, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, at_least, below, difference_of, mean_of
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE, PAIRS = "homogeneity.csv", "neuron_pairs.csv"
MERGED = 0.05
"""Distance below which weights of two neurons are merged."""


def merged_with_and_without_symmetry(tables: Tables, style: Style) -> Figure:
    """Shares of merged pairs against the decay by scheme; curvature across the mirror against the pair's distance."""
    rows = named(tables)
    pairs = need(tables, PAIRS)
    figure, axes = panels(1, 2, PAGE, 2.6, sharex=False, sharey=False)
    axis, entries = axes[0, 0], []
    for color, (name, of) in zip(palette(style), rows.groupby("kind_of", sort=False), strict=False):
        by_decay = of.groupby("weight_decay")["close"]
        axis.errorbar(by_decay.mean().index, by_decay.mean(), yerr=by_decay.sem(), color=color, marker="o", capsize=2)
        entries.append(line_entry(str(name), color=color, marker="o"))
    scale_decay(axis, rows["weight_decay"])
    axis.set(xlabel="weight decay", ylabel="share of merged pairs")
    axis = axes[0, 1]
    for color, (decay, of) in zip(palette(style)[4:], pairs.groupby("weight_decay"), strict=False):
        axis.plot(of["distance"], of["curvature"], color=color, linestyle="", marker="o", markersize=2)
        entries.append(line_entry(f"pairs, decay {decay:g}", color=color, linestyle="", marker="o"))
    axis.axhline(0, color="0.7", linewidth=0.6)
    axis.axvline(MERGED, color="0.7", linewidth=0.6, linestyle=":")
    axis.set_yscale("symlog", linthresh=1e-3)
    axis.set(xlabel=r"$|\theta_a - \theta_b|\;/\;(|\theta_a| + |\theta_b|)$", ylabel="curvature with decay")
    legend(figure, entries, "")
    return figure


def named(tables: Tables) -> pd.DataFrame:
    """Rows of networks, before the activation, with the kind of network that all decays share as ``kind_of``."""
    rows = need(tables, TABLE)
    rows = rows[(rows["kind"] == "pre") & rows["scheme"].isin(("standard", "w_asymmetric", "syre"))]
    sigma = rows["sigma_F"].map(lambda value: "" if pd.isna(value) else f", σ_F = {value:g}")
    return rows.assign(kind_of=rows["scheme"].replace({"w_asymmetric": "W"}) + sigma)


def area_under_curve(pairs: pd.DataFrame) -> float | None:
    """The chance that a merged pair has the larger curvature of a merged and a separate one; None without both."""
    merged = pairs.loc[pairs["distance"] < MERGED, "curvature"].to_numpy()
    apart = pairs.loc[pairs["distance"] >= MERGED, "curvature"].to_numpy()
    if not len(merged) or not len(apart):
        return None
    wins = merged[:, None] - apart[None, :]
    return float(np.mean((wins > 0) + (wins == 0) / 2))


def _see(tables: Tables) -> str:
    rows = named(tables)
    shares = rows[rows["weight_decay"] == rows["weight_decay"].max()].groupby("kind_of", sort=False)["close"].mean()
    told = ", ".join(f"{name} {100 * share:.2g} %" for name, share in shares.items())
    return f"At decay {rows['weight_decay'].max():g} merged pairs are: {told}."


FIGURES = (
    Drawing(
        "mirror-removed",
        "Merged neurons with the symmetry and without",
        "Left: share of the pairs of live neurons of the last hidden layer whose weights are merged, against the "
        "decay, for standard networks and for those whose fixed weights remove the permutation symmetry; mean and "
        "standard error over networks. Right: curvature of the loss and the decay at a pair's mean, in the direction "
        "in which both neurons differ, of standard networks: the closest pairs and as many others; merged ones are "
        "left of the line. Where it is positive the mirror attracts.",
        merged_with_and_without_symmetry,
        seen=_see,
        differs="Not in the paper, which has no control.",
    ),
)


def fewer_without_symmetry(tables: Tables) -> list[Found]:
    """At every decay, a case a scheme: its share of merged pairs less that of standard networks."""
    rows = named(tables)
    found: list[Found] = []
    for (name, decay), of in rows[(rows["scheme"] != "standard") & (rows["weight_decay"] > 0)].groupby(
        ["kind_of", "weight_decay"], sort=False
    ):
        base = rows[(rows["scheme"] == "standard") & (rows["weight_decay"] == decay)]["close"].to_numpy()
        if len(base):
            found.append(difference_of(of["close"].to_numpy(), base, f"{name}, decay {decay:g}", "", "networks"))
    return found or ["needs W-asymmetric or syre networks with the standard ones' decays"]


def curvature_tells_merged(tables: Tables) -> list[Found]:
    """Of networks that have both, a case a decay."""
    found: list[Found] = []
    for decay, rows in tables[PAIRS].groupby("weight_decay"):
        areas = [area_under_curve(of) for _, of in rows.groupby(["mask_seed", "seed"])]
        if values := [each for each in areas if each is not None]:
            found.append(mean_of(np.array(values), f"decay {decay:g}", unit="networks"))
    return found or ["no network has merged and separate pairs"]


CLAIMS = (
    Claim(
        id="mirror-removed-fewer",
        statement="Where fixed weights remove the permutation symmetry fewer neurons merge",
        quantity="share of merged pairs less that of standard networks with the same decay",
        bound=below(0),
        owner="ours",
        origin="derived",
        reason="Without the symmetry there is no mirror to be drawn to.",
        tables=(TABLE,),
        measure=fewer_without_symmetry,
    ),
    Claim(
        id="mirror-removed-curvature",
        statement="The pairs that merge are those at whose mirror the curvature is positive",
        quantity="area under the curve: merged against separate pairs, by n^T H n + decay at the pair's mean",
        bound=at_least(0.8),
        owner="derived",
        origin="ours",
        reason="Section 2.4 calls a mirror attractive where this is positive; 0.5 would be chance.",
        tables=(PAIRS,),
        why={
            "": "SGD at a rate of 0.1 ends where its noise, not the mean loss, decides: at decays of 0.003 and 0.005, "
            "13 of 29 and 13 of 34 merged pairs (50 pairs of each of six networks) have a negative curvature. After "
            "150 more steps on all samples, at rates from 0.05 to 0, 0 of 30 and 2 of 34 have, and the area rises from "
            "0.56 ± 0.08 and 0.51 ± 0.07 to 0.91 ± 0.02 and 0.81 ± 0.07 (measuring curvature on all samples alone does "
            "not: 0.57 and 0.54). Of separate pairs two fifths have a positive one: the network is not at their mean."
        },
        measure=curvature_tells_merged,
    ),
)
