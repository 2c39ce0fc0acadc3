"""How collapsed features are, and how collapsed a linear map of the data alone would be."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from jaxtyping import Float, Int
from torch import Tensor

from symlab.measures.collapse import class_scatter


def within_over_between(H: Float[Tensor, "n d"], y: Int[Tensor, " n"], K: int) -> Float[Tensor, ""]:
    """NC1 = tr Sigma_W / tr Sigma_B; Sigma_W is the mean over samples, Sigma_B over classes."""
    _, rest, between = class_scatter(H, y, K)
    return rest.square().sum() / len(H) / between


def linear_floor(x: Float[Tensor, "n i"], y: Int[Tensor, " n"], K: int) -> tuple[int, float]:
    """Rank of [x; 1], and NC1 of the best linear map of x to one-hot labels, normalised as LayerNorm does.

    Where the rank is the number of samples, a free linear map collapses the data alone and depth has nothing to do.
    """
    ones = torch.cat([x.double(), torch.ones(len(x), 1, dtype=torch.float64)], 1)
    target = functional.one_hot(y, K).double()
    # What x was rounded to is no dimension.
    least = max(ones.shape) * torch.finfo(x.dtype).eps
    fitted = ones @ torch.linalg.lstsq(ones, target, rcond=least, driver="gelsd").solution
    features = functional.layer_norm(fitted, (K,))
    return int(torch.linalg.matrix_rank(ones, rtol=least)), float(within_over_between(features, y, K))
