"""Figure 3 mid: noisy rates lower the rank of a product of matrices, by as many exponents as turn negative."""

import operator
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.settings import RESIDUAL, SKIP, VANILLA
from symlab.plotting.style import Axes, Figure, Look, Style, line_entry, ordered_colors
from symlab.study.card import Drawing
from symlab.study.cases import Cases, cases
from symlab.study.claim import Case, Claim, Found, Tables, at_least, at_most, mean_of
from symlab.study.facets import BARS, Panel, draw_grid, labelled
from symlab.study.tables import need

RANKS, EXPONENTS = "mirror_rank.csv", "mirror_rank_exponents.csv"
SHOWN = "rank_3"
TITLES = {
    (VANILLA, "map"): "WU",
    (RESIDUAL, "map"): "(I + W)(I + U)",
    (RESIDUAL, "WU"): "WU of residual",
    (SKIP, "map"): "WU + V",
}


def final_ranks(tables: Tables) -> pd.DataFrame:
    """Ranks at the end where no seed has diverged, with ``predicted``: the number of positive exponents up to d."""
    rows = need(tables, RANKS)
    rows = rows[rows["step"] == rows.groupby("d")["step"].transform("max")]
    rows = rows[~rows.groupby(["d", "model", "lr", "mu"])["diverged"].transform("any")]
    exponents = need(tables, EXPONENTS)
    positive = (exponents["exponent"] > 0).groupby([exponents[key] for key in ("d", "lr", "mu")]).sum()
    merged = rows.merge(positive.rename("predicted").reset_index(), on=["d", "lr", "mu"])
    return merged.assign(predicted=np.minimum(merged["predicted"], merged["d"]))


def _ranks_against_rate(tables: Tables, style: Style) -> Figure:
    rows = final_ranks(tables)
    mus = sorted(rows["mu"].unique())
    # Equal ranks of several mu are drawn beside each other.
    shift = {mu: 1.02 ** (place - len(mus) / 2) for place, mu in enumerate(mus)}
    rows = rows.assign(label=[f"μ = {mu:g}" for mu in rows["mu"]], shown=rows["lr"] * rows["mu"].map(shift))
    colors = dict(zip(mus, ordered_colors(len(mus)), strict=True))
    looks = {f"μ = {mu:g}": Look(color, "", "o") for mu, color in colors.items()}

    def panel(d: int, model: str, matrix: str) -> Panel:
        of = rows.query("d == @d and model == @model and matrix == @matrix")

        def law(axis: Axes) -> None:
            if matrix == "map" and model != SKIP:
                for mu, part in of.groupby("mu"):
                    line = part.groupby("lr")["predicted"].first()
                    axis.plot(line.index, line, color=colors[mu], marker="", linestyle="--", linewidth=0.9)

        rates = sorted(rows.loc[rows["d"] == d, "lr"].unique())
        limits = {"ylim": (0, 1.06 * d), "xlim": (rates[0] / 1.2, rates[-1] * 1.2)}
        axes = labelled("rate λ", f"rank, d = {d}", "x", title=TITLES[model, matrix], xticks=rates, **limits)
        return Panel(of, "shown", SHOWN, axes, options=BARS, more=law)

    shown = {*zip(rows["d"], rows["model"], rows["matrix"], strict=True)}
    grid = [[panel(d, *of) for of in TITLES if (d, *of) in shown] for d in sorted(rows["d"].unique(), reverse=True)]
    entries = [line_entry("positive exponents", color="0.3", linestyle="--")]
    return draw_grid(grid, looks, sharex="row", sharey="row", height=1.7, entries=entries)


def ranks_of(rows: pd.DataFrame, model: str, value: str = SHOWN) -> Cases:
    """Values of what a model multiplies the input with, a case a size, rate and mu > 0, a unit a seed."""
    of, by = rows.query("model == @model and matrix == 'map' and mu > 0"), ["d", "lr", "mu"]
    return cases(of.sort_values(by), value, by, "seed", "d = {d}, rate {lr:g}, μ = {mu:g}")


