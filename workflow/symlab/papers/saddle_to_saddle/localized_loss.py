"""The localized loss of a bias-free ReLU network at the origin, escape directions, and what bounds their speeds.

G [n_L, N] is the gradient of the cost at output 0; weights, inputs and layers are those of ``chain``. The localized
loss L0 = Tr[G^T Y] is the cost's first-order change at output Y, of degree L in the weights (Section 2.1).
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from symlab.papers.saddle_to_saddle.chain import Weights, chain_gradient, run_layers, squared_norm


def to_sphere(W: Weights) -> list[Tensor]:
    """The weights scaled to the sphere of squared norm L."""
    factor = (len(W) / squared_norm(W)).sqrt()[..., None, None]
    return [factor * W_l for W_l in W]


class Escape(NamedTuple):
    """How weights stand to an escape direction: [...].

    speed: s = -L0 on the sphere of squared norm L; that of the direction, if they point along one.
    residual: |grad L0(rho) + s rho| / (s sqrt(L)), which is 0 along an escape direction rho.
    """

    speed: Tensor
    residual: Tensor


def escape_of(W: Weights, X: Float[Tensor, "d n"], G: Float[Tensor, "k n"], linear: bool = False) -> Escape:
    """Speed and residual of the weights' direction."""
    rho = to_sphere(W)
    gradient = chain_gradient(rho, *run_layers(rho, X, linear), G, linear)
    # Euler's identity: rho times the gradient is L times L0.
    speed = -torch.stack([(g * rho_l).sum((-2, -1)) for g, rho_l in zip(gradient, rho, strict=True)]).sum(0) / len(rho)
    beside = [g + speed[..., None, None] * rho_l for g, rho_l in zip(gradient, rho, strict=True)]
    return Escape(speed, squared_norm(beside).sqrt() / (speed * math.sqrt(len(rho))))


def beyond_rank_one(M: Float[Tensor, "... a b"]) -> Float[Tensor, "..."]:
    """Share of the squared Frobenius norm that is not the first singular value's; NaN for a matrix of zeros."""
    squares = squared_singular_values(M)
    return squares[..., 1:].sum(-1) / squares.sum(-1)


def squared_singular_values(M: Float[Tensor, "... a b"]) -> Float[Tensor, "... c"]:
    """From the largest on, by the eigenvalues of M M^T or M^T M: right but for 1e-16 of the largest."""
    small = M if M.shape[-2] <= M.shape[-1] else M.mT
    return torch.linalg.eigvalsh(small @ small.mT).flip(-1).clamp_min(0)


def first_direction(M: Float[Tensor, "a b"], steps: int = 100) -> Float[Tensor, " b"]:
    """The first right singular vector, by power iteration; of equal first values, a mixture."""
    v = M[M.norm(dim=1).argmax()]
    for _ in range(steps):
        v = M.T @ (M @ (v / v.norm()))
    return v / v.norm()


def layer_ratios(W: Weights, X: Float[Tensor, "d n"], linear: bool = False) -> dict[str, Float[Tensor, " layers"]]:
    """How far one network's weights and activations are from rank one, and its layers from linear ones (Theorem 3.1).

    Returns:
        A_l of W_l for l = 1 .. L, B_l of Z_l^s for l = 0 .. L-1, D_l, the share that relu cuts, for l = 1 .. L-1.
    """
    Z, inner = run_layers(W, X, linear)
    cut = [(Z_l - Z_s).square().sum() / Z_l.square().sum() for Z_l, Z_s in zip(Z, inner[1:], strict=False)]
    A, B = ([beyond_rank_one(M) for M in matrices] for matrices in (W, inner))
    return {name: torch.stack(values) for name, values in (("A", A), ("B", B), ("D", cut))}


def bound_near_rank_one(noise: float, G: Float[Tensor, "k n"], speed: float) -> float:
    """Proposition 3.3's bound on the ratios for inputs u v^T + E, |E|_F <= noise; infinite where it says nothing."""
    lost = float(G.norm()) * noise
    return 8 * lost / (speed - lost) if lost < speed else math.inf


def speed_budget(
    W: Weights, X: Float[Tensor, "d n"], G: Float[Tensor, "k n"]
) -> dict[tuple[str, int], Float[Tensor, ""]]:
    """Where one network loses speed, by term and layer: the terms sum to log(|X| |G| / s), an identity.

    On the sphere none but ``norms`` is negative; at any norm the localized loss is to be. Layer 0 are the inputs, layer
    L + 1 is the output.

    Returns:
        norms: -log |W_l|_F, whose sum is not negative; rank: -1/2 log(1 - B_l), l = 0 .. L-1; cut: -1/2 log(1 - D_l),
        l = 1 .. L-1; alignment: of W_l with the strongest direction of its inputs; output: -log cos(-G, Y).
    """
    Z, inner = run_layers(W, X)
    L, cosine = len(W), -(G * Z[-1]).sum() / (G.norm() * Z[-1].norm())
    norm, before, after = ([M.norm() for M in matrices] for matrices in (W, Z, inner))
    strongest = [squared_singular_values(Z_s)[0].sqrt() for Z_s in inner]
    # As quotients of norms: 1 - B and 1 - D have few digits left where B or D is nearly 1.
    return {
        **{("norms", at + 1): -norm[at].log() for at in range(L)},
        **{("rank", at): (after[at] / strongest[at]).log() for at in range(L)},
        **{("cut", at + 1): (before[at] / after[at + 1]).log() for at in range(L - 1)},
        **{("alignment", at + 1): (norm[at] * strongest[at] / before[at]).log() for at in range(L)},
        ("output", L + 1): -cosine.log(),
    }


def lift(W: Weights, X: Float[Tensor, "d n"], G: Float[Tensor, "k n"], k: int) -> list[Tensor]:
    """Weights of depth L + k, of squared norm L + k, that are no slower than the given ones (Proposition 3.2).

    All that the last hidden layer computes is handed to its most useful unit; layers L-1 .. L+k have rank one. The
    weights are one network's, of depth 2 or more, on the sphere of squared norm L.
    """
    *lower, W_hidden, W_out = W
    _, inner = run_layers(W, X)
    into, out = W_hidden.norm(dim=1), W_out.norm(dim=0)
    alive = into * out > 0
    unit_in = W_hidden / torch.where(alive, into, 1)[:, None]
    unit_out = W_out / torch.where(alive, out, 1)
    gains = torch.einsum("kn,ki,in->i", G, unit_out, (unit_in @ inner[-2]).clamp_min(0))
    best = int(torch.where(alive, gains, math.inf).argmin())
    root = (into * out).sum().sqrt()
    first, last = torch.zeros_like(W_hidden), torch.zeros_like(W_out)
    first[0], last[:, 0] = root * unit_in[best], root * unit_out[:, best]
    passing = W_hidden.new_zeros(len(W_hidden), len(W_hidden))
    passing[0, 0] = 1
    return to_sphere([*lower, first, *(passing.clone() for _ in range(k)), last])
