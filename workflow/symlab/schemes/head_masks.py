"""W-asymmetry that knows attention heads: ours, beyond the main paper, which leaves it to future work (G.4)."""

import torch
from jaxtyping import Float
from torch import Tensor

from symlab.errors import UserError
from symlab.schemes import WAsymmetricHeads
from symlab.schemes.fixed_counts import fixed_counts
from symlab.schemes.fixed_parts import FixedParts, Shapes, entries, fixed_at, place, place_in_rows
from symlab.seeds import torch_generator

READS = ("query", "key", "value")
WRITES = "output"


def w_asymmetric_heads(scheme: WAsymmetricHeads, shapes: Shapes, seed: tuple[str | int, ...]) -> FixedParts:
    """``w_asymmetric`` with masks that belong to heads instead of to single neurons of the attention maps.

    All rows of one head (of ``scheme.heads``) in a map named query, key or value share the columns that are fixed, each
    head has columns of its own, and the values F stay independent: a head is told apart by what it reads. In a map
    named output the fixed columns of a row are spread evenly over the heads that it reads. Other maps are as in
    ``w_asymmetric``.

    Raises:
        UserError: no map has one of these names, or heads or counts do not fit the maps.
    """
    counts = fixed_counts(scheme, {weight: entries(shape) for weight, shape in shapes.items()})
    maps = {weight: weight.removesuffix(".weight").rpartition(".")[2] for weight in shapes}
    if not {*READS, WRITES}.intersection(maps.values()):
        raise UserError(
            "scheme w_asymmetric_heads finds no attention in the network: no linear map is named query, key, value or "
            "output; use w_asymmetric."
        )
    parts: FixedParts = {}
    for weight, shape in shapes.items():
        generator = torch_generator(*seed, "fixed", weight)
        if maps[weight] in READS:
            M = _shared_by_head(weight, shape, counts[weight], scheme.heads, generator)
        elif maps[weight] == WRITES:
            M = _spread_over_heads(weight, shape, counts[weight], scheme.heads, generator)
        else:
            M = place(shape, counts[weight], generator)
        parts[weight] = fixed_at(M, scheme.sigma_F, generator)
    return parts


def _shared_by_head(
    weight: str, shape: tuple[int, ...], n_fixed: int, heads: int, generator: torch.Generator
) -> Float[Tensor, "out in"]:
    fan_out, fan_in = shape
    _check_heads(weight, fan_out, "rows", heads)
    return place_in_rows(heads, fan_in, n_fixed, generator).repeat_interleave(fan_out // heads, dim=0)


def _spread_over_heads(
    weight: str, shape: tuple[int, ...], n_fixed: int, heads: int, generator: torch.Generator
) -> Float[Tensor, "out in"]:
    fan_out, fan_in = shape
    _check_heads(weight, fan_in, "columns", heads)
    if n_fixed % heads:
        raise UserError(
            f"scheme w_asymmetric_heads would fix {n_fixed} weights in each row of {weight}, which cannot be spread "
            f"evenly over {heads} heads; choose a multiple of {heads} there."
        )
    return place_in_rows(fan_out * heads, fan_in // heads, n_fixed // heads, generator).view(fan_out, fan_in)


def _check_heads(weight: str, size: int, axis: str, heads: int) -> None:
    if size % heads:
        raise UserError(f"scheme.heads = {heads} does not divide the {size} {axis} of {weight}.")
