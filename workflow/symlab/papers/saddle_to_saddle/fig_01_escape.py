"""Figs. 1, 3 and 4: losses and singular values of networks that leave the origin."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.saddle_to_saddle.escapes import (
    NONE_FLAT,
    STANDS_OUT,
    at_first_snapshot,
    count_at_snapshots,
    decades_from_a_drop,
    escape_time,
    first_snapshot,
    may_still_leave,
    networks,
    paper_networks,
    plateaus,
    say_how_many,
    second_plateaus,
    standing_out,
)
from symlab.plotting.style import PAGE, Style, legend, line_entry, ordered_colors, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, at_least, at_most, below, mean_of, share_of, value_of_all
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COURSE, LAYERS = "escape_course.csv", "escape_layers.csv"
VALUES = [f"s{i}" for i in range(1, 11)]
LEFT = 2
"""Saddles that the paper sees networks leave."""
MOST = 0.8
"""Share of the seeds that counts as most: four of five."""
NEAR_A_DROP = 0.2
"""Decades of s within which a moment belongs to a drop of the loss."""
SEPARATE = 2
"""How many times later a second singular value stands out if it separates on its own."""
SHOWN = 0
"""The seed that is drawn where one network is."""


def two_escapes(tables: Tables, style: Style) -> Figure:
    """Fig. 1: loss of every network, and singular values of one after the first escape and at the end."""
    course, layers = _deepest(tables)
    one = course[course["seed"] == SHOWN]
    scale = float((course["s"] / course["step"]).max())
    snapshot = first_snapshot(one) / scale
    figure, axes = panels(1, 3, PAGE, 2.6, sharex=False, sharey=False)
    left, middle, right = axes[0]
    for seed, rows in networks(course):
        drawn = rows[rows["step"] > 0]
        left.plot(drawn["step"], drawn["loss"], color="black" if seed == SHOWN else "0.7", linewidth=0.8, marker="")
    for step in (snapshot, one["step"].max()):
        left.axvline(step, color="0.5", linestyle=":", linewidth=0.8)
    left.set(xscale="log", xlabel="step", ylabel="training loss", title="a")
    count = int(layers["layer"].max())
    colors = ordered_colors(count)
    of_one = layers[(layers["seed"] == SHOWN) & (layers["layer"] > 0)]
    for axis, step, letter in ((middle, snapshot, "b"), (right, one["step"].max(), "c")):
        for layer, rows in of_one.groupby("layer"):
            at = rows[rows["step"] == _nearest(rows["step"], step)]
            if len(at) and np.isfinite(step):
                axis.plot(np.arange(1, 11), at[VALUES].to_numpy()[0], color=colors[int(layer) - 1], marker=".")
            edge = rows.loc[rows["step"] == 0, "s1"].item()
            axis.axhline(edge, color=colors[int(layer) - 1], linestyle="--", linewidth=0.5)
        axis.set(xlabel="index", ylabel="singular value", title=letter, xticks=[1, 5, 10], ylim=(0, None))
    entries = [line_entry(f"layer {layer}", color=colors[layer - 1], marker=".") for layer in range(1, count + 1)]
    entries.append(line_entry("first value at the start", linestyle="--", linewidth=0.8))
    legend(
        figure,
        entries,
        f"{course['seed'].nunique()} networks; black: the one of b (after the first escape) and c (at the end)",
    )
    return figure


def singular_values_over_training(tables: Tables, style: Style, L: int) -> Figure:
    """Figs. 3, 4: top ten singular values of every layer of one network, and its loss, against the step."""
    course, layers = (paper_networks(need(tables, name), L) for name in (COURSE, LAYERS))
    if course.empty:
        raise UserError(f"it needs networks of depth {L}: add {L} to saddle_escape.descents.L.")
    course, layers = course[course["seed"] == SHOWN], layers[layers["seed"] == SHOWN]
    figure, axes = panels(2, L, PAGE, 3.0, sharey="row")
    color = ordered_colors(10)
    for layer in range(1, L + 1):
        rows = layers[layers["layer"] == layer].sort_values("step")
        upper, lower = axes[0, layer - 1], axes[1, layer - 1]
        drawn = rows[rows["step"] > 0]
        for index, value in enumerate(VALUES):
            upper.plot(drawn["step"], drawn[value], color=color[index], linewidth=0.8, marker="")
        upper.axhline(rows.loc[rows["step"] == 0, "s1"].item(), color="0.5", linestyle="--", linewidth=0.6)
        upper.set(title=f"layer {layer}", xscale="log")
        losses = course[course["step"] > 0]
        lower.plot(losses["step"], losses["loss"], color="black", linewidth=0.8, marker="")
        lower.set(xlabel="step", xscale="log")
    axes[0, 0].set_ylabel("singular values")
    axes[1, 0].set_ylabel("training loss")
    legend(figure, [line_entry("first singular value at the start", linestyle="--", linewidth=0.8)], "")
    return figure


def _deepest(tables: Tables) -> tuple[pd.DataFrame, pd.DataFrame]:
    course = need(tables, COURSE)
    L = int(course["L"].max())
    return paper_networks(course, L), paper_networks(need(tables, LAYERS), L)


def _nearest(steps: pd.Series, step: float) -> float:
    return float(steps.iloc[(steps - step).abs().argmin()]) if np.isfinite(step) else float("nan")


def _see_escapes(tables: Tables) -> str:
    course, layers = _deepest(tables)
    left = sum(bool(escape_time(rows) > 0) for _, rows in networks(course))
    n, depth = course["seed"].nunique(), int(course["L"].max())
    first = count_at_snapshots(course, layers)
    if first.empty:
        return f"{left} of {n} networks of depth {depth} leave the origin; the loss of none lies flat after it."
    told = " and ".join(
        f"{int(each.max().median())} {where}"
        for each, where in ((first, "after the first escape"), (_at_the_end(course, layers), "at the end"))
    )
    return (
        f"{left} of {n} networks of depth {depth} leave the origin, and the loss of {first.shape[1]} lies flat "
        f"after it; in the layer with most, the median network has {told} singular values above {STANDS_OUT} times "
        "the first at the start."
    )


def _at_the_end(course: pd.DataFrame, layers: pd.DataFrame) -> pd.DataFrame:
    """k_l by layer of each network at its last step."""
    return pd.DataFrame({s: standing_out(layers[layers["seed"] == s]).iloc[-1] for s, _ in networks(course)})


FIGURES = (
    Drawing(
        "saddle-1",
        "Losses and singular values on the way from the origin",
        "Networks of the study `{study}` of the greatest depth trained from near the origin. (a) Training loss; dotted "
        "lines are the moments of (b), after the first escape, and (c), at the end. (b, c) The ten largest singular "
        "values of each layer of one network; dashed is the largest at the start, which noise alone reaches.",
        two_escapes,
        seen=_see_escapes,
        differs="The paper trains 784-1000x5-10 for 1000 epochs; here networks are narrower and the run shorter. Noise "
        "edges are ours: without them the random initial weights look like a spectrum.",
    ),
    Drawing(
        "saddle-3",
        "Singular values over training, depth 6",
        "The ten largest singular values of each layer (above) and the training loss (below) of one network of depth 6 "
        "of the study `{study}`, against the step; dashed is the largest value at the start.",
        partial(singular_values_over_training, L=6),
        differs="As Figure 1.",
    ),
    Drawing(
        "saddle-4",
        "Singular values over training, depth 4",
        "As Figure 3, for depth 4.",
        partial(singular_values_over_training, L=4),
        differs="As Figure 1.",
    ),
)


def plateaus_left(tables: Tables) -> list[Found]:
    """Plateaus of the loss that a network leaves again, the origin's included, mean over networks of depth 6."""
    course = paper_networks(tables[COURSE], 6)
    if course.empty:
        return ["needs networks of depth 6"]
    left, waiting = [], []
    for _, rows in networks(course):
        left.append(sum(end < rows["s"].max() for _, end in plateaus(rows)))
        waiting.append(left[-1] < LEFT and may_still_leave(rows))
    told = f"of each network: {', '.join(map(str, left))}"
    # Undecided only if those whose loss is still high could yet carry the mean over the threshold.
    hopeful = sum(waiting) and np.mean(np.where(waiting, LEFT, left)) >= LEFT
    late = _not_reached(course, sum(waiting), len(left)) if hopeful else ""
    return [replace(mean_of(np.array(left, dtype=float), detail=told, unit="networks"), open=late)]


