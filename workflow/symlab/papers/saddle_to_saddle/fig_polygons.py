"""Polygons: their speed limits, greater depths, and how failures vanish with the width."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.saddle_to_saddle.fig_02_05_06_circle import intervals, successes
from symlab.plotting.style import COLUMN, Axes, Figure, Look, Style, legend, line_entry, palette, panels, set_ticks
from symlab.study.card import Drawing
from symlab.study.cases import cases, cases_of
from symlab.study.claim import (
    Claim,
    Found,
    Measurement,
    Tables,
    above,
    at_least,
    at_most,
    below,
    value_of_all,
)
from symlab.study.facets import assign_looks, draw_rows, facets, labelled
from symlab.study.tables import need, some

RUNS, LIMITS, LIFTS = "polygon_runs.csv", "polygon_limits.csv", "polygon_lifts.csv"
WIDTH, STARTS = 8, 60
"""Neurons of a layer, and the random starts of each depth that count, which are equally many so."""
REACHED = 0.99
"""Share of a speed that counts as reaching it."""
LAWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"exponential": np.asarray, "power": np.log}
"""What -log P(fail) is linear in, from the widths, by the name of the law."""
CERTIFIED, ONE = "limit of depth 3 (certified)", "one neuron"


def speeds_by_polygon(tables: Tables, style: Style) -> Figure:
    limits = need(tables, LIMITS).sort_values("N")
    best = need(tables, RUNS).groupby(["N", "L"], as_index=False)["speed"].max().query("L in (3, 4, 5)")
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
    return need(tables, RUNS).query("N == 8 and width == @WIDTH and run < @STARTS")


def limits_on_circle(tables: Tables) -> pd.Series:
    """The speed of one neuron and the certified limit of depth 3 on the circle.

    Raises:
        UserError: it is not among the polygons.
    """
    limits = need(tables, LIMITS)
    return some(limits[limits["N"] == 8], "it needs the circle: add 8 to saddle_escape.polygons.N.").iloc[0]


def lifted_speeds(tables: Tables) -> pd.Series:
    """By depth, the largest speed of a shallower network's fastest run that is made so deep."""
    return need(tables, LIFTS).query("N == 8 and width == @WIDTH").groupby("L")["speed"].max()


class Fit(NamedTuple):
    """-log P(fail) = a + b x, x the width or its logarithm, by maximum likelihood."""

    a: float
    b: float
    fails: np.ndarray
    """P(fail) at each width [widths]."""
    deviance: float


def failures_against_width(tables: Tables, style: Style) -> Figure:
    counted = by_polygon(need(tables, RUNS))
    if not counted:
        raise UserError("it needs three widths from the narrowest at which a run of depth 3 succeeds; add some.")
    figure, axes = panels(1, 1, 1.5 * COLUMN, 2.8)
    axis = axes[0, 0]
    entries, top = [], 0.0
    for color, (case, counts) in zip(palette(style), counted, strict=False):
        missed, n = counts["n"] - counts["hits"], counts["n"]
        high, low = -np.log(np.maximum(intervals(missed, n), 1e-9))
        failed = (missed > 0).to_numpy()
        top = max(top, np.max(low), np.max(high[failed], initial=0))
        share = (missed / n)[failed]
        bars = [-np.log(share) - low[failed], high[failed] + np.log(share)]
        axis.errorbar(share.index, -np.log(share), yerr=bars, color=color, marker="o", linestyle="", capsize=2)
        # Where none fails, only the lower end of the interval is known.
        axis.plot(counts.index[~failed], low[~failed], "^", color=color, linestyle="")
        for law, linestyle in zip(LAWS, ("-", "--"), strict=True):
            fit = fit_failures(counts, law)
            fine = np.geomspace(counts.index.min(), counts.index.max(), 200)
            axis.plot(fine, fit.a + fit.b * LAWS[law](fine), color=color, linestyle=linestyle, linewidth=0.9)
        entries.append(line_entry(case, color=color, marker="o"))
    axis.set(xscale="log", xlabel="width", ylabel=r"$-\log$ share of failures", ylim=(0, 1.1 * top))
    set_ticks(axis.xaxis, sorted(need(tables, RUNS).query("L == 3")["width"].unique()))
    entries += [line_entry("exponential"), line_entry("power", linestyle="--")]
    legend(figure, entries, "bars are 95 % intervals (exact); a triangle is the lower end where no run failed")
    return figure


