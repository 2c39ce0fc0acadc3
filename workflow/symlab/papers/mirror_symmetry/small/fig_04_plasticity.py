"""Figure 4: dead parameters of regressors, and of networks, that learn one task after the other; what they reach."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.small.plasticity import BIAS, DECAY, HADAMARD, KEPT, NOISE, SGD, SKIP, SYRE, VANILLA
from symlab.plotting.style import Axes, Figure, Look, Style
from symlab.study.card import Drawing
from symlab.study.cases import Cases, cases
from symlab.study.claim import Claim, Found, Tables, above, at_least, at_most
from symlab.study.facets import BARS, Panel, assign_looks, draw_grid, labelled
from symlab.study.statistics import rank_correlation
from symlab.study.tables import need, some

DEAD, LOSSES = "mirror_dead.csv", "mirror_plasticity.csv"
PAPER_NOISE = 1e-4
PAPER_TASKS = 10
NAMES = {
    HADAMARD: "Hadamard",
    KEPT: "Hadamard, one Adam for all",
    SGD: "Hadamard, SGD",
    DECAY: "with decay",
    BIAS: "with bias",
    SYRE: "with bias and decay",
    NOISE: "with noise",
    SKIP: "with skip",
    VANILLA: "vanilla",
}
"""How each variant is called, in the order in which they have their colours."""


def of_variant(rows: pd.DataFrame, variant: str) -> pd.DataFrame:
    """Rows of a variant: with the paper's noise (or the nearest), at SGD's largest rate."""
    rows = rows[rows["variant"] == variant]
    if variant == NOISE:
        least = (np.log(rows["noise"]) - np.log(PAPER_NOISE)).abs()
        return rows[least == least.min()]
    return rows.query("lr == lr.max()") if variant == SGD else rows


def dead_rows(tables: Tables, *variants: str) -> pd.DataFrame:
    """Share of dead parameters (gradients of at most 1e-6) on each arrival, of some variants or all, as ``share``."""
    rows = need(tables, DEAD)
    return pd.concat([of_variant(rows, name) for name in variants or NAMES]).eval("share = dead / parameters")


def on_last_arrival(tables: Tables, *variants: str, name: str = "{variant}") -> Cases:
    """The dead share on the last arrival, a case a variant, a unit a seed."""
    return cases(dead_rows(tables, *variants).query("task == task.max()"), "share", ["variant"], name=name)


def _dead_against_task(tables: Tables, style: Style) -> Figure:
    losses = need(tables, LOSSES)
    dead = dead_rows(tables)
    ended = pd.concat([of_variant(losses, name) for name in NAMES])
    looks = {name: replace(look, marker="") for name, look in assign_looks(list(NAMES.values()), style).items()}
    left, right = (rows.assign(label=rows["variant"].map(NAMES)) for rows in (dead, ended))
    last = left[left["task"] == left["task"].max()].groupby("label", sort=False)["share"].mean()
    axes = partial(labelled, "task", xticks=sorted(dead["task"].unique()))
    end, top = dead["task"].max(), float(left["share"].max())
    shares = axes("dead share on arrival", ylim=(-0.05 * top, 1.1 * top), xlim=(1, end * 1.75))
    names = partial(name_ends, ends=last, x=end, room=0.07 * top, looks=looks)
    first = Panel(left, "task", "share", shares, more=names)
    second = Panel(right, "task", "loss", axes("loss reached on the task", "y"), options=BARS)
    return draw_grid([[first, second]], looks, sharex=False, sharey=False, height=2.6)


def name_ends(axis: Axes, ends: pd.Series, x: float, room: float, looks: Mapping[str, Look]) -> None:
    """Write the names of lines at their ends, in the lines' colours, from the lowest up: no two nearer than room."""
    place = -np.inf
    for name, height in ends.sort_values().items():
        place, color = max(float(height), place + room), looks[str(name)].color
        axis.annotate(str(name), (x, place), (5, 0), textcoords="offset points", va="center", fontsize=6, color=color)


def _steady(tables: Tables) -> list[Found]:
    rows = dead_rows(tables, HADAMARD, KEPT)
    if rows["task"].nunique() < PAPER_TASKS:
        return [f"needs the paper's {PAPER_TASKS} tasks"]
    rho = rows.query("task > 1").groupby(["variant", "seed"], sort=False)[["task", "share"]].apply(_steadiness)
    return cases(rho, by=["variant"], name="{variant}").means()


def _steadiness(path: pd.DataFrame) -> float:
    # A share that never changes rises as little as it falls.
    return 0.0 if np.ptp(path["share"]) == 0 else rank_correlation(path["task"], path["share"])


def _more_than_vanilla(tables: Tables) -> list[Found]:
    products, vanilla = (on_last_arrival(tables, variant, name="").keyed() for variant in (HADAMARD, VANILLA))
    return (products - vanilla).means()


