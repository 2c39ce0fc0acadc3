"""Descents that start on a mirror, and beside it: two losses in the plane, and optimizers on a rotation's (Fig. 5)."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.settings import Lines

Array = np.ndarray
RESCALING, ROTATION = "rescaling", "rotation"


def _of_product(u: Array, w: Array) -> tuple[Array, Array]:
    return 2 * (w * u - 1) * w, 2 * (w * u - 1) * u


def _of_radius(u: Array, w: Array) -> tuple[Array, Array]:
    factor = 2 * (2 * (u**2 + w**2) - 1)
    return factor * u, factor * w


LOSSES: dict[str, tuple[Callable[[Array, Array], Array], Callable[[Array, Array], tuple[Array, Array]]]] = {
    RESCALING: (lambda u, w: (w * u - 1) ** 2, _of_product),
    ROTATION: (lambda u, w: -(u**2 + w**2) + (u**2 + w**2) ** 2, _of_radius),
}
"""Two losses with their gradients (Fig. 5): (wu - 1)^2, which u <-> w and u <-> -w leave as it is, and -q + q^2 with
q = u^2 + w^2, for which every line through 0 is a mirror."""
MIRRORS = {
    RESCALING: {"u = w": np.array([1.0, 1.0]) / np.sqrt(2), "u = -w": np.array([-1.0, 1.0]) / np.sqrt(2)},
    ROTATION: {f"{angle}°": np.array([np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))]) for angle in (0, 20, 100)},
}
"""Of each loss the mirrors on which descents start, by name, and unit vectors along them."""
RADII = 0.3, 1.5
"""How far from 0 they start."""


def descend_along_mirrors(settings: Lines, job: Job) -> dict[str, pd.DataFrame]:
    """Plain gradient descent in double precision from both sides of 0, on each mirror and ``offset`` beside it."""
    tables = [
        _descend(settings, kind, along, radius, offset).assign(mirror=mirror)
        for kind in LOSSES
        for mirror, along in MIRRORS[kind].items()
        for radius in (*RADII, *(-radius for radius in RADII))
        for offset in (0.0, settings.offset)
    ]
    # Figures import this module for its losses; torch is for the experiment alone.
    from symlab.papers.mirror_symmetry.small.on_mirrors import descend_from_mirrors

    return {
        "mirror_lines.csv": pd.concat(tables, ignore_index=True),
        "mirror_optimizers.csv": descend_from_mirrors(settings.optimizer_steps, job),
    }


def _descend(settings: Lines, kind: str, along: Array, radius: float, offset: float) -> pd.DataFrame:
    _, gradient = LOSSES[kind]
    across = np.array([-along[1], along[0]])
    path = np.empty((settings.steps + 1, 2))
    path[0] = radius * along + offset * across
    for step in range(settings.steps):
        path[step + 1] = path[step] - settings.lr * np.stack(gradient(*path[step]))
    u, w = path.T
    columns = {"step": np.arange(len(path)), "u": u, "w": w, "off": u * across[0] + w * across[1]}
    return pd.DataFrame({"loss_of": kind, "radius": radius, "offset": offset, **columns})
