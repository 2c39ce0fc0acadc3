"""Swap costs of one layer, Mahalanobis and ridge, against the formulas as research code writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as functional
from torch import Tensor

from symlab.identifiability.realization import realization_costs, swap_costs
from symlab.papers.neuron_identifiability.neuron_functions import NeuronFunctions
from symlab.papers.neuron_identifiability.ridge import ridge_costs

if TYPE_CHECKING:
    from run import Ways

BETA = 0.01


def swap_costs_512() -> Ways:
    """All pairs of 512 neurons, 784 inputs, k = 120."""
    W_eff, F, D = _masked(512, 784, 64)
    U = torch.linalg.qr(torch.randn(784, 120, dtype=torch.float64)).Q.float()
    return {
        "symlab": lambda: swap_costs(realization_costs(W_eff, F, D, U)),
        "formulas": lambda: _formulas(W_eff, F, D, U),
    }


def swap_costs_1024() -> Ways:
    """A layer whose matrices S of all neurons would take 330 MB in float64: for ``--memory``."""
    W_eff, F, D = _masked(1024, 1024, 128)
    U = torch.linalg.qr(torch.randn(1024, 200, dtype=torch.float64)).Q.float()
    return {"symlab": lambda: swap_costs(realization_costs(W_eff, F, D, U))}


def ridge_costs_of_one_realizer() -> Ways:
    """64 targets, 128 inputs, 6,000 samples; AdamW takes 15,000 iterations, of which 100 are timed."""
    n, m, d = 6000, 64, 128
    X = torch.randn(n, d) * torch.arange(1, d + 1).float().rsqrt()
    W_eff, F, D = (part.double() for part in _masked(m, d, 16))
    zeros = torch.zeros(m, dtype=torch.float64)
    layer = NeuronFunctions(W_eff, F, D, 1 / (X.double() @ W_eff.T).std(dim=0), zeros, zeros, "gelu")
    i, j = torch.zeros(m, dtype=torch.int64), torch.arange(m)

    def with_adamw() -> None:
        f, d_i, w = (part[:1].float() for part in (F, D, layer.own_weights))
        scale, targets = layer.alpha.float(), functional.gelu(X @ (layer.alpha[:, None] * W_eff).float().T)
        w = w.repeat(m, 1).requires_grad_()
        optimizer = torch.optim.AdamW([w], lr=0.005, weight_decay=0, fused=True)
        for _ in range(100):
            errors = targets - functional.gelu(X @ (scale[0] * (f + d_i * w)).T)
            (errors.square().mean(dim=0) / BETA + w.square().sum(dim=1)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    return {"L-BFGS": lambda: ridge_costs(layer, X, i, j, BETA), "100 of 15,000 iterations of AdamW": with_adamw}


def _masked(m: int, d: int, n_fixed: int) -> tuple[Tensor, Tensor, Tensor]:
    """W_eff, F, D [m, d] of a W-asymmetric layer with sigma_F = 1."""
    fixed = torch.zeros(m, d).scatter_(1, torch.rand(m, d).argsort(dim=1)[:, :n_fixed], 1.0)
    F, D = fixed * torch.randn(m, d), 1 - fixed
    return F + D * torch.randn(m, d) / d**0.5, F, D


def _formulas(W_eff: Tensor, F: Tensor, D: Tensor, U: Tensor) -> Tensor:
    a, v = W_eff @ U, F @ U
    S_pinv = torch.linalg.pinv(torch.einsum("dk,id,dl->ikl", U, D**2, U))
    difference = a[None, :] - v[:, None]
    c2 = torch.einsum("ijk,ikl,ijl->ij", difference, S_pinv, difference)
    return c2 + c2.T - c2.diagonal()[:, None] - c2.diagonal()[None, :]
