"""Fig. 2: what neurons can compute and what two runs learned, on a plane of the inputs; a drawing in the paper."""

import numpy as np
import pandas as pd

from symlab.papers.neuron_identifiability.masks import STANDARD, w_asymmetric
from symlab.papers.neuron_identifiability.variants import telling_variants
from symlab.plotting.style import Axes, Figure, Style, line_entry, mark_entry, palette
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Tables
from symlab.study.facets import facets, labelled
from symlab.study.tables import need, some, where

DRAWN = 8
"""Neurons in each panel; more would hide each other."""


def functions_on_a_plane(tables: Tables, style: Style) -> Figure:
    table = need(tables, "neurons.csv")
    rows = some(
        _kinds(table),
        f"{where(table)}.variants has neither standard nor W-asymmetric networks with sigma_F 0 or at least 1; add "
        "some.",
    )
    radius, shown = float(np.median(_norms(rows))), rows[rows["neuron"] < DRAWN]
    reach = 1.15 * float(np.abs([_points(shown, name) for name in "av"]).max())
    color = palette(style)[3]

    def draw(axis: Axes, rows: pd.DataFrame) -> None:
        for number, (_, of_neuron) in reversed(list(enumerate(list(rows.groupby("neuron"))[:DRAWN]))):
            _draw_neuron(axis, of_neuron, radius, (0.72, 0.72, 0.72) if number else color)
        axis.locator_params(nbins=3)

    entries = [
        line_entry("one neuron", color=color),
        line_entry(f"{DRAWN - 1} others", color="0.72"),
        line_entry(rf"what weights of norm {radius:.2g} reach"),
        mark_entry("fixed centre $v_i$", "+"),
        mark_entry("learned in run A", "o"),
        mark_entry("in run B", "^"),
    ]
    return facets(
        rows, "", "", {}, column="kind", more=draw, width=0.6 + 2.1 * rows["kind"].nunique(), height=2.7,
        axes=labelled("1st direction", "2nd direction", aspect="equal", xlim=(-reach, reach), ylim=(-reach, reach)),
        entries=entries, note="layer 1 of two networks with the same masks, on the plane of the inputs",
    )  # fmt: skip


def _kinds(table: pd.DataFrame) -> pd.DataFrame:
    """Two networks of each of the paper's columns, with its title as ``kind``; those that the study has."""
    variants = telling_variants(table)
    variants = variants[(variants["dataset"] == table["dataset"].iloc[0]) & (variants["activation"] != "sigma")]
    masked, sigma_F = w_asymmetric(variants), variants["sigma_F"]
    columns = {
        "no symmetry broken": STANDARD(variants),
        "masks alone": masked & (sigma_F == 0),
        "masks and fixed weights": masked & (sigma_F >= 1),
    }
    kinds = []
    for also, which in columns.items():
        for variant, label in variants.loc[which, "label"].head(1).items():
            rows = table[(table["variant"] == variant) & (table["mask_seed"] == table["mask_seed"].min())]
            kinds.append(rows[rows["seed"].rank(method="dense") <= 2].assign(kind=f"{label}\n{also}"))
    return pd.concat(kinds) if kinds else table.head(0)


def _points(rows: pd.DataFrame, name: str) -> np.ndarray:
    return rows[[f"{name}_1", f"{name}_2"]].to_numpy()


def _grams(rows: pd.DataFrame) -> np.ndarray:
    return rows[["S_11", "S_12", "S_12", "S_22"]].to_numpy().reshape(-1, 2, 2)


def _norms(rows: pd.DataFrame) -> np.ndarray:
    """Least norms of the trainable weights that give the learned functions on the plane."""
    moved = _points(rows, "a") - _points(rows, "v")
    return np.sqrt(np.einsum("nk,nkl,nl->n", moved, np.linalg.pinv(_grams(rows)), moved))


def _draw_neuron(axis: Axes, rows: pd.DataFrame, radius: float, color: tuple[float, float, float]) -> None:
    """The ellipse that weights of a norm reach, its centre, and what the two runs learned."""
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


FIGURES = {
    "identifiability-2": Drawing(
        "What neurons can compute, and what two runs learned",
        "The first-layer functions of the same eight neurons in two networks that share masks and fixed weights, on "
        "the plane of the inputs' two leading principal directions, study `{study}`. An ellipse is all that a neuron "
        "computes with trainable weights of a given norm, around the fixed centre vᵢ = Uᵀfᵢ; marks are what it "
        "learned in run A and run B, joined by a line. One neuron is in colour, seven others in grey; all panels "
        "have one scale.",
        functions_on_a_plane,
        differs="a drawing in the paper, measured here in trained networks; inputs of more than two directions are "
        "projected",
    ),
}
CLAIMS: dict[str, Claim] = {}
