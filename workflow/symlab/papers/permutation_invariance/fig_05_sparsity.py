"""Fig. 5: sparsity (PQ index by neuron) of students against their width, by learning rate."""

import math
from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.permutation_invariance import drawing, students
from symlab.plotting.style import Figure, Look, Style, palette
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, above, at_most
from symlab.study.curves import Curve, measure_each
from symlab.study.facets import assign_looks, facets, labelled
from symlab.study.tables import need, need_several
from symlab.words import counted

TABLE = "sparsity_runs.csv"
SETTING = ["source", "M", "d"]
LACKING = "needs two learning rates with two widths that both have"


def by_neuron_against_width(tables: Tables, style: Style) -> Figure:
    table = need(tables, TABLE)
    runs = students.trained(table)
    need_several(runs.assign(c=runs["c"].round(6)), "c", drawing.key_of(table, "sparsity"))
    need_several(table, "m", drawing.key_of(table, "sparsity"))
    rows = _kept(tables)
    rate = rows["rate"].map("c = {:g}".format)
    rows = rows.assign(
        label=np.where(rows["source"] == students.UNIFORM, "samples", rows["source"].map(drawing.SHORT) + ", " + rate),
        title=[f"$M$ = {M}, $d$ = {d}" for M, d in zip(rows["M"], rows["d"], strict=True)],
    )
    names = [name for name in dict.fromkeys(rows["label"]) if name != "samples"]
    looks = assign_looks(names, style, ordered=True)
    looks["samples"] = Look(palette(style)[drawing.COLORS[students.UNIFORM]], (0, (4, 1.5)), "*")
    return facets(
        rows, "m", "pq_rows", looks, column="title", draw=drawing.draw_means, height=2.6,
        axes=labelled(drawing.WIDTH, "PQ index of row norms"),
        more=lambda axis, part: drawing.mark_widths(part["M"].iloc[0], (2,), axis), entries=drawing.width_marks(),
        note=drawing.say_pairs(table, "students"),
    )  # fmt: skip


FIGURES = {
    "permutation-5": Drawing(
        "Sparsity by neuron against student width",
        "PQ index (p = 1/2, q = 1) of the row norms of students against their width m, a line for each learning rate "
        "lr = c d/m and one for uniform samples of the global minima. 0 says that all neurons are equally large, "
        "1 − k/m that k equal ones are left of m. Runs that diverged or ended with a loss above 1e-5 are not drawn.",
        by_neuron_against_width,
        seen="From the narrowest students to the widest, the index at the largest learning rate changes by {growth}.",
        differs="The paper does not say which learning rates its lines have.",
    ),
}


def rise_with_rate(curve: Curve) -> tuple[float, str]:
    """Smallest rise of the mean PQ index from the smallest to the largest learning rate, over widths."""
    index = curve["pq_rows"].unstack("rate")
    low, high = index.columns
    return (index[high] - index[low]).min(), f"c = {high:g} less c = {low:g}; {counted(len(index), 'widths')}"


def growth_at_largest_rate(tables: Tables) -> list[Found]:
    """By how much the mean PQ index at the largest learning rate grows from the smallest to the largest width.

    The detail tells the same of the other rates.
    """
    means = students.trained(_kept(tables)).groupby([*SETTING, "rate", "m"])["pq_rows"].mean()

    def growth(curve: Curve) -> tuple[float, str]:
        index = curve["pq_rows"].unstack("m")
        widths, (rate, (low, *_, high)) = index.columns, next(iter(index.iloc[[-1]].iterrows()))
        of_case = means.loc[tuple(curve.case.key[name] for name in SETTING)].unstack("m")
        others = of_case[of_case.index < rate][[widths[0], widths[-1]]].dropna()
        told = ", ".join(f"{change:.3g} at c = {each:g}" for each, change in others.diff(axis=1).iloc[:, -1].items())
        return high - low, f"c = {rate:g}: {low:.3g} at m = {widths[0]:g}, {high:.3g} at {widths[-1]:g}; growth {told}"

    return measure_each(_of_extremes(tables), growth, LACKING)


