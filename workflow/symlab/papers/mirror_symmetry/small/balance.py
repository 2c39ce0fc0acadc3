"""How query and key weights become balanced under gradient descent, and what its finite steps leave (Figs. 9, 10)."""

import pandas as pd
import torch

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.settings import Balance
from symlab.papers.mirror_symmetry.small.attention import _draw_data, _draw_weights, predict


def follow_balance(settings: Balance, job: Job, layers: int) -> dict[str, pd.DataFrame]:
    """U = QQ^T - KK^T along descents as of ``train_attention``, from the same draws.

    The loss is one of Q^T K alone, so that the first order of a step conserves U but for decay:
    U' = (1 - lr wd)^2 U + lr^2 (G_Q G_Q^T - G_K G_K^T) with the loss's gradients G. S is the sum of what the last term
    leaves.

    Returns:
        ``mirror_balance.csv``: a row a seed, decay, layer and measured step, with ``unbalance`` |U| and ``first_order``
        |U - S|.
    """
    Z, y = map(torch.stack, zip(*(_draw_data(settings, job, seed) for seed in range(settings.seeds)), strict=True))
    start = torch.stack([_draw_weights(settings, job, layers, seed) for seed in range(settings.seeds)])
    wd, lr = torch.tensor(settings.decays)[:, None, None, None, None], settings.descent_lr
    weights = start[:, None].repeat(1, len(settings.decays), 1, 1, 1, 1).requires_grad_()
    S, tables = torch.zeros_like(weights[:, :, :, 0]), []
    at = pd.MultiIndex.from_product(
        [range(settings.seeds), settings.decays, range(1, layers + 1)], names=["seed", "decay", "layer"]
    )
    for step in range(settings.descent_steps + 1):
        if step % settings.every == 0 or step == settings.descent_steps:
            Q, K, _ = weights.detach().unbind(3)
            U = Q @ Q.mT - K @ K.mT
            columns = {"unbalance": U, "first_order": U - S}
            norms = {name: each.norm(dim=(-2, -1)).flatten().numpy() for name, each in columns.items()}
            tables.append(pd.DataFrame(norms, at).reset_index().assign(step=step, time=lr * step))
        loss = (predict(Z, weights) - y[:, None]).square().mean(2).sum()
        (gradient,) = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            of_query, of_key, _ = gradient.unbind(3)
            S = (1 - lr * wd[..., 0]) ** 2 * S + lr**2 * (of_query @ of_query.mT - of_key @ of_key.mT)
            weights -= lr * (gradient + wd * weights)
    rows = pd.concat(tables, ignore_index=True)
    return {"mirror_balance.csv": rows.assign(layers=layers, N=settings.N, T=settings.T, d=settings.d)}
