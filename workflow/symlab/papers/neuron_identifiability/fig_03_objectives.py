"""Figs. 3a to 3c: matching objectives against sigma_F and over training, averaged over layers."""

from symlab.errors import UserError
from symlab.papers.neuron_identifiability import objectives
from symlab.papers.neuron_identifiability.looks import draw_over_sigma
from symlab.papers.neuron_identifiability.rows import average_layers
from symlab.papers.neuron_identifiability.variants import label_rows, sigma_sweep, smallest_large
from symlab.plotting import style as plot
from symlab.study.card import Drawing, Sentence, at
from symlab.study.claim import Tables
from symlab.study.tables import last_epoch, need, where


def against_sigma_F(tables: Tables, style: plot.Style) -> plot.Figure:
    rows = average_layers(last_epoch(objectives.sweep_rows(need(tables, "matching.csv")))).assign(row="")
    n = rows["dataset"].nunique()
    options = {"column": "dataset", "draw": draw_over_sigma, "width": max(plot.COLUMN, 2.3 * n), "height": 1.7}
    title = str if n > 1 else lambda _: ""
    return objectives.draw_objectives(rows, "sigma_F", objectives.SIGMA_F, style, "row", title=title, **options)


def against_epoch(tables: Tables, style: plot.Style) -> plot.Figure:
    matching = objectives.need_epochs(tables)
    sweep = sigma_sweep(matching)
    rows = average_layers(label_rows(matching, sweep[sweep["sigma_F"].isin([0, smallest_large(sweep["sigma_F"])])]))
    if rows.empty:
        raise UserError(f"{where(matching)}.variants has neither σ_F = 0 nor a σ_F of 1 or more; add one.")
    return objectives.draw_objectives(rows, "epoch", "epoch", style, column="label", width=5.2, height=1.7)


SEEN = (
    "On the way from random permutations to the optimal one, by objective, the identity comes {unbroken:%} at σ_F = 0 "
    "and {identifiable:%} at large σ_F."
)


FIGURES = {
    "identifiability-3a": Drawing(
        "Matching objective against σ_F",
        f"""\
Matching objective of W-asymmetric networks after the last epoch against the scale σ_F of their fixed weights, study
`{{study}}`. {objectives.DEFINITION} Values are averaged over hidden layers.
""",
        against_sigma_F,
        SEEN,
        objectives.BROKEN_AXIS,
    ),
    "identifiability-3b": Drawing(
        "Matching objective against σ_F, ResNets",
        f"""\
Matching objective of W-asymmetric ResNets after the last epoch against the scale σ_F of their fixed weights, study
`{{study}}`. {objectives.DEFINITION} Values are averaged over groups of neurons, the residual streams of block groups
and the insides of blocks alike.
""",
        against_sigma_F,
        SEEN,
        objectives.BROKEN_AXIS,
    ),
    "identifiability-3c": Drawing(
        "Matching objective over training",
        f"""\
Matching objective against the training epoch, averaged over hidden layers, study `{{study}}`: W-asymmetric networks
with weights fixed at 0 (σ_F = 0) and at large values (the smallest σ_F ≥ 1 of the study), as far as it has them.
{objectives.DEFINITION}
""",
        against_epoch,
        Sentence(
            "With σ_F of 1 and more the identity comes {untrained:%} of the way from random permutations to the "
            "optimal one before any training.",
            {"untrained": at("identifiability-3c-untrained", scheme="w_asymmetric")},
        ),
        "The paper shows MLPs and ResNets side by side; here one kind a study.",
    ),
}

CLAIMS = {
    **objectives.claims_against_sigma_F("identifiability-3a", layerwise=False, large=1),
    **objectives.claims_of_averages_against_sigma_F("identifiability-3a", large=1),
    **objectives.claims_against_sigma_F("identifiability-3b", layerwise=False, large=2),
    **objectives.claims_of_averages_against_sigma_F("identifiability-3b", large=2),
    **objectives.claims_against_epoch("identifiability-3c", layerwise=False),
}
