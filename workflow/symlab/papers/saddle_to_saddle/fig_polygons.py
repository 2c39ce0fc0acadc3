"""Polygons with other numbers of corners, and greater depths: one neuron, the certified limit, what descent finds."""

from functools import partial

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.plotting.style import COLUMN, Axes, Figure, Look, Style, line_entry, palette
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import cases
from symlab.study.claim import Case, Claim, Found, Tables, at_least, at_most, below, value_of_all
from symlab.study.facets import assign_looks, draw_rows, facets, labelled
from symlab.study.tables import need

RUNS, LIMITS, LIFTS = "polygon_runs.csv", "polygon_limits.csv", "polygon_lifts.csv"
SHOWN = (3, 4, 5)
"""Depths that are drawn for each polygon."""
WIDTH, STARTS = 8, 60
"""Neurons of a layer, and the random starts of each depth that count, which are equally many so."""
REACHED = 0.99
"""Share of a speed that counts as reaching it."""
CERTIFIED, ONE = "limit of depth 3 (certified)", "one neuron"


def speeds_by_polygon(tables: Tables, style: Style) -> Figure:
    limits = need(tables, LIMITS).sort_values("N")
    best = need(tables, RUNS).groupby(["N", "L"], as_index=False)["speed"].max().query("L in @SHOWN")
    place = pd.Series(np.arange(len(limits)), index=limits["N"].to_numpy())
    shift = best["L"].rank(method="dense") - (best["L"].nunique() + 1) / 2
    rows = best.assign(x=best["N"].map(place) + 0.15 * shift, label="fastest run, depth " + best["L"].astype(str))
    looks = assign_looks(list(rows["label"].unique()), style)
    grey = palette(style)[7]

    def lines(axis: Axes, _: pd.DataFrame) -> None:
        axis.hlines(limits["certified"], place - 0.35, place + 0.35, color="black")
        axis.hlines(limits["rank_one"], place - 0.35, place + 0.35, color=grey, linestyle="--")
        axis.set_xticks(place, place.index)

    entries = [line_entry(CERTIFIED, color="black"), line_entry(ONE, color=grey, linestyle="--")]
    axes = labelled("corners $N$", "speed", ylim=(-0.03, None))
    return facets(rows, "x", "speed", looks, axes=axes, draw=draw_rows, more=lines, width=1.3 * COLUMN, entries=entries)


def speed_against_depth(tables: Tables, style: Style) -> Figure:
    runs, limits = starts(tables), limits_on_circle(tables)
    best, lifted = (each.reset_index() for each in (runs.groupby("L")["speed"].max(), lifted_speeds(tables)))
    rows = [
        runs.assign(label="a start", x=runs["L"] + 0.3 * (runs["run"] / STARTS - 0.5)),
        best.assign(label="the fastest", x=best["L"]),
        lifted.assign(label="lifted from a shallower network", x=lifted["L"]),
    ]
    blue, grey = palette(style)[0], palette(style)[7]
    looks = {"a start": Look(grey, marker="."), "the fastest": Look(blue)}
    looks |= {"lifted from a shallower network": Look("black", marker="_")}  # type: ignore[arg-type]

    def lines(axis: Axes, _: pd.DataFrame) -> None:
        axis.axhline(limits["certified"], color="black", linestyle=":", linewidth=0.8)
        axis.axhline(limits["rank_one"], color="black", linestyle="--", linewidth=0.8)

    entries = [line_entry(CERTIFIED, color="black", linestyle=":"), line_entry(ONE, color="black", linestyle="--")]
    return facets(
        pd.concat(rows), "x", "speed", looks, draw=draw_rows, more=lines, width=1.3 * COLUMN, entries=entries,
        axes=labelled("depth $L$", "speed $s$", ylim=(-0.03, 0.55), xticks=sorted(runs["L"].unique())),
        note=f"{STARTS} starts a depth, width {WIDTH}",
    )  # fmt: skip


def starts(tables: Tables) -> pd.DataFrame:
    """The first runs of every depth on the circle."""
    runs = need(tables, RUNS)
    return runs[(runs["N"] == 8) & (runs["width"] == WIDTH) & (runs["run"] < STARTS)]


def limits_on_circle(tables: Tables) -> pd.Series:
    """The speed of one neuron and the certified limit of depth 3 on the circle.

    Raises:
        UserError: it is not among the polygons.
    """
    limits = need(tables, LIMITS)
    if (circle := limits[limits["N"] == 8]).empty:
        raise UserError("it needs the circle: add 8 to saddle_escape.polygons.N.")
    return circle.iloc[0]


def lifted_speeds(tables: Tables) -> pd.Series:
    """By depth, the largest speed of a shallower network's fastest run that is made so deep."""
    lifts = tables[LIFTS]
    return lifts[(lifts["N"] == 8) & (lifts["width"] == WIDTH)].groupby("L")["speed"].max()


