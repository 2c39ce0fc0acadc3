"""How swap costs are drawn, as sign(x) sqrt(|x|): heat maps of a network's neurons, and boxes over networks."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.masks import STANDARD, SYRE_FROM_1, any_of, w_asymmetric
from symlab.papers.neuron_identifiability.rows import MODEL, signed_sqrt
from symlab.papers.neuron_identifiability.swap_costs import MAHALANOBIS, RIDGE, reported
from symlab.papers.neuron_identifiability.variants import telling_variants
from symlab.plotting.numbers import typeset
from symlab.plotting.style import PAGE, Axes, Figure, Look, Style, legend, name_row, panels
from symlab.study.claim import Tables
from symlab.study.tables import need, some, where

COST = r"signed $\sqrt{|\Delta_{(ij)}^{\mathrm{out}}|}$ (weight norm)"
INFINITE = "black"


Maps = dict[tuple[str, str], np.ndarray]
"""Matrices of costs by the names of their row and column."""


def split_estimators(tables: Tables) -> dict[str, pd.DataFrame]:
    """Swap costs by estimator: Mahalanobis alone, or it and the ridge costs at the reported beta.

    Where ridge costs are given, a variant's Mahalanobis costs are those of the networks that have ridge costs.
    """
    costs = need(tables, MAHALANOBIS)
    ridge = tables.get(RIDGE)
    if ridge is None or ridge.empty:
        return {"Mahalanobis": costs}
    ridge = reported(tables, RIDGE)
    measured = pd.MultiIndex.from_frame(ridge[MODEL].drop_duplicates())
    both = pd.MultiIndex.from_frame(costs[MODEL]).isin(measured) | ~costs["variant"].isin(ridge["variant"])
    return {"Mahalanobis": costs[both], f"ridge, {name_beta(ridge)}": ridge}


def name_beta(ridge: pd.DataFrame) -> str:
    """The beta of ridge costs as a title says it."""
    return rf"$\beta$ = {ridge['beta'].iloc[0]:g}"


def need_k(table: pd.DataFrame) -> pd.DataFrame:
    """The rows with an intrinsic dimension k.

    Raises:
        UserError: there are none.
    """
    lacking = f"{where(table)}.dataset has no intrinsic dimension k; use gmm with sweep: {{k: [2, 8, 32]}}."
    return some(table[table["k"].notna()], lacking)


def paper_variants(table: pd.DataFrame) -> pd.DataFrame:
    """The kinds of networks of the paper's Figs. 12 and 16-19 that the study has, in this order, with labels: standard,
    W-asymmetric with sigma_F = 0 and the smallest >= 1, syre with the smallest >= 1; a variant a data set of each."""
    variants = telling_variants(table)
    chosen = variants[any_of(STANDARD, w_asymmetric, SYRE_FROM_1)(variants)]
    return chosen.drop_duplicates(["scheme", "sigma_F", "dataset"])


def count_networks(rows: pd.DataFrame) -> str:
    """How many networks stand behind each of a figure's boxes, as a phrase."""
    counts = rows[MODEL].drop_duplicates().groupby("variant").size()
    n = f"{counts.min()} to {counts.max()}" if counts.min() < counts.max() else f"{counts.max()}"
    masks = int(rows.groupby("variant")["mask_seed"].nunique().max())
    networks = "network" if n == "1" else "networks"
    return f"n = {n} {networks} with {'one draw' if masks == 1 else f'{masks} draws'} of masks a box"


