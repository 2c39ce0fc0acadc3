"""Optimizers that start on a mirror: which stay on it, and what rounding makes of it (Corollary 1)."""

from collections.abc import Callable
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.mirror_forms import equal_rows, rotation
from symlab.seeds import torch_generator
from symlab.symmetries.mirrors import State, norm, unit

SHAPE, SAMPLES, RATE, DECAY, MOMENTUM, EVERY = (6, 8), 50, 1e-3, 0.01, 0.9, 10
"""Of W, of the network's data, how both losses are descended, and steps between two measurements."""
SGD, WITH_MOMENTUM, DECAYED, ADAM = "SGD", "SGD, momentum 0.9", "SGD, decay 0.01", "Adam"
OPTIMIZERS: dict[str, Callable[[list[Tensor]], torch.optim.Optimizer]] = {
    SGD: lambda weights: torch.optim.SGD(weights, lr=RATE),
    WITH_MOMENTUM: lambda weights: torch.optim.SGD(weights, lr=RATE, momentum=MOMENTUM),
    DECAYED: lambda weights: torch.optim.SGD(weights, lr=RATE, weight_decay=DECAY),
    ADAM: lambda weights: torch.optim.Adam(weights, lr=RATE),
}
TYPES = {torch.float64: "", torch.float32: ", single precision", torch.bfloat16: ", bfloat16"}
ROTATION, NEURONS = "rotation", "equal neurons"


class Run(NamedTuple):
    """A mirror, an optimizer, the numbers' type and the share of hidden neurons dropped at each step."""

    mirror: str
    optimizer: str
    dtype: torch.dtype = torch.float64
    dropped: float = 0.0

    @property
    def name(self) -> str:
        """As tables have it, but for the mirror."""
        return self.optimizer + TYPES[self.dtype] + (f", dropout {self.dropped:g}" if self.dropped else "")


RUNS = (
    *(Run(mirror, name) for mirror in (ROTATION, NEURONS) for name in OPTIMIZERS),
    Run(ROTATION, SGD, torch.float32),
    *(Run(NEURONS, name, dtype) for name in OPTIMIZERS for dtype in (torch.float32, torch.bfloat16)),
    Run(NEURONS, SGD, torch.float64, 0.1),
)


def descend_from_mirrors(steps: int, job: Job) -> pd.DataFrame:
    """Every run, a row every tenth step: ``off``, the distance from the mirror over the weights' norm.

    ``tangent`` (of SGD on rotations) is what linear order, the Hessian along the path, predicts of a distance of 1.
    """
    tables = [pd.DataFrame(_descend(run, steps, job)).assign(mirror=run.mirror, optimizer=run.name) for run in RUNS]
    return pd.concat(tables, ignore_index=True)


def _descend(run: Run, steps: int, job: Job) -> list[dict[str, float]]:
    problem = (Rotation if run.mirror == ROTATION else EqualNeurons)(job, run.dtype)
    drawn = torch_generator(job.study, "dropout")
    state = problem.start
    updates = OPTIMIZERS[run.optimizer](list(state.values()))
    momentum, decay = MOMENTUM if run.optimizer == WITH_MOMENTUM else 0.0, DECAY if run.optimizer == DECAYED else 0.0
    tangent = problem.beside if isinstance(problem, Rotation) and run.optimizer != ADAM else None
    velocity: Tensor | float = 0.0
    rows = []
    for step in range(steps + 1):
        if step % EVERY == 0:
            here = {name: value.double() for name, value in state.items()}
            length = float("nan") if tangent is None else float(tangent.norm())
            rows.append({"step": step, "off": norm(problem.mirror.off(here)) / norm(here), "tangent": length})
        if tangent is not None and isinstance(problem, Rotation):
            velocity = momentum * velocity + problem.hessian_times(state["W"].double(), tangent) + decay * tangent
            tangent = tangent - RATE * velocity
        kept = (torch.rand(SHAPE[0], generator=drawn) >= run.dropped).to(run.dtype)
        for name, gradient in problem.gradient(state, kept).items():
            state[name].grad = gradient
        updates.step()
    return rows


class Rotation:
    """||W^T W - C||^2 and its mirror n^T W = 0."""

    def __init__(self, job: Job, dtype: torch.dtype) -> None:
        generator = torch_generator(job.study, "rotation")
        shapes = {"W": SHAPE, "n": SHAPE[:1], "C": (SHAPE[1], SHAPE[1])}
        drawn = {key: torch.randn(size, generator=generator, dtype=torch.float64) for key, size in shapes.items()}
        self.mirror = rotation("W", drawn["n"] / drawn["n"].norm())
        self.C = (drawn["C"] @ drawn["C"].T).to(dtype)
        self.start = {name: value.to(dtype) for name, value in self.mirror.on({"W": drawn["W"]}).items()}
        self.beside = unit(self.mirror.off({"W": torch.randn(SHAPE, generator=generator, dtype=torch.float64)}))["W"]

    def gradient(self, state: State, kept: Tensor) -> State:
        """Of the loss; nothing is dropped of it."""
        W = state["W"]
        return {"W": 4 * W @ (W.T @ W - self.C)}

    def hessian_times(self, W: Tensor, v: Tensor) -> Tensor:
        """The gradient's change along v."""
        return 4 * (v @ (W.T @ W - self.C.double()) + W @ (v.T @ W + W.T @ v))


class EqualNeurons:
    """The squared error of u tanh(w x) and the mirror of its first two neurons."""

    def __init__(self, job: Job, dtype: torch.dtype) -> None:
        generator = torch_generator(job.study, "equal neurons")
        shapes = {"u": SHAPE[:1], "w": SHAPE, "x": (SAMPLES, SHAPE[1]), "y": (SAMPLES,)}
        drawn = {key: torch.randn(size, generator=generator, dtype=torch.float64) for key, size in shapes.items()}
        self.x, self.y = drawn["x"].to(dtype), drawn["y"].to(dtype)
        self.mirror = equal_rows(0, 1)
        on = self.mirror.on({"u": drawn["u"], "w": drawn["w"]})
        self.start = {name: value.to(dtype) for name, value in on.items()}

    def gradient(self, state: State, kept: Tensor) -> State:
        """Of the mean squared error, neurons that are not ``kept`` dropped."""
        hidden = torch.tanh(self.x @ state["w"].T)
        error = 2 / SAMPLES * ((hidden * kept) @ state["u"] - self.y)
        back = error[:, None] * state["u"] * kept * (1 - hidden**2)
        return {"u": kept * (error @ hidden), "w": back.T @ self.x}
