"""Fig. 7: barriers of MLPs on MNIST against their width, with the networks as they are and permuted."""

from functools import partial

import pandas as pd

from symlab.papers.permutation_invariance import networks
from symlab.papers.permutation_invariance.drawing import method_looks, width_axis
from symlab.papers.permutation_invariance.students import over
from symlab.plotting.style import ERROR_ALPHA, Axes, Figure, Look, Style
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, above, at_least
from symlab.study.curves import Curve, measure_each
from symlab.study.facets import facets
from symlab.study.tables import need

TABLE = "barriers.csv"
STEPS = (
    "The paper writes of 10,000 epochs, six million steps of its batch of 100. Read as 10,000 steps, 17 epochs, this "
    "is the paper's training, and its peak at a width of 25 was not found."
)


def barrier_against_width(tables: Tables, style: Style) -> Figure:
    rows = networks.drawn(need(tables, TABLE), 3)
    n = rows.groupby(["width", "method", *networks.kinds(rows)], dropna=False).size().min()
    return facets(
        rows, "width", "barrier_max", method_looks(style), column="kind", line="method", draw=_percentiles, height=2.6,
        axes={**width_axis(rows["width"]), "ylabel": "barrier of the train loss (NLL)"},
        more=lambda axis, _: axis.update_datalim([(float(rows["width"].min()), 0.0)]),
        note=f"mean and 10th to 90th percentile over {n} pairs",
    )  # fmt: skip


def _percentiles(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str) -> None:
    """The mean over pairs as a line and the 10th to the 90th percentile as a band."""
    groups = rows.groupby(x)[y]
    mean, low, high = groups.mean(), groups.quantile(0.1), groups.quantile(0.9)
    axis.plot(mean.index, mean, color=look.color, linestyle=look.linestyle, marker=look.marker, label=label)
    axis.fill_between(mean.index, low, high, color=look.color, alpha=ERROR_ALPHA, linewidth=0)


FIGURES = {
    "permutation-7": Drawing(
        "Barrier of the loss against network width",
        "Barrier of the train loss (NLL) on the straight line between two trained networks against their hidden width, "
        "direct and with the neurons of one permuted to match the other's. Lines are means over pairs, bands run from "
        "the 10th to the 90th percentile.",
        barrier_against_width,
        seen="Between the ends of the widths the largest matched barrier is {peak} times the larger one at the ends.",
        differs="The paper writes of 10,000 epochs, which are read as steps here, and names two works "
        "for how it matches.",
    ),
}


def direct_stays(tables: Tables) -> list[Found]:
    """Smallest mean direct barrier over the widths as a fraction of the largest, for each data set and depth."""

    def least(curve: Curve) -> tuple[float, str]:
        low, high = curve["barrier_max"].min(), curve["barrier_max"].max()
        return over(low, high), f"{low:.3g} to {high:.3g}"

    rows = networks.train_rows(networks.as_in_fig_7(tables[TABLE]))
    found = networks.mean_curves(rows[rows["matching"] == networks.DIRECT], by=networks.kinds(rows))
    return measure_each(found, least, networks.LACKING)


_claim = partial(Claim, owner="paper", tables=(TABLE,))
CLAIMS = {
    "permutation-7-peak": _claim(
        statement=networks.UP_AND_DOWN,
        quantity=networks.MIDDLE_OVER_ENDS,
        bound=above(1),
        origin="paper",
        reason="'The barrier goes up and then goes down as the width increases', with its peak near a width of 25.",
        measure=lambda tables: networks.middle_over_ends(networks.as_in_fig_7(tables[TABLE])),
        why={
            "mnist, depth 4, activation matching": "The barrier is largest at the narrowest width of the paper and "
            f"falls from there. {STEPS}",
            "mnist, depth 4, weight matching": f"The barrier changes little with the width, without a peak. {STEPS}",
        },
    ),
    "permutation-7-direct": _claim(
        statement="Without matching the barrier stays large at all widths",
        quantity="smallest mean direct loss barrier (training set) over the widths as a fraction of the largest",
        bound=at_least(1 / 3),
        origin="ours",
        reason="'The NLL is constantly large for all widths': a third of the largest is read as not vanishing.",
        measure=direct_stays,
    ),
}