def containment(tables: Tables) -> list[Found]:
    """Which share of the dead parameters is dead a task later, over all tasks, a seed at a time."""
    names = {SGD: "SGD at {lr:g}", HADAMARD: "Adam"}
    runs = tables[DEAD][tables[DEAD]["variant"].isin(names)].groupby(["variant", "lr", "seed"])
    total = runs[["kept", "before"]].sum(skipna=False).query("before != 0").reset_index()
    by, name = ["variant", "lr"], lambda key: names[key["variant"]].format(**key)
    return cases(total, "kept / before", by, name=name).means() or ["none is dead before the last task"]


def _on_task(rows: pd.DataFrame, task: int, column: str) -> Cases:
    return cases(rows[rows["task"] == task], column, ["variant"], "seed", "{variant}")


def _loss_of_plasticity(tables: Tables, name: str, variants: Sequence[str]) -> list[Found]:
    rows = pd.concat([of_variant(tables[name], variant) for variant in variants])
    growth = (_on_task(rows, rows["task"].max(), "loss") / _on_task(rows, 1, "loss")).map(np.log10)
    return (growth.without(variant=VANILLA) - growth.at(variant=VANILLA).keyed()).means()


def _least_noise(tables: Tables) -> list[Found]:
    of = tables[DEAD].query("variant == @NOISE and task == task.max()")
    # The weakest noise comes first: from the least that suffices on, up to the paper's, all must.
    of = some(of.query("noise <= 1.01 * @PAPER_NOISE"), "needs a noise no stronger than the paper's")
    of = of.sort_values("noise", ascending=False)
    of = of.assign(few=(of["dead"] <= 0.01 * of["parameters"]) & of["dead"].notna(), log=np.log10(of["noise"]))
    least = of.groupby("seed").apply(lambda rows: rows["log"][rows["few"].cummin()].min(), include_groups=False)
    unknown = of.groupby("seed")["dead"].apply(lambda dead: dead.isna().any())
    least = least.fillna(np.inf).where(~unknown)
    return cases(least).means()


LABELLINGS = "mirror_network_tasks.csv"


def _learned_and_dead(tables: Tables, style: Style) -> Figure:
    rows = need(tables, LABELLINGS).assign(label=lambda of: of["variant"].map(NAMES))
    looks = assign_looks(list(dict.fromkeys(rows["label"])), style)
    shown = {"accuracy": "accuracy on the task", "dead": "dead share on arrival"}
    grid = [[Panel(rows, "task", y, labelled("task", name)) for y, name in shown.items()]]
    return draw_grid(grid, looks, sharey=False)


def against_vanilla(tables: Tables, column: str, variants: Sequence[str]) -> list[Found]:
    """What a column has of the last task less vanilla's, of some variants of networks, a seed at a time."""
    last = _on_task(tables[LABELLINGS], tables[LABELLINGS]["task"].max(), column)
    return (last.where(lambda of: of.case.key["variant"] in variants) - last.at(variant=VANILLA).keyed()).means()


def why_less_lost(tables: Tables) -> Iterator[tuple[str, str]]:
    """Whether the loss grows less where fewer are dead, over networks of all variants, and fewer products are."""
    rows = tables[LABELLINGS].set_index(["variant", "seed"])
    first, last = (rows[rows["task"] == task] for task in (1, rows["task"].max()))
    both = last.assign(grown=last["loss"] / first["loss"]).dropna(subset=["dead", "grown"])
    dead, rho = last["dead"].groupby(level=0).mean(), rank_correlation(both["dead"], both["grown"])
    # Surely above 0, at 95 %: without any correlation rho has a deviation of 1 / sqrt(n - 1).
    less = rho * np.sqrt(len(both) - 1) > 1.64
    known = "Fewer are dead" if less and dead[HADAMARD] < dead[VANILLA] else "Not known"
    of = f"{dead[HADAMARD]:.2g} of products and {dead[VANILLA]:.2g} of plain parameters"
    told = f"the loss grows {'less' if less else 'no less'} where fewer are dead (rank correlation {rho:.2g}"
    yield "", f"{known}, {of}: {told}, {len(both)} networks of all variants)."