def growth_at_smallest_rate(tables: Tables) -> list[Found]:
    """The growth with width at the smallest learning rate as a fraction of that at the largest, which must be one."""

    def share(curve: Curve) -> tuple[float, str]:
        index = curve["pq_rows"].unstack("m")
        growths = index.iloc[:, -1] - index.iloc[:, 0]
        return students.over(*growths), ", ".join(f"{growth:.3g} at c = {rate:g}" for rate, growth in growths.items())

    def lacks(curve: Curve) -> str:
        value, told = share(curve)
        compare = f"needs a growth at the largest learning rate to compare with ({told})"
        return compare if math.isnan(value) else ""

    return measure_each(_of_extremes(tables), share, LACKING, lacks)


def excess_over_uniform(tables: Tables) -> list[Found]:
    """Smallest excess of the mean PQ index of trained students over that of uniform samples: all rates and widths."""

    def smallest(curve: Curve) -> tuple[float, str]:
        samples = curve["pq_rows"]["samples"].droplevel("rate")
        own = curve["pq_rows"]["trained"].unstack("rate")
        detail = f"{own.shape[1]} learning rates; samples {samples.min():.3g} to {samples.max():.3g}"
        return own.sub(samples, axis="index").min().min(), detail

    both = students.beside_samples(_kept(tables))
    both.loc[both["side"] == "samples", "rate"] = 0.0
    found = students.mean_runs(both, "pq_rows", ["side", "rate", "m"])
    return measure_each(found, smallest, "needs uniform samples at a width of trained students")


def _kept(tables: Tables) -> pd.DataFrame:
    """Students that were kept, with their ``rate`` c: times m / d it is not the same number at every width."""
    rows = students.keep(need(tables, TABLE))
    return rows.assign(rate=rows["c"].round(6))


def _of_extremes(tables: Tables) -> list[Curve]:
    """The index at the smallest and the largest rate with two widths, at the widths that both have."""
    rows = students.trained(_kept(tables))
    rows = rows[rows.groupby([*SETTING, "rate"])["m"].transform("nunique") > 1]
    rate = rows.groupby(SETTING)["rate"]
    rows = rows[(rows["rate"] == rate.transform("min")) | (rows["rate"] == rate.transform("max"))]
    rows = rows[rows.groupby([*SETTING, "m"])["rate"].transform("nunique") == 2]
    rows = rows[rows.groupby(SETTING)["m"].transform("nunique") > 1]
    return students.mean_runs(rows, "pq_rows", ["rate", "m"])


DECAYING = "The learning rates decay with the width as c d/m, in which the stability limit is nearly constant."

_claim = partial(Claim, bound=above(0), owner="paper", origin="paper", tables=(TABLE,))
CLAIMS = {
    "permutation-5-rate": _claim(
        statement="Larger learning rates give sparser students",
        quantity="smallest excess over the widths of the mean PQ index by neuron at the largest learning rate over "
        "that at the smallest",
        reason=f"'With a smaller learning rate the PQI of minima is smaller': the extreme rates alone. {DECAYING}",
        measure=lambda tables: measure_each(_of_extremes(tables), rise_with_rate, LACKING),
    ),
    "permutation-5-growth": _claim(
        statement="At a large learning rate students are sparser the wider they are",
        quantity="growth of the mean PQ index by neuron from the smallest to the largest width",
        reason="'When the learning rate is large, the PQI also increases with the increase in network width'. "
        f"{DECAYING}",
        measure=growth_at_largest_rate,
        why={
            "M = 6, d = 8": "The largest rate at which students are kept is past the sparsity threshold at every "
            "width, and a zero row counts most among few rows. At the rates below it the index grows with the width "
            "(told beside the value)."
        },
    ),
    "permutation-5-no-growth": _claim(
        statement="At a small learning rate wider students are not sparser",
        quantity="growth of the mean PQ index by neuron with width as a fraction of that at the largest rate",
        bound=at_most(0.5),
        origin="ours",
        reason="'This phenomenon is not evident when the learning rate is low': less than half is read as not evident.",
        measure=growth_at_smallest_rate,
    ),
    "permutation-5-uniform-smallest": _claim(
        statement="Uniform samples of the minima are less sparse than any trained student",
        quantity="smallest excess of the mean PQ index by neuron of trained students over that of uniform samples",
        reason="'The uniformly sampled minima have the smallest PQI or sparsity.'",
        measure=excess_over_uniform,
        why={
            "M = 6, d = 8": "Below the sparsity threshold the rows of trained students are more equal than those of "
            "a uniform sample, which are lengths of a randomly cut line, whose index tends to 1 − π/4. Past the "
            "threshold, where whole rows are zero, they exceed samples at the narrowest width alone."
        },
    ),
}
