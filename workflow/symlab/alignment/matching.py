"""Activation matching: the renumbering of B's neurons under which they correlate best with A's.

Convention, here and wherever a permutation occurs: pi[i] is the index of the neuron of B that is placed at position i.
The permuted network has neuron pi[i] of B where A has neuron i; its weights are W_B[pi], its next layer W_B[:, pi].
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment

from symlab.errors import UserError


def match(S: Float[np.ndarray, "d d"]) -> Int[np.ndarray, " d"]:
    """The permutation pi that maximises sum_i S[i, pi(i)], by exact linear assignment (Section 5.1).

    Raises:
        UserError: S is not square or not finite.
    """
    if S.ndim != 2 or S.shape[0] != S.shape[1]:
        raise UserError(f"neurons are matched one to one, which needs a square matrix, not one of shape {S.shape}.")
    if not np.isfinite(S).all():
        raise UserError("the correlation matrix has entries that are not finite, so its neurons cannot be matched.")
    _, pi = linear_sum_assignment(S, maximize=True)
    return pi


def objective(S: Float[np.ndarray, "d d"], pi: Int[np.ndarray, " d"]) -> float:
    """<P, S>_F / d: the mean correlation of the neurons that pi puts together."""
    return float(S[np.arange(len(S)), pi].mean())


def objectives(S: Float[np.ndarray, "d d"], n_random: int, rng: np.random.Generator) -> dict[str, float]:
    """The objective of the optimal permutation, of the identity, and its mean over random permutations (Fig. 3)."""
    d = len(S)
    random = [objective(S, rng.permutation(d)) for _ in range(n_random)]
    return {
        "optimal": objective(S, match(S)),
        "identity": objective(S, np.arange(d)),
        "random": float(np.mean(random)),
    }
