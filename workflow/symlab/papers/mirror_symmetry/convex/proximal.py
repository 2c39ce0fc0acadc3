"""Proximal gradient methods for convex penalties: what a product of factors with weight decay is held against."""

from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

Batch = Float[Tensor, "n rows columns"]
Map = Callable[[Tensor], Tensor]


def shrink(theta: Float[Tensor, "*n"], by: float | Tensor) -> Float[Tensor, "*n"]:
    """Each entry moved towards 0 by at most ``by``: the proximal map of ``by`` |theta|_1."""
    return theta.sign() * (theta.abs() - by).clamp(min=0)


def shrink_groups(theta: Float[Tensor, "*n groups size"], by: float | Tensor) -> Float[Tensor, "*n groups size"]:
    """Each group shortened by at most ``by``: the proximal map of ``by`` times the sum of the groups' norms."""
    norm = theta.norm(dim=-1, keepdim=True)
    return theta * (1 - by / norm.clamp(min=1e-300)).clamp(min=0)


def shrink_spectrum(M: Float[Tensor, "*n d e"], by: float | Tensor) -> Float[Tensor, "*n d e"]:
    """Each singular value lowered by at most ``by``: the proximal map of ``by`` times the nuclear norm."""
    U, s, Vh = torch.linalg.svd(M, full_matrices=False)
    return (U * shrink(s[..., None, :], by)) @ Vh


class Penalty(NamedTuple):
    """The sum of what vanishes each by itself, with its proximal map."""

    sizes: Callable[[Batch], Float[Tensor, "n rows parts"]]
    shrink: Callable[[Batch, Tensor], Batch]
    """Of ``by`` [n, 1, 1] times the penalty."""


LASSO = Penalty(torch.abs, shrink)
GROUPS = Penalty(lambda theta: theta.norm(dim=-1, keepdim=True), shrink_groups)
NUCLEAR = Penalty(lambda theta: torch.linalg.svdvals(theta)[:, None], shrink_spectrum)


def descend(gradient: Map, proximal: Map, start: Batch, rate: Tensor) -> Iterator[Batch]:
    """ISTA: the start, then without end what a gradient step and the proximal map of rate times the penalty make."""
    theta = start
    while True:
        yield theta
        theta = proximal(theta - rate * gradient(theta))


def accelerate(gradient: Map, proximal: Map, start: Batch, rate: Tensor) -> Iterator[Batch]:
    """FISTA (Beck and Teboulle, 2009), whose momentum starts anew where it points uphill (O'Donoghue, Candès, 2015)."""
    theta = ahead = start
    weight = torch.ones(len(start), 1, 1, dtype=start.dtype)
    while True:
        yield theta
        new = proximal(ahead - rate * gradient(ahead))
        uphill = ((ahead - new) * (new - theta)).sum((1, 2), keepdim=True) > 0
        following = (1 + (1 + 4 * weight**2).sqrt()) / 2
        momentum = torch.where(uphill, 0.0, (weight - 1) / following)
        weight = torch.where(uphill, 1.0, following)
        theta, ahead = new, new + momentum * (new - theta)


def at_moments(path: Iterator[Batch], moments: Collection[int]) -> Iterator[tuple[int, Batch]]:
    """These numbers of steps, each with where a path is after so many."""
    return ((step, theta) for step, theta in enumerate(islice(path, max(moments) + 1)) if step in moments)
