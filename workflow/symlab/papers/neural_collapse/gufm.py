"""The generalised unconstrained features model, whose optimum collapses: closed forms, and what a loss certifies."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq, minimize_scalar


def fit_of_frame(s: float, D: float, K: int) -> float:
    """Cross-entropy of K class means on a simplex of squared norm D each, with rows of W along them of norm s."""
    return math.log1p((K - 1) * math.exp(-s * math.sqrt(D) * K / (K - 1)))


def least_loss(D: float, K: int, penalty: float) -> float:
    """G(D): least cross-entropy plus penalty / 2 |W|^2 where tr Sigma_B is D, K balanced classes.

    By Jensen within the classes and the unconstrained features model; decreasing in D. At D = d it is the optimum.
    """
    return _optimum(D, K, penalty)[0]


def row_norm(d: int, K: int, penalty: float) -> float:
    """Norm of each row of W at the optimum under cross-entropy."""
    return _optimum(d, K, penalty)[1]


def _optimum(D: float, K: int, penalty: float) -> tuple[float, float]:
    """The least loss where tr Sigma_B is D, and the norm of each row of W there."""
    found = minimize_scalar(
        lambda s: fit_of_frame(s, D, K) + penalty * K * s * s / 2,
        bounds=(0, 100),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return float(found.fun), float(found.x)


def squared_error_optimum(d: int, K: int, penalty: float, bias: bool = False) -> tuple[float, float]:
    """Optimal value and norm of W's rows under (1 / 2N) |W X - Y|^2, without or with a free bias (orthogonal rows, or
    a simplex)."""
    if bias:
        value = (K - 1) * penalty / (2 * (d * K / (K - 1) + penalty * K))
        return value, math.sqrt(d) * (K - 1) / (K * (d + penalty * (K - 1)))
    return K * penalty / (2 * (d + penalty * K)), math.sqrt(d) / (d + penalty * K)


def certified_collapse(loss: float, d: int, K: int, penalty: float) -> float:
    """The largest NC1 that a balanced network of this cross-entropy plus penalty / 2 |W_L|^2 can have: d / G^-1 - 1.

    ``penalty`` is the last layer's. Infinite where the loss is that of features without any class.
    """
    if loss >= least_loss(0, K, penalty):
        return math.inf
    if loss <= least_loss(d, K, penalty):
        return 0.0
    D = brentq(lambda D: least_loss(D, K, penalty) - loss, 0, d, xtol=1e-12)
    return d / D - 1


def certified_scatter(loss: float, d: int, K: int, penalty: float) -> float:
    """The largest tr Sigma_W that a balanced network of this squared error plus penalty / 2 |W_L|^2 can have.

    Ridge regression on features of norm sqrt(d) leaves K penalty / (2 (d - tr Sigma_W + penalty K)) at least, without
    an output bias. Infinite where the loss is that of features without any class, 1/2.
    """
    most = d + penalty * K - K * penalty / (2 * loss)
    return most if most < d else math.inf


def certify_all(
    losses: Float[np.ndarray, " n"], d: int, K: int, penalties: Float[np.ndarray, " n"], squared: bool = False
) -> Float[np.ndarray, " n"]:
    """``certified_collapse`` of each loss, or ``certified_scatter`` of each squared error."""
    certify = certified_scatter if squared else certified_collapse
    return np.array([certify(loss, d, K, penalty) for loss, penalty in zip(losses, penalties, strict=True)])
