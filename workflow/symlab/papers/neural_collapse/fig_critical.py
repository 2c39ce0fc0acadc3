"""Branches of two-layer blocks die above a critical penalty, which does not depend on depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neural_collapse.finals import COURSE, ended
from symlab.plotting.style import PAGE, Style, legend, line_entry, ordered_colors, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Measurement, Tables, above, between, mean_of
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE, RAISED = "critical_penalty.csv", "critical_hysteresis.csv"
MOST = 1.5
"""By how much prediction and switch may differ."""
DEAD = 1e-2
"""Squared norm of a block's weights below which its branch is dead; alive ones are of order 1."""


def swept(tables: Tables) -> pd.DataFrame:
    """Two-layer networks of a sweep of the hidden penalty, with ``weights``: the squared norm of a block's weights."""
    found = ended(tables)
    found = found[(found["by_depth"] == "swept") & (found["network"] == "rn2") & (found["hidden_penalty"] > 0)]
    return found.assign(weights=2 * found["hidden"] / found["hidden_penalty"] / found["blocks"])


def branches_against_penalty(tables: Tables, style: Style) -> Figure:
    """Squared weights of a block and NC1 against the hidden penalty, a colour a depth; dashed the predictions of S.

    Dotted with crosses: networks that lived at the least penalty and went on from there, where the study has them.
    """
    rows = swept(tables)
    if rows.empty:
        raise UserError("it needs rn2 with several hidden_penalty (neural_collapse.runs).")
    predicted = need(tables, TABLE)
    depths = sorted(rows["L"].unique())
    colors = dict(zip(depths, ordered_colors(len(depths)), strict=True))
    figure, axes = panels(1, 2, PAGE, 2.6, sharey=False)
    for axis, value in zip(axes[0], ("weights", "NC1"), strict=True):
        for L, of_depth in rows.groupby("L"):
            axis.scatter(of_depth["hidden_penalty"], of_depth[value], s=10, facecolors="none", edgecolors=[colors[L]])
            means = of_depth.groupby("hidden_penalty")[value].median()
            axis.plot(means.index, means, color=colors[L], linewidth=0.8, marker="")
        for L, of_depth in tables[RAISED].groupby("L") if RAISED in tables else ():
            means = of_depth.groupby("hidden_penalty")[value].median()
            axis.plot(means.index, means, color=colors[L], linestyle=":", marker="x", markersize=4, linewidth=0.9)
        for critical in _of_sweep(rows, predicted)["critical"]:
            axis.axvline(critical, color="0.5", linestyle="--", linewidth=0.8)
        axis.set(xscale="log", yscale="log", xlabel=r"penalty $\lambda$ of hidden weights")
    axes[0, 0].set_ylabel("squared weights of a block")
    axes[0, 1].set_ylabel("NC1")
    entries = [line_entry(f"L = {L}", color=colors[L], marker="o") for L in depths]
    if RAISED in tables:
        entries.append(line_entry("from living branches", color="0.3", linestyle=":", marker="x"))
    legend(figure, [*entries, line_entry("predicted", color="0.5", linestyle="--")], "circles: networks")
    return figure


def _of_sweep(rows: pd.DataFrame, predicted: pd.DataFrame) -> pd.DataFrame:
    """Predictions for the sweep's data set and last penalty."""
    one = rows.iloc[0]
    close = np.isclose(predicted["last_penalty"], one["last_penalty"])
    return predicted[close & (predicted["dataset"] == one["dataset"])]


def switch_of(rows: pd.DataFrame) -> tuple[float, float]:
    """The largest penalty at which the median network's branches live and the least at which they are dead."""
    weights = rows.groupby("hidden_penalty")["weights"].median()
    alive = weights.index[weights >= DEAD]
    dead = weights.index[weights < DEAD]
    return (float(alive.max()) if len(alive) else float("nan")), (float(dead.min()) if len(dead) else float("nan"))


def switch_over_predicted(tables: Tables) -> list[Found]:
    """The penalty at which branches die over the predicted one, by depth.

    It lies between two penalties of the sweep, which are its interval. Where branches live, or are dead, at all
    of them it is the last one, which decides only if that is far enough from what is predicted.
    """
    rows = swept(tables)
    if rows.empty:
        return ["needs rn2 with several hidden_penalty"]
    predicted = _of_sweep(rows, tables[TABLE])["critical"].mean()
    cases: list[Found] = []
    for L, of_depth in rows.groupby("L"):
        alive, dead = switch_of(of_depth)
        n = int(of_depth.groupby("hidden_penalty")["seed"].nunique().min())
        told = f"alive to {alive:g}, dead from {dead:g}; predicted {predicted:.3g}"
        late, error, ends = "", None, (np.nan_to_num(alive) / predicted, np.nan_to_num(dead, nan=np.inf) / predicted)
        if np.isnan(dead):
            value, late = alive, "" if alive > MOST * predicted else "branches live at all penalties of the sweep"
        elif np.isnan(alive):
            value, late = dead, "" if dead < predicted / MOST else "branches are dead at all penalties of the sweep"
        else:
            value, error = _between(alive, dead)
            error = error / predicted
        cases.append(Measurement(value / predicted, n, None, f"L = {L}", told, error, "seeds", late, ends))
    return cases


