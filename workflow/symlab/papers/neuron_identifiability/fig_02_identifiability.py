"""Fig. 2: what neurons can compute and what two runs learned, on a plane of the inputs; a drawing in the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.variants import (
    compared_variants,
    name_variant,
    smallest_large,
    standard,
    w_asymmetric,
)
from symlab.plotting.style import Style, legend, line_entry, mark_entry, name_axes, palette, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Tables
from symlab.study.tables import need, where

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


DRAWN = 8
"""Neurons in each panel; more would hide each other."""
ALSO = {"standard": "no symmetry broken", "zero": "masks alone", "large": "masks and fixed weights"}


def functions_on_a_plane(tables: Tables, style: Style) -> Figure:
    """Fig. 2: v_i + M_i w for |w| <= c as ellipses, a_i of run A and of run B, a panel a kind of networks."""
    kinds = _kinds(tables)
    if not kinds:
        raise UserError(
            f"{where(need(tables, 'neurons.csv'))}.variants has neither standard nor W-asymmetric networks with "
            "sigma_F 0 or at least 1; add some."
        )
    radius = float(np.median(np.concatenate([_norms(rows) for rows in kinds.values()])))
    colors = palette(style, DRAWN)
    figure, axes = panels(1, len(kinds), 0.9 + 2.0 * len(kinds), 3.0, sharex=False, sharey=False)
    for axis, (kind, rows) in zip(axes[0], kinds.items(), strict=True):
        for color, (_, of_neuron) in zip(colors, rows.groupby("neuron"), strict=False):
            _draw_neuron(axis, of_neuron, radius, color)
        axis.set_title(f"{name_variant(rows.iloc[0], latex=True)}\n{ALSO[kind]}")
        axis.set_aspect("equal", adjustable="datalim")
    name_axes(axes, "1st direction of the inputs", "2nd direction")
    entries = [
        line_entry(rf"what weights of norm {radius:.2g} reach"),
        mark_entry("fixed centre $v_i$", "+"),
        mark_entry("learned in run A", "o"),
        mark_entry("learned in run B", "^"),
    ]
    legend(figure, entries, f"a colour a neuron: the first {DRAWN} of layer 1 in two networks with the same masks")
    return figure


def _kinds(tables: Tables) -> dict[str, pd.DataFrame]:
    """Two networks of each of the paper's columns, by its key in ``ALSO``; those that the study has."""
    table = need(tables, "neurons.csv")
    variants = compared_variants(table)
    variants = variants[(variants["dataset"] == table["dataset"].iloc[0]) & (variants["activation"] != "sigma")]
    sigma = variants["sigma_F"]
    chosen = {
        "standard": standard(variants),
        "zero": w_asymmetric(variants) & (sigma == 0),
        "large": w_asymmetric(variants) & (sigma == smallest_large(sigma[w_asymmetric(variants)])),
    }
    kinds = {}
    for kind, which in chosen.items():
        if which.any():
            rows = table[table["variant"] == variants.index[which][0]]
            rows = rows[rows["mask_seed"] == rows["mask_seed"].min()]
            kinds[kind] = rows[rows["seed"].isin(sorted(rows["seed"].unique())[:2])]
    return kinds


def _points(rows: pd.DataFrame, name: str) -> np.ndarray:
    return rows[[f"{name}_1", f"{name}_2"]].to_numpy()


def _grams(rows: pd.DataFrame) -> np.ndarray:
    return rows[["S_11", "S_12", "S_12", "S_22"]].to_numpy().reshape(-1, 2, 2)


def _norms(rows: pd.DataFrame) -> np.ndarray:
    """Least norms of the trainable weights that give the learned functions on the plane."""
    moved = _points(rows, "a") - _points(rows, "v")
    return np.sqrt(np.einsum("nk,nkl,nl->n", moved, np.linalg.pinv(_grams(rows)), moved))


def _draw_neuron(axis: Axes, rows: pd.DataFrame, radius: float, color: tuple[float, float, float]) -> None:
    values, directions = np.linalg.eigh(_grams(rows)[0])
    angles = np.linspace(0, 2 * np.pi, 120)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    centre = _points(rows, "v")[0]
    ellipse = centre[:, None] + radius * directions @ (np.sqrt(np.maximum(values, 0))[:, None] * circle)
    axis.plot(*ellipse, color=color, linewidth=0.9, label="_reach")
    axis.plot(*centre, color=color, marker="+", linestyle="", markersize=5, label="v")
    learned = _points(rows.sort_values("seed"), "a")
    axis.plot(*learned.T, color=color, linewidth=0.6, alpha=0.7)
    for point, marker, run in zip(learned, "o^", "AB", strict=False):
        axis.plot(*point, color=color, marker=marker, linestyle="", markersize=4, label=f"run {run}")


def distance_of_runs(rows: pd.DataFrame) -> float:
    """Median distance of what a neuron learned in two runs, in units of that of two different neurons."""
    A, B = (_points(run.sort_values("neuron"), "a") for _, run in rows.groupby("seed"))
    distances = np.linalg.norm(A[:, None] - B, axis=-1)
    return float(np.median(np.diag(distances)) / np.median(distances[~np.eye(len(distances), dtype=bool)]))


def seen(tables: Tables) -> str:
    """How far apart both runs' functions of a neuron are, by kind of networks."""
    told = [
        f"{distance_of_runs(rows):.2g} ({name_variant(rows.iloc[0], latex=False)})"
        for rows in _kinds(tables).values()
        if rows["seed"].nunique() > 1
    ]
    return f"What a neuron learned in runs A and B is {', '.join(told)} times as far apart as what two neurons learned."


FIGURES = (
    Drawing(
        "identifiability-2",
        "What neurons can compute, and what two runs learned",
        """\
The first-layer functions of the same eight neurons in two networks that share masks and fixed weights, on the plane of
the inputs' two leading principal directions, study `{study}`. An ellipse is all that a neuron computes with trainable
weights of a given norm, around the fixed centre vᵢ = Uᵀfᵢ; marks are what it learned in run A and run B, joined by a
line. Each panel has its own scale.
""",
        functions_on_a_plane,
        seen,
        "a drawing in the paper, measured here in trained networks; inputs of more than two directions are projected",
    ),
)
CLAIMS: tuple[Claim, ...] = ()
