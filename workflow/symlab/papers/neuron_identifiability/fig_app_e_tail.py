"""Appendix E: relaxed costs against their bound by the tail energy (Prop. E.2, Cor. E.6)."""

from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.papers.neuron_identifiability.theorems import worst_claim
from symlab.papers.neuron_identifiability.variants import compared_variants, label_rows
from symlab.plotting import style as plot
from symlab.plotting.units import over_pairs
from symlab.study.card import Drawing
from symlab.study.claim import Tables
from symlab.study.facets import BARS, facets, labelled
from symlab.study.tables import need

TABLE = "tail_energy.csv"


def shares_of_bounds(tables: Tables, style: plot.Style) -> plot.Figure:
    table = need(tables, TABLE)
    variants = compared_variants(table)
    rows = label_rows(table[table["cost_share"].notna()], variants)
    return facets(
        rows.sort_values("layer", kind="stable"), "beta", "cost_share", variant_looks(variants, style), row="dataset",
        column="layer", title="layer {}".format,
        axes=labelled(r"ridge parameter $\beta$", "relaxed cost / bound", "xy"), options=BARS,
        more=lambda axis, _: axis.axhline(1, color="0.6", linewidth=0.7, linestyle=":"), sharey=True, height=1.6,
        note=over_pairs(rows),
    )  # fmt: skip


FIGURES = {
    "identifiability-E.6": Drawing(
        "Relaxed costs and the tail energy (Corollary E.6)",
        "The largest relaxed cost at which a neuron does another's function, over its bound of Corollary E.6, "
        "against the ridge parameter β, a panel for each layer, study `{study}`. The bound is the cost on the "
        "subspace of 90 % of the variance plus what the energy τ outside of it may add, in proportion to τ / β. The "
        "subspace is that of the centred inputs, so τ counts what their mean has outside of it. At 1 (dotted) the "
        "bound would be attained.",
        shares_of_bounds,
        seen="At most {cost:%} of the bound is used, and {error:%} of that of Proposition E.2.",
        differs="The paper states the bounds without numbers. Neurons count without bias and nonlinearity here, for "
        "which the relaxed cost has a closed form.",
    ),
}
CLAIMS = {
    "identifiability-E.6-error": worst_claim(
        *(TABLE, "error_share"),
        statement="Two neurons that agree on the subspace differ elsewhere by no more than the tail energy allows "
        "(Proposition E.2)",
        quantity="mean square of their difference over 2 (|u_1|² + |u_2|²) τ, largest of all pairs",
    ),
    "identifiability-E.6-cost": worst_claim(
        *(TABLE, "cost_share"),
        statement="What can be realized on the subspace has a relaxed cost within the bound of Corollary E.6",
        quantity="relaxed cost over the bound, largest of all pairs",
    ),
}
