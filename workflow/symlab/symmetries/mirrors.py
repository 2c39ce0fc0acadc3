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
from torch.func import grad
from torch.nn.attention import SDPBackend, sdpa_kernel

from symlab.symmetries.actions import Action, act
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


def equal_rows(a: int, b: int) -> Mirror:
    """The permutation mirror of two neurons of each of which every tensor has a row."""

    def reflect(state: State) -> State:
        order = list(range(len(next(iter(state.values())))))
        order[a], order[b] = b, a
        return {name: value[order] for name, value in state.items()}

    return Mirror(f"{a} = {b}", reflect)


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


def rescaling(u: str, w: str, entry: int) -> Mirror:
    """Of l(rho u, w / rho) = l(u, w): u <-> w, for one entry of both tensors (Theorem 2)."""

    def reflect(state: State) -> State:
        where = torch.zeros_like(state[u], dtype=torch.bool)
        where.view(-1)[entry] = True
        swapped = {u: torch.where(where, state[w], state[u]), w: torch.where(where, state[u], state[w])}
        return {**state, **swapped}

    return Mirror(f"{u} = {w}", reflect)


def sign_flip(*names: str) -> Mirror:
    """Of l(-u, -w) = l(u, w): O is the identity on the named tensors, which are 0 on the mirror (Theorem 2)."""
    return Mirror(
        f"{' = '.join(names)} = 0", lambda state: {name: -t if name in names else t for name, t in state.items()}
    )


def rotation(W: str, n: Float[Tensor, " rows"]) -> Mirror:
    """Of l(Omega W) = l(W), Omega orthogonal: n^T W = 0 for a unit vector n (Theorem 3)."""
    return Mirror(f"n^T {W} = 0", lambda state: {**state, W: state[W] - 2 * torch.outer(n, n @ state[W])})


def turned(action: Action, n: Float[Tensor, " size"], outer: int = 0) -> Mirror:
    """The mirror of a group's neurons of which all rotations are free: n^T W = 0 wherever they occur (Theorem 3).

    Args:
        action: of the kind "orthogonal" or "invertible".
        n: of length 1.
        outer: the neuron of the groups that the group lies within, such as a head.
    """
    R = torch.eye(len(n), dtype=n.dtype).repeat(*action.size[:-1], 1, 1)
    R.view(-1, len(n), len(n))[outer] -= 2 * torch.outer(n, n)
    return Mirror(f"{action.group}: n^T W = 0", lambda state: act(state, action, R))


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


def hessian_times(loss: Loss, state: State, v: State) -> State:
    """H v, the Hessian's product with a direction: the gradient of the gradient's inner product with it."""
    # The fused attention cannot be differentiated twice.
    with sdpa_kernel(SDPBackend.MATH):
        return grad(lambda at: inner(grad(loss)(at), v))(state)


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


def basis(mirror: Mirror, like: State) -> tuple[Float[Tensor, "d k"], Float[Tensor, "d c"]]:
    """Orthonormal columns O and O_perp of all parameters, flat in the state's order; for small networks."""
    d = sum(value.numel() for value in like.values())
    P = torch.stack([flat(mirror.off(unflat(row, like))) for row in torch.eye(d, dtype=torch.float64)])
    values, vectors = torch.linalg.eigh((P + P.T) / 2)
    return vectors[:, values > 0.5], vectors[:, values <= 0.5]


def flat(state: State) -> Float[Tensor, " d"]:
    """All entries one after another."""
    return torch.cat([value.reshape(-1) for value in state.values()])


def unflat(vector: Float[Tensor, " d"], like: State) -> State:
    """The state whose entries are those of a vector."""
    parts = vector.split([value.numel() for value in like.values()])
    return {name: part.view(value.shape) for part, (name, value) in zip(parts, like.items(), strict=True)}
