"""Claims about projected centres and input subspaces: Figs. 11, 21."""

from __future__ import annotations

from functools import partial

from symlab.claims import centres, coherence
from symlab.papers.claim import above, between
from symlab.claims.neuron_identifiability.stated import STANDARD, SYRE_1, W_0, W_1, stated
from symlab.claims.variants import any_of

FIG_11 = (
    *(
        stated(
            f"11-k{k}",
            "11",
            "The centre gap gamma_out falls with the width m as m^(-2/k) at k = "
            f"{k}: slope of log mean gamma_out against log m",
            between(-2.5 / k, -1.5 / k),
            f"Theorem 4.6 predicts {-2 / k:g}; a quarter of it is left for finite widths.",
            "centre_gaps.csv",
            partial(centres.slopes, k=k),
        )
        for k in (2, 8)
    ),
    stated(
        "11-k32",
        "11",
        "The centre gap gamma_out falls slowly with the width m at k = 32: slope of log mean gamma_out against log m",
        between(-0.15, -0.05),
        "Theorem 4.6 predicts -0.0625 for m to infinity; up to some thousand neurons the gap falls more steeply.",
        "centre_gaps.csv",
        partial(centres.slopes, k=32),
    ),
)

FIG_21 = tuple(
    stated(
        f"21-{point}",
        "21",
        f"At the end of training, networks with sigma_F = 1 hold a higher coherence nu {where} than "
        "standard ones and sigma_F = 0: difference from the higher of the two",
        above(0),
        "The paper says variants without effective symmetry breaking have low coherence in "
        "later layers; no size is stated, so only the order is asked for.",
        "subspaces.csv",
        partial(measure, which=any_of(W_1, SYRE_1), baselines=(STANDARD, W_0)),
    )
    for point, where, measure in (
        ("hidden", "at the last hidden layer", coherence.excess_at_last_hidden),
        ("output", "at the output", coherence.excess_at_output),
    )
)

CLAIMS = (*FIG_11, *FIG_21)