def rises(tables: Tables) -> Iterator[Found]:
    """By how much the rank rises from a rate to the next at a mu, or from a mu to the next lower one."""
    rows = ranks_of(final_ranks(tables), VANILLA)
    for along, other, symbol, falling in (("lr", "mu", "rate", False), ("mu", "lr", "μ", True)):
        for start, end in _neighbours(rows, along, other, falling):
            name = f"{start.case} to {symbol} {end.case.key[along]:g}"
            change = (end.values - start.values).to_numpy()
            yield mean_of(change, name, f"from {start.mean:.3g} to {end.mean:.3g}", "seeds")
    yield "needs several rates or μ > 0"


def _neighbours(rows: Cases, along: str, other: str, falling: bool) -> list[tuple]:
    """Pairs of cases that differ in one value of their key alone, the second of which is the next higher, or lower."""
    of_line: dict[tuple, list] = {}
    for each in rows:
        of_line.setdefault((each.case.key["d"], each.case.key[other]), []).append(each)
    lines = (sorted(line, key=lambda each: each.case.key[along], reverse=falling) for line in of_line.values())
    return [pair for line in lines for pair in pairwise(line)]


def least(tables: Tables, model: str) -> list[Found]:
    """The rank over d at the rate and mu > 0 at which its mean is least, a case a size."""
    smallest = ranks_of(final_ranks(tables), model, f"{SHOWN} / d").extreme(operator.neg, "d")
    named = [Case("d = {d}".format(**each.case.key), **each.case.key) for each in smallest]
    shown = (replace(each, case=case, told=str(each.case)) for each, case in zip(smallest, named, strict=True))
    return Cases(tuple(shown), "seeds").means() or [f"no {model} runs with μ > 0"]


FIGURES = {
    "mirror-3b": Drawing(
        "Noise lowers the rank of a product of matrices",
        "Online SGD on labels μx + (1 - μ)ε, a row a size d: the number of singular values above 1e-3 of the largest "
        "at the end, against the rate (mean and standard deviation over seeds). Dashed, its prediction without a fit, "
        "the number of positive Lyapunov exponents near W = U = 0. The residual form is shown by all that multiplies "
        "the input, and by the product of its W and U alone.",
        _ranks_against_rate,
        seen="The residual form is left with as little as {residual:%} of full rank (the smallest for each d).",
        differs="The paper gives no rates, steps or threshold for the rank. It says that the residual form removes the "
        "symmetry; it moves it, which the second panel shows.",
    ),
}
_claim = partial(Claim, tables=(RANKS, EXPONENTS), owner="derived", origin="ours")
CLAIMS = {
    "mirror-3b-exponents": _claim(
        statement="The rank is the number of positive Lyapunov exponents",
        quantity="difference of the rank from that number over d, at each size, rate and μ > 0, mean over seeds",
        bound=at_most(0.1),
        origin="pilot",
        reason="Exponents next to 0 decide after more steps than there are. Two rates of another program at d = 20 "
        "were known; at μ = 0 nothing is left to have a rank.",
        measure=lambda tables: (
            ranks_of(final_ranks(tables), VANILLA, f"abs({SHOWN} - predicted) / d").means() or ["no runs with μ > 0"]
        ),
    ),
    "mirror-3b-monotone": _claim(
        statement="The rank does not rise with the rate or with the labels' noise",
        quantity="rise of the rank from a rate or μ to the next, μ > 0, mean over seeds",
        bound=at_most(2, "directions"),
        owner="paper",
        reason="The paper's figure; two directions are left for those whose exponents are next to 0.",
        measure=rises,
    ),
    "mirror-3b-residual": _claim(
        statement="The residual form stays at full rank",
        quantity="least mean rank of (I + W)(I + U) over rates and μ > 0, over d",
        bound=at_least(0.95),
        owner="paper",
        origin="paper",
        reason="The paper's inset: it always stays full-rank; a twentieth is left for values next to the threshold.",
        measure=lambda tables: least(tables, RESIDUAL),
        why="I + W and I + U are plain factors that start elsewhere: without weight decay SGD of the residual form "
        "is SGD of the product, step by step, and its mirror lies at W = U = -I. The inset can be of W and U "
        "alone, whose rank is full.",
    ),
    "mirror-3b-skip": _claim(
        statement="With a linear skip the map stays at full rank",
        quantity="least mean rank of WU + V over rates and μ > 0, over d",
        bound=at_least(0.95),
        owner="ours",
        reason="d(WU + V)/dV is the identity, so that there is no subspace that gradients cannot leave.",
        measure=lambda tables: least(tables, SKIP),
    ),
}
