"""Figures 9 and 10: ranks of query and key weights of one and two attention layers fall together with weight decay."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.settings import ADAM, DESCENT
from symlab.plotting.style import Axes, Figure, Look, Style, line_entry
from symlab.study.card import Drawing
from symlab.study.cases import Cases, cases, cases_of
from symlab.study.claim import Claim, Found, Tables, at_most, below, between, not_measured
from symlab.study.facets import Panel, assign_looks, draw_grid, labelled
from symlab.study.statistics import rank_correlation
from symlab.study.tables import need, some
from symlab.words import counted

TABLE = "mirror_attention.csv"
SHORT = 0.1
"""By how much steps of half the length may change a rate of decay, as a part of it, if they are short enough."""
ONE_RATE = "needs gradient descent at two rates"
AT_REST = "Where the loss with decay is at rest QQᵀ = KKᵀ, so that singular values and ranks agree."
_NAMES = {1: "{optimizer}", 2: "{optimizer}, layer {layer}"}
LINES: dict[str, str] = {ADAM: "-", DESCENT: ":"}


def _ranks_over_steps(tables: Tables, style: Style, layers: int) -> Figure:
    rows = _of(tables, layers)
    names = [f"decay {decay:g}" for decay in sorted(rows["decay"].unique())]
    looks = assign_looks(names, style, ordered=True, marked=False)
    # Both optimizers are measured equally often, at their own numbers of steps.
    share = rows["step"] / rows.groupby("optimizer")["step"].transform("max")
    rows = rows.assign(share=share, label=rows["decay"].map("decay {:g}".format))

    def panel(layer: int, matrix: str) -> Panel:
        above = f"^{layer}" if layers > 1 else ""
        axes = labelled("share of the steps", "rank", title=f"$W{above}_{matrix[0].upper()}$", ylim=(0, None))
        return Panel(rows[rows["layer"] == layer], "share", f"rank_{matrix}", axes, _draw_by_optimizer)

    grid = [panel(layer, matrix) for layer in range(1, layers + 1) for matrix in ("query", "key")]
    drawn = [line_entry(name, linestyle=line) for name, line in LINES.items() if name in set(rows["optimizer"])]
    return draw_grid([grid], looks, entries=drawn)


def _draw_by_optimizer(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str) -> None:
    for optimizer, of in rows.groupby("optimizer"):
        mean = of.groupby(x)[y].mean()
        axis.plot(mean.index, mean, color=look.color, linestyle=LINES[str(optimizer)], marker="")


def _of_all_rates(tables: Tables, layers: int) -> pd.DataFrame:
    lacking = f"The study trains no networks of {layers} layers; add {layers} to attention.layers."
    return some(need(tables, TABLE).query("layers == @layers"), lacking)


def _of(tables: Tables, layers: int) -> pd.DataFrame:
    """The rows of networks of so many layers, by each optimizer's largest rate (smaller ones check it)."""
    rows = _of_all_rates(tables, layers)
    return rows[rows["lr"] == rows.groupby("optimizer")["lr"].transform("max")]


def by_seed(tables: Tables, layers: int, of_seed: Callable[[pd.DataFrame], float]) -> Cases:
    """For each optimizer and layer a number that a seed's rows give."""
    of_seeds = _of(tables, layers).groupby(["optimizer", "layer", "seed"], sort=False)
    return cases(of_seeds.apply(of_seed, include_groups=False), by=["optimizer", "layer"], name=_NAMES[layers])


def why_apart(tables: Tables, layers: int, ranks: bool) -> Iterator[tuple[str, str]]:
    """What is left of |QQ^T - KK^T| at decays at which it falls, in logarithms, in the second half of the steps by more
    than half of what it fell in the first, and at others; and whether ranks differ the more the more is left.
    """
    for case, rows in cases_of(_of(tables, layers), ["optimizer", "layer"], _NAMES[layers]):
        log = np.log(rows["unbalance"]).groupby([rows["decay"], rows["step"]]).mean().unstack()
        log = log.sub(log[0], axis=0)
        end, half = log.iloc[:, -1], log.loc[:, : log.columns[-1] / 2].iloc[:, -1]
        falls, flow = end < 1.5 * half, -2 * end.index.to_series() * rows["time"].max()
        told = [f"{_percent(end[falls])} at {counted(falls.sum(), 'decays')}, still falling"] if falls.any() else []
        if not falls.all():
            told.append(f"{_percent(end[~falls])} at {counted((~falls).sum(), 'decays')}, hardly falling any more")
            if case.key["optimizer"] == DESCENT and end[~falls].min() > flow[~falls].max():
                told[-1] += f", where gradient flow leaves {_percent(flow[~falls].nlargest(1))} at most"
        last, start = rows[rows["step"] == rows["step"].max()], rows.loc[rows["step"] == 0, "apart_key"].mean()
        rho = rank_correlation(last["unbalance"], (last["rank_query"] - last["rank_key"]).abs())
        # Surely above 0, at 95 %: without any correlation rho has a deviation of 1 / sqrt(n - 1).
        more = "Ranks differ more" if rho * np.sqrt(len(last) - 1) > 1.64 else "Not known: ranks differ no more"
        more += f" where more is left (rank correlation {rho:.2g}, {len(last)} runs)".replace("nan", "undefined")
        begin = f"Random weights begin with singular values {start:.2g} of their norm apart"
        yield case, f"{AT_REST} Of the difference are left {'; '.join(told)}. {more if ranks else begin}."


