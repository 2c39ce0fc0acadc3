"""Figure 4: dead parameters of regressors that learn one task after the other, and the loss that they still reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.plasticity import (
    BIAS,
    DECAY,
    HADAMARD,
    KEPT,
    NOISE,
    SGD,
    SKIP,
    SYRE,
    VANILLA,
)
from symlab.plotting.style import PAGE, Style, legend, line_entry, palette, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, above, at_least, at_most, mean_of
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEAD, LOSSES = "mirror_dead.csv", "mirror_plasticity.csv"
THRESHOLD = 1e-6
PAPER_NOISE = 1e-4
LOOKS: dict[str, tuple[int, str]] = {
    VANILLA: (7, "--"),
    HADAMARD: (3, "-"),
    KEPT: (3, ":"),
    NOISE: (0, "-"),
    BIAS: (1, "-"),
    DECAY: (4, "-"),
    SYRE: (4, "--"),
    SKIP: (2, "-"),
    SGD: (5, "-"),
}
"""Of each variant the place of its colour in the palette, and its line."""
NAMES = {KEPT: "Hadamard, one Adam for all", NOISE: "with noise", BIAS: "with bias", DECAY: "with decay"}
NAMES |= {SYRE: "with bias and decay", SKIP: "with skip", SGD: "Hadamard, SGD"}


def of_variant(rows: pd.DataFrame, variant: str) -> pd.DataFrame:
    """Rows of a variant: with the paper's noise (or the nearest), at SGD's largest rate."""
    rows = rows[rows["variant"] == variant]
    if variant == NOISE:
        least = (np.log(rows["noise"]) - np.log(PAPER_NOISE)).abs()
        return rows[least == least.min()]
    return rows[rows["lr"] == rows["lr"].max()] if variant == SGD else rows


def shares(tables: Tables, variant: str) -> pd.DataFrame:
    """Share of dead parameters (gradients of at most 1e-6) on arrival [seed, task]."""
    rows = of_variant(tables[DEAD], variant)
    rows = rows[rows["threshold"] == THRESHOLD]
    return rows.assign(share=rows["dead"] / rows["parameters"]).pivot(index="seed", columns="task", values="share")


def dead_against_task(tables: Tables, style: Style) -> Figure:
    """Dead share over tasks, the loss that each task ends with, and the last dead share over the noise's variance."""
    need(tables, DEAD)
    losses = need(tables, LOSSES)
    colors = palette(style)
    figure, axes = panels(1, 3, PAGE, 2.8, sharex=False, sharey=False)
    left, middle, right = axes[0]
    for variant, (place, line) in LOOKS.items():
        look = {"color": colors[place], "linestyle": line, "markersize": 2.5}
        mean = shares(tables, variant).mean()
        left.plot(mean.index, mean, marker="o", **look)
        reached = of_variant(losses, variant).groupby("task")["loss"].mean()
        middle.plot(reached.index, reached, marker="o", **look)
    left.set(xlabel="task", ylabel="dead share on arrival", ylim=(-0.02, 1.02))
    middle.set(xlabel="task", ylabel="loss reached on the task", yscale="log")
    middle.yaxis.set_minor_formatter("")
    rows = tables[DEAD]
    last = rows[(rows["task"] == rows["task"].max()) & (rows["variant"] == NOISE)]
    for threshold, marker in zip(sorted(last["threshold"].unique(), reverse=True), "svo^", strict=False):
        of = last[last["threshold"] == threshold]
        mean = (of["dead"] / of["parameters"]).groupby(of["noise"]).mean()
        shade = "0.6" if threshold != THRESHOLD else colors[0]
        right.plot(mean.index, mean, color=shade, marker=marker, markersize=3, label=f"{threshold:g}")
    right.axhline(shares(tables, HADAMARD).iloc[:, -1].mean(), color=colors[3], linewidth=0.8)
    right.set(xscale="log", xlabel="variance of the noise", ylabel="dead share, last task", ylim=(-0.02, 1.02))
    right.legend(title="gradient at most", loc="upper right")
    entries = [
        line_entry(NAMES.get(variant, variant), color=colors[place], linestyle=line)
        for variant, (place, line) in LOOKS.items()
    ]
    legend(figure, entries, "")
    return figure


def steadiness(tables: Tables) -> list[Found]:
    """Spearman correlation of task and dead share from the second task on, a seed at a time."""
    found: list[Found] = []
    for variant in (HADAMARD, KEPT):
        of = shares(tables, variant).loc[:, 2:]
        if of.shape[1] < 3:
            return ["fewer than three tasks arrive at trained regressors"]
        # A share that never changes rises as little as it falls.
        rho = of.T.corrwith(pd.Series(of.columns, of.columns, dtype=float), method="spearman").fillna(0)
        found.append(mean_of(rho.to_numpy(), variant, unit="seeds"))
    return found


