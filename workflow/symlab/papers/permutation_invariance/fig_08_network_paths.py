"""Fig. 8: loss along the path between MLPs on MNIST, at three widths: the ends and the peak of the barrier."""

from functools import partial

from symlab.papers.permutation_invariance import networks
from symlab.papers.permutation_invariance.drawing import method_looks, path_panel
from symlab.papers.permutation_invariance.students import over
from symlab.plotting.style import Figure, Style
from symlab.plotting.units import over_pairs
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, at_least, at_most
from symlab.study.curves import Curve, curves, measure_each
from symlab.study.facets import draw_grid
from symlab.study.tables import need

BARRIERS, CURVES = "barriers.csv", "curves.csv"
PEAK = 25
"""The width at which the paper has its peak, and shows that matching helps little."""


def paths_at_three_widths(tables: Tables, style: Style) -> Figure:
    rows = networks.drawn(need(tables, CURVES), 3)
    grid, names = [], []
    for name, part in rows.groupby("kind", sort=False):
        first, *between, last = sorted(part["width"].unique())
        shown = [first, min(between, key=lambda width: abs(width - PEAK)), last]
        grid.append([path_panel(part[part["width"] == width], f"width {width:g}") for width in shown])
        names.append(str(name))
    return draw_grid(grid, method_looks(style), line="method", rows_named=names, note=over_pairs(rows))


FIGURES = {
    "permutation-8": Drawing(
        "Loss along the path at three widths",
        "Train loss (NLL) on the straight line between two networks of a pair: λ = 0 is the first network, λ = 1 the "
        "second, as it is (direct) or with its neurons permuted to match the first. From left to right the smallest "
        "width, 25 (where the paper has its peak), and the largest. Lines are means over pairs, bands one standard "
        "deviation.",
        paths_at_three_widths,
        seen="At the largest width matching leaves {wide:%} of the barrier.",
        differs="The paper writes of 10,000 epochs, which are read as steps here.",
    ),
}


def permuted_over_direct(tables: Tables, at_peak: bool) -> list[Found]:
    def measured(curve: Curve) -> Found:
        def share(drawn: Curve) -> tuple[float, str]:
            width = curve["barrier_max"].idxmax() if at_peak else curve.places[-1]
            permuted, direct = drawn.means.loc[width]
            return over(permuted, direct), f"{permuted:.3g} against {direct:.3g} at width {width:g}"

        return curve.measure(share)

    rows = networks.matched(networks.as_in_fig_7(tables[BARRIERS]))
    return [*map(measured, networks.mean_curves(rows, ("barrier_max", "direct")))] or [networks.LACKING]


def ends_of_path(tables: Tables) -> list[Found]:
    def largest(curve: Curve) -> tuple[float, str]:
        fractions = curve.means.iloc[:, [0, -1]].max(axis=1) / curve.means.max(axis=1)
        return fractions.max(), f"largest at width {fractions.idxmax():g}; {len(fractions)} widths"

    rows = networks.train_rows(networks.as_in_fig_7(tables[CURVES]), 1)
    direct = rows[rows["matching"] == networks.DIRECT]
    # A pair is a row, and a place on its path a column.
    paths = direct.pivot(index=[*networks.kinds(rows), "width", "mask_seed", "pair"], columns="lambda", values="loss")
    found = curves(paths.reset_index(), list(paths.columns), "width", networks.kinds(rows), networks.name_networks)
    return measure_each(found, largest, networks.LACKING)


_claim = partial(Claim, owner="paper", origin="ours", tables=(BARRIERS,))
CLAIMS = {
    "permutation-8-peak": _claim(
        statement="Where the matched barrier peaks, matching helps little",
        quantity="permuted as a fraction of direct mean loss barrier at that width",
        bound=at_least(0.5),
        reason="'When the model width is m = 25, the effect of permutation is pretty limited': half is read as that.",
        measure=partial(permuted_over_direct, at_peak=True),
        why={
            "mnist, depth 4, activation matching": "Matching by activations removes most of the barrier at every "
            "width, also at the narrowest, where most is left."
        },
    ),
    "permutation-8-wide": _claim(
        statement="At the largest width matching removes most of the barrier",
        quantity="permuted as a fraction of direct mean loss barrier",
        bound=at_most(0.25),
        reason="The paper's permuted curve is far below the direct one in that panel; less than a quarter is read as "
        "far below.",
        measure=partial(permuted_over_direct, at_peak=False),
        why={
            "mnist, depth 4, weight matching": "Matching by weights leaves more of the barrier than matching by "
            "activations at every width."
        },
    ),
    "permutation-8-ends": _claim(
        statement="The trained networks themselves fit the data",
        quantity="their mean loss as a fraction of the largest on the direct path, at the width where that is largest",
        bound=at_most(0.1),
        reason="The paper's curves end near 0; a tenth of their height is read as near.",
        tables=(CURVES,),
        measure=ends_of_path,
    ),
}
