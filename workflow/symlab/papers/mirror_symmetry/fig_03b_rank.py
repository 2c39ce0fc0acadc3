"""Figure 3 mid: noisy rates lower the rank of a product of matrices, by as many exponents as turn negative."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.settings import RESIDUAL, SKIP, VANILLA
from symlab.plotting.style import PAGE, Style, legend, line_entry, ordered_colors, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, at_least, at_most, mean_of
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RANKS, EXPONENTS = "mirror_rank.csv", "mirror_rank_exponents.csv"
SHOWN = "rank_3"
NEAR = 0.1
"""By which part of d a rank may differ from what is predicted."""
TOLERANCE = 2
TITLES = {
    (VANILLA, "map"): "$WU$",
    (RESIDUAL, "map"): "$(I + W)(I + U)$",
    (RESIDUAL, "WU"): "$WU$ of residual",
    (SKIP, "map"): "$WU + V$",
}


def final_ranks(tables: Tables) -> pd.DataFrame:
    """Ranks at the end, with ``predicted``: the number of positive exponents up to d.

    A model's rate and mu at which any seed has diverged are left out.
    """
    rows = need(tables, RANKS)
    rows = rows[rows["step"] == rows.groupby("d")["step"].transform("max")]
    rows = rows[~rows.groupby(["d", "model", "lr", "mu"])["diverged"].transform("any")]
    exponents = need(tables, EXPONENTS)
    positive = (exponents["exponent"] > 0).groupby([exponents[key] for key in ("d", "lr", "mu")]).sum()
    merged = rows.merge(positive.rename("predicted").reset_index(), on=["d", "lr", "mu"])
    return merged.assign(predicted=np.minimum(merged["predicted"], merged["d"]))


def ranks_against_rate(tables: Tables, style: Style) -> Figure:
    """A row a size; the rank of what each model multiplies the input with against the rate, a colour a mu."""
    rows = final_ranks(tables)
    sizes = sorted(rows["d"].unique(), reverse=True)
    figure, axes = panels(len(sizes), len(TITLES), PAGE, 0.5 + 1.7 * len(sizes), sharex="row", sharey="row")
    for d, row in zip(sizes, axes, strict=True):
        of_size = rows[rows["d"] == d]
        mus = sorted(of_size["mu"].unique())
        colors = dict(zip(mus, ordered_colors(len(mus)), strict=True))
        for axis, (model, matrix) in zip(row, TITLES, strict=True):
            of_model = of_size[(of_size["model"] == model) & (of_size["matrix"] == matrix)]
            for mu, of in of_model.groupby("mu"):
                stats = of.groupby("lr").agg(mean=(SHOWN, "mean"), std=(SHOWN, "std"), law=("predicted", "first"))
                axis.errorbar(
                    stats.index, stats["mean"], stats["std"].fillna(0), color=colors[mu], marker="o", linestyle=""
                )
                if matrix == "map" and model != SKIP:
                    axis.plot(stats.index, stats["law"], color=colors[mu], marker="", linestyle="--", linewidth=0.9)
            axis.set(xscale="log", ylim=(0, 1.06 * d))
            axis.minorticks_off()
            rates = sorted(of_size["lr"].unique())
            axis.set_xticks(rates, [f"{rate:g}" for rate in rates])
        row[0].set_ylabel(f"rank, d = {d}")
        row[-1].legend(
            handles=[line_entry(f"{mu:g}", color=color, marker="o", linestyle="") for mu, color in colors.items()],
            title=r"$\mu$",
            fontsize=6,
            title_fontsize=6,
            loc="lower left",
        )
    for axis, title in zip(axes[0], TITLES.values(), strict=True):
        axis.set_title(title)
    for axis in axes[-1]:
        axis.set_xlabel(r"rate $\lambda$")
    entries = [
        line_entry("measured", color="0.3", marker="o", linestyle=""),
        line_entry("positive exponents", color="0.3", linestyle="--"),
    ]
    legend(figure, entries, "")
    return figure


def ranks_of(rows: pd.DataFrame, model: str, value: str = SHOWN, matrix: str = "map") -> dict[int, pd.DataFrame]:
    """By size d a value of each seed (row) at each (rate, mu > 0)."""
    of = rows[(rows["model"] == model) & (rows["matrix"] == matrix) & (rows["mu"] > 0)]
    return {d: part.pivot(index="seed", columns=["lr", "mu"], values=value) for d, part in of.groupby("d")}


def rank_off_exponents(tables: Tables, model: str) -> list[Found]:
    """The largest difference, over rates and mu, of the mean rank from the number of positive exponents, over d."""
    cases: list[Found] = []
    rows = final_ranks(tables)
    predicted = ranks_of(rows, model, "predicted")
    for d, ranks in ranks_of(rows, model).items():
        off = (ranks - predicted[d]) / d
        at = off.mean().abs().idxmax()
        told = f"{ranks[at].mean():.3g} against {predicted[d][at].mean():g} at rate {at[0]:g}, μ = {at[1]:g}"
        values = off[at].dropna().to_numpy()
        cases.append(mean_of(values * np.sign(values.mean()), f"d = {d}", told, "seeds"))
    return cases or ["no runs with μ > 0"]


def rises(tables: Tables) -> list[Found]:
    """By how much the mean rank rises at most from a rate to the next at a mu, or from a mu to the next lower one."""
    cases: list[Found] = []
    for d, ranks in ranks_of(final_ranks(tables), VANILLA).items():
        steps = [
            *(ranks[high, mu] - ranks[low, mu] for mu, lrs in _neighbours(ranks, "lr", "mu") for low, high in lrs),
            *(ranks[lr, low] - ranks[lr, high] for lr, mus in _neighbours(ranks, "mu", "lr") for low, high in mus),
        ]
        if rising := [step.dropna().to_numpy() for step in steps if step.notna().any()]:
            cases.append(mean_of(max(rising, key=np.mean), f"d = {d}", unit="seeds"))
    return cases or ["needs several rates or μ > 0"]


def _neighbours(ranks: pd.DataFrame, along: str, at: str) -> Iterator[tuple[float, list[tuple[float, float]]]]:
    """For each value of one key of the columns, the pairs of neighbouring values of the other key that it has."""
    keys = ranks.columns.to_frame(index=False)
    for value, of in keys.groupby(at):
        yield float(value), list(itertools.pairwise(sorted(of[along])))


def least_rank(tables: Tables, model: str, matrix: str = "map") -> list[Found]:
    """The least mean rank over rates and mu > 0, over d."""
    cases: list[Found] = []
    for d, ranks in ranks_of(final_ranks(tables), model, matrix=matrix).items():
        at = ranks.mean().idxmin()
        told = f"at rate {at[0]:g}, μ = {at[1]:g}"
        cases.append(mean_of(ranks[at].dropna().to_numpy() / d, f"d = {d}", told, "seeds"))
    return cases or [f"no {model} runs with μ > 0"]


def _see(tables: Tables) -> str:
    rows = final_ranks(tables)
    predicted, others, told = ranks_of(rows, VANILLA, "predicted"), ranks_of(rows, RESIDUAL), []
    for d, ranks in ranks_of(rows, VANILLA).items():
        at = ranks.mean().idxmin()
        residual = f"{others[d][at].mean():.3g}" if d in others and at in others[d] else "not told"
        told.append(
            f"at d = {d} the rank falls to {ranks[at].mean():.3g} ({predicted[d][at].mean():g} exponents are "
            f"positive), of the residual form to {residual}"
        )
    return f"With signal in the labels, {'; '.join(told)}."


FIGURES = (
    Drawing(
        "mirror-3b",
        "Noise lowers the rank of a product of matrices",
        "Online SGD on labels μx + (1 - μ)ε, a row a size d: the number of singular values above 1e-3 of the largest "
        "at the end, against the rate (mean and standard deviation over seeds). Dashed, the number of positive "
        "Lyapunov exponents near W = U = 0, which predicts it without a fit. The residual form is shown by all that it "
        "multiplies the input with, and by the product of its W and U alone; last, a product with a linear skip V.",
        ranks_against_rate,
        seen=_see,
        differs="d is 20 and 50, the paper's 200; the paper gives no rates, steps or threshold for the rank. It says "
        "that the residual form removes the symmetry; it moves it, which the second panel shows.",
    ),
)
_OF = (RANKS, EXPONENTS)
CLAIMS = (
    Claim(
        id="mirror-3b-exponents",
        statement="The rank is the number of positive Lyapunov exponents",
        quantity="largest difference of the mean rank from that number over rates and μ > 0, over d",
        bound=at_most(NEAR),
        owner="derived",
        origin="pilot",
        reason="Exponents next to 0 decide after more steps than there are. Two rates of another program at d = 20 "
        "were known; at μ = 0 nothing is left that a relative rank could be taken of.",
        tables=_OF,
        measure=lambda tables: rank_off_exponents(tables, VANILLA),
    ),
    Claim(
        id="mirror-3b-monotone",
        statement="The rank does not rise with the rate or with the labels' noise",
        quantity="largest rise of the mean rank from a rate or μ to the next, μ > 0",
        bound=at_most(TOLERANCE, "directions"),
        owner="paper",
        origin="ours",
        reason="The paper's figure; two directions are left for those whose exponents are next to 0.",
        tables=_OF,
        measure=rises,
    ),
    Claim(
        id="mirror-3b-residual",
        statement="The residual form stays at full rank",
        quantity="least mean rank of (I + W)(I + U) over rates and μ > 0, over d",
        bound=at_least(0.95),
        owner="paper",
        origin="paper",
        reason="The paper's inset: it always stays full-rank; a twentieth is left for singular values next to the "
        "threshold.",
        tables=_OF,
        measure=lambda tables: least_rank(tables, RESIDUAL),
        why={
            "": "I + W and I + U are plain factors that start elsewhere: without weight decay SGD of the residual form "
            "is SGD of the product, step by step, and its mirror lies at W = U = -I. The inset can be of W and U "
            "alone, whose rank is full."
        },
    ),
    Claim(
        id="mirror-3b-same",
        statement="The residual form's rank is the number of positive Lyapunov exponents too",
        quantity="largest difference of the mean rank of (I + W)(I + U) from that number over rates and μ > 0, over d",
        bound=at_most(NEAR),
        owner="derived",
        origin="derived",
        reason="It is the product's own descent from another start.",
        tables=_OF,
        measure=lambda tables: rank_off_exponents(tables, RESIDUAL),
    ),
    Claim(
        id="mirror-3b-skip",
        statement="With a linear skip the map stays at full rank",
        quantity="least mean rank of WU + V over rates and μ > 0, over d",
        bound=at_least(0.95),
        owner="ours",
        origin="ours",
        reason="d(WU + V)/dV is the identity, so that there is no subspace that gradients cannot leave.",
        tables=_OF,
        measure=lambda tables: least_rank(tables, SKIP),
    ),
)
