"""Made data: Lemma 4.2, its converse, and the example of one dimension; Appendix C's perturbed classes.

Free features are minimised, and collapsed pairs scaled. In Appendix C inputs are one point a class and a perturbation,
X = I_K (x) 1_n^T + E, of which is measured how much networks leave: the paper argues that with two linear layers a
block E stays where all penalties are the same, constant or vanishing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy.optimize import minimize, minimize_scalar
from torch import Tensor, nn
from torch.nn import functional

from symlab.measures.collapse import collapse_metrics
from symlab.measures.collapse_bounds import least_loss
from symlab.measures.job import Job
from symlab.networks import TorchDefault
from symlab.networks.initialise import sample_parameters
from symlab.networks.layernorm_resnet import LayerNormResNet, normalise
from symlab.papers.neural_collapse.samples import within_over_between
from symlab.papers.neural_collapse.settings import Lemmas, PerturbedClasses, penalties_of
from symlab.papers.neural_collapse.trained_runs import Descent, losses_of, networks_of
from symlab.schemes.fixed_parts import State
from symlab.seeds import torch_generator
from symlab.training.objective import Replica
from symlab.training.on_samples import TrainingData
from symlab.training.samples import losses

TASKS = {"cross_entropy": "classification", "squared_error": "one_hot", "squared_error with bias": "one_hot"}
SMALL = 0.01
"""Scale of W at first."""
FITTED = 1e-5
"""Penalty of the example, whose fit is then exact to its order."""
PLACEMENTS = ("class space", "other dimensions")
BRANCH = 0.01
"""By what torch's random weights of blocks are multiplied."""


def minimise_free_features(settings: Lemmas, job: Job, loss: str, seed: int) -> dict[str, pd.DataFrame]:
    """Free features from one random start, and a random collapsed pair scaled; of one loss the example, too."""
    generator = torch_generator(job.study, "free features", loss, seed)
    K, d, penalty = settings.classes, settings.width, settings.penalty
    y = torch.arange(K).repeat_interleave(settings.per_class)
    biased = loss != "squared_error"
    best = least_free_loss(loss, d, K, penalty, biased)
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


