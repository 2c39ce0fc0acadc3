"""How far features and the last layer are from neural collapse: NC1, NC2A, NC2B, NC3 and what they are made of."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from jaxtyping import Float, Int
from torch import Tensor


def class_scatter(
    H: Float[Tensor, "n d"], y: Int[Tensor, " n"], K: int
) -> tuple[Float[Tensor, "k d"], Float[Tensor, "n d"], Float[Tensor, ""]]:
    """Class means, every sample's distance from its own, and tr Sigma_B."""
    unit = functional.one_hot(y, K).to(H)
    means = unit.T @ H / unit.sum(0)[:, None]
    return means, H - means[y], (means - means.mean(0)).square().sum() / K


def within_over_between(H: Float[Tensor, "n d"], y: Int[Tensor, " n"], K: int) -> Float[Tensor, ""]:
    """NC1 = tr Sigma_W / tr Sigma_B; Sigma_W is the mean over samples, Sigma_B over classes."""
    _, rest, between = class_scatter(H, y, K)
    return rest.square().sum() / len(H) / between


def distance_from(M: Float[Tensor, "k k"], E: Float[Tensor, "k k"]) -> Float[Tensor, ""]:
    """min over c >= 0 of |M - c E| / |M|, Frobenius norms."""
    c = ((M * E).sum() / (E * E).sum()).clamp_min(0)
    return (M - c * E).norm() / M.norm()


def collapse_metrics(
    H: Float[Tensor, "n d"], W: Float[Tensor, "k d"], y: Int[Tensor, " n"], shifts: bool = False
) -> dict[str, Float[Tensor, ""]]:
    """The paper's metrics of features H and the last layer's W, by name.

    NC1; NC2A and NC2B: distance of W W^T from a simplex I - 1 1^T / K and from I; NC3 = 1 - mean cosine of features and
    their class's row. Besides: tr Sigma_B (``between``); the shares of NC1 in W's row space (``NC1_row``) and beyond
    (``NC1_null``); NC2A of W centred on both sides, NC3 of W less its mean row; and how much of W lies along the two
    directions that only decay moves, 1^T W (``column_sum``) and W 1 (``row_sum``), over |W|. ``shifts``: whether the
    loss sees a sum that all outputs share; under cross-entropy it does not, and the row space is that of W less its
    mean row.
    """
    K = len(W)
    _, rest, between = class_scatter(H, y, K)
    _, strength, V = torch.linalg.svd(W if shifts else W - W.mean(0), full_matrices=False)
    rows = V[strength > 1e-6 * strength[0]]
    within, in_rows = (each.square().sum() / len(H) for each in (rest, rest @ rows.T))
    eye = torch.eye(K).to(W)
    simplex = eye - 1 / K
    centred = W - W.mean(0)
    centred = centred - centred.mean(1, keepdim=True)
    return {
        "NC1": within / between,
        "NC2A": distance_from(W @ W.T, simplex),
        "NC2B": distance_from(W @ W.T, eye),
        "NC3": 1 - functional.cosine_similarity(H, W[y], dim=1).mean(),
        "NC3_centred": 1 - functional.cosine_similarity(H, (W - W.mean(0))[y], dim=1).mean(),
        "between": between,
        "NC1_row": in_rows / between,
        "NC1_null": (within - in_rows) / between,
        "NC2A_centred": distance_from(centred @ centred.T, simplex),
        "column_sum": W.sum(0).norm() / W.norm() / K**0.5,
        "row_sum": W.sum(1).norm() / W.norm() / W.shape[1] ** 0.5,
    }


def linear_floor(x: Float[Tensor, "n i"], y: Int[Tensor, " n"], K: int) -> tuple[int, float]:
    """Rank of [x; 1], and NC1 of the best linear map of x to one-hot labels, normalised as LayerNorm does.

    Where the rank is the number of samples, a free linear map collapses the data alone and depth has nothing to do.
    """
    ones = torch.cat([x.double(), torch.ones(len(x), 1, dtype=torch.float64)], 1)
    target = functional.one_hot(y, K).double()
    fitted = ones @ torch.linalg.lstsq(ones, target, driver="gelsd").solution
    features = functional.layer_norm(fitted, (K,))
    return int(torch.linalg.matrix_rank(ones)), float(within_over_between(features, y, K))
