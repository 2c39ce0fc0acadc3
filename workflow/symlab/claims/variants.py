"""Which rows of a table belong to which architecture, by the description columns that every table carries."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd

Mask = Callable[[pd.DataFrame], pd.Series]

PAIR = ["mask_seed", "pair"]
MODEL = ["variant", "mask_seed", "seed"]


def scheme(name: str, low: float = -math.inf, high: float = math.inf) -> Mask:
    """Networks of a scheme with elementwise activations; given bounds, only those with low <= sigma_F <= high."""

    def mask(table: pd.DataFrame) -> pd.Series:
        chosen = (table["scheme"] == name) & (table["activation"] != "sigma")
        if low == -math.inf and high == math.inf:
            return chosen
        return chosen & table["sigma_F"].between(low, high)

    return mask


def apart_from_fractions(of: Mask) -> Mask:
    """Of the rows that ``of`` chooses, those of families that do not sweep fixed_fraction; all if there are none.

    A study may sweep the fraction of fixed weights beside its other networks. That sweep is the matter of Fig. 10 and
    says nothing for or against claims about others.
    """

    def mask(table: pd.DataFrame) -> pd.Series:
        chosen = of(table)
        variants = table[chosen].drop_duplicates("variant")
        fractions = variants.groupby("family")["fixed_fraction"].nunique()
        plain = chosen & table["family"].isin(fractions.index[fractions <= 1])
        return plain if plain.any() else chosen

    return mask


def sigma_mlp(table: pd.DataFrame) -> pd.Series:
    """Networks whose nonlinearity is x * sigmoid(Cx)."""
    return table["activation"] == "sigma"


def any_of(*masks: Mask) -> Mask:
    """Rows that at least one of the masks chooses."""

    def mask(table: pd.DataFrame) -> pd.Series:
        chosen = masks[0](table)
        for other in masks[1:]:
            chosen = chosen | other(table)
        return chosen

    return mask


def every_row(table: pd.DataFrame) -> pd.Series:
    """All rows."""
    return pd.Series(True, index=table.index)


def smallest_sigma(of: Mask) -> Mask:
    """Of the rows that ``of`` chooses, those with the smallest sigma_F."""

    def mask(table: pd.DataFrame) -> pd.Series:
        chosen = of(table)
        return chosen & (table["sigma_F"] == table.loc[chosen, "sigma_F"].min())

    return mask


def split_variants(table: pd.DataFrame, which: Mask) -> list[tuple[str, pd.DataFrame]]:
    """(name for people, rows) of each variant that ``which`` chooses, in the table's order; names are unique."""
    chosen = table[which(table)]
    telling = [column for column in ("dataset", "norm", "fixed_fraction") if chosen[column].nunique() > 1]
    groups = [(str(variant), rows) for variant, rows in chosen.groupby("variant", sort=False)]
    names = [_name(rows.iloc[0], telling) for _, rows in groups]
    return [
        (name if names.count(name) == 1 else f"{name} ({variant})", rows)
        for name, (variant, rows) in zip(names, groups, strict=True)
    ]


def _name(row: pd.Series, telling: list[str]) -> str:
    name = {"w_asymmetric": "W", "syre": "syre"}.get(row["scheme"], row["scheme"])
    if row["activation"] == "sigma":
        name = "sigma-MLP"
    if pd.notna(row["sigma_F"]):
        name += f" sigma_F = {row['sigma_F']:g}"
    return ", ".join([name, *(f"{column} = {_short(row[column])}" for column in telling if pd.notna(row[column]))])


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def same_dataset(table: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``table`` measured on the data set that ``rows`` (of one variant) were measured on."""
    return table[table["dataset"] == rows["dataset"].iloc[0]]


def at_last_epoch(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of each variant's last snapshot."""
    return table[table["epoch"] == table.groupby("variant")["epoch"].transform("max")]
