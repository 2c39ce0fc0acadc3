"""Figures 9 and 10: ranks of query and key weights of one and two attention layers fall together with weight decay."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.settings import ADAM, DESCENT
from symlab.plotting.style import Axes, Figure, Look, Style, line_entry
from symlab.study.card import Drawing
from symlab.study.cases import Cases, cases
from symlab.study.claim import Claim, Found, Tables, at_most, below
from symlab.study.facets import Panel, assign_looks, draw_grid, labelled
from symlab.study.statistics import rank_correlation
from symlab.study.tables import need, some

TABLE = "mirror_attention.csv"
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


def _of(tables: Tables, layers: int) -> pd.DataFrame:
    lacking = f"The study trains no networks of {layers} layers; add {layers} to attention.layers."
    return some(need(tables, TABLE).query("layers == @layers"), lacking)


def by_seed(tables: Tables, layers: int, of_seed: Callable[[pd.DataFrame], float]) -> Cases:
    """For each optimizer and layer a number that a seed's rows give."""
    of_seeds = _of(tables, layers).groupby(["optimizer", "layer", "seed"], sort=False)
    name = "{optimizer}" if layers == 1 else "{optimizer}, layer {layer}"
    return cases(of_seeds.apply(of_seed, include_groups=False), by=["optimizer", "layer"], name=name)


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


def _off_balancing(rows: pd.DataFrame) -> float:
    """Distance from 1 of the median over decays of the rate at which |QQ^T - KK^T| falls over 2 wd.

    The prediction is exp(-2 wd t), t the rate times the steps, at the last moment at which it can be resolved.
    """
    ratios = []
    for decay, of in rows.groupby("decay"):
        path = of.set_index("time")["unbalance"].sort_index()
        # Single precision resolves the difference to a thousandth of its start.
        resolved = path[np.exp(-2 * float(decay) * path.index) > 1e-3]
        expected = 2 * float(decay) * resolved.index[-1]
        # What has hardly begun to decay tells no rate.
        if expected > 0.5:
            ratios.append(float(np.log(path.iloc[0] / resolved.iloc[-1])) / expected)
    return abs(float(np.median(ratios)) - 1) if ratios else np.nan


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
            reason="Another program's final ranks were equal, or one apart. Where both are full they cannot differ.",
            measure=measured(_closeness),
        ),
        f"mirror-{figure}-values": _claim(
            statement="Query and key come to have the same singular values",
            quantity="distance of their singular values, end over start, median over decays, mean over seeds",
            bound=below(0.5),
            owner="derived",
            reason="0 after long decay; random weights start near each other. Half is our word for coming closer.",
            measure=measured(_closer),
        ),
        f"mirror-{figure}-balance": _claim(
            statement="Under gradient descent, query and key become balanced at the rate of the decay",
            quantity="distance from 1 of |QQᵀ - KKᵀ|'s rate of decay over 4γ, median over decays, mean over seeds",
            bound=below(0.1),
            owner="derived",
            origin="derived",
            reason="The difference decays as exp(-4γt) under gradient flow; a tenth is left to finite steps.",
            measure=lambda tables: by_seed(tables, layers, _off_balancing).at(optimizer=DESCENT).means(),
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