def _between(alive: float, dead: float) -> tuple[float, float]:
    """The geometric mean of both penalties, and its error, that of a uniform place between their logarithms."""
    value = float(np.sqrt(alive * dead))
    return value, value * abs(np.log(dead / alive)) / np.sqrt(12)


def switch_of_raised(tables: Tables) -> list[Found]:
    """The penalty at which living branches die over that at which those from random weights do, by depth."""
    rows, raised = swept(tables), tables[RAISED]
    cases: list[Found] = []
    for L, of_depth in raised.groupby("L"):
        fresh = rows[rows["L"] == L]
        if fresh.empty:
            continue
        n = int(of_depth.groupby("hidden_penalty")["seed"].nunique().min())
        (alive, dead), ends = switch_of(of_depth), switch_of(fresh)
        base = _between(*ends)
        told = f"from living ones alive to {alive:g}, dead from {dead:g}, else {ends[0]:g} and {ends[1]:g}"
        if np.isnan([alive, *base]).any():
            cases.append(f"L = {L}: {told}, so that branches do not die within the penalties")
            continue
        # Where they live at all penalties they die beyond the last.
        value, error = _between(alive, dead) if np.isfinite(dead) else (alive, 0.0)
        ratio, interval = value / base[0], (alive / ends[1], np.nan_to_num(dead, nan=np.inf) / ends[0])
        error = ratio * float(np.hypot(error / value, base[1] / base[0]))
        cases.append(Measurement(ratio, n, None, f"L = {L}", told, error, "seeds", ends=interval))
    return cases or ["needs the sweep from random weights at the same depths"]


def control_over_predicted(tables: Tables) -> list[Found]:
    """The penalty of Figure 2's control over the critical one at it, mean over seeds, a case a data set."""
    found, predicted = ended(tables), tables[TABLE]
    found = found[(found["network"] == "rn2") & (found["by_depth"] == "constant") & (found["loss"] == "cross_entropy")]
    cases: list[Found] = []
    for (dataset, penalty), _ in found.groupby(["dataset", "last_penalty"]):
        same = (predicted["dataset"] == dataset) & np.isclose(predicted["last_penalty"], penalty)
        if same.any():
            critical = predicted.loc[same, "critical"].to_numpy()
            told = f"λ {penalty:g}, critical {critical.mean():.3g}"
            cases.append(mean_of(penalty / critical, str(dataset), told, "seeds"))
    return cases or ["needs critical_penalty.last_penalty at the control's penalty"]


def _see(tables: Tables) -> str:
    rows = swept(tables)
    told = [f"{switch_of(of)[0]:g} and {switch_of(of)[1]:g} at L = {L}" for L, of in rows.groupby("L")]
    value = _of_sweep(rows, tables[TABLE])["critical"].mean()
    return f"Branches die between penalties of {', '.join(told)}; predicted is {value:.3g}."


FIGURES = (
    Drawing(
        "collapse-critical",
        "The penalty at which branches die",
        "Squared weights of each block, and NC1, of networks with two linear layers in each block, against the penalty "
        "of their hidden weights at a fixed one of the last layer (study `{study}`). Dashed: the penalty above which a "
        "single neuron costs more than it gains, from networks without branches. Dotted: networks that were trained at "
        "the least penalty, where their branches live, and then at each of the others.",
        branches_against_penalty,
        seen=_see,
        differs="Not in the paper; it predicts whether Figure 2's control can depend on depth.",
    ),
)
CLAIMS = (
    Claim(
        id="collapse-critical-switch",
        statement="Branches of two-layer blocks die above the predicted penalty, at every depth",
        quantity="penalty at which they die (geometric mean of its neighbours in the sweep) over the predicted one",
        bound=between(1 / MOST, MOST),
        owner="ours",
        origin="pilot",
        reason="A branch that is dead stays so above S, by a first-order expansion; from random weights some may live "
        "beyond it. Half as much more or less is left for that and for the steps of the sweep; six runs of another "
        "program were known.",
        tables=(COURSE, TABLE),
        measure=switch_over_predicted,
    ),
    Claim(
        id="collapse-critical-hysteresis",
        statement="Branches that live hold out to a higher penalty than those from random weights",
        quantity="penalty at which living branches die over that at which those from random weights do",
        bound=above(1),
        owner="ours",
        origin="ours",
        reason="Above the critical penalty the network without branches is a local minimum, which says nothing of "
        "others: one with branches may be a minimum too.",
        tables=(COURSE, RAISED),
        measure=switch_of_raised,
    ),
    Claim(
        id="collapse-critical-control",
        statement="The penalty of Figure 2's control is above the critical one",
        quantity="λ of the control over the critical one at that λ of the last layer, mean over seeds",
        bound=above(1),
        owner="ours",
        origin="derived",
        reason="Where its branches are dead, a network of any depth is one without blocks, and the control is flat.",
        tables=(COURSE, TABLE),
        measure=control_over_predicted,
    ),
)
