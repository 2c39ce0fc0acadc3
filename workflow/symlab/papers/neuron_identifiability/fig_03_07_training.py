"""Figs. 3c and 7: matching objectives over training, averaged over layers, by sigma_F and by kind of network."""

import operator
from functools import partial

from symlab.papers.neuron_identifiability import masks, objectives
from symlab.papers.neuron_identifiability.reasons import SINCE
from symlab.papers.neuron_identifiability.rows import PLACE, average_layers, pair_objectives
from symlab.papers.neuron_identifiability.variants import (
    by_variant,
    label_rows,
    sigma_sweep,
    smallest_large,
    telling_variants,
)
from symlab.plotting import style as plot
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, at_least, at_most, between, worst_of_each
from symlab.study.tables import some, where


def against_epoch(tables: Tables, style: plot.Style) -> plot.Figure:
    matching = objectives.need_epochs(tables)
    sweep = sigma_sweep(matching)
    chosen = label_rows(matching, sweep[sweep["sigma_F"].isin([0, smallest_large(sweep["sigma_F"])])])
    some(chosen, f"{where(matching)}.variants has neither σ_F = 0 nor a σ_F of 1 or more; add one.")
    rows = average_layers(chosen)
    return objectives.draw_objectives(rows, "epoch", "epoch", style, column="label", width=5.2, height=1.7)


def kinds_against_epoch(tables: Tables, style: plot.Style) -> plot.Figure:
    matching = objectives.need_epochs(tables)
    variants = telling_variants(matching)
    order = list(dict.fromkeys(variants["label"]))
    rows = average_layers(label_rows(matching, variants))
    rows = rows.sort_values("label", key=lambda labels: labels.map(order.index), kind="stable")
    return objectives.draw_objectives(rows, "epoch", "epoch", style, column="label", height=1.5)


FIGURES = {
    "identifiability-3c": Drawing(
        "Matching objective over training",
        "Matching objective against the training epoch, averaged over hidden layers, study `{study}`: W-asymmetric "
        "networks with weights fixed at 0 (σ_F = 0) and at large values (the smallest σ_F ≥ 1 of the study), as far "
        f"as it has them. {objectives.DEFINITION}",
        against_epoch,
        "With σ_F of 1 and more the identity comes {untrained(scheme=w_asymmetric):%} of the way from random "
        "permutations to the optimal one before any training.",
        "The paper shows MLPs and ResNets side by side; here one kind a study.",
    ),
    "identifiability-7": Drawing(
        "Matching objective by layer over training",
        "Matching objective against the training epoch, study `{study}`: a panel for each kind of network, "
        f"averaged over hidden layers. {objectives.DEFINITION} Of several W-asymmetric and syre networks, those with "
        "σ_F = 0 and the smallest σ_F ≥ 1 are shown.",
        kinds_against_epoch,
        seen="On the way from random permutations to the optimal one the identity comes {apart:%} further with σ_F of "
        "1 or more than with σ_F = 0, in the worst layer and epoch.",
        differs="The paper shows each layer too; the claims are about the worst of them.",
    ),
}


def apart_through_training(tables: Tables, which: masks.Mask, baseline: masks.Mask, layerwise: bool) -> list[Found]:
    """By how much a variant comes farther than the baseline on its data set, at the snapshot where it is least."""
    rows = pair_objectives(objectives.while_training(tables["matching.csv"]), layerwise)
    base = by_variant(rows, "way", baseline, PLACE).extreme(operator.pos, "dataset", *PLACE)
    return worst_of_each(by_variant(rows, "way", which, PLACE).differences(base), objectives.SMALLEST, *PLACE)


def before_training(tables: Tables, which: masks.Mask) -> list[Found]:
    """How far the identity comes at epoch 0, averaged over layers, in networks that are trained further."""
    rows = pair_objectives(tables["matching.csv"], layerwise=False)
    trained = rows.groupby("variant")["epoch"].transform("max") > 0
    return by_variant(rows[trained & (rows["epoch"] == 0)], "way", which).means()