def _not_reached(course: pd.DataFrame, missing: int, n: int) -> str:
    return f"not reached in {int(course['step'].max()):,} steps by {missing} of {n} networks"


def alone_after_escape(tables: Tables) -> list[Found]:
    """Share of the networks whose k_l is 1 at the first snapshot, layer by layer, of those that have one."""
    course, layers = _depth_6(tables)
    table = count_at_snapshots(course, layers)
    if table.empty:
        return [NONE_FLAT]
    missing = say_how_many(table.shape[1], course)
    return [
        value_of_all(
            float((row == 1).mean()), len(row), case=f"layer {layer}",
            detail="; ".join(filter(None, [_listed(row), missing])), unit="networks",
        )
        for layer, row in table.iterrows()
    ]  # fmt: skip


def second_at_the_end(tables: Tables) -> list[Found]:
    """Fewest values that stand out of any network at the last step, layer by layer.

    Not reached where all networks that have one alone ended with a loss that is still high.
    """
    course, layers = _depth_6(tables)
    if course.empty:
        return ["needs networks of depth 6"]
    table = _at_the_end(course, layers)
    high = pd.Series({seed: may_still_leave(rows) for seed, rows in networks(course)})
    found: list[Found] = []
    for layer, row in table.iterrows():
        short = row < 2
        late = _not_reached(course, int(short.sum()), len(row)) if short.any() and high[short].all() else ""
        found.append(
            value_of_all(
                float(row.min()), len(row), case=f"layer {layer}", detail=_listed(row), unit="networks", open=late
            )
        )
    return found


