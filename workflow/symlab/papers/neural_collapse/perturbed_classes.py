"""Appendix C: one point a class and a perturbation, X = I_K (x) 1_n^T + E, and how much of E networks leave.

The paper argues that with two linear layers a block E stays where all penalties are the same, constant or vanishing.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import torch
import torch.nn.functional as functional
from jaxtyping import Float, Int
from torch import Tensor

from symlab.measures.collapse import collapse_metrics
from symlab.measures.job import Job
from symlab.networks import TorchDefault
from symlab.networks.initialise import sample_parameters
from symlab.networks.layernorm_resnet import normalise
from symlab.papers.neural_collapse.networks import GivenFeatures, OwnInputs
from symlab.papers.neural_collapse.samples import within_over_between
from symlab.papers.neural_collapse.settings import PerturbedClasses, penalties_of
from symlab.papers.neural_collapse.trained_runs import Descent, objectives
from symlab.schemes.fixed_parts import State
from symlab.seeds import torch_generator
from symlab.training.on_samples import TrainingData

PLACEMENTS = ("class space", "other dimensions")
BRANCH = 0.01
"""By what torch's random weights of blocks are multiplied."""


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
    hidden, last = penalties_of(settings.penalty, by or "constant", L)
    descent = Descent(
        lambda: GivenFeatures(K, settings.width, L, int(name[2])),
        OwnInputs(features.flatten(0, 1), y.repeat(len(cells)), features[0, :0], y[:0], "one_hot", seeds=len(cells)),
        (hidden, last),
        (job.study, f"{scheme}_{L}"),
        settings.steps,
        settings.iterations,
        settings.lr,
        len(cells),
    )
    generators = [torch_generator(job.study, scheme, L, *map(str, cell)) for cell in cells]
    start = start_without_branches(descent, generators, features, y, last)
    bare = {name: 0 * tensor if name.startswith("blocks.") else tensor for name, tensor in start.items()}
    state, _ = replace(descent, start=start).run(job, checkpoints=True)
    rows = []
    for r, (placement, eps, seed) in enumerate(cells):
        key: dict[str, Any] = {"scheme": scheme, "placement": placement, "eps": eps, "L": L, "seed": seed}
        alone = replace(descent, data=TrainingData(features[r], y, features[r, :0], y[:0], "one_hot"))
        losses = [objectives(alone, {n: t[r : r + 1] for n, t in each.items()})[0] for each in (state, bare)]
        rows.append({**key, **_measure(alone, state, r), "total": losses[0], "without": losses[1]})
    return {"perturbed_classes.csv": pd.DataFrame(rows)}


@torch.no_grad()
def _measure(alone: Descent, state: State, r: int) -> dict[str, float]:
    """NC1 of the first features and of the last, of one network of a stack on its own inputs."""
    one = {name: tensor[r] for name, tensor in state.items()}
    network = alone.build().double()
    network.load_state_dict(one)
    y = alone.data.y_train
    layers = network.features(alone.data.x_train.double())  # type: ignore[operator]
    found = collapse_metrics(layers[-1], one["readout.weight"], y, shifts=True)
    first = within_over_between(layers[0], y, len(one["readout.weight"]))
    return {"NC1_in": float(first), "NC1": float(found["NC1"]), "NC1_row": float(found["NC1_row"])}


def start_without_branches(
    descent: Descent,
    generators: Sequence[torch.Generator],
    features: Float[Tensor, "r n d"],
    y: Int[Tensor, " n"],
    last: float,
) -> State:
    """Start: the optimal network without branches, plus random branches of 1/100 of the usual scale.

    From random weights Adam ends far above the loss without branches after thousands of steps.
    """
    drawn = [sample_parameters(descent.build(), TorchDefault(name="torch"), generator) for generator in generators]
    state = {name: BRANCH * torch.stack([one[name] for one in drawn]) for name in drawn[0]}
    H = normalise(features).double()
    Y = functional.one_hot(y).to(H)
    ridge = last * len(y) * torch.eye(H.shape[2]).to(H)
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