ALL_STAGES = f"{SINCE}: the first twentieth of the training had been left out, which the paper does not do."


def _apart(layerwise: bool) -> Claim:
    where = "in the worst layer" if layerwise else "averaged over layers"
    fixed = masks.smallest_sigma(masks.W_FROM_1)
    return objectives.CLAIM(
        statement="At all stages of training the identity is nearer to the optimum with σ_F of 1 or more than with "
        "σ_F = 0",
        quantity=f"{objectives.WAY}: least difference at any snapshot after the start, {where}",
        bound=at_least(objectives.NEAR - objectives.FAR),
        reason="The paper says that the trend of Fig. 3a holds for all stages of training; the difference between "
        f"what counts as nearly optimal there and what as far from it. {ALL_STAGES}",
        measure=partial(apart_through_training, which=fixed, baseline=masks.W_0, layerwise=layerwise),
    )


NO_BETTER_CLAIM = partial(
    objectives.CLAIM,
    quantity="largest difference of the objectives in any layer at any snapshot after the start",
    bound=between(-0.05, 0.05),
    origin="ours",
)
END_CLAIM = partial(objectives.CLAIM, quantity=f"{objectives.WAY}, in the worst layer")
ALL_ALONG = partial(objectives.at_worst, value="above", score=abs, layerwise=True, moments=objectives.while_training)
CLAIMS: dict[str, Claim] = {
    "identifiability-3c-apart": _apart(layerwise=False),
    "identifiability-3c-untrained": objectives.CLAIM(
        statement="Fixed weights of σ_F = 1 and more make neurons identifiable before any training",
        quantity=f"{objectives.WAY}, at epoch 0, averaged over layers",
        bound=at_least(objectives.NEAR),
        owner="ours",
        reason="A control: what is there before training is the fixed part that both networks share, not what they "
        f"learned. {objectives.NEARLY_OPTIMAL}",
        measure=partial(before_training, which=masks.any_of(masks.W_FROM_1, masks.SYRE_FROM_1)),
    ),
    "identifiability-7-apart": _apart(layerwise=True),
    "identifiability-7-sigma": NO_BETTER_CLAIM(
        statement="In σ-MLPs the identity is no better than random permutations at any stage of training",
        reason="The paper finds the identity's objective no higher than that of random permutations; 0.05 is the room "
        f"given to noise. {ALL_STAGES}",
        measure=partial(ALL_ALONG, which=masks.sigma_mlp),
    ),
    "identifiability-7-residual": NO_BETTER_CLAIM(
        statement="In residual networks the identity is no better than random permutations at any stage of training",
        owner="derived",
        reason="F = I (Table 1) stays what it is when all layers are renumbered alike, so the identity is as good as "
        f"any renumbering; the same room for noise as for σ-MLPs. {ALL_STAGES}",
        measure=partial(ALL_ALONG, which=masks.RESIDUAL),
    ),
    "identifiability-7-sparse": END_CLAIM(
        statement="In sparse networks, which have masks alone, the identity ends far from the optimal matching",
        bound=at_most(objectives.FAR),
        owner="derived",
        reason="The paper says so of masks with σ_F = 0 (Appendix G.1), of which this scheme of Table 1 differs by "
        f"rows of unequal numbers alone. A sketch of those on digits had been seen. {SINCE}: of this scheme "
        "the paper says nothing.",
        measure=partial(objectives.AT_THE_END, which=masks.SPARSE, score=objectives.LARGEST),
    ),
    "identifiability-7-syre": END_CLAIM(
        statement="In syre networks with σ_F of 1 and more the identity ends nearly optimal",
        bound=at_least(objectives.NEAR),
        owner="derived",
        reason=f"{objectives.NEARLY_OPTIMAL} {SINCE}: the paper says it of W-asymmetric networks (Q2), and "
        "of syre networks with large fixed weights that their symmetries are broken effectively (Appendix G.5).",
        measure=partial(objectives.AT_THE_END, which=masks.SYRE_FROM_1, score=objectives.SMALLEST),
    ),
}