def more_than_vanilla(tables: Tables) -> list[Found]:
    """Dead share on the last arrival, Hadamard minus vanilla, a seed at a time."""
    last = shares(tables, HADAMARD).iloc[:, -1] - shares(tables, VANILLA).iloc[:, -1]
    return [mean_of(last.to_numpy(), unit="seeds")]


def last_share(*variants: str) -> Callable[[Tables], list[Found]]:
    """The dead share of some variants on the last arrival."""

    def measure(tables: Tables) -> list[Found]:
        return [mean_of(shares(tables, name).iloc[:, -1].to_numpy(), name, unit="seeds") for name in variants]

    return measure


def containment(tables: Tables) -> list[Found]:
    """Which share of the dead parameters is dead a task later, over all tasks, a seed at a time."""
    found: list[Found] = []
    rows = tables[DEAD]
    rows = rows[(rows["threshold"] == THRESHOLD) & rows["variant"].isin([HADAMARD, SGD])]
    for (variant, lr), of in rows.groupby(["variant", "lr"]):
        total = of.groupby("seed")[["kept", "before"]].sum()
        case = f"SGD at {lr:g}" if variant == SGD else "Adam"
        some = total[total["before"] > 0]
        if some.empty:
            found.append(f"{case}: none is dead before the last task")
        else:
            detail = f"{total['before'].sum():,} dead parameters in all"
            found.append(mean_of((some["kept"] / some["before"]).to_numpy(), case, detail, unit="seeds"))
    return found


def loss_of_plasticity(tables: Tables) -> list[Found]:
    """log10 of the loss reached on the last task over that on the first, minus vanilla's, a seed at a time."""
    growth = {}
    for variant in (VANILLA, HADAMARD, KEPT, BIAS, SGD):
        of = of_variant(tables[LOSSES], variant).pivot(index="seed", columns="task", values="loss")
        growth[variant] = np.log10(of.iloc[:, -1] / of.iloc[:, 0])
    return [
        mean_of((of - growth[VANILLA]).to_numpy(), name, unit="seeds") for name, of in growth.items() if name != VANILLA
    ]


def skip_coordinates(tables: Tables) -> list[Found]:
    """The share of dead coordinates of theta = u * w + v on the last arrival."""
    rows = of_variant(tables[DEAD], SKIP)
    rows = rows[(rows["threshold"] == THRESHOLD) & (rows["task"] == rows["task"].max())]
    each = (3 * rows["dead_coordinates"] / rows["parameters"]).to_numpy()
    among = (rows["dead"] / rows["parameters"]).mean()
    return [mean_of(each, detail=f"of single parameters {among:.3g} are dead", unit="seeds")]


def least_noise(tables: Tables) -> list[Found]:
    """log10 of the least variance from which on at most a hundredth is dead on the last arrival, a seed at a time."""
    rows = tables[DEAD]
    of = rows[(rows["variant"] == NOISE) & (rows["threshold"] == THRESHOLD) & (rows["task"] == rows["task"].max())]
    # The weakest noise comes first: from the least that suffices on, up to the paper's, all must.
    of = of[of["noise"] <= PAPER_NOISE * 1.01].assign(few=of["dead"] <= 0.01 * of["parameters"])
    table = of.pivot(index="seed", columns="noise", values="few").iloc[:, ::-1].cummin(axis=1)
    least = [float(np.log10(row.index[row][-1])) if row.any() else np.inf for _, row in table.iterrows()]
    return [mean_of(np.array(least), unit="seeds")]


def _see(tables: Tables) -> str:
    last = {name: shares(tables, name).iloc[:, -1].mean() for name in LOOKS}
    told = ", ".join(f"{NAMES.get(name, name)} {100 * share:.2g} %" for name, share in last.items())
    return f"Dead when the last task arrives: {told}."


