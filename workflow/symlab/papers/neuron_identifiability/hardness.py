"""Theorem C.10 by example: how well random, fixed first weights can do what one neuron does.

The target is relu(w . x + b) of inputs x ~ N(0, I_d) with |w| = d^2. Its least distance from all sums of
alpha_i relu(f_i . x) is exact but for a quadrature: E relu(f . x) relu(g . x) is the arc-cosine kernel.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from symlab.measures.job import Job
from symlab.papers.neuron_identifiability.settings import Hardness
from symlab.seeds import numpy_rng

# The target's argument beyond this many standard deviations adds less than rounding.
FARTHEST = 12.0
NODES = 400


def draw_features(settings: Hardness, job: Job, d: int, m: int) -> dict[str, pd.DataFrame]:
    """A row a draw of F and a bias: ``error``, the least L2 error; ``norm``, that of alpha = 0.

    Biases are in units of |w|, the standard deviation of w . x.
    """
    rows = []
    for draw in range(settings.draws):
        F = numpy_rng(job.study, "hardness", d, m, draw).standard_normal((m, d))
        F /= np.linalg.norm(F, axis=1, keepdims=True)
        for bias, (norm, error) in zip(settings.biases, least_errors(F, settings.biases), strict=True):
            rows.append({"d": d, "m": m, "draw": draw, "bias": bias, "norm": d**2 * norm, "error": d**2 * error})
    return {"hardness.csv": pd.DataFrame(rows)}


def least_errors(F: Float[np.ndarray, "m d"], biases: Sequence[float]) -> list[tuple[float, float]]:
    """For each bias the L2 norm of relu(x_1 + bias), and its distance from the span of relu(f_i . x), f_i unit vectors.

    Raises:
        LinAlgError: two of the f_i are equal.
    """
    from scipy.linalg import cho_factor, cho_solve

    cosines = np.clip(F @ F.T, -1, 1)
    angles = np.arccos(cosines)
    np.fill_diagonal(angles, 0)
    factor = cho_factor((np.sin(angles) + (math.pi - angles) * cosines) / (2 * math.pi))
    errors = []
    for bias in biases:
        z, density, target = _quadrature(bias)
        square = float(density @ target**2)
        across = _mean_relu(F[:, :1] * z, np.sqrt(1 - F[:, :1] ** 2)) @ (density * target)
        left = square - float(across @ cho_solve(factor, across))
        errors.append((math.sqrt(square), math.sqrt(max(0.0, left))))
    return errors


def _quadrature(bias: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes of x_1 where relu(x_1 + bias) is not zero, their weights under N(0, 1), and its values there."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    low = max(-FARTHEST, -bias)
    z = low + (nodes + 1) / 2 * (FARTHEST - low)
    density = weights * (FARTHEST - low) / 2 * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    return z, density, z + bias


def _mean_relu(mean: Float[np.ndarray, "m n"], std: Float[np.ndarray, "m 1"]) -> Float[np.ndarray, "m n"]:
    """E relu(y) of y ~ N(mean, std^2), std above 0."""
    from scipy.special import ndtr

    scaled = mean / std
    return mean * ndtr(scaled) + std * np.exp(-(scaled**2) / 2) / math.sqrt(2 * math.pi)
