"""Swap costs of neuron pairs as sign(x) sqrt(|x|): heat maps (Figs. 5, 16-19) and distributions (Figs. 12, 13)."""

from __future__ import annotations

from typing import Literal

import matplotlib
import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import AsinhNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from symlab.errors import UserError
from symlab.figures.style import COLUMN, PAGE, Look, Style, legend, name_axes, name_row, panels, patches, variant_looks
from symlab.figures.tables import (
    compared,
    labelled,
    need,
    regimes,
    signed_sqrt,
    smallest_large,
    variant_label,
    variants_of,
    w_asymmetric,
    where,
)

COST = r"signed $\sqrt{|\Delta_{(ij)}^{\mathrm{out}}|}$ (weight norm)"
COST_IN_TWO_LINES = COST.replace(" (", "\n(")
BOXES = "box: quartiles and median, whiskers: 5th to 95th percentile"
BLOCK = 128
"""Neurons of a layer that Figs. 16-19 show."""
QUANTILE = 0.99
LINEAR = 0.2
"""Share of the colour limit within which colours are linear; beyond it asinh leaves small costs their sign's colour."""
INFINITE = "black"


def maps_by_k(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 5: m x m heat maps of the first layer of the first network, a row a sigma_F, a column a k."""
    table = _with_k(need(tables, "swap_costs.parquet"))
    sweep, scales = regimes(table)
    first = table[(table["layer"] == 1) & table["variant"].isin(sweep.index)]
    dimensions = sorted(first["k"].unique())
    grid = {
        (rf"$\sigma_F$ = {sigma_F:g}", f"$k$ = {k:g}"): _first_model(
            first[(first["sigma_F"] == sigma_F) & (first["k"] == k)]
        )
        for sigma_F in scales
        for k in dimensions
    }
    matrices = {cell: _matrix(rows, None) for cell, rows in grid.items()}
    return _maps(matrices, _limit(list(matrices.values())))


def maps_standard(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 16: heat maps of each layer of a standard network."""
    return _maps_by_layer(tables, "standard", style)


def maps_w_zero(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 17: heat maps of each layer of a W-asymmetric network with sigma_F = 0."""
    return _maps_by_layer(tables, "W-asymmetric with sigma_F = 0", style)


def maps_w_large(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 18: heat maps of each layer of a W-asymmetric network with the smallest sigma_F >= 1."""
    return _maps_by_layer(tables, "W-asymmetric with sigma_F >= 1", style)


def maps_syre(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 19: heat maps of each layer of a syre network with the smallest sigma_F >= 1."""
    return _maps_by_layer(tables, "syre with sigma_F >= 1", style)


def boxes_by_variant(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 12: distributions over disjoint consecutive pairs of all networks by variant, a column a layer."""
    table = need(tables, "swap_costs.parquet")
    variants = compared(table)
    looks = variant_looks(variants, style)
    rows = labelled(_disjoint(table), variants)
    layers, datasets = sorted(rows["layer"].unique()), list(rows["dataset"].unique())
    height = 1.1 + (0.5 + 0.27 * len(looks)) * len(datasets)
    figure, axes = panels(len(datasets), len(layers), PAGE, height, sharex="col")
    for row, dataset in enumerate(datasets):
        for column, layer in enumerate(layers):
            part = rows[(rows["dataset"] == dataset) & (rows["layer"] == layer)]
            for position, (label, look) in enumerate(looks.items()):
                _box(
                    axes[row, column], part.loc[part["label"] == label, "swap_cost"], position, 0.6, look, "horizontal"
                )
            if row == 0:
                axes[row, column].set_title(f"layer {layer}")
        axes[row, 0].set_yticks(range(len(looks)), looks)
        axes[row, 0].set_ylim(len(looks) - 0.5, -0.5)
        if len(datasets) > 1:
            name_row(axes[row, -1], dataset)
    name_axes(axes, COST_IN_TWO_LINES, "variant")
    figure.suptitle(BOXES, fontsize=style.font_size - 1)
    return figure


def boxes_by_k(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 13: distributions over disjoint consecutive pairs of all networks by k and sigma_F, a column a layer."""
    table = _with_k(need(tables, "swap_costs.parquet"))
    sweep, scales = regimes(table)
    chosen = sweep[sweep["sigma_F"].isin(scales)]
    looks = variant_looks(sweep, style)
    looks = {label: looks[label] for label in chosen["label"].unique()}
    rows = labelled(_disjoint(table), chosen)
    layers, dimensions = sorted(rows["layer"].unique()), sorted(rows["k"].unique())
    figure, axes = panels(1, len(layers), PAGE if len(layers) > 1 else COLUMN, 2.6)
    width = 0.8 / len(looks)
    for axis, layer in zip(axes[0], layers, strict=True):
        for place, k in enumerate(dimensions):
            for index, (label, look) in enumerate(looks.items()):
                costs = rows.loc[(rows["layer"] == layer) & (rows["k"] == k) & (rows["label"] == label), "swap_cost"]
                _box(axis, costs, place + (index - (len(looks) - 1) / 2) * width, 0.85 * width, look, "vertical")
        axis.set_xticks(range(len(dimensions)), [f"{k:g}" for k in dimensions])
        axis.set_title(f"layer {layer}")
    name_axes(axes, "intrinsic dimension $k$", COST_IN_TWO_LINES)
    legend(figure, patches(looks), BOXES)
    return figure


def _with_k(table: pd.DataFrame) -> pd.DataFrame:
    rows = table[table["k"].notna()]
    if rows.empty:
        raise UserError(
            f"{where(table)}.dataset has no intrinsic dimension k; use a gmm data set with sweep: {{k: [2, 8, 32]}}."
        )
    return rows


def _disjoint(table: pd.DataFrame) -> pd.DataFrame:
    """The pairs (0, 1), (2, 3), ... of each layer: no neuron is in two."""
    return table[(table["j"] == table["i"] + 1) & (table["i"] % 2 == 0)]


def _first_model(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the network with the smallest mask seed and, of those, the smallest seed."""
    rows = rows[rows["mask_seed"] == rows["mask_seed"].min()]
    return rows[rows["seed"] == rows["seed"].min()]


def _matrix(rows: pd.DataFrame, block: int | None) -> Float[np.ndarray, "m m"]:
    """Signed square roots of one layer's swap costs, symmetric, 0 on the diagonal, of the first ``block`` neurons."""
    if block is not None:
        rows = rows[(rows["i"] < block) & (rows["j"] < block)]
    i, j = rows["i"].to_numpy(), rows["j"].to_numpy()
    size = int(j.max()) + 1 if len(j) else 1
    matrix = np.zeros((size, size))
    matrix[i, j] = matrix[j, i] = signed_sqrt(rows["swap_cost"])
    return matrix


def _shown(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The variants of Figs. 16-19 that the study has, by their name in this module."""
    variants = variants_of(table)
    plain = variants[variants["activation"] != "sigma"]
    w = compared(table).loc[lambda rows: w_asymmetric(rows)]
    syre = plain[plain["scheme"] == "syre"]
    shown = {
        "standard": plain[plain["scheme"] == "standard"],
        "W-asymmetric with sigma_F = 0": w[w["sigma_F"] == 0],
        "W-asymmetric with sigma_F >= 1": w[w["sigma_F"] == smallest_large(w["sigma_F"])],
        "syre with sigma_F >= 1": syre[syre["sigma_F"] == smallest_large(syre["sigma_F"])],
    }
    return {name: rows.drop_duplicates("dataset") for name, rows in shown.items()}


def _maps_by_layer(tables: dict[str, pd.DataFrame], name: str, style: Style) -> Figure:
    table = need(tables, "swap_costs.parquet")
    shown = _shown(table)
    if shown[name].empty:
        raise UserError(f"{where(table)}.variants has no variant that is {name}; add one.")
    block = table[(table["i"] < BLOCK) & (table["j"] < BLOCK)]
    matrices = {
        (which, dataset, layer): _matrix(part, BLOCK)
        for which, variants in shown.items()
        for variant, dataset in variants["dataset"].items()
        for layer, part in _first_model(block[block["variant"] == variant]).groupby("layer")
    }
    several = shown[name]["dataset"].nunique() > 1
    own = {
        (dataset if several else "", f"layer {layer}"): matrix
        for (which, dataset, layer), matrix in matrices.items()
        if which == name
    }
    # The limit is that of all four figures, so that their colours can be compared.
    figure = _maps(own, _limit(list(matrices.values())))
    figure.suptitle(variant_label(shown[name].iloc[0]), fontsize=style.font_size)
    return figure


def _limit(matrices: list[np.ndarray]) -> float:
    """A robust largest magnitude: the QUANTILE of the finite off-diagonal values' magnitudes."""
    values = np.concatenate([matrix[np.triu_indices(len(matrix), 1)] for matrix in matrices])
    finite = np.abs(values[np.isfinite(values)])
    limit = float(np.quantile(finite, QUANTILE)) if len(finite) else 0.0
    return limit or 1.0


def _maps(matrices: dict[tuple[str, str], np.ndarray], limit: float) -> Figure:
    """Heat maps by (row name, column name) with one colour scale."""
    rows, columns = (list(dict.fromkeys(names)) for names in zip(*matrices, strict=True))
    size = min(2.0, (PAGE - 1.4) / len(columns))
    same_size = len({len(matrix) for matrix in matrices.values()}) == 1
    width, height = 1.4 + size * len(columns), 0.6 + (size + 0.2) * len(rows)
    figure, axes = panels(len(rows), len(columns), width, height, sharex=same_size, sharey=same_size)
    colors = matplotlib.colormaps["RdBu"].with_extremes(bad=INFINITE)
    infinite = False
    for (row, column), matrix in matrices.items():
        axis: Axes = axes[rows.index(row), columns.index(column)]
        drawn = np.ma.masked_invalid(matrix)
        infinite |= bool(np.isinf(matrix).any())
        image = axis.imshow(
            drawn, cmap=colors, norm=AsinhNorm(limit * LINEAR, -limit, limit), interpolation="nearest", origin="upper"
        )
        pairs = matrix[np.triu_indices(len(matrix), 1)]
        heading = f"{column}\n" if row == rows[0] else ""
        axis.set_title(f"{heading}median {np.median(pairs):.2g}".replace("-", "\N{MINUS SIGN}"))
        axis.spines[:].set_visible(True)
    for row in rows:
        if row:
            name_row(axes[rows.index(row), -1], row)
    name_axes(axes, "neuron $j$", "neuron $i$")
    bar = figure.colorbar(image, ax=axes, extend="both", aspect=25, format="{x:g}")
    bar.locator = MaxNLocator(7, symmetric=True)
    bar.minorticks_off()
    bar.set_label(COST)
    if infinite:
        legend(figure, [Patch(facecolor=INFINITE, label="infinite cost")], "")
    return figure


def _box(
    axis: Axes,
    costs: pd.Series,
    position: float,
    width: float,
    look: Look,
    orientation: Literal["vertical", "horizontal"],
) -> None:
    """A box of finite costs, with the share of infinite ones beside it where there are any."""
    values = signed_sqrt(costs)
    finite = values[np.isfinite(values)]
    axis.boxplot(
        [finite],
        positions=[position],
        widths=width,
        orientation=orientation,
        whis=(5, 95),
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": look.color, "linewidth": 0.6},
        medianprops={"color": "black", "linewidth": 1.2},
        whiskerprops={"linewidth": 0.7},
        capprops={"linewidth": 0.7},
        flierprops={"marker": ".", "markersize": 1.5, "markerfacecolor": "0.4", "markeredgecolor": "none"},
    )
    if len(finite) < len(values):
        share = rf"{100 * (1 - len(finite) / len(values)):.2g} % $\infty$"
        if orientation == "horizontal":
            axis.annotate(
                share, (1, position), xycoords=axis.get_yaxis_transform(), ha="right", va="bottom", fontsize="x-small"
            )
        else:
            axis.annotate(
                share, (position, 1), xycoords=axis.get_xaxis_transform(), ha="center", va="top", fontsize="x-small"
            )
