"""Figure 8 and Sec. 2.6: factors with decay against the convex problems behind them, and against others in networks."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.settings import DRAWN, EQUAL, FACTORS, FISTA, ISTA, LABELS, PROXIMAL, PRUNED, UNEQUAL
from symlab.plotting.style import Axes, Figure, Look, Style, ordered_colors, palette
from symlab.study.card import Drawing
from symlab.study.cases import Cases, cases, cases_of
from symlab.study.claim import Claim, Found, Tables, at_least, at_most, below
from symlab.study.facets import BARS, Panel, assign_looks, draw_grid, draw_rows, facets, labelled
from symlab.study.tables import need

RANKS = "mirror_factors.csv"


def _rank_against_decay(tables: Tables, style: Style) -> Figure:
    rows = need(tables, RANKS)
    blue, orange = palette(style, 2)
    looks = {
        "nuclear-norm minimum": Look(orange, "", "o", "white"),
        "number of σ(AS) > γ": Look((0.3, 0.3, 0.3), "", "_"),
        "gradient descent": Look(blue, "-", "."),
    }
    steps = sorted(rows["step"].unique())
    moments = {f"step {step:,}": color for step, color in zip(steps, ordered_colors(len(steps)), strict=True)}
    smallest = rows.loc[rows["gamma"] > 0, "gamma"].min()
    axes = partial(labelled, "weight decay γ", "rank of WU", xticks=[0, 0.01, 0.1, 1])

    def of_labels(labels: str) -> Panel:
        last = rows[(rows["labels"] == labels) & (rows["step"] == rows["step"].max())]
        columns = dict(zip(("convex", "above", "rank"), looks, strict=False))
        means = last.groupby("gamma")[list(columns)].mean().rename(columns=columns)
        shown = means.melt(var_name="label", value_name="rank", ignore_index=False).reset_index()
        return Panel(shown, "gamma", "rank", axes(title=labels), _draw, more=scale)

    def scale(axis: Axes) -> None:
        axis.set_xscale("symlog", linthresh=smallest, linscale=0.3)

    first = rows[rows["labels"] == LABELS[0]]
    means = first.groupby(["step", "gamma"])[["zero_rank", "above", "above_band"]].mean().reset_index()
    means["label"] = means["step"].map("step {:,}".format)

    def bands(axis: Axes) -> None:
        scale(axis)
        for name, color in moments.items():
            of = means[means["label"] == name]
            axis.fill_between(of["gamma"], of["above"], of["above_band"], color=color, alpha=0.15, linewidth=0)

    title = f"{LABELS[0]}, still above 1e-6"
    falling = Panel(means, "gamma", "zero_rank", axes(title=title), draw_rows, {"join": True}, bands)
    looks |= {name: Look(color, "-", ".") for name, color in moments.items()}
    return draw_grid([[*map(of_labels, rows["labels"].unique()), falling]], looks, height=1.9)


def _draw(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str) -> None:
    """Rings around marks, and bars across them, so that what coincides is seen."""
    size = {"_": 9, "o": 6, ".": 3}[look.marker]
    draw_rows(axis, rows, x, y, look, label, join=look.linestyle == "-", markersize=size)


def of_seeds(rows: pd.DataFrame, value: str, several: Literal["mean", "max"] = "max") -> Cases:
    """For each kind of labels and seed the largest or mean value (of the gammas and moments in it)."""
    order = rows["labels"].map(list(LABELS).index)
    return cases(rows.iloc[order.argsort(kind="stable")], value, ["labels"], name="{labels}", several=several)


def _last(tables: Tables) -> pd.DataFrame:
    return tables[RANKS].query("step == step.max()").sort_values(["labels", "seed", "gamma"])


def rises(tables: Tables) -> list[Found]:
    """By how much the rank rises at most from one gamma to the next, in any seed."""
    rows = _last(tables)
    later = rows.assign(rise=rows.groupby(["labels", "seed"])["rank"].diff())[rows.duplicated(["labels", "seed"])]
    return of_seeds(later, "rise").of_all(np.max)


def falls(tables: Tables) -> list[Found]:
    """Which share of the full rank is lost from the least gamma to the largest."""
    rows = _last(tables)
    lost = rows.groupby(["labels", "seed"])["rank"].transform(lambda of: of.iloc[0] - of.iloc[-1])
    return of_seeds(rows.assign(lost=lost), "lost / d").means()


def _outside_band(tables: Tables) -> list[Found]:
    rows = tables[RANKS]
    out = (rows["above"] - rows["zero_rank"]).combine(rows["zero_rank"] - rows["above_band"], np.maximum)
    return of_seeds(rows.assign(out=out.clip(lower=0)), "out").means()


COURSE = "mirror_solvers.csv"
CLOSE = 1e-4
RUNS: dict[tuple[str, str], tuple[int, Any, str]] = {
    (FACTORS, UNEQUAL): (0, "-", "factors"),
    (FACTORS, DRAWN): (0, ":", "factors, both random"),
    (FACTORS, EQUAL): (3, "--", "factors, on mirrors"),
    (ISTA, UNEQUAL): (1, "-", "ISTA"),
    (FISTA, UNEQUAL): (2, "-", "FISTA"),
}
"""Of each method and start the place of its colour in the palette, its line and its name."""


def _gap_against_steps(tables: Tables, style: Style) -> Figure:
    rows = need(tables, COURSE)
    strengths = sorted(rows["strength"].unique())
    rows = rows[rows["strength"] == strengths[len(strengths) // 2]]
    # Earlier tables have subgradients too.
    names = [RUNS.get(key, (0, "", ""))[2] for key in zip(rows["method"], rows["start"], strict=True)]
    rows = rows.assign(label=names, log=np.log(rows["gap"].clip(lower=1e-14))).query("label != '' and step > 0")
    means = rows.groupby(["problem", "label", "step"], sort=False)["log"].mean().map(np.exp).rename("gap").reset_index()
    looks = {name: Look(palette(style)[place], line, "") for place, line, name in RUNS.values()}
    axes = labelled("step", "objective above the minimum", "xy")
    return facets(
        means, "step", "gap", looks, column="problem", title=lambda name: name.split(" of ")[0], axes=axes,
        draw=draw_rows, options={"join": True}, more=lambda axis, _: axis.axhline(CLOSE, color="0.7", linewidth=0.6),
    )  # fmt: skip


def _gap_of_factors(tables: Tables, part: float) -> Cases:
    """Gaps of the factors, by problem, after that part of the steps or the next measured before."""
    rows = tables[COURSE].query("method == @FACTORS and start == @UNEQUAL")
    rows = rows[rows["step"] == rows.loc[rows["step"] <= part * rows["step"].max(), "step"].max()]
    return cases(rows, "gap", ["problem"], ["seed", "strength"], "{problem}")


def left_of_gap(tables: Tables) -> list[Found]:
    """The gap at the end over that after half of the steps, the largest over a seed's strengths."""
    end, before = (_gap_of_factors(tables, part) for part in (1, 0.5))
    left = end / before.map(lambda gap: gap.clip(lower=0) + 1e-9)  # Gaps far below it fall no more.
    return left.map(lambda of: of.groupby(level="seed").max()).means()


