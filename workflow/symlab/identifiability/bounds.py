"""The spectral bound on the Gram matrices S_i and the moments of d^2 that it needs (main paper, Thm. 4.4)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from symlab.errors import UserError


class SquaredMoments(NamedTuple):
    """Of an entry d_il^2: mean mu_D, variance sigma_D^2, and b_D, its largest possible deviation from the mean."""

    mu_D: float
    sigma_D2: float
    b_D: float


def gram_deviation_bound(moments: SquaredMoments, nu: float, k: int, delta: float) -> float:
    """Bound on |S_i - mu_D I|_op that holds for one neuron with probability 1 - delta (Thm. 4.4).

    sqrt(2 sigma_D^2 nu L) + (2/3) b_D nu L with L = log(2k/delta): Eq. (12) with the constants of its proof (Eq. 64).
    For all m neurons at once, pass delta / m.

    Raises:
        UserError: ``delta`` is not in (0, 1).
    """
    if not 0 < delta < 1:
        raise UserError(f"delta is {delta}; it is a failure probability, give it in (0, 1).")
    L = math.log(2 * k / delta)
    return math.sqrt(2 * moments.sigma_D2 * nu * L) + 2 / 3 * moments.b_D * nu * L


def squared_moments(scheme: dict[str, Any], fan_in: int) -> SquaredMoments:
    """Moments of d^2 of one layer under the config block ``scheme`` (Table 1), whose counts are this layer's own.

    ``w_asymmetric`` has a fixed number of zeros in every row, so its entries are not independent as Thm. 4.4 assumes:
    its moments are those of the Bernoulli mask with the same mean, and the bound is a reference, not a guarantee.

    Raises:
        UserError: an unknown scheme.
    """
    name = scheme["name"]
    if name in ("standard", "residual"):
        return SquaredMoments(1.0, 0.0, 0.0)
    if name == "sparse":
        return _bernoulli(scheme["density"])
    if name == "w_asymmetric":
        n_fixed = scheme["n_fixed"] if "n_fixed" in scheme else round(scheme["fixed_fraction"] * fan_in)
        return _bernoulli(1 - n_fixed / fan_in)
    if name == "syre":
        return _inverse_uniform(scheme["epsilon"])
    raise UserError(f"scheme.name is {name!r}; known schemes are residual, sparse, standard, syre, w_asymmetric.")


def _bernoulli(p: float) -> SquaredMoments:
    return SquaredMoments(p, p * (1 - p), max(p, 1 - p))


def _inverse_uniform(epsilon: float) -> SquaredMoments:
    """Moments of 1/u with u ~ Unif(1 - eps, 1 + eps): E[1/u] = artanh(eps) / eps and E[1/u^2] = 1 / (1 - eps^2)."""
    if not 0 < epsilon < 1:
        raise UserError(
            f"scheme.epsilon is {epsilon}; the interval (1 - epsilon, 1 + epsilon) must be positive, give it in (0, 1)."
        )
    mu = math.atanh(epsilon) / epsilon
    return SquaredMoments(mu, 1 / (1 - epsilon**2) - mu**2, 1 / (1 - epsilon) - mu)
