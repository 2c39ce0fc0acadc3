"""Which rows of barriers.csv and curves.csv the figures and claims on deep networks are about (Figs. 7, 8, 14, 15)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.permutation_invariance.students import over
from symlab.study.claim import Found
from symlab.study.curves import Curve, curves, measure_each
from symlab.study.tables import where

DIRECT = "none"
"""What the tables call the matching of a direct path."""
METHODS = {DIRECT: "direct", "activation": "permuted, by activations", "weight": "permuted, by weights"}
"""Names of paths in legends, by what the tables call the matching."""
LACKING = "needs direct and aligned paths of networks of three widths"
UP_AND_DOWN = "After matching, the barrier first grows with the width and then falls"
MIDDLE_OVER_ENDS = (
    "largest mean permuted loss barrier (training set) at a width in between as a multiple of the larger of those at "
    "the smallest and the largest width"
)
EXPLORATORY = "The paper does not give its widths, epochs and architecture"


def train_rows(table: pd.DataFrame, least: int = 3) -> pd.DataFrame:
    """The train rows of networks with a width whose kind has ``least`` widths; ``method`` and ``kind`` name them.

    A kind is a data set and a depth, and a family where there are several; what all have in common is not in its name.
    """
    if "width" not in table:
        table = table.assign(width=np.nan, depth=np.nan)
    rows = table[(table["split"] == "train") & table["width"].notna()]
    rows = rows[rows.groupby(kinds(rows), dropna=False)["width"].transform("nunique") >= least]
    differ = [name for name in kinds(rows) if rows[name].nunique(dropna=False) > 1]
    words = [rows[name].map("{:g} layers".format if name == "depth" else str) for name in differ]
    named = words[0].str.cat(words[1:], sep=", ") if words else ""
    return rows.assign(method=rows["matching"].map(METHODS), kind=named)


def kinds(rows: pd.DataFrame) -> list[str]:
    """The columns that tell kinds of networks apart."""
    several = len(rows) and rows.groupby(["dataset", "depth"], dropna=False)["family"].nunique().max() > 1
    return ["dataset", "depth", *(["family"] if several else [])]


def drawn(table: pd.DataFrame, least: int) -> pd.DataFrame:
    """``train_rows`` for a figure.

    Raises:
        UserError: there are none, or no permuted paths.
    """
    rows = train_rows(table, least)
    if rows.empty:
        number = {1: "one width", 3: "three widths"}[least]
        raise UserError(
            f"{where(table)} needs train among interpolation.splits, and networks of at least {number} that differ in "
            "nothing else; sweep over network.widths (or network.width_multiplier)."
        )
    if not rows["aligned"].any():
        raise UserError(
            f"it needs aligned paths too, so set {where(table)}.interpolation.aligned to true and add matching."
        )
    return rows


def as_in_fig_7(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of networks of four layers on MNIST, if there are any: a study may sweep depths and data sets beside."""
    for column, value in (("source", "mnist"), ("depth", 4)):
        if (table[column] == value).any():
            table = table[table[column] == value]
    return table


def matched(table: pd.DataFrame) -> pd.DataFrame:
    """``train_rows`` along permuted paths, with the barrier of the same pair's ``direct`` path beside theirs."""
    rows = train_rows(table)
    direct = rows["matching"] == DIRECT
    pair = ["dataset", "depth", "family", "width", "mask_seed", "pair"]
    beside = rows[direct].set_index(pair)["barrier_max"].rename("direct")
    return rows[~direct].join(beside, on=pair)


def name_networks(key: Mapping[str, Any]) -> str:
    """Networks for people: ``mnist, depth 4, weight matching``."""
    depth = key.get("depth")
    words = [key.get("dataset"), f"depth {depth:g}" if depth == depth and depth is not None else "", key.get("family")]
    return ", ".join(str(word) for word in [*words, f"{key['matching']} matching" if "matching" in key else ""] if word)


def mean_curves(
    rows: pd.DataFrame, columns: Sequence[str] = ("barrier_max",), along: str | Sequence[str] = "width",
    by: Sequence[str] | None = None,
) -> list[Curve]:  # fmt: skip
    """Mean barriers against width, of each kind and matching."""
    return curves(rows, columns, along, [*kinds(rows), "matching"] if by is None else by, name_networks)


def middle_over_ends(table: pd.DataFrame) -> list[Found]:
    """The largest mean permuted barrier between the ends of the widths, over the larger of those at the ends."""

    def share(curve: Curve) -> tuple[float, str]:
        barrier = curve["barrier_max"]
        shown = dict.fromkeys([barrier.index[0], barrier.idxmax(), barrier.index[-1]])
        told = ", ".join(f"{barrier[width]:.3g} at width {width:g}" for width in shown)
        return over(barrier.iloc[1:-1].max(), barrier.iloc[[0, -1]].max()), told

    return measure_each(mean_curves(matched(table)), share, LACKING)
