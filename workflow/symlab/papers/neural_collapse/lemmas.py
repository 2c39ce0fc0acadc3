"""Lemma 4.2 by minimising free features, its converse by scaling collapsed pairs, and the example of one dimension."""

import math
from collections.abc import Callable
from functools import partial

import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy.optimize import minimize_scalar
from torch import Tensor

from symlab.measures.collapse import collapse_metrics
from symlab.measures.collapse_bounds import least_loss
from symlab.measures.job import Job
from symlab.networks.layernorm_resnet import normalise
from symlab.papers.neural_collapse.settings import Lemmas
from symlab.seeds import torch_generator
from symlab.training.lbfgs import LBFGS
from symlab.training.samples import losses

TASKS = {"cross_entropy": "classification", "squared_error": "one_hot", "squared_error with bias": "one_hot"}
MEMORY, TOLERANCE = 20, 1e-9
SMALL = 0.01
"""Scale of W at first."""
FITTED = 1e-5
"""Penalty of the example, whose fit is then exact to its order."""


def minimise_free_features(settings: Lemmas, job: Job, loss: str, seed: int) -> dict[str, pd.DataFrame]:
    """Free features from one random start, and a random collapsed pair scaled; of one loss the example, too."""
    generator = torch_generator(job.study, "free features", loss, seed)
    K, d, penalty = settings.classes, settings.width, settings.penalty
    y = torch.arange(K).repeat_interleave(settings.per_class)
    biased = loss != "squared_error"
    best = (
        least_loss(d, K, penalty) if loss == "cross_entropy" else squared_error_optimum(d, K, penalty, bias=biased)[0]
    )
    value, H, W = free_optimum(y, K, d, penalty, partial(losses, TASKS[loss]), biased, settings.iterations, generator)
    metrics = collapse_metrics(H, W, y, shifts=loss != "cross_entropy")
    row = {"loss": loss, "seed": seed, "excess": value / best - 1, "NC1": float(metrics["NC1"])}
    row |= {"NC2": float(metrics["NC2A" if biased else "NC2B"]), "NC3": float(metrics["NC3"])}
    scaled, minima = scale_collapsed(y, K, d, penalty, loss, generator)
    row |= {"scaled_excess": scaled / best - 1, "minima": minima}
    tables = {"free_features.csv": pd.DataFrame([row])}
    if loss == "cross_entropy":
        rows = [
            {"L": L, "layers": layers, "seed": seed, **scalar_network(L, layers, settings.exponent, generator)}
            for L in settings.L
            for layers in (1, 2)
        ]
        tables["scalar_depth.csv"] = pd.DataFrame(rows)
    return tables


def squared_error_optimum(d: int, K: int, penalty: float, bias: bool = False) -> tuple[float, float]:
    """Optimal value and norm of W's rows under (1 / 2N) |W X - Y|^2, without or with a free bias (orthogonal rows, or
    a simplex)."""
    if bias:
        value = (K - 1) * penalty / (2 * (d * K / (K - 1) + penalty * K))
        return value, math.sqrt(d) * (K - 1) / (K * (d + penalty * (K - 1)))
    return K * penalty / (2 * (d + penalty * K)), math.sqrt(d) / (d + penalty * K)


def free_optimum(
    y: Int[Tensor, " n"],
    K: int,
    d: int,
    penalty: float,
    loss: Callable[[Tensor, Tensor], Tensor],
    bias: bool,
    iterations: int,
    generator: torch.Generator,
) -> tuple[float, Float[Tensor, "n d"], Float[Tensor, "k d"]]:
    """The least loss with penalty / 2 |W|^2 over features on the sphere, W and a free bias that one random start gives.

    Of any continuous loss: this is the generalised unconstrained features model of Definition 3.5.
    """
    N = len(y)
    drawn = torch.randn(N * d, generator=generator), SMALL * torch.randn(K * d, generator=generator), torch.zeros(K)
    theta = torch.cat(drawn).double()[None]

    def parts(theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        H, W, b = theta[0].split([N * d, K * d, K])
        return normalise(H.reshape(N, d)), W.reshape(K, d), b if bias else 0 * b

    def value(theta: Tensor) -> Tensor:
        H, W, b = parts(theta)
        return loss(H @ W.T + b, y) + penalty / 2 * W.square().sum()

    found = _minimised(value, theta, iterations)
    H, W, _ = parts(found.theta)
    return float(found.value), H, W


def _minimised(value: Callable[[Tensor], Tensor], theta: Tensor, iterations: int) -> LBFGS:
    def evaluate(theta: Tensor) -> tuple[Tensor, Tensor]:
        leaf = theta.clone().requires_grad_()
        found = value(leaf)
        return found.detach()[None], torch.autograd.grad(found, leaf)[0]

    found = LBFGS(evaluate, theta, MEMORY, TOLERANCE)
    while found.busy(iterations).any():
        found.iterate(iterations)
    return found


def scale_collapsed(
    y: Int[Tensor, " n"], K: int, d: int, penalty: float, loss: str, generator: torch.Generator
) -> tuple[float, int]:
    """The least loss over scales c of W of a random collapsed pair (c W, H), and the number of local minima along c."""
    basis = torch.linalg.qr(torch.cat([torch.ones(d, 1), torch.randn(d, K, generator=generator)], 1).double()).Q[:, 1:]
    frame = torch.eye(K).double() if loss == "squared_error" else torch.eye(K).double() - 1 / K
    rows = frame @ basis.T
    rows = rows / rows.norm(dim=1, keepdim=True)
    H = math.sqrt(d) * rows[y]
    bias = torch.full((K,), 1 / K) if loss == "squared_error with bias" else torch.zeros(K)

    def value(c: float) -> float:
        outputs = c * H @ rows.T + bias
        return float(losses(TASKS[loss], outputs, y) + penalty / 2 * K * c * c)

    grid = [value(10.0**power) for power in torch.linspace(-4, 2, 601).tolist()]
    minima = sum(a > b < c for a, b, c in zip(grid, grid[1:], grid[2:], strict=False))
    return float(minimize_scalar(value, bounds=(0, 100), method="bounded", options={"xatol": 1e-10}).fun), minima


def scalar_network(L: int, layers: int, a: float, generator: torch.Generator) -> dict[str, float]:
    """Squared weights of prod_l (1 + w_l), or with w_l = u_l v_l, that gives exp(a), trained and in closed form.

    One layer costs L (e^(a / L) - 1)^2, which falls as a^2 / L; two 2 L (e^(a / L) - 1), which stays at 2 a.
    """
    theta = (0.1 * torch.rand(1, layers * L, generator=generator) + 0.1).double()

    def value(theta: Tensor) -> Tensor:
        product = (1 + theta[0].reshape(layers, L).prod(dim=0)).prod()
        return (product - math.exp(a)).square() / 2 + FITTED / 2 * theta.square().sum()

    found = _minimised(value, theta, 2000)
    step = math.exp(a / L) - 1
    return {"trained": float(found.theta.square().sum()), "closed": L * step**2 if layers == 1 else 2 * L * step}
