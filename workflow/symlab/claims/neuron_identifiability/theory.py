"""Claims about the theorems' bounds on trained networks: Thms. 4.4 to 4.8, 5.1 and D.1, Prop. 5.2, Section 4.5.

A bound is checked where the theorem's assumptions hold. Those of Thms. 4.4, 4.6 and 4.8 hold with a probability; their
proofs bound it by unions over neurons, directions and pairs, so generously that no allowance for chance is made.
"""

from __future__ import annotations

from functools import partial

from symlab.claims import theory
from symlab.papers.claim import Claim, at_most, between, bounded
from symlab.claims.neuron_identifiability.stated import W

# The room that double precision needs beside a bound that can be attained.
EXACT = at_most(1 + 1e-9)
# Of the lattice rule, where the bound can be attained: small pre-activations.
QUADRATURE = at_most(1 + 1e-3)
NO_ALLOWANCE = "The theorem states the bound without exception under its assumptions; only rounding is left room."

THM_4_4 = (
    Claim(
        "thm4.4-share",
        "thm4.4",
        "The Gram matrix S_i of one neuron deviates from mu_D I by more than the bound of Theorem 4.4 with probability "
        "delta at most: share of neurons above the bound in the worst variant, layer and kind of masks",
        "at most delta",
        "Matrix Bernstein bounds are far from tight, so the share is not given room for chance.",
        ("gram_deviation.csv",),
        theory.exceedance,
    ),
    Claim(
        "thm4.4-all",
        "thm4.4",
        "All Gram matrices of a layer are within the bound of Theorem 4.4 for all neurons at once with probability "
        "1 - delta: share of networks with a neuron above it in the worst variant, layer and kind of masks",
        "at most delta",
        "The statement of footnote 4, read as a share of the networks that were looked at.",
        ("gram_deviation.csv",),
        theory.exceedance_anywhere,
    ),
)

NEAR_LEADING = between(0.5, 1.5)


def _sensitivity(theorem: str, side: str, statement: str) -> tuple[Claim, ...]:
    return (
        Claim(
            f"thm{theorem}-bound",
            f"thm{theorem}",
            f"{statement} follows the leading term |delta|^2 / mu_D within the bound of Theorem {theorem}: "
            "largest |cost / leading term - 1| in units of the bound",
            EXACT.text,
            NO_ALLOWANCE,
            ("sensitivity.csv",),
            partial(theory.deviation_from_leading, side=side, bound=EXACT),
        ),
        Claim(
            f"thm{theorem}-leading",
            f"thm{theorem}",
            f"Beyond Theorem {theorem}: {statement[0].lower()}{statement[1:]} is about the leading term where fixed "
            "centres dominate (rho of 0.1 and less): median cost in units of the leading term",
            NEAR_LEADING.text,
            "Beyond the theorem, whose bound needs concentrated Gram matrices too. Its error is 2 rho, here at most "
            "0.2, and a term of the masks; 0.3 is left for that one.",
            ("sensitivity.csv",),
            partial(theory.cost_in_leading_terms, side=side, largest_rho=0.1, bound=NEAR_LEADING),
        ),
    )


GROWTH_IN = between(0.4, 0.6)

THM_4_8 = (
    Claim(
        "thm4.8-out",
        "thm4.8",
        "The gap gamma_out between a layer's projected centres is above the lower bound of Theorem 4.6: "
        "largest ratio of the bound to the gap",
        EXACT.text,
        NO_ALLOWANCE,
        ("network_gaps.csv",),
        partial(theory.gap_of_neurons, bound=EXACT),
    ),
    Claim(
        "thm4.8-in",
        "thm4.8",
        "The gap gamma_in of a layer's inputs lies between the bounds of Theorem 4.8: "
        "largest ratio of the lower bound to the gap, or of the gap to the upper bound",
        EXACT.text,
        NO_ALLOWANCE,
        ("network_gaps.csv",),
        partial(theory.gap_of_inputs, bound=EXACT),
    ),
    Claim(
        "thm4.8-growth",
        "thm4.8",
        "The gap gamma_in grows with the width m as m^(1/2): slope of log mean gamma_in against log m, "
        "over the widths that are large beside log d",
        GROWTH_IN.text,
        "Theorem 4.8 predicts 0.5 for m to infinity; at finite widths the least of many sums is small, which steepens "
        "the slope, by less than a fifth of it from these widths on.",
        ("centre_gaps.csv",),
        partial(theory.growth_of_gamma_in, bound=GROWTH_IN),
        also=("11",),
    ),
)

