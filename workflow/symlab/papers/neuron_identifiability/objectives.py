"""Activation-matching objectives of the optimal, the identity and random permutations: what Figs. 3 and 7 to 10 share.

Objectives of two networks are <P, S>_F / d, the mean correlation between the neurons that P pairs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.architectures import SYRE_FROM_1, W_0, W_FROM_1, W
from symlab.papers.neuron_identifiability.looks import draw_over_sigma, permutation_looks, tick_epochs, tick_sigma
from symlab.papers.neuron_identifiability.rows import same_dataset
from symlab.papers.neuron_identifiability.variants import (
    Mask,
    any_of,
    apart_from_fractions,
    label_rows,
    of_scheme,
    sigma_sweep,
    smallest_sigma,
    split_variants,
    w_asymmetric,
)
from symlab.plotting.pairs import PAIR
from symlab.plotting.style import Style
from symlab.plotting.units import draw_units
from symlab.study.claim import (
    Claim,
    Found,
    Measurement,
    Tables,
    above,
    at_least,
    at_most,
    below,
    difference_of,
    mean_of,
)
from symlab.study.tables import independent, last_epoch, where

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Score = Callable[[pd.Series], pd.Series]

OBJECTIVE = r"objective $\langle P, S\rangle_F\,/\,d$"
SIGMA_F = r"fixed-weight scale $\sigma_F$"
DEFINITION = """\
⟨P, S⟩_F / d is the mean correlation between the neurons of two networks that a permutation P pairs: the optimal one,
the identity, or a random one."""
BROKEN_AXIS = "σ_F = 0 stands apart from the rest, which is on a logarithmic scale."


# The worst of several layers or epochs is the one with the largest score.
LARGEST: Score = operator.pos
SMALLEST: Score = operator.neg
FARTHEST_FROM_ZERO: Score = abs
# "After the first few epochs" of Fig. 3c: this fraction of the training is left out.
FIRST_FEW = 0.05

FAR, NEAR = 0.15, 0.9
"""Ratios of the identity's objective to the optimal one that count as far from optimal and as nearly optimal."""
FAR_FROM_OPTIMAL = (
    "The paper's ratio starts near 0 at σ_F = 0; less than a sixth of the optimum is read as near 0. A sketch on "
    "digits had been seen."
)
NEARLY_OPTIMAL = (
    "The paper calls the identity nearly optimal for large enough σ_F; a tenth is left for noise between runs. A "
    "sketch on digits had been seen."
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
        chosen = rows[rows["permutation"] == permutation]
        if x == "sigma_F":
            draw_over_sigma(axis, chosen, "objective", look, permutation)
        else:
            draw_units(axis, chosen, x, "objective", look, permutation, band=x == "epoch")
    if x == "sigma_F":
        tick_sigma(axis, rows["sigma_F"])
    if x == "epoch":
        tick_epochs(axis)


def seen_against_sigma_F(tables: Tables) -> str:
    """How close the identity comes to the optimum along the sweep of the last epoch."""
    rows = sweep_rows(tables["matching.csv"])
    parts = []
    for dataset, part in rows.groupby("dataset", sort=False):
        ratios = identity_over_optimal(_objectives(part.assign(epoch=0), layerwise=False, more=["sigma_F"]))
        means = ratios.groupby(level="sigma_F").mean()
        named = ", ".join(f"{100 * mean:.3g} % at {sigma_F:g}" for sigma_F, mean in means.items())
        parts.append(f"on {dataset} {named}" if rows["dataset"].nunique() > 1 else named)
    return f"Of the optimal objective the identity reaches, averaged over layers and by σ_F, {'; '.join(parts)}."


def seen_against_epoch(tables: Tables) -> str:
    """How close the identity comes to the optimum before training and after it, by variant."""
    matching = tables["matching.csv"]
    parts = []
    for case, rows in split_variants(matching, any_of(W_0, smallest_sigma(W_FROM_1), SYRE_FROM_1)):
        ratios = identity_over_optimal(_objectives(rows, layerwise=False)).groupby(level="epoch").mean()
        first, last = ratios.index.min(), ratios.index.max()
        parts.append(
            f"{100 * ratios[first]:.3g} % at epoch {first:g} and {100 * ratios[last]:.3g} % at the end ({case})"
        )
    return f"Of the optimal objective the identity reaches {'; '.join(parts)}." if parts else ""


# What is measured


def identity_over_optimal(objectives: pd.DataFrame) -> pd.Series:
    """Objective of the identity as a fraction of the optimum: 0 where numberings are unrelated, 1 where they agree."""
    return objectives["identity"] / objectives["optimal"]


def random_over_optimal(objectives: pd.DataFrame) -> pd.Series:
    """Objective of random permutations as a fraction of the optimum."""
    return objectives["random"] / objectives["optimal"]


def identity_above_random(objectives: pd.DataFrame) -> pd.Series:
    """By how much the identity's objective exceeds that of random permutations."""
    return objectives["identity"] - objectives["random"]


def identity_ratios(matching: pd.DataFrame) -> pd.Series:
    """Of each pair of one variant at the last epoch, the identity's share of the optimum, averaged over layers."""
    return identity_over_optimal(_objectives(last_epoch(matching), layerwise=False)).droplevel(["epoch", "point"])


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
    return [
        _worst(quantity(_objectives(late, layerwise)), worst, case)
        for case, rows in split_variants(tables["matching.csv"], which)
        if (late := _late(rows))["epoch"].nunique() > 1
    ]


def apart_through_training(tables: Tables, which: Mask, baseline: Mask, layerwise: bool) -> list[Measurement]:
    """By how much a variant's ratio of identity to optimum exceeds the baseline's, at the snapshot where it is least.

    One value a variant with a baseline on its data set, over all snapshots after the first few epochs that both have,
    of which there are at least two.
    """
    matching = tables["matching.csv"]
    measured = []
    for case, rows in split_variants(matching, which):
        for _, others in split_variants(same_dataset(matching, rows), baseline):
            here, there = (identity_over_optimal(_objectives(_late(each), layerwise)) for each in (rows, others))
            places = sorted(set(here.index.droplevel(PAIR)) & set(there.index.droplevel(PAIR)))
            if len({epoch for epoch, _ in places}) < 2:
                continue
            at = []
            for epoch, point in places:
                pairs = [each.xs((epoch, point), level=["epoch", "point"]) for each in (here, there)]
                (values, unit), (base, _) = map(independent, pairs)
                at.append(difference_of(values, base, case, f"{point}, epoch {epoch:g}", unit))
            # An undefined difference is the least there is.
            measured.append(min(at, key=lambda each: -math.inf if math.isnan(each.value) else each.value))
    return measured


def before_training(tables: Tables, which: Mask) -> list[Measurement]:
    """The ratio of identity to optimum at epoch 0, averaged over layers, for each variant that is trained further."""
    measured = []
    for case, rows in split_variants(tables["matching.csv"], which):
        ratios = identity_over_optimal(_objectives(rows, layerwise=False)).droplevel("point")
        epochs = ratios.index.get_level_values("epoch")
        if epochs.min() == 0 < epochs.max():
            end = ratios.xs(epochs.max(), level="epoch").mean(skipna=False)
            measured.append(_mean_of(ratios.xs(0, level="epoch"), case, f"{end:.3g} after epoch {epochs.max():g}"))
    return measured


def ratio_curves(tables: Tables, least: int) -> list[tuple[str, pd.DataFrame]] | str:
    """(data set, ratio of identity to optimum [pair, sigma_F]) of the W-asymmetric sweep after the last epoch.

    Pairs are those that every sigma_F has. A phrase if there are fewer than ``least`` values of sigma_F.
    """
    matching = tables["matching.csv"]
    if not w_asymmetric(matching).any():
        return "the study has no such networks"
    rows = last_epoch(label_rows(matching, sigma_sweep(matching)))
    curves = []
    for dataset, part in rows.groupby("dataset", sort=False):
        objectives = _objectives(part.assign(epoch=0), layerwise=False, more=["sigma_F"])
        curve = identity_over_optimal(objectives).unstack("sigma_F").droplevel(["epoch", "point"])
        if curve.shape[1] >= least:
            curves.append((str(dataset) if rows["dataset"].nunique() > 1 else "", curve))
    return curves or f"needs {least} values of σ_F"


def half_way(tables: Tables) -> list[Found]:
    """The sigma_F at which the ratio of identity to optimum passes one half, between those of the sweep."""
    curves = ratio_curves(tables, 3)
    if isinstance(curves, str):
        return [curves]
    found: list[Found] = []
    for case, curve in curves:
        past = [f"{sigma_F:g}" for sigma_F, ratio in curve.mean().items() if ratio >= 0.5]
        short = [f"{sigma_F:g}" for sigma_F, ratio in curve.mean().items() if ratio < 0.5]
        told = f"between {short[-1]} and {past[0]}; " if past and short else ""
        found.append(_mean_of(curve.apply(_crossing, axis=1), case, told + _told(curve)))
    return found


def _crossing(ratios: pd.Series) -> float:
    """Where a curve first passes one half; infinite if it does not, 0 if it begins there."""
    if ratios.isna().any():
        return math.nan
    past = np.flatnonzero(ratios.to_numpy() >= 0.5)
    if not len(past):
        return math.inf
    at = past[0]
    if at == 0:
        return float(ratios.index[0])
    (left, right), (low, high) = ratios.index[at - 1 : at + 1], ratios.iloc[at - 1 : at + 1]
    return float(left + (right - left) * (0.5 - low) / (high - low))


def largest_fall(tables: Tables) -> list[Found]:
    """The largest fall of the ratio of identity to optimum from a value of sigma_F to the next; below 0 if it rises."""
    curves = ratio_curves(tables, 3)
    if isinstance(curves, str):
        return [curves]
    found: list[Found] = []
    for case, curve in curves:
        falls = -curve.diff(axis=1).iloc[:, 1:]
        means = falls.mean(skipna=False)
        at = means.isna().idxmax() if means.isna().any() else means.idxmax()
        found.append(_mean_of(falls[at], case, _told(curve)))
    return found


def _told(curve: pd.DataFrame) -> str:
    return ", ".join(f"{mean:.3g} at σ_F = {sigma_F:g}" for sigma_F, mean in curve.mean().items())


def _late(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["epoch"] >= max(1, FIRST_FEW * rows["epoch"].max())]


def _objectives(rows: pd.DataFrame, layerwise: bool, more: list[str] | None = None) -> pd.DataFrame:
    """Columns optimal, identity, random; one row an epoch, point and pair (one point, the mean, unless layerwise)."""
    keys = [*(more or []), "epoch", *PAIR]
    wide = rows.pivot(index=[*keys, "point"], columns="permutation", values="objective")
    if layerwise:
        return wide.reorder_levels([*(more or []), "epoch", "point", *PAIR])
    averaged = wide.groupby(level=keys).mean(skipna=False)
    return averaged.assign(point="all layers").set_index("point", append=True)


def _worst(values: pd.Series, score: Score, case: str) -> Measurement:
    means = values.groupby(level=["epoch", "point"]).mean(skipna=False)
    # An undefined mean is the worst there is, where idxmax would pass it over.
    at = means.isna().idxmax() if means.isna().any() else score(means).idxmax()
    epoch, point = at
    return _mean_of(values.xs(at, level=["epoch", "point"]), case, f"{point}, epoch {epoch:g}")


def _mean_of(values: pd.Series, case: str, detail: str) -> Measurement:
    units, unit = independent(values)
    return mean_of(units, case, detail, unit)


# What is claimed of several figures


def claims_against_sigma_F(figure: str, layerwise: bool, large: float) -> tuple[Claim, ...]:
    """Objectives against sigma_F at the end of training (Figs. 3a, 3b, 8, 9)."""
    where = "in the worst layer" if layerwise else "averaged over layers"
    measure = partial(at_the_end, layerwise=layerwise)
    ratio = identity_over_optimal
    from_large = apart_from_fractions(of_scheme("w_asymmetric", large, math.inf))
    tables = ("matching.csv",)
    claims = (
        Claim(
            id=f"{figure}-unbroken",
            statement="At σ_F = 0 the identity is far from the optimal matching",
            quantity=f"ratio of their objectives {where}",
            bound=at_most(FAR),
            owner="paper",
            origin="pilot",
            reason=FAR_FROM_OPTIMAL,
            tables=tables,
            measure=partial(measure, which=W_0, quantity=ratio, worst=LARGEST),
        ),
        Claim(
            id=f"{figure}-identifiable",
            statement=f"At σ_F of {large:g} and more the identity is nearly optimal",
            quantity=f"ratio of the objectives {where}",
            bound=at_least(NEAR),
            owner="paper",
            origin="pilot",
            reason=NEARLY_OPTIMAL,
            tables=tables,
            measure=partial(measure, which=from_large, quantity=ratio, worst=SMALLEST),
        ),
        Claim(
            id=f"{figure}-random",
            statement="Random permutations stay far below the optimal matching at every σ_F",
            quantity=f"ratio of their objectives {where}",
            bound=at_most(0.5),
            owner="paper",
            origin="pilot",
            reason="The paper (Section 6, Q2): random permutations remain significantly lower; no size is stated, so "
            "half of the optimum is asked for.",
            tables=tables,
            measure=partial(measure, which=W, quantity=random_over_optimal, worst=LARGEST),
        ),
    )
    if layerwise:
        return claims
    return (
        *claims,
        Claim(
            id=f"{figure}-above-random",
            statement="Masks alone (σ_F = 0) make neurons a little identifiable: the identity is above random "
            "permutations",
            quantity=f"difference of their objectives {where}",
            bound=above(0),
            owner="derived",
            origin="derived",
            reason="Masks make no two neurons alike on data that is not spread over all inputs alike (Theorem 4.4); "
            "the paper gives no size, so only the sign is asked for.",
            tables=tables,
            measure=partial(measure, which=W_0, quantity=identity_above_random, worst=SMALLEST),
        ),
        Claim(
            id=f"{figure}-transition",
            statement=f"Neurons become identifiable at a σ_F below {large:g}",
            quantity="σ_F at which the identity reaches half of the optimal objective, between those of the sweep",
            bound=below(large),
            owner="derived",
            origin="derived",
            reason=f"The paper counts σ_F = {large:g} to the regime in which fixed weights dominate (Section 6, Q1), "
            "so the change lies below.",
            tables=tables,
            measure=half_way,
        ),
        Claim(
            id=f"{figure}-rise",
            statement="Identifiability rises with σ_F",
            quantity="largest fall of the ratio of identity to optimal objective from one σ_F to the next (below 0: it "
            "rises everywhere)",
            bound=at_most(0.05),
            owner="derived",
            origin="pilot",
            reason="The swap cost of two neurons grows with the square of σ_F (Theorem 4.5); a twentieth of the "
            "optimum is left for noise where the ratio is already 1.",
            tables=tables,
            measure=largest_fall,
        ),
    )


def claims_against_epoch(figure: str, layerwise: bool) -> tuple[Claim, ...]:
    """Objectives against the epoch (Figs. 3c, 7)."""
    where = "in the worst layer" if layerwise else "averaged over layers"
    apart = Claim(
        id=f"{figure}-apart",
        statement="At all stages of training the identity is nearer to the optimum with σ_F of 1 or more than with "
        "σ_F = 0",
        quantity=f"least difference of the ratios of identity to optimal objective after the first few epochs, {where}",
        bound=at_least(NEAR - FAR),
        owner="paper",
        origin="pilot",
        reason="The paper says that the trend of Fig. 3a holds for all stages of training; the difference between what "
        "counts as nearly optimal there and what as far from it.",
        tables=("matching.csv",),
        measure=partial(apart_through_training, which=smallest_sigma(W_FROM_1), baseline=W_0, layerwise=layerwise),
    )
    if layerwise:
        return (apart,)
    return (
        apart,
        Claim(
            id=f"{figure}-untrained",
            statement="Fixed weights of σ_F = 1 and more make neurons identifiable before any training",
            quantity=f"ratio of identity to optimal objective at epoch 0, {where}",
            bound=at_least(NEAR),
            owner="ours",
            origin="pilot",
            reason="A control: what is there before training is the fixed part that both networks share, not what they "
            f"learned. {NEARLY_OPTIMAL}",
            tables=("matching.csv",),
            measure=partial(before_training, which=any_of(W_FROM_1, SYRE_FROM_1)),
        ),
    )
