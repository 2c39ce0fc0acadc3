"""Descents from near the origin by the kernel's loop: losses, singular values, ratios, speeds at log-spaced steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor

from symlab.artifacts import Tensors
from symlab.data.samples import pooled_samples
from symlab.measures.job import Job
from symlab.networks import Normal
from symlab.networks.mlp import MLP
from symlab.papers.saddle_to_saddle.localized_loss import (
    budget_by_layer,
    budget_missed,
    escape_residual,
    escape_speed,
    layer_ratios,
    run_layers,
    speed_budget,
    squared_norm,
)
from symlab.papers.saddle_to_saddle.relu_chain import MOVED, ReluChainData
from symlab.papers.saddle_to_saddle.settings import Descents
from symlab.schemes import Standard
from symlab.schemes.fixed_parts import State
from symlab.training.objective import Replica
from symlab.training.probes import AtSteps, Probe
from symlab.training.replicas import Run, train_block
from symlab.training.settings import Constant, Recipe, WeightNorm

SINGULAR = 10
"""Singular values of each layer that are kept, as many as the paper shows."""


def train_from_origin(grid: Descents, job: Job, dataset: str, L: int, std: float, activation: str) -> Tensors:
    """Train the networks of one depth, scale and activation from near the origin.

    Returns:
        Arrays [moments, networks] by the names of columns, those of layers below ``layer<l>/``, and ``steps``.

    Raises:
        Interrupted: a signal asked to stop, and a checkpoint was written.
    """
    data = job.datasets[dataset]
    x, y = pooled_samples(data, grid.pool, grid.samples)
    run = descent_run(grid, x, y, data.n_outputs, (job.study, f"{dataset}_L{L}_{activation}"), L, std, activation)
    moments = measured_steps(grid)
    probe = OriginProbe(x[: grid.measured], y[: grid.measured], data.n_outputs, linear=activation == "identity")
    block = train_block(
        replace(run, probes=[Probe("origin", probe, AtSteps(moments))], device=job.device),
        [Replica(0, seed) for seed in range(grid.seeds)],
        job.report,
        job.checkpoints,
    )
    wide = block.probed.pivot(index=["step", "seed"], columns="quantity", values="value")
    steps = wide.index.get_level_values("step").unique()
    found = {name: values.to_numpy().reshape(len(steps), grid.seeds) for name, values in wide.items()}
    return {**found, "steps": steps.to_numpy()}  # type: ignore[dict-item]


def descent_run(
    grid: Descents, x: Tensor, y: Tensor, classes: int, key: tuple[str, str], L: int, std: float, activation: str
) -> Run:
    """How the networks of one point are trained on inputs x [n, d] and labels y."""
    empty = x[:0], y[:0]
    recipe = Recipe(
        optimizer="sgd",
        lr=grid.lr,
        momentum=0,
        weight_decay=0,
        lr_by=WeightNorm(name="weight_norm", power=L - 2),
        epochs=-(-grid.steps // -(-len(x) // (grid.batch_size or len(x)))),
        batch_size=grid.batch_size,
        schedule=Constant(name="constant"),
    )
    return Run(
        lambda: MLP(x.shape[1], [grid.width] * (L - 1), classes, "none", activation, bias=False),
        ReluChainData(x, y, *empty, task="classification", linear=activation == "identity"),
        Standard(name="standard"),
        Normal(name="normal", std=std),
        recipe,
        [0],
        key,
    )


def measured_steps(grid: Descents) -> frozenset[int]:
    """0 and log-spaced steps from ``first_measured`` on."""
    decades = max(math.log10(grid.steps / grid.first_measured), 0)
    places = np.linspace(0, decades, round(decades * grid.per_decade) + 1)
    return frozenset({0, *np.round(grid.first_measured * 10**places).astype(int).tolist()})


class OriginProbe:
    """Measures the weights of a ``ReluChain``, from the origin's point of view."""

    def __init__(self, x: Tensor, y: Tensor, classes: int, linear: bool):
        self.X, self.linear = x.double().T, linear
        self.target = functional.one_hot(y, classes).double().T
        self.G = (1 / classes - self.target) / len(x)

    def __call__(self, state: State) -> dict[str, Tensor]:
        moved = [tensor.double() for name, tensor in state.items() if name.startswith(MOVED)]
        W = [tensor.double() for name, tensor in state.items() if not name.startswith(MOVED)]
        # No singular values can be had of weights that have gone to infinity, as they do at too high a rate.
        lost = ~torch.stack([W_l.isfinite().flatten(1).all(1) for W_l in W]).all(0)
        W, moved = ([torch.where(lost[:, None, None], 0, M) for M in kind] for kind in (W, moved))
        found = self._whole(W)
        for layer, (W_l, dW_l) in enumerate(zip(W, moved, strict=True), start=1):
            values, change = torch.linalg.svdvals(W_l)[:, :SINGULAR], torch.linalg.svdvals(dW_l)
            found |= {f"layer{layer}/s{i + 1}": values[:, i] for i in range(values.shape[1])}
            found[f"layer{layer}/A_change"] = 1 - change[:, 0].square() / change.square().sum(1)
            found[f"layer{layer}/second_change"] = change[:, 1] / change[:, 0]
        ratios, budget = layer_ratios(W, self.X), speed_budget(W, self.X, self.G)
        of_relu = {"lost_output": budget.output, "budget_missed": budget_missed(budget)}
        for letter, values in zip("ABD", ratios, strict=True):
            start = 0 if letter == "B" else 1
            rows = {f"layer{start + i}/{letter}": values[:, i] for i in range(values.shape[1])}
            (found if letter == "A" else of_relu).update(rows)
        of_relu |= {f"layer{layer}/lost_{term}": lost for (term, layer), lost in budget_by_layer(budget).items()}
        if self.linear:
            of_relu = {name: torch.full_like(values, math.nan) for name, values in of_relu.items()}
        return {name: values.masked_fill(lost, math.nan) for name, values in {**found, **of_relu}.items()}

    def _whole(self, W: list[Tensor]) -> dict[str, Tensor]:
        Y = self._outputs(W)
        logs = Y.log_softmax(dim=-2)
        loss = -(logs * self.target).sum((-2, -1)) / self.X.shape[1]
        # The loss's gradient is that of the linear form of its derivative at the outputs.
        leaves = [W_l.clone().requires_grad_() for W_l in W]
        slope = (logs.exp() - self.target) / self.X.shape[1]
        (slope * self._outputs(leaves)).sum().backward()
        gradient = squared_norm([leaf.grad for leaf in leaves]).sqrt()  # type: ignore[misc]
        at_origin = {"speed": escape_speed, "residual": escape_residual}
        along = {name: of(W, self.X, self.G) for name, of in at_origin.items()}
        if self.linear:
            along = {name: torch.full_like(loss, math.nan) for name in along}
        return {"loss": loss, "norm": squared_norm(W).sqrt(), "gradient": gradient, **along}

    def _outputs(self, W: Sequence[Tensor]) -> Tensor:
        if not self.linear:
            return run_layers(W, self.X)[0][-1]
        Y = self.X
        for W_l in W:
            Y = W_l @ Y
        return Y
