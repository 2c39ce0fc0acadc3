"""Activation-matching objectives of the optimal, the identity and random permutations: what Figs. 3 and 7 to 10 share.

Objectives of two networks are <P, S>_F / d, the mean correlation between the neurons that P pairs.
"""

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from symlab.papers.neuron_identifiability import masks
from symlab.papers.neuron_identifiability.looks import permutation_looks, tick_sigma
from symlab.papers.neuron_identifiability.rows import PLACE, objectives
from symlab.papers.neuron_identifiability.variants import by_variant, label_rows, sigma_sweep
from symlab.plotting.pairs import PAIR
from symlab.plotting.style import Axes, Figure, Style
from symlab.plotting.units import over_pairs
from symlab.study.cases import Cases, Values
from symlab.study.claim import Case, Claim, Found, Tables, above, at_least, at_most, below, worst_of_each
from symlab.study.facets import facets, labelled
from symlab.study.tables import last_epoch, need, need_several, where

Moments = Callable[[pd.DataFrame], pd.DataFrame]
Score = Callable[[float], float]
"""The worst of several layers or epochs is the one with the largest score."""
LARGEST: Score = operator.pos
SMALLEST: Score = operator.neg

OBJECTIVE = r"objective $\langle P, S\rangle_F\,/\,d$"
SIGMA_F = r"fixed-weight scale $\sigma_F$"
DEFINITION = """\
⟨P, S⟩_F / d is the mean correlation between the neurons of two networks that a permutation P pairs: the optimal one,
the identity, or a random one."""
BROKEN_AXIS = "σ_F = 0 stands apart from the rest, which is on a logarithmic scale."
WAY = "how far the identity comes on the way from random permutations (0) to the optimal one (1), by objective"
"""The quantity of most claims."""
FIRST_FEW = 0.05
"""Share of the training that "after the first few epochs" (Fig. 3c) leaves out."""
FAR, NEAR = 0.15, 0.9
"""Shares of the way from random permutations to the optimal one that count as far from it and as nearly there."""
FAR_FROM_OPTIMAL = (
    "The paper's ratio of identity to optimum starts near 0 at σ_F = 0; less than a sixth of the way is read as near "
    "0. Random permutations are the floor: without it the ratio is theirs where activations are alike. A sketch on "
    "digits had been seen."
)
NEARLY_OPTIMAL = (
    "The paper calls the identity nearly optimal for large enough σ_F; a tenth is left for noise between runs. A "
    "sketch on digits had been seen."
)


# What is drawn


