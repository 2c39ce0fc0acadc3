"""Figs. 3a to 3c: matching objectives against sigma_F and over training, averaged over layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symlab.papers.card import Drawing
from symlab.papers.claim import Tables
from symlab.papers.neuron_identifiability.objectives import (
    OBJECTIVE,
    SIGMA_F,
    claims_against_epoch,
    claims_against_sigma_F,
    draw_objectives,
    need_epochs,
    sweep_rows,
)
from symlab.plotting.rows import average_layers, label_rows, need, sigma_regimes
from symlab.plotting.style import (
    COLUMN,
    OVER_PAIRS,
    Style,
    handles,
    legend,
    name_axes,
    name_row,
    panels,
    permutation_looks,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def against_sigma_F(tables: Tables, style: Style) -> Figure:
    """Figs. 3a, 3b: objectives averaged over layers against sigma_F after the last epoch, a panel a data set."""
    rows = average_layers(sweep_rows(need(tables, "matching.csv")))
    datasets = list(rows["dataset"].unique())
    figure, axes = panels(1, len(datasets), max(COLUMN, 2.3 * len(datasets)), 2.5)
    for axis, dataset in zip(axes[0], datasets, strict=True):
        draw_objectives(axis, rows[rows["dataset"] == dataset], "sigma_F", style)
        if len(datasets) > 1:
            axis.set_title(dataset)
    name_axes(axes, SIGMA_F, OBJECTIVE)
    legend(figure, handles(permutation_looks(style)), OVER_PAIRS)
    return figure


def against_epoch(tables: Tables, style: Style) -> Figure:
    """Fig. 3c: objectives averaged over layers against the epoch, W-asymmetric, sigma_F = 0 and the smallest >= 1."""
    matching = need_epochs(need(tables, "matching.csv"))
    sweep, scales = sigma_regimes(matching)
    rows = average_layers(label_rows(matching, sweep))
    datasets = list(rows["dataset"].unique())
    figure, axes = panels(len(datasets), 2, 5.2, 0.9 + 1.7 * len(datasets))
    for row, dataset in enumerate(datasets):
        for column, sigma_F in enumerate(scales):
            chosen = rows[(rows["dataset"] == dataset) & (rows["sigma_F"] == sigma_F)]
            draw_objectives(axes[row, column], chosen, "epoch", style)
            if row == 0:
                axes[row, column].set_title(rf"W, $\sigma_F$ = {sigma_F:g}")
        if len(datasets) > 1:
            name_row(axes[row, -1], dataset)
    name_axes(axes, "epoch", OBJECTIVE)
    legend(figure, handles(permutation_looks(style)), OVER_PAIRS)
    return figure


FIGURES = (
    Drawing(
        "identifiability-3a",
        "Matching objective against σ_F",
        """\
Matching objective ⟨P, S⟩_F / d of the study `{study}` after the last epoch, against the scale σ_F of the fixed
weights in W-asymmetric networks. S holds the correlations between the neurons of two networks of a pair; P is the
optimal, the identity or a random permutation. Values are averaged over hidden layers; error bars are one standard
deviation over pairs.

Where the identity comes close to the optimum, neurons find the same role in every run and need no alignment. Where it
stays at the level of random permutations, they do not.
""",
        against_sigma_F,
    ),
    Drawing(
        "identifiability-3b",
        "Matching objective against σ_F, ResNets",
        """\
Matching objective ⟨P, S⟩_F / d of the study `{study}` after the last epoch, against the scale σ_F of the fixed
weights in W-asymmetric ResNets. S holds the correlations between the neurons of two networks of a pair; P is the
optimal, the identity or a random permutation. Values are averaged over groups of neurons, the residual streams of
block groups and the insides of blocks alike; error bars are one standard deviation over pairs.

As in Figure 3a, but it should take a larger σ_F, 2 and more, until the identity comes close to the optimum.
""",
        against_sigma_F,
    ),
    Drawing(
        "identifiability-3c",
        "Matching objective over training",
        """\
Matching objective ⟨P, S⟩_F / d of the study `{study}` against the training epoch, averaged over hidden layers, for
W-asymmetric networks without fixed weights (σ_F = 0) and with large ones (the smallest σ_F ≥ 1 of the study). Bands
are one standard deviation over pairs.

With large fixed weights the identity should follow the optimal permutation from the first epochs on; without them it
should stay near the random ones throughout.
""",
        against_epoch,
    ),
)

CLAIMS = (
    *claims_against_sigma_F("identifiability-3a", layerwise=False, large=1),
    *claims_against_sigma_F("identifiability-3b", layerwise=False, large=2),
    *claims_against_epoch("identifiability-3c", layerwise=False),
)
