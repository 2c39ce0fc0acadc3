"""Networks whose first layer is drawn to be sparse: Eq. 7's factors beside proximal SGD and magnitude pruning.

Of the first layer's weights theta [width, inputs] as many coordinates of O^T theta are to vanish as possible, each by
itself or a neuron's together. A penalty on them is added as the decay of factors, whose minimum is the same (Sec. 2.6),
or taken by its proximal map after each step; or they are set to 0 after half of the steps, and the rest trained on.
"""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from scipy.fft import dct
from torch import Tensor
from torch.nn.functional import cross_entropy

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.convex.proximal import shrink, shrink_groups
from symlab.papers.mirror_symmetry.convex.solvers import PAIR
from symlab.papers.mirror_symmetry.settings import COSINES, ENTRIES, FACTORS, PAIRS, PROXIMAL, PRUNED, SparseNetworks
from symlab.schemes import Constrained, Mirror
from symlab.schemes.constrained import constrain
from symlab.schemes.parametrisation import UNDECAYED
from symlab.seeds import torch_generator

Weights = Float[Tensor, "runs width inputs"]


class Constraint:
    """What of the first layer is to vanish: O^T theta, O along one axis; ``together`` a neuron's entries at once."""

    def __init__(self, structure: str, width: int, inputs: int) -> None:
        self.axis, self.together = (0 if structure == PAIRS else 1), structure not in (ENTRIES, PAIRS, COSINES)
        kinds = {ENTRIES: Mirror(P="identity"), PAIRS: Mirror(P="pairs")}
        self.columns = torch.eye(inputs)
        if structure == PAIRS:
            self.columns = torch.eye(width)[:, : width // 2 * 2].unflatten(1, (-1, 2)) @ PAIR.float()
        with TemporaryDirectory() as folder:
            if structure == COSINES:
                file = Path(folder) / "O.npy"
                np.save(file, cosines(math.isqrt(inputs)))
                kinds[COSINES] = Mirror(P="matrix", file=str(file), axis=1)
                self.columns = torch.from_numpy(np.load(file)).float()
            mirror = kinds.get(structure, Mirror(P="rows"))
            scheme = Constrained(name="dcs", mirrors={"theta": mirror}, decay_rest=False)
            self.scheme = constrain(scheme, ["theta"], {}, stacked=True)["theta"]

    def off(self, theta: Weights) -> Float[Tensor, "runs others k"]:
        """The coordinates O^T theta."""
        return theta.movedim(1 + self.axis, -1) @ self.columns

    def put(self, theta: Weights, z: Float[Tensor, "runs others k"]) -> Weights:
        """Theta with other coordinates."""
        return theta + ((z - self.off(theta)) @ self.columns.T).movedim(-1, 1 + self.axis)

    def sizes(self, theta: Weights) -> Float[Tensor, "runs others parts"]:
        """Of what vanishes by itself."""
        z = self.off(theta)
        return z.norm(dim=-1, keepdim=True) if self.together else z.abs()

    def keep(self, theta: Weights, shares: Float[Tensor, " runs"]) -> Float[Tensor, "runs others parts"]:
        """1 for what is left when the smallest share is set to 0."""
        sizes = self.sizes(theta)
        rank = sizes.flatten(1).argsort(1).argsort(1)
        return (rank >= (shares * rank.shape[1]).round()[:, None]).float().view(sizes.shape)

    def shrink(self, theta: Weights, by: Tensor) -> Weights:
        """Proximal map of ``by`` times the sum of ``sizes``."""
        return self.put(theta, (shrink_groups if self.together else shrink)(self.off(theta), by))


def cosines(side: int) -> Float[np.ndarray, "pixels pixels"]:
    """The two-dimensional cosines of images with so many pixels a side, a column each."""
    rows = dct(np.eye(side), norm="ortho", axis=0).T
    return np.kron(rows, rows)


class Trained:
    """The first layers of several runs on the same batches, by one method at a strength each."""

    def __init__(self, method: str, constraint: Constraint, start: Weights, strengths: list[float], lr: float) -> None:
        self.method, self.constraint, self.lr = method, constraint, lr
        self.strengths = torch.tensor(strengths)[:, None, None]
        self.theta = start.expand(len(strengths), -1, -1).contiguous()
        self.kept: Tensor | None = None
        self.factors = constraint.scheme.start(self.theta) if method == FACTORS else []
        self.decays = [self.strengths * (suffix != UNDECAYED) for suffix in constraint.scheme.suffixes]

    def step(self, gradient: Weights) -> None:
        """A step of SGD, and what the method adds to it."""
        if self.method == FACTORS:
            pulls = self.constraint.scheme.pull_back(gradient, *self.factors)
            triples = zip(self.factors, pulls, self.decays, strict=True)
            self.factors = [each - self.lr * (pull + decay * each) for each, pull, decay in triples]
            self.theta = self.constraint.scheme.compose(*self.factors)
            return
        self.theta = self.theta - self.lr * gradient
        if self.method == PROXIMAL:
            self.theta = self.constraint.shrink(self.theta, self.lr * self.strengths)
        elif self.kept is not None:
            self.theta = self.constraint.put(self.theta, self.constraint.off(self.theta) * self.kept)

    def prune(self) -> None:
        """From here on the share that is a run's strength stays 0."""
        self.kept = self.constraint.keep(self.theta, self.strengths.flatten()) if self.method == PRUNED else None


def logits(theta: Weights, rest: list[Tensor], x: Float[Tensor, "n inputs"]) -> Float[Tensor, "runs n classes"]:
    """Of one hidden layer of relu, whose bias and readout are ``rest``."""
    bias, readout, offset = rest
    return (x @ theta.mT + bias[:, None]).relu() @ readout.mT + offset[:, None]


def train(
    trained: Trained, rest: list[Tensor], x: Tensor, y: Tensor, settings: SparseNetworks, drawn: torch.Generator
) -> list[Tensor]:
    """All steps on batches of the same samples; the rest of the networks after them."""
    for step in range(settings.steps):
        if step == settings.steps // 2:
            trained.prune()
        rows = torch.randint(len(x), (settings.batch,), generator=drawn)
        parameters = [each.detach().requires_grad_() for each in (trained.theta, *rest)]
        out = logits(parameters[0], parameters[1:], x[rows])
        loss = cross_entropy(out.flatten(0, 1), y[rows].repeat(len(out)), reduction="sum") / settings.batch
        gradient, *of_rest = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            rest = [each - trained.lr * g for each, g in zip(rest, of_rest, strict=True)]
            trained.step(gradient)
    return rest


def sparsify(settings: SparseNetworks, job: Job, dataset: str, structure: str, seed: int) -> dict[str, pd.DataFrame]:
    """All methods from the same start on the same batches, for the same number of steps.

    After the last, the smallest share of what is to vanish is set to 0, for several shares: ``train`` and ``test``
    accuracy in percent; ``vanished`` is the share of what is at most 1e-6 without that.
    """
    data = job.datasets[dataset]
    (x, y), test = (tuple(map(torch.from_numpy, data.split(name))) for name in ("train", "test"))
    classes = int(y.max()) + 1
    constraint = Constraint(structure, settings.width, x.shape[1])
    tables = []
    for method in (FACTORS, PROXIMAL, PRUNED):
        strengths = settings.shares if method == PRUNED else settings.strengths
        drawn = torch_generator(job.study, "sparse networks", seed)
        shapes = (settings.width, x.shape[1]), (settings.width,), (classes, settings.width), (classes,)
        scales = (2 / x.shape[1]) ** 0.5, 0.0, settings.width**-0.5, 0.0
        start, *others = (
            scale * torch.randn(shape, generator=drawn) for shape, scale in zip(shapes, scales, strict=True)
        )
        rest = [each.expand(len(strengths), *each.shape).contiguous() for each in others]
        trained = Trained(method, constraint, start, strengths, settings.lr)
        rest = train(trained, rest, x, y, settings, drawn)
        for share in settings.shares:
            cut = _accuracies(trained, rest, share, ((x, y), test))
            vanished = (constraint.sizes(trained.theta) <= 1e-6).flatten(1).double().mean(1).numpy()
            named = {"method": method, "strength": strengths, "vanished": vanished, "share": share}
            tables.append(pd.DataFrame({**named, **cut}))
        job.report(f"{structure}, {method}: {tables[-1]['vanished'].max():.3g} vanished at most")
    at = {"dataset": dataset, "structure": structure, "seed": seed}
    return {"mirror_sparse.csv": pd.concat(tables, ignore_index=True).assign(**at)}


def _accuracies(trained: Trained, rest: list[Tensor], share: float, splits: tuple) -> dict[str, np.ndarray]:
    """On training and test samples, with the smallest share set to 0."""
    constraint, theta = trained.constraint, trained.theta
    kept = constraint.keep(theta, torch.full((len(theta),), share))
    theta = constraint.put(theta, constraint.off(theta) * kept)
    right = [(logits(theta, rest, x).argmax(-1) == y).double().mean(1) for x, y in splits]
    return {name: 100 * each.numpy() for name, each in zip(("train", "test"), right, strict=True)}
