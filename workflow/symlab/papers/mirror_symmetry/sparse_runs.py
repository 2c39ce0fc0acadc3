"""What the figures of sparsity read from the tables of ``sparsity``: runs beside their prediction, and midpoints."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.sparsity import PLAIN, PRODUCT
from symlab.study.claim import Tables
from symlab.study.tables import need

SPARSITY, LAW = "mirror_sparsity.csv", "mirror_sparsity_law.csv"
SHOWN = "below_6"
"""The column of Fig. 7's sparsity, |theta| < 1e-6, which the figures take throughout."""
GRID = ["grid", "d", "sigma", "batch"]
HALVES = {"half": SHOWN, "alone": "alone_6"}


def of_model(tables: Tables, model: str) -> pd.DataFrame:
    """Rows of one model that have not diverged; empty if there are none."""
    rows = need(tables, SPARSITY)
    return rows[(rows["model"] == model) & ~rows["diverged"]]


def beside_plain(tables: Tables) -> pd.DataFrame:
    """Rows of both models of those grids that have the plain one too: Fig. 3 left."""
    rows = need(tables, SPARSITY)
    return rows[rows["grid"].isin(rows.loc[rows["model"] == PLAIN, "grid"])]


def at_end(rows: pd.DataFrame) -> pd.DataFrame:
    """Each grid's rows after its last step."""
    return rows[rows["step"] == rows.groupby("grid")["step"].transform("max")]


def with_law(tables: Tables, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with what is predicted of them: ``growth``, and ``law_k`` and ``alone_k`` for each ``below_k``."""
    law = need(tables, LAW).rename(columns=lambda name: name.replace("below_", "law_"))
    return rows.merge(law, on=[*GRID, "lr", "step"], how="left")


def midpoint(rates: np.ndarray, shares: np.ndarray) -> float:
    """The rate at which shares, which rise with the rate, pass one half (linear in the logarithm); NaN if none."""
    above = np.flatnonzero(shares >= 0.5)
    if not len(above) or above[0] == 0:
        return float("nan")
    low, high = above[0] - 1, above[0]
    part = (0.5 - shares[low]) / (shares[high] - shares[low])
    return float(np.exp(np.log(rates[low]) * (1 - part) + np.log(rates[high]) * part))


def midpoints(rows: pd.DataFrame) -> pd.DataFrame:
    """Midpoints of each grid, noise, batch size, step and seed: ``half`` measured, ``alone`` of simulated products."""
    found = []
    for key, of in rows[rows["model"] == PRODUCT].groupby([*GRID, "step", "seed"]):
        of = of.sort_values("lr")
        halves = {name: midpoint(of["lr"].to_numpy(), of[by].to_numpy()) for name, by in HALVES.items()}
        found.append(dict(zip([*GRID, "step", "seed"], key, strict=True)) | halves)
    return pd.DataFrame(found, columns=[*GRID, "step", "seed", *HALVES])


def farthest_off(rows: pd.DataFrame, by: str, powers: Iterable[int]) -> tuple[np.ndarray, str, int]:
    """Differences of shares from a prediction (``law``, ``alone``) where their mean is largest, where, and of how many.

    One a seed, with the sign that makes their mean positive.
    """
    places = [rows["grid"], rows["lr"], rows["step"]]
    each = {k: (rows[f"below_{k}"] - rows[f"{by}_{k}"]).groupby(places) for k in powers}
    means = pd.concat({k: of.mean() for k, of in each.items()})
    k, *place = means.abs().idxmax()
    _, lr, step = place
    off = each[k].get_group(tuple(place)).to_numpy()
    return off * np.sign(off.mean()), f"below 1e-{k} at rate {lr:.3g} after {step:,} steps", len(means)
