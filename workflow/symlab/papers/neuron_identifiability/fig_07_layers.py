"""Figs. 7 to 10: matching objectives layer by layer, over training, against sigma_F and the share of fixed weights."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from symlab.errors import UserError
from symlab.papers.neuron_identifiability import objectives
from symlab.papers.neuron_identifiability.architectures import SYRE_FROM_1
from symlab.papers.neuron_identifiability.looks import permutation_looks
from symlab.papers.neuron_identifiability.recording_points import block_group, break_text, name_point, sort_points
from symlab.papers.neuron_identifiability.rows import average_layers
from symlab.papers.neuron_identifiability.variants import (
    add_labels,
    label_rows,
    of_scheme,
    sigma_mlp,
    telling_variants,
    variants_of,
    w_asymmetric,
)
from symlab.plotting import style as plot
from symlab.plotting.units import over_pairs
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Tables, at_least, at_most, between
from symlab.study.tables import last_epoch, need, where

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NARROWEST = 1.6
"""Least width of a panel in inches, so that the name of its x axis fits."""
LONGEST_LINE, PANELS = 6, 4
"""Panels that stay in one line, and panels of each line where there are more."""


def layers_against_epoch(tables: Tables, style: plot.Style) -> Figure:
    """Fig. 7: objectives against the epoch, a row a variant, a column for all layers and one for each."""
    matching = objectives.need_epochs(need(tables, "matching.csv"))
    variants = telling_variants(matching)
    rows = label_rows(matching, variants)
    groups = {}
    for dataset in rows["dataset"].unique():
        for label in variants["label"].unique():
            part = rows[(rows["dataset"] == dataset) & (rows["label"] == label)]
            if not part.empty:
                groups[_row_name(dataset, label, rows)] = pd.concat([average_layers(part).assign(point="all"), part])
    return _draw_grid(groups, "epoch", "epoch", style)


def layers_against_sigma_F(tables: Tables, style: plot.Style) -> Figure:
    """Figs. 8, 9: objectives against sigma_F after the last epoch, a panel a layer (a block group's in a line)."""
    rows = objectives.sweep_rows(need(tables, "matching.csv"))
    return _draw_grid(
        {name: part for name, part in rows.groupby("dataset", sort=False)}, "sigma_F", objectives.SIGMA_F, style
    )


def layers_against_fraction(tables: Tables, style: plot.Style) -> Figure:
    """Fig. 10: objectives against the fraction of fixed weights after the last epoch, by sigma_F and layer."""
    matching = need(tables, "matching.csv")
    variants = variants_of(matching)
    w = variants[w_asymmetric(variants)]
    counts = w.groupby("family")["fixed_fraction"].nunique()
    if counts.empty or counts.max() < 2:
        raise UserError(
            f"{where(matching)}.variants needs a W-asymmetric variant with at least two values of "
            "fixed_fraction; add one with sweep: {scheme.fixed_fraction: [0.125, 0.5], scheme.sigma_F: [0, 1]}."
        )
    family = w[(w["family"] == counts.idxmax()) & w["fixed_fraction"].notna()]
    rows = last_epoch(label_rows(matching, add_labels(family)))
    groups = {
        _row_name(dataset, rf"$\sigma_F$ = {sigma_F:g}", rows): part
        for (dataset, sigma_F), part in rows.groupby(["dataset", "sigma_F"])
    }
    return _draw_grid(groups, "fixed_fraction", "fraction of fixed weights", style)


def _row_name(dataset: str, name: str, rows: pd.DataFrame) -> str:
    return f"{dataset}\n{name}" if rows["dataset"].nunique() > 1 else name


def _draw_grid(groups: dict[str, pd.DataFrame], x: str, x_label: str, style: plot.Style) -> Figure:
    """A row for each named group of rows, a column for each recording point; a single row is broken into lines."""
    points = sort_points(point for rows in groups.values() for point in rows["point"])
    lines = [points] if len(groups) > 1 else _lines(points)
    cells = [[(name, point) for point in line] for name in groups for line in lines]
    n_columns = max(map(len, lines))
    width = max(plot.PAGE, NARROWEST * n_columns) if n_columns > 2 else 2.6 * n_columns
    titles = {point: break_text(name_point(point), width / n_columns, style) for point in points}
    of_lines = [[titles[point] for point in line] for line in lines]
    height = 0.9 + 1.35 * max(len(cells), 1.3) + _room(of_lines, style)
    figure, axes = plot.panels(len(cells), n_columns, width, height)
    for row, line in enumerate(cells):
        for column, (name, point) in enumerate(line):
            rows = groups[name]
            objectives.draw_objectives(axes[row, column], rows[rows["point"] == point], x, style)
            if row < len(lines):
                axes[row, column].set_title(titles[point])
        if len(groups) > 1:
            plot.name_row(axes[row, -1], line[0][0])
    plot.name_axes(axes, x_label, objectives.OBJECTIVE)
    plot.leave_out(axes, [len(line) for line in cells])
    plot.legend(figure, plot.handles(permutation_looks(style)), over_pairs(pd.concat(groups.values())))
    return figure


def _room(titles: list[list[str]], style: plot.Style) -> float:
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


def seen_against_fraction(tables: Tables) -> str:
    """The range of the identity's share of the optimum over fractions of fixed weights, by sigma_F."""
    matching = tables["matching.csv"]
    rows = matching[w_asymmetric(matching) & matching["fixed_fraction"].notna()]
    parts = []
    for sigma_F, part in rows.groupby("sigma_F"):
        means = [objectives.identity_ratios(of_variant).mean() for _, of_variant in part.groupby("variant")]
        parts.append(f"{100 * min(means):.3g} to {100 * max(means):.3g} % at σ_F = {sigma_F:g}")
    return f"Of the optimal objective the identity reaches, averaged over layers, {'; '.join(parts)}."


FIGURES = (
    Drawing(
        "identifiability-7",
        "Matching objective by layer over training",
        f"""\
Matching objective against the training epoch, study `{{study}}`: a row for each kind of network, a column for the mean
over layers and one for each hidden layer. {objectives.DEFINITION} Of several W-asymmetric and syre networks, those with
σ_F = 0 and the smallest σ_F ≥ 1 are shown.
""",
        layers_against_epoch,
        objectives.seen_against_epoch,
    ),
    Drawing(
        "identifiability-8",
        "Matching objective by layer against σ_F",
        f"""\
Matching objective of W-asymmetric networks after the last epoch against the scale σ_F of their fixed weights, one panel
for each hidden layer, study `{{study}}`. {objectives.DEFINITION}
""",
        layers_against_sigma_F,
        objectives.seen_against_sigma_F,
        objectives.BROKEN_AXIS,
    ),
    Drawing(
        "identifiability-9",
        "Matching objective by layer, ResNets",
        f"""\
Matching objective of W-asymmetric ResNets after the last epoch against the scale σ_F of their fixed weights, one panel
for each group of neurons that are permuted together, study `{{study}}`. {objectives.DEFINITION} For ResNet20 each line
is a block group (BG): its residual stream, whose permutation all its blocks share, then the inside of each block.
""",
        layers_against_sigma_F,
        objectives.seen_against_sigma_F,
        objectives.BROKEN_AXIS,
    ),
    Drawing(
        "identifiability-10",
        "Matching objective against fixed weights",
        f"""\
Matching objective of W-asymmetric networks after the last epoch against the fraction of weights that are fixed: a row
for each σ_F, a column for each hidden layer, study `{{study}}`. {objectives.DEFINITION} With σ_F = 0 the fixed weights
are zeros: the networks are merely sparse.
""",
        layers_against_fraction,
        seen_against_fraction,
    ),
)

FIG_7_OTHERS = (
    Claim(
        id="identifiability-7-sigma",
        statement="In σ-MLPs the identity is no better than random permutations after the first few epochs",
        quantity="largest difference of the objectives in any layer",
        bound=between(-0.05, 0.05),
        owner="paper",
        origin="ours",
        reason="The paper finds the identity's objective no higher than that of random permutations; 0.05 is the room "
        "given to noise.",
        tables=("matching.csv",),
        measure=partial(
            objectives.through_training,
            which=sigma_mlp,
            quantity=objectives.identity_above_random,
            worst=objectives.FARTHEST_FROM_ZERO,
            layerwise=True,
        ),
    ),
    Claim(
        id="identifiability-7-syre",
        statement="In syre networks with σ_F of 1 and more the identity ends nearly optimal",
        quantity="ratio of the objectives in the worst layer",
        bound=at_least(objectives.NEAR),
        owner="paper",
        origin="pilot",
        reason=objectives.NEARLY_OPTIMAL,
        tables=("matching.csv",),
        measure=partial(
            objectives.at_the_end,
            which=SYRE_FROM_1,
            quantity=objectives.identity_over_optimal,
            worst=objectives.SMALLEST,
            layerwise=True,
        ),
    ),
)
EVERY_W_0 = of_scheme("w_asymmetric", 0, 0)
EVERY_W_1 = of_scheme("w_asymmetric", 1, 1)
FIG_10 = (
    Claim(
        id="identifiability-10-sparse",
        statement="Sparsity without fixed weights does not give identifiability",
        quantity="ratio of identity to optimal objective in the worst layer at σ_F = 0",
        bound=at_most(objectives.FAR),
        owner="paper",
        origin="pilot",
        reason="The paper says that sparsity alone without fixed weights does not yield strong neuron identifiability; "
        "what counts as far from optimal in Fig. 3a is not strong.",
        tables=("matching.csv",),
        measure=partial(
            objectives.at_the_end,
            which=lambda table: EVERY_W_0(table) & table["fixed_fraction"].notna(),
            quantity=objectives.identity_over_optimal,
            worst=objectives.LARGEST,
            layerwise=True,
        ),
    ),
    Claim(
        id="identifiability-10-fixed",
        statement="At σ_F = 1, fixing 5 % of the weights or more does",
        quantity="ratio of identity to optimal objective in the worst layer",
        bound=at_least(0.75),
        owner="paper",
        origin="ours",
        reason="The paper finds that it takes fixed weights of large scale; looser than in Fig. 3, because few of "
        "them are fixed here.",
        tables=("matching.csv",),
        measure=partial(
            objectives.at_the_end,
            which=lambda table: EVERY_W_1(table) & (table["fixed_fraction"] >= 0.05),
            quantity=objectives.identity_over_optimal,
            worst=objectives.SMALLEST,
            layerwise=True,
        ),
    ),
)


CLAIMS: tuple[Claim, ...] = (
    *objectives.claims_against_epoch("identifiability-7", layerwise=True),
    *FIG_7_OTHERS,
    *objectives.claims_against_sigma_F("identifiability-8", layerwise=True, large=1),
    *objectives.claims_against_sigma_F("identifiability-9", layerwise=True, large=2),
    *FIG_10,
)
