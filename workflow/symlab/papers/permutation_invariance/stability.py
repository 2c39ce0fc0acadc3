"""How large a learning rate gradient descent can have at a minimum of the population loss without leaving it."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from symlab.papers.permutation_invariance.row_sparsity import ZERO_NORM


def hessian_at_minimum(W: Float[Tensor, "m d"], shortest: float = ZERO_NORM) -> Float[Tensor, "md md"]:
    """2 E [J J^T] with J stacking 1[w_i . x > 0] x: the Hessian of L where L(W) = 0, its Gauss-Newton part elsewhere.

    The expectation in block (i, k) is over the wedge between two half-spaces, whose normals are at an angle theta. In
    the plane of the normals its second moments are along the bisector b of the normals and along q at right angles to
    it; outside the plane only the wedge's size matters. With s = sin theta the block is

        ((pi - theta) I + s (b b^T - q q^T)) / (pi d),
        s (b b^T - q q^T) = (u v^T + v u^T - cos theta (u u^T + v v^T)) / s,    u = w_i / |w_i|, v = w_k / |w_k|.

    Args:
        shortest: rows with a smaller norm, and rows of zeros, are left out: their blocks are zero.
    """
    m, d = W.shape
    norms = torch.linalg.vector_norm(W, dim=1)
    active = (norms >= shortest) & (norms > 0)
    u = torch.where(active[:, None], W / norms[:, None], 0.0)
    cosine = (u @ u.T).clamp(-1, 1)
    theta = cosine.acos()
    sine = ((1 - cosine) * (1 + cosine)).sqrt()
    outer = torch.einsum("ia,kb->ikab", u, u)
    own = torch.einsum("ia,ib->iab", u, u)
    plane = outer + outer.mT - cosine[..., None, None] * (own[:, None] + own)
    # The block is continuous at parallel and opposite rows, where b or q is undefined and s is zero.
    plane = torch.where(sine[..., None, None] > 0, plane / sine[..., None, None], 0.0)
    identity = torch.eye(d, dtype=W.dtype)
    blocks = ((math.pi - theta)[..., None, None] * identity + plane) / (math.pi * d)
    blocks = blocks * (active[:, None] & active)[..., None, None]
    return blocks.transpose(1, 2).reshape(m * d, m * d)


def stability_limit(W: Float[Tensor, "n m d"], shortest: float = ZERO_NORM) -> Float[Tensor, " n"]:
    """2 / lambda_max of ``hessian_at_minimum``: gradient descent stays near the minimum with smaller learning rates.

    For dense minima it is about 3 d / m. Rows that count as zero are left out, because the loss has a kink within
    their reach: no step of theirs is that of a linear map.
    """
    largest = [float(torch.linalg.eigvalsh(hessian_at_minimum(student, shortest))[-1]) for student in W]
    return 2 / torch.tensor(largest, dtype=W.dtype)
