"""Mirrors of a loss: reflections R of the parameters, l(R theta) = l(theta), and what they say of gradient and Hessian.

A mirror with orthonormal columns O reflects by R = I - 2 O O^T (Ziyin 2024, Definition 1). R alone says the rest: with
P = O O^T = (I - R) / 2, a point is split into P theta, off the mirror, and (I - P) theta on it, and |O^T theta| is
|P theta|. So a mirror is a linear map of states here, and no matrix.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from symlab.symmetries.signs import Flip, apply_flips, flipped
from symlab.symmetries.symmetry_spec import SymmetrySpec, permuted, shape

State = dict[str, Tensor]
Loss = Callable[[State], Tensor]


@dataclass(frozen=True)
class Mirror:
    """A reflection of states: linear, orthogonal, and its own inverse."""

    name: str
    reflect: Callable[[State], State]

    def off(self, state: State) -> State:
        """P theta, the part that the reflection turns round."""
        turned = self.reflect(state)
        return {name: (value - turned[name]) / 2 for name, value in state.items()}

    def on(self, state: State) -> State:
        """(I - P) theta, the nearest point of the mirror."""
        turned = self.reflect(state)
        return {name: (value + turned[name]) / 2 for name, value in state.items()}

    def order_parameter(self, state: State) -> float:
        """|O^T theta|, the distance from the mirror."""
        return norm(self.off(state))


def neurons(spec: SymmetrySpec, group: str, a: int, b: int) -> Mirror:
    """The permutation mirror of two neurons of a traced group: on it their parameters are equal (Theorem 4).

    Of a group that lies within others it is the pair within every neuron of theirs.
    """
    order = np.arange(spec.groups[group].size)
    order[[a, b]] = order[[b, a]]
    swap = {group: np.broadcast_to(order, shape(group, spec.groups)).copy()}

    def reflect(state: State) -> State:
        return {
            name: permuted(value, spec.axes[name], swap, spec.groups) if name in spec.axes else value
            for name, value in state.items()
        }

    return Mirror(f"{group}: {a} = {b}", reflect)


def vanishing(spec: SymmetrySpec, flip: Flip, neuron: int) -> Mirror:
    """The mirror of one neuron's free sign: on it all that the sign turns round is 0 (Theorem 2).

    A neuron of an odd activation has one, and so has a dimension of a head's query and key, and of value and output.
    """
    signs = np.ones(shape(flip.group, spec.groups), dtype=int)
    signs.flat[neuron] = -1
    return Mirror(f"{flip.group}: {neuron} = 0", lambda state: apply_flips(state, spec, [flip], {0: signs}))


def turned_lengths(spec: SymmetrySpec, flip: Flip, state: Mapping[str, Tensor]) -> Float[Tensor, " neurons"]:
    """Norm of all that the sign of each neuron turns round, neurons within others one after another."""
    factors = torch.ones(shape(flip.group, spec.groups), dtype=torch.float64, requires_grad=True)
    parts = {name: where for name, where in flip.turned.items() if name in state}
    squares = [
        flipped(state[name].double(), spec.axes[name], where, spec.groups, factors).square().sum()
        for name, where in parts.items()
    ]
    # A factor's share of the sum is its square times the neuron's.
    (slope,) = torch.autograd.grad(torch.stack(squares).sum(), factors)
    return (slope.flatten() / 2).sqrt()


def norm(state: Mapping[str, Tensor]) -> float:
    """The Euclidean norm of all tensors together."""
    return float(torch.stack([value.norm() for value in state.values()]).norm())


def relative_distances(theta: Float[Tensor, "m p"]) -> Float[Tensor, "m m"]:
    """|theta_a - theta_b| / (|theta_a| + |theta_b|) of rows: 0 for merged neurons, 1 / sqrt(2) for unrelated ones."""
    lengths = theta.norm(dim=1)
    apart = torch.cdist(theta, theta, compute_mode="donot_use_mm_for_euclid_dist")
    return apart / (lengths[:, None] + lengths).clamp(min=1e-300)


def inner(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> Float[Tensor, ""]:
    """The inner product of two states."""
    return torch.stack([(a[name] * b[name]).sum() for name in a]).sum()


def unit(state: State) -> State:
    """The state over its norm."""
    length = norm(state)
    return {name: value / length for name, value in state.items()}


def random_state(like: State, generator: torch.Generator) -> State:
    """Independent N(0, 1) entries, of the shapes and types of a state."""
    return {name: torch.randn(t.shape, generator=generator, dtype=t.dtype) for name, t in like.items()}


def slopes(loss: Loss, state: State, v: State) -> tuple[State, State]:
    """The gradient, and H v, in one pass: two thirds of the time of both apart, but not to be mapped over.

    Parameters that v leaves out stay as they are along it, and H v is not taken in them.
    """
    leaves = {name: value.detach().requires_grad_() for name, value in state.items()}
    with sdpa_kernel(SDPBackend.MATH):
        at = list(leaves.values())
        gradient = torch.autograd.grad(loss(leaves), at, create_graph=True, materialize_grads=True)
        slope = inner(v, dict(zip(leaves, gradient, strict=True)))
        # A loss that is linear has the same gradient everywhere.
        turned = {name: leaves[name] for name in v}
        product = (
            torch.autograd.grad(slope, [*turned.values()], materialize_grads=True)
            if slope.requires_grad
            else [torch.zeros_like(value) for value in turned.values()]
        )
    return {name: g.detach() for name, g in zip(leaves, gradient, strict=True)}, dict(zip(turned, product, strict=True))
