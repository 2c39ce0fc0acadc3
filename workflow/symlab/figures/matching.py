"""Activation-matching objectives of the optimal, the identity and random permutations (Figs. 3, 7 to 10)."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from symlab.errors import UserError
from symlab.plotting.style import (
    COLUMN,
    OVER_PAIRS,
    PAGE,
    Style,
    broken,
    handles,
    leave_out,
    legend,
    mean_line,
    name_axes,
    name_row,
    panels,
    permutation_looks,
)
from symlab.plotting.tables import (
    block_group,
    compared,
    in_order,
    labelled,
    last_epoch,
    mean_std,
    named,
    need,
    over_layers,
    point_name,
    regimes,
    sigma_sweep,
    smallest_large,
    variants_of,
    w_asymmetric,
    where,
)

OBJECTIVE = r"objective $\langle P, S\rangle_F\,/\,d$"
NARROWEST = 1.6
"""Least width of a panel in inches, so that the name of its x axis fits."""
LONGEST_LINE, PANELS = 6, 4
"""Panels that stay in one line, and panels of each line where there are more."""
SIGMA_F = r"fixed-weight scale $\sigma_F$"


def against_sigma_F(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Figs. 3a, 3b: objectives averaged over layers against sigma_F after the last epoch, a panel a data set."""
    rows = over_layers(_sigma_rows(need(tables, "matching.csv")))
    datasets = list(rows["dataset"].unique())
    figure, axes = panels(1, len(datasets), max(COLUMN, 2.3 * len(datasets)), 2.5)
    for axis, dataset in zip(axes[0], datasets, strict=True):
        _objectives(axis, rows[rows["dataset"] == dataset], "sigma_F", style)
        if len(datasets) > 1:
            axis.set_title(dataset)
    name_axes(axes, SIGMA_F, OBJECTIVE)
    legend(figure, handles(permutation_looks(style)), OVER_PAIRS)
    return figure