def by_polygon(runs: pd.DataFrame) -> Sequence[tuple[str, pd.DataFrame]]:
    """``hits`` of ``n`` by width for each N at depth 3, from the narrowest with a success on, where those are three."""
    runs = runs.query("L == 3").sort_values("N", kind="stable")
    counted = [(case, successes(rows)) for case, rows in cases_of(runs, ["N"], "N = {N}")]
    hit = [(case, counts.loc[(counts["hits"] > 0).idxmax() :]) for case, counts in counted if counts["hits"].any()]
    return [(case, counts) for case, counts in hit if len(counts) > 2]


def fit_failures(counts: pd.DataFrame, law: str) -> Fit:
    """The law under which the counts of failures are likeliest, and its deviance from the shares themselves."""
    from scipy.optimize import minimize
    from scipy.special import xlogy

    n, missed = counts["n"].to_numpy(dtype=float), (counts["n"] - counts["hits"]).to_numpy(dtype=float)
    x = LAWS[law](counts.index.to_numpy(dtype=float))

    def at_ends(logarithms: np.ndarray) -> np.ndarray:
        """-log P(fail) of a line that is above 0 at both ends, and so nowhere a chance above 1."""
        low, high = np.exp(np.clip(logarithms, -20, 6))
        return low + (high - low) * (x - x[0]) / (x[-1] - x[0])

    def deviance(logarithms: np.ndarray) -> float:
        line = at_ends(logarithms)
        saturated = xlogy(missed, missed / n) + xlogy(n - missed, 1 - missed / n)
        return float(2 * (saturated + missed * line - xlogy(n - missed, -np.expm1(-line))).sum())

    ends = -np.log((missed[[0, -1]] + 0.5) / (n[[0, -1]] + 1))
    best = minimize(deviance, np.log(ends), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-8})
    line = at_ends(best.x)
    slope = float((line[-1] - line[0]) / (x[-1] - x[0]))
    return Fit(float(line[0] - slope * x[0]), slope, np.exp(-line), float(best.fun))


def power_minus_exponential(counts: pd.DataFrame) -> tuple[float, float]:
    """Deviance of the power law minus that of the exponential, and its standard error (Vuong 1989).

    It is twice a sum over runs of the logarithm of the ratio of both likelihoods, of which each width has two values.
    """
    exponential, power = (fit_failures(counts, law) for law in LAWS)
    n, missed = counts["n"].to_numpy(dtype=float), (counts["n"] - counts["hits"]).to_numpy(dtype=float)
    of_miss = np.log(exponential.fails / power.fails)
    of_hit = np.log(np.expm1(np.log(exponential.fails)) / np.expm1(np.log(power.fails)))
    total = (missed * of_miss + (n - missed) * of_hit).sum()
    squares = (missed * of_miss**2 + (n - missed) * of_hit**2).sum()
    return power.deviance - exponential.deviance, 2 * float(np.sqrt(squares - total**2 / n.sum()))


