"""The least shift of a layer's centres by a swap of two neurons or inputs, against its bounds (Thms. 4.6 and 4.8)."""

import math

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.optimize import minimize_scalar
from scipy.stats import hypergeom
from torch import Tensor

from symlab.identifiability.subspace import coherence
from symlab.papers.neuron_identifiability.bounds import SquaredMoments, bernstein_tail, count_fixed
from symlab.papers.neuron_identifiability.centre_gaps import centre_gap, input_gap, row_gap
from symlab.schemes import Scheme, Syre, WAsymmetric

# Rows of U, of norm sqrt(nu) at most, that differ by no more than this share of it differ by rounding: pixels that are
# always black, say.
ROW_ROUNDING = 1e-12

# Of a Gaussian of variance 1: the density bound M_0 of Thm. 4.6.
PEAK_DENSITY = 1 / math.sqrt(2 * math.pi)

# A marginal of dimension k of a product of densities at most M has a density of at most (C_1 M)^k (Eq. 120), and
# C_1 = sqrt(2) is the best constant (Livshyts, Paouris and Pivovarov, 2016). Then C_2 = 2 and c = 1 / 4.
C_1 = math.sqrt(2)


def gap_table(
    F: Float[Tensor, "m d"] | None, U: Float[Tensor, "d k"], m: int, scheme: Scheme, delta: float, independent: bool
) -> pd.DataFrame:
    """gamma_out and gamma_in of a layer of m neurons, and the bounds that hold with probability 1 - delta over F.

    The theorems are for independent entries. Those of ``w_asymmetric`` have an exact count in every row, and the bounds
    are made for it: see ``mask_failure`` and ``neurons_needed``. Thm. 4.6 wants F independent of the subspace, which
    holds for the data, not for a deeper layer's inputs; Thm. 4.8 is about F alone and holds for every subspace at once.

    Arguments are those of ``gram_deviation_table``, with the fixed weights F (None stands for 0) in the place of masks.

    Returns:
        Two rows, ``gap`` out and in: gamma with its lower and upper bound (NaN for out; both NaN where F has another
        law), and ``assumption``, empty where those of the theorem hold.
    """
    d, k = U.shape
    nu = coherence(U)
    shape = {"m": m, "d_in": d, "k_subspace": k, "nu": nu}
    F = None if F is None or not bool(F.any()) else F.double()
    gamma_out, gamma_in = (0.0, 0.0) if F is None else (centre_gap(F @ U.double()), input_gap(F, U))
    law = None if F is None else _law(scheme, d)
    if law is None:
        gaps = pd.DataFrame({"gap": ["out", "in"], **shape, "gamma": [gamma_out, gamma_in]})
        why = "F = 0" if F is None else "rows of F are not independent masked Gaussians"
        return gaps.assign(lower=math.nan, upper=math.nan, assumption=why)
    (sigma_F, n_fixed), p = law, law[1] / d
    allowed, failure = delta / (2 * m**2), mask_failure(d, n_fixed, nu, k)
    violated = [] if failure <= allowed else [f"event (107) may fail with probability {failure:.2g} > {allowed:.2g}"]
    if not independent:
        violated.append("U depends on F")
    needed = neurons_needed(d, n_fixed, delta)
    between_rows = row_gap(U)
    alike = between_rows <= ROW_ROUNDING * math.sqrt(nu)
    if alike:
        gamma_in = between_rows = 0.0
    violated_in = [] if m >= needed else [f"m = {m} < {needed} neurons"]
    if alike:
        violated_in.append("two inputs are alike on the subspace: gamma_in = 0")
    least = math.sqrt(p) * sigma_F * math.sqrt(m) * between_rows
    return pd.DataFrame(
        [
            {"gap": "out", **shape, "gamma": gamma_out, "lower": centre_gap_bound(m, k, sigma_F, p, delta)}
            | {"upper": math.nan, "assumption": "; ".join(violated)},
            {"gap": "in", **shape, "gamma": gamma_in, "lower": least, "upper": math.sqrt(3) * least}
            | {"assumption": "; ".join(violated_in)},
        ]
    )


