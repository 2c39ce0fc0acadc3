"""Fig. 7: matching objectives over training, by kind of network."""

from functools import partial

from symlab.papers.neuron_identifiability import objectives
from symlab.papers.neuron_identifiability.masks import RESIDUAL, SPARSE, SYRE_FROM_1, sigma_mlp
from symlab.papers.neuron_identifiability.rows import average_layers
from symlab.papers.neuron_identifiability.variants import label_rows, telling_variants
from symlab.plotting import style as plot
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Tables, at_least, at_most, between


def against_epoch(tables: Tables, style: plot.Style) -> plot.Figure:
    matching = objectives.need_epochs(tables)
    variants = telling_variants(matching)
    rows = average_layers(label_rows(matching, variants))
    order = {label: place for place, label in enumerate(variants["label"])}
    rows = rows.sort_values("label", key=lambda labels: labels.map(order), kind="stable")
    return objectives.draw_objectives(rows, "epoch", "epoch", style, column="label", height=1.5)


FIGURES = {
    "identifiability-7": Drawing(
        "Matching objective by layer over training",
        f"""\
Matching objective against the training epoch, study `{{study}}`: a panel for each kind of network, averaged over hidden
layers. {objectives.DEFINITION} Of several W-asymmetric and syre networks, those with
σ_F = 0 and the smallest σ_F ≥ 1 are shown.
""",
        against_epoch,
        seen="On the way from random permutations to the optimal one the identity comes {apart:%} further with σ_F of "
        "1 or more than with σ_F = 0, in the worst layer and epoch.",
        differs="The paper shows each layer too; the claims are about the worst of them.",
    ),
}
NO_BETTER_CLAIM = partial(
    objectives.CLAIM,
    quantity="largest difference of the objectives in any layer",
    bound=between(-0.05, 0.05),
    origin="ours",
)
END_CLAIM = partial(objectives.CLAIM, quantity=f"{objectives.WAY}, in the worst layer")
AT_THE_END = partial(objectives.at_worst, value="way", layerwise=True)
ALL_ALONG = partial(objectives.at_worst, value="above", score=abs, layerwise=True, moments=objectives.late)
CLAIMS: dict[str, Claim] = {
    **objectives.claims_against_epoch("identifiability-7", layerwise=True),
    "identifiability-7-sigma": NO_BETTER_CLAIM(
        statement="In σ-MLPs the identity is no better than random permutations after the first few epochs",
        reason="The paper finds the identity's objective no higher than that of random permutations; 0.05 is the room "
        "given to noise.",
        measure=partial(ALL_ALONG, which=sigma_mlp),
    ),
    "identifiability-7-residual": NO_BETTER_CLAIM(
        statement="In residual networks the identity is no better than random permutations after the first few epochs",
        owner="derived",
        reason="F = I (Table 1) stays what it is when all layers are renumbered alike, so the identity is as good as "
        "any renumbering; the same room for noise as for σ-MLPs.",
        measure=partial(ALL_ALONG, which=RESIDUAL),
    ),
    "identifiability-7-sparse": END_CLAIM(
        statement="In sparse networks, which have masks alone, the identity ends far from the optimal matching",
        bound=at_most(objectives.FAR),
        reason="The paper says so of masks with σ_F = 0 (Figs. 3a, 8, 10), of which this scheme of Table 1 differs by "
        "rows of unequal numbers alone. A sketch of those on digits had been seen.",
        measure=partial(AT_THE_END, which=SPARSE, score=objectives.LARGEST),
    ),
    "identifiability-7-syre": END_CLAIM(
        statement="In syre networks with σ_F of 1 and more the identity ends nearly optimal",
        bound=at_least(objectives.NEAR),
        reason=objectives.NEARLY_OPTIMAL,
        measure=partial(AT_THE_END, which=SYRE_FROM_1, score=objectives.SMALLEST),
    ),
}
