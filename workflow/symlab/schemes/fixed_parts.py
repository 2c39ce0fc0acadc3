"""The one parametrization W_eff = F + D * W (main paper, Eq. 2 and Table 1): fixed parts of every scheme.

A scheme is data, not a layer class: for each weight of a linear map or a convolution it gives two fixed tensors F and
D, sampled once from a mask seed that all networks to be interpolated share. ``None`` stands for F = 0 and for D = 1.
"""

import math
from pkgutil import resolve_name

import torch
from jaxtyping import Float
from torch import Tensor, nn

from symlab.schemes import Residual, Scheme, Sparse, Standard, Syre, WAsymmetric
from symlab.schemes.fixed_counts import fixed_counts
from symlab.seeds import torch_generator

State = dict[str, Tensor]
FixedParts = dict[str, tuple[Tensor | None, Tensor | None]]
Shapes = dict[str, tuple[int, ...]]


def weight_shapes(module: nn.Module) -> Shapes:
    """Shapes of the weights of linear maps and 2-d convolutions, in order of definition, by name in the state.

    Other parameters of a network are in no scheme: biases, embeddings, other convolutions, a bare nn.Parameter.
    """
    return {
        f"{name}.weight": tuple(child.weight.shape)
        for name, child in module.named_modules()
        if isinstance(child, nn.Linear | nn.Conv2d)
    }


def sample_fixed_parts(scheme: Scheme, shapes: Shapes, *seed: str | int) -> FixedParts:
    """F and D of every weight, float32 and of the weight's shape, drawn from the mask seed ``seed``.

    Schemes (Table 1): ``standard``; ``w_asymmetric`` (F = M * B with B ~ N(0, sigma_F^2), exactly n_fixed ones in every
    row of the binary M, or for every input channel of a convolution, D = 1 - M); ``w_asymmetric_heads`` (the same with
    masks shared within attention heads, ours); ``syre`` (F ~ N(0, sigma_F^2), D ~ Unif(1 - eps, 1 + eps)^(-1/2));
    ``sparse`` (F = 0, D ~ Bernoulli(density)); ``residual`` (F = I on square linear maps, D = 1).

    Raises:
        UserError: counts do not fit the layers.
    """
    return resolve_name(scheme.draw)(scheme, shapes, seed)


def standard(scheme: Standard, shapes: Shapes, seed: tuple[str | int, ...]) -> FixedParts:
    """F = 0, D = 1: nothing is fixed."""
    return {weight: (None, None) for weight in shapes}


def w_asymmetric(scheme: WAsymmetric, shapes: Shapes, seed: tuple[str | int, ...]) -> FixedParts:
    """F = M * B with B ~ N(0, sigma_F^2), D = 1 - M; M has exactly n_fixed ones in every row, uniformly placed.

    A convolution has them for every input channel instead, spread over output channels and kernel (Appendix F.2).
    """
    counts = fixed_counts(scheme, {weight: entries(shape) for weight, shape in shapes.items()})
    parts: FixedParts = {}
    for weight, shape in shapes.items():
        generator = torch_generator(*seed, "fixed", weight)
        parts[weight] = fixed_at(place(shape, counts[weight], generator), scheme.sigma_F, generator)
    return parts


def entries(shape: tuple[int, ...]) -> int:
    """Entries among which W-asymmetry places its ones: a linear map's fan-in; out * kh * kw of a convolution."""
    return shape[1] if len(shape) == 2 else math.prod(shape) // shape[1]


def place(shape: tuple[int, ...], n_fixed: int, generator: torch.Generator) -> Float[Tensor, "*shape"]:
    """The binary M: n_fixed ones in every row [out, in], or for every input channel [out, in, kh, kw].

    The input channels of a grouped convolution are those that one output reads: in / groups of them.
    """
    if len(shape) == 2:
        return place_in_rows(*shape, n_fixed, generator)
    n_out, n_in, *kernel = shape
    rows = place_in_rows(n_in, entries(shape), n_fixed, generator)
    return rows.view(n_in, n_out, *kernel).transpose(0, 1).contiguous()


def place_in_rows(rows: int, columns: int, n_fixed: int, generator: torch.Generator) -> Float[Tensor, "rows columns"]:
    """Zeros with n_fixed ones in every row, at places drawn independently for each row."""
    order = torch.rand(rows, columns, generator=generator).argsort(dim=1)
    return torch.zeros(rows, columns).scatter_(1, order[:, :n_fixed], 1.0)


def fixed_at(
    M: Float[Tensor, "*shape"], sigma_F: float, generator: torch.Generator
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """F = M * B with B ~ N(0, sigma_F^2), and D = 1 - M."""
    B = torch.randn(M.shape, generator=generator) * sigma_F
    return M * B, 1 - M


def syre(scheme: Syre, shapes: Shapes, seed: tuple[str | int, ...]) -> FixedParts:
    """F ~ N(0, sigma_F^2), D ~ Unif(1 - epsilon, 1 + epsilon)^(-1/2)."""
    parts: FixedParts = {}
    for weight, shape in shapes.items():
        generator = torch_generator(*seed, "fixed", weight)
        F = torch.randn(shape, generator=generator) * scheme.sigma_F
        uniform = 1 + scheme.epsilon * (2 * torch.rand(shape, generator=generator) - 1)
        parts[weight] = (F, uniform.rsqrt())
    return parts


def sparse(scheme: Sparse, shapes: Shapes, seed: tuple[str | int, ...]) -> FixedParts:
    """F = 0, D ~ Bernoulli(density)."""
    return {
        weight: (None, (torch.rand(shape, generator=torch_generator(*seed, "fixed", weight)) < scheme.density).float())
        for weight, shape in shapes.items()
    }


def residual(scheme: Residual, shapes: Shapes, seed: tuple[str | int, ...]) -> FixedParts:
    """F = I and D = 1 on square linear maps; other maps and convolutions are standard."""
    return {
        weight: (torch.eye(shape[0]), None) if len(shape) == 2 and shape[0] == shape[1] else (None, None)
        for weight, shape in shapes.items()
    }


def sample_buffers(module: nn.Module, *seed: str | int) -> State:
    """The fixed matrices that belong to the architecture but are no weights: the sigma-MLP's C ~ N(0, 1), by name."""
    return {
        name: torch.randn(buffer.shape, generator=torch_generator(*seed, "buffer", name))
        for name, buffer in module.named_buffers()
        if name.endswith(".C")
    }


def effective(
    W: Float[Tensor, "*r_shape"], F: Float[Tensor, "*r_shape"] | None, D: Float[Tensor, "*r_shape"] | None
) -> Float[Tensor, "*r_shape"]:
    """W_eff = F + D * W (Eq. 2)."""
    scaled = W if D is None else D * W
    return scaled if F is None else F + scaled
