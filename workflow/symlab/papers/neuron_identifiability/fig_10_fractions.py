"""Fig. 10: matching objectives against the share of fixed weights."""

from functools import partial

from symlab.papers.neuron_identifiability import objectives
from symlab.papers.neuron_identifiability.masks import Mask, of_scheme, w_asymmetric
from symlab.papers.neuron_identifiability.reasons import SINCE
from symlab.papers.neuron_identifiability.variants import add_labels, label_rows, variants_of
from symlab.plotting import style as plot
from symlab.study.card import Drawing
from symlab.study.claim import Tables, at_least, at_most
from symlab.study.tables import last_epoch, need, some, where


def layers_against_fraction(tables: Tables, style: plot.Style) -> plot.Figure:
    matching = need(tables, "matching.csv")
    variants = variants_of(matching)
    w = variants[w_asymmetric(variants)]
    counts = w.groupby("family")["fixed_fraction"].nunique()
    most = counts[counts > 1].nlargest(1).index
    family = some(
        w[w["family"].isin(most) & w["fixed_fraction"].notna()],
        f"{where(matching)}.variants needs a W-asymmetric variant with at least two values of fixed_fraction; add one "
        "with sweep: {scheme.fixed_fraction: [0.125, 0.5], scheme.sigma_F: [0, 1]}.",
    )
    rows = last_epoch(label_rows(matching, add_labels(family))).sort_values(["dataset", "sigma_F"], kind="stable")
    several = rows["dataset"].nunique() > 1
    names = rows["sigma_F"].map(lambda sigma_F: rf"$\sigma_F$ = {sigma_F:g}")
    rows = rows.assign(row=rows["dataset"] + "\n" + names if several else names)
    panels = {"column": "point", "title": objectives.name_point, "height": 1.5}
    x_label = "fraction of fixed weights"
    return objectives.draw_objectives(rows, "fixed_fraction", x_label, style, "row", **panels)


FIGURES = {
    "identifiability-10": Drawing(
        "Matching objective against fixed weights",
        "Matching objective of W-asymmetric networks after the last epoch against the fraction of weights that are "
        f"fixed: a row for each σ_F, a column for each hidden layer, study `{{study}}`. {objectives.DEFINITION} With "
        "σ_F = 0 the fixed weights are zeros: the networks are merely sparse.",
        layers_against_fraction,
        seen="In the worst layer the identity comes {sparse:%} of the way from random permutations to the optimal one "
        "at σ_F = 0; at σ_F = 1, {fixed:%}.",
    ),
}


def _of_fractions(sigma_F: float, least: float) -> Mask:
    """W-asymmetric networks with that sigma_F and a share of fixed weights of at least ``least``."""
    chosen = of_scheme("w_asymmetric", sigma_F, sigma_F)
    return lambda table: chosen(table) & (table["fixed_fraction"] >= least)


CLAIMS = {
    "identifiability-10-sparse": objectives.CLAIM(
        statement="Sparsity without fixed weights does not give identifiability",
        quantity=f"{objectives.WAY}, in the worst layer at σ_F = 0",
        bound=at_most(objectives.FAR),
        reason="The paper says that sparsity alone without fixed weights does not yield strong neuron identifiability; "
        "what counts as far from optimal in Fig. 3a is not strong.",
        measure=partial(objectives.AT_THE_END, which=_of_fractions(0, 0), score=objectives.LARGEST),
    ),
    "identifiability-10-fixed": objectives.CLAIM(
        statement="At σ_F = 1, fixing 5 % of the weights or more makes neurons identifiable",
        quantity=f"{objectives.WAY}, in the worst layer",
        bound=at_least(0.75),
        owner="derived",
        origin="ours",
        reason="The paper finds that it takes fixed weights of large scale; looser than in Fig. 3, because few of "
        f"them are fixed here. {SINCE}: the paper names no share from which on they do.",
        measure=partial(objectives.AT_THE_END, which=_of_fractions(1, 0.05), score=objectives.SMALLEST),
    ),
}
