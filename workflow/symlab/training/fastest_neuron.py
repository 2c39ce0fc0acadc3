"""The neuron that leaves the origin fastest."""

import torch
import torch.nn.functional as functional
from jaxtyping import Float
from torch import Tensor


def fastest_neuron(
    X: Float[Tensor, "d n"], G: Float[Tensor, "k n"], linear: bool = False, starts: int = 32, steps: int = 400
) -> tuple[float, Float[Tensor, " d"]]:
    """Speed and input weights v, |v| = 1, of the fastest neuron: the largest |G relu(X^T v)| that ascents find.

    One neuron a layer leaves at that speed whatever the depth, and no network of depth 2 is faster (Proposition 3.2).
    The speed is of degree 1 in v: each step adds its gradient, over the speed, and goes back to |v| = 1. Steps get
    smaller, since the largest may be at a kink.
    """
    if linear:
        _, values, directions = torch.linalg.svd(G @ X.T, full_matrices=False)
        return float(values[0]), directions[0]
    drawn = torch.Generator().manual_seed(0)
    V = torch.cat([torch.randn(starts, len(X), generator=drawn, dtype=torch.float64).to(X), -G @ X.T])
    for step in range(steps):
        V = functional.normalize(V)
        active = V @ X
        U = active.clamp_min(0) @ G.T
        speed = torch.linalg.vector_norm(U, dim=1, keepdim=True).clamp_min(1e-30)
        V = V + _share(step / steps) * ((U / speed) @ G * (active > 0)) @ X.T / speed
    V = functional.normalize(V)
    speeds = torch.linalg.vector_norm((V @ X).clamp_min(0) @ G.T, dim=1)
    best = int(speeds.argmax())
    return float(speeds[best]), V[best]


def _share(done: float) -> float:
    return 1.0 if done < 0.5 else 0.1 if done < 0.8 else 0.01
