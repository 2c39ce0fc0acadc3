"""What the figures of online SGD read from the tables of products: runs beside their predictions, and midpoints."""

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.online.product_sgd import LATE, PLAIN, PRODUCT, SETS, THRESHOLDS
from symlab.study.claim import Case, Found, Tables, exact_value
from symlab.study.tables import need

SPARSITY, LAW, ALONE = "mirror_sparsity.csv", "mirror_sparsity_law.csv", "mirror_sparsity_alone.csv"
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
    """The rows with what is predicted of them: ``growth``, ``chance`` and ``alone_k`` for each ``below_k``."""
    law = need(tables, LAW)
    # Earlier tables have shares by a law near the mirror too.
    law = law.drop(columns=law.columns[law.columns.str.startswith("below_")])
    return rows.merge(law, on=[*GRID, "lr", "step"], how="left")


def told_apart(rows: pd.DataFrame, labels: dict[str, str]) -> pd.DataFrame:
    """One row for each of some columns of shares, which becomes ``share``, with its name as ``label``.

    Columns that are predicted, without a seed of their own, are there once.
    """
    parts = []
    for column, label in labels.items():
        of = rows.assign(share=rows[column], label=label)
        parts.append(of if column.startswith("below") else of[of["seed"] == of["seed"].min()])
    return pd.concat(parts, ignore_index=True)


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


def farthest_over_chance(tables: Tables) -> list[Found]:
    """The largest difference of a mean share from that of single products, over what chance alone makes of it.

    Over all rates, thresholds and the last nine tenths of the steps; a case a set of runs, of one grid, noise and batch
    size. Chance is the 1 - 0.05/SETS quantile of that difference, drawn, so that one of as many sets lies beyond it in
    a twentieth of studies at most (Bonferroni), and the ratio needs no error of its own.
    """
    rows = of_model(tables, PRODUCT)
    rows = with_law(tables, rows[np.isfinite(rows["batch"])])
    if (sets := rows.groupby(GRID).ngroups) > SETS:
        return [f"has {sets} sets of runs, and chance is known for {SETS} at once"]
    found: list[Found] = []
    late = rows[rows["step"] >= LATE * rows.groupby("grid")["step"].transform("max")]
    for (_, d, sigma, batch), of in late.groupby(GRID):
        cells = of.groupby(["lr", "step"])
        off = pd.concat({k: cells[f"below_{k}"].mean() - cells[f"alone_{k}"].first() for k in THRESHOLDS})
        worst = off.abs().max(skipna=False)
        told = f"{worst:.3g}, by chance {of['chance'].iloc[0]:.3g}; {len(off)} shares"
        size = f"{of['lr'].nunique()} rates, {of['step'].max():,} steps"
        name = f"d = {d:g}, σ = {sigma:g}{'' if batch == 1 else f', {batch:g} samples'}, {size}"
        case = Case(name, d=int(d), sigma=float(sigma), batch=float(batch))
        found.append(exact_value(float(worst / of["chance"].iloc[0]), of["seed"].nunique(), case, told, "seeds"))
    return found
