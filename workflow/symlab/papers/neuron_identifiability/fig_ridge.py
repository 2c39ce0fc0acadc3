"""Figure ridge: how well two estimators of swap costs, Mahalanobis and ridge, agree (Appendices E.2 and G.3)."""

import operator
from dataclasses import replace
from functools import partial

import numpy as np

from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.papers.neuron_identifiability.masks import STANDARD, SYRE_1, W_0, W_1, Mask, any_of
from symlab.papers.neuron_identifiability.reasons import SINCE
from symlab.papers.neuron_identifiability.rows import MODEL, consecutive
from symlab.papers.neuron_identifiability.swap_costs import MAHALANOBIS, RIDGE, costs_by_network, reported, say_beta
from symlab.papers.neuron_identifiability.theorems import say_left_out
from symlab.papers.neuron_identifiability.variants import by_variant, compared_variants, label_rows
from symlab.plotting import style as plot
from symlab.plotting.units import over_pairs
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, above, at_least, without_phrases, worst_of_each
from symlab.study.facets import BARS, facets, labelled
from symlab.study.tables import need, need_several, where


def rank_correlation(tables: Tables, style: plot.Style) -> plot.Figure:
    every = need(tables, "estimators.csv")
    table = every[every["pairs"] == "consecutive"]
    need_several(table, "beta", f"{where(every)}.ridge.beta")
    variants = compared_variants(table)
    rows = label_rows(table, variants)
    defined = rows["spearman"].notna()
    sentences = [over_pairs(rows), say_left_out(rows[~defined], "Mahalanobis costs constant or infinite in some layer")]
    return facets(
        rows[defined].sort_values("layer", kind="stable"), "beta", "spearman", variant_looks(variants, style),
        row="dataset", column="layer", title="layer {}".format,
        axes=labelled(r"ridge parameter $\beta$", "Spearman correlation", "x"), options=BARS,
        more=lambda axis, _: axis.axhline(0, color="0.85", linewidth=0.7, zorder=0), sharey=True, height=1.6,
        note="\n".join(sentences),
    )  # fmt: skip


FIGURES = {
    "identifiability-ridge": Drawing(
        "Agreement of the two swap-cost estimators",
        "Rank correlation (Spearman) between the swap costs of the two estimators, Mahalanobis and ridge, against "
        "the ridge parameter β, a panel for each layer, study `{study}`. It is taken over the disjoint neighbouring "
        "neurons (0, 1), (2, 3), … of one network; as β goes to 0 the ridge cost tends to the cost of exact "
        "functions (Theorem E.5). Where Mahalanobis costs are all alike, as in standard networks, or infinite, there "
        "is no rank to compare.",
        rank_correlation,
        seen="At the reported β the rank correlation is {rank}.",
        differs="The paper compares the estimators by their distributions (Figs. 12, 13) and maps alone.",
    ),
}


def measure_rank_correlation(tables: Tables, which: Mask) -> list[Found]:
    """Spearman correlation of both estimators' costs, mean over networks, for each variant and layer.

    At the reported beta; over the pairs of the block, or the consecutive ones where there is no block.
    """
    table = tables["estimators.csv"]
    rows = table[table["reported"]]
    block = (rows["pairs"] == "block").groupby([rows[name] for name in ("variant", "layer")]).transform("any")
    rows = rows[(rows["pairs"] == "block") | ~block]
    found = by_variant(rows, "spearman", which, ("layer",), MODEL[1:], "{name}, layer {layer}")
    return [say_beta(each, rows) for each in found.means()]


def order_of_medians(tables: Tables, low: Mask, high: Mask) -> list[Found]:
    """By how much the lowest median cost of ``high`` exceeds the highest of ``low``, by the estimator that says less.

    One value a data set and layer, from the consecutive pairs of the same networks at the reported beta; medians are
    means over networks. Both kinds of variants are needed.
    """
    key = [*MODEL, "layer", "i", "j"]
    ridge, mahalanobis = (each[consecutive(each)] for each in (reported(tables, RIDGE), tables[MAHALANOBIS]))
    both = ridge.merge(mahalanobis[[*key, "swap_cost"]], on=key, suffixes=("", "_mahalanobis"))
    several = both["dataset"].nunique() > 1
    gaps: list[Found] = []
    for estimator, rows in (("Mahalanobis", both.assign(swap_cost=both["swap_cost_mahalanobis"])), ("ridge", both)):
        name = "layer {layer}" + (", dataset = {dataset}" if several else "")
        highest = costs_by_network(rows, np.median, low, name=name).extreme(operator.pos, "dataset", "layer")
        lowest = costs_by_network(rows, np.median, high, name=name).extreme(operator.neg, "dataset", "layer")
        gaps += [
            replace(each, detail=f"{estimator}: {each.detail}") for each in without_phrases(lowest.differences(highest))
        ]
    return [say_beta(each, ridge) for each in worst_of_each(gaps, operator.neg)]


CLAIMS = {
    "identifiability-ridge-rank": Claim(
        statement="Both estimators put the swaps of networks with σ_F = 1 in the same order",
        quantity="Spearman correlation of the Mahalanobis and the ridge costs of a layer's pairs, at the reported β",
        bound=at_least(0.5),
        owner="ours",
        origin="ours",
        reason="The paper shows both as estimates of one quantity and states no number. They differ in the directions "
        "that they count and in the norm's part, so the order of single pairs may differ; 0.5 is far from unrelated "
        "ones.",
        tables=("estimators.csv",),
        why="The estimators agree on which networks are costly, less on which pair of one layer is. Ridge costs count "
        "errors of the neurons' outputs, and rise with the spread of their activations, which Mahalanobis costs do "
        "not see.",
        measure=partial(measure_rank_correlation, which=any_of(W_1, SYRE_1)),
    ),
    "identifiability-ridge-order": Claim(
        statement="By both estimators, swaps cost less in standard networks and at σ_F = 0 than in W and syre networks "
        "with σ_F = 1",
        quantity="lowest median of the latter less highest of the former, by the estimator with the smaller "
        "difference, consecutive pairs",
        bound=above(0),
        owner="derived",
        origin="derived",
        reason="Costs grow with the squared gap of the centres (Theorem 4.5), which without fixed weights is 0, and "
        "both estimators are of one quantity (Appendix G.3); no size follows. "
        f"{SINCE}: the paper shows the order in Fig. 12, and no sentence tells it.",
        tables=(RIDGE, MAHALANOBIS),
        measure=partial(order_of_medians, low=any_of(STANDARD, W_0), high=any_of(W_1, SYRE_1)),
    ),
}
