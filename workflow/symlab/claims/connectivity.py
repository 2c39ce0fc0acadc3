"""Measurements on barriers.csv and curves.csv: how much worse networks are between two trained ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from symlab.papers.claim import Measurement, Tables, Verdict, mean, mean_of, spread
from symlab.claims.variants import Mask, same_dataset, split_variants


def accuracy_drop(tables: Tables, which: Mask, aligned: bool, column: str = "drop_max_pp") -> list[Measurement]:
    """Drop of train accuracy between the networks of a pair in percentage points, mean over pairs, for each variant."""
    rows = _paths(tables["barriers.csv"], "train", aligned)
    return [mean_of(of_variant[column].to_numpy(), case) for case, of_variant in split_variants(rows, which)]


def drop_over_baseline(tables: Tables, which: Mask, baseline: Mask) -> list[Measurement]:
    """Largest drop of train accuracy on the unaligned path as a fraction of the baseline's, mean over pairs.

    One value a variant; of several baselines on its data set, the one with the smallest drop counts.
    """
    rows = _paths(tables["barriers.csv"], "train", aligned=False)
    measured = []
    for case, of_variant in split_variants(rows, which):
        levels = [
            mean(other["drop_max_pp"].to_numpy())
            for _, other in split_variants(same_dataset(rows, of_variant), baseline)
        ]
        if levels:
            measured.append(_fraction(of_variant["drop_max_pp"].to_numpy(), float(np.min(levels)), case))
    return measured


def drop_left_by_alignment(tables: Tables, which: Mask) -> list[Measurement]:
    """Largest drop of train accuracy on the aligned path as a fraction of that on the unaligned one, for each variant.

    Both are means over pairs.
    """
    aligned = _paths(tables["barriers.csv"], "train", aligned=True)
    unaligned = _paths(tables["barriers.csv"], "train", aligned=False)
    before = {variant: rows["drop_max_pp"].to_numpy() for variant, rows in unaligned.groupby("variant")}
    return [
        _fraction(rows["drop_max_pp"].to_numpy(), mean(before[rows["variant"].iloc[0]]), case)
        for case, rows in split_variants(aligned, which)
        if rows["variant"].iloc[0] in before
    ]


def midpoint_gain(
    tables: Tables, which: Mask, baselines: tuple[Mask, ...], worst: Callable[[np.ndarray], np.ndarray]
) -> list[Measurement]:
    """By how many percentage points the train accuracy at the unaligned midpoint exceeds a baseline's, mean over pairs.

    One value a variant: of the gains over all baselines on its data set, that with the largest score ``worst``. Every
    kind of baseline is needed.
    """
    curves = _paths(tables["curves.csv"], "train", aligned=False)
    middle = curves[curves["lambda"] == 0.5]
    measured = []
    for case, of_variant in split_variants(middle, which):
        near = same_dataset(middle, of_variant)
        kinds = [split_variants(near, baseline) for baseline in baselines]
        if all(kinds):
            levels = {name: 100 * mean(rows["accuracy"].to_numpy()) for kind in kinds for name, rows in kind}
            values = 100 * of_variant["accuracy"].to_numpy()
            gains = mean(values) - np.array(list(levels.values()))
            told = ", ".join(f"{name}: {level:.3g} %" for name, level in {"here": mean(values), **levels}.items())
            # argmax takes an undefined gain for the worst.
            gain = float(gains[np.argmax(worst(gains))])
            measured.append(Measurement(gain, len(values), spread(values), case, told))
    return measured


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
            told = f"nu = 1: {mean(high):.3g}, nu = 0.1: {mean(low):.3g}"
            measured.append(_fraction(high, mean(low), case, told))
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
    """Rows of one path; of several ways of matching, the aligned path is that of the first in the table."""
    rows = barriers[(barriers["split"] == split) & (barriers["aligned"].astype(bool) == aligned)]
    if aligned and "matching" in rows and len(rows):
        rows = rows[rows["matching"] == rows["matching"].iloc[0]]
    return rows


def _fraction(values: np.ndarray, scale: float, case: str, told: str = "") -> Measurement:
    """Mean of barriers as a fraction of another one."""
    told = told or f"{mean(values):.3g} pp against {scale:.3g} pp"
    # A barrier that is nowhere high cannot show that something lowers it.
    if not scale > 0:
        return Measurement(float("nan"), len(values), None, case, told)
    deviation = spread(values)
    return Measurement(mean(values) / scale, len(values), None if deviation is None else deviation / scale, case, told)


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