def layers_against_sigma_F(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Figs. 8, 9: objectives against sigma_F after the last epoch, a panel a layer (a block group's in a line)."""
    rows = _sigma_rows(need(tables, "matching.csv"))
    return _grid({name: part for name, part in rows.groupby("dataset", sort=False)}, "sigma_F", SIGMA_F, style)


def layers_against_fraction(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 10: objectives against the fraction of fixed weights after the last epoch, by sigma_F and layer."""
    matching = need(tables, "matching.csv")
    variants = variants_of(matching)
    w = variants[w_asymmetric(variants)]
    counts = w.groupby("family")["fixed_fraction"].nunique()
    if counts.empty or counts.max() < 2:
        raise UserError(
            f"{where(matching)}.variants needs a W-asymmetric variant with at least two values of fixed_fraction; "
            "add one with sweep: {scheme.fixed_fraction: [0.125, 0.5], scheme.sigma_F: [0, 1]}."
        )
    family = w[(w["family"] == counts.idxmax()) & w["fixed_fraction"].notna()]
    rows = last_epoch(labelled(matching, named(family)))
    groups = {
        _row_name(dataset, rf"$\sigma_F$ = {sigma_F:g}", rows): part
        for (dataset, sigma_F), part in rows.groupby(["dataset", "sigma_F"])
    }
    return _grid(groups, "fixed_fraction", "fraction of fixed weights", style)


def against_epoch(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 3c: objectives averaged over layers against the epoch, W-asymmetric, sigma_F = 0 and the smallest >= 1."""
    matching = _over_epochs(need(tables, "matching.csv"))
    sweep, scales = regimes(matching)
    rows = over_layers(labelled(matching, sweep))
    datasets = list(rows["dataset"].unique())
    figure, axes = panels(len(datasets), 2, 5.2, 0.9 + 1.7 * len(datasets))
    for row, dataset in enumerate(datasets):
        for column, sigma_F in enumerate(scales):
            chosen = rows[(rows["dataset"] == dataset) & (rows["sigma_F"] == sigma_F)]
            _objectives(axes[row, column], chosen, "epoch", style)
            if row == 0:
                axes[row, column].set_title(rf"W, $\sigma_F$ = {sigma_F:g}")
        if len(datasets) > 1:
            name_row(axes[row, -1], dataset)
    name_axes(axes, "epoch", OBJECTIVE)
    legend(figure, handles(permutation_looks(style)), OVER_PAIRS)
    return figure


def layers_against_epoch(tables: dict[str, pd.DataFrame], style: Style) -> Figure:
    """Fig. 7: objectives against the epoch, a row a variant, a column for all layers and one for each."""
    matching = _over_epochs(need(tables, "matching.csv"))
    variants = compared(matching)
    w = variants["scheme"].isin(["w_asymmetric", "syre"]) & (variants["activation"] != "sigma")
    telling = (
        variants[w].groupby("scheme")["sigma_F"].transform(lambda values: values.isin([0, smallest_large(values)]))
    )
    rows = labelled(matching, variants[~w | telling.reindex(variants.index, fill_value=False)])
    groups = {}
    for dataset in rows["dataset"].unique():
        for label in variants["label"].unique():
            part = rows[(rows["dataset"] == dataset) & (rows["label"] == label)]
            if not part.empty:
                groups[_row_name(dataset, label, rows)] = pd.concat([over_layers(part).assign(point="all"), part])
    return _grid(groups, "epoch", "epoch", style)


def _sigma_rows(matching: pd.DataFrame) -> pd.DataFrame:
    sweep = sigma_sweep(matching)
    if sweep["sigma_F"].nunique() < 2:
        raise UserError(
            f"{where(matching)}.variants needs a W-asymmetric variant with at least two values of sigma_F; "
            "give it sweep: {scheme.sigma_F: [0, 1]}."
        )
    return last_epoch(labelled(matching, sweep))


def _over_epochs(matching: pd.DataFrame) -> pd.DataFrame:
    if matching["epoch"].nunique() < 2:
        raise UserError(f"it needs networks of several epochs, so list some in {where(matching)}.snapshots.")
    return matching


def _row_name(dataset: str, name: str, rows: pd.DataFrame) -> str:
    return f"{dataset}\n{name}" if rows["dataset"].nunique() > 1 else name


def _grid(groups: dict[str, pd.DataFrame], x: str, x_label: str, style: Style) -> Figure:
    """A row for each named group of rows, a column for each recording point; a single row is broken into lines."""
    # Names such as those of nn.Sequential's modules are read back from a file as numbers.
    groups = {name: rows.assign(point=rows["point"].astype(str)) for name, rows in groups.items()}
    points = in_order(point for rows in groups.values() for point in rows["point"])
    lines = [points] if len(groups) > 1 else _lines(points)
    cells = [[(name, point) for point in line] for name in groups for line in lines]
    n_columns = max(map(len, lines))
    width = max(PAGE, NARROWEST * n_columns) if n_columns > 2 else 2.6 * n_columns
    titles = {point: broken(point_name(point), width / n_columns, style) for point in points}
    of_lines = [[titles[point] for point in line] for line in lines]
    height = 0.9 + 1.35 * max(len(cells), 1.3) + _room(of_lines, style)
    figure, axes = panels(len(cells), n_columns, width, height)
    for row, line in enumerate(cells):
        for column, (name, point) in enumerate(line):
            rows = groups[name]
            _objectives(axes[row, column], rows[rows["point"] == point], x, style)
            if row < len(lines):
                axes[row, column].set_title(titles[point])
        if len(groups) > 1:
            name_row(axes[row, -1], line[0][0])
    name_axes(axes, x_label, OBJECTIVE)
    leave_out(axes, [len(line) for line in cells])
    legend(figure, handles(permutation_looks(style)), OVER_PAIRS)
    return figure


def _room(titles: list[list[str]], style: Style) -> float:
    """Inches for titles of several lines, and for the x axis of panels with none below them."""
    broken_lines = sum(max(title.count("\n") for title in line) for line in titles)
    inner_axes = 3 if len({len(line) for line in titles}) > 1 else 0
    return (broken_lines + inner_axes) * 1.3 * style.font_size / 72


def _lines(points: list[str]) -> list[list[str]]:
    """Recording points in lines of panels: one for each block group of a residual network, else of equal length."""
    if len(points) <= LONGEST_LINE:
        return [points]
    if None not in (of_points := [block_group(point) for point in points]):
        return [
            [point for point, of_point in zip(points, of_points, strict=True) if of_point == number]
            for number in dict.fromkeys(of_points)
        ]
    return [points[start : start + PANELS] for start in range(0, len(points), PANELS)]


def _objectives(axis: Axes, rows: pd.DataFrame, x: str, style: Style) -> None:
    axis.axhline(0, color="0.85", linewidth=0.7, zorder=0)
    for permutation, look in permutation_looks(style).items():
        stats = mean_std(rows[rows["permutation"] == permutation], x, "objective")
        mean_line(axis, stats, look, permutation, band=x == "epoch")