def steps_to_gap(rows: pd.DataFrame) -> pd.Series:
    """log10 of the first measured step with a gap of at most 1e-4, infinite where there is none."""
    first = rows["step"].where(rows["gap"] <= CLOSE, np.inf).where(rows["gap"].notna())
    keys = [rows["problem"], rows["seed"], rows["strength"]]
    return first.groupby(keys, sort=False).agg(lambda steps: np.nan if steps.isna().any() else np.log10(steps.min()))


def _slower_than_ista(tables: Tables) -> list[Found]:
    rows = tables[COURSE].query("start == @UNEQUAL and step > 0")
    factors, ista = (
        cases(steps_to_gap(rows[rows["method"] == name]), by=["problem"], unit=["strength", "seed"], name="{problem}")
        for name in (FACTORS, ISTA)
    )
    # The strengths of a seed share its draw: each seed counts once.
    return (factors - ista).map(lambda log: log.groupby(level="seed").mean()).means()


SPARSE = "mirror_sparse.csv"
JUDGED = 0.9
"""The share at which methods are compared."""
_REPEATED, _REPEATED_NAME = ("structure", "method", "strength"), "{structure}, {method}, {strength:g}"


def at_best_strength(tables: Tables) -> pd.DataFrame:
    """Of each method and share the run that is best on training samples; pruning has the strength of its share."""
    rows = need(tables, SPARSE).query("method != @PRUNED or strength == share")
    rows = rows.sort_values("train", ascending=False, kind="stable", na_position="first")
    cell = ["structure", "seed", "method", "share", *rows.columns.intersection(["repeat"])]
    return rows.drop_duplicates(cell).sort_values(cell)


