"""How sparse students are: the PQ index, and rows that gradient descent has driven to zero."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# A row below this norm is counted as zero; active rows of a trained student are of order M / m.
ZERO_NORM = 1e-2


def pq_index(w: Float[Tensor, "*runs k"], p: float = 0.5, q: float = 1.0) -> Float[Tensor, "*runs"]:
    """The PQ index 1 - k^(1/q - 1/p) |w|_p / |w|_q: 0 where all entries are equally large, 1 - 1/k with a single one.

    NaN for a vector of zeros.
    """
    size = w.abs()
    ratio = size.pow(p).sum(dim=-1).pow(1 / p) / size.pow(q).sum(dim=-1).pow(1 / q)
    return 1 - w.shape[-1] ** (1 / q - 1 / p) * ratio


def is_zero(W: Float[Tensor, "*runs m d"], below: float = ZERO_NORM) -> Bool[Tensor, "*runs m"]:
    """Whether each row has a norm smaller than ``below``."""
    return torch.linalg.vector_norm(W, dim=-1) < below
