"""Fig. 21: coherence of the subspaces that layers read, over training."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Measurement, Tables, above, mean, spread, stated
from symlab.papers.neuron_identifiability.architectures import STANDARD, SYRE_1, W_0, W_1
from symlab.plotting.rows import (
    Mask,
    any_of,
    compared_variants,
    label_rows,
    last_epoch,
    mean_std,
    need,
    same_dataset,
    sort_points,
    split_variants,
    where,
)
from symlab.plotting.style import PAGE, Style, handles, legend, mean_line, name_axes, name_row, panels, variant_looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NU = r"coherence $\nu(U)$"


def nu_against_epoch(tables: Tables, style: Style) -> Figure:
    """Fig. 21: nu of the model's inputs, each later layer's inputs and the outputs against the epoch, by variant."""
    subspaces = need(tables, "subspaces.csv")
    if subspaces["epoch"].nunique() < 2:
        raise UserError(f"it needs networks of several epochs, so list some in {where(subspaces)}.snapshots.")
    variants = compared_variants(subspaces)
    looks = variant_looks(variants, style)
    rows = label_rows(subspaces, variants)
    datasets, points = list(rows["dataset"].unique()), sort_points(rows["point"])
    figure, axes = panels(len(datasets), len(points), PAGE, 1.1 + 1.5 * len(datasets))
    for row, dataset in enumerate(datasets):
        for column, point in enumerate(points):
            part = rows[(rows["dataset"] == dataset) & (rows["point"] == point)]
            for label, look in looks.items():
                mean_line(
                    axes[row, column], mean_std(part[part["label"] == label], "epoch", "nu"), look, label, band=True
                )
            if row == 0:
                axes[row, column].set_title(_point_name(point))
        if len(datasets) > 1:
            name_row(axes[row, -1], dataset)
    name_axes(axes, "epoch", NU)
    legend(figure, handles(looks), "mean ± std over networks")
    return figure


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
inputs, of the inputs to each later layer and of its outputs, against the training epoch, study `{study}`. Lines are
means over networks, bands one standard deviation. ν lies between k/d (spread over all neurons) and 1 (along single
neurons); the inputs' value does not depend on the network.

In later layers W-asymmetric networks with large σ_F and syre networks should be more coherent than standard ones and
those with σ_F = 0.
""",
        nu_against_epoch,
    ),
)


def excess_at_last_hidden(tables: Tables, which: Mask, baselines: tuple[Mask, ...]) -> list[Measurement]:
    """By how much nu at the last hidden layer exceeds the largest of the baselines', for each variant."""
    rows = tables["subspaces.csv"]
    hidden = rows[rows["point"].str.fullmatch(r"hidden\d+")]
    number = hidden["point"].str.removeprefix("hidden").astype(int)
    return _excess(hidden[number == number.groupby(hidden["variant"]).transform("max")], which, baselines)


def excess_at_output(tables: Tables, which: Mask, baselines: tuple[Mask, ...]) -> list[Measurement]:
    """By how much nu of the network's outputs exceeds the largest of the baselines', for each variant."""
    rows = tables["subspaces.csv"]
    return _excess(rows[rows["point"] == "output"], which, baselines)


def _excess(rows: pd.DataFrame, which: Mask, baselines: tuple[Mask, ...]) -> list[Measurement]:
    """Mean nu over models at the last epoch, less the largest mean of a baseline; every kind of baseline is needed."""
    rows = last_epoch(rows)
    measured = []
    for case, of_variant in split_variants(rows, which):
        near = same_dataset(rows, of_variant)
        kinds = [split_variants(near, baseline) for baseline in baselines]
        if all(kinds):
            levels = {name: mean(other["nu"].to_numpy()) for kind in kinds for name, other in kind}
            values = of_variant["nu"].to_numpy()
            told = ", ".join(f"{name}: {level:.3g}" for name, level in {"nu here": mean(values), **levels}.items())
            excess = mean(values) - float(np.max(list(levels.values())))
            measured.append(Measurement(excess, len(values), spread(values), case, told))
    return measured


CLAIMS = tuple(
    stated(
        f"identifiability-21-{point}",
        "identifiability-21",
        f"At the end of training, networks with sigma_F = 1 hold a higher coherence nu {place} than "
        "standard ones and sigma_F = 0: difference from the higher of the two",
        above(0),
        "The paper says variants without effective symmetry breaking have low coherence in "
        "later layers; no size is stated, so only the order is asked for.",
        "subspaces.csv",
        partial(measure, which=any_of(W_1, SYRE_1), baselines=(STANDARD, W_0)),
    )
    for point, place, measure in (
        ("hidden", "at the last hidden layer", excess_at_last_hidden),
        ("output", "at the output", excess_at_output),
    )
)
