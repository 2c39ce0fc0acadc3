"""Measurements on matching.csv: how close the identity comes to the optimal permutation of two networks' neurons."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pandas as pd

from symlab.papers.claim import Measurement, Tables, mean_of
from symlab.claims.variants import PAIR, Mask, at_last_epoch, split_variants

Score = Callable[[pd.Series], pd.Series]

# The worst of several layers or epochs is the one with the largest score.
LARGEST: Score = operator.pos
SMALLEST: Score = operator.neg
FARTHEST_FROM_ZERO: Score = abs

# "After the first few epochs" of Fig. 3c: this fraction of the training is left out.
FIRST_FEW = 0.05


def identity_over_optimal(objectives: pd.DataFrame) -> pd.Series:
    """Objective of the identity as a fraction of the optimum: 0 where numberings are unrelated, 1 where they agree."""
    return objectives["identity"] / objectives["optimal"]


def random_alone(objectives: pd.DataFrame) -> pd.Series:
    """Objective of random permutations."""
    return objectives["random"]


def identity_above_random(objectives: pd.DataFrame) -> pd.Series:
    """By how much the identity's objective exceeds that of random permutations."""
    return objectives["identity"] - objectives["random"]


def at_the_end(
    tables: Tables, which: Mask, quantity: Callable[[pd.DataFrame], pd.Series], worst: Score, layerwise: bool
) -> list[Measurement]:
    """A quantity of the objectives at the last epoch, mean over pairs, for each variant.

    The objectives are averaged over layers, or, layerwise, the worst layer counts.
    """
    return [
        _worst(quantity(_objectives(rows, layerwise)), worst, case)
        for case, rows in split_variants(at_last_epoch(tables["matching.csv"]), which)
    ]


def through_training(
    tables: Tables, which: Mask, quantity: Callable[[pd.DataFrame], pd.Series], worst: Score, layerwise: bool
) -> list[Measurement]:
    """As ``at_the_end``, but at the worst of all snapshots after the first few epochs; needs at least two of them."""
    measured = []
    for case, rows in split_variants(tables["matching.csv"], which):
        late = rows[rows["epoch"] >= max(1, FIRST_FEW * rows["epoch"].max())]
        if late["epoch"].nunique() > 1:
            measured.append(_worst(quantity(_objectives(late, layerwise)), worst, case))
    return measured


def _objectives(rows: pd.DataFrame, layerwise: bool) -> pd.DataFrame:
    """Columns optimal, identity, random; one row an epoch, point and pair (one point, the mean, unless layerwise)."""
    wide = rows.pivot(index=["epoch", "point", *PAIR], columns="permutation", values="objective")
    if layerwise:
        return wide
    averaged = wide.groupby(level=["epoch", *PAIR]).mean(skipna=False)
    return pd.concat({"all layers": averaged}, names=["point"])


def _worst(values: pd.Series, score: Score, case: str) -> Measurement:
    means = values.groupby(level=["epoch", "point"]).mean(skipna=False)
    # An undefined mean is the worst there is, where idxmax would pass it over.
    at = means.isna().idxmax() if means.isna().any() else score(means).idxmax()
    epoch, point = at
    chosen = values.xs(at, level=["epoch", "point"]).to_numpy()
    return mean_of(chosen, case, f"{point}, epoch {epoch:g}")
