"""Networks whose weights are drawn to be sparse: Eq. 7's factors beside proximal SGD and magnitude pruning.

Of weights theta what is to vanish are, of a first layer [width, inputs], coordinates of O^T theta, each by itself, a
neuron's together or a block's; of an attention head's Q^T K its singular values. A penalty on them is the decay of
factors (Sec. 2.6) or a proximal map after each step; or they are set to 0 after half of the steps, the rest trained.
"""

import math
from collections.abc import Sequence
from itertools import product
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
from symlab.papers.mirror_symmetry.convex.proximal import GROUPS, LASSO, NUCLEAR
from symlab.papers.mirror_symmetry.convex.solvers import EqualPairs, Matrices
from symlab.papers.mirror_symmetry.settings import (
    BLOCK,
    BLOCKS,
    COSINES,
    ENTRIES,
    FACTORS,
    PAIRS,
    PROXIMAL,
    PRUNED,
    RANK,
    ROWS,
    SparseNetworks,
)
from symlab.schemes import Constrained, Mirror
from symlab.schemes.constrained import constrain
from symlab.schemes.parametrisation import UNDECAYED, Parametrisation
from symlab.seeds import torch_generator

Weights = Float[Tensor, "runs rows columns"]
PIECE = 1000
"""Samples whose classes are told at once."""


class Constraint:
    """What of the first layer is to vanish: O^T theta, O along one axis, by entries or a neuron's together."""

    scheme: Parametrisation

    def __init__(self, structure: str, width: int, inputs: int) -> None:
        self.shape: tuple[int, ...] = width, inputs
        self.width = width
        self.axis = 0 if structure == PAIRS else 1
        self.penalty = GROUPS if structure in (ROWS, BLOCKS) else LASSO
        self.columns = EqualPairs.columns(width).float() if structure == PAIRS else torch.eye(inputs)
        kinds = {ENTRIES: Mirror(P="identity"), ROWS: Mirror(P="rows"), PAIRS: Mirror(P="pairs")}
        kinds[BLOCKS] = Mirror(P="blocks", block=[BLOCK, BLOCK])
        with TemporaryDirectory() as folder:
            if structure == COSINES:
                file = Path(folder) / "O.npy"
                np.save(file, cosines(math.isqrt(inputs)))
                kinds[COSINES] = Mirror(P="matrix", file=str(file), axis=1)
                self.columns = torch.from_numpy(np.load(file)).float()
            scheme = Constrained(name="dcs", mirrors={"theta": kinds[structure]}, decay_rest=False)
            self.scheme = constrain(scheme, ["theta"], {}, stacked=True)["theta"]

    def start(self, drawn: Weights) -> tuple[Weights, Sequence[Tensor]]:
        """Theta of several runs, and the factors that compose it."""
        return drawn, self.scheme.start(drawn)

    def off(self, theta: Weights) -> Float[Tensor, "runs others k"]:
        """The coordinates O^T theta."""
        return theta.movedim(1 + self.axis, -1) @ self.columns

    def put(self, theta: Weights, z: Float[Tensor, "runs others k"]) -> Weights:
        """Theta with other coordinates."""
        return theta + ((z - self.off(theta)) @ self.columns.T).movedim(-1, 1 + self.axis)

    def sizes(self, theta: Weights) -> Float[Tensor, "runs others parts"]:
        """Of what vanishes by itself."""
        return self.penalty.sizes(self.off(theta))

    def keep(self, theta: Weights, shares: Float[Tensor, " runs"]) -> Tensor:
        """1 for what is left when the smallest share is set to 0."""
        sizes = self.sizes(theta)
        rank = sizes.flatten(1).argsort(1).argsort(1)
        return (rank >= (shares * rank.shape[1]).round()[:, None]).float().view(sizes.shape)

    def hold(self, theta: Weights, kept: Tensor) -> Weights:
        """Theta with all but what is kept at 0."""
        return self.put(theta, self.off(theta) * kept)

    def shrink(self, theta: Weights, by: Tensor) -> Weights:
        """Proximal map of ``by`` times the sum of ``sizes``."""
        return self.put(theta, self.penalty.shrink(self.off(theta), by))

    def rest(self, classes: int) -> list[tuple[tuple[int, ...], float]]:
        """Shapes of the network's other parameters, and the deviation of their initial entries."""
        return [((self.width,), 0.0), ((classes, self.width), self.width**-0.5), ((classes,), 0.0)]

    def logits(
        self, theta: Weights, rest: list[Tensor], x: Float[Tensor, "n inputs"]
    ) -> Float[Tensor, "runs n classes"]:
        """Of one hidden layer of relu, whose bias and readout are ``rest``."""
        bias, readout, offset = rest
        return (x @ theta.mT + bias[:, None]).relu() @ readout.mT + offset[:, None]


