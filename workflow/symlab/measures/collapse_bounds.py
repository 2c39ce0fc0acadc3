"""The generalised unconstrained features model, whose optimum collapses: closed forms, and what a loss certifies."""

from __future__ import annotations

import math

from scipy.optimize import brentq, minimize_scalar


def fit_of_frame(s: float, D: float, K: int) -> float:
    """Cross-entropy of K class means on a simplex of squared norm D each, with rows of W along them of norm s."""
    return math.log1p((K - 1) * math.exp(-s * math.sqrt(D) * K / (K - 1)))


def least_loss(D: float, K: int, penalty: float) -> float:
    """G(D): least cross-entropy plus penalty / 2 |W|^2 where tr Sigma_B is D, K balanced classes.

    By Jensen within the classes and the unconstrained features model; decreasing in D. At D = d it is the optimum.
    """
    return best_frame(D, K, penalty)[0]


def best_frame(D: float, K: int, penalty: float) -> tuple[float, float]:
    """The least loss where tr Sigma_B is D, and the norm of each row of W there."""
    found = minimize_scalar(
        lambda s: fit_of_frame(s, D, K) + penalty * K * s * s / 2,
        bounds=(0, 100),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return float(found.fun), float(found.x)


def certified_collapse(loss: float, d: float, K: int, penalty: float) -> float:
    """The largest NC1 that a balanced network of this cross-entropy plus penalty / 2 |W_L|^2 can have: d / G^-1 - 1.

    ``penalty`` is the last layer's. Infinite where the loss is that of features without any class.
    """
    if loss >= least_loss(0, K, penalty):
        return math.inf
    if loss <= least_loss(d, K, penalty):
        return 0.0
    D = brentq(lambda D: least_loss(D, K, penalty) - loss, 0, d, xtol=1e-12)
    return d / D - 1


def certified_cosine(loss: float, d: float, K: int, penalty: float) -> float:
    """The least C that a balanced network of this cross-entropy plus penalty / 2 |W|^2 can have.

    C = mean of w_y . h / (sqrt(d) r), with W less its mean row and r the root mean square of its rows' norms. Jensen's
    inequality over samples and wrong classes gives fit >= log(1 + (K - 1) exp(-m)) with the mean margin m = C r sqrt(d)
    K / (K - 1); C is least over r. A free bias drops out of the mean margin.
    """

    def cosine(r: float) -> float:
        fit = loss - penalty * K * r * r / 2
        if fit <= 0:
            return math.inf
        margin = math.log((K - 1) / math.expm1(fit))
        return margin * (K - 1) / K / (r * math.sqrt(d))

    if loss >= least_loss(0, K, penalty):
        return -1.0
    # C falls and rises again in r, between 0 and where the penalty alone is the loss.
    most = math.sqrt(2 * loss / (penalty * K))
    ends = (1e-3 * most, (1 - 1e-12) * most)
    found = minimize_scalar(cosine, bounds=ends, method="bounded", options={"xatol": 1e-10})
    return max(min(float(found.fun), 1.0), -1.0)


def certified_alignment(loss: float, d: float, K: int, penalty: float) -> float:
    """The largest NC3 that a balanced network of this loss can have, of W less its mean row.

    With class cosines c_k and rows' norms a_k: C r <= mean a_k c_k, so that by Cauchy C^2 <= mean of max(c_k, 0), and
    NC3 = 1 - mean c_k is at most 2 (1 - C^2); nothing, 2, where C is below 0.
    """
    C = certified_cosine(loss, d, K, penalty)
    return 2 * (1 - max(C, 0.0) ** 2)
