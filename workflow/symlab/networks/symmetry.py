"""The one parametrization W_eff = F + D * W (main paper, Eq. 2 and Table 1): fixed parts of every scheme.

A scheme is data, not a layer class: for each weight matrix it gives two fixed tensors F and D, sampled once from a mask
seed that all networks to be interpolated share. ``None`` stands for F = 0 and for D = 1.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from symlab.errors import UserError
from symlab.networks import SCHEMES
from symlab.networks.fixed_counts import fixed_counts
from symlab.seeds import torch_generator

State = dict[str, Tensor]
FixedParts = dict[str, tuple[Tensor | None, Tensor | None]]


def weight_shapes(module: nn.Module) -> dict[str, tuple[int, int]]:
    """(out, in) of every linear map's weight, by its name in ``module.state_dict()``, in forward order."""
    return {
        f"{name}.weight": (child.out_features, child.in_features)
        for name, child in module.named_modules()
        if isinstance(child, nn.Linear)
    }


def sample_fixed_parts(scheme: dict[str, Any], shapes: dict[str, tuple[int, int]], *seed: str | int) -> FixedParts:
    """F and D of every weight matrix, [out, in] float32, drawn from the mask seed ``seed``.

    Schemes (Table 1): ``standard``; ``w_asymmetric`` (F = M * B with B ~ N(0, sigma_F^2), exactly n_fixed ones in every
    row of the binary M, D = 1 - M); ``syre`` (F ~ N(0, sigma_F^2), D ~ Unif(1 - eps, 1 + eps)^(-1/2)); ``sparse``
    (F = 0, D ~ Bernoulli(density)); ``residual`` (F = I on square maps, D = 1).

    Raises:
        UserError: an unknown scheme, or counts that do not fit the layers.
    """
    name = scheme["name"]
    if name not in SCHEMES:
        raise UserError(f"scheme.name is {name!r}; known schemes are {', '.join(sorted(SCHEMES))}.")
    return resolve_name(SCHEMES[name])(scheme, shapes, seed)


def standard(scheme: dict[str, Any], shapes: dict[str, tuple[int, int]], seed: tuple[str | int, ...]) -> FixedParts:
    """F = 0, D = 1: nothing is fixed."""
    return {weight: (None, None) for weight in shapes}


def w_asymmetric(scheme: dict[str, Any], shapes: dict[str, tuple[int, int]], seed: tuple[str | int, ...]) -> FixedParts:
    """F = M * B with B ~ N(0, sigma_F^2), D = 1 - M; M has exactly n_fixed ones in every row, uniformly placed."""
    counts = fixed_counts(scheme, {weight: fan_in for weight, (_, fan_in) in shapes.items()})
    parts: FixedParts = {}
    for weight, (fan_out, fan_in) in shapes.items():
        generator = torch_generator(*seed, "fixed", weight)
        order = torch.rand(fan_out, fan_in, generator=generator).argsort(dim=1)
        M = torch.zeros(fan_out, fan_in).scatter_(1, order[:, : counts[weight]], 1.0)
        B = torch.randn(fan_out, fan_in, generator=generator) * scheme["sigma_F"]
        parts[weight] = (M * B, 1 - M)
    return parts


def syre(scheme: dict[str, Any], shapes: dict[str, tuple[int, int]], seed: tuple[str | int, ...]) -> FixedParts:
    """F ~ N(0, sigma_F^2), D ~ Unif(1 - epsilon, 1 + epsilon)^(-1/2)."""
    parts: FixedParts = {}
    for weight, shape in shapes.items():
        generator = torch_generator(*seed, "fixed", weight)
        F = torch.randn(shape, generator=generator) * scheme["sigma_F"]
        uniform = 1 + scheme["epsilon"] * (2 * torch.rand(shape, generator=generator) - 1)
        parts[weight] = (F, uniform.rsqrt())
    return parts


def sparse(scheme: dict[str, Any], shapes: dict[str, tuple[int, int]], seed: tuple[str | int, ...]) -> FixedParts:
    """F = 0, D ~ Bernoulli(density)."""
    return {
        weight: (
            None,
            (torch.rand(shape, generator=torch_generator(*seed, "fixed", weight)) < scheme["density"]).float(),
        )
        for weight, shape in shapes.items()
    }


def residual(scheme: dict[str, Any], shapes: dict[str, tuple[int, int]], seed: tuple[str | int, ...]) -> FixedParts:
    """F = I and D = 1 on square maps; other maps are standard."""
    return {
        weight: (torch.eye(fan_in), None) if fan_out == fan_in else (None, None)
        for weight, (fan_out, fan_in) in shapes.items()
    }


def sample_buffers(module: nn.Module, *seed: str | int) -> State:
    """The fixed matrices that belong to the architecture but are no weights: the sigma-MLP's C ~ N(0, 1), by name."""
    return {
        name: torch.randn(buffer.shape, generator=torch_generator(*seed, "buffer", name))
        for name, buffer in module.named_buffers()
        if name.endswith(".C")
    }


def effective(
    W: Float[Tensor, "*r out in"],
    F: Float[Tensor, "*r out in"] | None,
    D: Float[Tensor, "*r out in"] | None,
) -> Float[Tensor, "*r out in"]:
    """W_eff = F + D * W (Eq. 2)."""
    scaled = W if D is None else D * W
    return scaled if F is None else F + scaled
