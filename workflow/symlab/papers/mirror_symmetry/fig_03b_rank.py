"""Figure 3 mid: noisy rates lower the rank of a product of matrices, by as many exponents as turn negative."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.papers.card import Drawing
from symlab.papers.claim import Claim, Found, Measurement, Tables, at_least, at_most
from symlab.papers.mirror_symmetry.settings import RESIDUAL, SKIP, VANILLA
from symlab.plotting.rows import need
from symlab.plotting.style import PAGE, Style, legend, line_entry, ordered_colors, panels

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


def means(rows: pd.DataFrame, model: str, matrix: str = "map") -> pd.DataFrame:
    """Mean ``rank`` over seeds with ``predicted`` and ``n`` for each d, rate and mu > 0."""
    of = rows[(rows["model"] == model) & (rows["matrix"] == matrix) & (rows["mu"] > 0)]
    found = of.groupby(["d", "lr", "mu"]).agg(
        rank=(SHOWN, "mean"), predicted=("predicted", "first"), n=("seed", "nunique")
    )
    return found.reset_index()


def rank_off_exponents(tables: Tables, model: str) -> list[Found]:
    """The largest difference, over rates and mu, of the mean rank from the number of positive exponents, over d."""
    cases: list[Found] = []
    for d, of in means(final_ranks(tables), model).groupby("d"):
        off = ((of["rank"] - of["predicted"]) / d).abs()
        worst = of.loc[off.idxmax()]
        told = f"{worst['rank']:.3g} against {worst['predicted']:g} at rate {worst['lr']:g}, μ = {worst['mu']:g}"
        cases.append(Measurement(float(off.max()), int(of["n"].min()), None, f"d = {d}", told, None, "seeds"))
    return cases or ["no runs with μ > 0"]


def rises(tables: Tables) -> list[Found]:
    """By how much the mean rank rises at most from a rate to the next at a mu, or from a mu to the next lower one."""
    cases: list[Found] = []
    for d, of in means(final_ranks(tables), VANILLA).groupby("d"):
        table = of.pivot(index="lr", columns="mu", values="rank").sort_index()
        steps = [table.diff(axis=0).to_numpy().ravel(), -table.diff(axis=1).to_numpy().ravel()]
        values = np.concatenate(steps)
        values = values[np.isfinite(values)]
        if len(values):
            n = int(of["n"].min())
            cases.append(Measurement(float(values.max()), n, None, f"d = {d}", "", None, "seeds"))
    return cases or ["needs several rates or μ > 0"]


def least_rank(tables: Tables, model: str, matrix: str = "map") -> list[Found]:
    """The least mean rank over rates and mu > 0, over d."""
    cases: list[Found] = []
    for d, of in means(final_ranks(tables), model, matrix).groupby("d"):
        worst = of.loc[of["rank"].idxmin()]
        told = f"at rate {worst['lr']:g}, μ = {worst['mu']:g}"
        n = int(of["n"].min())
        cases.append(Measurement(float(worst["rank"] / d), n, None, f"d = {d}", told, None, "seeds"))
    return cases or [f"no {model} runs with μ > 0"]


def _see(tables: Tables) -> str:
    rows = final_ranks(tables)
    told = []
    for d, of in means(rows, VANILLA).groupby("d"):
        least = of.loc[of["rank"].idxmin()]
        other = means(rows, RESIDUAL)
        same = other[(other["d"] == d) & (other["lr"] == least["lr"]) & (other["mu"] == least["mu"])]["rank"]
        residual = f"{same.iloc[0]:.3g}" if len(same) else "not told"
        told.append(
            f"at d = {d} the rank falls to {least['rank']:.3g} ({least['predicted']:g} exponents are positive), of the "
            f"residual form to {residual}"
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
        origin="ours",
        reason="d(WU + V)/dV is the identity, so that there is no subspace that gradients cannot leave.",
        tables=_OF,
        measure=lambda tables: least_rank(tables, SKIP),
    ),
)