def centre_gap_bound(m: int, k: int, sigma_F: float, p: float, delta: float) -> float:
    """Lower bound on gamma_out for masked Gaussian F, a fraction p of its entries not zero (Eqs. 129 and 133).

    sqrt(2) c sqrt(q) sigma_F / M_0 V_k^(-1/k) (delta / m^2)^(1/k) with q = 2p - p^2 and c = 1 / (2 sqrt(2) C_1).
    """
    q = 2 * p - p**2
    c = 1 / (2 * math.sqrt(2) * C_1)
    log_volume = k / 2 * math.log(math.pi) - math.lgamma(k / 2 + 1)
    shrink = math.exp((math.log(delta / m**2) - log_volume) / k)
    return math.sqrt(2) * c * math.sqrt(q) * sigma_F / PEAK_DENSITY * shrink


def mask_failure(d: int, n_fixed: int, nu: float, k: int) -> float:
    """Bound on the probability that event (107), |P - q I|_op <= q / 2, fails for one pair of neurons.

    P = U^T diag(xi) U for the s inputs that either neuron fixes, n_fixed of d each, drawn without replacement. Given s,
    which is 2 n_fixed minus a hypergeometric overlap, they are a uniform subset, so |P - (s / d) I|_op has the tail of
    ``bernstein_moments``; where it is at most q / 2 - |s / d - q|, the event holds.
    """
    if n_fixed == d:
        return 0.0
    q = 1 - (1 - n_fixed / d) ** 2
    overlaps = np.arange(max(0, 2 * n_fixed - d), n_fixed + 1)
    failure = 0.0
    for overlap, weight in zip(overlaps, hypergeom.pmf(overlaps, d, n_fixed, n_fixed), strict=True):
        share = (2 * n_fixed - overlap) / d
        slack = q / 2 - abs(share - q)
        proxies = SquaredMoments(share, min(share, 1 - share), 1.0)
        failure += weight * (min(1.0, bernstein_tail(proxies, nu, k, slack)) if slack > 0 else 1.0)
    return float(failure)


def neurons_needed(d: int, n_fixed: int, delta: float) -> int:
    """Neurons m with which |F_:b - F_:a|^2 is in [1, 3] m p sigma_F^2 for all inputs a, b with probability 1 - delta.

    This is what "m >~ C^4 log(d^2 / delta)" in Thm. 4.8 stands for (Eq. 169). Rows of F are independent, each with
    N(0, sigma_F^2) in n_fixed = p d of its d places. So Z = F_ib - F_ia has the variance 0, sigma_F^2 or 2 sigma_F^2,
    as neither, one or both places are fixed; the Chernoff bounds of both tails of sum_i Z_i^2 come from the exact
    moment generating function of that mixture, and a union bound over the d (d - 1) / 2 pairs gives m.
    """
    one = 2 * n_fixed * (d - n_fixed) / (d * (d - 1))
    both = n_fixed * (n_fixed - 1) / (d * (d - 1))
    p = n_fixed / d

    def exponent(s: float, target: float) -> float:
        """log E exp(s (Z^2 / sigma_F^2 - target)), s < 1/4 (1/2 where both places are never fixed)."""
        mgf = 1 - one - both + one / math.sqrt(1 - 2 * s) + (both / math.sqrt(1 - 4 * s) if both > 0 else 0.0)
        return math.log(mgf) - s * target

    pole = 0.25 if both > 0 else 0.5
    above = minimize_scalar(exponent, args=(3 * p,), bounds=(0, pole * (1 - 1e-9)), method="bounded")
    # Over log(-s): the best s of the lower tail grows without bound as p falls.
    below = minimize_scalar(lambda x: exponent(-math.exp(x), p), bounds=(-10, 40), method="bounded")
    # Any s gives a valid bound, so the optimiser's accuracy only costs a neuron.
    return math.ceil(math.log(d * (d - 1) / delta) / -max(above.fun, below.fun))


def _law(scheme: Scheme, d: int) -> tuple[float, int] | None:
    """sigma_F and the number of fixed entries a row of a layer's Gaussian F; None where it has another law."""
    if isinstance(scheme, Syre):
        return scheme.sigma_F, d
    # Masks that heads share make rows alike.
    if isinstance(scheme, WAsymmetric) and scheme.moments_known:
        return scheme.sigma_F, count_fixed(scheme, d)
    return None
