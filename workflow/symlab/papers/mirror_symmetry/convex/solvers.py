"""Products of factors with weight decay against convex solvers, for any mirror (Sec. 2.6, Eq. 7).

loss(u * w) + alpha (|u|^2 + |w|^2) has the least value of loss(theta) + 2 alpha |theta|_1, and so for one scalar s a
group in s w (the sum of the groups' norms), for matrices W U (the nuclear norm) and for theta = (I - P) v +
O ((O^T w) o (O^T u)), as the scheme ``dcs`` composes it, where v does not decay (|O^T theta|_1).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Self

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.convex.proximal import (
    GROUPS,
    LASSO,
    NUCLEAR,
    Batch,
    Penalty,
    accelerate,
    at_moments,
    descend,
    shrink,
)
from symlab.papers.mirror_symmetry.settings import DRAWN, EQUAL, FACTORS, FISTA, ISTA, UNEQUAL, Solvers
from symlab.schemes.constrained import ROOT, Groups, Pairs
from symlab.schemes.hadamard import Product
from symlab.schemes.mirror_matrix import Matrix
from symlab.schemes.parametrisation import UNDECAYED, Parametrisation
from symlab.seeds import torch_generator

GROUP = 5
PAIR = torch.tensor([ROOT, -ROOT], dtype=torch.float64)


class Matrices(Parametrisation):
    """theta = U W, two matrices, whose decay is the nuclear norm of theta."""

    suffixes = ("u", "w")

    def start(self, value: Float[Tensor, "batch 2 n n"]) -> list[Tensor]:
        """Both matrices from both, since balanced ones of one theta would be on mirrors."""
        return [each.clone() for each in value.unbind(1)]

    def compose(self, *trained: Tensor) -> Tensor:
        return trained[0] @ trained[1]

    def compose_into(self, target: Tensor, *trained: Tensor) -> None:
        torch.matmul(trained[0], trained[1], out=target)

    def pull_back(self, gradient: Tensor, *trained: Tensor) -> list[Tensor]:
        u, w = trained
        return [gradient @ w.mT, u.mT @ gradient]

    def pinned(self) -> None:
        return None


class Problem(ABC):
    """mean |X theta - y|^2 + 2 alpha penalty(theta) for a batch of draws and strengths, theta [batch, rows, columns].

    A lasso has one column of coefficients, a group lasso a row for each group, the matrix problem outputs as columns.
    """

    name: str
    penalty: Penalty = LASSO
    starts: tuple[str, ...] = (UNEQUAL,)
    factors: Parametrisation = Product(on_mirror=False, stacked=True)
    """How theta is composed, of tensors of which decay acts on all but the undecayed."""
    x: Tensor
    y: Tensor

    def __init__(self, S: Tensor, b: Batch, alpha: Float[Tensor, " batch"], start: Tensor) -> None:
        """Of S = X^T X / n, b = X^T y / n, and two draws of theta [batch, 2, rows, columns] that factors start from."""
        self.S, self.b, self.alpha, self.start = S, b, alpha[:, None, None], start
        self.rate = 1 / (2 * torch.linalg.matrix_norm(S, 2))[:, None, None]

    @classmethod
    def draw_all(cls, settings: Solvers, study: str) -> Self:
        """A draw a seed, at every strength."""
        drawn = [cls.draw(settings, torch_generator(study, "solvers", cls.name, s)) for s in range(settings.seeds)]
        times = len(settings.strengths)
        x, y, start = (torch.stack(each).repeat_interleave(times, 0) for each in zip(*drawn, strict=True))
        b = (x.mT @ y / x.shape[1]).reshape(start[:, 0].shape)
        strength = torch.tensor(settings.strengths, dtype=torch.float64).repeat(settings.seeds)
        problem = cls(x.mT @ x / x.shape[1], b, strength, start)
        # Below the largest of these the minimum is not 0.
        problem.alpha = problem.alpha * problem.penalty.sizes(b).amax((1, 2), keepdim=True)
        problem.x, problem.y = x, y
        return problem

    @staticmethod
    @abstractmethod
    def draw(settings: Solvers, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Samples x [n, d] and y [n, outputs], and two draws of normal entries of variance 1/d in theta's shape."""

    def begin(self, start: str) -> Sequence[Batch]:
        """Factors before the first step: by default the scheme's, of which none is on a mirror."""
        return self.factors.start(self.start[:, 0].contiguous())

    def gradient(self, theta: Batch) -> Batch:
        """Of the mean squared error."""
        return 2 * (self._apply(theta) - self.b)

    def objective(self, theta: Batch) -> Float[Tensor, " batch"]:
        """Mean squared error and penalty, less the mean of y^2."""
        fit = (theta * (self._apply(theta) - 2 * self.b)).sum((1, 2))
        return fit + 2 * self.alpha[:, 0, 0] * self.penalty.sizes(theta).flatten(1).sum(1)

    def minimum(self, steps: int = 3000) -> Batch:
        """The minimiser, by FISTA from 0."""
        path = accelerate(self.gradient, self.shrink_step, torch.zeros_like(self.b), self.rate)
        return next(islice(path, steps, None))

    def shrink_step(self, theta: Batch) -> Batch:
        """Proximal map of rate times the penalty."""
        return self.penalty.shrink(theta, 2 * self.alpha * self.rate)

    def _apply(self, theta: Batch) -> Batch:
        return (self.S @ theta.reshape(len(theta), self.S.shape[1], -1)).reshape(theta.shape)


