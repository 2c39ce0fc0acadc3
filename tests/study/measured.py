"""What ``study`` gives of made-up numbers, told in lines: for the transcripts of tests/pipeline/test_golden.py."""

import math
from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.measures.job import Job
from symlab.plotting.style import Style, apply_style, mark_entry
from symlab.study import claim as of_claims
from symlab.study import points, statistics, tables
from symlab.study.cases import cases
from symlab.study.claim import Case, Measurement
from symlab.study.curves import curves, measure_each, neighbours
from symlab.study.experiment import Experiment, PointSettings, experiments_under
from symlab.study.facets import Panel, assign_looks, draw_each, draw_grid, draw_rows, facets, labelled

from ..kernel.golden import picture, short


def told(found):
    """A measurement in a line; a phrase as it is."""
    if isinstance(found, str):
        return found
    ends = found.interval and tuple(map(short, found.interval))
    known = (found.value, found.spread, found.error, found.degrees)
    numbers = " ".join("none" if each is None else short(each) for each in known)
    texts = f"{found.unit} | {found.detail} | {found.open}"
    return f"{found.case!s} {getattr(found.case, 'key', '')} {numbers} {ends and ' to '.join(ends)} n {found.n} {texts}"


def samples(*sizes):
    rng = np.random.default_rng(5)
    return [1 + at + rng.gamma(4, 0.25, size) for at, size in enumerate(sizes)]


def numbers():
    few, many, whole = samples(3, 7, 64)
    texts = {"case": "c", "detail": "d", "unit": "masks"}
    for function in (of_claims.ratio_of, of_claims.difference_of):
        for pair in ((few, many), (many, few), (few[:1], many), (few, -many), (few * 0, many), (-few, many)):
            yield told(function(*pair, **texts))
    for hits, n in ((0, 5), (5, 5), (3, 9), (1, 1)):
        yield told(of_claims.share_of(hits, n, "c", "d", "masks", "late"))
    for values in (few, few[:1], [1.0, np.inf], [1.0, np.nan], [np.inf, -np.inf], few * 0):
        yield told(of_claims.mean_of(np.array(values), **texts))
    for value in (of_claims.value_of_all(2.0, 3, "c", "d", "seeds", "late"), of_claims.value_of_all(2.0, 1)):
        yield told(value)
    measured = [of_claims.mean_of(few, Case("a", layer=2, kind="deep")), of_claims.mean_of(many, Case("a", layer=3))]
    yield told(of_claims.minus(*measured, detail="d"))
    yield told(of_claims.minus(measured[1], Measurement(1.0, 1)))
    measured += ["a phrase", of_claims.exact_value(math.nan, case="b")]
    yield from map(told, of_claims.worst_of_each(measured, abs, "kind", "layer"))

    def extreme(*given):
        return max(each.mean() for each in given) - min(map(np.min, given))

    for given in ((few, many), (whole,), (few[:1], many), (few * 0 + 1,), (whole, few)):
        yield told(of_claims.statistic_of(extreme, *given, **texts, resamples=20))
    yield told(of_claims.statistic_of(lambda x: math.inf if len(x) < 3 else 1.0, few))
    bounds = [of_claims.at_most(1, "pp"), of_claims.at_least(-1), of_claims.between(-1, 1)]
    for bound in (*bounds, of_claims.below(1), of_claims.above(-1)):
        inside = [bound.allows(value) for value in (-math.inf, -1, 0, 1, math.inf, math.nan)]
        around = [bound.leaves_open(*ends) for ends in ((-1, 0), (0, 0), (0.5, 1), (2, 3), (-2, -1.5))]
        yield f"{bound} {inside} {around}"
    yield from (short(statistics.slope(pd.Series(y, [2, 4, 8]))) for y in ([1.0, 3.0, 8.0], [0.0, 1.0, 1.0]))
    yield f"{statistics.rank_correlation([1, 2, 3, 3], [2, 1, 5, 4]):.5f} {statistics.rank_correlation([1, 1], [1, 2])}"


