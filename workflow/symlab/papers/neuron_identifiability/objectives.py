"""Activation-matching objectives of the optimal, the identity and random permutations: what Figs. 3 and 7 to 10 share.

Objectives of two networks are <P, S>_F / d, the mean correlation between the neurons that P pairs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd

from symlab.errors import UserError
from symlab.papers.claim import Claim, Measurement, Tables, at_least, at_most, between, mean_of, stated
from symlab.papers.neuron_identifiability.architectures import W_0, W_FROM_1, W
from symlab.plotting.rows import (
    PAIR,
    Mask,
    apart_from_fractions,
    label_rows,
    last_epoch,
    mean_std,
    of_scheme,
    sigma_sweep,
    smallest_sigma,
    split_variants,
    where,
)
from symlab.plotting.style import Style, mean_line, permutation_looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Score = Callable[[pd.Series], pd.Series]

OBJECTIVE = r"objective $\langle P, S\rangle_F\,/\,d$"
SIGMA_F = r"fixed-weight scale $\sigma_F$"


# The worst of several layers or epochs is the one with the largest score.
LARGEST: Score = operator.pos
SMALLEST: Score = operator.neg
FARTHEST_FROM_ZERO: Score = abs
# "After the first few epochs" of Fig. 3c: this fraction of the training is left out.
FIRST_FEW = 0.05


NO_IDENTITY = "The paper's ratio starts near 0 at sigma_F = 0; less than a sixth of the optimum is read as near 0."
NEAR_OPTIMAL = (
    "The paper calls the identity nearly optimal for large enough sigma_F; a tenth is left for noise between runs."
)
RANDOM_IS_ZERO = (
    "A random permutation pairs unrelated neurons, which correlate 0 on average; "
    "0.05 is small beside the optimum of any trained network."
)
ALL_STAGES = (
    "The paper says the trend holds at all stages of training; looser than at the end, because the weights still move."
)


# What is drawn


def sweep_rows(matching: pd.DataFrame) -> pd.DataFrame:
    """The last epoch's rows of the W-asymmetric sweep over sigma_F, with their labels.

    Raises:
        UserError: it has a single value of sigma_F.
    """
    sweep = sigma_sweep(matching)
    if sweep["sigma_F"].nunique() < 2:
        raise UserError(
            f"{where(matching)}.variants needs a W-asymmetric variant with at least two values of sigma_F; "
            "give it sweep: {scheme.sigma_F: [0, 1]}."
        )
    return last_epoch(label_rows(matching, sweep))


def need_epochs(matching: pd.DataFrame) -> pd.DataFrame:
    """The table as it is.

    Raises:
        UserError: it has networks of a single epoch.
    """
    if matching["epoch"].nunique() < 2:
        raise UserError(f"it needs networks of several epochs, so list some in {where(matching)}.snapshots.")
    return matching


def draw_objectives(axis: Axes, rows: pd.DataFrame, x: str, style: Style) -> None:
    """A line for each kind of permutation, its mean over pairs with their deviation."""
    axis.axhline(0, color="0.85", linewidth=0.7, zorder=0)
    for permutation, look in permutation_looks(style).items():
        stats = mean_std(rows[rows["permutation"] == permutation], x, "objective")
        mean_line(axis, stats, look, permutation, band=x == "epoch")


# What is measured


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
        for case, rows in split_variants(last_epoch(tables["matching.csv"]), which)
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


# What is claimed of several figures


def claims_against_sigma_F(figure: str, layerwise: bool, large: float) -> tuple[Claim, ...]:
    """Objectives against sigma_F at the end of training (Figs. 3a, 3b, 8, 9)."""
    where = "in the worst layer" if layerwise else "averaged over layers"
    measure = partial(at_the_end, layerwise=layerwise)
    ratio = identity_over_optimal
    from_large = apart_from_fractions(of_scheme("w_asymmetric", large, math.inf))
    return (
        stated(
            f"{figure}-unbroken",
            figure,
            f"At sigma_F = 0 the identity is far from the optimal matching: ratio of their objectives {where}",
            at_most(0.15),
            NO_IDENTITY,
            "matching.csv",
            partial(measure, which=W_0, quantity=ratio, worst=LARGEST),
        ),
        stated(
            f"{figure}-identifiable",
            figure,
            f"At sigma_F of {large:g} and more the identity is nearly optimal: ratio of the objectives {where}",
            at_least(0.9),
            NEAR_OPTIMAL,
            "matching.csv",
            partial(measure, which=from_large, quantity=ratio, worst=SMALLEST),
        ),
        stated(
            f"{figure}-random",
            figure,
            f"Random permutations stay near an objective of 0 at every sigma_F: objective {where}",
            between(-0.05, 0.05),
            RANDOM_IS_ZERO,
            "matching.csv",
            partial(measure, which=W, quantity=random_alone, worst=FARTHEST_FROM_ZERO),
        ),
    )


def claims_against_epoch(figure: str, layerwise: bool) -> tuple[Claim, ...]:
    """Objectives against the epoch (Figs. 3c, 7)."""
    where = "in the worst layer" if layerwise else "averaged over layers"
    measure = partial(through_training, quantity=identity_over_optimal, layerwise=layerwise)
    return (
        stated(
            f"{figure}-unbroken",
            figure,
            f"At sigma_F = 0 the identity stays far from optimal after the first few epochs: largest ratio {where}",
            at_most(0.25),
            ALL_STAGES,
            "matching.csv",
            partial(measure, which=W_0, worst=LARGEST),
        ),
        stated(
            f"{figure}-identifiable",
            figure,
            "At the smallest sigma_F of 1 or more the identity is near the optimum "
            f"after the first few epochs: smallest ratio {where}",
            at_least(0.75),
            ALL_STAGES,
            "matching.csv",
            partial(measure, which=smallest_sigma(W_FROM_1), worst=SMALLEST),
        ),
    )
