"""The Hadamard parametrisation theta = u * w (spred): both factors are trained."""

from collections.abc import Sequence

import torch
from torch import Tensor

from symlab.schemes import Hadamard
from symlab.schemes.fixed_parts import FixedParts
from symlab.schemes.parametrisation import Parametrisation

# Where a tensor starts at zero w cannot follow its size; it must not be zero too, or u = w = 0 stays for ever.
OF_ZEROS = 0.3
# w = 1.25 sqrt(rms(theta)) differs from u = theta / w wherever theta is not exactly 1.56 rms.
ABOVE = 1.25


class Product(Parametrisation):
    """theta = u * w, which is at theta's initial value.

    A parameter with u = w or u = -w lies on a mirror that gradient steps never leave: its sign could never change, and
    one at u = w = 0 is dead. So w starts as one number for the whole tensor, ``1.25 sqrt(rms(theta))`` (0.3 for a
    tensor of zeros), and u = theta / w. ``on_mirror`` starts at |u| = |w| = sqrt|theta| instead, a negative control;
    ``independent`` at theta's entries for u and the same in another order for w, both over the root of their rms: at a
    product that is as large as theta but another.

    Args:
        stacked: whether tensors have a replica axis, each replica having a w of its own.
    """

    suffixes = ("u", "w")

    def __init__(self, on_mirror: bool, stacked: bool, independent: bool = False):
        self.on_mirror, self.stacked, self.independent = on_mirror, stacked, independent

    def start(self, value: Tensor) -> list[Tensor]:
        if self.on_mirror:
            w = value.abs().sqrt()
            return [value.sign() * w, w]
        axes = tuple(range(1 if self.stacked else 0, value.dim()))
        rms = value.square().mean(dim=axes, keepdim=True).sqrt() if axes else value.abs()
        if self.independent and bool((rms > 0).all()):
            first = 1 if self.stacked else 0
            drawn = torch.Generator().manual_seed(value.shape[first:].numel())
            order = torch.randperm(value.shape[first:].numel(), generator=drawn).to(value.device)
            u = value / rms.sqrt()
            return [u, u.flatten(first)[..., order].view_as(u).clone()]
        w = torch.where(rms > 0, ABOVE * rms.sqrt(), OF_ZEROS).expand_as(value).clone()
        return [value / w, w]

    def compose(self, *trained: Tensor) -> Tensor:
        return trained[0] * trained[1]

    def compose_into(self, target: Tensor, *trained: Tensor) -> None:
        torch.mul(trained[0], trained[1], out=target)

    def pull_back(self, gradient: Tensor, *trained: Tensor) -> list[Tensor]:
        return [gradient * trained[1], gradient * trained[0]]


def products(scheme: Hadamard, parameters: Sequence[str], fixed: FixedParts, stacked: bool) -> dict[str, Product]:
    """A product for every parameter, or for weights of linear maps and convolutions alone."""
    names = parameters if scheme.biases else fixed
    return {name: Product(scheme.start == "on_mirror", stacked, scheme.start == "independent") for name in names}
