"""The paper's thesis in one picture: how identifiable neurons are against how high the unaligned barrier is."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jaxtyping import Float

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.papers.neuron_identifiability.objectives import identity_ratios
from symlab.papers.neuron_identifiability.rows import consecutive, one_path
from symlab.papers.neuron_identifiability.variants import every_row, label_all, sigma_mlp, split_variants, w_asymmetric
from symlab.plotting.numbers import typeset
from symlab.plotting.pairs import PAIR
from symlab.plotting.style import Style, panels
from symlab.plotting.units import FEW, over_pairs
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Measurement, Tables, at_most, bootstrap_error
from symlab.study.tables import independent, need, where

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Units = Float[np.ndarray, " n"]

FEWEST = 5
"""Kinds of networks of which a rank correlation is worth telling: four are in any order with a chance of 1 in 24."""
DRAWS = 2_000
"""Random orders of the kinds that a rank correlation is compared with."""
RATIO, COST = "identity / optimal objective", r"median swap cost $\Delta$"


def scatter(tables: Tables, style: Style) -> Figure:
    """A point a variant (and data set): its unaligned barrier against its identity ratio, and its median swap cost."""
    kinds = _kinds(tables)
    measures = [name for name in ("ratio", "cost") if any(name in kind for kind in kinds.values())]
    if not measures:
        raise UserError(
            f"it needs matching.csv or swap_costs.parquet, so switch on matching or identification in "
            f"{where(tables['barriers.csv'])}."
        )
    rows, variants = label_all(_barriers(tables))
    looks = variant_looks(variants, style)
    figure, axes = panels(1, len(measures), 0.4 + 3.2 * len(measures), 3.1, sharex=False)
    for axis, name, letter in zip(axes[0], measures, "ab", strict=False):
        shown = {variant: kind for variant, kind in kinds.items() if name in kind}
        swept = [variant for variant in variants[w_asymmetric(variants)].index if variant in shown]
        for _, members in variants.loc[swept].groupby("dataset", sort=False):
            dial = np.array([(shown[v][name].mean(), shown[v]["drop"].mean()) for v in members.index])
            axis.plot(*dial.T, color="0.8", linewidth=4, zorder=0, solid_capstyle="round")
        for variant, kind in shown.items():
            look = looks[variants.loc[variant, "label"]]
            x, y = kind[name], kind["drop"]
            # Of two values, both are shown: the ends of the bar.
            spreads = [np.std(each, ddof=1) if len(each) > FEW else np.ptp(each) / 2 for each in (x, y)]
            axis.errorbar(
                x.mean(),
                y.mean(),
                xerr=spreads[0],
                yerr=spreads[1],
                fmt=look.marker,
                color=look.color,
                markersize=6,
                elinewidth=0.8,
                capsize=0,
            )
        correlation = _rank_correlation(_means(shown, name), _means(shown, "drop"))
        named = "" if math.isnan(correlation) else typeset(f"rank correlation {correlation:.2f}")
        axis.set_title(f"{letter}   {named} ({len(shown)} kinds)" if named else letter, loc="left")
        axis.set_xlabel(RATIO if name == "ratio" else COST)
        axis.set_ylabel("unaligned barrier:\ndrop of train accuracy (pp)")
        if name == "cost":
            _scale_by_root(axis, _means(shown, name).max())
        else:
            axis.set_xlim(-0.08, 1.08)
        highest = max(max(kind["drop"].max() for kind in kinds.values()), 1)
        axis.set_ylim(-0.05 * highest, 1.08 * highest)
        _label(axis, [(kind[name].mean(), kind["drop"].mean(), _short(variants.loc[v])) for v, kind in shown.items()])
    axes[0, -1].yaxis.label.set_visible(len(measures) == 1)
    shown_by = over_pairs(rows).replace(", each drawn", ", at the ends of the bars")
    figure.suptitle(f"{shown_by}; W 0.1: W-asymmetric, $\\sigma_F$ = 0.1", size=style.font_size - 1)
    return figure


def _barriers(tables: Tables) -> pd.DataFrame:
    """Rows of unaligned paths on train data.

    Raises:
        UserError: no accuracy is measured there.
    """
    rows = one_path(need(tables, "barriers.csv"), "train", aligned=False)
    rows = rows[rows["drop_max_pp"].notna()]
    if rows.empty:
        raise UserError(
            f"it needs a classification data set and train among {where(tables['barriers.csv'])}.interpolation.splits."
        )
    return rows


def _kinds(tables: Tables) -> dict[str, dict[str, Units]]:
    """By variant, values of its units: drop (pp), and ratio and cost where they are measured."""
    kinds: dict[str, dict[str, Units]] = {
        str(variant): {"drop": independent(rows.set_index(PAIR)["drop_max_pp"])[0]}
        for variant, rows in _barriers(tables).groupby("variant", sort=False)
    }
    for name, table in (("ratio", "matching.csv"), ("cost", "swap_costs.parquet")):
        measured = tables.get(table)
        if measured is None or measured.empty:
            continue
        # Swap costs are defined for elementwise nonlinearities.
        chosen = measured if name == "ratio" else measured[~sigma_mlp(measured) & consecutive(measured)]
        for variant, rows in chosen.groupby("variant", sort=False):
            if str(variant) in kinds:
                units = independent(identity_ratios(rows))[0] if name == "ratio" else _median_costs(rows)
                kinds[str(variant)][name] = units
    return kinds


def _median_costs(rows: pd.DataFrame) -> Units:
    """Of each network, the median cost of swapping two neurons in a layer, averaged over layers."""
    medians = rows.groupby(["mask_seed", "seed", "layer"])["swap_cost"].median()
    return medians.groupby(level=["mask_seed", "seed"]).mean().to_numpy()


def _means(kinds: dict[str, dict[str, Units]], name: str) -> Units:
    return np.array([kind[name].mean() for kind in kinds.values()])


def _rank_correlation(x: Units, y: Units) -> float:
    """Spearman's; not a number where one of them is constant or not a number."""
    ranks = _ranks(x), _ranks(y)
    return _correlation(*ranks) if all(np.isfinite(each).all() and np.ptp(each) > 0 for each in ranks) else math.nan