def deeper_layers_less_spread(tables: Tables) -> list[Found]:
    """Mean A of dW_4 and dW_5 minus that of dW_2 and dW_3 at the first snapshot, mean over networks of depth 6."""
    course, layers = _depth_6(tables)
    differences = []
    for row in at_first_snapshot(course).itertuples():
        then = layers[(layers["seed"] == row.seed) & (layers["step"] == row.step)].set_index("layer")["A_change"]
        differences.append(then[[4, 5]].mean() - then[[2, 3]].mean())
    if not differences:
        return [NONE_FLAT]
    missing = say_how_many(len(differences), course)
    return [mean_of(np.array(differences), detail=missing, unit="networks")]


def second_over_first_time(tables: Tables) -> list[Found]:
    """Step at which k_l reaches 2 over that at which it reaches 1, the smallest of the networks, layer by layer."""
    course, layers = _depth_6(tables)
    if course.empty:
        return ["needs networks of depth 6"]
    found: list[Found] = []
    for layer, times in _separations(course, layers):
        ratios = times["two"] / times["one"]
        missing = int(ratios.isna().sum())
        # Those that have reached it may decide already.
        late = _not_reached(course, missing, len(ratios)) if missing and not ratios.min() < SEPARATE else ""
        value = math.inf if missing == len(ratios) else float(ratios.min())
        found.append(value_of_all(value, len(ratios), f"layer {layer}", unit="networks", open=late))
    return found