FIGURES = {
    "mirror-4": Drawing(
        "Dead parameters over tasks",
        "Left, share of parameters whose gradient on a newly arrived task is at most 1e-6, before any step on it; "
        "right, the mean squared error that each task ends with. Adam without momentum, a new one for each task unless "
        "said; Hadamard is θ = u ∘ w, the skip θ = u ∘ w + v, of which u and w may be dead while v is not. Means over "
        "seeds with their standard deviation.",
        _dead_against_task,
        seen="The least noise that leaves at most a hundredth dead has variance {least-noise:^}; the paper's 1e-4.",
        differs="The paper draws counts of the first panel for vanilla, Hadamard, noise and bias.",
    ),
    "mirror-tasks": Drawing(
        "Networks on one labelling after the other",
        "Networks of one hidden layer of relu on images whose classes are permuted anew for each task: accuracy on a "
        "task's images at its end, and the share of parameters whose gradient is at most 1e-6 when a task arrives. "
        "Hadamard is θ = u ∘ w for every parameter, the skip θ = u ∘ w + v, of which u and w may be dead while v is "
        "not. Mean and standard deviation over seeds.",
        _learned_and_dead,
        seen="When the last task arrives {dead:%} more of the products are dead than of plain parameters.",
        differs="Not in the paper, whose Figure 4 is of a linear regressor.",
    ),
}
_claim = partial(Claim, tables=(DEAD, LOSSES), owner="paper", origin="paper")
_dead = partial(_claim, quantity="share dead when the last task arrives, mean over seeds", bound=at_most(0.01))
_of_labellings = partial(Claim, tables=(LABELLINGS,), owner="derived", origin="ours")
CLAIMS = {
    "mirror-4-symmetry": _claim(
        statement="With rescaling symmetry, parameters die; without it they do not",
        quantity="share dead when the last task arrives, Hadamard minus vanilla, mean over seeds",
        bound=above(0),
        reason="Fig. 4: having symmetries leads to the loss of plasticity.",
        measure=_more_than_vanilla,
    ),
    "mirror-4-steady": _claim(
        statement="The number of dead parameters increases steadily from task to task",
        quantity="Spearman correlation of task and dead share from the second task on, mean over seeds",
        bound=above(0),
        reason="App. B.3: it increases steadily with more and more tasks; the first arrives at random weights.",
        measure=_steady,
        why="Adam's steps shrink with a gradient only from about 1e-8 on, so that what is nearly dead comes back.",
    ),
    "mirror-4-noise": _dead(
        statement="A weak noise on the gradients keeps parameters from dying",
        origin="pilot",
        reason="App. B.3: the same level as vanilla, which was 0 of 100 in another program, as was this.",
        measure=lambda tables: on_last_arrival(tables, NOISE).means(),
    ),
    "mirror-4-least-noise": _claim(
        statement="A weaker noise than the paper's does it too",
        quantity="log10 of the least variance that leaves at most a hundredth dead, mean over seeds",
        bound=at_most(-5),
        owner="ours",
        origin="ours",
        reason="A tenth of the paper's variance, 1e-4, which is the only one it tries.",
        measure=_least_noise,
    ),
    "mirror-4-bias": _dead(
        statement="A fixed bias of every weight keeps parameters from dying",
        origin="ours",
        reason="App. B.3: it also fixes the loss of plasticity; at most a hundredth is our word for fixes.",
        measure=lambda tables: on_last_arrival(tables, BIAS).means(),
        why="A bias moves the mirror and keeps it: without decay, training (w + b)(u + b') is training u w from "
        "another start, in which the absorbing point is still there.",
    ),
    "mirror-4-bias-and-decay": _dead(
        statement="A fixed bias keeps parameters from dying where there is weight decay",
        owner="ours",
        origin="pilot",
        reason="Decay breaks the mirror that a bias only moves; another program had none dead, without bias 10 of 200.",
        measure=lambda tables: on_last_arrival(tables, SYRE).means(),
    ),
    "mirror-4-contained": _claim(
        statement="What is dead stays dead: capacity can only decrease",
        quantity="share of dead parameters that are dead when the next task arrives, mean over seeds",
        bound=at_least(0.99),
        origin="ours",
        reason="Sec. 3.4 says only; a hundredth is left to gradients that pass near 0.",
        measure=containment,
        why="Exactly dead is for ever, nearly dead is not: beside u = w = 0 a factor of 1e-6 can grow back within "
        "a task whose mean gradient outweighs its noise.",
    ),
    "mirror-4-loss": _claim(
        statement="Regressors with symmetry reach a higher loss on later tasks, compared with vanilla",
        quantity="log10 of the loss reached on the last task over that on the first, minus vanilla's, mean over seeds",
        bound=above(0),
        owner="derived",
        reason="Loss of plasticity is to learn new tasks less well; Fig. 4 shows counts alone.",
        measure=partial(_loss_of_plasticity, name=LOSSES, variants=(VANILLA, HADAMARD, KEPT, BIAS, SGD)),
    ),
    "mirror-tasks-loss": _of_labellings(
        statement="Networks of products reach a higher loss on later tasks, compared with vanilla ones",
        quantity="log10 of the loss reached on the last task over that on the first, minus vanilla's, mean over seeds",
        bound=above(0),
        reason="The paper says it of symmetries in general and shows a linear regressor.",
        measure=partial(_loss_of_plasticity, name=LABELLINGS, variants=(VANILLA, HADAMARD)),
        why=why_less_lost,
    ),
    "mirror-tasks-dead": _of_labellings(
        statement="More parameters of networks of products are dead when the last task arrives",
        quantity="share dead when the last task arrives, products minus vanilla, mean over seeds",
        bound=above(0),
        reason="As in Figure 4; of vanilla networks those of constant pixels and of dead neurons are.",
        measure=partial(against_vanilla, column="dead", variants=(HADAMARD,)),
    ),
    "mirror-tasks-remedies": _of_labellings(
        statement="Noise, a bias, decay, both, and a skip keep networks of products as able to learn as vanilla ones",
        quantity="accuracy on the last task less that of vanilla networks, mean over seeds",
        bound=at_least(-0.02),
        owner="ours",
        reason="Two hundredths are our word for as able; the paper says it of noise and of a bias.",
        measure=partial(against_vanilla, column="accuracy", variants=(NOISE, BIAS, DECAY, SYRE, SKIP)),
    ),
}
