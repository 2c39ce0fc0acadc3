"""Features that are free, and the last layer, under squared error: their optimum, and what a loss certifies."""

from __future__ import annotations

import math


def squared_error_optimum(d: int, K: int, penalty: float, bias: bool = False) -> tuple[float, float]:
    """Optimal value and norm of W's rows under (1 / 2N) |W X - Y|^2, without or with a free bias (orthogonal rows, or
    a simplex)."""
    if bias:
        value = (K - 1) * penalty / (2 * (d * K / (K - 1) + penalty * K))
        return value, math.sqrt(d) * (K - 1) / (K * (d + penalty * (K - 1)))
    return K * penalty / (2 * (d + penalty * K)), math.sqrt(d) / (d + penalty * K)


def certified_scatter(loss: float, d: int, K: int, penalty: float) -> float:
    """The largest tr Sigma_W that a balanced network of this squared error plus penalty / 2 |W_L|^2 can have.

    Ridge regression on features of norm sqrt(d) leaves K penalty / (2 (d - tr Sigma_W + penalty K)) at least, without
    an output bias. Infinite where the loss is that of features without any class, 1/2.
    """
    most = d + penalty * K - K * penalty / (2 * loss)
    return most if most < d else math.inf
