"""Which axes of which tensors permute together when the neurons of a network are renumbered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from symlab.errors import UserError


@dataclass(frozen=True)
class SymmetrySpec:
    """The permutation symmetries of a network, as data.

    A *group* is a set of neurons that are renumbered by one permutation, e.g. the neurons of one hidden layer.

    Attributes:
        axes: for each parameter and buffer, the group that acts on each of its axes (None: the axis stays as it is).
        points: for each group, the submodule whose output [n, d] is recorded for matching (post-norm, post-activation).
        sizes: for each group, its number of neurons d.
    """

    axes: dict[str, tuple[str | None, ...]]
    points: dict[str, str]
    sizes: dict[str, int]


def validate(spec: SymmetrySpec, state: Mapping[str, Tensor]) -> None:
    """Check that the spec covers every tensor of ``state`` and that every permuted axis has its group's size.

    Raises:
        UserError: names the first tensor, axis or group that does not fit.
    """
    for name in state:
        if name not in spec.axes:
            raise UserError(f"the symmetry spec says nothing of {name!r}: add it to axes, with None for fixed axes.")
    for name, groups in spec.axes.items():
        if name not in state:
            raise UserError(f"the symmetry spec names {name!r}, which the network does not have: remove it from axes.")
        shape = tuple(state[name].shape)
        if len(groups) != len(shape):
            raise UserError(f"the symmetry spec gives {len(groups)} axes for {name!r}, whose shape is {shape}.")
        for axis, group in enumerate(groups):
            if group is None:
                continue
            if group not in spec.sizes:
                raise UserError(f"the symmetry spec lets unknown group {group!r} act on {name!r}: add it to sizes.")
            if shape[axis] != spec.sizes[group]:
                raise UserError(
                    f"axis {axis} of {name!r} has {shape[axis]} entries, "
                    f"but group {group!r} permutes {spec.sizes[group]} neurons."
                )
    if spec.points.keys() != spec.sizes.keys():
        raise UserError(
            f"the symmetry spec has recording points for {sorted(spec.points)}, "
            f"but its groups are {sorted(spec.sizes)}: give each group one."
        )


def symmetry_spec(module: nn.Module) -> SymmetrySpec:
    """The permutation symmetries of ``module``.

    Raises:
        UserError: the module is not built like an MLP (``linears``, ``norms``, ``activations``).
    """
    children = {name for name, _ in module.named_children()}
    if not {"linears", "activations"} <= children <= {"linears", "norms", "activations"}:
        raise UserError(
            f"no symmetry spec is known for a {type(module).__name__}: alignment needs a network made of "
            f"linears, norms and activations; write a SymmetrySpec for this one."
        )
    return mlp_spec(module)


def mlp_spec(module: nn.Module) -> SymmetrySpec:
    """One group a hidden layer: ``hidden1`` are the outputs of ``activations.0``, and so on.

    Works on modules whose l-th activation follows the l-th of ``linears`` (and of ``norms``, if there are any): the
    MLP, and the coherence student, whose only layer is hidden because the sum behind it does not see the order.

    Raises:
        UserError: a parameter or buffer does not fit this picture.
    """
    # torch types a module's children as Tensor | Module, which have no length.
    mlp: Any = module
    linears, activations = mlp.linears, mlp.activations
    group_of_output = [f"hidden{layer + 1}" if layer < len(activations) else None for layer in range(len(linears))]
    group_of_input = [None, *group_of_output]

    axes: dict[str, tuple[str | None, ...]] = {}
    for layer, linear in enumerate(linears):
        for name, tensor in linear.state_dict().items():
            of_both = (group_of_output[layer], group_of_input[layer])
            axes[f"linears.{layer}.{name}"] = of_both[: tensor.dim()]
    for kind, modules in (("norms", getattr(mlp, "norms", ())), ("activations", activations)):
        for layer, submodule in enumerate(modules):
            for name, tensor in submodule.state_dict().items():
                # A norm's vectors have one axis, num_batches_tracked has none, a sigma-activation's C has two.
                axes[f"{kind}.{layer}.{name}"] = (group_of_output[layer],) * tensor.dim()

    groups = [group for group in group_of_output if group is not None]
    spec = SymmetrySpec(
        axes=axes,
        points={group: f"activations.{layer}" for layer, group in enumerate(groups)},
        sizes={group: linears[layer].out_features for layer, group in enumerate(groups)},
    )
    validate(spec, module.state_dict())
    return spec
