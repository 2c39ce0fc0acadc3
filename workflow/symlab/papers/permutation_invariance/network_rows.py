"""Which rows of barriers.csv and curves.csv the figures and claims on deep networks are about (Figs. 7, 8, 14, 15)."""

from __future__ import annotations

import pandas as pd

from symlab.errors import UserError
from symlab.papers.permutation_invariance.measuring import estimate, find_peak, largest, means, over
from symlab.study.claim import Found, Tables
from symlab.study.tables import where

DIRECT = "none"
"""What the tables call the matching of a direct path."""
METHODS = {
    DIRECT: "direct",
    "activation": "permuted, by activations",
    "weight": "permuted, by weights",
    "aligned": "permuted",
}
"""Names of paths in legends, by what the tables call the matching."""
LACKING = "needs direct and aligned paths of networks of three widths"
UP_AND_DOWN = "After matching, the barrier first grows with the width and then falls"
MIDDLE_OVER_ENDS = (
    "largest mean permuted loss barrier (training set) at a width in between as a multiple of the larger of those at "
    "the smallest and the largest width"
)
EXPLORATORY = "The paper does not give its widths, epochs and architecture"


def select_widths(table: pd.DataFrame, least: int) -> pd.DataFrame:
    """The train rows of networks with a width, their ``method`` added: direct, or what they were permuted by.

    Raises:
        UserError: there are no train rows, fewer than ``least`` widths, or no permuted paths.
    """
    study = where(table)
    train = table[table["split"] == "train"]
    if train.empty:
        raise UserError(f"it needs train among {study}.interpolation.splits.")
    rows = train[train["width"].notna()] if "width" in train else train.iloc[:0]
    widths = rows.groupby(_keys(rows), dropna=False)["width"].nunique().max() if len(rows) else 0
    if widths < least:
        number = {1: "one width", 2: "two widths", 3: "three widths"}.get(least, f"{least} widths")
        raise UserError(
            f"{study}.variants needs networks of at least {number} that differ in nothing else; sweep over "
            "network.widths (or network.width_multiplier)."
        )
    if not rows["aligned"].any():
        raise UserError(f"it needs aligned paths too, so set {study}.interpolation.aligned to true and add matching.")
    matching = rows["matching"] if "matching" in rows else rows["aligned"].map({False: DIRECT, True: "aligned"})
    return rows.assign(method=matching.map(METHODS).fillna(matching))


def group_networks(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of each data set, depth and family of networks by a title that says what differs."""
    keys = _keys(rows)
    differ = [column for column in keys if rows[column].nunique(dropna=False) > 1]
    # Families of different depths are told apart by it.
    if "family" in differ and not rows.drop_duplicates(keys).duplicated([c for c in keys if c != "family"]).any():
        differ.remove("family")
    return {
        ", ".join(_title(column, part[column].iloc[0]) for column in differ): part
        for _, part in rows.groupby(keys, sort=False, dropna=False)
    }


def _keys(rows: pd.DataFrame) -> list[str]:
    return [column for column in ("dataset", "depth", "family") if column in rows]


def _title(column: str, value: object) -> str:
    if column != "depth":
        return str(value)
    return f"{value:g} layers" if pd.notna(value) else "unknown depth"


def see_middles(tables: Tables, least: int = 3) -> str:
    """The mean loss halfway between networks by width, direct and permuted, beside that of the networks themselves."""
    rows = select_widths(tables["curves.csv"], least)
    half = rows.loc[(rows["lambda"] - 0.5).abs().idxmin(), "lambda"]
    told = []
    for title, part in group_networks(rows).items():
        for width, of_width in part.groupby("width"):
            methods = of_width[of_width["lambda"] == half].groupby("method", sort=False)["loss"].mean()
            levels = ", ".join(f"{loss:.2f} {method}" for method, loss in methods.items())
            ends = of_width.loc[of_width["lambda"].isin([0, 1]), "loss"].mean()
            told.append(", ".join(filter(None, [title, f"width {width:g}: {levels} (networks {ends:.2f})"])))
    return f"Mean loss at λ = {half:g}, {'; '.join(told)}."


def as_in_fig_7(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of networks of four layers on MNIST, if there are any: a study may sweep depths and data sets beside."""
    for column, value in (("source", "mnist"), ("depth", 4)):
        if (table[column] == value).any():
            table = table[table[column] == value]
    return table


def train_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of the train split of networks with a width."""
    return table[(table["split"] == "train") & table["width"].notna()]


def split_networks(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(name for people, rows of the train split) of each data set, depth and, where there are several, family."""
    rows = train_rows(table)
    several = rows.groupby(["dataset", "depth"], dropna=False)["family"].nunique().max() > 1
    # A depth that is not known does not keep networks from being grouped by the others' columns.
    return [
        (", ".join([dataset, *([] if pd.isna(depth) else [f"depth {depth:g}"]), *([family] if several else [])]), group)
        for (dataset, depth, family), group in rows.groupby(["dataset", "depth", "family"], sort=False, dropna=False)
    ]


def split_matched(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame, pd.DataFrame]]:
    """(name, rows of aligned paths, rows of direct paths) for each data set, depth and matching with three widths."""
    return [
        (f"{case}, {method} matching", rows, group[group["matching"] == DIRECT])
        for case, group in split_networks(table)
        for method, rows in group[group["matching"] != DIRECT].groupby("matching", sort=False)
        if rows["width"].nunique() >= 3
    ]


def middle_over_ends(table: pd.DataFrame) -> list[Found]:
    """The largest mean permuted barrier between the ends of the widths, over the larger of those at the ends.

    For each data set, depth and way of matching with three widths or more.
    """

    def statistic(of: pd.DataFrame) -> float:
        return over(largest(of.iloc[1:-1]), largest(of.iloc[[0, -1]]))

    found: list[Found] = []
    for case, rows, _ in split_matched(table):
        curve = means(rows, "barrier_max", "width")
        told = ", ".join(f"{value:.3g} at width {width:g}" for width, value in _milestones(curve).items())
        found.append(estimate(case, rows, statistic, ("barrier_max",), "width", told))
    return found or [LACKING]


def _milestones(curve: pd.Series) -> dict[float, float]:
    """The curve at its ends and its peak."""
    at = [curve.index[0], *([find_peak(curve)] if find_peak(curve) in curve.index else []), curve.index[-1]]
    return {width: curve[width] for width in dict.fromkeys(at)}
