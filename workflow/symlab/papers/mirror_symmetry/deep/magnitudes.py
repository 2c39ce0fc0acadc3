"""How many parameters of trained networks are nearly 0, along training, and what setting the smallest to 0 costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from symlab.alignment.forward import batch_rows, outputs
from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.deep.trained_with import trained_with
from symlab.papers.mirror_symmetry.settings import Magnitudes
from symlab.training.models import Models, move

if TYPE_CHECKING:
    from symlab.data.dataset import Dataset
    from symlab.symmetries.mirrors import State


def measure_magnitudes(models: Models, data: Dataset, settings: Magnitudes, job: Job) -> dict[str, Any]:
    """Parameters of every network as the network sees them: products, where factors are trained."""
    x, y = (torch.from_numpy(part).to(job.device) for part in data.split("test"))
    module = models.module().to(job.device)
    names = [name for name, _ in module.named_parameters()]
    trained = trained_with(models, len(data.split("train")[0]))
    counted, pruned = [], []
    for position, replica in enumerate(models.replicas):
        which = {"mask_seed": replica.mask_seed, "seed": replica.seed, **trained}
        for epoch in models.epochs:
            state = move(models.state(epoch, position), job.device)
            sizes = torch.cat([state[name].abs().flatten() for name in names])
            counted += [
                {**which, "epoch": epoch, "threshold": each, "share": float((sizes < each).double().mean())}
                for each in settings.thresholds
            ]
        # Cuts below which as many parameters lie leave the same network.
        known: dict[int, float] = {}

        def accuracy_at(cut: float, sizes: Tensor = sizes, state: State = state, known: dict = known) -> float:
            gone = int((sizes < cut).sum())
            if gone not in known:
                left = {name: t.where(t.abs() >= cut, 0) if name in names else t for name, t in state.items()}
                right = [outputs(module, left, part).argmax(dim=1) for part in x.split(batch_rows(x))]
                known[gone] = 100 * float((torch.cat(right) == y).double().mean())
            return known[gone]

        cuts = quantiles(sizes, settings.pruned)
        for share, cut in [(0.0, 0.0), *zip(settings.pruned, cuts, strict=True)]:
            pruned.append({**which, "share": share, "accuracy": accuracy_at(cut)})
        for each in settings.thresholds:
            row = {"share": float((sizes < each).double().mean()), "threshold": each}
            pruned.append({**which, **row, "accuracy": accuracy_at(each)})
        job.report(f"mask {replica.mask_seed} seed {replica.seed}: {counted[-1]['share']:.3g} below the last threshold")
    return {"magnitudes.csv": pd.DataFrame(counted), "pruned.csv": pd.DataFrame(pruned)}


def quantiles(sizes: Float[Tensor, " n"], shares: Sequence[float]) -> list[float]:
    """The sizes below which these shares lie, interpolated between neighbours; torch takes 2^24 numbers at most."""
    return [float(cut) for cut in np.quantile(sizes.cpu().numpy(), shares)]