class Lasso(Problem):
    """Every coefficient a product u w (spred, Ziyin and Wang 2023); a fifth of the true ones are 1 or -1."""

    name = "lasso"
    starts = (UNEQUAL, EQUAL, DRAWN)

    @staticmethod
    def draw(settings: Solvers, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        d = settings.d
        x, noise, sign, start = _normal(generator, (settings.n, d), (settings.n,), (d,), (2, d, 1))
        truth = sign.sign() * (torch.arange(d) < d // 5)
        return x, (x @ truth + settings.label_noise * noise)[:, None], start / d**0.5

    def begin(self, start: str) -> Sequence[Batch]:
        if start == DRAWN:
            return [each.clone() for each in self.start.unbind(1)]
        return Product(on_mirror=start == EQUAL, stacked=True).start(self.start[:, 0])


class GroupLasso(Problem):
    """Every group of five a vector times a scalar; a fifth of the true groups are normal, of variance 1."""

    name = "group lasso"
    penalty = GROUPS
    factors = Groups(1, "theta", kept=(0,))

    @staticmethod
    def draw(settings: Solvers, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        n, d, groups = settings.n, settings.d, settings.d // GROUP
        x, noise, truth, start = _normal(generator, (n, d), (n,), (groups, GROUP), (2, groups, GROUP))
        truth = truth * (torch.arange(groups) < max(1, groups // 5))[:, None]
        return x, (x @ truth.flatten() + settings.label_noise * noise)[:, None], start / d**0.5

    def begin(self, start: str) -> Sequence[Batch]:
        w, s = Product(on_mirror=False, stacked=True).start(self.start[:, 0])
        return s[:, :, :1].clone(), w


class NuclearNorm(Problem):
    """A product of two matrices; the true one has a seventh of the full rank, and singular values of about 1."""

    name = "nuclear norm"
    penalty = NUCLEAR
    factors = Matrices()

    @staticmethod
    def draw(settings: Solvers, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        n, side, rank = settings.n, settings.side, max(1, settings.side // 7)
        shapes = (n, side), (n, side), (side, rank), (rank, side), (2, side, side)
        x, noise, left, right, start = _normal(generator, *shapes)
        return x, x @ left @ right * 2 / (side * rank**0.5) + settings.label_noise * noise, start / side**0.5

    def begin(self, start: str) -> Sequence[Batch]:
        return self.factors.start(self.start)


class Scores(NuclearNorm):
    """Scores q^T M k of pairs of vectors by a product M = Q^T K of low rank, as an attention head has it."""

    name = "query and key"

    @staticmethod
    def draw(settings: Solvers, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        n, side, rank = 8 * settings.n, settings.side, max(1, settings.side // 7)
        q, k, noise, left, right, start = _normal(
            generator, (n, side), (n, side), (n,), (side, rank), (rank, side), (2, side, side)
        )
        truth = left @ right * 2 / (side * rank**0.5)
        y = ((q @ truth) * k).sum(1) + settings.label_noise * noise
        return (q[:, :, None] * k[:, None]).flatten(1), y[:, None], start / side**0.5


class Constrained(Problem):
    """|O^T theta|_1 as the scheme ``dcs`` has it: (I - P) theta is free, a fifth of the true O^T theta is 1 or -1."""

    @staticmethod
    @abstractmethod
    def columns(d: int) -> Float[Tensor, "d k"]:
        """O, orthonormal."""

    def __init__(self, S: Tensor, b: Batch, alpha: Tensor, start: Tensor) -> None:
        super().__init__(S, b, alpha, start)
        O = self.columns(b.shape[1])  # noqa: E741
        self.factors = Matrix(1, O, Product(on_mirror=False, stacked=True), 0, False, "theta")
        self.penalty = Penalty(
            lambda theta: (O.T @ theta).abs(),
            lambda theta, by: theta + O @ (shrink(z := O.T @ theta, by) - z),
        )

    @classmethod
    def draw(cls, settings: Solvers, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        n, d = settings.n, settings.d
        columns = cls.columns(d)
        x, noise, rest, sign, start = _normal(generator, (n, d), (n,), (d,), columns.shape[1:], (2, d, 1))
        z = sign.sign() * (torch.arange(columns.shape[1]) < max(1, columns.shape[1] // 5))
        truth = rest - columns @ (columns.T @ rest - z)
        return x, (x @ truth + settings.label_noise * noise)[:, None], start / d**0.5


class EqualPairs(Constrained):
    """Differences of coefficients 2i and 2i + 1, which the penalty makes equal: the mirrors of two neurons."""

    name = "equal pairs"

    def __init__(self, S: Tensor, b: Batch, alpha: Tensor, start: Tensor) -> None:
        super().__init__(S, b, alpha, start)
        self.factors = Pairs(1, "theta", decayed=False)

    @staticmethod
    def columns(d: int) -> Tensor:
        return torch.eye(d, dtype=torch.float64)[:, : d // 2 * 2].unflatten(1, (-1, 2)) @ PAIR


class Columns(Constrained):
    """Half as many directions as coefficients, drawn once: a P from a file."""

    name = "columns of a matrix"

    @staticmethod
    def columns(d: int) -> Tensor:
        drawn = torch.randn(d, d // 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        return torch.linalg.qr(drawn)[0]


def _normal(generator: torch.Generator, *shapes: tuple[int, ...]) -> list[Tensor]:
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


PROBLEMS = {kind.name: kind for kind in (Lasso, GroupLasso, NuclearNorm, EqualPairs, Columns, Scores)}


def compare_solvers(settings: Solvers, job: Job, problem: str) -> dict[str, pd.DataFrame]:
    """Factors with decay, ISTA and FISTA on a problem, in double precision.

    All take full-batch steps of one product with S each, ISTA and FISTA from the unequal factors' product at rate 1/L,
    factors at ``rate``/L.
    """
    of = PROBLEMS[problem].draw_all(settings, job.study)
    least, tables = of.objective(of.minimum()), []
    keys = [(seed, strength) for seed in range(settings.seeds) for strength in settings.strengths]
    frame = pd.DataFrame(keys, columns=["seed", "strength"]).assign(problem=of.name)
    for method, start in [(FACTORS, start) for start in of.starts] + [(each, UNEQUAL) for each in (ISTA, FISTA)]:
        for step, theta in walk(of, method, start, settings):
            gap = (of.objective(theta) - least).numpy()
            tables.append(frame.assign(method=method, start=start, step=step, gap=gap))
    return {"mirror_solvers.csv": pd.concat(tables, ignore_index=True)}


def walk(problem: Problem, method: str, start: str, settings: Solvers) -> Iterator[tuple[int, Batch]]:
    """Theta before the first step, and after log-spaced numbers of steps to the last."""
    decades = np.log10(settings.steps)
    spaced = np.logspace(0, decades, round(settings.per_decade * decades) + 1).round().astype(int)
    factors = problem.begin(start)
    if method == FACTORS:
        path = steps_of_factors(problem, factors, settings.rate * problem.rate)
    else:
        follow = descend if method == ISTA else accelerate
        path = follow(problem.gradient, problem.shrink_step, problem.factors.compose(*factors), problem.rate)
    return at_moments(path, {0, *spaced.tolist()})


def steps_of_factors(problem: Problem, factors: Sequence[Batch], lr: Tensor | float) -> Iterator[Batch]:
    """Theta before each step of gradient descent, with a decay of alpha times the factors' squares."""
    shrinking = [0.0 if suffix == UNDECAYED else 2 * problem.alpha for suffix in problem.factors.suffixes]
    while True:
        yield (theta := problem.factors.compose(*factors))
        pulls = problem.factors.pull_back(problem.gradient(theta), *factors)
        factors = [f - lr * (g + s * f) for f, g, s in zip(factors, pulls, shrinking, strict=True)]
