"""Figs. 7 to 10: matching objectives layer by layer, over training, against sigma_F and the share of fixed weights."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Claim, Tables, at_least, at_most, between, stated
from symlab.papers.neuron_identifiability.architectures import SYRE_FROM_1
from symlab.papers.neuron_identifiability.objectives import (
    FARTHEST_FROM_ZERO,
    LARGEST,
    NEAR_OPTIMAL,
    OBJECTIVE,
    SIGMA_F,
    SMALLEST,
    at_the_end,
    claims_against_epoch,
    claims_against_sigma_F,
    draw_objectives,
    identity_above_random,
    identity_over_optimal,
    need_epochs,
    sweep_rows,
    through_training,
)
from symlab.plotting.rows import (
    add_labels,
    average_layers,
    block_group,
    compared_variants,
    label_rows,
    last_epoch,
    name_point,
    need,
    of_scheme,
    sigma_mlp,
    smallest_large,
    sort_points,
    variants_of,
    w_asymmetric,
    where,
)
from symlab.plotting.style import (
    OVER_PAIRS,
    PAGE,
    Style,
    break_text,
    handles,
    leave_out,
    legend,
    name_axes,
    name_row,
    panels,
    permutation_looks,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NARROWEST = 1.6
"""Least width of a panel in inches, so that the name of its x axis fits."""
LONGEST_LINE, PANELS = 6, 4
"""Panels that stay in one line, and panels of each line where there are more."""


def layers_against_epoch(tables: Tables, style: Style) -> Figure:
    """Fig. 7: objectives against the epoch, a row a variant, a column for all layers and one for each."""
    matching = need_epochs(need(tables, "matching.csv"))
    variants = compared_variants(matching)
    w = variants["scheme"].isin(["w_asymmetric", "syre"]) & (variants["activation"] != "sigma")
    telling = (
        variants[w].groupby("scheme")["sigma_F"].transform(lambda values: values.isin([0, smallest_large(values)]))
    )
    rows = label_rows(matching, variants[~w | telling.reindex(variants.index, fill_value=False)])
    groups = {}
    for dataset in rows["dataset"].unique():
        for label in variants["label"].unique():
            part = rows[(rows["dataset"] == dataset) & (rows["label"] == label)]
            if not part.empty:
                groups[_row_name(dataset, label, rows)] = pd.concat([average_layers(part).assign(point="all"), part])
    return _draw_grid(groups, "epoch", "epoch", style)


def layers_against_sigma_F(tables: Tables, style: Style) -> Figure:
    """Figs. 8, 9: objectives against sigma_F after the last epoch, a panel a layer (a block group's in a line)."""
    rows = sweep_rows(need(tables, "matching.csv"))
    return _draw_grid({name: part for name, part in rows.groupby("dataset", sort=False)}, "sigma_F", SIGMA_F, style)


def layers_against_fraction(tables: Tables, style: Style) -> Figure:
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
    rows = last_epoch(label_rows(matching, add_labels(family)))
    groups = {
        _row_name(dataset, rf"$\sigma_F$ = {sigma_F:g}", rows): part
        for (dataset, sigma_F), part in rows.groupby(["dataset", "sigma_F"])
    }
    return _draw_grid(groups, "fixed_fraction", "fraction of fixed weights", style)


def _row_name(dataset: str, name: str, rows: pd.DataFrame) -> str:
    return f"{dataset}\n{name}" if rows["dataset"].nunique() > 1 else name


def _draw_grid(groups: dict[str, pd.DataFrame], x: str, x_label: str, style: Style) -> Figure:
    """A row for each named group of rows, a column for each recording point; a single row is broken into lines."""
    # Names such as those of nn.Sequential's modules are read back from a file as numbers.
    groups = {name: rows.assign(point=rows["point"].astype(str)) for name, rows in groups.items()}
    points = sort_points(point for rows in groups.values() for point in rows["point"])
    lines = [points] if len(groups) > 1 else _lines(points)
    cells = [[(name, point) for point in line] for name in groups for line in lines]
    n_columns = max(map(len, lines))
    width = max(PAGE, NARROWEST * n_columns) if n_columns > 2 else 2.6 * n_columns
    titles = {point: break_text(name_point(point), width / n_columns, style) for point in points}
    of_lines = [[titles[point] for point in line] for line in lines]
    height = 0.9 + 1.35 * max(len(cells), 1.3) + _room(of_lines, style)
    figure, axes = panels(len(cells), n_columns, width, height)
    for row, line in enumerate(cells):
        for column, (name, point) in enumerate(line):
            rows = groups[name]
            draw_objectives(axes[row, column], rows[rows["point"] == point], x, style)
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


FIGURES = (
    Drawing(
        "identifiability-7",
        "Matching objective by layer over training",
        """\
Matching objective ⟨P, S⟩_F / d against the training epoch, study `{study}`: a row for each kind of network, a column
for the mean over layers and one for each hidden layer. Bands are one standard deviation over pairs.

The layers should agree. The identity (orange) should follow the optimum (blue) in W-asymmetric and syre networks with
σ_F ≥ 1, and the random permutations (grey) in standard networks, W-asymmetric ones with σ_F = 0 and σ-MLPs.
""",
        layers_against_epoch,
    ),
    Drawing(
        "identifiability-8",
        "Matching objective by layer against σ_F",
        """\
Matching objective ⟨P, S⟩_F / d after the last epoch against the scale σ_F of the fixed weights in W-asymmetric
networks, one panel for each hidden layer, study `{study}`. Error bars are one standard deviation over pairs.

In every layer the identity should rise from the level of random permutations towards the optimum as σ_F grows.
""",
        layers_against_sigma_F,
    ),
    Drawing(
        "identifiability-9",
        "Matching objective by layer, ResNets",
        """\
Matching objective ⟨P, S⟩_F / d after the last epoch against the scale σ_F of the fixed weights in W-asymmetric
ResNets, one panel for each group of neurons that are permuted together, study `{study}`. For ResNet20 each line is a
block group (BG): its residual stream, whose permutation all its blocks share, then the inside of each block. Error
bars are one standard deviation over pairs.

In every group the identity should rise from the level of random permutations towards the optimum as σ_F grows.
""",
        layers_against_sigma_F,
    ),
    Drawing(
        "identifiability-10",
        "Matching objective against fixed weights",
        """\
Matching objective ⟨P, S⟩_F / d after the last epoch against the fraction of weights that are fixed in W-asymmetric
networks: a row for each σ_F, a column for each hidden layer, study `{study}`. Error bars are one standard deviation
over pairs.

With σ_F = 0 the fixed weights are zeros, so the networks are merely sparse: the identity should stay far below the
optimum whatever the fraction.
""",
        layers_against_fraction,
    ),
)

FIG_7_OTHERS = (
    stated(
        "identifiability-7-sigma",
        "identifiability-7",
        "In sigma-MLPs the identity is no better than random permutations after the first "
        "few epochs: largest difference of the objectives in any layer",
        between(-0.05, 0.05),
        "The paper finds the identity's objective no higher than that of random "
        "permutations; 0.05 is the room given to noise.",
        "matching.csv",
        partial(
            through_training,
            which=sigma_mlp,
            quantity=identity_above_random,
            worst=FARTHEST_FROM_ZERO,
            layerwise=True,
        ),
    ),
    stated(
        "identifiability-7-syre",
        "identifiability-7",
        "In syre networks with sigma_F of 1 and more the identity ends nearly "
        "optimal: ratio of the objectives in the worst layer",
        at_least(0.9),
        NEAR_OPTIMAL,
        "matching.csv",
        partial(
            at_the_end,
            which=SYRE_FROM_1,
            quantity=identity_over_optimal,
            worst=SMALLEST,
            layerwise=True,
        ),
    ),
)
EVERY_W_0 = of_scheme("w_asymmetric", 0, 0)
EVERY_W_1 = of_scheme("w_asymmetric", 1, 1)
FIG_10 = (
    stated(
        "identifiability-10-sparse",
        "identifiability-10",
        "Sparsity without fixed weights does not give identifiability: ratio of "
        "identity to optimal objective in the worst layer at sigma_F = 0",
        at_most(0.25),
        "The paper says sparsity alone does not yield strong identifiability; a quarter of the optimum is not strong.",
        "matching.csv",
        partial(
            at_the_end,
            which=lambda table: EVERY_W_0(table) & table["fixed_fraction"].notna(),
            quantity=identity_over_optimal,
            worst=LARGEST,
            layerwise=True,
        ),
    ),
    stated(
        "identifiability-10-fixed",
        "identifiability-10",
        "At sigma_F = 1, fixing 5 % of the weights or more does: ratio of "
        "identity to optimal objective in the worst layer",
        at_least(0.75),
        "The paper finds that it takes fixed weights of large scale; looser "
        "than in Fig. 3, because few of them are fixed here.",
        "matching.csv",
        partial(
            at_the_end,
            which=lambda table: EVERY_W_1(table) & (table["fixed_fraction"] >= 0.05),
            quantity=identity_over_optimal,
            worst=SMALLEST,
            layerwise=True,
        ),
    ),
)


CLAIMS: tuple[Claim, ...] = (
    *claims_against_epoch("identifiability-7", layerwise=True),
    *FIG_7_OTHERS,
    *claims_against_sigma_F("identifiability-8", layerwise=True, large=1),
    *claims_against_sigma_F("identifiability-9", layerwise=True, large=2),
    *FIG_10,
)
