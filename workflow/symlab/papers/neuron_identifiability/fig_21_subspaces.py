"""Fig. 21: coherence of the subspaces that layers read, over training."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.architectures import STANDARD, SYRE_1, W_0, W_1
from symlab.papers.neuron_identifiability.looks import tick_epochs, variant_looks
from symlab.papers.neuron_identifiability.recording_points import sort_points
from symlab.papers.neuron_identifiability.rows import same_dataset
from symlab.papers.neuron_identifiability.variants import (
    Mask,
    any_of,
    every_row,
    label_rows,
    split_variants,
    telling_variants,
)
from symlab.plotting import style as plot
from symlab.plotting.units import draw_units, over_pairs
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Measurement, Tables, above, difference_of, mean
from symlab.study.tables import last_epoch, need, where

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


NU = r"coherence $\nu(U)$"


def nu_against_epoch(tables: Tables, style: plot.Style) -> Figure:
    """Fig. 21: nu of the model's inputs, each later layer's inputs and the outputs against the epoch, by variant."""
    subspaces = need(tables, "subspaces.csv")
    if subspaces["epoch"].nunique() < 2:
        raise UserError(f"it needs networks of several epochs, so list some in {where(subspaces)}.snapshots.")
    variants = telling_variants(subspaces)
    looks = variant_looks(variants, style)
    rows = label_rows(subspaces, variants)
    datasets, points = list(rows["dataset"].unique()), sort_points(rows["point"])
    figure, axes = plot.panels(len(datasets), len(points), plot.PAGE, 1.1 + 1.7 * len(datasets), sharey=False)
    for row, dataset in enumerate(datasets):
        for column, point in enumerate(points):
            part = rows[(rows["dataset"] == dataset) & (rows["point"] == point)]
            for label, look in looks.items():
                of_label = part[part["label"] == label]
                if len(of_label):
                    draw_units(axes[row, column], of_label, "epoch", "nu", look, label, band=True, marker=False)
            tick_epochs(axes[row, column])
            if row == 0:
                axes[row, column].set_title(_point_name(point))
        _share_scale([axis for axis, point in zip(axes[row], points, strict=True) if point != "output"])
        if len(datasets) > 1:
            plot.name_row(axes[row, -1], dataset)
    plot.name_axes(axes, "epoch", NU)
    plot.legend(figure, plot.handles(looks, marker=False), f"{over_pairs(rows)}; outputs have a scale of their own")
    return figure


def _share_scale(axes: list[Axes]) -> None:
    """Give all panels of a row but that of the few outputs, whose coherence is near 1, one scale."""
    limits = np.array([axis.get_ylim() for axis in axes])
    for number, axis in enumerate(axes):
        axis.set_ylim(limits[:, 0].min(), limits[:, 1].max())
        axis.tick_params(labelleft=number == 0)


def seen(tables: Tables) -> str:
    """The coherence of each later layer's inputs after the last epoch, by variant."""
    rows = last_epoch(tables["subspaces.csv"])
    rows = rows[rows["point"].isin(_hidden(rows)) & rows["variant"].isin(telling_variants(rows).index)]
    parts = []
    for case, part in split_variants(rows, every_row):
        means = part.groupby("point")["nu"].mean()
        parts.append(f"{case} {', '.join(f'{means[point]:.2g}' for point in sort_points(means.index))}")
    return f"ν of the inputs to the later layers, in their order, at the end of training: {'; '.join(parts)}."


def _hidden(rows: pd.DataFrame) -> list[str]:
    return sort_points(point for point in rows["point"] if str(point).startswith("hidden"))


def _point_name(point: str) -> str:
    if point in ("input", "output"):
        return f"model {point}s"
    return f"layer {int(point.removeprefix('hidden')) + 1} inputs" if point.startswith("hidden") else point


FIGURES = (
    Drawing(
        "identifiability-21",
        "Subspace coherence over training",
        """\
Coherence ν of the subspace that carries most of the variance (the study's `explained_variance`) of the network's
inputs, of the inputs to each later layer and of its outputs, against the training epoch, study `{study}`. ν lies
between k/d (spread over all neurons) and 1 (along single neurons); the inputs' value does not depend on the network. Of
several W-asymmetric and syre networks, those with σ_F = 0 and the smallest σ_F ≥ 1 are shown.
""",
        nu_against_epoch,
        seen,
        "σ-MLPs are not in the paper's figure. Their coherence is high though their neurons are not identifiable "
        "(Fig. 7): ν speaks of the data a layer reads, not of the layer's symmetries.",
    ),
)


def excess_at_later_layers(tables: Tables, which: Mask, baselines: tuple[Mask, ...]) -> list[Measurement]:
    """By how much nu of a later layer's inputs exceeds the largest of the baselines' at the last epoch.

    One value a variant and layer; every kind of baseline is needed.
    """
    rows = last_epoch(tables["subspaces.csv"])
    measured = []
    for case, of_variant in split_variants(rows, which):
        near = same_dataset(rows, of_variant)
        for point in _hidden(of_variant):
            kinds = [split_variants(near[near["point"] == point], baseline) for baseline in baselines]
            if not all(kinds):
                continue
            levels = {name: other["nu"].to_numpy() for kind in kinds for name, other in kind}
            # max takes an undefined level for the highest.
            base = max(levels.values(), key=lambda level: np.inf if np.isnan(level).any() else mean(level))
            values = of_variant.loc[of_variant["point"] == point, "nu"].to_numpy()
            told = {"ν here": mean(values), **{name: mean(level) for name, level in levels.items()}}
            detail = ", ".join(f"{name}: {level:.3g}" for name, level in told.items())
            measured.append(difference_of(values, base, f"{case}, {_point_name(point)}", detail, "networks"))
    return measured


CLAIMS = (
    Claim(
        id="identifiability-21-layers",
        statement="At the end of training, the inputs to the later layers of networks with σ_F = 1 are more coherent "
        "than those of standard networks and of networks with σ_F = 0",
        quantity="difference of the coherence ν from the higher of the two",
        bound=above(0),
        owner="paper",
        origin="paper",
        reason="The paper (Appendix G.5): variants without effective symmetry breaking exhibit low subspace coherence, "
        "in particular in later layers, while W-asymmetric and syre MLPs with large fixed weights tend to exhibit "
        "higher values. No size is stated, so only the order is asked for.",
        tables=("subspaces.csv",),
        measure=partial(excess_at_later_layers, which=any_of(W_1, SYRE_1), baselines=(STANDARD, W_0)),
        why={
            "syre σ_F = 1, layer 2 inputs": "The paper speaks of a tendency, in particular in later layers; layer 2 is "
            "the earliest, where kinds of networks differ least."
        },
    ),
)