def rows(schemes=("standard", "masked"), pairs=4):
    rng = np.random.default_rng(2)
    return pd.DataFrame(
        {"scheme": scheme, "layer": layer, "mask_seed": pair // 2, "pair": pair}
        | {"x": rng.uniform(1, 2) * layer, "y": 1 + pair}
        for scheme in schemes
        for layer in (1, 2, 4)
        for pair in range(pairs - (scheme == "masked"))
    )


def of_cases():
    whole = cases(rows(), "x", ["scheme", "layer"], ("mask_seed", "pair"), "{scheme} in {layer}")
    other = cases(rows(), "y", ["scheme", "layer"], "pair", lambda key: f"{key['layer']}", several="sum")
    base = whole.at(scheme="standard").keyed("layer")
    masked = whole.without(scheme="standard")
    seeds = rows().rename(columns={"pair": "seed"})
    groups = {
        "of masks and seeds": cases(seeds, "x", ["scheme"], ["mask_seed", "seed"], "{scheme}").means(),
        "means": whole.means(), "sum": other.means(), "of all": other.of_all(np.max),
        "exact": cases(rows()[:1], "x").exact(), "ratios": masked.ratios(base), "differences": masked.differences(base),
        "paired": whole.paired_ratios(other), "paired of 0": other.paired_ratios(other * 0),
        "divided": (masked / base).means(), "less": (3 * masked - 1).means(), "lower": (masked - base).means(),
        "first of equals": cases(rows().assign(x=2.0), "x", ["scheme"], "pair", "{scheme}").extreme(abs).means(),
        "lowest": whole.extreme(lambda mean: -mean, "layer").means(),
        "told": whole.detailed(lambda each: f"{len(each.values)} values").map(np.log10).means(),
        "chosen": whole.where(lambda each: each.mean > 3).means(),
        "slopes": cases(rows().set_index("layer"), "x", ["scheme"], "pair", "{scheme}", statistics.slope).means(),
    }  # fmt: skip
    for name, found in groups.items():
        yield from (f"{name}: {told(each)}" for each in found)
    try:
        masked.ratios(whole)
    except ValueError as error:
        yield str(error)


def of_curves():
    def peak(curve):
        at = curve["x"].idxmax()
        return float(at), f"peak {curve['x'][at]:.3g}", neighbours(list(curve.places), at, 0.25)

    table = rows().assign(many=3)
    table["x"] *= table["layer"].map({1: 1.0, 2: 3.0, 4: 1.0})
    given = curves(table, ["x", "y"], "layer", ["scheme"], "{scheme}", "students", "many")
    given += curves(table, ["x"], ["layer", "mask_seed"], ["scheme"], lambda key: f"of {key['scheme']}")
    given += curves(table.assign(x=np.nan), ["x"], "layer", unit="runs")
    for each in given:
        means = " ".join(short(mean) for mean in each.means.to_numpy().flat)
        yield f"{each.case} {each.n} {each.unit} {each.defined} {[*each.places.names]} {[*each.places]} {means}"
        yield told(each.measure(lambda curve: (float(curve["x"].max()), "highest")))
    yield from map(told, measure_each(given[:2], peak, "no curve"))
    yield from map(told, measure_each(given[1:3], peak, "no curve", lambda curve: f"{curve.n} units"))
    yield from measure_each([], peak, "no curve")
    yield from map(told, measure_each(given[:2], lambda curve: (curve["x"].sum(), "", (5.0, 12.0)), ""))
    for at in (1, 2, 4):
        yield f"{neighbours([4, 1, 2], at)} {neighbours([4, 1, 2], at, 0.5)}"


def pictures():
    style = Style(font_size=8)
    table = rows().assign(label=lambda rows: rows["scheme"] + " one", seed=lambda rows: rows["pair"])
    looks = assign_looks(["standard one", "masked one", "absent"], style)
    one = {"axes": labelled("layer", "x", "x", ylim=(0, 9)), "options": {"unit": ["pair"]}}
    with apply_style(style):
        yield facets(table, "layer", "x", looks, row="scheme", column="mask_seed", **one, title="mask {}".format)
        yield facets(table, "layer", "x", looks, row="scheme", **one, more=lambda axis, part: axis.axhline(len(part)))
        ordered = assign_looks(["masked one", "standard one"], style, ordered=True, marked=False)
        more = {"axes": labelled("layer", "x", "y", yticks=(2, 4)), "most": 3, "draw": draw_rows}
        yield facets(table, "layer", "x", ordered, column="pair", **more)
        panel = Panel(table, "layer", "x", {"xticks": (1, 4)}, draw_each, {"marker": False})
        grid = [[panel, Panel(table, "x", "y", draw=draw_rows, options={"join": True, "linewidth": 3})], [panel]]
        texts = {"rows_named": ["up", "down"], "entries": [mark_entry("more", "x", color="r")], "note": "a note"}
        for shared in (("row", "col"), (False, False), ("col", "row")):
            yield draw_grid(grid, looks, **texts, sharex=shared[0], sharey=shared[1])


class Settings(PointSettings):
    by: ClassVar = {"k": "k", "seed": "seeds"}
    k: list[float]
    seeds: int = 2
    factor: float = 1.0
    shown: int = 1

    def follows(self, point):
        earlier = [k for k in self.k if k < point["k"]]
        return point | {"k": earlier[-1]} if earlier and self.factor == 2 else None


def compute(settings, job, k, seed, before, dataset="", **_):
    start = 0.0 if before is None else float(before["rows.csv"]["x"].sum())
    found = pd.DataFrame({"k": k, "name": ["ä b", "c"], "x": [settings.factor * k + seed, start], "on": dataset})
    return {"rows.csv": found} | ({"once.csv": found[:1]} if seed == 0 else {})


def of_points(folder):
    asked = experiments_under("e", "tests.study")
    experiment = asked("f", Settings, "measured:compute", ("rows.csv",), unused=("shown",), datasets=True)
    yield f"{experiment}"
    on_data = {"datasets": {"d/e": None, "f": None}, "contents": {"d/e": "abc", "f": "def"}}
    said = []
    for more, settings, chunk in (
        (on_data, Settings(k=[0.5, 2], seeds=1), (1, 3)),
        (on_data, Settings(k=[0.5, 2], seeds=1), None),
        ({}, [Settings(k=[1, 3], factor=2), Settings(k=[1], seeds=1, shown=2)], None),
    ):
        job = Job("study", folder=folder, code={"a": "1"}, report=said.append, **more)
        found = points.run_experiment(experiment, settings, job, chunk)
        for name, table in found.items():
            yield from (f"== {name}", table.to_csv(index=False).rstrip(), "$ ")
        yield from [*said, f"{sorted(path.name for path in folder.iterdir())}"]
        said.clear()
    joined = Experiment("e", Settings, "tests.study.measured:compute", ("rows.csv",), "symlab.study.points:join_grids")
    found = points.run_experiment(joined, [Settings(k=[1], seeds=1), Settings(k=[2], seeds=1)], Job("study"))
    yield from ("== ", found["rows.csv"].to_csv(index=False).rstrip(), "$ ")
    yield f"{points.spec_of_point(experiment, Settings(k=[1, 3], factor=2), {'k': 3, 'seed': 0}, Job('study'))}"


def sentences():
    one = rows().assign(study="s", variant="v", epoch=lambda rows: rows["layer"], classes=4.0)
    asked = (
        lambda: tables.need({}, "a.csv"), lambda: tables.need({"a.csv": one}, "a.csv").shape,
        lambda: tables.some(one[:0], "nothing is there."), lambda: tables.need_several(one, "layer", "key", 3),
        lambda: tables.need_several(one, "scheme", "studies.s.key", 3), lambda: tables.where(one),
        lambda: tables.last_epoch(one).shape, lambda: (tables.chance(one), tables.chance(one[["x"]])),
        lambda: tables.one_matching(one.assign(aligned=one["pair"] % 2, matching=one["layer"])).shape,
        lambda: tables.independent(one[:4].set_index(["mask_seed", "pair"])["y"]),
    )  # fmt: skip
    for ask in asked:
        try:
            yield str(ask())
        except UserError as error:
            yield str(error)


def measured(folder, patched):
    for part in (numbers, of_cases, of_curves, sentences):
        yield f"$ {part.__name__}"
        yield from part()
    yield from ("$ points", *of_points(folder))
    seen = set()
    for figure in pictures():
        lines = picture(figure).splitlines()
        yield from ("== figure", *[line for line in lines if line not in seen])
        seen.update(lines)
        for axis in figure.axes:
            named = (axis.xaxis.label.get_visible(), axis.yaxis.label.get_visible())
            ticks = [short(place) for place in (*axis.get_xlim(), *axis.get_ylim(), *axis.get_yticks()[:3])]
            yield f"  {named} {axis.xaxis.get_tick_params().get('labelbottom')} {' '.join(ticks)}"
        plt.close(figure)