class Blocks(Constraint):
    """Blocks of 4 outputs and 4 inputs, each of which vanishes as a whole."""

    def off(self, theta: Weights) -> Tensor:
        """A row a block."""
        tiles = theta.unflatten(2, (-1, BLOCK)).unflatten(1, (-1, BLOCK))
        return tiles.transpose(2, 3).flatten(1, 2).flatten(2)

    def put(self, theta: Weights, z: Tensor) -> Weights:
        across = theta.shape[2] // BLOCK
        tiles = z.unflatten(2, (BLOCK, BLOCK)).unflatten(1, (-1, across))
        return tiles.transpose(2, 3).flatten(1, 2).flatten(2)


class Rank(Constraint):
    """Singular values of Q^T K, of one attention head over the rows of an image: pixels, and which row it is."""

    def __init__(self, structure: str, width: int, inputs: int) -> None:
        self.side, self.width, self.scheme = math.isqrt(inputs), width, Matrices()
        self.shape = 2, 2 * self.side, 2 * self.side

    def start(self, drawn: Tensor) -> tuple[Weights, Sequence[Tensor]]:
        factors = self.scheme.start(drawn)
        return self.scheme.compose(*factors), factors

    def sizes(self, theta: Weights) -> Tensor:
        return NUCLEAR.sizes(theta)

    def hold(self, theta: Weights, kept: Tensor) -> Weights:
        """The nearest matrices of the ranks that are kept."""
        U, s, Vh = torch.linalg.svd(theta)
        return (U * (s * kept[:, 0].sort(descending=True).values)[:, None]) @ Vh

    def shrink(self, theta: Weights, by: Tensor) -> Weights:
        return NUCLEAR.shrink(theta, by)

    def rest(self, classes: int) -> list[tuple[tuple[int, ...], float]]:
        return [((self.width, 2 * self.side), self.side**-0.5), *super().rest(classes)]

    def logits(self, theta: Weights, rest: list[Tensor], x: Tensor) -> Tensor:
        """Relu of what the head mixes, its mean over rows, a readout."""
        value, bias, readout, offset = rest
        rows = torch.cat([x.unflatten(1, (self.side, self.side)), torch.eye(self.side).expand(len(x), -1, -1)], 2)
        scores = rows @ theta[:, None] @ rows.mT / (2 * self.side) ** 0.5
        hidden = (scores.softmax(-1) @ rows @ value[:, None].mT + bias[:, None, None]).relu().mean(2)
        return hidden @ readout.mT + offset[:, None]


def constraint_of(structure: str, width: int, inputs: int) -> Constraint:
    """The constraint of a structure's name."""
    return {RANK: Rank, BLOCKS: Blocks}.get(structure, Constraint)(structure, width, inputs)


def cosines(side: int) -> Float[np.ndarray, "pixels pixels"]:
    """The two-dimensional cosines of images with so many pixels a side, a column each."""
    rows = dct(np.eye(side), norm="ortho", axis=0).T
    return np.kron(rows, rows)