def _separations(course: pd.DataFrame, layers: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    """Of each layer the steps at which a first and a second value stand out, by seed; NaN where none does."""
    counts = {seed: standing_out(layers[layers["seed"] == seed]) for seed, _ in networks(course)}
    for layer in range(1, 7):
        steps = {
            seed: {name: next(iter(k.index[k[layer] >= least]), math.nan) for name, least in (("one", 1), ("two", 2))}
            for seed, k in counts.items()
        }
        yield layer, pd.DataFrame(steps).T


def separations_from_drops(tables: Tables) -> list[Found]:
    """Largest distance, in decades of s, between a value's standing out and a drop of the loss, layer by layer."""
    course, layers = _depth_6(tables)
    if course.empty:
        return ["needs networks of depth 6"]
    found: list[Found] = []
    for layer, times in _separations(course, layers):
        far = [decades_from_a_drop(rows, step) for seed, rows in networks(course) for step in times.loc[seed].dropna()]
        if far:
            found.append(value_of_all(max(far), len(times), f"layer {layer}", unit="networks"))
    return found or ["in no layer a value stands out within the steps"]


def wider_at_depth_6(tables: Tables) -> list[Found]:
    """Share of the seeds whose second plateau is wider, in decades of s, at depth 6 than at depth 4."""
    both = (second_plateaus(paper_networks(tables[COURSE], L)) for L in (6, 4))
    six, four = (each["width"].where(each["left"].astype(bool)).to_numpy(dtype=float) for each in both)
    if min(len(six), len(four)) < 5:
        return ["needs five networks of depth 6 and of depth 4"]
    unknown = np.isnan(six) | np.isnan(four)
    told = ", ".join(f"{a:.2g} against {b:.2g}" for a, b in zip(six, four, strict=True)).replace("nan", "not left")
    wider = (six > four).sum()
    # Undecided only if the seeds that are not at an end could yet decide for the claim.
    hopeful = unknown.any() and (wider + unknown.sum()) / len(six) >= MOST
    late = (
        f"not reached: {unknown.sum()} of {len(six)} second plateaus are not left within the steps" if hopeful else ""
    )
    return [share_of(int(wider), len(six), detail=f"decades: {told}", unit="seeds", open=late)]


def _depth_6(tables: Tables) -> tuple[pd.DataFrame, pd.DataFrame]:
    return paper_networks(tables[COURSE], 6), paper_networks(tables[LAYERS], 6)


def _listed(row: pd.Series) -> str:
    return f"of each network: {', '.join(map(str, row))}"


def _claim(number: str, name: str, **texts: Any) -> Claim:
    return Claim(id=f"saddle-{number}-{name}", **texts)


CLAIMS = (
    _claim(
        "1",
        "two-saddles",
        statement="The loss lies flat at two saddles at least before it ends",
        quantity="plateaus that are left again, the origin's included, mean over networks of depth 6",
        bound=at_least(LEFT),
        owner="paper",
        origin="ours",
        reason="The paper says that two distinct saddle points are visible; a plateau is a tenth of a decade or more "
        "in which the loss falls at less than a tenth of its steepest.",
        tables=(COURSE,),
        measure=plateaus_left,
    ),
    _claim(
        "1",
        "one-value",
        statement="After the first escape one singular value stands out in every layer",
        quantity=f"share of networks of depth 6 with one above {STANDS_OUT} times the first at the start",
        bound=at_least(1),
        owner="paper",
        origin="ours",
        reason="The paper sees a single dominant singular value in every layer; what noise alone reaches is the edge.",
        tables=(COURSE, LAYERS),
        why={
            "layer 1": "Others have followed the first by the moment at which this is read, the first after the escape "
            "at which the loss lies flat. At the escape itself, from small enough weights, it is alone in layer 1 too.",
        },
        measure=alone_after_escape,
    ),
    _claim(
        "1",
        "deeper",
        statement="After the first escape, deeper layers are closer to rank one",
        quantity="A of W - W(0), layers 4 and 5 minus layers 2 and 3, mean over networks of depth 6",
        bound=below(0),
        owner="paper",
        origin="paper",
        reason="The paper says more pronounced in layers 4 to 6; layers of equal shape are compared, and the change of "
        "the weights, which holds no initial noise.",
        tables=(COURSE, LAYERS),
        measure=deeper_layers_less_spread,
    ),
    _claim(
        "1",
        "second-value",
        statement="At the end a second singular value stands out in every layer",
        quantity="fewest singular values above the edge of all networks of depth 6",
        bound=at_least(2),
        owner="paper",
        origin="ours",
        reason="The paper sees a second dominant singular value at the final iteration.",
        tables=(COURSE, LAYERS),
        measure=second_at_the_end,
    ),
    _claim(
        "3",
        "one-by-one",
        statement="In each layer a second singular value separates later than the first, not with it",
        quantity="step at which a second stands out over that of the first, smallest of the networks",
        bound=at_least(SEPARATE),
        owner="paper",
        origin="ours",
        reason="Above 1 it is by the order of singular values; the paper's panels show clearly separate times.",
        tables=(COURSE, LAYERS),
        why={
            "layer 1": "Several values of the first layer separate between two of the moments measured, during the "
            "first escape and right after it."
        },
        measure=second_over_first_time,
    ),
    _claim(
        "3",
        "with-drops",
        statement="Singular values separate when the loss drops",
        quantity="largest distance of the two in decades of s, over the networks and the first two values",
        bound=at_most(NEAR_A_DROP),
        owner="ours",
        origin="ours",
        reason="The paper shows both above each other and does not say that they line up; a fifth of a decade is two "
        "of the windows over which slopes are taken.",
        tables=(COURSE, LAYERS),
        measure=separations_from_drops,
    ),
    _claim(
        "4",
        "longer-plateau",
        statement="The second plateau is more distinct at depth 6 than at depth 4",
        quantity="share of seeds whose second plateau is wider in decades of s",
        bound=at_least(MOST),
        owner="paper",
        origin="ours",
        reason="The paper says more distinct plateaus; four of five seeds. Times are compared in log10 of s, because "
        "the rate makes depth 4 leave the origin ten thousand times sooner.",
        tables=(COURSE,),
        measure=wider_at_depth_6,
    ),
)
