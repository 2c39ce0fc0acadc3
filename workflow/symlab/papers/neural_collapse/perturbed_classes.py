"""Appendix C: one point a class and a perturbation, X = I_K (x) 1_n^T + E, and how much of E networks leave.

The paper argues that with two linear layers a block E stays where all penalties are the same, constant or vanishing.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import torch
import torch.nn.functional as functional
from jaxtyping import Float, Int
from torch import Tensor

from symlab.measures.job import Job
from symlab.networks.layernorm_resnet import LayerNormResNet, normalise
from symlab.papers.neural_collapse.growth import draw_networks, train_on
from symlab.papers.neural_collapse.resnet_stack import ResNetData, ResNetStack
from symlab.papers.neural_collapse.settings import PerturbedClasses
from symlab.papers.neural_collapse.trained_runs import CollapseProbe, penalised_descent
from symlab.schemes.fixed_parts import State
from symlab.seeds import torch_generator
from symlab.training.objective import Replica, Replicas

SCHEMES = {
    "rn1": ("rn1", "constant"),
    "rn2 constant": ("rn2", "constant"),
    "rn2 uniform": ("rn2", "uniform"),
    "rn2 split": ("rn2", "split"),
}
"""Network and how penalties fall with depth."""
PLACEMENTS = ("class space", "other dimensions")
KEPT = ("NC1", "NC1_row", "fit", "hidden", "last")
BRANCH = 0.01
"""By what torch's random weights of blocks are multiplied."""


class GivenInputs(ResNetStack):
    """Networks that read inputs of their own through an embedding that is not trained."""

    def __init__(self, replicas: Replicas, data: ResNetData, inputs: Float[Tensor, "r n i"]):
        super().__init__(replicas, data)
        self.x = inputs

    def _set_gradient(self, name: str, delta: Tensor, X: Tensor) -> None:
        if name != "embedding":
            super()._set_gradient(name, delta, X)
            return
        for part in ("weight", "bias"):
            self.W[f"embedding.{part}"].grad.zero_()  # type: ignore[union-attr]


def train_perturbed_classes(settings: PerturbedClasses, job: Job, scheme: str, L: int) -> dict[str, pd.DataFrame]:
    """Train RN1, or RN2 with one of three kinds of penalties, on perturbed class centres, from next to no branches.

    Returns:
        ``perturbed_classes.csv``: a row a network: ``scheme``, ``placement`` of E, ``eps``, L and seed; ``NC1_in`` of
        its first features, which are the inputs on a sphere, NC1 at the end and the part of it in the last layer's row
        space, the losses, and that ``without`` branches.
    """
    K = settings.classes
    cells = [(p, eps, seed) for p in PLACEMENTS for eps in settings.eps for seed in range(settings.seeds)]
    y = torch.arange(K).repeat_interleave(settings.per_class)
    inputs = torch.stack(
        [perturb_classes(y, K, eps, p, torch_generator(job.study, p, f"{eps:g}", seed)) for p, eps, seed in cells]
    )
    data = ResNetData(inputs[0], y, inputs[0, :0], y[:0], "one_hot")
    members = [Replica(0, each) for each in range(len(cells))]
    name, by = SCHEMES[scheme]
    network = LayerNormResNet(2 * K, K, settings.width, L, int(name[2]), output_bias=False)
    hidden = settings.penalty if by == "constant" else settings.penalty / L
    last = hidden if by == "uniform" else settings.penalty
    generators = [torch_generator(job.study, scheme, L, *map(str, cell)) for cell in cells]
    state = start_without_branches(network, generators, inputs, y, last)
    bare = {name: 0 * tensor if name.startswith("blocks.") else tensor for name, tensor in state.items()}
    without = [_measure(network, bare, r, inputs, y, 0, last) for r in range(len(cells))]
    recipe = penalised_descent(network, hidden, last, settings.lr, settings.steps)
    state = train_on(network, state, members, data, recipe, lambda r, on: GivenInputs(r, on, inputs))
    rows = []
    for r, (placement, eps, seed) in enumerate(cells):
        found = _measure(network, state, r, inputs, y, hidden, last)
        key = {"scheme": scheme, "placement": placement, "eps": eps, "L": L, "seed": seed}
        row = {"NC1_in": found["layer1/NC1"], **{m: found[m] for m in KEPT}}
        rows.append({**key, **row, "without": without[r]["fit"] + without[r]["last"]})
    return {"perturbed_classes.csv": pd.DataFrame(rows)}


def _measure(
    network: LayerNormResNet, state: State, r: int, inputs: Tensor, y: Tensor, hidden: float, last: float
) -> dict[str, float]:
    """Of one network of a stack on its own inputs."""
    found = CollapseProbe(network, inputs[r], y, "one_hot", hidden, last)({n: t[r : r + 1] for n, t in state.items()})
    return {name: float(value) for name, value in found.items()}


def start_without_branches(
    network: LayerNormResNet,
    generators: Sequence[torch.Generator],
    inputs: Float[Tensor, "r n i"],
    y: Int[Tensor, " n"],
    last: float,
) -> State:
    """Start: the optimal network without branches, plus random branches of 1/100 of the usual scale.

    From random weights Adam ends far above the loss without branches after thousands of steps.
    """
    state = draw_networks(network, generators)
    state = {name: BRANCH * tensor if name.startswith("blocks.") else tensor for name, tensor in state.items()}
    W_0 = isometry(inputs.shape[2], state["embedding.weight"].shape[1])
    H = normalise(inputs @ W_0.T).double()
    Y = functional.one_hot(y).to(H)
    ridge = last * len(y) * torch.eye(H.shape[2]).to(H)
    state["readout.weight"] = torch.linalg.solve(H.mT @ H + ridge, H.mT @ Y).mT.float()
    state["embedding.weight"] = W_0.repeat(len(inputs), 1, 1)
    state["embedding.bias"] = torch.zeros_like(state["embedding.bias"])
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
