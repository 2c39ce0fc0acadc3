"""Claims about swap costs by ridge regression beside Mahalanobis distances: Appendices E.2 and G.3."""

from __future__ import annotations

from functools import partial

from symlab.claims import ridge, theory
from symlab.papers.claim import Claim, above, at_least, at_most, bounded
from symlab.claims.neuron_identifiability.stated import STANDARD, SYRE_1, W_0, W_1, stated
from symlab.claims.variants import any_of

SOLVED = at_most(1 + 1e-4)

CLAIMS = (
    stated(
        "ridge-rank",
        "ridge",
        "Both estimators put the swaps of networks with sigma_F = 1 in the same order: Spearman correlation of the "
        "Mahalanobis and the ridge costs of a layer's pairs at the reported beta, mean over models",
        at_least(0.5),
        "The paper shows both as estimates of one quantity and states no number. They differ in the directions that "
        "they count and in the norm's part, so the order of single pairs may differ; 0.5 is far from unrelated ones.",
        "estimators.csv",
        partial(ridge.rank_correlation, which=any_of(W_1, SYRE_1)),
    ),
    Claim(
        "ridge-order",
        "ridge",
        "By both estimators, swaps cost less in standard networks and at sigma_F = 0 than in W and syre networks with "
        "sigma_F = 1: lowest median of the latter less highest of the former, by the estimator with the smaller "
        "difference, consecutive pairs",
        above(0).text,
        "The order of the variants is what the paper's figures have in common; no size is stated.",
        (ridge.RIDGE, ridge.MAHALANOBIS),
        bounded(
            ridge.at_reported_beta(
                partial(ridge.order_of_medians, low=any_of(STANDARD, W_0), high=any_of(W_1, SYRE_1))
            ),
            above(0),
        ),
    ),
    Claim(
        "ridge-surrogate",
        "ridge",
        "No relaxed realization cost is above its quadratic bound (Theorem E.4): largest ratio of cost to bound",
        SOLVED.text,
        "The theorem bounds the least cost; the solver stops a little above it: a ten-thousandth is left for that. "
        "L-BFGS tries the bound's own minimiser, so this one checks the implementation: costs come from the neurons' "
        "outputs, bounds from the inputs' moments.",
        ("ridge_costs.csv",),
        partial(theory.cost_over_surrogate, bound=SOLVED),
    ),
)
