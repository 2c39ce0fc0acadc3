"""Inputs on a regular polygon with alternating gradients (Example 1), and the certified speed limit of depth three."""

import math
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import linprog
from torch import Tensor

DIRECTIONS = 720
"""Directions of the certificate's grid: with them all kinks of 4, 6, 8, 10 and 12 points lie on it."""


def polygon(N: int) -> tuple[Float[Tensor, "2 n"], Float[Tensor, "1 n"]]:
    """X with x_j = (sin, cos)(2 pi j / N) and G with G_j = (-1)^j, j = 1 .. N, in float64.

    Coordinates that are zero but for rounding are zero, so that the pre-activations that should vanish do.
    """
    angle = 2 * math.pi * torch.arange(1, N + 1, dtype=torch.float64) / N
    X = torch.stack([angle.sin(), angle.cos()])
    X[X.abs() < 1e-12] = 0
    G = torch.ones(1, N, dtype=torch.float64)
    G[0, ::2] = -1
    return X, G


def rank_one_speed(N: int, phi: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
    """Speed of one neuron a layer whose input weights point at the angle phi, for the better sign of the output."""
    X, G = polygon(N)
    w = torch.stack([phi.cos(), phi.sin()], -1)
    return ((w @ X).clamp_min(0) @ G[0]).abs()


def best_rank_one_speed(N: int) -> float:
    """The largest ``rank_one_speed``, N even and above 2: w sees N/2 neighbouring points, or at a kink one less.

    If 4 divides N, those with their signs add up to a vector of length 1 / cos(pi / N) at right angles to their middle,
    and w comes within pi/2 - pi/N of it, at a kink. Otherwise they add up to 0.
    """
    return math.tan(math.pi / N) if N % 4 == 0 else 0.0


def example_one() -> list[Float[Tensor, "out in"]]:
    """Layers of four, one and one neurons with speed 1/2 on the octagon: Equation 2, with the sign that escapes."""
    cross = torch.tensor([[1.0, 0], [0, 1], [-1, 0], [0, -1]], dtype=torch.float64)
    row = torch.tensor([[1.0, -1, 1, -1]], dtype=torch.float64)
    return [cross / 2, row / 2, torch.tensor([[-1.0]], dtype=torch.float64)]


def certify_speed(N: int, directions: int = DIRECTIONS) -> float:
    """An upper bound on the speed of every network of depth three and any width, by linear programs.

    A neuron of the second layer computes p(x) = sum_i a_i relu(v_i x), |v_i| = 1, sum |a_i| <= 1, and s is at most the
    largest sum_j -G_j relu(p(x_j)). For each set S of the points with -G_j = 1 that may be active, that is a linear
    program in a (over a grid of directions that holds all kinks, which costs a factor of cos(pi / directions)) and
    t_j >= relu(p(x_j)) at the others. Sets that a symmetry of the polygon takes into each other count once.

    Raises:
        ValueError: the grid does not hold the kinks.
    """
    if directions % N or directions % 4:
        raise ValueError(f"{directions} directions do not hold the kinks of {N} points")
    X, G = (array.numpy() for array in polygon(N))
    good, bad = X[:, G[0] < 0], X[:, G[0] > 0]
    angle = 2 * np.pi * np.arange(directions) / directions
    v = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    atoms = np.concatenate([np.maximum(v @ points, 0).T for points in (good, bad)])
    p = np.concatenate([atoms, -atoms], axis=1)
    slack = np.zeros((N // 2, N // 2))
    budget = np.concatenate([np.ones(2 * directions), np.zeros(N // 2)])[None]
    limits = np.concatenate([np.concatenate([p[N // 2 :], slack - np.eye(N // 2)], axis=1), budget])
    right = np.concatenate([np.zeros(N // 2), [1.0]])
    best = 0.0
    for chosen in _up_to_symmetry(N // 2):
        gain = np.concatenate([p[list(chosen)].sum(axis=0), -np.ones(N // 2)])
        best = max(best, -linprog(-gain, A_ub=limits, b_ub=right, method="highs").fun)
    return best / math.cos(math.pi / directions)


def _up_to_symmetry(n: int) -> list[tuple[int, ...]]:
    """Sets of the corners of an n-gon, not empty, one of those that turning and mirroring takes into each other."""
    found: dict[tuple[int, ...], None] = {}
    for size in range(1, n + 1):
        for chosen in combinations(range(n), size):
            images = (
                tuple(sorted((sign * each + turn) % n for each in chosen)) for turn in range(n) for sign in (1, -1)
            )
            found.setdefault(min(images))
    return list(found)