def _accuracy_against_share(tables: Tables, style: Style) -> Figure:
    rows = at_best_strength(tables)
    rows = rows.assign(label=rows["method"], zero=100 * rows["share"])
    looks = assign_looks([FACTORS, PROXIMAL, PRUNED], style)
    axes = labelled("set to 0 in %", "test accuracy in %")
    n = rows["structure"].nunique()
    most = n if n <= 4 else -(-n // 2)
    return facets(rows, "zero", "test", looks, column="structure", axes=axes, options=BARS, most=most, sharey=False)


def _better_than(tables: Tables, method: str) -> list[Found]:
    rows = at_best_strength(tables).query("share == @JUDGED")
    accuracies = cases(rows, "test", ["structure", "method"], "seed", "{structure}")
    factors, other = (accuracies.at(method=each).keyed("structure") for each in (FACTORS, method))
    return (factors - other).means() or [f"needs {JUDGED} among the shares"]


def _whole_and_cut(tables: Tables) -> pd.DataFrame:
    """The runs with the accuracy of the ``whole`` network, nothing set to 0, and what the ``cut`` to a tenth costs."""
    rows = need(tables, SPARSE)
    key = ["structure", "method", "strength", "seed", *rows.columns.intersection(["repeat"])]
    whole = rows[rows["share"] == 0].set_index(key)["test"].rename("whole")
    return rows[rows["share"] == JUDGED].join(whole, key, how="inner").eval("cut = whole - test")


def why_behind(tables: Tables, method: str) -> Iterator[tuple[str, str]]:
    """What the cut costs factors with proximal SGD's best penalty; or that the latter is behind pruning too."""
    best = at_best_strength(tables).query("share == @JUDGED")
    penalty = best.query("method == @PROXIMAL")[["structure", "seed", "strength"]].drop_duplicates()
    means = best.groupby(["structure", "method"])["test"].mean()
    for structure, of in _whole_and_cut(tables).eval("gone = 100 * vanished").merge(penalty).groupby("structure"):
        mean = of.groupby("method").mean(numeric_only=True).round(1) + 0.0  # Without -0.0.
        own, other = mean.loc[FACTORS], mean.loc[PROXIMAL]
        cut = (
            f"With proximal SGD's best penalty {own['whole']:.1f} % are right by factors, nothing set to 0, and "
            f"{other['whole']:.1f} % by proximal SGD; {own['gone']:.0f} and {other['gone']:.0f} % have vanished, and "
            f"to set nine tenths to 0 costs {own['cut']:.1f} and {other['cut']:.1f} points."
        )
        if method == PROXIMAL:
            yield str(structure), cut
            continue
        behind, by_factors = (means[structure, PRUNED] - means[structure, each] for each in (PROXIMAL, FACTORS))
        told = f"Proximal SGD of the same penalty is {behind:.1f} points behind pruning, factors are {by_factors:.1f}"
        most = behind > by_factors / 2
        yield str(structure), f"{told}: most is the penalty's." if most else f"{told}: the penalty is not why. {cut}"


def why_apart(tables: Tables) -> Iterator[tuple[str, str]]:
    """Whether repeated runs differ before anything is set to 0, beside those of two seeds, or by the cut."""
    for case, of in cases_of(_whole_and_cut(tables), _REPEATED, _REPEATED_NAME):
        whole, mean = of.pivot(index="seed", columns="repeat", values="whole").to_numpy(), of.mean(numeric_only=True)
        apart, seeds = np.ptp(whole, axis=1), np.abs(np.subtract.outer(whole[:, 0], whole[:, 0]))
        two = seeds[~np.eye(len(seeds), dtype=bool)].mean()
        told = f"before anything is set to 0 runs differ by {apart.max():.2g} points at most"
        training = f"in the mean of {len(apart)} seeds by {apart.mean():.2g}, and those of two seeds by {two:.2g}"
        cut = (
            f"{100 * mean['vanished']:.0f} % have vanished, and setting nine tenths to 0 costs {mean['cut']:.0f} points"
        )
        yield case, f"Training: {told}, {training}." if apart.max() > 1 else f"The cut: {told}; {cut}."


def repeated(tables: Tables) -> list[Found]:
    """By how much runs that begin one rounding apart differ at the end, at each strength, in the worst of the seeds."""
    rows = tables[SPARSE].query("share == @JUDGED and (method != @PRUNED or strength == @JUDGED)")
    if "repeat" not in rows or rows["repeat"].nunique() < 2:
        return ["needs sparse_networks with repeats of 2 or more"]
    runs = rows.groupby([*_REPEATED, "seed"], sort=False)["test"]
    apart = runs.max(skipna=False) - runs.min(skipna=False)
    return cases(apart, by=_REPEATED, name=_REPEATED_NAME).of_all(np.max)


FIGURES = {
    "mirror-8": Drawing(
        "Rank of two linear layers with weight decay",
        "Left and middle, rank of WU (singular values above 0.001 of the largest) after full-batch gradient descent "
        "on the mean of |WUx - y|² + γ(|W|² + |U|²), that of the minimiser over M = WU, which is convex with a nuclear "
        "norm (rings), and the number of directions that grow from 0 (bars). Right, singular values above 1e-6 at four "
        "moments; shaded, between σ(AS) > γ and what still falls at the rate 4 lr (γ - σ). Means over seeds.",
        _rank_against_decay,
        seen="The rank is {rank} from the convex minimum's in the mean over γ.",
        differs="The paper gives neither labels, rate, steps nor what counts as rank, and draws one curve.",
    ),
    "mirror-solvers": Drawing(
        "Factors with weight decay against convex solvers",
        "Objective (mean squared error and penalty) above its minimum after each number of full-batch steps: gradient "
        "descent on factors with weight decay, from three starts of a lasso's, and ISTA and FISTA of the penalized "
        "problem. Equal pairs and columns of a matrix are Eq. 7 in its general form, as the scheme dcs composes it: "
        "differences of pairs, and directions from a matrix, vanish. Geometric means over seeds at the middle "
        "strength; the line is a gap of 1e-4. On mirrors (|u| = |w|) no coefficient can change its sign.",
        _gap_against_steps,
        seen="Factors take {steps} decades more steps than ISTA to a gap of 1e-4.",
        differs="Not in the paper, which says of the lasso that both have the same minimum (Sec. 2.4).",
    ),
    "mirror-sparse": Drawing(
        "Factors, proximal steps and pruning in networks",
        "Networks of one hidden layer of relu. Of the first layer's weights the smallest are set to 0: entries, whole "
        "neurons, blocks, differences of pairs of neurons, or coordinates in two-dimensional cosines, which the scheme "
        "dcs reads from a file; of one attention head over an image's rows, singular values of QᵀK. Test accuracy "
        "against their share, after equally many steps of SGD: on factors with decay (Eq. 7), with the proximal map of "
        "the same penalty, and with the smallest set to 0 after half of the steps and the rest trained on. Penalties "
        "are the best in training at each share. Mean and standard deviation over seeds.",
        _accuracy_against_share,
        seen="With nine tenths set to 0 factors are {proximal} percentage points more accurate than proximal SGD, and "
        "{pruned} than pruning.",
        differs="Not in the paper, which compares with no other way to a constraint.",
    ),
}
_claim = partial(Claim, tables=(RANKS,), owner="derived", origin="pilot")
_of_course = partial(Claim, tables=(COURSE,), owner="derived", origin="ours")
_in_networks = partial(
    Claim,
    tables=(SPARSE,),
    bound=at_least(-1),
    origin="ours",
    quantity="test accuracy of factors less the other's with nine tenths set to 0, in percentage points",
)
CLAIMS = {
    "mirror-8-staircase": _claim(
        statement="The rank falls, or stays, from each weight decay to the next larger one",
        quantity="largest rise of the rank of WU from one γ to the next, over seeds",
        bound=at_most(0),
        owner="paper",
        reason="Fig. 8: as the weight decay becomes stronger, the model becomes lower and lower rank; so in all seeds.",
        measure=rises,
        why="The minimum's rank does not rise there: descent has not yet reached it at the weaker of the two decays.",
    ),
    "mirror-8-full-range": _claim(
        statement="Weight decay takes the model from full rank to rank 0",
        quantity="rank at the least γ minus that at the largest, as a share of the full rank, mean over seeds",
        bound=at_least(0.95),
        owner="ours",
        reason="With γ from 0 to 3, another program had lost 50 of 50; random A are nearly singular in some direction. "
        "The range is ours: by theory rank 0 begins at σ_max(AS); the paper says lower and lower, of no range. "
        "Judged so since 28 November 2026, after values were seen: it was booked as the paper's.",
        measure=falls,
    ),
    "mirror-8-rank": _claim(
        statement="Gradient descent reaches the rank of the nuclear-norm minimum",
        quantity="difference of the two ranks, mean over γ and seeds",
        bound=below(0.5),
        reason="Equal after infinite time. These steps leave one or two directions at single γ that decay just holds "
        "at 0, 0.13 in the mean by theory; the largest was asked before, to be below 1.5.",
        measure=lambda tables: of_seeds(_last(tables), "abs(rank - convex)", "mean").means(),
    ),
    "mirror-8-band": _claim(
        statement="σ(AS) and slow convergence near the threshold predict how many singular values are still above 1e-6",
        quantity="largest distance of that number from the range between #{σ(AS) > γ} and #{σ(AS) > γ - ln(1e6)/(4 lr "
        "T)}, over γ and T, mean over seeds",
        bound=below(1),
        origin="derived",
        reason="A mode of size 1 falls as exp(-4 lr (γ - σ) T); a count within the range is at distance 0.",
        measure=_outside_band,
    ),
    "mirror-solvers-gap": _of_course(
        statement="Gradient descent on factors with weight decay comes ever nearer to the minimum of the convex "
        "problem",
        quantity="gap of the objective after the last step over that after half of the steps and 1e-9, largest over "
        "strengths, mean over seeds",
        bound=at_most(0.5),
        origin="pilot",
        reason="Sec. 2.4: solutions are identical to the lasso's; so with other mirrors. The slowest coefficients, "
        "whose gradient is next to the penalty, fall as 1/steps and their gap to a quarter (0.29 at worst). They "
        "exceed a gap of 1e-6, asked before.",
        measure=left_of_gap,
    ),
    "mirror-solvers-steps": _of_course(
        statement="It needs no more steps than proximal gradient descent",
        quantity="log10 of its steps to a gap of 1e-4 over those of ISTA, mean over strengths and seeds",
        bound=at_most(0),
        owner="ours",
        reason="The paper recommends it as a way to enforce constraints and says nothing of its speed.",
        measure=_slower_than_ista,
        why="What vanishes falls to 0 exponentially; a proximal step sets it to 0.",
    ),
    "mirror-sparse-proximal": _in_networks(
        statement="Factors with decay are as accurate as proximal SGD of the same penalty, as sparse and as long",
        owner="derived",
        reason="Sec. 2.4, of the lasso: both have the same minimum; a point is left for what steps have not reached.",
        measure=partial(_better_than, method=PROXIMAL),
        why=partial(why_behind, method=PROXIMAL),
    ),
    "mirror-sparse-pruned": _in_networks(
        statement="They are as accurate as networks that are pruned by magnitude and trained on, as sparse and as long",
        owner="ours",
        reason="A point, as for proximal SGD: who adds a symmetry should not lose by it.",
        measure=partial(_better_than, method=PRUNED),
        why=partial(why_behind, method=PRUNED),
    ),
    "mirror-sparse-repeated": _claim(
        statement="Runs from starts that are one rounding apart end equally accurate",
        quantity="largest difference of their test accuracies with nine tenths set to 0, over seeds, in points",
        bound=at_most(1),
        owner="ours",
        reason="A point, as between methods. Two processors had given proximal SGD of neurons other accuracies.",
        tables=(SPARSE,),
        measure=repeated,
        why=why_apart,
    ),
}
