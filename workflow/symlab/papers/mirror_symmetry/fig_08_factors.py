"""Figure 8: the rank of two linear layers falls as their weight decay rises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.names import LABELS
from symlab.plotting.style import PAGE, Style, legend, line_entry, ordered_colors, palette, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, at_least, at_most, below, mean_of
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FACTORS = "mirror_factors.csv"


def rank_against_decay(tables: Tables, style: Style) -> Figure:
    """Ranks over gamma for both kinds of labels; right, those of falling singular values and their band."""
    rows = need(tables, FACTORS)
    colors = palette(style)
    figure, axes = panels(1, 3, PAGE, 2.6, sharex=True, sharey=True)
    last = rows[rows["step"] == rows["step"].max()]
    for axis, labels in zip(axes[0], LABELS, strict=False):
        means = last[last["labels"] == labels].groupby("gamma")[["rank", "convex", "above"]].mean()
        axis.plot(means.index, means["above"], color="0.6", linestyle=":", marker="")
        axis.plot(
            means.index,
            means["convex"],
            color=colors[1],
            linestyle="",
            marker="o",
            markersize=6,
            markerfacecolor="none",
        )
        axis.plot(means.index, means["rank"], color=colors[0], marker="o", markersize=2.5)
        axis.set(title=f"${labels}$", xlabel=r"weight decay $\gamma$")
    right = axes[0, 2]
    steps = sorted(rows["step"].unique())
    moments = ordered_colors(len(steps))
    for step, color in zip(steps, moments, strict=True):
        means = (
            rows[(rows["step"] == step) & (rows["labels"] == LABELS[0])]
            .groupby("gamma")[["zero_rank", "above", "above_band"]]
            .mean()
        )
        right.fill_between(means.index, means["above"], means["above_band"], color=color, alpha=0.15, linewidth=0)
        right.plot(means.index, means["zero_rank"], color=color, marker=".", markersize=3)
    right.set(title=f"${LABELS[0]}$, above $10^{{-6}}$", xlabel=r"weight decay $\gamma$")
    smallest = rows.loc[rows["gamma"] > 0, "gamma"].min()
    right.set_xscale("symlog", linthresh=smallest, linscale=0.3)
    right.set_xticks([0, 0.01, 0.1, 1], ["0", "0.01", "0.1", "1"])
    axes[0, 0].set_ylabel("rank of $WU$")
    entries = [
        line_entry("gradient descent", color=colors[0], marker="o", markersize=2.5),
        line_entry(
            "nuclear-norm minimum", color=colors[1], linestyle="", marker="o", markersize=6, markerfacecolor="none"
        ),
        line_entry(r"number of $\sigma(AS) > \gamma$", color="0.6", linestyle=":"),
        *(line_entry(f"step {step:,}", color=color) for step, color in zip(steps, moments, strict=True)),
    ]
    legend(figure, entries, "")
    return figure


def per_seed(rows: pd.DataFrame, values: pd.Series, how: str = "max") -> list[Found]:
    """For each kind of labels the mean over seeds of a seed's largest value (of the gammas and moments in it)."""
    found: list[Found] = []
    for labels in LABELS:
        of = rows["labels"] == labels
        if of.any():
            found.append(mean_of(values[of].groupby(rows.loc[of, "seed"]).agg(how).to_numpy(), labels, unit="seeds"))
    return found


def _last(tables: Tables) -> pd.DataFrame:
    rows = tables[FACTORS]
    return rows[rows["step"] == rows["step"].max()].sort_values(["labels", "seed", "gamma"])


def rises(tables: Tables) -> list[Found]:
    """By how much the rank rises at most from one gamma to the next."""
    rows = _last(tables)
    return per_seed(rows, rows.groupby(["labels", "seed"])["rank"].diff().fillna(0))


def falls(tables: Tables) -> list[Found]:
    """Which share of the full rank is lost from the least gamma to the largest."""
    rows = _last(tables)
    both = rows.groupby(["labels", "seed"])
    lost = (both["rank"].transform("first") - both["rank"].transform("last")) / rows["d"]
    return per_seed(rows, lost)


def from_convex_rank(tables: Tables) -> list[Found]:
    """How far the rank is from the convex minimiser's at most."""
    rows = _last(tables)
    return per_seed(rows, (rows["rank"] - rows["convex"]).abs())