FIGURES = {
    "saddle-polygons": Drawing(
        "Escape speeds on polygons",
        "Inputs at the N corners of a regular polygon with gradients that alternate. Black: upper limit of the speed "
        "of every network of depth 3, certified by linear programs; grey: the best of one neuron a layer; marks: the "
        "fastest of all descents from random starts. With N = 6 or 10 corners one neuron cannot leave the origin to "
        "first order at all, and deeper networks can.",
        speeds_by_polygon,
        seen=Sentence(
            "The fastest run of depth 3 reaches {six} of the certified limit on the hexagon.",
            {"six": at("saddle-polygons-reached", N=6)},
        ),
        differs="Not in the paper, which has N = 8 alone.",
    ),
    "saddle-depths": Drawing(
        "Speed against depth",
        "Escape speeds on the circle against the depth: of descents on the sphere from random starts, and of the "
        "fastest of them at a smaller depth after it is made deeper by Proposition 3.2, which is a lower limit by "
        "construction. Dotted is the certified limit of depth 3, dashed the speed of one neuron a layer.",
        speed_against_depth,
        seen="The fastest start of all depths above 3 reaches {flat} of the certified limit of depth 3.",
        differs="Not in the paper, which proves that the optimal speed does not fall with the depth.",
    ),
}


def reach_certified(tables: Tables) -> list[Found]:
    """Fastest run of depth 3 over the certified limit, a case a polygon."""
    runs = tables[RUNS].query("L == 3").merge(tables[LIMITS], on="N")
    relative = runs.assign(relative=runs["speed"] / runs["certified"])
    return cases(relative, "relative", ("N",), ("width", "run"), "N = {N}").of_all(np.max) or ["needs depth 3"]


def reach_lifted_speed(tables: Tables) -> list[Found]:
    """Fastest start over the lifted speed, a case a depth above 3."""
    lifted, found = lifted_speeds(tables), []
    for L, speeds in starts(tables).groupby("L")["speed"]:
        if L > 3 and L in lifted:  # type: ignore[operator]
            fast = int((speeds > REACHED * lifted[L]).sum())
            # Whether one of unknown speed is the fastest is not known.
            fastest = float(speeds.max(skipna=False))
            told = f"{fastest:.4g} against {lifted[L]:.4g}; {fast} starts within a hundredth"
            case = Case(f"depth {L}", L=int(str(L)))
            found.append(value_of_all(fastest / lifted[L], len(speeds), case, told, "starts"))
    return [*found] or ["needs depths above 3 and one below, at width 8"]


def exceed_limit_of_depth_3(tables: Tables) -> list[Found]:
    runs = starts(tables)
    deep = runs[runs["L"] > 3]
    if deep.empty:
        return ["needs depths above 3 at width 8"]
    limit = limits_on_circle(tables)["certified"]
    told = f"depths {', '.join(map(str, sorted(deep['L'].unique())))}"
    return [value_of_all(float(deep["speed"].max(skipna=False) / limit), len(deep), detail=told, unit="starts")]


def largest_second_value(tables: Tables) -> list[Found]:
    """Second over first singular value of the fastest start, the largest of layers 2 to L, a case a depth.

    Of those depths whose fastest start is as fast as the lifted networks: others are not near the optimum.
    """
    runs, limit = starts(tables), limits_on_circle(tables)["certified"]
    found: list[Found] = []
    for L, of_depth in runs[runs["L"] > 2].groupby("L"):
        fastest = of_depth.loc[of_depth["speed"].idxmax()]
        if fastest["speed"] > REACHED * limit:
            values = fastest[[f"second_{layer}" for layer in range(2, int(str(L)) + 1)]].to_numpy(dtype=float)
            told = f"layer {2 + int(np.argmax(values))}; first layer {fastest['second_1']:.3g}"
            case = Case(f"depth {L}", L=int(str(L)))
            found.append(value_of_all(float(values.max()), len(of_depth), case, told, "starts"))
    return found or ["at no depth a start reaches the limit"]


_claim = partial(Claim, owner="ours", origin="ours", tables=(RUNS, LIMITS))
CLAIMS = {
    "saddle-polygons-reached": _claim(
        statement="On every polygon, descent from random weights finds the fastest direction of depth 3",
        quantity="speed of the fastest start over the certified limit",
        bound=at_least(REACHED),
        owner="derived",
        reason="The paper says of the octagon that wide networks find it; a hundredth is left for descents that have "
        "not quite ended.",
        measure=reach_certified,
    ),
    "saddle-depths-reached": _claim(
        statement="At greater depth too, descent from random weights finds the speed that lifted networks have",
        quantity=f"speed of the fastest of {STARTS} starts of width {WIDTH} over that of the lifted network",
        bound=at_least(REACHED),
        origin="pilot",
        reason="A hundredth is left for descents that have not quite ended; speeds that another program found "
        "at depths 3 to 8 were known.",
        tables=(RUNS, LIMITS, LIFTS),
        measure=reach_lifted_speed,
    ),
    "saddle-depths-flat": _claim(
        statement="No deeper network is found that is faster than the limit of depth three",
        quantity="fastest start of all depths above 3 over the certified limit of depth 3",
        bound=at_most(1.001),
        reason="The paper proves that the optimal speed does not fall with the depth, and leaves open if it rises; "
        "a thousandth is far more than the certificate's slack.",
        measure=exceed_limit_of_depth_3,
    ),
    "saddle-depths-rank": _claim(
        statement="In the fastest networks all layers but the first have rank one",
        quantity="second over first singular value of W_l, largest of layers 2 to L, of the fastest start",
        bound=below(0.1),
        owner="derived",
        origin="pilot",
        reason="The paper conjectures exact rank one in most layers where the optimal speed does not rise with the "
        "depth; a tenth is left for descents that have not quite ended. Ranks that another program found were known.",
        measure=largest_second_value,
    ),
}
