"""The generalised unconstrained features model, whose optimum collapses: closed forms, and what a loss certifies."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar

Array = np.ndarray[Any, np.dtype[np.float64]]
GRID, ANGLES, HALVINGS = 16, 24, 36
"""Of the search of ``certified_frame``, which is right to about one percent."""


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


@lru_cache(4096)
def certified_frame(loss: float, d: float, K: int, penalty: float) -> float:
    """The largest NC2A of W that a balanced network of this cross-entropy plus penalty / 2 |W|^2 can have.

    U is W less its mean row w, r the root mean square of its rows' norms, M the class means less their mean, m the mean
    margin, and M = t U + R with R orthogonal to U. Centred on both sides, logits of the class means are M U^T, so that

        |U U^T - c E| <= (V^(1/2) + |R| |U|) / t,  |R|^2 <= K d (1 - C^2),
        t = C d^(1/2) / r,  C = m (K - 1) / (K r d^(1/2)),

    where V is the sum of squares of the margins' deviations from m and |U|, of the operator, has a square of at most
    c + |U U^T - c E|. A loss that is above that of equal margins m by s leaves deviations of ``_widest`` squares at
    most, or a mean row of |w|^2 <= 2 s / (penalty K). The largest over r and m is searched for on a grid, which is
    refined once.
    """
    grid = np.linspace(1e-4, 1 - 1e-9, 4000) * math.sqrt(2 * loss / (penalty * K))
    with np.errstate(over="ignore", divide="ignore"):
        least = np.log((K - 1) / np.expm1(loss - penalty * K * grid**2 / 2))
    possible = grid[least <= math.sqrt(d) * grid * K / (K - 1)]
    if not len(possible):  # All but the optimum's own.
        possible = np.array([best_frame(d, K, penalty)[1]])
    ends, worst = [(float(possible[0]), float(possible[-1])), (0.0, 1.0)], 0.0
    for _ in range(2):
        r, part = np.meshgrid(*(np.linspace(low, high, GRID) for low, high in ends), indexing="ij")
        fit = loss - penalty * K * r**2 / 2
        least, most = np.log((K - 1) / np.expm1(fit)), math.sqrt(d) * r * K / (K - 1)
        m = least + part * np.maximum(most - least, 0)
        # What is less is rounding.
        spare = np.maximum(fit - np.log1p((K - 1) * np.exp(-m)), 1e-10)
        distances = _distance_of_frame(r, m, spare, d, K, penalty)
        at = np.unravel_index(distances.argmax(), distances.shape)
        worst = max(worst, float(distances[at]))
        step = [2 * (high - low) / GRID for low, high in ends]
        ends = [
            (max(low, float(value[at]) - width), min(high, float(value[at]) + width))
            for value, width, (low, high) in zip((r, part), step, ends, strict=True)
        ]
    return worst


def _distance_of_frame(r: Array, m: Array, spare: Array, d: float, K: int, penalty: float) -> Array:
    """The largest NC2A at a norm r of rows and a mean margin m, with so much loss to spare."""
    C = np.clip(m * (K - 1) / (K * r * math.sqrt(d)), 1e-9, 1)
    t, rest, c = C * math.sqrt(d) / r, np.sqrt(K * d * (1 - C**2)), K * r**2 / (K - 1)
    # Two centred rows are always opposite.
    V = _widest(K * spare, m, K - 1) if K > 2 else 0 * m
    root = (rest + np.sqrt(rest**2 + 4 * t * (t * c + np.sqrt(V)))) / (2 * t) if K > 2 else np.sqrt(c)
    w = 2 * spare / (penalty * K)
    squares = (root**2 - c) ** 2 + 2 * K * root**2 * w + K**2 * w**2
    return np.sqrt(squares / (c**2 * (K - 1) + squares))


def _widest(H: Array, m: Array, n: int) -> Array:
    """The largest sum of squares of deviations of all margins from their mean m for a sum of divergences H.

    A class whose n margins have the mean m + u, one of them larger by x and the others less by x / (n - 1), which is
    the cheapest way to a variance, adds log(1 + S) - log(1 + S0) + p u, S its sum of exp(-margin), S0 and p those of
    equal margins. Of a class with divergence h the squares are at most h times the largest ratio up to H.
    """
    angle = np.linspace(-np.pi, np.pi, ANGLES, endpoint=False)
    x, u = np.cos(angle) * math.sqrt((n - 1) / n), np.sin(angle) / math.sqrt(n)
    m, H = m[..., None], H[..., None]
    S0 = n * np.exp(-m)

    def divergence(t: Array) -> Array:
        with np.errstate(over="ignore"):
            S = np.exp(-m - t * (u + x)) + (n - 1) * np.exp(-m - t * (u - x / (n - 1)))
        return np.log1p(S) - np.log1p(S0) + S0 / (1 + S0) * t * u

    low, high = np.zeros(np.broadcast_shapes(H.shape, angle.shape)), np.full(angle.shape, 1e4)
    for _ in range(HALVINGS):
        middle = np.sqrt((low + 1e-9) * high)
        within = divergence(middle) <= H
        low, high = np.where(within, middle, low), np.where(within, high, middle)
    ratios = [(share * high) ** 2 / np.maximum(divergence(share * high), 1e-300) for share in (1, 0.3, 0.05)]
    return H[..., 0] * np.max(ratios, axis=(0, -1))
