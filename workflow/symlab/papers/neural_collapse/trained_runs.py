"""Networks trained to collapse at several depths, with the kernel's loop: metrics, losses and penalties on the way."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from symlab.artifacts import Tensors
from symlab.data.dataset import Dataset
from symlab.data.samples import pooled_samples
from symlab.measures.job import Job
from symlab.networks import TorchDefault
from symlab.networks.causal_transformer import CausalTransformer
from symlab.networks.layernorm_resnet import LayerNormResNet
from symlab.papers.neural_collapse.collapse import collapse_metrics, within_over_between
from symlab.papers.neural_collapse.resnet_stack import ResNetData
from symlab.papers.neural_collapse.settings import Runs
from symlab.schemes import Standard
from symlab.schemes.fixed_parts import State
from symlab.training.objective import Replica
from symlab.training.probes import AtSteps, Probe
from symlab.training.replicas import Run, train_block
from symlab.training.settings import Cosine, Recipe
from symlab.training.stacks import TrainingData, losses


def build_network(grid: Runs, dataset: Dataset, n_inputs: int, L: int) -> LayerNormResNet | CausalTransformer:
    """A network of a grid with L as the paper counts it."""
    bias = grid.loss == "cross_entropy"
    if not grid.transformer:
        return LayerNormResNet(n_inputs, dataset.n_classes, grid.width, L, int(grid.network[2]), grid.pre_norm, bias)
    attention, mlp = map(int, grid.network[1:])
    reads: dict[str, Any] = {"patch": grid.patch, "channels": dataset.image[0] if dataset.image else 1}
    if dataset.image is None:
        reads = {"vocabulary": int(dataset.x_train.max()) + 1}
    return CausalTransformer(n_inputs, dataset.n_classes, grid.width, L, attention, mlp, grid.pre_norm, bias, **reads)


def penalties_by_path(network: nn.Module, hidden: float, last: float) -> dict[str, float]:
    """What each pattern of parameters is penalised by: neither embeddings and positions nor biases."""
    free = {"embedding.*": 0.0, "*bias": 0.0} | ({"positions": 0.0} if hasattr(network, "positions") else {})
    return {**free, "readout.weight": last} | ({"blocks.*": hidden} if len(network.blocks) else {})  # type: ignore[arg-type]


def penalised_descent(network: nn.Module, hidden: float, last: float, lr: float, steps: int) -> Recipe:
    """Full-batch Adam with a cosine to 0, on the loss with penalties of hidden weights and of the last layer."""
    return Recipe(
        optimizer="adam",
        lr=lr,
        weight_decay=0,
        penalties=penalties_by_path(network, hidden, last),
        epochs=steps,
        batch_size=None,
        schedule=Cosine(name="cosine"),
    )


def train_to_collapse(
    grid: Runs, job: Job, dataset: str, L: int, hidden_penalty: float, last_penalty: float
) -> Tensors:
    """Train the networks of one depth and penalty, and measure on the way how far they have collapsed.

    Returns:
        Arrays [moments, networks] by the names of columns, those of layers below ``layer<l>/``, and ``steps``.

    Raises:
        Interrupted: a signal asked to stop, and a checkpoint was written.
        UserError: samples or patches do not fit the data set.
    """
    data = job.datasets[dataset]
    x, y = pooled_samples(data, grid.pool, per_class=grid.per_class)
    network = build_network(grid, data, x.shape[1], L)
    recipe = penalised_descent(network, hidden_penalty, last_penalty, grid.lr, grid.steps)
    task = "classification" if grid.loss == "cross_entropy" else "one_hot"
    moments = frozenset(np.linspace(0, grid.steps, grid.moments + 1).round().astype(int).tolist())
    probe = CollapseProbe(network, x, y, task, hidden_penalty, last_penalty)
    run = Run(
        lambda: build_network(grid, data, x.shape[1], L),
        (TrainingData if grid.transformer or grid.pre_norm else ResNetData)(x, y, x[:0], y[:0], task),
        Standard(name="standard"),
        TorchDefault(name="torch"),
        recipe,
        [],
        (job.study, f"{dataset}_{grid.network}_{grid.pre_norm}_{L}"),
    )
    block = train_block(
        replace(run, probes=[Probe("collapse", probe, AtSteps(moments))], device=job.device),
        [Replica(0, seed) for seed in range(grid.seeds)],
        _every(job, grid.steps // 10),
        job.checkpoints,
    )
    wide = block.probed.pivot(index=["step", "seed"], columns="quantity", values="value")
    steps = wide.index.get_level_values("step").unique()
    found = {name: values.to_numpy().reshape(len(steps), grid.seeds) for name, values in wide.items()}
    return {**found, "steps": steps.to_numpy()}  # type: ignore[dict-item]


def _every(job: Job, epochs: int) -> Any:
    """Passes on one in so many of the lines of training: with full batches every step is an epoch."""
    told = count()
    return lambda line: job.report(line) if next(told) % max(epochs, 1) == 0 else None


class CollapseProbe:
    """Measures trained networks on all of their samples."""

    def __init__(self, network: nn.Module, x: Tensor, y: Tensor, task: str, hidden: float, last: float):
        self.network, self.x, self.y, self.task = network.eval().double(), x.double(), y, task
        self.hidden, self.last = hidden, last

    def __call__(self, state: State) -> dict[str, Tensor]:
        R = len(next(iter(state.values())))
        each = [self._one({name: tensor[r] for name, tensor in state.items()}) for r in range(R)]
        return {name: torch.stack([found[name] for found in each]) for name in each[0]}

    def _one(self, state: State) -> dict[str, Tensor]:
        # In double: near collapse the loss is as small as float32's rounding of its logarithms.
        leaves = {name: tensor.double().requires_grad_() for name, tensor in state.items()}
        features = functional_call(_Features(self.network), {f"network.{n}": t for n, t in leaves.items()}, (self.x,))
        W = leaves["readout.weight"]
        outputs = features[-1] @ W.T + leaves.get("readout.bias", 0)
        fit = losses(self.task, outputs, self.y)
        penalised = [t for n, t in leaves.items() if n.startswith("blocks.") and not n.endswith("bias")]
        hidden = self.hidden / 2 * sum((t.square().sum() for t in penalised), torch.zeros(()).double())
        last = self.last / 2 * W.square().sum()
        gradients = torch.autograd.grad(fit + hidden + last, list(leaves.values()))
        layers = [layer.detach() for layer in features]
        found = collapse_metrics(layers[-1], W.detach(), self.y, shifts=self.task == "one_hot")
        K = len(W)
        found |= {f"layer{i}/NC1": within_over_between(H, self.y, K) for i, H in enumerate(layers, start=1)}
        found |= {"fit": fit, "hidden": hidden, "last": last}
        found["gradient"] = torch.stack([g.norm() for g in gradients]).norm()
        found["accuracy"] = (outputs.argmax(dim=1) == self.y).double().mean()
        return {name: value.detach() for name, value in found.items()}


class _Features(nn.Module):
    """A network that gives its features."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> list[Tensor]:
        features: list[Tensor] = self.network.features(x)  # type: ignore[operator]
        return features