SEC_4_5 = (
    Claim(
        "sec4.5-trade-off",
        "sec4.5",
        "Strong symmetry breaking comes with reduced feature learning: by how many percentage points validation "
        "accuracy at the largest sigma_F is below the best of the sweep, at no lower ratio of identity to optimal "
        "objective",
        "at least 3 standard errors, ratio at most 0.05 lower",
        "The paper posits the loss without a size. It is to be more than chance: three standard errors, because the "
        "best is picked out of several. A ratio 0.05 lower is within the noise of the objectives in Fig. 3.",
        ("trade_off.csv",),
        partial(theory.accuracy_lost, which=W, errors=3, ratio_margin=0.05),
    ),
)

THM_5_1 = (
    *(
        Claim(
            f"thm5.1-{nonlinearity}-bound",
            "thm5.1",
            f"The chord deviation of a {name} layer on Gaussian inputs is within the bound of Theorem {theorem}: "
            "largest deviation in units of the bound",
            bound.text,
            reason,
            ("chord_deviation.csv",),
            partial(theory.chord_over_bound, nonlinearity=nonlinearity, bound=bound),
        )
        for nonlinearity, name, theorem, bound, reason in (
            ("relu", "ReLU", "5.1", EXACT, NO_ALLOWANCE),
            ("gelu", "GELU", "D.1", QUADRATURE, f"{NO_ALLOWANCE} Deviations of GELU come from a quadrature."),
        )
    ),
    *(
        Claim(
            f"thm5.1-{nonlinearity}-slope",
            "thm5.1",
            f"The chord deviation of a {name} layer on Gaussian inputs grows as beta^{exponent}: slope of log "
            f"deviation against log beta for beta up to {small}, mean over layers and pairs",
            between(exponent - margin, exponent + margin).text,
            reason,
            ("chord_deviation.csv",),
            bounded(
                partial(theory.chord_exponent, nonlinearity=nonlinearity, largest_beta=small),
                between(exponent - margin, exponent + margin),
            ),
        )
        for nonlinearity, name, exponent, margin, small, reason in (
            (
                "relu",
                "ReLU",
                1.5,
                0.1,
                0.1,
                "Theorem 5.1 has beta^(3/2) (1 + beta), whose second factor adds less than 0.1 to the slope at these "
                "beta.",
            ),
            (
                "gelu",
                "GELU",
                2,
                0.2,
                0.01,
                "Theorem D.1 has beta^2. GELU bends over about one unit of the pre-activation, and fixed parts alone "
                "move it by several: only a hundredth of that is small beside the bend, so beta is to be smaller than "
                "for ReLU, and the margin wider.",
            ),
        )
    ),
)

ROUNDING_OF_LOSS = at_most(1e-6)

PROP_5_2 = (
    Claim(
        "prop5.2-bound",
        "prop5.2",
        "Between two networks the loss exceeds the straight line by no more than sqrt(2) times the chord deviation of "
        "the outputs: largest excess over that bound anywhere on a path, in units of the larger of the bound and 1",
        ROUNDING_OF_LOSS.text,
        "The proposition has no exception, and cross-entropy is sqrt(2)-Lipschitz; outputs and losses are summed in "
        "single precision, which 1e-6 of the natural unit of the loss leaves room for.",
        ("loss_bounds.csv",),
        partial(theory.excess_over_chord, bound=ROUNDING_OF_LOSS),
    ),
)

CLAIMS = (
    *THM_4_4,
    *_sensitivity("4.5", "output", "What reassigning a layer's neurons costs"),
    *_sensitivity("4.7", "input", "What permuting a layer's inputs costs"),
    *THM_4_8,
    *SEC_4_5,
    *THM_5_1,
    *PROP_5_2,
)
