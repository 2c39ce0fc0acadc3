"""What every paper asks of the tables of a study: that they are there, whose they are, and which rows count.

Only pandas and numpy are imported: a claims job does not pay for matplotlib.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from symlab.errors import UserError

NUMBERS = {2: "two", 3: "three"}


def need(tables: Mapping[str, pd.DataFrame], name: str) -> pd.DataFrame:
    """The table of a name.

    Raises:
        UserError: it is missing or empty.
    """
    table = tables.get(name)
    if table is None or table.empty:
        raise UserError(f"it needs {name} with at least one row, so switch on in its study what gives that table.")
    return table


def some(rows: pd.DataFrame, lacking: str) -> pd.DataFrame:
    """The rows.

    Raises:
        UserError: there are none; ``lacking`` says so, and what of the config to change.
    """
    if rows.empty:
        raise UserError(lacking)
    return rows


def need_several(table: pd.DataFrame, column: str, key: str, least: int = 2) -> None:
    """Nothing, where the column has as many values.

    Raises:
        UserError: it has fewer; ``key`` says what of the config to change.
    """
    if table[column].nunique() < least:
        raise UserError(f"it needs {NUMBERS[least]} values of {column} or more, so change {key}.")


def where(table: pd.DataFrame) -> str:
    """The study of a table as the config's key, e.g. ``studies.digits``."""
    return f"studies.{table['study'].iloc[0]}"


def independent(values: pd.Series) -> tuple[np.ndarray, str]:
    """Values of pairs (their index tells the mask seed) as those of independent units, and the units' name.

    Pairs that share a mask are no replication of it: of several masks, each counts once, with the mean of its pairs.
    """
    masks = values.groupby(level="mask_seed").mean() if values.notna().all() else values
    return (masks.to_numpy(), "masks") if 1 < len(masks) < len(values) else (values.to_numpy(), "pairs")


def last_epoch(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of each variant's last epoch."""
    return table[table["epoch"] == table.groupby("variant")["epoch"].transform("max")]


def one_matching(paths: pd.DataFrame) -> pd.DataFrame:
    """The rows of unaligned paths and of those aligned by the first method that the table lists.

    Tables of runs that knew one method have no column ``matching`` and are given back whole.
    """
    if "matching" not in paths:
        return paths
    aligned = paths["aligned"].astype(bool)
    methods = paths.loc[aligned, "matching"].unique()
    return paths[~aligned | paths["matching"].isin(methods[:1])]


def chance(rows: pd.DataFrame) -> float | None:
    """Accuracy of guessing on the data set of some rows; None where the table does not tell its number of classes."""
    classes = rows["classes"].iloc[0] if "classes" in rows else np.nan
    return None if np.isnan(classes) else 1 / classes
