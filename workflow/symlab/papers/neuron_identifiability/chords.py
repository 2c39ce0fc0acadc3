"""How far a layer's outputs on the path between two networks are from the chord (main paper, Thms. 5.1 and D.1).

For W(lambda) = (1 - lambda) W_A + lambda W_B, xi(lambda; x) = eta(W(lambda) x) - (1 - lambda) eta(W_A x) - lambda
eta(W_B x). Biases and norms are left out, as in the theorems: a layer is its weights and its nonlinearity.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as functional
from jaxtyping import Float
from scipy.special import betainc
from torch import Tensor

from symlab.data.dataset import Dataset
from symlab.errors import UserError
from symlab.identifiability.recording import hidden_layers, layer_inputs
from symlab.measures.job import Job
from symlab.papers.neuron_identifiability.settings import Theory
from symlab.training.models import Models, move
from symlab.words import counted

SCALES = np.logspace(0, -4, 9).tolist()
"""Factors of the trainable parts."""

# The largest value on this grid stands for the supremum over lambda: for a chord that goes as lambda (1 - lambda), with
# its maximum anywhere between two points, it is at most 0.3 % below.
LAMBDAS = torch.linspace(0, 1, 21, dtype=torch.float64)[1:-1]

# sup |GELU''| = 2 phi(0): GELU'' = (2 - z^2) phi, with its extremes at 0 and +-2.
GELU_CURVATURE = math.sqrt(2 / math.pi)

# Points of a Fibonacci lattice for expectations over two Gaussians.
LATTICE = (1597, 987)

CHUNK_NEURONS = 64


def measure_chords(models: Models, data: Dataset, settings: Theory, job: Job) -> dict[str, Any]:
    """Chord deviation of each hidden layer on the path between the networks of a pair, against its bounds."""
    x = torch.from_numpy(data.split("train")[0][: settings.samples]).to(job.device)
    module, epoch = models.module().to(job.device), models.epochs[-1]
    tables = []
    for pair in models.pairs()[: settings.models // 2]:
        A, B = (move(models.state(epoch, position), job.device) for position in (pair.A, pair.B))
        inputs_A, inputs_B = (layer_inputs(module, state, x) for state in (A, B))
        layers = hidden_layers(module)
        for layer, name in layers.items():
            F, _ = models.fixed(pair.mask_seed)[f"{name}.weight"]
            # A layer reads different inputs in the two networks; both count.
            X = torch.cat([inputs_A[name], inputs_B[name]]).double().cpu()
            W_A, W_B = (state[f"{name}.weight"].cpu() for state in (A, B))
            table = chord_table(F, W_A, W_B, X.T @ X / len(X), X, SCALES)
            tables.append(table.assign(mask_seed=pair.mask_seed, pair=pair.pair, layer=layer))
        job.report(f"pair {pair.key}: {counted(len(layers), 'layers')} at {len(SCALES)} scales of the trainable parts")
    return {"chord_deviation.csv": pd.concat(tables, ignore_index=True)}


def chord_table(
    F: Float[Tensor, "m d"] | None,
    W_A: Float[Tensor, "m d"],
    W_B: Float[Tensor, "m d"],
    Sigma: Float[Tensor, "d d"],
    X: Float[Tensor, "n d"],
    scales: Sequence[float],
) -> pd.DataFrame:
    """sup over lambda of |xi|_L2 for weights F + s R_A and F + s R_B at every scale s, against the bounds.

    Args:
        F: the fixed weights both networks share; None stands for 0.
        W_A, W_B: the effective weights of two trained networks; R = W - F are their trainable parts.
        Sigma: the second moment E[x x^T] of the layer's inputs.
        X: inputs of the layer.
        scales: factors of the trainable parts; 1 gives the trained networks.

    Returns:
        One row a scale, inputs (``gaussian``: x ~ N(0, Sigma), exact for relu; ``data``: X) and nonlinearity: beta, the
        largest |r_i|_Sigma / |f_i|_Sigma of both networks; chord; norm_F, |F Sigma^1/2|_F; bound, by Eq. (226) or
        (244); assumption, empty where those of the theorem hold.

    Raises:
        UserError: the weights or inputs are not finite.
    """
    centre = torch.zeros_like(W_A, dtype=torch.float64) if F is None else F.double()
    trainable = (W_A.double() - centre, W_B.double() - centre)
    root = _root(Sigma)
    if not all(bool(torch.isfinite(given).all()) for given in (*trainable, root, X)):
        raise UserError("The weights or inputs of a layer are not finite; its network has diverged, train it again.")
    # In these coordinates the inner product of Sigma is the usual one.
    f, r_A, r_B = (weights @ root for weights in (centre, *trainable))
    at_centre, at_A, at_B = (X.double() @ weights.T for weights in (centre, *trainable))
    of_centres = torch.linalg.vector_norm(f, dim=1)
    norm_F = float(torch.linalg.vector_norm(of_centres))
    of_parts = torch.maximum(*(torch.linalg.vector_norm(r, dim=1) for r in (r_A, r_B)))
    # A neuron without a centre and without trainable part has no chord: 0 / 0 is 0 here.
    largest_ratio = float((of_parts / of_centres).nan_to_num(nan=0.0, posinf=math.inf).max())
    rows = []
    for scale in scales:
        beta = scale * largest_ratio
        measured = {
            ("gaussian", "relu"): gaussian_relu_chord(f, scale * r_A, scale * r_B),
            ("gaussian", "gelu"): gaussian_gelu_chord(f, scale * r_A, scale * r_B),
            ("data", "relu"): data_chord(at_centre, scale * at_A, scale * at_B, "relu"),
            ("data", "gelu"): data_chord(at_centre, scale * at_A, scale * at_B, "gelu"),
        }
        bounds = {"relu": relu_bound(beta, norm_F), "gelu": gelu_bound(beta, of_centres)}
        for (inputs, nonlinearity), chord in measured.items():
            violated = [] if beta < 1 else [f"beta = {beta:.3g} >= 1" if norm_F > 0 else "F = 0: beta is infinite"]
            if inputs == "data":
                violated.append("inputs are not Gaussian")
            rows.append(
                {"inputs": inputs, "nonlinearity": nonlinearity, "scale": scale, "beta": beta, "chord": chord}
                | {"norm_F": norm_F, "bound": bounds[nonlinearity], "assumption": "; ".join(violated)}
            )
    return pd.DataFrame(rows)


def relu_bound(beta: float, norm_F: float) -> float:
    """sqrt(2 / 3) pi (1 + beta) beta^(3/2) |F Sigma^1/2|_F (Eq. 226); NaN unless beta < 1."""
    if not beta < 1:
        return math.nan
    return math.sqrt(2 / 3) * math.pi * (1 + beta) * beta**1.5 * norm_F


def gelu_bound(beta: float, of_centres: Float[Tensor, " m"]) -> float:
    """sqrt(3) / 2 sup |GELU''| beta^2 (sum_i |f_i|_Sigma^4)^(1/2) (Eq. 244); NaN unless beta is finite."""
    if not math.isfinite(beta):
        return math.nan
    return math.sqrt(3) / 2 * GELU_CURVATURE * beta**2 * float(of_centres.pow(4).sum().sqrt())


def gaussian_relu_chord(f: Float[Tensor, "m d"], r_A: Float[Tensor, "m d"], r_B: Float[Tensor, "m d"]) -> float:
    """sup over lambda of |xi|_L2 for ReLU, weights f + r and x ~ N(0, I), without cancellation at any size of r.

    |xi_i| = min((1 - lambda) |Z_A|, lambda |Z_B|) where Z_A and Z_B have opposite signs, else 0 (Eq. 196). In polar
    coordinates of the plane of both weights, which form an angle theta, these are two wedges of that angle (Eq. 205).
    The smaller one of the two terms changes where W(lambda) x = 0, so that E xi_i^2 = (2 / pi) (a^2 g(psi) + b^2
    g(theta - psi)) with a = (1 - lambda) sigma_A, b = lambda sigma_B, psi the angle between W_A and W(lambda), and g(t)
    the integral of sin^2 from 0 to t.
    """
    sigma_A, sigma_B, theta = _plane(f, r_A, r_B)
    a, b = (1 - LAMBDAS)[:, None] * sigma_A, LAMBDAS[:, None] * sigma_B
    from_A = torch.atan2(b * theta.sin(), a + b * theta.cos())
    from_B = torch.atan2(a * theta.sin(), b + a * theta.cos())
    squares = 2 / math.pi * (a.square() * _sine_square_integral(from_A) + b.square() * _sine_square_integral(from_B))
    return float(squares.sum(dim=1).max().sqrt())


def gaussian_gelu_chord(f: Float[Tensor, "m d"], r_A: Float[Tensor, "m d"], r_B: Float[Tensor, "m d"]) -> float:
    """sup over lambda of |xi|_L2 for GELU, weights f + r and x ~ N(0, I).

    By a lattice rule in polar coordinates of the plane of both weights, to a relative error of 1e-3 where W x is of
    order 1, and of some 1e-2 where it is of order 30 and more. xi is even, since GELU(z) - z / 2 is, so half a turn is
    enough. Rounding grows as 1e-15 / beta^2.
    """
    sigma_A, sigma_B, theta = _plane(f, r_A, r_B)
    n, generator = LATTICE
    index = torch.arange(n, dtype=torch.float64)
    turn = math.pi * (index + 0.5) / n
    # exp(-radius^2 / 2) is uniform; as 3 t^2 - 2 t^3 with the weight 6 t (1 - t), what is summed is periodic in t too.
    t = ((index * generator) % n + 0.5) / n
    radius = (-2 * (t.square() * (3 - 2 * t)).log()).sqrt()
    at_A = (radius * turn.cos())[:, None] * sigma_A
    at_B = radius[:, None] * (turn[:, None] - theta).cos() * sigma_B
    return _largest(at_A, at_B, _gelu_chord, 6 * t * (1 - t))


def data_chord(
    at_centre: Float[Tensor, "n m"], at_A: Float[Tensor, "n m"], at_B: Float[Tensor, "n m"], nonlinearity: str
) -> float:
    """sup over lambda of |xi|_L2 on n inputs, from the values there of the fixed and the two trainable parts."""
    chord = {"relu": _relu_chord, "gelu": _gelu_chord}[nonlinearity]
    return _largest(at_centre + at_A, at_centre + at_B, chord, torch.ones_like(at_centre[:, 0]))


def _largest(
    Z_A: Tensor, Z_B: Tensor, chord: Callable[[Tensor, Tensor, float], Tensor], weights: Float[Tensor, " n"]
) -> float:
    """sup over lambda of the root of the weighted mean over rows of |xi|^2, for preactivations [n, m]."""
    squares = torch.zeros_like(LAMBDAS)
    # Few neurons at a time stay in the processor's cache.
    for part_A, part_B in zip(Z_A.split(CHUNK_NEURONS, dim=1), Z_B.split(CHUNK_NEURONS, dim=1), strict=True):
        for index, lam in enumerate(LAMBDAS.tolist()):
            squares[index] += torch.mv(chord(part_A, part_B, lam).square().T, weights).sum()
    return float(squares.max().div(len(Z_A)).sqrt())


def _relu_chord(Z_A: Tensor, Z_B: Tensor, lam: float) -> Tensor:
    """-xi of ReLU by Eq. (196), exact where Z_A and Z_B nearly agree."""
    return torch.minimum((1 - lam) * Z_A.abs(), lam * Z_B.abs()).masked_fill_(Z_A * Z_B > 0, 0.0)


def _gelu_chord(Z_A: Tensor, Z_B: Tensor, lam: float) -> Tensor:
    middle = functional.gelu(torch.lerp(Z_A, Z_B, lam))
    return middle - torch.lerp(functional.gelu(Z_A), functional.gelu(Z_B), lam)


def _plane(f: Tensor, r_A: Tensor, r_B: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """|f + r_A|, |f + r_B| and the angle between them, of every row; the angle is accurate however small."""
    A, B, between = f + r_A, f + r_B, r_B - r_A
    sigma_A, sigma_B = (torch.linalg.vector_norm(w, dim=1) for w in (A, B))
    # The part of the difference across A, not the arc cosine of a correlation, which rounds 1 - theta^2 / 2.
    along = ((between * A).sum(dim=1) / sigma_A.square()).nan_to_num(0.0)
    across = torch.linalg.vector_norm(between - along[:, None] * A, dim=1)
    return sigma_A, sigma_B, torch.atan2(across * sigma_A, (A * B).sum(dim=1))


def _sine_square_integral(t: Tensor) -> Tensor:
    """The integral of sin^2 from 0 to t in [0, pi], to full relative accuracy."""
    # For small t, where the second form loses digits, as an incomplete beta function of sin(t)^2.
    small = torch.from_numpy(betainc(1.5, 0.5, t.sin().square().numpy())) * math.pi / 4
    return torch.where(t < 0.5, small, (t - t.sin() * t.cos()) / 2)


def _root(Sigma: Tensor) -> Tensor:
    """A matrix L with L L^T = Sigma, the rounding of its zero eigenvalues left out."""
    eigenvalues, vectors = torch.linalg.eigh(Sigma.double())
    return vectors * eigenvalues.clamp_min(0).sqrt()
