"""Chains of linear maps without biases, with relu between them or nothing: outputs, gradients, and the loss near 0.

Weights are W_1 .. W_L, each [..., n_l, n_(l-1)]; inputs X [n_0, N] have samples as columns. Z_0^s = X,
Z_l = W_l Z_(l-1)^s, Z_l^s = relu(Z_l); the output is Z_L.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as functional
from jaxtyping import Float, Int
from torch import Tensor

from symlab.data.dataset import Dataset
from symlab.data.samples import pooled_samples

Weights = Sequence[Float[Tensor, "... out in"]]


def run_layers(W: Weights, X: Float[Tensor, "... d n"], linear: bool = False) -> tuple[list[Tensor], list[Tensor]]:
    """Z_1 .. Z_L, and Z_0^s .. Z_(L-1)^s, which they are products with."""
    inner, Z = [X], []
    for W_l in W:
        Z.append(W_l @ inner[-1])
        inner.append(Z[-1] if linear else Z[-1].clamp_min(0))
    return Z, inner[:-1]


def chain_gradient(
    W: Weights, Z: Sequence[Tensor], inner: Sequence[Tensor], slope: Float[Tensor, "... k n"], linear: bool = False
) -> list[Tensor]:
    """Gradient by each W_l of what has the gradient ``slope`` by the output; relu's derivative at 0 is 0."""
    gradients = []
    for place in reversed(range(len(W))):
        gradients.append(slope @ inner[place].mT)
        if place:
            slope = W[place].mT @ slope
            slope = slope if linear else slope * (Z[place - 1] > 0)
    return gradients[::-1]


@dataclass(frozen=True)
class Origin:
    """The mean cross-entropy of a chain around outputs 0, where it is log k.

    target: one-hot [k, n].
    """

    X: Float[Tensor, "d n"]
    target: Float[Tensor, "k n"]
    linear: bool = False

    @property
    def G(self) -> Float[Tensor, "k n"]:
        """The loss's gradient by the outputs at 0."""
        return (1 / len(self.target) - self.target) / self.X.shape[1]

    def slope(self, W: Weights, rows: Int[Tensor, " b"] | None = None) -> tuple[list[Tensor], float]:
        """Gradient of the loss on all samples, or some, and its drop from log k as a share of that.

        The drop is a mean of log p + log k, so that small ones are resolved; losses near log k are not.
        """
        X, target = (self.X, self.target) if rows is None else (self.X[:, rows], self.target[:, rows])
        Z, inner = run_layers(W, X, self.linear)
        return chain_gradient(W, Z, inner, self.by_outputs(Z[-1], target), self.linear), self.drop(Z[-1], target)

    def by_outputs(self, Y: Float[Tensor, "k n"], target: Float[Tensor, "k n"] | None = None) -> Float[Tensor, "k n"]:
        """The loss's gradient by the outputs Y."""
        target = self.target if target is None else target
        return (Y.softmax(dim=-2) - target) / Y.shape[-1]

    def drop(self, Y: Float[Tensor, "k n"], target: Float[Tensor, "k n"] | None = None) -> float:
        """1 - loss / log k."""
        target, top = self.target if target is None else target, math.log(len(self.target))
        return float(((Y.double().log_softmax(dim=-2) + top) * target).sum()) / Y.shape[-1] / top


def origin_of(
    dataset: Dataset, pool: int, samples: int | None, linear: bool = False, dtype: torch.dtype = torch.float64
) -> Origin:
    """The loss of a data set's first training samples."""
    x, y = pooled_samples(dataset, pool, samples)
    return Origin(x.to(dtype).T.contiguous(), functional.one_hot(y, dataset.n_outputs).to(dtype).T.contiguous(), linear)


def draw_weights(
    sizes: Sequence[int], std: float, generator: torch.Generator, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    """Normal weights between layers of these sizes; the draw is the same for each ``std``."""
    return [std * torch.randn(out, into, generator=generator, dtype=dtype) for into, out in pairwise(sizes)]


def squared_norm(W: Weights) -> Float[Tensor, "..."]:
    """Sum of all squared weights."""
    return torch.stack([W_l.square().sum((-2, -1)) for W_l in W]).sum(0)
