"""Which rows of networks, paths and pairs of neurons the paper's figures and claims are about."""

from __future__ import annotations

import numpy as np
import pandas as pd

from symlab.plotting.pairs import PAIR
from symlab.study.tables import one_matching

MODEL = ["variant", "mask_seed", "seed"]
BLOCK = 128
"""Neurons of a layer in the paper's heat maps of swap costs: its first ones."""


def same_dataset(table: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``table`` measured on the data set that ``rows`` (of one variant) were measured on."""
    return table[table["dataset"] == rows["dataset"].iloc[0]]


def one_path(paths: pd.DataFrame, split: str, aligned: bool) -> pd.DataFrame:
    """The rows of one split's aligned or unaligned path; of several ways of matching, that of the first."""
    rows = paths[(paths["split"] == split) & (paths["aligned"].astype(bool) == aligned)]
    return one_matching(rows)


def assumptions_hold(rows: pd.DataFrame) -> pd.Series:
    """Rows in which all assumptions hold: their ``assumption`` is empty, which a CSV file gives back as NaN."""
    return rows["assumption"].isna() | (rows["assumption"].astype(str).str.strip() == "")


def consecutive(pairs: pd.DataFrame) -> pd.Series:
    """The disjoint consecutive pairs (0, 1), (2, 3), ... of neurons i < j, as in the paper's distributions."""
    return (pairs["j"] == pairs["i"] + 1) & (pairs["i"] % 2 == 0)


def first_block(pairs: pd.DataFrame) -> pd.Series:
    """The pairs of the first ``BLOCK`` neurons, as in the paper's heat maps."""
    return (pairs["i"] < BLOCK) & (pairs["j"] < BLOCK)


def signed_sqrt(values: pd.Series | np.ndarray) -> np.ndarray:
    """sign(x) sqrt(|x|), the transform swap costs are shown in."""
    x = np.asarray(values, dtype=np.float64)
    return np.sign(x) * np.sqrt(np.abs(x))


def average_layers(matching: pd.DataFrame) -> pd.DataFrame:
    """The matching table, with labels, with each pair's objective averaged over its layers."""
    pair = ["study", "variant", "dataset", "label", "sigma_F", *PAIR, "epoch", "permutation"]
    return matching.groupby(pair, dropna=False, sort=False, as_index=False)["objective"].mean()