def sweep_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the W-asymmetric sweep over sigma_F, with their labels.

    Raises:
        UserError: it has a single value of sigma_F.
    """
    sweep = sigma_sweep(table)
    need_several(sweep, "sigma_F", f"{where(table)}.variants: give one sweep: {{scheme.sigma_F: [0, 1]}}")
    return label_rows(table, sweep)


def need_epochs(tables: Tables) -> pd.DataFrame:
    """The objectives of networks of several epochs.

    Raises:
        UserError: there are those of a single epoch.
    """
    matching = need(tables, "matching.csv")
    need_several(matching, "epoch", f"{where(matching)}.snapshots")
    return matching


def mark_zero(axis: Axes, rows: pd.DataFrame, x: str = "") -> None:
    """Draw the line of no correlation; tick an axis of sigma_F, or one of epochs at whole ones."""
    from matplotlib.ticker import MaxNLocator

    axis.axhline(0, color="0.85", linewidth=0.7, zorder=0)
    if x == "sigma_F":
        tick_sigma(axis, rows["sigma_F"])
    if x == "epoch":
        axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))


def draw_objectives(
    rows: pd.DataFrame, x: str, x_label: str, style: Style, row: str = "dataset", **options: object
) -> Figure:
    """A panel for each value of the columns ``row`` and ``column``, in it a line for each kind of permutation."""
    looks, axes = permutation_looks(style), labelled(x_label, OBJECTIVE)
    given: dict[str, Any] = {"row": row, "axes": axes, "more": partial(mark_zero, x=x), "note": over_pairs(rows)}
    return facets(rows, x, "objective", looks, line="permutation", **(given | options))


# What is measured


def at_worst(
    tables: Tables, value: str, which: masks.Mask, score: Score, layerwise: bool, moments: Moments = last_epoch
) -> list[Found]:
    """A column of ``objectives``, mean over pairs, for each variant at the last epoch, or the worst of other moments.

    Of objectives averaged over layers, or, layerwise, in the worst layer.
    """
    rows = objectives(moments(tables["matching.csv"]), layerwise)
    return worst_of_each(by_variant(rows, value, which, PLACE).means(), score, *PLACE)


def apart_through_training(tables: Tables, which: masks.Mask, baseline: masks.Mask, layerwise: bool) -> list[Found]:
    """By how much a variant comes farther than the baseline on its data set, at the snapshot where it is least."""
    rows = objectives(late(tables["matching.csv"]), layerwise)
    base = by_variant(rows, "way", baseline, PLACE).extreme(operator.pos, "dataset", *PLACE)
    return worst_of_each(by_variant(rows, "way", which, PLACE).differences(base), SMALLEST, *PLACE)


def before_training(tables: Tables, which: masks.Mask) -> list[Found]:
    """How far the identity comes at epoch 0, averaged over layers, in networks that are trained further."""
    rows = objectives(tables["matching.csv"], layerwise=False)
    trained = rows.groupby("variant")["epoch"].transform("max") > 0
    return by_variant(rows[trained & (rows["epoch"] == 0)], "way", which).means()


def late(matching: pd.DataFrame) -> pd.DataFrame:
    """The rows after the first few epochs of the variants that have two such snapshots or more."""
    rows = matching[matching["epoch"] >= FIRST_FEW * matching.groupby("variant")["epoch"].transform("max")]
    return rows[rows.groupby("variant")["epoch"].transform("nunique") > 1]


def along_sweep(tables: Tables, statistic: Callable[[pd.DataFrame], pd.Series]) -> list[Found]:
    """A statistic of each pair's way [pair, sigma_F] along the W-asymmetric sweep at the end, mean over pairs.

    Pairs are those that every sigma_F has; a data set counts where it has three values of sigma_F or more.
    """
    matching = tables["matching.csv"]
    if not masks.w_asymmetric(matching).any():
        return ["the study has no such networks"]
    rows = objectives(last_epoch(label_rows(matching, sigma_sweep(matching))), layerwise=False)
    found = []
    for dataset, part in rows.groupby("dataset", sort=False):
        curves = part.pivot(index=PAIR, columns="sigma_F", values="way")
        if curves.shape[1] >= 3:
            told = ", ".join(f"{mean:.3g} at σ_F = {sigma_F:g}" for sigma_F, mean in curves.mean().items())
            name = str(dataset) if rows["dataset"].nunique() > 1 else ""
            found.append(Values(Case(name, dataset=str(dataset)), statistic(curves), told))
    return Cases(tuple(found)).means() or ["needs 3 values of σ_F"]


def half_way(curves: pd.DataFrame) -> pd.Series:
    """The sigma_F at which each pair passes half of the way, between those of the sweep."""
    return curves.apply(_crossing, axis="columns")


def _crossing(way: pd.Series) -> float:
    """Where a curve first passes one half; infinite if it does not, the first place if it begins there."""
    if way.isna().any():
        return math.nan
    past = np.flatnonzero(way.to_numpy() >= 0.5)
    if not len(past):
        return math.inf
    at = past[0]
    if at == 0:
        return float(way.index[0])
    return float(np.interp(0.5, way.iloc[at - 1 : at + 1], way.index[at - 1 : at + 1]))


def largest_fall(curves: pd.DataFrame) -> pd.Series:
    """By how much each pair falls from a sigma_F to the next, where it falls most on average; below 0 if it rises."""
    falls = -curves.diff(axis="columns").iloc[:, 1:]
    means = falls.mean(skipna=False)
    return falls[means.isna().idxmax() if means.isna().any() else means.idxmax()]


# What is claimed of several figures


CLAIM = partial(Claim, owner="paper", origin="pilot", tables=("matching.csv",))


def claims_against_sigma_F(figure: str, layerwise: bool, large: float) -> dict[str, Claim]:
    """Objectives against sigma_F at the end of training (Figs. 3a, 3b, 8, 9)."""
    where = "in the worst layer" if layerwise else "averaged over layers"
    measure = partial(at_worst, layerwise=layerwise)
    from_large = masks.apart_from_fractions(masks.of_scheme("w_asymmetric", large, math.inf))
    return {
        f"{figure}-unbroken": CLAIM(
            statement="At σ_F = 0 the identity is far from the optimal matching",
            quantity=f"{WAY}, {where}",
            bound=at_most(FAR),
            reason=FAR_FROM_OPTIMAL,
            measure=partial(measure, which=masks.W_0, value="way", score=LARGEST),
        ),
        f"{figure}-identifiable": CLAIM(
            statement=f"At σ_F of {large:g} and more the identity is nearly optimal",
            quantity=f"{WAY}, {where}",
            bound=at_least(NEAR),
            reason=NEARLY_OPTIMAL,
            measure=partial(measure, which=from_large, value="way", score=SMALLEST),
        ),
        f"{figure}-random": CLAIM(
            statement="Random permutations stay far below the optimal matching at every σ_F",
            quantity=f"ratio of their objectives {where}",
            bound=at_most(0.5),
            reason="The paper (Section 6, Q2): random permutations remain significantly lower; no size is stated, so "
            "half of the optimum is asked for.",
            measure=partial(measure, which=masks.W, value="random_share", score=LARGEST),
        ),
    }


def claims_of_averages_against_sigma_F(figure: str, large: float) -> dict[str, Claim]:
    """Further ones on objectives averaged over layers (Figs. 3a, 3b)."""
    return {
        f"{figure}-above-random": CLAIM(
            statement="Masks alone (σ_F = 0) make neurons a little identifiable: the identity is above random "
            "permutations",
            quantity="difference of their objectives averaged over layers",
            bound=above(0),
            owner="derived",
            origin="derived",
            reason="Masks make no two neurons alike on data that is not spread over all inputs alike (Theorem 4.4); "
            "the paper gives no size, so only the sign is asked for.",
            measure=partial(at_worst, layerwise=False, which=masks.W_0, value="above", score=SMALLEST),
        ),
        f"{figure}-transition": CLAIM(
            statement=f"Neurons become identifiable at a σ_F below {large:g}",
            quantity="σ_F at which the identity comes half of the way from random permutations to the optimal one",
            bound=below(large),
            owner="derived",
            origin="derived",
            reason=f"The paper counts σ_F = {large:g} to the regime in which fixed weights dominate (Section 6, Q1), "
            "so the change lies below.",
            measure=partial(along_sweep, statistic=half_way),
        ),
        f"{figure}-rise": CLAIM(
            statement="Identifiability rises with σ_F",
            quantity=f"{WAY}: largest fall from one σ_F to the next (below 0: it rises everywhere)",
            bound=at_most(0.05),
            owner="derived",
            reason="The swap cost of two neurons grows with the square of σ_F (Theorem 4.5); a twentieth of the "
            "way is left for noise where it is already gone.",
            measure=partial(along_sweep, statistic=largest_fall),
        ),
    }


def claims_against_epoch(figure: str, layerwise: bool) -> dict[str, Claim]:
    """Objectives against the epoch (Figs. 3c, 7)."""
    where = "in the worst layer" if layerwise else "averaged over layers"
    apart = {
        f"{figure}-apart": CLAIM(
            statement="At all stages of training the identity is nearer to the optimum with σ_F of 1 or more than with "
            "σ_F = 0",
            quantity=f"{WAY}: least difference after the first few epochs, {where}",
            bound=at_least(NEAR - FAR),
            reason="The paper says that the trend of Fig. 3a holds for all stages of training; the difference between "
            "what counts as nearly optimal there and what as far from it.",
            measure=partial(
                apart_through_training,
                which=masks.smallest_sigma(masks.W_FROM_1),
                baseline=masks.W_0,
                layerwise=layerwise,
            ),
        )
    }
    if layerwise:
        return apart
    return {
        **apart,
        f"{figure}-untrained": CLAIM(
            statement="Fixed weights of σ_F = 1 and more make neurons identifiable before any training",
            quantity=f"{WAY}, at epoch 0, {where}",
            bound=at_least(NEAR),
            owner="ours",
            reason="A control: what is there before training is the fixed part that both networks share, not what they "
            f"learned. {NEARLY_OPTIMAL}",
            measure=partial(before_training, which=masks.any_of(masks.W_FROM_1, masks.SYRE_FROM_1)),
        ),
    }