FIGURES = (
    Drawing(
        "mirror-4",
        "Dead parameters over tasks",
        "Left, share of parameters whose gradient on a newly arrived task is at most 1e-6, before any step on it; "
        "middle, the mean squared error that each task ends with; right, the share on arrival of the last task "
        "against the variance of the noise added to gradients, by what counts as dead (the line: without noise). Adam "
        "without momentum, a new one for each task unless said; Hadamard is θ = u ∘ w, the skip θ = u ∘ w + v. Means "
        "over seeds.",
        dead_against_task,
        seen=_see,
        differs="The paper draws counts of the first panel for vanilla, Hadamard, noise and bias.",
    ),
)
_ALL = (DEAD, LOSSES)
CLAIMS = (
    Claim(
        id="mirror-4-symmetry",
        statement="With rescaling symmetry, parameters die; without it they do not",
        quantity="share dead when the last task arrives, Hadamard minus vanilla, mean over seeds",
        bound=above(0),
        owner="paper",
        origin="paper",
        reason="Fig. 4: having symmetries leads to the loss of plasticity.",
        tables=_ALL,
        measure=more_than_vanilla,
    ),
    Claim(
        id="mirror-4-steady",
        statement="The number of dead parameters increases steadily from task to task",
        quantity="Spearman correlation of task and dead share from the second task on, mean over seeds",
        bound=above(0),
        owner="paper",
        origin="paper",
        reason="App. B.3: it increases steadily as one trains on more and more tasks. The first task arrives at random "
        "weights and is left out.",
        tables=_ALL,
        measure=steadiness,
        why={
            "": "Adam's steps shrink with a gradient only from about 1e-8 on, so that what is nearly dead comes back. "
            "With a tenth of the paper's steps (2,500 a task) more comes back than dies exactly."
        },
    ),
    Claim(
        id="mirror-4-noise",
        statement="A weak noise on the gradients keeps parameters from dying",
        quantity="share dead when the last task arrives, mean over seeds",
        bound=at_most(0.01),
        owner="paper",
        origin="pilot",
        reason="App. B.3: the same level as vanilla, which was 0 of 100 in another program, as was this.",
        tables=_ALL,
        measure=last_share(NOISE),
    ),
    Claim(
        id="mirror-4-least-noise",
        statement="A weaker noise than the paper's does it too",
        quantity="log10 of the least variance that leaves at most a hundredth dead, mean over seeds",
        bound=at_most(-5),
        owner="ours",
        origin="ours",
        reason="A tenth of the paper's variance, 1e-4, which is the only one it tries.",
        tables=_ALL,
        measure=least_noise,
    ),
    Claim(
        id="mirror-4-bias",
        statement="A fixed bias of every weight keeps parameters from dying",
        quantity="share dead when the last task arrives, mean over seeds",
        bound=at_most(0.01),
        owner="paper",
        origin="paper",
        reason="App. B.3: it also fixes the loss of plasticity; at most a hundredth is our word for fixes.",
        tables=_ALL,
        measure=last_share(BIAS),
        why={
            "": "A bias moves the mirror and keeps it: without decay, training (w + b)(u + b') is training u w from "
            "another start, from which 44 % die after 25,000 steps on each of nine tasks (47 % without bias). With the "
            "bias in the sum more die because near the moved zero w + b is rounded to some 1e-18, so that it is "
            "reached exactly, where w alone is rounded to 1e-320."
        },
    ),
    Claim(
        id="mirror-4-bias-and-decay",
        statement="A fixed bias keeps parameters from dying where there is weight decay",
        quantity="share dead when the last task arrives, mean over seeds",
        bound=at_most(0.01),
        owner="ours",
        origin="pilot",
        reason="Decay breaks the mirror that a bias only moves; another program had none dead, without bias 10 of 200.",
        tables=_ALL,
        measure=last_share(SYRE),
    ),
    Claim(
        id="mirror-4-contained",
        statement="What is dead stays dead: capacity can only decrease",
        quantity="share of dead parameters that are dead when the next task arrives, mean over seeds",
        bound=at_least(0.99),
        owner="paper",
        origin="ours",
        reason="Sec. 3.4 says only; a hundredth is left to gradients that pass near 0.",
        tables=_ALL,
        measure=containment,
        why={
            "": "Exactly dead is for ever, nearly dead is not: beside u = w = 0 a factor of 1e-6 can grow back within "
            "a task whose mean gradient outweighs its noise. At 25,000 steps a task, of gradients of exactly 0 all "
            "stay so under Adam (346 of 346), and 108 of 162 under SGD, where they are products too small for a number."
        },
    ),
    Claim(
        id="mirror-4-loss",
        statement="Regressors with symmetry reach a higher loss on later tasks, compared with vanilla",
        quantity="log10 of the loss reached on the last task over that on the first, minus vanilla's, mean over seeds",
        bound=above(0),
        owner="derived",
        origin="paper",
        reason="Loss of plasticity is to learn new tasks less well; Fig. 4 shows counts alone.",
        tables=_ALL,
        measure=loss_of_plasticity,
    ),
    Claim(
        id="mirror-4-skip",
        statement="A linear skip leaves no coordinate dead, without any decay or noise",
        quantity="share of coordinates all of whose parameters are dead when the last task arrives, mean over seeds",
        bound=at_most(0.01),
        owner="ours",
        origin="derived",
        reason="The coefficient moves with v wherever u and w are.",
        tables=_ALL,
        measure=skip_coordinates,
    ),
)
