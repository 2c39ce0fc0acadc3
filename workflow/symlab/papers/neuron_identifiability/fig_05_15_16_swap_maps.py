"""Maps of swap costs: Figs. 5 (the data of 14) and 15 by intrinsic dimension k and sigma_F, 16 to 19 by layer."""

import operator
from functools import partial
from itertools import pairwise

from symlab.errors import UserError
from symlab.papers.neuron_identifiability import swap_costs, swap_panels
from symlab.papers.neuron_identifiability.masks import W_0, W_1
from symlab.papers.neuron_identifiability.rows import BLOCK, first_block, one_path
from symlab.papers.neuron_identifiability.variants import by_variant, sigma_regimes
from symlab.plotting.style import Figure, Style
from symlab.study.card import Drawing
from symlab.study.claim import Case, Claim, Found, Tables, above, at_most, minus, without_phrases, worst_of_each
from symlab.study.tables import where


def maps_by_k(tables: Tables, style: Style, estimator: str) -> Figure:
    """m x m heat maps of the first layer of the first network, a row (with a colour scale) a sigma_F, a column a k."""
    table = swap_panels.need_k(swap_costs.reported(tables, estimator))
    sweep, scales = sigma_regimes(table)
    first = table[(table["layer"] == 1) & table["variant"].isin(sweep.index)]
    maps: dict[str, swap_panels.Maps] = {}
    for (sigma_F, k), rows in first[first["sigma_F"].isin(scales)].groupby(["sigma_F", "k"]):
        row, network = rf"$\sigma_F$ = {sigma_F:g}", swap_panels.choose_network(rows)
        maps.setdefault(row, {})[row, f"$k$ = {k:g}"] = swap_panels.cost_matrix(network)
    beta = f",  {swap_panels.name_beta(table)}" if estimator == swap_costs.RIDGE else ""
    return swap_panels.draw_maps(maps, style, f"each map: layer 1 of one network{beta}")


def maps_by_layer(tables: Tables, style: Style) -> Figure:
    """Heat maps of each layer of the first network of each kind, of the neurons whose pairs every estimator has.

    A row a kind of networks and data set, by each estimator; an estimator has one colour scale. By the Mahalanobis form
    the costs of standard networks are all 0, and are not drawn.
    """
    costs = swap_panels.split_estimators(tables)
    variants = swap_panels.paper_variants(costs["Mahalanobis"])
    several = variants["dataset"].nunique() > 1
    blocks = {
        (variant, estimator, layer): rows
        for estimator, table in costs.items()
        for variant in variants.index
        for layer, rows in swap_panels.choose_network(
            table[first_block(table) & (table["variant"] == variant)]
        ).groupby("layer")
    }
    maps: dict[str, swap_panels.Maps] = {}
    for (variant, estimator, layer), rows in blocks.items():
        kind = variants.loc[variant]
        if kind["scheme"] == "standard" and estimator == "Mahalanobis":
            continue
        by_each = [blocks[variant, each, layer] for each in costs if (variant, each, layer) in blocks]
        size = min(map(swap_panels.count_complete, by_each))
        name = (kind["dataset"] if several else "", kind["label"], estimator if len(costs) > 1 else "")
        cell = "\n".join(filter(None, name)), f"layer {layer}"
        maps.setdefault(estimator, {})[cell] = swap_panels.cost_matrix(rows, size)
    if not maps:
        raise UserError(
            f"{where(costs['Mahalanobis'])}.variants has no network whose swaps have a cost; add a W-asymmetric one."
        )
    return swap_panels.draw_maps(maps, style, "one network of each kind", linear=0.01)


def _by_k(title: str, estimator: str, further: str = "") -> Drawing:
    return Drawing(
        title,
        "Cost Δ of swapping each two neurons of the first layer of one W-asymmetric network, study `{study}`: a row "
        "for each σ_F, a column for each intrinsic dimension k of the Gaussian mixture. Shown is sign(Δ)·√|Δ|, in "
        "units of weight norm: blue swaps cost weight norm, white ones are free, red ones save some. Colours are "
        "linear around 0, logarithmic far from it, and saturate at the 99th percentile; black marks infinite costs."
        f"{further}",
        partial(maps_by_k, estimator=estimator),
        seen="At σ_F = 0 {near-zero:%} of the swaps cost less than a tenth of the median at σ_F = 1; there the share "
        "of swaps below a tenth of their own median falls by {cheap-swaps:%} from k = 2 to 32, to {diagonal:%}.",
        differs="Each row has a colour scale of its own, so that the signs at σ_F = 0 can be seen beside the large "
        "costs below.",
    )


RIDGE_COSTS = "\n\nCosts are estimated by ridge regression (Definition E.3), at the β above the maps."
FIGURES = {
    "identifiability-5": _by_k("Swap costs by k and σ_F (also Fig. 14)", swap_costs.MAHALANOBIS),
    "identifiability-15": _by_k("Ridge swap costs by k and σ_F", swap_costs.RIDGE, RIDGE_COSTS),
    "identifiability-16": Drawing(
        "Swap costs of each layer (Figs. 16 to 19)",
        f"Cost Δ of swapping each two of the first neurons of each layer (at most {BLOCK}) of one network of each "
        "kind, study `{study}`: standard (by ridge regression alone: without masks and fixed weights Mahalanobis "
        "costs are 0 by definition), W-asymmetric with σ_F = 0 and with the smallest σ_F ≥ 1, syre. Shown is "
        "sign(Δ)·√|Δ|, in units of weight norm: blue swaps cost weight norm, white ones are free, red ones save "
        "some. All maps of an estimator have one scale of colours, linear around 0, logarithmic far from it, which "
        "saturates at the 99th percentile; black marks infinite costs.",
        maps_by_layer,
        "Without fixed weights the middle half of the costs reaches {identifiability-12-around-zero} times the median "
        "at σ_F = 1 from 0.",
        "The paper has a figure for each kind of networks, with a colour scale of its own.",
    ),
}


