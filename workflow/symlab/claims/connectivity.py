"""Measurements on barriers.csv: how much worse networks are between two trained ones."""

from __future__ import annotations

import numpy as np
import pandas as pd

from symlab.claims.claim import Measurement, Tables, Verdict, mean, mean_of, spread
from symlab.claims.variants import Mask, split_variants


def accuracy_drop(tables: Tables, which: Mask, aligned: bool, column: str = "drop_max_pp") -> list[Measurement]:
    """Drop of train accuracy between the networks of a pair in percentage points, mean over pairs, for each variant."""
    rows = _paths(tables["barriers.csv"], "train", aligned)
    return [mean_of(of_variant[column].to_numpy(), case) for case, of_variant in split_variants(rows, which)]


def drop_falls_with_k(tables: Tables, which: Mask, ks: tuple[int, int, int]) -> list[Verdict]:
    """Whether the mean midpoint drop in train accuracy, unaligned, is ordered first > second >= third of ``ks``.

    The value is the smaller of the two steps, in percentage points.
    """
    rows = _paths(tables["barriers.csv"], "train", aligned=False)
    rows = rows[which(rows)]
    drops = [rows.loc[rows["k"] == k, "drop_mid_pp"].to_numpy() for k in ks]
    if not all(len(drop) for drop in drops):
        return []
    first, second, third = (mean(drop) for drop in drops)
    told = ", ".join(f"k = {k}: {mean(drop):.3g} pp ({len(drop)} pairs)" for k, drop in zip(ks, drops, strict=True))
    step = float(np.min([first - second, second - third]))
    return [Verdict(step, first > second >= third, min(len(drop) for drop in drops), None, detail=told)]


def coherent_over_incoherent(tables: Tables) -> list[Measurement]:
    """Mean midpoint test-loss barrier at nu = 1 as a fraction of that at nu = 0.1, for each embedding that has both."""
    measured = []
    for case, by_t in _embeddings(tables["barriers.csv"]):
        if {1, 10} <= by_t.keys():
            high, low = by_t[1], by_t[10]
            scale = mean(low)
            deviation = spread(high)
            told = f"nu = 1: {mean(high):.3g}, nu = 0.1: {scale:.3g}"
            # A barrier that is nowhere high cannot show that coherence lowers it.
            value = mean(high) / scale if scale > 0 else float("nan")
            relative = deviation / scale if deviation is not None and scale > 0 else None
            measured.append(Measurement(value, len(high), relative, case, told))
    return measured


def barrier_against_coherence(tables: Tables) -> list[Measurement]:
    """Spearman correlation of the mean midpoint test-loss barrier with nu = 1/t; needs three or more levels of nu."""
    measured = []
    for case, by_t in _embeddings(tables["barriers.csv"]):
        if len(by_t) >= 3:
            barriers = pd.Series({1 / t: mean(values) for t, values in by_t.items()})
            # Ranking would pass over a level without a barrier; the claim is about all of them.
            complete = not barriers.isna().any()
            rank_of_nu = pd.Series(barriers.index, index=barriers.index).rank()
            rho = float(barriers.rank().corr(rank_of_nu)) if complete else float("nan")
            n = min(len(values) for values in by_t.values())
            measured.append(Measurement(rho, n, None, case, f"{len(by_t)} levels of nu"))
    return measured


def _paths(barriers: pd.DataFrame, split: str, aligned: bool) -> pd.DataFrame:
    return barriers[(barriers["split"] == split) & (barriers["aligned"].astype(bool) == aligned)]


def _embeddings(barriers: pd.DataFrame) -> list[tuple[str, dict[int, np.ndarray]]]:
    """(embedding, midpoint barriers of the pairs at each t), unaligned, on the test split."""
    rows = _paths(barriers, "test", aligned=False)
    rows = rows[rows["embedding"].notna() & rows["t"].notna()]
    several = rows["family"].nunique() > 1
    found = []
    for (family, embedding), group in rows.groupby(["family", "embedding"], sort=False):
        name = str(embedding).replace("_", " ")
        by_t = {int(t): level["barrier_mid"].to_numpy() for t, level in group.groupby("t")}
        found.append((f"{name}, {family}" if several else name, by_t))
    return found
