"""Figure neurons: within one kind of networks, which neurons keep their place, and where the others go."""

from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.papers.neuron_identifiability.masks import W_0, Mask, W
from symlab.papers.neuron_identifiability.rows import describe
from symlab.papers.neuron_identifiability.variants import by_variant, label_rows, sigma_sweep
from symlab.plotting import style as plot
from symlab.plotting.pairs import PAIR
from symlab.plotting.units import over_pairs
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, above, below, between
from symlab.study.facets import facets, labelled
from symlab.study.tables import need, some, where

PLACES = "neuron_places.parquet"
FEW = 0.05
"""Share of a variant's neurons that must keep their place, and that must leave it, for costs to tell them apart."""


def kept_by_cost(tables: Tables, style: plot.Style) -> plot.Figure:
    table = need(tables, PLACES)
    sweep = sigma_sweep(table)
    lacking = f"{where(table)}.variants has no W-asymmetric variant with scheme.sigma_F above 0; add one."
    rows = some(label_rows(table, sweep[sweep["sigma_F"] > 0]), lacking)
    ranks = rows.groupby(["variant", *PAIR, "layer"])["cheapest"].rank(method="first", pct=True)
    rows = rows.assign(decile=(10 * ranks).apply(np.ceil), kept=100.0 * rows["itself"])
    shares = rows.groupby(["variant", "label", "dataset", *PAIR, "layer", "decile"], sort=False)["kept"].mean()
    shares = shares.reset_index().sort_values("layer", kind="stable")
    axes = labelled("decile of swap cost", "neurons at their own\nplace in both runs (%)")
    return facets(
        shares, "decile", "kept", variant_looks(sweep, style), row="dataset", column="layer",
        title="layer {}".format, axes={**axes, "ylim": (-3, 103), "xticks": (1, 4, 7, 10)}, sharey=True,
        note=over_pairs(shares),
    )  # fmt: skip


FIGURES = {
    "identifiability-neurons": Drawing(
        "Which neurons keep their place",
        "Within one kind of networks, study `{study}`: the neurons of a layer in ten equal parts by the cost of "
        "their cheapest swap (mean over the pair's two networks), from cheap to costly, against the share of them "
        "that the best matching of two trainings leaves at their own place. If costs did not matter, lines would be "
        "level. Each line has one σ_F, which therefore explains nothing of its slope.",
        kept_by_cost,
        seen="Of two neurons of a layer, one kept in its place and one not, the first has the costlier cheapest swap "
        "in {kept:%} of cases (chance: 50 %). A neuron that leaves goes where {partner:%} of its swaps are cheaper.",
        differs="The paper has no such figure; diagnostics of this kind are its future work.",
    ),
}


def dearer_if_kept(tables: Tables) -> list[Found]:
    """Probability that of two neurons of a layer, one kept and one not, the kept one has the costlier cheapest swap.

    For each variant and pair over all such pairs of neurons in all layers (0.5 for equal costs), mean over pairs of
    networks; where at least ``FEW`` of the neurons are kept and as many not.
    """
    table = tables[PLACES]
    rows = table[with_fixed_weights(table)]
    share = rows.groupby("variant")["itself"].transform("mean")
    lacking = "in no W-asymmetric variant do some neurons keep their place and others not"
    rows = some(rows[share.between(FEW, 1 - FEW)], lacking)
    by_layer = rows.groupby(["variant", *PAIR, "layer"], sort=False)[["itself", "cheapest"]].apply(_comparisons)
    of_pairs = by_layer.groupby(level=["variant", *PAIR], sort=False).agg(lambda layers: layers.sum(skipna=False))
    return by_variant(describe(of_pairs.reset_index(), table), "won / compared").means()


def _comparisons(neurons: pd.DataFrame) -> pd.Series:
    """Pairs of a kept neuron and another: in how many the first is costlier, and how many there are."""
    kept = neurons["itself"].to_numpy(dtype=bool)
    ranks, n = neurons["cheapest"].rank().to_numpy(), int(kept.sum())
    won = ranks[kept].sum() - n * (n + 1) / 2 if not neurons["cheapest"].isna().any() else np.nan
    return pd.Series({"won": won, "compared": n * (len(kept) - n)}, dtype=float)


def rank_of_partner(tables: Tables, which: Mask) -> list[Found]:
    """Share of a moved neuron's swaps that cost less than that with the neuron whose place it takes.

    Mean over the neurons that are not matched to themselves, then over pairs; of variants with ``FEW`` such neurons.
    """
    table = tables[PLACES]
    rows = table[which(table)]
    moved = rows.groupby("variant")["itself"].transform("mean") < 1 - FEW
    return by_variant(rows[moved & ~rows["itself"].astype(bool)], "cost_rank").means()


def with_fixed_weights(table: pd.DataFrame) -> pd.Series:
    """W-asymmetric networks with sigma_F above 0."""
    return W(table) & (table["sigma_F"] > 0)


NEURONS = partial(Claim, owner="derived", origin="pilot", tables=(PLACES,))
CLAIMS = {
    "identifiability-neurons-kept": NEURONS(
        statement="Within one σ_F, the neurons whose cheapest swap is costly keep their place",
        quantity="probability that of a neuron matched to itself and one that is not, in the same layer, the first has "
        "the costlier cheapest swap",
        bound=above(0.5),
        reason="The paper explains by the cost of realizing another neuron's function which networks are identifiable; "
        "if that is the cause, it tells neurons apart too, and better than chance (0.5). An analysis of the demo had "
        "been seen.",
        measure=dearer_if_kept,
    ),
    "identifiability-neurons-partner": NEURONS(
        statement="Within one σ_F, a neuron that leaves its place goes where that costs little",
        quantity="share of its swaps that cost less than that with the neuron whose place it takes",
        bound=below(0.5),
        reason="If costs did not matter, half of them would cost less. An analysis of the demo had been seen.",
        measure=partial(rank_of_partner, which=with_fixed_weights),
    ),
    "identifiability-neurons-control": NEURONS(
        statement="Without fixed weights a neuron goes where it costs much nearly as often as where it costs little",
        quantity="share of its swaps that cost less than that with the neuron whose place it takes, at σ_F = 0",
        bound=between(0.45, 0.55),
        owner="ours",
        reason="A control: at σ_F = 0 numberings are unrelated, so the share is about one half; a twentieth is left "
        "for what masks do. An analysis of the demo had been seen.",
        measure=partial(rank_of_partner, which=W_0),
    ),
}