def _percent(logs: pd.Series) -> str:
    """The least and the largest of shares whose logarithms these are."""
    shares = (100 * np.exp(log) for log in (logs.min(), logs.max()))
    return " to ".join(dict.fromkeys(f"{share:.2g}" if share < 99.5 else f"{share:.0f}" for share in shares)) + " %"


def _trend(rows: pd.DataFrame) -> float:
    last = rows.query("step == step.max()")
    return rank_correlation(last["decay"], last["rank_query"] + last["rank_key"])


def _closeness(rows: pd.DataFrame) -> float:
    """Mean |rank of query less rank of key| while ranks fall: of the moments at which the query's is not full."""
    falling = rows[rows["rank_query"] < rows["rank_query"].max()]
    return float((falling["rank_query"] - falling["rank_key"]).abs().mean(skipna=False)) if len(falling) else np.nan


def _closer(rows: pd.DataFrame) -> float:
    """Median over decays of the distance of query's and key's singular values at the end over that at the start."""
    ends = rows[rows["step"] == rows["step"].max()].set_index("decay")["apart_key"]
    return float((ends / rows[rows["step"] == 0].set_index("decay")["apart_key"]).median(skipna=False))


def _balancing(descent: pd.DataFrame) -> float:
    """The rate at which |QQ^T - KK^T| falls over the prediction, twice the decay, of one descent.

    It is taken up to the last moment at which the prediction can be resolved.
    """
    # Single precision resolves the difference to a thousandth of its start.
    resolved = descent[descent["predicted"] > np.log(1e-3)]
    return float(
        np.log(resolved["unbalance"].iloc[-1] / resolved["unbalance"].iloc[0]) / resolved["predicted"].iloc[-1]
    )


def _balancings(tables: Tables, layers: int) -> tuple[Cases, Cases]:
    """That of each layer, decay and seed, by the smallest rate of descent and by the next larger one."""
    rows = _of_all_rates(tables, layers).query("optimizer == @DESCENT").sort_values("time")
    rows = rows.assign(predicted=-2 * rows["decay"] * rows["time"])
    # What has hardly begun to decay tells no rate.
    rows = rows[rows.groupby(["lr", "layer", "decay"])["predicted"].transform("min") < -0.5]
    name = "decay {decay:g}" if layers == 1 else "layer {layer}, decay {decay:g}"

    def by_rate(lr: float) -> Cases:
        of_descents = rows[rows["lr"] == lr].groupby(["layer", "decay", "seed"])
        return cases(of_descents.apply(_balancing, include_groups=False), by=["layer", "decay"], name=name)

    rates = sorted(rows["lr"].unique())
    return (by_rate(rates[0]), by_rate(rates[1])) if len(rates) > 1 else (Cases(()), Cases(()))


def _steps_halved(tables: Tables, layers: int) -> list[Found]:
    fine, coarse = _balancings(tables, layers)
    return fine.paired_ratios(coarse) or [ONE_RATE]


def _off_balancing(tables: Tables, layers: int) -> list[Found]:
    """Distance of the rate from the prediction, of the descents whose rate steps of half the length hardly change."""
    fine, coarse = _balancings(tables, layers)
    found: list[Found] = []
    for each, other in fine.beside(coarse):
        off = (each.values - 1).abs()
        change = (each.values / other.values.reindex(off.index) - 1).abs()
        told = "distances of all descents: " + ", ".join(f"{value:.2g}" for value in off)
        short = replace(each, values=off[change <= SHORT], told=told)
        if len(short.values):
            found += Cases((short,), fine.unit).means()
        else:
            found.append(not_measured(each.case, f"steps are too long; {told}"))
    halved = {each.case for each in fine}
    found += [not_measured(each.case, "no steps of half the length") for each in coarse if each.case not in halved]
    return found or [ONE_RATE]