def drop_beside_control(tables: Tables) -> list[Found]:
    """Smaller of the steps, from k = 2 to 8 and 8 to 32, by which the drop at sigma_F = 1 falls, over that at 0.

    Drops are those of train accuracy at the midpoint, unaligned.
    """
    rows = one_path(tables["barriers.csv"], "train", aligned=False).dropna(subset="k")
    large, control = (by_variant(rows, "drop_mid_pp", which, name="") for which in (W_1, W_0))
    ratios = without_phrases(large.ratios(control.keyed("k")))
    shares = {each.case.key["k"]: each for each in ratios if isinstance(each.case, Case)}
    if not {*swap_costs.INTRINSIC_DIMENSIONS} <= {*shares}:
        return []
    told = "; ".join(f"k = {k}: {shares[k].detail} pp" for k in swap_costs.INTRINSIC_DIMENSIONS)
    steps = [minus(shares[few], shares[many], told) for few, many in pairwise(swap_costs.INTRINSIC_DIMENSIONS)]
    return worst_of_each(steps, operator.neg)


def claims_by_k(figure: str, estimate: str, table: str, also: tuple[str, ...]) -> dict[str, Claim]:
    """Swap costs of all pairs on Gaussian mixtures (Fig. 5 = 14; by ridge regression Fig. 15)."""
    owner, further = swap_costs.owned(table)
    claim = partial(Claim, owner=owner, tables=(table,), also=also)
    measured = partial(swap_costs.measure_costs, table=table, pairs=swap_costs.of_mixtures)
    return {
        f"{figure}-near-zero": claim(
            statement=f"Without fixed weights (σ_F = 0) near-zero and negative swap costs dominate{estimate}",
            quantity=f"share of layer-1 swaps that cost less than a tenth of the median at σ_F = 1{estimate}",
            bound=above(0.5),
            origin="derived",
            reason="Q3: “near zero and even negative pairwise neuron swap costs dominate” at σ_F = 0. To dominate is "
            f"to be more than half; near zero is read as an order of magnitude below σ_F = 1.{further}",
            measure=measured(swap_costs.near_zero_by_k, small=W_0, large=W_1),
            why=swap_costs.RIDGE_COUNTS_ERRORS if table == swap_costs.RIDGE else "",
        ),
        f"{figure}-growth": claim(
            statement=f"At σ_F = 1 swaps cost more the larger the data's dimension k is{estimate}",
            quantity=f"smaller step between the median layer-1 costs at k = 2, 8, 32{estimate}",
            bound=above(0),
            origin="paper",
            reason="Q3: “a strong dependence on the intrinsic dimension k”, in this order; no size is "
            f"stated.{further}",
            measure=measured(swap_costs.growth_with_k, which=W_1, name=""),
        ),
        f"{figure}-cheap-swaps": claim(
            statement=f"At σ_F = 1 cheap swaps are more common at k = 2 than at k = 32{estimate}",
            quantity=f"share of layer-1 swaps below a tenth of the layer's median: at k = 2 less at k = 32{estimate}",
            bound=above(0),
            origin="paper",
            reason="Q3: “for k = 2, many low-cost swaps exist”. Low is read as a tenth of the layer's own median, so "
            f"that no scale enters.{further}",
            measure=measured(swap_costs.cheap_share_fall),
        ),
        f"{figure}-diagonal": claim(
            statement=f"At σ_F = 1 and k = 32 no swap is cheap{estimate}",
            quantity=f"share of layer-1 swaps below a tenth of the layer's median{estimate}",
            bound=at_most(0.01),
            origin="pilot",
            reason="Q3: “only the diagonal remains at low cost for k = 32”; one pair in a hundred is left for chance. "
            f"A sketch had been seen.{further}",
            measure=measured(lambda costs: swap_costs.cheap_shares(costs).at(k=32).means()),
        ),
    }


# What the paper says of maps by layer it says of the distributions of Fig. 12, whose claims are about them too.
CLAIMS = {
    **claims_by_k("identifiability-5", "", swap_costs.MAHALANOBIS, also=("identifiability-14",)),
    "identifiability-5-drop": Claim(
        statement="The larger k, the lower the barrier with σ_F = 1, relative to that at σ_F = 0",
        quantity="midpoint drop of train accuracy, unaligned, at σ_F = 1 over that at σ_F = 0: smaller of its falls "
        "from k = 2 to 8 and from 8 to 32",
        bound=above(0),
        owner="derived",
        origin="paper",
        reason="Q3: drops of 46.4, 15.7 and 6.1 points at k = 2, 8, 32 “corroborate” the swap costs. The paper has no "
        "control; the drop at σ_F = 0, where swaps are free, is what the task alone does.",
        tables=("barriers.csv",),
        measure=drop_beside_control,
        also=("identifiability-14", "identifiability-sec6"),
    ),
    **claims_by_k("identifiability-15", ", ridge estimate", swap_costs.RIDGE, also=()),
}