def _ranks(values: Units) -> Units:
    """Equal values have the mean of their ranks."""
    return pd.Series(values).rank().to_numpy()


def _correlation(x: Units, y: Units) -> float:
    return float(np.corrcoef(x, y)[0, 1])


def _short(variant: pd.Series) -> str:
    if variant["scheme"] != "w_asymmetric" or variant["activation"] == "sigma":
        return str(variant["label"]).split(",")[0]
    return f"W {variant['sigma_F']:g}"


def _scale_by_root(axis: Axes, highest: float) -> None:
    """Show signed square roots on the x axis, as the paper does for swap costs; ticks are in the table's unit."""
    axis.set_xscale("function", functions=(lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda x: np.sign(x) * x**2))
    root = math.sqrt(max(highest, 1e-9))
    axis.set_xlim(-((0.08 * root) ** 2), (1.15 * root) ** 2)
    step = next(step for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 1e9) if root / step <= 7)
    axis.set_xticks(ticks := [(step * n) ** 2 for n in range(int(1.1 * root / step) + 1)], [f"{t:g}" for t in ticks])


def _label(axis: Axes, points: list[tuple[float, float, str]]) -> None:
    """Write each point's name beside it, or above where that is taken, with a thin line to its point."""
    scale, size = 72 / axis.figure.dpi, 7.5
    right_end = axis.bbox.x1 * scale
    places = [axis.transData.transform(point[:2]) * scale for point in points]
    taken = [(x - 4, x + 4, y) for x, y in places]
    for (x, y), (left, height), name in (
        (points[n][:2], places[n], points[n][2]) for n in sorted(range(len(points)), key=lambda n: points[n][1])
    ):
        width = 0.62 * size * len(name.replace("$", "").replace("\\sigma", "s"))
        shift, side, start = next(
            (shift, side, start)
            for shift in range(1000)
            for side, start in ((1, left + 8), (-1, left - 8 - width))
            if axis.bbox.x0 * scale < start
            and start + width < right_end
            and all(
                start > right or start + width < near or abs(height + shift - up) > 1.3 * size
                for near, right, up in taken
            )
        )
        taken.append((start, start + width, height + shift))
        leader = {"arrowstyle": "-", "linewidth": 0.5, "color": "0.5", "shrinkA": 1, "shrinkB": 3}
        axis.annotate(
            name,
            (x, y),
            (8 * side, shift),
            textcoords="offset points",
            size=size,
            ha="left" if side > 0 else "right",
            va="center",
            arrowprops=leader if shift > size else None,
        )