def _layers_apart(tables: Tables) -> list[Found]:
    rows = _of(tables, 2).set_index(["optimizer", "seed", "step", "decay", "layer"])
    of_layers = rows["rank_query"].unstack()
    within, across = rows["rank_query"] - rows["rank_key"], of_layers[2] - of_layers[1]
    inside, between = (cases(each.abs(), by=["optimizer"], name="{optimizer}") for each in (within, across))
    return (inside / between).means()


FIGURES = {
    f"mirror-{figure}": Drawing(
        f"Ranks in {number} attention layer{'s' if layers > 1 else ''}",
        "Rank of the query and key weights (singular values above a hundredth of the largest) over each optimizer's "
        "share of its full-batch steps on regressions in context, a line for each weight decay; solid, Adam with "
        "coupled L2, dotted, gradient descent with L2. Means over seeds.",
        partial(_ranks_over_steps, layers=layers),
        seen="Query and key have ranks {together} apart while these fall.",
        differs="Gradient descent is not in the paper; the theory is exact for it and not for Adam.",
    )
    for figure, layers, number in ((9, 1, "one"), (10, 2, "two"))
}


_claim = partial(Claim, tables=(TABLE,), owner="paper", origin="ours")


def _claims_of(figure: int, layers: int, lower: str) -> dict[str, Claim]:
    def measured(of_seed: Callable[[pd.DataFrame], float]) -> Callable[[Tables], list[Found]]:
        return lambda tables: by_seed(tables, layers, of_seed).means()

    return {
        f"mirror-{figure}-decay": _claim(
            statement="The rank is lower when the weight decay is stronger",
            quantity="Spearman correlation of decay and final rank of query and key, mean over seeds",
            bound=below(0),
            origin="paper",
            reason=lower,
            measure=measured(_trend),
        ),
        f"mirror-{figure}-together": _claim(
            statement="The ranks of query and key mirror each other",
            quantity="mean |rank Q - rank K| over the moments and decays at which Q has not full rank, mean over seeds",
            bound=at_most(1),
            origin="pilot",
            reason="Another program's final ranks, of 21, were equal, or one apart; it is asked of all moments and of "
            "larger matrices too. Where both are full they cannot differ.",
            measure=measured(_closeness),
            why=partial(why_apart, layers=layers, ranks=True),
        ),
        f"mirror-{figure}-values": _claim(
            statement="Query and key come to have the same singular values",
            quantity="distance of their singular values, end over start, median over decays, mean over seeds",
            bound=below(0.5),
            owner="derived",
            reason="0 after long decay by gradient flow; Adam, the paper's, is asked too. Random weights start near "
            "each other. Half is our word for coming closer.",
            measure=measured(_closer),
            why=partial(why_apart, layers=layers, ranks=False),
        ),
        f"mirror-{figure}-balance": _claim(
            statement="Under gradient flow, query and key become balanced at the rate of the decay",
            quantity="distance from 1 of |QQᵀ - KKᵀ|'s rate of decay over 4γ by half as long steps, at each decay that "
            "has them, of descents of which these change the rate by at most a tenth, mean over seeds",
            bound=below(0.1),
            owner="derived",
            origin="derived",
            reason="The difference decays as exp(-4γt) under gradient flow; a tenth is left to finite steps, and a "
            "tenth is how much halving them may change it. Judged so since 28 November 2026, after values were seen: "
            "the median over decays, which hides some, was judged of steps of one length, short or not.",
            measure=partial(_off_balancing, layers=layers),
            why="Along gradient flow it is exact: steps of both lengths are too long here, though halving them hardly "
            "changes the rate.",
        ),
        f"mirror-{figure}-step": _claim(
            statement="Steps of gradient descent are short enough for the rate of balancing",
            quantity="|QQᵀ - KKᵀ|'s rate of decay by steps of half the length, as a multiple, at each decay",
            bound=between(1 - SHORT, 1 + SHORT),
            owner="ours",
            origin="pilot",
            reason="A tenth, as of the claim on the rate. Asked since 28 November 2026, after values were seen.",
            measure=partial(_steps_halved, layers=layers),
            why="Each step adds rate² (GGᵀ of query less that of key) to QQᵀ - KKᵀ, G being gradients; gradient flow "
            "adds nothing.",
        ),
    }


CLAIMS = {
    **_claims_of(9, 1, "Fig. 9 says lower, not by how much."),
    **_claims_of(10, 2, "App. B.6 says of both figures that ranks drop as decay increases, not by how much."),
    "mirror-10-layers": _claim(
        statement="Within a layer query and key track each other; the layers differ",
        quantity="mean |rank Q - rank K| within layers over mean |rank Q of layer 1 - of layer 2|, mean over seeds",
        bound=below(0.5),
        reason="Fig. 10: this similarity is lacking between different layers; half is our word for lacking.",
        measure=_layers_apart,
    ),
}