FIGURES = {
    "saddle-polygons": Drawing(
        "Escape speeds on polygons",
        "Inputs at the N corners of a regular polygon with gradients that alternate. Black: upper limit of the speed "
        "of every network of depth 3, certified by linear programs; grey: the best of one neuron a layer; marks: the "
        "fastest of all descents from random starts. With N = 6 or 10 corners one neuron cannot leave the origin to "
        "first order at all, and deeper networks can.",
        speeds_by_polygon,
        seen="The fastest run of depth 3 reaches {reached(N=6)} of the certified limit on the hexagon.",
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
    "saddle-success": Drawing(
        "How failures vanish with the width",
        "Minus the logarithm of the share of runs that find no direction faster than one neuron, against the width, "
        "for polygons of N corners at depth 3. Lines are the likeliest exponential law, P(fail) = exp(-a - b w), and "
        "the likeliest power law, P(fail) = exp(-a) / w^b, from the narrowest width with a success on. A curve that "
        "bends upwards over the logarithmic axis is exponential.",
        failures_against_width,
        seen="The exponential law's deviance is smaller than the power law's by {exponential}.",
        differs="Not in the paper, which says that wider networks find such directions more often.",
    ),
}


def reach_certified(tables: Tables) -> list[Found]:
    """Fastest run of depth 3 over the certified limit, a case a polygon."""
    runs = tables[RUNS].query("L == 3").merge(tables[LIMITS], on="N")
    return cases(runs, "speed / certified", ("N",), ("width", "run"), "N = {N}").of_all(np.max) or ["needs depth 3"]


def reach_lifted_speed(tables: Tables) -> Iterator[Found]:
    """Fastest start over the lifted speed, a case a depth above 3."""
    lifted = lifted_speeds(tables)
    for case, rows in cases_of(starts(tables).sort_values("L", kind="stable"), ["L"], "depth {L}"):
        L, speeds = case.key["L"], rows["speed"]
        if L > 3 and L in lifted:
            fast = int((speeds > REACHED * lifted[L]).sum())
            # Whether one of unknown speed is the fastest is not known.
            fastest = float(speeds.max(skipna=False))
            told = f"{fastest:.4g} against {lifted[L]:.4g}; {fast} starts within a hundredth"
            yield value_of_all(fastest / lifted[L], len(speeds), case, told, "starts")
    yield "needs depths above 3 and one below, at width 8"


def exceed_limit_of_depth_3(tables: Tables) -> list[Found]:
    deep = some(starts(tables).query("L > 3"), "needs depths above 3 at width 8")
    limit = limits_on_circle(tables)["certified"]
    told = f"depths {', '.join(map(str, sorted(deep['L'].unique())))}"
    return [value_of_all(float(deep["speed"].max(skipna=False) / limit), len(deep), detail=told, unit="starts")]


def largest_second_value(tables: Tables) -> Iterator[Found]:
    """Second over first singular value of the fastest start, the largest of layers 2 to L, a case a depth.

    Of those depths whose fastest start is as fast as the lifted networks: others are not near the optimum.
    """
    runs, limit = starts(tables), limits_on_circle(tables)["certified"]
    for case, of_depth in cases_of(runs[runs["L"] > 2].sort_values("L", kind="stable"), ["L"], "depth {L}"):
        fastest = of_depth.loc[of_depth["speed"].idxmax()]
        if fastest["speed"] > REACHED * limit:
            values = fastest[[f"second_{layer}" for layer in range(2, case.key["L"] + 1)]].to_numpy(dtype=float)
            told = f"layer {2 + int(np.argmax(values))}; first layer {fastest['second_1']:.3g}"
            yield value_of_all(float(values.max()), len(of_depth), case, told, "starts")
    yield "at no depth a start reaches the limit"


_claim = partial(Claim, owner="ours", origin="ours", tables=(RUNS, LIMITS))


def exponential_rather_than_power(tables: Tables) -> Iterator[Found]:
    """Deviance of the power law minus that of the exponential, a case a polygon with three widths and more."""
    for case, counts in by_polygon(tables[RUNS]):
        value, error = power_minus_exponential(counts)
        exponential, power = (fit_failures(counts, law) for law in LAWS)
        told = f"{power.deviance:.3g} and {exponential.deviance:.3g} with {len(counts) - 2} degrees of freedom; "
        told += f"{exponential.b:.3g} a neuron"
        yield Measurement(value, int(counts["n"].sum()), None, case, told, error, "runs")
    yield "needs three widths of one polygon with successes"


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
        reason="The paper conjectures rank one in all but some first layers (Section 5); where the optimal speed does "
        "not rise with the depth, Proposition 3.2 gives such networks. A tenth is left for descents that have not "
        "quite ended. Ranks that another program found were known.",
        measure=largest_second_value,
    ),
    "saddle-success-exponential": _claim(
        statement="The chance to miss a fast direction falls exponentially with the width rather than as a power",
        quantity="deviance of the power law minus that of the exponential law (standard error after Vuong)",
        bound=above(0),
        origin="derived",
        reason="Both laws have two numbers; the one with the smaller deviance makes the runs likelier.",
        tables=(RUNS,),
        measure=exponential_rather_than_power,
        why="The reason is not known.",
    ),
}
