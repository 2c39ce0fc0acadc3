"""Swap costs of neuron pairs as sign(x) sqrt(|x|): heat maps (Figs. 5, 15-19) and distributions (Figs. 12, 13).

Where a study has ridge costs too, Figs. 12, 13 and 16-19 show both estimators.
"""

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
from symlab.figures.estimators import MAHALANOBIS, RIDGE, at_reported_beta, beta_name, estimates
from symlab.plotting.style import COLUMN, PAGE, Look, Style, legend, name_axes, name_row, panels, patches, variant_looks
from symlab.plotting.tables import (
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
SIGMA_F = r"$\sigma_F$"


def maps_by_k(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 5: m x m heat maps of the first layer of the first network, a row a sigma_F, a column a k."""
    matrices = {cell: _matrix(rows) for cell, rows in _cells_by_k(need(tables, "swap_costs.parquet")).items()}
    figure, axes = _map_panels([*matrices], len({len(matrix) for matrix in matrices.values()}) == 1)
    _maps(figure, axes, {MAHALANOBIS: matrices})
    return figure


def ridge_maps_by_k(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 15: as Fig. 5 with ridge costs at the reported beta, and below the distributions of the same pairs."""
    ridge = at_reported_beta(need(tables, "ridge_swap_costs.parquet"))
    cells = {cell: rows[rows["j"] < _complete(rows)] for cell, rows in _cells_by_k(ridge).items()}
    figure, axes = _map_panels([*cells], False, 1)
    _maps(figure, axes[:-1], {RIDGE: {cell: _matrix(rows) for cell, rows in cells.items()}})
    sweep, _ = regimes(_with_k(ridge))
    looks = variant_looks(sweep, style)
    scales = list(dict.fromkeys(scale for scale, _ in cells))
    for column, k in enumerate(dict.fromkeys(k for _, k in cells)):
        axis = axes[-1, column]
        if column:
            axis.sharey(axes[-1, 0])
            axis.tick_params(labelleft=False)
        for position, scale in enumerate(scales):
            rows = cells[scale, k]
            look = looks[sweep.loc[rows["variant"].iloc[0], "label"]]
            _box(axis, rows["swap_cost"], position, 0.6, look, "vertical")
        axis.set_xticks(range(len(scales)), [scale.removeprefix(SIGMA_F + " = ") for scale in scales])
        axis.set_xlabel(SIGMA_F)
        axis.set_ylabel(COST_IN_TWO_LINES if column == 0 else COST)
        axis.yaxis.label.set_visible(column == 0)
    figure.suptitle(_in_lines(beta_name({RIDGE: ridge}), BOXES), fontsize=style.font_size - 1)
    return figure


def _cells_by_k(costs: pd.DataFrame) -> dict[tuple[str, str], pd.DataFrame]:
    """The costs of the first layer of the first network by the names of sigma_F and k."""
    table = _with_k(costs)
    sweep, scales = regimes(table)
    first = table[(table["layer"] == 1) & table["variant"].isin(sweep.index)]
    return {
        (rf"{SIGMA_F} = {sigma_F:g}", f"$k$ = {k:g}"): _first_model(
            first[(first["sigma_F"] == sigma_F) & (first["k"] == k)]
        )
        for sigma_F in scales
        for k in sorted(first["k"].unique())
    }


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
    """Fig. 12: distributions over disjoint consecutive pairs of all networks by variant, a column a layer.

    Two estimators are two rows, each panel with its own scale.
    """
    costs = estimates(tables)
    variants = compared(costs[MAHALANOBIS])
    looks = variant_looks(variants, style)
    by_estimator = {name: labelled(_disjoint(table), variants) for name, table in costs.items()}
    rows = by_estimator[MAHALANOBIS]
    layers, datasets = sorted(rows["layer"].unique()), list(rows["dataset"].unique())
    lines = [(dataset, name) for dataset in datasets for name in costs]
    height = 1.1 + (0.5 + 0.27 * len(looks)) * len(lines)
    figure, axes = panels(len(lines), len(layers), PAGE, height, sharex="col" if len(costs) == 1 else False)
    for row, (dataset, name) in enumerate(lines):
        rows = by_estimator[name]
        for column, layer in enumerate(layers):
            axis: Axes = axes[row, column]
            part = rows[(rows["dataset"] == dataset) & (rows["layer"] == layer)]
            for position, (label, look) in enumerate(looks.items()):
                chosen = part.loc[part["label"] == label, "swap_cost"]
                if chosen.empty and name == RIDGE:
                    _say_not_measured(axis, position)
                else:
                    _box(axis, chosen, position, 0.6, look, "horizontal")
            if row == 0:
                axis.set_title(f"layer {layer}")
        axes[row, 0].set_yticks(range(len(looks)), looks)
        axes[row, 0].set_ylim(len(looks) - 0.5, -0.5)
        if len(lines) > 1:
            name_row(axes[row, -1], _in_lines(dataset if len(datasets) > 1 else "", name if len(costs) > 1 else ""))
    name_axes(axes, COST_IN_TWO_LINES, "variant")
    figure.suptitle(_in_lines(BOXES, beta_name(costs)), fontsize=style.font_size - 1)
    return figure


def boxes_by_k(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 13: distributions over disjoint consecutive pairs of all networks by k and sigma_F, a column a layer.

    Two estimators are two rows, each with its own scale.
    """
    costs = {name: _with_k(table) for name, table in estimates(tables).items()}
    sweep, scales = regimes(costs[MAHALANOBIS])
    chosen = sweep[sweep["sigma_F"].isin(scales)]
    looks = variant_looks(sweep, style)
    looks = {label: looks[label] for label in chosen["label"].unique()}
    by_estimator = {name: labelled(_disjoint(table), chosen) for name, table in costs.items()}
    rows = by_estimator[MAHALANOBIS]
    layers, dimensions = sorted(rows["layer"].unique()), sorted(rows["k"].unique())
    page = PAGE if len(layers) > 1 else COLUMN
    figure, axes = panels(len(costs), len(layers), page, 0.9 + 1.7 * len(costs), sharey="row")
    width = 0.8 / len(looks)
    for row, (name, rows) in enumerate(by_estimator.items()):
        for axis, layer in zip(axes[row], layers, strict=True):
            part = rows[rows["layer"] == layer]
            for place, k in enumerate(dimensions):
                for index, (label, look) in enumerate(looks.items()):
                    of_variant = part.loc[(part["k"] == k) & (part["label"] == label), "swap_cost"]
                    position = place + (index - (len(looks) - 1) / 2) * width
                    _box(axis, of_variant, position, 0.85 * width, look, "vertical")
            axis.set_xticks(range(len(dimensions)), [f"{k:g}" for k in dimensions])
            if row == 0:
                axis.set_title(f"layer {layer}")
        if len(costs) > 1:
            name_row(axes[row, -1], name)
    name_axes(axes, "intrinsic dimension $k$", COST_IN_TWO_LINES)
    legend(figure, patches(looks), _in_lines(BOXES, beta_name(costs)))
    return figure


def _in_lines(*texts: str) -> str:
    return "\n".join(filter(None, texts))


def _say_not_measured(axis: Axes, position: float) -> None:
    place = axis.get_yaxis_transform()
    axis.annotate("not measured", (0.5, position), xycoords=place, ha="center", va="center", fontsize="x-small")


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


def _matrix(rows: pd.DataFrame, size: int | None = None) -> Float[np.ndarray, "m m"]:
    """Signed square roots of one layer's swap costs, symmetric, 0 on the diagonal, of the first ``size`` neurons."""
    size = _complete(rows) if size is None else size
    rows = rows[rows["j"] < size]
    i, j = rows["i"].to_numpy(), rows["j"].to_numpy()
    matrix = np.zeros((size, size))
    matrix[i, j] = matrix[j, i] = signed_sqrt(rows["swap_cost"])
    return matrix


def _complete(rows: pd.DataFrame) -> int:
    """How many of a layer's first neurons have the costs of all their pairs; ridge costs beyond are of some only.

    Raises:
        UserError: only two have, of more neurons.
    """
    counts = np.bincount(rows["j"].to_numpy(dtype=np.int64), minlength=1)
    fewer = np.flatnonzero(counts < np.arange(len(counts)))
    size = int(fewer[0]) if len(fewer) else len(counts)
    if size <= 2 < len(counts):
        raise UserError(
            f"{where(rows)} has no swap costs of all pairs of a layer's first neurons; set its ridge.block to their "
            "number."
        )
    return size


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
    costs = estimates(tables)
    shown = _shown(costs[MAHALANOBIS])
    if shown[name].empty:
        raise UserError(f"{where(costs[MAHALANOBIS])}.variants has no variant that is {name}; add one.")
    several = shown[name]["dataset"].nunique() > 1
    blocks = {estimator: _blocks(table, shown) for estimator, table in costs.items()}
    # Estimators are compared on the neurons that both have.
    sizes: dict[tuple[str, str, int], int] = {}
    for of_estimator in blocks.values():
        for key, rows in of_estimator.items():
            sizes[key] = min(_complete(rows), sizes.get(key, BLOCK))
    own: dict[str, dict[tuple[str, str], np.ndarray]] = {}
    limits = {}
    for estimator, of_estimator in blocks.items():
        matrices = {key: _matrix(rows, sizes[key]) for key, rows in of_estimator.items()}
        # The limit is that of all four figures, so that their colours can be compared.
        limits[estimator] = _limit(list(matrices.values()))
        own[estimator] = {
            (_in_lines(dataset if several else "", estimator if len(costs) > 1 else ""), f"layer {layer}"): matrix
            for (which, dataset, layer), matrix in matrices.items()
            if which == name
        }
        if not own[estimator]:
            raise UserError(
                f"{where(costs[MAHALANOBIS])} has no {estimator} costs of its variant that is {name}, only of others; "
                "take swap_costs.parquet and ridge_swap_costs.parquet from the same run."
            )
    cells = [cell for matrices in own.values() for cell in matrices]
    figure, axes = _map_panels(cells, len({len(m) for matrices in own.values() for m in matrices.values()}) == 1)
    _maps(figure, axes, own, limits)
    title = ",  ".join(filter(None, [variant_label(shown[name].iloc[0]), beta_name(costs)]))
    figure.suptitle(title, fontsize=style.font_size)
    return figure


def _blocks(costs: pd.DataFrame, shown: dict[str, pd.DataFrame]) -> dict[tuple[str, str, int], pd.DataFrame]:
    """The first network's costs by the variant's name in Figs. 16-19, data set and layer."""
    block = costs[(costs["i"] < BLOCK) & (costs["j"] < BLOCK)]
    return {
        (which, dataset, layer): part
        for which, variants in shown.items()
        for variant, dataset in variants["dataset"].items()
        for layer, part in _first_model(block[block["variant"] == variant]).groupby("layer")
    }


def _limit(matrices: list[np.ndarray]) -> float:
    """A robust largest magnitude: the QUANTILE of the finite off-diagonal values' magnitudes."""
    values = np.concatenate([matrix[np.triu_indices(len(matrix), 1)] for matrix in matrices])
    finite = np.abs(values[np.isfinite(values)])
    limit = float(np.quantile(finite, QUANTILE)) if len(finite) else 0.0
    return limit or 1.0


def _map_panels(cells: list[tuple[str, str]], same_size: bool, further: int = 0) -> tuple[Figure, np.ndarray]:
    """A figure with a panel for each row and column name of the cells, and ``further`` rows below them."""
    rows, columns = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    size = min(2.0, (PAGE - 1.4) / len(columns))
    n_rows = len(rows) + further
    width, height = 1.4 + size * len(columns), 0.6 + (size + 0.2) * n_rows
    return panels(n_rows, len(columns), width, height, sharex=same_size, sharey=same_size)


def _maps(
    figure: Figure,
    axes: np.ndarray,
    estimators: dict[str, dict[tuple[str, str], np.ndarray]],
    limits: dict[str, float] | None = None,
) -> None:
    """Heat maps by estimator and (row name, column name); an estimator's have one colour scale and one bar.

    Without limits an estimator's is that of its own matrices.
    """
    cells = [cell for matrices in estimators.values() for cell in matrices]
    rows, columns = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    colors = matplotlib.colormaps["RdBu"].with_extremes(bad=INFINITE)
    name_axes(axes, "neuron $j$", "neuron $i$")
    infinite = False
    for estimator, matrices in estimators.items():
        limit = limits[estimator] if limits else _limit(list(matrices.values()))
        for (row, column), matrix in matrices.items():
            axis: Axes = axes[rows.index(row), columns.index(column)]
            drawn = np.ma.masked_invalid(matrix)
            infinite |= bool(np.isinf(matrix).any())
            norm = AsinhNorm(limit * LINEAR, -limit, limit)
            image = axis.imshow(drawn, cmap=colors, norm=norm, interpolation="nearest", origin="upper")
            pairs = matrix[np.triu_indices(len(matrix), 1)]
            heading = f"{column}\n" if row == rows[0] else ""
            axis.set_title(f"{heading}median {np.median(pairs):.2g}".replace("-", "\N{MINUS SIGN}"))
            axis.spines[:].set_visible(True)
        own_rows = list(dict.fromkeys(row for row, _ in matrices))
        for row in own_rows:
            if row:
                name_row(axes[rows.index(row), -1], row)
        bar = figure.colorbar(
            image, ax=axes[[rows.index(row) for row in own_rows]], extend="both", aspect=25, format="{x:g}"
        )
        bar.locator = MaxNLocator(7, symmetric=True)
        bar.minorticks_off()
        bar.set_label(COST if len(own_rows) > 1 or len(estimators) == 1 else COST_IN_TWO_LINES)
    for (row, column), axis in np.ndenumerate(axes):
        if (rows[row], columns[column]) not in cells:
            axis.remove()
    if infinite:
        legend(figure, [Patch(facecolor=INFINITE, label="infinite cost")], "")


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
