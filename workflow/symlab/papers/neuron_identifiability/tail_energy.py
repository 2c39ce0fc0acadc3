"""Tail energy of a layer's inputs, and what it bounds (main paper, Prop. E.2 and Cor. E.6), for neurons without eta.

A subspace holds most of the second moment Sigma = E[x x^T] of a layer's inputs; the tail energy tau is what it leaves.
The proofs need U to be orthonormal alone, not of Sigma's own eigenvectors: it may be that of the centred inputs.
"""

from collections.abc import Sequence

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from symlab.identifiability.gram import orthonormal
from symlab.identifiability.realization import RESIDUAL_TOLERANCE
from symlab.identifiability.subspace import Covariance
from symlab.papers.neuron_identifiability.neuron_functions import NeuronFunctions
from symlab.papers.neuron_identifiability.ridge_problems import surrogate


def second_moment(inputs: Covariance) -> Float[Tensor, "d d"]:
    """E[x x^T] over the samples seen, float64."""
    mean = inputs.mean
    return inputs.covariance() * ((inputs.n - 1) / inputs.n) + torch.outer(mean, mean)


def tail_energy(Sigma: Float[Tensor, "d d"], U: Float[Tensor, "d k"]) -> float:
    """tau = tr((I - U U^T) Sigma), the mean square of what the inputs have outside of the subspace (Lemma E.1)."""
    basis = orthonormal(U)
    return float(Sigma.trace() - ((Sigma @ basis) * basis).sum())


def realize(
    W_eff: Float[Tensor, "m d"], F: Float[Tensor, "m d"], D: Float[Tensor, "m d"], U: Float[Tensor, "d k"]
) -> tuple[Float[Tensor, "m m"], Float[Tensor, "m m d"]]:
    """What a neuron i does that realizes neuron j on the span of U with the smallest weights; NaN where it cannot.

    Returns:
        |w|^2, the realization cost, and f_i + d_i * w, what it does on all inputs; float64.
    """
    basis = orthonormal(U)
    A, V = W_eff @ basis, F @ basis
    scaled = D[:, :, None] * basis
    w = torch.empty(len(A), len(A), D.shape[1], dtype=torch.float64)
    for i, M in enumerate(scaled):
        w[i] = (A - V[i]) @ torch.linalg.pinv(M)
    u = F[:, None] + D[:, None] * w
    missed = (u @ basis - A).norm(dim=2) > RESIDUAL_TOLERANCE * (W_eff.norm(dim=1) + F.norm(dim=1)[:, None])
    u[missed] = torch.nan
    return w.square().sum(dim=2).where(~missed, torch.nan), u


def relaxed_costs(
    W_eff: Float[Tensor, "m d"],
    F: Float[Tensor, "m d"],
    D: Float[Tensor, "m d"],
    Sigma: Float[Tensor, "d d"],
    beta: float,
) -> Float[Tensor, "m m"]:
    """Min over w of |u_j - f_i - d_i * w|_Sigma^2 / beta + |w|^2: Thm. E.4, exact for neurons that are linear."""
    m = len(W_eff)
    zeros = torch.zeros(m, dtype=torch.float64)
    layer = NeuronFunctions(W_eff, F, D, zeros + 1, zeros, zeros, "identity")
    i, j = torch.arange(m).repeat_interleave(m), torch.arange(m).repeat(m)
    # Without biases the last moments, of the constant, count nothing.
    return surrogate(layer, torch.nn.functional.pad(Sigma, (0, 1, 0, 1)), i, j, beta)[1].reshape(m, m)


def tail_energy_table(
    W_eff: Float[Tensor, "m d"],
    F: Float[Tensor, "m d"] | None,
    D: Float[Tensor, "m d"] | None,
    U: Float[Tensor, "d k"],
    Sigma: Float[Tensor, "d d"],
    betas: Sequence[float],
    neurons: int,
) -> pd.DataFrame:
    """A row a beta: the tail energy, and of all pairs of the first neurons the largest shares of both bounds.

    Columns k_subspace; ``tail``, tau; beta; ``error_share``: the largest
    mean square by which two functions that agree on the subspace differ, over 2 (|u_1|^2 + |u_2|^2) tau (Prop. E.2);
    ``cost_share``: the largest relaxed cost over its bound by the hard one (Cor. E.6); ``hard`` and ``relaxed``:
    medians of both costs of other neurons' functions; ``assumption``: empty where a neuron can realize another.
    """
    W_eff = W_eff[:neurons].double()
    F = torch.zeros_like(W_eff) if F is None else F[:neurons].double()
    D = torch.ones_like(W_eff) if D is None else D[:neurons].double()
    tau = tail_energy(Sigma, U)
    hard, u = realize(W_eff, F, D, U)
    apart = W_eff - u
    room = 2 * (W_eff.square().sum(dim=1) + u.square().sum(dim=2)) * tau
    possible = hard.isfinite()
    others = possible & ~torch.eye(len(W_eff), dtype=torch.bool)
    rows = []
    for beta in betas:
        relaxed = relaxed_costs(W_eff, F, D, Sigma, beta)
        rows.append(
            {"k_subspace": U.shape[1], "tail": tau, "beta": beta}
            | {"error_share": _largest((((apart @ Sigma) * apart).sum(dim=2) / room)[possible])}
            | {"cost_share": _largest((relaxed / (hard + room / beta))[possible])}
            | {"hard": float(hard[others].nanmedian()), "relaxed": float(relaxed[others].nanmedian())}
            | {"assumption": "" if others.any() else "no neuron can realize another on the subspace"}
        )
    return pd.DataFrame(rows)


def _largest(shares: Tensor) -> float:
    return float(shares.max()) if len(shares) else float("nan")
