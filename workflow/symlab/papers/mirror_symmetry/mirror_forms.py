"""The paper's own mirrors, of tensors by their names, and what small networks tell of any: Hessian and basis.

A mirror is a reflection of states (``symmetries.mirrors``); those of traced networks are found there.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad
from torch.nn.attention import SDPBackend, sdpa_kernel

from symlab.symmetries.actions import Action, act
from symlab.symmetries.mirrors import Loss, Mirror, State, inner


def equal_rows(a: int, b: int) -> Mirror:
    """The permutation mirror of two neurons of each of which every tensor has a row."""

    def reflect(state: State) -> State:
        order = list(range(len(next(iter(state.values())))))
        order[a], order[b] = b, a
        return {name: value[order] for name, value in state.items()}

    return Mirror(f"{a} = {b}", reflect)


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


def hessian_times(loss: Loss, state: State, v: State) -> State:
    """H v, the Hessian's product with a direction: the gradient of the gradient's inner product with it."""
    # The fused attention cannot be differentiated twice.
    with sdpa_kernel(SDPBackend.MATH):
        return grad(lambda at: inner(grad(loss)(at), v))(state)


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
