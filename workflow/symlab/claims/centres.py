"""Measurements on centre_gaps.csv: the smallest distance between projected centres against the layer's width."""

from __future__ import annotations

import numpy as np
import pandas as pd

from symlab.papers.claim import Measurement, Tables, spread


def slopes(tables: Tables, k: int) -> list[Measurement]:
    """Least-squares slope of log(mean gamma_out over draws) against log m at one k, for each setting of F.

    The spread is that of the slopes of single draws. A setting with fewer than two widths is left out.
    """
    table = tables["centre_gaps.csv"]
    rows = table[table["k"] == k]
    setting = ["dataset", "sigma_F", "fixed_fraction"]
    telling = [column for column in setting if column == "fixed_fraction" or rows[column].nunique() > 1]
    measured = []
    for _, group in rows.groupby(setting, sort=False):
        gaps = group.pivot(index="m", columns="draw", values="gamma_out")
        if len(gaps) > 1:
            of_draws = np.array([slope(gaps[draw]) for draw in gaps])
            case = ", ".join(f"{column} = {group[column].iloc[0]}" for column in telling)
            value = slope(gaps.mean(axis="columns", skipna=False))
            widths = f"m = {gaps.index.min():g} to {gaps.index.max():g}"
            measured.append(Measurement(value, len(of_draws), spread(of_draws), case, widths))
    return measured


def slope(gaps: pd.Series) -> float:
    """Least-squares slope of the logarithm of the values against that of the index."""
    x = np.log(gaps.index.to_numpy(dtype=float))
    # Two equal centres have distance 0 and a slope of no finite value.
    with np.errstate(divide="ignore", invalid="ignore"):
        y = np.log(gaps.to_numpy(dtype=float))
        return float(np.sum((x - x.mean()) * (y - y.mean())) / np.sum((x - x.mean()) ** 2))
