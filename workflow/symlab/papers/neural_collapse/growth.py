"""Depth by splitting: every trained block becomes two of half its branch, and all are trained on.

This is how the paper's proof spends less penalty on the same map: |W / 2|^2 + |W / 2|^2 is half of |W|^2. With two
linear layers a block half a branch has both matrices over sqrt(2), and the penalty stays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pandas as pd
import torch
from torch import Tensor

from symlab.data.samples import pooled_samples
from symlab.measures.job import Job
from symlab.networks import TorchDefault
from symlab.networks.initialise import sample_parameters
from symlab.networks.layernorm_resnet import LayerNormResNet
from symlab.papers.neural_collapse.resnet_stack import ResNetData, ResNetStack
from symlab.papers.neural_collapse.settings import Growth
from symlab.papers.neural_collapse.trained_runs import CollapseProbe, penalised_descent
from symlab.schemes import Standard
from symlab.schemes.fixed_parts import State
from symlab.seeds import torch_generator
from symlab.training.objective import Replica, Replicas
from symlab.training.schedule import learning_rate
from symlab.training.settings import Recipe

MEASURED = ("NC1", "NC2A", "NC3", "fit", "hidden", "last", "accuracy")


def grow_by_splitting(settings: Growth, job: Job, dataset: str) -> dict[str, pd.DataFrame]:
    """Train networks of one block, split their blocks and train on, as often as asked for.

    Returns:
        ``collapse_growth.csv``: a row a network, depth and ``moment`` (``split``: before it is trained at that depth,
        ``trained``), with its losses and metrics.
    """
    rows: list[dict[str, object]] = []
    source = job.datasets[dataset]
    layers, members = int(settings.network[2]), [Replica(0, seed) for seed in range(settings.seeds)]
    x, y = pooled_samples(source, settings.pool, per_class=settings.per_class)
    place = torch.device(job.device)
    data = ResNetData(x.to(place), y.to(place), x[:0], y[:0], "classification")
    state = draw_networks(
        LayerNormResNet(x.shape[1], source.n_classes, settings.width, 2, layers),
        [torch_generator(job.study, "growth", dataset, seed) for seed in range(settings.seeds)],
    )
    for doubling in range(settings.doublings + 1):
        L = 2**doubling + 1
        hidden = settings.penalty / L if settings.by_depth == "split" else settings.penalty
        network = LayerNormResNet(x.shape[1], source.n_classes, settings.width, L, layers)
        probe = CollapseProbe(network, x, y, "classification", hidden, settings.penalty)
        key = {"dataset": dataset, "network": settings.network, "by_depth": settings.by_depth, "L": L}
        key |= {"width": settings.width, "classes": source.n_classes, "last_penalty": settings.penalty, "N": len(y)}
        if doubling:
            state = split_blocks(state)
            rows += _rows(key | {"moment": "split"}, probe(state))
        lr = settings.tuning_lr if doubling else settings.lr
        recipe = penalised_descent(network, hidden, settings.penalty, lr, settings.steps)
        state = train_on(network, state, members, data, recipe)
        rows += _rows(key | {"moment": "trained"}, probe(state))
        job.report(f"{dataset}, L = {L}: NC1 {[row['NC1'] for row in rows[-settings.seeds :]]}")
    return {"collapse_growth.csv": pd.DataFrame(rows)}


def draw_networks(network: LayerNormResNet, generators: Sequence[torch.Generator]) -> State:
    """Stacked random weights, a network a generator."""
    drawn = [sample_parameters(network, TorchDefault(name="torch"), generator) for generator in generators]
    return {name: torch.stack([one[name] for one in drawn]) for name in drawn[0]}


def split_blocks(state: State) -> State:
    """A residual network with every block twice, each with half of the branch.

    Of one layer, halves of weights and bias; of two, weights and first bias over sqrt(2) and half of the second bias.
    """
    found = {name: tensor for name, tensor in state.items() if not name.startswith("blocks.")}
    two = any(name.startswith("blocks.0.1.") for name in state)
    for name, tensor in state.items():
        if name.startswith("blocks."):
            _, place, rest = name.split(".", 2)
            share = math.sqrt(2) if two and rest != "1.bias" else 2
            for half in range(2):
                found[f"blocks.{2 * int(place) + half}.{rest}"] = tensor / share
    return found


def train_on(
    network: LayerNormResNet,
    state: State,
    members: list[Replica],
    data: ResNetData,
    recipe: Recipe,
    make: Callable[[Replicas, ResNetData], ResNetStack] = ResNetStack,
) -> State:
    """Stacked networks trained from given weights, by ``make``'s steps."""
    order = [name for name, _ in network.named_parameters()]
    W = {name: state[name] for name in order}
    stack = make(Replicas(members, network, W, {}, {}, Standard(name="standard"), recipe), data)
    for step in range(recipe.epochs):
        stack.step(learning_rate(recipe, step, 1), [])
    return stack.state()


def _rows(key: dict[str, object], measured: dict[str, Tensor]) -> list[dict[str, object]]:
    seeds = range(len(measured["NC1"]))
    return [{**key, "seed": seed, **{name: float(measured[name][seed]) for name in MEASURED}} for seed in seeds]