def seen(tables: Tables) -> str:
    """The rank correlations, and the two ends of the scale."""
    kinds = _kinds(tables)
    parts = []
    for name, told in (("ratio", "the identity's share of the optimum"), ("cost", "the median swap cost")):
        shown = {variant: kind for variant, kind in kinds.items() if name in kind}
        if shown:
            correlation = _rank_correlation(_means(shown, name), _means(shown, "drop"))
            parts.append(f"{correlation:.2f} with {told} ({len(shown)} kinds of networks)")
    barriers = _barriers(tables)
    drops = {case: rows["drop_max_pp"].mean() for case, rows in split_variants(barriers, every_row)}
    high, low = max(drops, key=drops.__getitem__), min(drops, key=drops.__getitem__)
    ends = f"the barrier goes from {drops[high]:.3g} pp ({high}) to {drops[low]:.2g} pp ({low})"
    return f"The rank correlation of the unaligned barrier is {' and '.join(parts)}; {ends}."


FIGURES = (
    Drawing(
        "identifiability-thesis",
        "Identifiable neurons, low barriers",
        """\
The thesis of the paper, study `{study}`: each point is a kind of network, at how identifiable its neurons are (a: the
matching objective of the identity as a share of the optimal one; b: the median cost of swapping two neurons, averaged
over layers) and at how much train accuracy is lost halfway between two unaligned networks. The grey band joins
W-asymmetric networks in the order of σ_F: they are one dial, not independent evidence. Swap costs are not defined for
σ-MLPs.
""",
        scatter,
        seen,
        "The paper has no such figure; its Figs. 3, 4 and 12 show the three quantities one by one.",
    ),
)


def correlate(tables: Tables, name: str) -> list[Found]:
    """Spearman's correlation over variants (and data sets) of a measure of identifiability and the unaligned barrier.

    Its standard error comes from drawing pairs (and networks) of each variant with replacement.
    """
    shown = [kind for kind in _kinds(tables).values() if name in kind]
    if len(shown) < FEWEST:
        return [f"needs {FEWEST} kinds of networks, has {len(shown)}"]

    def statistic(*samples: np.ndarray) -> float:
        means = np.array([sample.mean() for sample in samples])
        return _rank_correlation(means[::2], means[1::2])

    samples = [kind[column] for kind in shown for column in (name, "drop")]
    value, means = statistic(*samples), np.array([sample.mean() for sample in samples])
    generator = np.random.default_rng(0)
    ratios, drops = _ranks(means[::2]), _ranks(means[1::2])
    as_low = (
        0
        if math.isnan(value)
        else sum(_correlation(ratios, generator.permutation(drops)) <= value for _ in range(DRAWS))
    )
    chance = (1 + as_low) / (1 + DRAWS)
    unharmed = sum(mean == 0 for mean in means[1::2])
    told = f"a share of {chance:.1g} of random orders of the kinds has one as low"
    told += f"; {unharmed} of the kinds lose nothing, so they are tied" if unharmed > 1 else ""
    told = f"{len(shown)} kinds of networks; {told}"
    return [Measurement(value, min(map(len, samples)), None, "", told, bootstrap_error(statistic, *samples))]


def _claim(name: str, table: str, measure: str, statement: str, quantity: str) -> Claim:
    return Claim(
        id=f"identifiability-thesis-{name}",
        statement=statement,
        quantity=f"rank correlation over all kinds of networks of {quantity} and the largest drop of train accuracy on "
        "the unaligned path",
        bound=at_most(-0.8),
        owner="derived",
        origin="pilot",
        reason="The paper says that not structural but effective symmetry breaking allows unaligned connectivity; it "
        "gives no number. Fewer than one in a hundred random orders of nine kinds have a correlation this low. The "
        "kinds of one sweep over σ_F are one dial, no independent evidence.",
        tables=(table, "barriers.csv"),
        measure=partial(correlate, name=measure),
    )


CLAIMS = (
    _claim(
        "identity",
        "matching.csv",
        "ratio",
        "The more identifiable the neurons, the lower the unaligned barrier",
        "the ratio of identity to optimal objective",
    ),
    _claim(
        "swap-cost",
        "swap_costs.parquet",
        "cost",
        "The more it costs to swap two neurons, the lower the unaligned barrier",
        "the median swap cost",
    ),
)
