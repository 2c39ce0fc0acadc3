"""Figs. 3a to 3c: matching objectives against sigma_F and over training, averaged over layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from symlab.papers.neuron_identifiability import objectives
from symlab.papers.neuron_identifiability.looks import permutation_looks
from symlab.papers.neuron_identifiability.rows import average_layers
from symlab.papers.neuron_identifiability.variants import label_rows, sigma_regimes
from symlab.plotting import style as plot
from symlab.plotting.units import over_pairs
from symlab.study.card import Drawing
from symlab.study.claim import Tables
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def against_sigma_F(tables: Tables, style: plot.Style) -> Figure:
    """Figs. 3a, 3b: objectives averaged over layers against sigma_F after the last epoch, a panel a data set."""
    rows = average_layers(objectives.sweep_rows(need(tables, "matching.csv")))
    datasets = list(rows["dataset"].unique())
    figure, axes = plot.panels(1, len(datasets), max(plot.COLUMN, 2.3 * len(datasets)), 2.5)
    for axis, dataset in zip(axes[0], datasets, strict=True):
        objectives.draw_objectives(axis, rows[rows["dataset"] == dataset], "sigma_F", style)
        if len(datasets) > 1:
            axis.set_title(dataset)
    plot.name_axes(axes, objectives.SIGMA_F, objectives.OBJECTIVE)
    plot.legend(figure, plot.handles(permutation_looks(style)), over_pairs(rows))
    return figure


def against_epoch(tables: Tables, style: plot.Style) -> Figure:
    """Fig. 3c: objectives averaged over layers against the epoch, W-asymmetric, sigma_F = 0 and the smallest >= 1."""
    matching = objectives.need_epochs(need(tables, "matching.csv"))
    sweep, scales = sigma_regimes(matching)
    rows = average_layers(label_rows(matching, sweep))
    datasets = list(rows["dataset"].unique())
    figure, axes = plot.panels(len(datasets), 2, 5.2, 0.9 + 1.7 * len(datasets))
    for row, dataset in enumerate(datasets):
        for column, sigma_F in enumerate(scales):
            chosen = rows[(rows["dataset"] == dataset) & (rows["sigma_F"] == sigma_F)]
            objectives.draw_objectives(axes[row, column], chosen, "epoch", style)
            if row == 0:
                axes[row, column].set_title(rf"W, $\sigma_F$ = {sigma_F:g}")
        if len(datasets) > 1:
            plot.name_row(axes[row, -1], dataset)
    plot.name_axes(axes, "epoch", objectives.OBJECTIVE)
    plot.legend(figure, plot.handles(permutation_looks(style)), over_pairs(rows))
    return figure


FIGURES = (
    Drawing(
        "identifiability-3a",
        "Matching objective against σ_F",
        f"""\
Matching objective of W-asymmetric networks after the last epoch against the scale σ_F of their fixed weights, study
`{{study}}`. {objectives.DEFINITION} Values are averaged over hidden layers.
""",
        against_sigma_F,
        objectives.seen_against_sigma_F,
        objectives.BROKEN_AXIS,
    ),
    Drawing(
        "identifiability-3b",
        "Matching objective against σ_F, ResNets",
        f"""\
Matching objective of W-asymmetric ResNets after the last epoch against the scale σ_F of their fixed weights, study
`{{study}}`. {objectives.DEFINITION} Values are averaged over groups of neurons, the residual streams of block groups
and the insides of blocks alike.
""",
        against_sigma_F,
        objectives.seen_against_sigma_F,
        objectives.BROKEN_AXIS,
    ),
    Drawing(
        "identifiability-3c",
        "Matching objective over training",
        f"""\
Matching objective against the training epoch, averaged over hidden layers, study `{{study}}`: W-asymmetric networks
without fixed weights (σ_F = 0) and with large ones (the smallest σ_F ≥ 1 of the study). {objectives.DEFINITION}
""",
        against_epoch,
        objectives.seen_against_epoch,
        "The paper shows MLPs and ResNets side by side; here one kind a study.",
    ),
)

CLAIMS = (
    *objectives.claims_against_sigma_F("identifiability-3a", layerwise=False, large=1),
    *objectives.claims_against_sigma_F("identifiability-3b", layerwise=False, large=2),
    *objectives.claims_against_epoch("identifiability-3c", layerwise=False),
)