def choose_network(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the network with the smallest mask seed and, of those, the smallest seed."""
    rows = rows[rows["mask_seed"] == rows["mask_seed"].min()]
    return rows[rows["seed"] == rows["seed"].min()]


def cost_matrix(rows: pd.DataFrame, size: int | None = None) -> Float[np.ndarray, "m m"]:
    """Signed square roots of one layer's swap costs, symmetric, 0 on the diagonal, of the first ``size`` neurons."""
    size = count_complete(rows) if size is None else size
    rows = rows[rows["j"] < size]
    i, j = rows["i"].to_numpy(), rows["j"].to_numpy()
    matrix = np.zeros((size, size))
    matrix[i, j] = matrix[j, i] = signed_sqrt(rows["swap_cost"])
    return matrix


def count_complete(rows: pd.DataFrame) -> int:
    """How many of a layer's first neurons have the costs of all their pairs; ridge costs beyond are of some only.

    Raises:
        UserError: only two have, of more neurons.
    """
    counts = np.bincount(rows["j"].to_numpy(dtype=np.int64), minlength=1)
    fewer = np.flatnonzero(counts < np.arange(len(counts)))
    size = int(fewer[0]) if len(fewer) else len(counts)
    if size <= 2 < len(counts):
        raise UserError(
            f"{where(rows)} has no swap costs of all pairs of a layer's first neurons; set its ridge.block to "
            "their number."
        )
    return size


def robust_limit(matrices: list[np.ndarray]) -> float:
    """A robust largest magnitude: the 99th percentile of the finite off-diagonal values' magnitudes."""
    values = np.concatenate([matrix[np.triu_indices(len(matrix), 1)] for matrix in matrices])
    finite = np.abs(values[np.isfinite(values)])
    limit = float(np.quantile(finite, 0.99)) if len(finite) else 0.0
    return limit or 1.0


def draw_maps(groups: Mapping[str, Maps], style: Style, title: str = "", linear: float = 0.2) -> Figure:
    """A figure of heat maps by (row name, column name); the rows of a group have one colour scale and one bar.

    Above each map stand the median cost and the share of negative ones, in the units of the tables. Colours are linear
    within ``linear`` of their limit; beyond it asinh leaves small costs their sign's colour.
    """
    from matplotlib import colormaps
    from matplotlib.colors import AsinhNorm
    from matplotlib.patches import Patch
    from matplotlib.ticker import FixedLocator

    cells = {cell: matrix for matrices in groups.values() for cell, matrix in matrices.items()}
    rows, columns = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    same_size = len({len(matrix) for matrix in cells.values()}) == 1
    size = min(2.0, (PAGE - 1.4) / len(columns))
    width, height = 1.4 + size * len(columns), 0.6 + (size + 0.4) * len(rows)
    figure, axes = panels(len(rows), len(columns), width, height, sharex=same_size, sharey=same_size)
    for (down, across), each in np.ndenumerate(axes):
        each.set(xlabel="neuron $j$", ylabel="neuron $i$")
        each.xaxis.label.set_visible(down == len(rows) - 1)
        each.yaxis.label.set_visible(across == 0)
    colors = colormaps["RdBu"].with_extremes(bad=INFINITE)
    for matrices in groups.values():
        limit = robust_limit(list(matrices.values()))
        own_rows = list(dict.fromkeys(row for row, _ in matrices))
        for (row, column), matrix in matrices.items():
            axis: Axes = axes[rows.index(row), columns.index(column)]
            norm = AsinhNorm(limit * linear, -limit, limit)
            image = axis.imshow(
                np.ma.masked_invalid(matrix), cmap=colors, norm=norm, interpolation="nearest", origin="upper"
            )
            heading = f"{column}\n" if row == rows[0] else ""
            axis.set_title(heading + describe(matrix), fontsize=style.font_size - 1)
            axis.spines[:].set_visible(True)
        for row in own_rows:
            if row:
                name_row(axes[rows.index(row), -1], row)
        bar = figure.colorbar(
            image, ax=axes[[rows.index(row) for row in own_rows]], extend="both", aspect=25, format="{x:g}"
        )
        bar.locator = FixedLocator(signed_ticks(limit, limit * linear))
        bar.minorticks_off()
        bar.set_label("signed root of the cost\n(red: saves, blue: costs)")
    for (row, column), axis in np.ndenumerate(axes):
        if (rows[row], columns[column]) not in cells:
            axis.remove()
    if any(np.isinf(matrix).any() for matrix in cells.values()):
        legend(figure, [Patch(facecolor=INFINITE, label="infinite cost")], title)
    else:
        figure.suptitle(title, fontsize=style.font_size - 1)
    return figure


def describe(matrix: np.ndarray) -> str:
    """Median and share of negative costs of a map, for people."""
    roots = matrix[np.triu_indices(len(matrix), 1)]
    costs = roots * np.abs(roots)
    negative = 100 * float(np.mean(costs < 0))
    return typeset(f"median Δ = {np.median(costs):.2g}\n{negative:.0f} % below 0")


def draw_boxes(
    axis: Axes,
    rows: pd.DataFrame,
    place: str,
    value: str,
    look: Look,
    label: str,
    *,
    shift: Mapping[str, float],
    width: float,
    orientation: Literal["vertical", "horizontal"] = "vertical",
) -> None:
    """Draw a box of signed roots for each place, with the share of infinite ones beside it where there are any.

    Args:
        shift: of each label's boxes from their places.
    """
    for position, costs in rows.groupby(place)[value]:
        values, at = signed_sqrt(costs), float(position) + shift[label]
        finite = values[np.isfinite(values)]
        axis.boxplot(
            [finite], positions=[at], widths=width, orientation=orientation, patch_artist=True, manage_ticks=False,
            whis=(5, 95), whiskerprops={"linewidth": 0.7}, capprops={"linewidth": 0.7},
            boxprops={"facecolor": look.color, "linewidth": 0.6}, medianprops={"color": "black", "linewidth": 1.2},
            flierprops={"marker": ".", "markersize": 1.5, "markerfacecolor": "0.4", "markeredgecolor": "none"},
        )  # fmt: skip
        if len(finite) < len(values):
            share = rf"{100 * (1 - len(finite) / len(values)):.2g} % $\infty$"
            flat = orientation == "horizontal"
            edge = axis.get_yaxis_transform() if flat else axis.get_xaxis_transform()
            ends: dict[str, Any] = {"ha": "right", "va": "bottom"} if flat else {"ha": "center", "va": "top"}
            axis.annotate(share, (1, at) if flat else (at, 1), xycoords=edge, fontsize="x-small", **ends)


def signed_ticks(largest: float, linear: float) -> list[float]:
    """Ticks of a scale that is linear up to a value and logarithmic from there: 0 and powers of ten, or few steps."""
    first, last = (int(round_(np.log10(each))) for round_, each in ((np.ceil, linear), (np.floor, largest)))
    steps = [10.0**power for power in range(first, last + 1)]
    steps = steps if len(steps) > 1 else [largest / 4, largest / 2, largest]
    rounded = [float(f"{step:.1g}") for step in steps]
    return [*(-step for step in reversed(rounded)), 0.0, *rounded]


def scale_roots(axis: Axes, which: Literal["x", "y"], roots: Float[np.ndarray, " n"]) -> None:
    """Make an axis of signed roots linear around 0 and logarithmic far from it, with a line at 0.

    Costs without fixed weights, a hundredth of those with them, are then seen beside them, and with their signs.
    """
    from matplotlib.ticker import FixedLocator, NullLocator

    largest = float(np.abs(roots[np.isfinite(roots)]).max(initial=0.0)) or 1.0
    linear = 10.0 ** (np.floor(np.log10(largest)) - 1)
    (axis.set_xscale if which == "x" else axis.set_yscale)("asinh", linear_width=linear)
    (axis.axvline if which == "x" else axis.axhline)(0, color="0.7", linewidth=0.6, zorder=0)
    side = axis.xaxis if which == "x" else axis.yaxis
    side.set_major_locator(FixedLocator(signed_ticks(largest, linear)))
    side.set_minor_locator(NullLocator())
    side.set_major_formatter("{x:g}")
