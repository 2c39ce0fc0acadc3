"""Batch norm statistics of a network that was not trained, but averaged from two that were."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from symlab.alignment.forward import batch_rows, call
from symlab.batches import Inputs
from symlab.errors import UserError

# Statistics of a batch stand for those of all data; a layer without pixels has one value a sample and channel.
SMALLEST_BATCH = 128


def batch_norms(module: nn.Module) -> list[str]:
    """Names of the batch norms that keep running statistics."""
    parts = module.named_modules()
    return [name for name, part in parts if isinstance(part, _BatchNorm) and part.track_running_stats]


def running_statistics(
    module: nn.Module,
    state: Mapping[str, Tensor],
    x: Float[Tensor, "t d"] | Inputs | None,
) -> dict[str, Tensor]:
    """Means and variances of all batch norms at ``state``, estimated in one pass over the inputs x.

    Every layer is normalised by its batch's statistics, as in training, and the batches' statistics are averaged.
    Batches take every k-th row, so that sorted inputs give representative ones, and have at least
    ``forward.batch_rows`` rows, and ``SMALLEST_BATCH``, if there are as many.

    Returns:
        The entries of ``state`` that change; none for a network without batch norm, which needs no x.

    Raises:
        UserError: the network has batch norm, but no inputs are given.
    """
    names = batch_norms(module)
    if not names:
        return {}
    if x is None:
        raise UserError(
            f"a {type(module).__name__} has batch norms, whose statistics are estimated anew for mean weights: give "
            "training inputs (data of merge, statistics_x of a path)."
        )
    module = copy.deepcopy(module).eval()
    statistics = {}
    for name in names:
        norm: Any = module.get_submodule(name).train()
        # torch's way to ask for the plain average over batches.
        norm.momentum = None
        for buffer, _ in norm.named_buffers():
            statistics[f"{name}.{buffer}"] = torch.zeros_like(state[f"{name}.{buffer}"])
    n_batches = max(1, len(x) // max(SMALLEST_BATCH, batch_rows(x)))
    with torch.no_grad():
        for batch in range(n_batches):
            call(module, {**state, **statistics}, x[batch::n_batches])
    return statistics
