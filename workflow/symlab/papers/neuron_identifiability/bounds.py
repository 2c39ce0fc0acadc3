"""Thms. 4.4, 4.5 and 4.7 of the main paper with explicit constants, and the moments of d^2 that they need."""

import math
from typing import NamedTuple

from symlab.schemes import Residual, Scheme, Sparse, Standard, Syre, WAsymmetric
from symlab.schemes.fixed_counts import fixed_counts


class SquaredMoments(NamedTuple):
    """Of an entry d_il^2: mean mu_D, variance sigma_D^2, and b_D, its largest possible deviation from the mean."""

    mu_D: float
    sigma_D2: float
    b_D: float


def gram_deviation_bound(moments: SquaredMoments, nu: float, k: int, delta: float) -> float:
    """Bound on |S_i - mu_D I|_op that holds for one neuron with probability 1 - delta (Thm. 4.4).

    sqrt(2 sigma_D^2 nu L) + (2/3) b_D nu L with L = log(2k/delta): Eq. (12) with the constants of its proof (Eq. 64).
    For all m neurons at once, pass delta / m.
    """
    L = math.log(2 * k / delta)
    return math.sqrt(2 * moments.sigma_D2 * nu * L) + 2 / 3 * moments.b_D * nu * L


def bernstein_tail(moments: SquaredMoments, nu: float, k: int, t: float) -> float:
    """Bound on the probability that |S_i - mu_D I|_op >= t for one neuron (Eqs. 53, 57, 62); it may exceed 1."""
    return 2 * k * math.exp(-(t**2) / 2 / (moments.sigma_D2 * nu + moments.b_D * nu * t / 3))


def sensitivity_bound(rho: float, eps: float, mu_D: float) -> float:
    """Bound on |cost / leading - 1| of a permutation of neurons or inputs (Eqs. 87 and 147); NaN unless eps < mu_D.

    2 rho + eps / (mu_D - eps) (1 + 2 rho + 2 rho^2), where leading = |delta|_F^2 / mu_D. The proofs need eps < mu_D
    alone; rho <= 1 and eps <= mu_D / 2 only serve the O(rho + eps / mu_D) of the theorems.
    """
    if not eps < mu_D:
        return math.nan
    return 2 * rho + eps / (mu_D - eps) * (1 + 2 * rho + 2 * rho**2)


def layer_scheme(scheme: Scheme, fan_ins: dict[str, int], name: str) -> Scheme:
    """The scheme with the count ``n_fixed`` of the layer ``name``, out of counts for all layers.

    Args:
        scheme: the network's.
        fan_ins: inputs of every linear map of the network, by name in order (as ``fixed_counts`` takes them).
        name: one of them.
    """
    if not isinstance(scheme, WAsymmetric):
        return scheme
    return scheme.model_copy(update={"n_fixed": fixed_counts(scheme, fan_ins)[name], "fixed_fraction": None})


def count_fixed(scheme: WAsymmetric, fan_in: int) -> int:
    """Fixed entries in each row of one layer, whose count (or fraction) the scheme holds."""
    return fixed_counts(scheme, {"the layer": fan_in})["the layer"]


def squared_moments(scheme: Scheme, fan_in: int) -> SquaredMoments:
    """Moments of d^2 of one layer under a scheme (Table 1) whose counts are this layer's own.

    ``w_asymmetric`` has a fixed number of zeros in every row: each entry has the moments of the Bernoulli mask with the
    same mean, but they are not independent as Thm. 4.4 assumes; for its bound take ``bernstein_moments``.

    Raises:
        NotImplementedError: the moments of the scheme's D are not known; its config is refused.
    """
    match scheme:
        case Standard() | Residual():
            return SquaredMoments(1.0, 0.0, 0.0)
        case Sparse():
            return _bernoulli(scheme.density)
        case WAsymmetric() if scheme.moments_known:
            return _bernoulli(1 - count_fixed(scheme, fan_in) / fan_in)
        case Syre():
            return _inverse_uniform(scheme.epsilon)
    raise NotImplementedError(f"the moments of D under {scheme.name} are not written here")


def bernstein_moments(scheme: Scheme, fan_in: int) -> SquaredMoments:
    """The moments with which ``gram_deviation_bound`` holds under the scheme of one layer.

    They are ``squared_moments`` where entries are independent. A row of ``w_asymmetric`` leaves n of d inputs, drawn
    without replacement. S_i - mu_D I is the centred sum of their u_l u_l^T, or minus that of the d - n hidden ones.
    Bernstein's inequality holds for it with the constants of as many draws with replacement (Gross and Nesme, 2010:
    their trace moment generating functions dominate), which are min(n, d - n) |E X^2|_op <= min(mu_D, 1 - mu_D) nu and
    |X|_op <= nu for X = u_l u_l^T - I / d: those of Eq. (64) with sigma_D^2 = min(mu_D, 1 - mu_D) and b_D = 1. They
    are at most twice the true moments, so Thm. 4.4 holds for these masks too, with C twice as large.
    """
    moments = squared_moments(scheme, fan_in)
    if not isinstance(scheme, WAsymmetric) or moments.sigma_D2 == 0:
        return moments
    return SquaredMoments(moments.mu_D, min(moments.mu_D, 1 - moments.mu_D), 1.0)


def _bernoulli(p: float) -> SquaredMoments:
    return SquaredMoments(p, p * (1 - p), max(p, 1 - p) if 0 < p < 1 else 0.0)


def _inverse_uniform(epsilon: float) -> SquaredMoments:
    """Moments of 1/u with u ~ Unif(1 - eps, 1 + eps): E[1/u] = artanh(eps) / eps and E[1/u^2] = 1 / (1 - eps^2)."""
    if epsilon == 0:
        return SquaredMoments(1.0, 0.0, 0.0)
    mu = math.atanh(epsilon) / epsilon
    # A small epsilon leaves a difference of nearly equal numbers, whose rounding may be negative.
    return SquaredMoments(mu, max(0.0, 1 / (1 - epsilon**2) - mu**2), 1 / (1 - epsilon) - mu)
