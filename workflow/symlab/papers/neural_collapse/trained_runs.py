"""Networks trained to collapse at several depths, with the kernel's loop: metrics, losses and penalties on the way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.func import functional_call

from symlab.artifacts import Tensors
from symlab.data.dataset import Dataset
from symlab.data.samples import pooled_samples
from symlab.errors import UserError
from symlab.measures.job import Job
from symlab.measures.points import keep_point
from symlab.networks import TorchDefault
from symlab.networks.causal_transformer import CausalTransformer
from symlab.networks.layernorm_resnet import LayerNormResNet
from symlab.papers.neural_collapse.collapse import collapse_metrics, linear_floor, within_over_between
from symlab.papers.neural_collapse.resnet_stack import ResNetData
from symlab.papers.neural_collapse.settings import Runs
from symlab.schemes import Standard
from symlab.schemes.fixed_parts import State
from symlab.training.objective import Replica
from symlab.training.probes import AtSteps, Probe
from symlab.training.replicas import Run, train_block
from symlab.training.resume import Checkpoints
from symlab.training.settings import Cosine, Recipe
from symlab.training.stacks import TrainingData, losses


def train_to_collapse(grids: Sequence[Runs], job: Job) -> dict[str, pd.DataFrame]:
    """Train the networks of every grid at every depth, and measure how far they have collapsed.

    Returns:
        ``collapse_course.csv``: a row a network and moment: what it is (``dataset``, ``network``, ``pre_norm``,
        ``loss``, ``by_depth``, ``hidden_penalty`` and ``last_penalty``, L, width, classes, seed), ``step``, its
        ``accuracy``, the loss as ``fit``, ``hidden`` and ``last`` (penalties), ``gradient`` (norm of the objective's)
        and the metrics of ``collapse_metrics``.
        ``collapse_layers.csv``: NC1 of X_1 .. X_L at the end, a row a layer.
        ``collapse_samples.csv``: a row a data set and reduction: N; ``inputs`` and ``rank`` of what the first layer
        reads (with a constant) where the output is taken, which of transformers is the last patch, of texts as many as
        there are words; NC1 of the best linear map of it (``linear_floor``) and the share of ``blank`` last patches.

    Raises:
        Interrupted: a signal asked to stop, and a checkpoint was written.
        UserError: samples or patches do not fit a data set, or the study has no such data set.
    """
    courses, layers, samples = [], [], {}
    for grid in grids:
        for name, dataset in _datasets_of(grid, job).items():
            x, y = pooled_samples(dataset, grid.pool, per_class=grid.per_class)
            reduction = {"dataset": name, "pool": grid.pool, "per_class": grid.per_class}
            sampled = {**reduction, "patch": grid.patch or 0, "tokens": dataset.image is None and grid.transformer}
            if tuple(sampled.values()) not in samples:
                samples[tuple(sampled.values())] = sampled | _describe_samples(grid, dataset, x, y)
            for L in grid.L:
                for hidden, last in _penalties(grid, L):
                    key = {"dataset": name, **_describe(grid, dataset, hidden, last), "L": L}

                    def make(
                        checkpoints: Checkpoints | None,
                        grid: Runs = grid,
                        dataset: Dataset = dataset,
                        samples: tuple[Tensor, Tensor] = (x, y),
                        key: dict[str, Any] = key,
                    ) -> Tensors:
                        return _train_point(grid, dataset, *samples, key, job, checkpoints)

                    told = "_".join(map(str, key.values()))
                    spec = {"study": job.study, **key, **reduction, "data": dataset.provenance}
                    spec |= {each: getattr(grid, each) for each in ("lr", "steps", "seeds", "patch", "moments")}
                    point = keep_point(job, f"{told}_{grid.per_class}_{grid.pool}", spec, make)
                    courses.append(_course(point, key | {"N": len(y)}))
                    layers.append(_layers(point, key))
                    job.report(f"{told}: log10 NC1 {np.log10(point['NC1'][-1])}")
    return {
        "collapse_course.csv": pd.concat(courses, ignore_index=True),
        "collapse_layers.csv": pd.concat(layers, ignore_index=True),
        "collapse_samples.csv": pd.DataFrame(list(samples.values())),
    }


def _datasets_of(grid: Runs, job: Job) -> dict[str, Dataset]:
    if grid.dataset is None:
        return job.datasets
    if grid.dataset not in job.datasets:
        raise UserError(
            f"study {job.study}: neural_collapse.runs names the data set {grid.dataset!r}, but the study has "
            f"{', '.join(job.datasets)}."
        )
    return {grid.dataset: job.datasets[grid.dataset]}


def _describe_samples(grid: Runs, dataset: Dataset, x: Tensor, y: Tensor) -> dict[str, Any]:
    if grid.transformer and dataset.image is None:
        words = int(dataset.x_train.max()) + 1
        return {"N": len(y), "inputs": words, "rank": words, "linear_floor": math.nan, "blank": 0.0}
    if grid.transformer and grid.patch is not None:
        channels = dataset.image[0] if dataset.image else 1
        side = math.isqrt(x.shape[1] // channels)
        x = x.unflatten(1, (channels, side, side))[:, :, -grid.patch :, -grid.patch :].flatten(1)
    rank, floor = linear_floor(x, y, dataset.n_classes)
    blank = float((x == x.min()).all(dim=1).double().mean()) if grid.transformer else 0.0
    return {"N": len(y), "inputs": x.shape[1], "rank": rank, "linear_floor": floor, "blank": blank}


def _penalties(grid: Runs, L: int) -> list[tuple[float, float]]:
    hidden, last = grid.penalties(L)
    return [(hidden, last)] if grid.hidden_penalty is None else [(each, last) for each in grid.hidden_penalty]


def _describe(grid: Runs, dataset: Dataset, hidden: float, last: float) -> dict[str, Any]:
    by_depth = grid.by_depth if grid.hidden_penalty is None else "swept"
    named = {"network": grid.network, "pre_norm": grid.pre_norm, "loss": grid.loss, "by_depth": by_depth}
    return {**named, "hidden_penalty": hidden, "last_penalty": last, "width": grid.width, "classes": dataset.n_classes}


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


def _train_point(
    grid: Runs, dataset: Dataset, x: Tensor, y: Tensor, key: dict[str, Any], job: Job, checkpoints: Checkpoints | None
) -> Tensors:
    """Arrays [moments, networks] by the names of columns."""
    L, hidden, last = key["L"], key["hidden_penalty"], key["last_penalty"]
    network = build_network(grid, dataset, x.shape[1], L)
    recipe = penalised_descent(network, hidden, last, grid.lr, grid.steps)
    task = "classification" if grid.loss == "cross_entropy" else "one_hot"
    moments = frozenset(np.linspace(0, grid.steps, grid.moments + 1).round().astype(int).tolist())
    probe = CollapseProbe(network, x, y, task, hidden, last)
    run = Run(
        lambda: build_network(grid, dataset, x.shape[1], L),
        (TrainingData if grid.transformer or grid.pre_norm else ResNetData)(x, y, x[:0], y[:0], task),
        Standard(name="standard"),
        TorchDefault(name="torch"),
        recipe,
        [],
        (job.study, "_".join(str(key[part]) for part in ("dataset", "network", "pre_norm", "L"))),
    )
    block = train_block(
        replace(run, probes=[Probe("collapse", probe, AtSteps(moments))], device=job.device),
        [Replica(0, seed) for seed in range(grid.seeds)],
        _every(job, grid.steps // 10),
        checkpoints,
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


def _course(point: Tensors, key: dict[str, Any]) -> pd.DataFrame:
    names = [name for name in point if name != "steps" and not name.startswith("layer")]
    moment, seed = (index.ravel() for index in np.indices(point["NC1"].shape))
    columns = {name: point[name].ravel() for name in names}
    return pd.DataFrame({**key, "seed": seed, "step": point["steps"][moment], **columns})


def _layers(point: Tensors, key: dict[str, Any]) -> pd.DataFrame:
    tables = []
    for name, values in point.items():
        if name.startswith("layer"):
            layer = int(name.partition("/")[0].removeprefix("layer"))
            seeds = np.arange(values.shape[1])
            tables.append(pd.DataFrame({**key, "layer": layer, "seed": seeds, "NC1": values[-1]}))
    return pd.concat(tables, ignore_index=True).sort_values(["layer", "seed"], ignore_index=True)
