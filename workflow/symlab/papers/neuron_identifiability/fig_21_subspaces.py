"""Fig. 21: coherence of the subspaces that layers read, at the end of training."""

import operator
from functools import partial

import pandas as pd

from symlab.papers.neuron_identifiability.masks import STANDARD, SYRE_1, W_0, W_1, Mask, any_of
from symlab.papers.neuron_identifiability.rows import MODEL
from symlab.papers.neuron_identifiability.theorems import dodge, point_looks
from symlab.papers.neuron_identifiability.variants import by_variant, label_rows, telling_variants
from symlab.plotting import style as plot
from symlab.plotting.units import over_pairs
from symlab.study.card import Drawing
from symlab.study.cases import Cases
from symlab.study.claim import Claim, Found, Tables, above
from symlab.study.facets import BARS, facets, labelled
from symlab.study.tables import last_epoch, need


def nu_by_layer(tables: Tables, style: plot.Style) -> plot.Figure:
    subspaces = of_later_layers(need(tables, "subspaces.csv"))
    variants = telling_variants(subspaces)
    looks = point_looks(variants, style)
    rows = label_rows(subspaces, variants)
    layers = list(dict.fromkeys(rows["layer"]))
    rows["place"] = rows["layer"].map(layers.index)
    rows["place"] = dodge(rows, "place", list(looks))
    several = rows["dataset"].nunique() > 1
    return facets(
        rows, "place", "nu", looks, column="dataset", title=str if several else lambda _: "",
        axes=labelled("layer that reads them", r"coherence $\nu(U)$ of inputs", ylim=(0, 1.02)),
        more=lambda axis, _: axis.set_xticks(range(len(layers)), layers), options=BARS,
        width=plot.PAGE if several else 1.35 * plot.COLUMN, note=over_pairs(rows),
    )  # fmt: skip


def of_later_layers(subspaces: pd.DataFrame) -> pd.DataFrame:
    """Subspaces of the outputs of hidden layers at the end of training, by the ``layer`` that reads them."""
    rows = last_epoch(subspaces)
    rows = rows[rows["point"].astype(str).str.startswith("hidden")]
    return rows.assign(layer=rows["point"].map(lambda point: f"layer {int(point.removeprefix('hidden')) + 1}"))


FIGURES = {
    "identifiability-21": Drawing(
        "Subspace coherence",
        "Coherence ν of the subspace that carries most of the variance (the study's `explained_variance`) of the "
        "inputs to each later layer at the end of training, study `{study}`. ν lies between k/d (spread over all "
        "neurons) and 1 (along single neurons). Of several W-asymmetric and syre networks, those with σ_F = 0 and "
        "the smallest σ_F ≥ 1 are shown.",
        nu_by_layer,
        seen="With σ_F = 1 ν exceeds that of standard networks and of those with σ_F = 0 by {layers}.",
        differs="The paper shows ν over training, and of the network's inputs and outputs too. σ-MLPs are not in its "
        "figure. Their coherence is high though their neurons are not identifiable (Fig. 7): ν speaks of the data a "
        "layer reads, not of the layer's symmetries.",
    ),
}


def excess_at_later_layers(tables: Tables, which: Mask, baselines: tuple[Mask, ...]) -> list[Found]:
    """By how much nu of a later layer's inputs exceeds the largest of the baselines' at the last epoch.

    One value a variant and layer; every kind of baseline is needed.
    """
    rows = of_later_layers(tables["subspaces.csv"])
    nu = partial(by_variant, rows, "nu", by=("layer",), unit=MODEL[1:], name="{name}, {layer} inputs")
    kinds = [nu(baseline) for baseline in baselines]
    if not all(map(len, kinds)):
        return []
    base = Cases(tuple(each for kind in kinds for each in kind)).extreme(operator.pos, "dataset", "layer")
    return [*Cases(tuple(nu(which)), "networks").differences(base)]


CLAIMS = {
    "identifiability-21-layers": Claim(
        statement="At the end of training, the inputs to the later layers of networks with σ_F = 1 are more coherent "
        "than those of standard networks and of networks with σ_F = 0",
        quantity="difference of the coherence ν from the higher of the two",
        bound=above(0),
        owner="paper",
        origin="paper",
        reason="The paper (Appendix G.5): variants without effective symmetry breaking exhibit low subspace coherence, "
        "in particular in later layers, while W-asymmetric and syre MLPs with large fixed weights tend to exhibit "
        "higher values. No size is stated, so only the order is asked for.",
        tables=("subspaces.csv",),
        measure=partial(excess_at_later_layers, which=any_of(W_1, SYRE_1), baselines=(STANDARD, W_0)),
        why={
            "syre σ_F = 1, layer 2 inputs": "The paper speaks of a tendency, in particular in later layers; layer 2 is "
            "the earliest, where kinds of networks differ least."
        },
    ),
}
