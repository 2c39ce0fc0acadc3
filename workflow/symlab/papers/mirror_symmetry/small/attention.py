"""Ranks of query and key weights of self-attention layers with weight decay, while they train (Figs. 9, 10)."""

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from symlab.errors import UserError
from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.settings import ADAM, Attention
from symlab.seeds import torch_generator
from symlab.training import updates
from symlab.training.settings import Recipe
from symlab.words import counted

RECIPE = Recipe(epochs=1, lr=1.0, optimizer="adam", betas=[0.9, 0.999], eps=1e-8)
RELATIVE, VANISHED = 1e-2, 1e-8
"""Singular values above this share of the largest count to the rank, which is 0 where that one is below the other."""


def predict(
    Z: Float[Tensor, "seeds N T D"], weights: Float[Tensor, "seeds nets layers 3 D D"]
) -> Float[Tensor, "seeds nets N"]:
    """What the layers write into the last entry of the last row of each data point.

    A layer adds to each row z the mean of the rows' values z' V^T, weighted by the softmax of (Q z) (K z') / sqrt(D);
    there is no mask and no MLP.
    """
    seeds, N, T, D = Z.shape
    H = Z[:, None]
    for layer in range(weights.shape[2] - 1):
        Q, K, V = weights[:, :, layer].unbind(2)
        rows = H.reshape(seeds, -1, N * T, D)
        asked = (rows @ (Q.mT @ K / D**0.5)).reshape(seeds, -1, N, T, D)
        values = (rows @ V.mT).reshape(seeds, -1, N, T, D)
        H = H + (asked @ H.mT).softmax(-1) @ values
    Q, K, V = weights[:, :, -1].unbind(2)
    # Of the last layer the last row alone is read, and its last entry.
    h = H[..., -1, :]
    asked = h @ (Q.mT @ K / D**0.5)
    if H.shape[1] == 1:
        scores = (H[:, 0] @ asked.permute(0, 2, 3, 1)).softmax(-2)
        mixed = (scores.mT @ H[:, 0]).transpose(1, 2)
    else:
        scores = (H @ asked[..., None]).softmax(-2)
        mixed = (scores.mT @ H)[..., 0, :]
    return h[..., -1] + (mixed @ V[..., -1, :, None])[..., 0]


def train_attention(settings: Attention, job: Job, layers: int, optimizer: str) -> dict[str, pd.DataFrame]:
    """Full-batch Adam with coupled L2, or gradient descent with L2, for every decay and seed.

    Single precision. The loss is the mean squared error on the queries; each data point has coefficients of its own.

    Raises:
        UserError: training diverged.
    """
    drawn = [_draw_data(settings, job, seed) for seed in range(settings.seeds)]
    Z, y = (torch.stack(each) for each in zip(*drawn, strict=True))
    start = torch.stack([_draw_weights(settings, job, layers, seed) for seed in range(settings.seeds)])
    decay = torch.tensor(settings.decays, dtype=Z.dtype)[:, None, None, None, None]
    weights = start[:, None].repeat(1, len(settings.decays), 1, 1, 1, 1).requires_grad_()
    adam = updates.Adam(RECIPE, [weights], 0.0, fused=False)
    tables, of_adam = [], optimizer == ADAM
    steps, lr = (settings.steps, settings.adam_lr) if of_adam else (settings.descent_steps, settings.descent_lr)
    # Both optimizers are measured equally often.
    every = max(1, settings.every * steps // settings.steps)
    for step in range(steps + 1):
        losses = (predict(Z, weights) - y[:, None]).square().mean(2)
        if step % every == 0 or step == steps:
            if not losses.isfinite().all():
                raise UserError(f"{optimizer} diverged by step {step} at rate {lr:g}; lower the rate.")
            measured = _measure(weights.detach(), losses.detach(), settings.decays)
            tables.append(measured.assign(step=step, time=lr * step, lr=lr))
        (gradient,) = torch.autograd.grad(losses.sum(), weights)
        with torch.no_grad():
            gradient += decay * weights
            if of_adam:
                adam.step([gradient], lr)
            else:
                weights -= lr * gradient
    job.report(f"{counted(layers, 'layers')}, {optimizer}: mean loss {losses.mean().item():.4g}")
    told = {"layers": layers, "optimizer": optimizer, "N": settings.N, "T": settings.T, "d": settings.d}
    return {"mirror_attention.csv": pd.concat(tables, ignore_index=True).assign(**told)}


def _draw_data(settings: Attention, job: Job, seed: int) -> tuple[Tensor, Tensor]:
    """Rows of features with their target behind them, 0 at the query's [N, T, d + 1], and the query's target [N]."""
    drawn = torch_generator(job.study, "attention", "data", seed)
    x = torch.randn(settings.N, settings.T, settings.d, generator=drawn)
    target = x @ torch.randn(settings.N, settings.d, 1, generator=drawn)
    Z = torch.cat([x, target], 2)
    Z[:, -1, -1] = 0
    return Z, target[:, -1, 0]


def _draw_weights(settings: Attention, job: Job, layers: int, seed: int) -> Tensor:
    """Query, key and value weights of each layer, of variance 1/D [layers, 3, D, D]."""
    D = settings.d + 1
    drawn = torch_generator(job.study, "attention", "weights", layers, seed)
    return torch.randn(layers, 3, D, D, generator=drawn) / D**0.5


def _measure(weights: Tensor, losses: Tensor, decays: list[float]) -> pd.DataFrame:
    sigma = torch.linalg.svdvals(weights)
    ranks = ((sigma > RELATIVE * sigma[..., :1]) & (sigma[..., :1] > VANISHED)).sum(-1)
    query, key, _ = sigma.unbind(3)
    Q, K, _ = weights.unbind(3)
    seeds, _, layers = query.shape[:3]
    columns = {
        "loss": losses[..., None].expand(-1, -1, layers),
        "rank_query": ranks[..., 0],
        "rank_key": ranks[..., 1],
        "apart_key": (key - query).norm(dim=-1) / query.norm(dim=-1),
        "unbalance": (Q @ Q.mT - K @ K.mT).norm(dim=(-2, -1)),
    }
    at = pd.MultiIndex.from_product([range(seeds), decays, range(1, layers + 1)], names=["seed", "decay", "layer"])
    return pd.DataFrame({name: values.flatten().numpy() for name, values in columns.items()}, at).reset_index()
