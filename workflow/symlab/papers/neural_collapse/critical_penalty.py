"""The penalty above which the branches of two-layer blocks die: what one neuron could gain, against what it costs.

Near a dead branch W_2 relu(W_1 x + b_1) a neuron a relu(v.x + beta) gains |a| |v| S at first order and costs
lambda / 2 (|a|^2 + |v|^2), so that it dies where lambda > S = sup over |v| = 1 and beta of |sum_i g_i relu(v.x_i +
beta)|. g_i is the fit's gradient at the residual stream of the network without branches; S hardly
depends on depth: each dead block adds its last bias and a LayerNorm.
"""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd
import torch
import torch.nn.functional as functional
from jaxtyping import Float, Int
from torch import Tensor

from symlab.data.samples import pooled_samples
from symlab.measures.job import Job
from symlab.papers.neural_collapse.settings import CriticalPenalty
from symlab.seeds import torch_generator


class WithoutBranches(NamedTuple):
    """A trained network of one block that is its last bias alone.

    Z: what the block's branch would read. g: the fit's gradient (1/N inside) at the stream that it would add to,
    centred. total: the loss. weights: those of an L-RN2 of depth 2, without the branch's.
    """

    Z: Float[Tensor, "n d"]
    g: Float[Tensor, "n d"]
    total: float
    weights: dict[str, Tensor]


def predict_critical_penalty(
    settings: CriticalPenalty, job: Job, dataset: str, last_penalty: float, seed: int
) -> dict[str, pd.DataFrame]:
    """S of a network without branches, trained at a penalty of the last layer.

    Returns:
        ``critical_penalty.csv``: a row: data set, penalty, seed, ``critical``, and the ``total`` loss that the
        network without branches ended at. A search from random starts gives S from below.
    """
    data = job.datasets[dataset]
    x, y = pooled_samples(data, settings.pool, per_class=settings.per_class)
    generator = torch_generator(job.study, "critical penalty", dataset, f"{last_penalty:g}", seed)
    dead = train_without_branches(x.double(), y, data.n_classes, settings, last_penalty, generator)
    critical = best_neuron(dead.Z, dead.g, settings.starts, generator)
    row = {"dataset": dataset, "last_penalty": last_penalty, "seed": seed, "critical": critical, "total": dead.total}
    return {"critical_penalty.csv": pd.DataFrame([row])}


def train_without_branches(
    x: Float[Tensor, "n i"],
    y: Int[Tensor, " n"],
    classes: int,
    settings: CriticalPenalty,
    penalty: float,
    generator: torch.Generator,
) -> WithoutBranches:
    """W LN(LN(W_0 x + b_0) + b_2) + b_L by full-batch Adam with a cosine: a block whose branch is its last bias alone.

    Where b_2 is at its optimum the gradients sum to 0; they are centred, so that ``best_neuron`` does not diverge with
    beta.
    """
    d = settings.width

    def drawn(*shape: int) -> Tensor:
        bound = shape[-1] ** -0.5
        return ((2 * torch.rand(*shape, generator=generator, dtype=x.dtype) - 1) * bound).requires_grad_()

    W_0, b_0, W, b_L = drawn(d, x.shape[1]), drawn(d), drawn(classes, d), drawn(classes)
    b_2 = torch.zeros(d, dtype=x.dtype, requires_grad=True)
    optimizer = torch.optim.Adam([W_0, b_0, b_2, W, b_L], lr=settings.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.steps)
    for _ in range(settings.steps):
        Z = functional.layer_norm(x @ W_0.T + b_0, (d,))
        fit = functional.cross_entropy(functional.layer_norm(Z + b_2, (d,)) @ W.T + b_L, y)
        optimizer.zero_grad()
        (fit + penalty / 2 * W.square().sum()).backward()
        optimizer.step()
        schedule.step()
    Z = functional.layer_norm(x @ W_0.T + b_0, (d,)).detach()
    stream = (Z + b_2).detach().requires_grad_()
    fit = functional.cross_entropy(functional.layer_norm(stream, (d,)) @ W.T + b_L, y)
    (g,) = torch.autograd.grad(fit, stream)
    weights = {"embedding.weight": W_0, "embedding.bias": b_0, "blocks.0.1.bias": b_2}
    weights |= {"readout.weight": W, "readout.bias": b_L}
    total = float(fit.detach() + penalty / 2 * W.detach().square().sum())
    return WithoutBranches(Z, g - g.mean(0), total, {name: tensor.detach() for name, tensor in weights.items()})


def best_neuron(
    Z: Float[Tensor, "n d"], g: Float[Tensor, "n d"], starts: int, generator: torch.Generator, steps: int = 1000
) -> float:
    """S: the largest |sum_i g_i relu(v.x_i + beta)| over |v| = 1 and beta that gradient ascent finds from some starts.

    Starts are differences of samples, whose planes cut the data.
    """
    pairs = torch.randint(len(Z), (2, starts), generator=generator)
    v = (Z[pairs[0]] - Z[pairs[1]] + 1e-3).requires_grad_()
    beta = torch.zeros(starts, dtype=Z.dtype, requires_grad=True)
    optimizer = torch.optim.Adam([v, beta], lr=0.03)
    best = torch.zeros(())
    for _ in range(steps):
        unit = v / v.norm(dim=1, keepdim=True)
        gains = ((Z @ unit.T + beta).clamp_min(0).T @ g).norm(dim=1)
        best = torch.maximum(best, gains.detach().max())
        optimizer.zero_grad()
        (-gains.log().sum()).backward()
        optimizer.step()
    return float(best)
