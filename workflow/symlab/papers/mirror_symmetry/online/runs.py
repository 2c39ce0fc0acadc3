"""What the figures of online SGD read from the tables of products: runs beside their predictions, and midpoints."""

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.online.product_sgd import PLAIN, PRODUCT
from symlab.study.claim import Tables
from symlab.study.tables import need, some

SPARSITY, LAW = "mirror_sparsity.csv", "mirror_sparsity_law.csv"
SHOWN = "below_6"
"""The column of Fig. 7's sparsity, |theta| < 1e-6, which the figures take throughout."""
GRID = ["grid", "d", "sigma", "batch"]
HALVES = {"half": SHOWN, "alone": "alone_6"}


def of_model(tables: Tables, model: str) -> pd.DataFrame:
    """Rows of one model that have not diverged; empty if there are none."""
    rows = need(tables, SPARSITY)
    return rows[(rows["model"] == model) & ~rows["diverged"]]


def runs_of(tables: Tables, plain: bool) -> pd.DataFrame:
    """Runs on single samples beside their law: of grids that have plain ones too (Fig. 3 left), or of the others.

    Raises:
        UserError: there are none.
    """
    rows = need(tables, SPARSITY)
    beside = rows["grid"].isin(rows.loc[rows["model"] == PLAIN, "grid"])
    rows = rows[(rows["batch"] == 1) & (beside if plain else ~beside & ~rows["diverged"])]
    return with_law(tables, some(rows, f"it needs mirror_symmetry.sparsity with plain: {str(plain).lower()}."))


def at_end(rows: pd.DataFrame) -> pd.DataFrame:
    """Each grid's rows after its last step."""
    return rows[rows["step"] == rows.groupby("grid")["step"].transform("max")]


def with_law(tables: Tables, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with what is predicted of them: ``growth``, ``chance`` and ``alone_k`` for each ``below_k``."""
    law = need(tables, LAW)
    # Earlier tables have shares by a law near the mirror too.
    law = law.drop(columns=law.columns[law.columns.str.startswith("below_")])
    return rows.merge(law, on=[*GRID, "lr", "step"], how="left")


def midpoint(rates: np.ndarray, shares: np.ndarray) -> float:
    """The rate at which shares, which rise with the rate, pass one half (linear in the logarithm); NaN if none."""
    high = int(np.argmax(shares >= 0.5))
    if not high:
        return float("nan")
    part = (0.5 - shares[high - 1]) / (shares[high] - shares[high - 1])
    return float(np.exp(np.log(rates[high - 1]) * (1 - part) + np.log(rates[high]) * part))


def halves(rows: pd.DataFrame) -> pd.DataFrame:
    """Midpoints of each grid, noise, batch size, step and seed: ``half`` measured, ``alone`` of simulated products."""
    keys, found = [*GRID, "step", "seed"], []
    for key, of in rows[rows["model"] == PRODUCT].sort_values("lr").groupby(keys):
        found.append((*key, *(midpoint(of["lr"].to_numpy(), of[by].to_numpy()) for by in HALVES.values())))
    return pd.DataFrame(found, columns=[*keys, *HALVES])