class Trained:
    """Several runs on the same batches, by one method: from each of some starts at each strength."""

    def __init__(
        self,
        method: str,
        constraint: Constraint,
        starts: Tensor,
        strengths: list[float],
        lr: float,
        rest: Sequence[Tensor] = (),
    ) -> None:
        self.method, self.constraint, self.lr = method, constraint, lr
        self.strengths = torch.tensor(strengths).repeat(len(starts))[:, None, None]
        self.theta, factors = constraint.start(starts.repeat_interleave(len(strengths), 0))
        self.rest = [each.expand(len(self.theta), *each.shape).contiguous() for each in rest]
        self.factors = list(factors) if method == FACTORS else []
        suffixes = zip(self.factors, constraint.scheme.suffixes, strict=False)
        self.decays = [
            self.strengths.view(-1, *[1] * (each.dim() - 1)) * (name != UNDECAYED) for each, name in suffixes
        ]
        self.kept: Tensor | None = None

    def learn(self, x: Tensor, y: Tensor) -> None:
        """A step of all parameters on a batch."""
        parameters = [each.detach().requires_grad_() for each in (self.theta, *self.rest)]
        out = self.constraint.logits(parameters[0], parameters[1:], x)
        loss = cross_entropy(out.flatten(0, 1), y.repeat(len(out)), reduction="sum") / len(y)
        gradient, *of_rest = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            self.rest = [each - self.lr * g for each, g in zip(self.rest, of_rest, strict=True)]
            self.step(gradient)

    def step(self, gradient: Weights) -> None:
        """Theta's step of SGD, and what the method adds to it."""
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
            self.theta = self.constraint.hold(self.theta, self.kept)

    def prune(self) -> None:
        """From here on the share that is a run's strength stays 0."""
        self.kept = self.constraint.keep(self.theta, self.strengths.flatten()) if self.method == PRUNED else None

    def accuracies(self, share: float, splits: Sequence[tuple[Tensor, ...]]) -> list[np.ndarray]:
        """In percent on each split, with the smallest share set to 0."""
        theta = self.constraint.hold(
            self.theta, self.constraint.keep(self.theta, torch.full((len(self.theta),), share))
        )
        return [100 * self._right(theta, x, y).double().mean(1).numpy() for x, y in splits]

    def _right(self, theta: Weights, x: Tensor, y: Tensor) -> Tensor:
        pieces = [self.constraint.logits(theta, self.rest, piece).argmax(-1) for piece in x.split(PIECE)]
        return torch.cat(pieces, 1) == y


def beside(start: Tensor, repeats: int, drawn: torch.Generator) -> Tensor:
    """A start, and others with every entry larger or smaller by about one rounding, as of another processor."""
    signs = torch.randint(2, (repeats, *start.shape), generator=drawn) * 2 - 1
    signs[0] = 0
    return start * (1 + torch.finfo(start.dtype).eps * signs)


def sparsify(settings: SparseNetworks, job: Job, dataset: str, structure: str, seed: int) -> dict[str, pd.DataFrame]:
    """All methods from the same start on the same batches, for the same number of steps.

    ``train`` and ``test`` accuracy in percent, with several shares of what is to vanish, the smallest, set to 0;
    ``vanished`` is the share of what is at most 1e-6 without that.
    """
    data = job.datasets[dataset]
    (x, y), test = (tuple(map(torch.from_numpy, data.split(name))) for name in ("train", "test"))
    constraint = constraint_of(structure, settings.width, x.shape[1])
    drawn = torch_generator(job.study, "sparse networks", seed)
    parameters = [(constraint.shape, (2 / constraint.shape[-1]) ** 0.5), *constraint.rest(int(y.max()) + 1)]
    start, *rest = (scale * torch.randn(shape, generator=drawn) for shape, scale in parameters)
    strengths = {FACTORS: settings.strengths, PROXIMAL: settings.strengths, PRUNED: settings.shares}
    starts = beside(start, settings.repeats, torch_generator(job.study, "sparse networks", "rounding", seed))
    methods = [Trained(method, constraint, starts, each, settings.lr, rest) for method, each in strengths.items()]
    for step in range(settings.steps):
        rows = torch.randint(len(x), (settings.batch,), generator=drawn)
        for each in methods:
            if step == settings.steps // 2:
                each.prune()
            each.learn(x[rows], y[rows])
    tables = []
    for each in methods:
        vanished = (constraint.sizes(each.theta) <= 1e-6).flatten(1).double().mean(1).numpy()
        repeat, strength = zip(*product(range(settings.repeats), strengths[each.method]), strict=True)
        of_runs = {"method": each.method, "strength": strength, "repeat": repeat, "vanished": vanished}
        for share in settings.shares:
            on = dict(zip(("train", "test"), each.accuracies(share, ((x, y), test)), strict=True))
            tables.append(pd.DataFrame({**of_runs, "share": share, **on}))
        job.report(f"{structure}, {each.method}: {vanished.max():.3g} vanished at most")
    at = {"dataset": dataset, "structure": structure, "seed": seed}
    return {"mirror_sparse.csv": pd.concat(tables, ignore_index=True).assign(**at)}
