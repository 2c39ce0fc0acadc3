"""Figs. 3a, 3b, 8 and 9: matching objectives against sigma_F, averaged over layers and layer by layer."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.neuron_identifiability import masks, objectives
from symlab.papers.neuron_identifiability.looks import draw_over_sigma, permutation_looks
from symlab.papers.neuron_identifiability.rows import average_layers, pair_objectives
from symlab.papers.neuron_identifiability.variants import label_rows, sigma_sweep
from symlab.plotting import style as plot
from symlab.plotting.pairs import PAIR
from symlab.plotting.units import over_pairs
from symlab.study.card import Drawing
from symlab.study.cases import Cases, Values
from symlab.study.claim import Case, Claim, Found, Tables, above, at_least, at_most, below
from symlab.study.facets import Panel, draw_grid, labelled
from symlab.study.tables import last_epoch, need


def against_sigma_F(tables: Tables, style: plot.Style) -> plot.Figure:
    rows = average_layers(last_epoch(objectives.sweep_rows(need(tables, "matching.csv")))).assign(row="")
    n = rows["dataset"].nunique()
    options = {"column": "dataset", "draw": draw_over_sigma, "width": max(plot.COLUMN, 2.3 * n), "height": 1.7}
    title = str if n > 1 else lambda _: ""
    return objectives.draw_objectives(rows, "sigma_F", objectives.SIGMA_F, style, "row", title=title, **options)


def layers_against_sigma_F(tables: Tables, style: plot.Style) -> plot.Figure:
    rows = last_epoch(objectives.sweep_rows(need(tables, "matching.csv")))
    lines = objectives.in_lines(objectives.sort_points(rows["point"]))
    columns = max(map(len, lines))
    # No panel is so narrow that the name of its x axis does not fit.
    width = max(plot.PAGE, 1.6 * columns) if columns > 2 else 2.6 * columns
    datasets = list(rows["dataset"].unique())

    def panel(dataset: str, point: str) -> Panel:
        part = rows[(rows["dataset"] == dataset) & (rows["point"] == point)]
        title = objectives.break_text(objectives.name_point(point), width / columns, style)
        axes = labelled(objectives.SIGMA_F, objectives.OBJECTIVE, title=title)
        finish = partial(objectives.mark_zero, rows=part, x="sigma_F")
        return Panel(part, "sigma_F", "objective", axes, draw_over_sigma, more=finish)

    grid = [[panel(dataset, point) for point in line] for dataset in datasets for line in lines]
    rows_named = [dataset for dataset in datasets for _ in lines] if len(datasets) > 1 else ()
    return draw_grid(
        grid, permutation_looks(style), line="permutation", width=width, height=1.7, sharey=True,
        rows_named=rows_named, note=over_pairs(rows),
    )  # fmt: skip


def _drawing(title: str, networks: str, panels: str = "", further: str = "") -> Drawing:
    """A figure of averages over layers, or with panels for each layer, as a phrase says."""
    caption = (
        f"Matching objective of W-asymmetric {networks} after the last epoch against the scale σ_F of their fixed "
        f"weights{panels}, study `{{study}}`. {objectives.DEFINITION}{further}"
    )
    if panels:
        seen = "In the worst layer the identity comes {unbroken:%} of the way from random permutations to the optimal "
        seen += "one at σ_F = 0, and {identifiable:%} at large σ_F."
    else:
        seen = "On the way from random permutations to the optimal one, by objective, the identity comes {unbroken:%} "
        seen += "at σ_F = 0 and {identifiable:%} at large σ_F."
    return Drawing(title, caption, layers_against_sigma_F if panels else against_sigma_F, seen, objectives.BROKEN_AXIS)


FIGURES = {
    "identifiability-3a": _drawing(
        "Matching objective against σ_F", "networks", further=" Values are averaged over hidden layers."
    ),
    "identifiability-3b": _drawing(
        "Matching objective against σ_F, ResNets",
        "ResNets",
        further=" Values are averaged over groups of neurons, the residual streams of block groups and the insides of "
        "blocks alike.",
    ),
    "identifiability-8": _drawing(
        "Matching objective by layer against σ_F", "networks", ", one panel for each hidden layer"
    ),
    "identifiability-9": _drawing(
        "Matching objective by layer, ResNets",
        "ResNets",
        ", one panel for each group of neurons that are permuted together",
        " For ResNet20 each line is a block group (BG): its residual stream, whose permutation all its blocks share, "
        "then the inside of each block.",
    ),
}


def along_sweep(tables: Tables, statistic: Callable[[pd.DataFrame], pd.Series]) -> list[Found]:
    """A statistic of each pair's way [pair, sigma_F] along the W-asymmetric sweep at the end, mean over pairs.

    Pairs are those that every sigma_F has; a data set counts where it has three values of sigma_F or more.
    """
    matching = tables["matching.csv"]
    if not masks.w_asymmetric(matching).any():
        return ["the study has no such networks"]
    rows = pair_objectives(last_epoch(label_rows(matching, sigma_sweep(matching))), layerwise=False)
    several = rows["dataset"].nunique() > 1
    found = []
    for dataset, part in rows.groupby("dataset", sort=False):
        curves = part.pivot(index=PAIR, columns="sigma_F", values="way")
        if curves.shape[1] >= 3:
            told = ", ".join(f"{mean:.3g} at σ_F = {sigma_F:g}" for sigma_F, mean in curves.mean().items())
            found.append(Values(Case(dataset if several else "", dataset=dataset), statistic(curves), told))
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
    near = way.iloc[max(past[0] - 1, 0) : past[0] + 1]
    return float(np.interp(0.5, near, near.index))


def largest_fall(curves: pd.DataFrame) -> pd.Series:
    """By how much each pair falls from a sigma_F to the next, where it falls most on average; below 0 if it rises."""
    falls = -curves.diff(axis="columns").iloc[:, 1:]
    means = falls.mean(skipna=False)
    return falls[means.isna().idxmax() if means.isna().any() else means.idxmax()]


FALLS = (
    "The identity is nearly optimal before any training and falls with it (Fig. 3c). Whether fewer channels, fewer "
    "fixed weights in a filter or shorter training are the reason is not known."
)


def claims_against_sigma_F(figure: str, layerwise: bool, resnets: bool) -> dict[str, Claim]:
    """Objectives against sigma_F at the end of training (Figs. 3a, 3b, 8, 9); of averages (3a, 3b) some more."""
    large, networks, appendix, why = (2, "ResNets", "F.2", FALLS) if resnets else (1, "MLPs", "F.1", "")
    where = "in the worst layer" if layerwise else "averaged over layers"
    measure = partial(objectives.at_worst, layerwise=layerwise)
    from_large = masks.apart_from_fractions(masks.of_scheme("w_asymmetric", large, math.inf))
    claims = {
        f"{figure}-unbroken": objectives.CLAIM(
            statement="At σ_F = 0 the identity is far from the optimal matching",
            quantity=f"{objectives.WAY}, {where}",
            bound=at_most(objectives.FAR),
            reason="The paper says that at σ_F = 0 symmetries are not broken effectively, as in σ-MLPs, whose identity "
            "it finds no higher than random permutations (Appendix G.1); less than a sixth of the way is read as that. "
            "Random permutations are the floor: without it the ratio of identity to optimum is theirs where "
            "activations are alike. A sketch on digits had been seen.",
            measure=partial(measure, which=masks.W_0, value="way", score=objectives.LARGEST),
        ),
        f"{figure}-identifiable": objectives.CLAIM(
            statement=f"At σ_F of {large:g} and more the identity is nearly optimal",
            quantity=f"{objectives.WAY}, {where}",
            bound=at_least(objectives.NEAR),
            reason=f"{objectives.NEARLY_OPTIMAL} Large enough is read as {large:g} and more, by which the paper breaks "
            f"the symmetries of its {networks} effectively (Appendix {appendix}); Q2 names no σ_F.",
            measure=partial(measure, which=from_large, value="way", score=objectives.SMALLEST),
            why=why,
        ),
        f"{figure}-random": objectives.CLAIM(
            statement="Random permutations stay far below the optimal matching at every σ_F",
            quantity=f"ratio of their objectives {where}",
            bound=at_most(0.5),
            reason="The paper (Section 6, Q2): random permutations remain significantly lower; no size is stated, so "
            "half of the optimum is asked for.",
            measure=partial(measure, which=masks.W, value="random_share", score=objectives.LARGEST),
        ),
    }
    if layerwise:
        return claims
    return claims | {
        f"{figure}-above-random": objectives.CLAIM(
            statement="Masks alone (σ_F = 0) make neurons a little identifiable: the identity is above random "
            "permutations",
            quantity="difference of their objectives averaged over layers",
            bound=above(0),
            owner="derived",
            origin="derived",
            reason="Masks make no two neurons alike on data that is not spread over all inputs alike (Theorem 4.4); "
            "the paper gives no size, so only the sign is asked for.",
            measure=partial(measure, which=masks.W_0, value="above", score=objectives.SMALLEST),
        ),
        f"{figure}-transition": objectives.CLAIM(
            statement=f"Neurons become identifiable at a σ_F below {large:g}",
            quantity="σ_F at which the identity comes half of the way from random permutations to the optimal one",
            bound=below(large),
            owner="derived",
            origin="derived",
            reason=f"The paper counts σ_F = {large:g} to the regime in which fixed weights dominate (Section 6, Q1), "
            "so the change lies below.",
            measure=partial(along_sweep, statistic=half_way),
        ),
        f"{figure}-rise": objectives.CLAIM(
            statement="Identifiability rises with σ_F",
            quantity=f"{objectives.WAY}: largest fall from one σ_F to the next (below 0: it rises everywhere)",
            bound=at_most(0.05),
            owner="derived",
            reason="The swap cost of two neurons grows with the square of σ_F (Theorem 4.5); a twentieth of the "
            "way is left for noise where it is already gone.",
            measure=partial(along_sweep, statistic=largest_fall),
        ),
    }


CLAIMS = {
    **claims_against_sigma_F("identifiability-3a", layerwise=False, resnets=False),
    **claims_against_sigma_F("identifiability-3b", layerwise=False, resnets=True),
    **claims_against_sigma_F("identifiability-8", layerwise=True, resnets=False),
    **claims_against_sigma_F("identifiability-9", layerwise=True, resnets=True),
}