def from_convex_values(tables: Tables) -> list[Found]:
    """How far a singular value is from the convex minimiser's at most, in units of its largest."""
    rows = _last(tables).dropna(subset=["gap"])
    return per_seed(rows, rows["gap"])


def outside_band(tables: Tables) -> list[Found]:
    """By how much the rank above 1e-6 leaves what critical slowing allows at most, over all moments."""
    rows = tables[FACTORS]
    out = np.maximum(rows["above"] - rows["zero_rank"], rows["zero_rank"] - rows["above_band"]).clip(lower=0)
    return per_seed(rows, out)


def _see(tables: Tables) -> str:
    rows = _last(tables)
    told = []
    for labels in LABELS:
        means = rows[rows["labels"] == labels].groupby("gamma")[["rank", "convex", "above"]].mean()
        apart = (means["rank"] - means["convex"]).abs().max()
        count = (means["above"] - means["convex"]).abs().max()
        told.append(
            f"for {labels} the rank falls from {means['rank'].iloc[0]:g} to {means['rank'].iloc[-1]:g}, at most "
            f"{apart:.2g} from the convex minimum's, which the count of σ(AS) above γ misses by up to {count:.2g} "
            f"(means over seeds)"
        )
    return f"At the end, {'; '.join(told)}."


FIGURES = (
    Drawing(
        "mirror-8",
        "Rank of two linear layers with weight decay",
        "Left and middle, rank of WU (singular values above 0.001 of the largest) after full-batch gradient descent "
        "on the mean of |WUx - y|² + γ(|W|² + |U|²), with the rank of the minimiser over M = WU, which is a convex "
        "problem with a nuclear norm, and with the number of directions that grow from 0. Right, singular values "
        "above 1e-6 at four moments; shaded, between σ(AS) > γ and what is still falling at the rate 4 lr (γ - σ). "
        "Means over seeds.",
        rank_against_decay,
        seen=_see,
        differs="The paper gives neither labels, rate, steps nor what counts as rank, and draws one curve.",
    ),
)
CLAIMS = (
    Claim(
        id="mirror-8-staircase",
        statement="The rank falls, or stays, from each weight decay to the next larger one",
        quantity="largest rise of the rank of WU from one γ to the next, mean over seeds",
        bound=at_most(0),
        owner="paper",
        origin="paper",
        reason="Fig. 8: as the weight decay becomes stronger, the model becomes lower and lower rank.",
        tables=(FACTORS,),
        measure=rises,
    ),
    Claim(
        id="mirror-8-full-range",
        statement="Weight decay takes the model from full rank to rank 0",
        quantity="rank at the least γ minus that at the largest, as a share of the full rank, mean over seeds",
        bound=at_least(0.95),
        owner="paper",
        origin="pilot",
        reason="With γ from 0 to 3, another program had lost 50 of 50; random A are nearly singular in some direction.",
        tables=(FACTORS,),
        measure=falls,
    ),
    Claim(
        id="mirror-8-rank",
        statement="Gradient descent reaches the rank of the nuclear-norm minimum",
        quantity="largest difference of the two ranks over γ, mean over seeds",
        bound=below(1.5),
        owner="derived",
        origin="pilot",
        reason="Equal in exact arithmetic after infinite time; another program's descents were off by 1 where a "
        "singular value is about to vanish.",
        tables=(FACTORS,),
        measure=from_convex_rank,
    ),
    Claim(
        id="mirror-8-values",
        statement="Gradient descent reaches the singular values of the nuclear-norm minimum",
        quantity="largest difference of a singular value in units of the largest one, over γ, mean over seeds",
        bound=below(0.01),
        owner="derived",
        origin="pilot",
        reason="Another program had 1e-5 to 3e-3.",
        tables=(FACTORS,),
        measure=from_convex_values,
    ),
    Claim(
        id="mirror-8-band",
        statement="How many singular values exceed 1e-6 at a finite time is told by σ(AS) and critical slowing",
        quantity="largest distance of that number from the range between #{σ(AS) > γ} and #{σ(AS) > γ - ln(1e6)/(4 lr "
        "T)}, over γ and T, mean over seeds",
        bound=below(1),
        owner="derived",
        origin="derived",
        reason="A mode of size 1 falls as exp(-4 lr (γ - σ) T); a count within the range is at distance 0.",
        tables=(FACTORS,),
        measure=outside_band,
    ),
)