def least_free_loss(loss: str, d: int, K: int, penalty: float, bias: bool) -> float:
    """The least loss of free features: cross-entropy, or (1 / 2N) |W X - Y|^2 without or with a free bias.

    Rows of W are orthogonal without it, and a simplex with it.
    """
    free = K - 1 if bias else K
    return least_loss(d, K, penalty) if loss == "cross_entropy" else free * penalty / (2 * K * (d / free + penalty))


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

    def parts(theta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        H, W, b = theta.split([N * d, K * d, K])
        return normalise(H.reshape(N, d)), W.reshape(K, d), b if bias else 0 * b

    def value(theta: Tensor) -> Tensor:
        H, W, b = parts(theta)
        return loss(H @ W.T + b, y) + penalty / 2 * W.square().sum()

    least, theta = _minimised(value, torch.cat(drawn), iterations)
    H, W, _ = parts(theta)
    return least, H, W


def _minimised(value: Callable[[Tensor], Tensor], theta: Float[Tensor, " p"], iterations: int) -> tuple[float, Tensor]:
    def evaluate(theta: np.ndarray) -> tuple[float, np.ndarray]:
        leaf = torch.from_numpy(theta).requires_grad_()
        found = value(leaf)
        return found.item(), torch.autograd.grad(found, leaf)[0].numpy()

    options = {"maxiter": iterations, "maxfun": 2 * iterations, "maxcor": 20, "ftol": 0, "gtol": 1e-12}
    found = minimize(evaluate, theta.double().numpy(), jac=True, method="L-BFGS-B", options=options)
    return float(found.fun), torch.from_numpy(found.x)


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
    theta = 0.1 * torch.rand(layers * L, generator=generator) + 0.1

    def value(theta: Tensor) -> Tensor:
        product = (1 + theta.reshape(layers, L).prod(dim=0)).prod()
        return (product - math.exp(a)).square() / 2 + FITTED / 2 * theta.square().sum()

    _, found = _minimised(value, theta, 2000)
    step = math.exp(a / L) - 1
    return {"trained": float(found.square().sum()), "closed": L * step**2 if layers == 1 else 2 * L * step}


class GivenFeatures(LayerNormResNet):
    """A residual network on inputs of dimension d, without an embedding."""

    def __init__(self, n_outputs: int, width: int, depth: int, block_layers: int):
        super().__init__(width, n_outputs, width, depth, block_layers, output_bias=False)
        self.embedding = nn.Identity()  # type: ignore[assignment]


@dataclass(frozen=True)
class OwnInputs(TrainingData):
    """Inputs of each network's own: those of all seeds one below the other, with equal labels."""

    seeds: int = 1

    @property
    def n(self) -> int:
        """Samples of each network."""
        return len(self.x_train) // self.seeds

    def _orders(self, members: Sequence[Replica], batch_size: int | None, key: tuple[str, str], epoch: int) -> Tensor:
        return torch.stack([replica.seed * self.n + torch.arange(self.n) for replica in members])


def train_perturbed_classes(settings: PerturbedClasses, job: Job, scheme: str, L: int) -> dict[str, pd.DataFrame]:
    """Train RN1, or RN2 with one of three kinds of penalties, on perturbed class centres, from next to no branches."""
    K = settings.classes
    cells = [(p, eps, seed) for p in PLACEMENTS for eps in settings.eps for seed in range(settings.seeds)]
    y = torch.arange(K).repeat_interleave(settings.per_class)
    W_0 = isometry(2 * K, settings.width)
    inputs = torch.stack(
        [perturb_classes(y, K, eps, p, torch_generator(job.study, p, f"{eps:g}", seed)) for p, eps, seed in cells]
    )
    features = inputs @ W_0.T
    name, _, by = scheme.partition(" ")
    penalties = penalties_of(settings.penalty, by or "constant", L)
    build, key = partial(GivenFeatures, K, settings.width, L, int(name[2])), (job.study, f"{scheme}_{L}")
    data = OwnInputs(features.flatten(0, 1), y.repeat(len(cells)), features[0, :0], y[:0], "one_hot", seeds=len(cells))
    cost = settings.steps, settings.iterations
    descent = Descent(build, data, penalties, key, *cost, settings.lr, len(cells))
    generators = [torch_generator(job.study, scheme, L, *map(str, cell)) for cell in cells]
    start = start_without_branches(descent, generators, features, y)
    bare = {name: 0 * tensor if name.startswith("blocks.") else tensor for name, tensor in start.items()}
    state, _ = replace(descent, start=start).run(job, checkpoints=True)
    rows = []
    networks = (networks_of(descent.build, each) for each in (state, bare))
    for (placement, eps, seed), x, network, without in zip(cells, features, *networks, strict=True):
        cell: dict[str, Any] = {"scheme": scheme, "placement": placement, "eps": eps, "L": L, "seed": seed}
        own = TrainingData(x, y, x[:0], y[:0], "one_hot").widened()
        total, least = (sum(losses_of(each, own, descent.penalties).values()) for each in (network, without))
        layers, W = network.features(own.x_train), network.readout.weight
        found = collapse_metrics(layers[-1], W, y, shifts=True) | {"NC1_in": within_over_between(layers[0], y, K)}
        measured = {name: float(found[name]) for name in ("NC1_in", "NC1", "NC1_row")}
        rows.append({**cell, **measured, "total": total, "without": least})
    return {"perturbed_classes.csv": pd.DataFrame(rows)}


def start_without_branches(
    descent: Descent, generators: Sequence[torch.Generator], features: Float[Tensor, "r n d"], y: Int[Tensor, " n"]
) -> State:
    """Start: the optimal network without branches, plus random branches of 1/100 of the usual scale.

    From random weights Adam ends far above the loss without branches after thousands of steps.
    """
    drawn = [sample_parameters(descent.build(), TorchDefault(name="torch"), generator) for generator in generators]
    state = {name: BRANCH * torch.stack([one[name] for one in drawn]) for name in drawn[0]}
    H = normalise(features).double()
    Y = functional.one_hot(y).to(H)
    ridge = descent.penalties[1] * len(y) * torch.eye(H.shape[2]).to(H)
    state["readout.weight"] = torch.linalg.solve(H.mT @ H + ridge, H.mT @ Y).mT.float()
    return state


def perturb_classes(
    y: Tensor, K: int, eps: float, placement: str, generator: torch.Generator
) -> Float[Tensor, "n 2*k"]:
    """Rows e_y + E of 2 K coordinates, each of E of norm eps in the first K or in the others, of mean 0 in each class.

    The mean is taken off, so that E has no part that only moves a class.
    """
    E = torch.randn(len(y), K, generator=generator)
    unit = functional.one_hot(y, K).to(E)
    E = E - (unit.T @ E / unit.sum(0)[:, None])[y]
    E = eps * E / E.norm(dim=1).square().mean().sqrt()
    return torch.cat([unit + E, 0 * E] if placement == PLACEMENTS[0] else [unit, E], 1)


def isometry(inputs: int, d: int) -> Float[Tensor, "d i"]:
    """A map whose columns are orthonormal and have mean 0, so that LayerNorm only scales what it gives."""
    generator = torch.Generator().manual_seed(0)
    basis = torch.cat([torch.ones(d, 1), torch.randn(d, inputs, generator=generator)], 1).double()
    return torch.linalg.qr(basis).Q[:, 1:].float()
