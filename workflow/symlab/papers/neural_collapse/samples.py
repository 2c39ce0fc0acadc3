"""What networks are minimised on: samples of each class, images whitened by a map that the first layer can undo."""

import math
from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

from symlab.data.dataset import Dataset
from symlab.data.samples import pooled_samples
from symlab.errors import UserError
from symlab.measures.collapse import class_scatter
from symlab.networks.images import cut
from symlab.papers.neural_collapse.settings import OnSamples, Runs
from symlab.schemes.fixed_parts import State

TESTED = 1000
"""Samples of the test part, at most."""
RIDGE = 1e-3
"""Share of the mean variance that is added to each variance before inputs are divided by their roots."""
TINY = 1e-30


@dataclass(frozen=True)
class Whitening:
    """An affine map of images, or of all their patches, to mean 0 and nearly the identity as their covariance.

    The first layer is linear, with a bias and without a penalty: it undoes the map, so no optimum changes. L-BFGS
    comes there in half the iterations.

    grid: how images are cut into the parts that the first layer reads, as ``cut`` has it; None where it reads all at
        once.
    """

    mean: Float[Tensor, " i"]
    to_one: Float[Tensor, "i i"]
    from_one: Float[Tensor, "i i"]
    grid: tuple[int, ...] | None

    @classmethod
    def of(cls, x: Float[Tensor, "n i"], patch: tuple[int, int] | None = None) -> Self:
        """That of images, or of their patches of so many channels and such a side.

        Raises:
            UserError: patches do not fill the images.
        """
        grid = None
        if patch is not None:
            channels, side = patch
            count, left = divmod(math.isqrt(x.shape[1] // channels), side)
            if left or channels * (side * count) ** 2 != x.shape[1]:
                raise UserError(f"patch = {side} does not cut the images, of {x.shape[1]} inputs, into equal squares.")
            grid = (channels, count, side, count, side)
        parts = _cut(x, grid).flatten(0, -2)
        variances, axes = torch.linalg.eigh(torch.cov(parts.T))
        # Where all images are equal they stay so, at 0.
        roots = (variances + RIDGE * variances.mean()).clamp(min=TINY).sqrt()
        return cls(parts.mean(0), axes / roots @ axes.T, axes * roots @ axes.T, grid)

    def __call__(self, x: Float[Tensor, "n i"]) -> Float[Tensor, "n i"]:
        parts = ((_cut(x, self.grid) - self.mean) @ self.to_one).float()
        if self.grid is None:
            return parts
        channels, rows, height, columns, width = self.grid
        images = parts.unflatten(2, (channels, height, width)).unflatten(1, (rows, columns))
        return images.permute(0, 3, 1, 4, 2, 5).flatten(1)

    def carried(self, state: State) -> State:
        """The same maps of whitened inputs as those of plain ones by networks [seeds, ...]."""
        W, b = state["embedding.weight"], state["embedding.bias"]
        return {**state, "embedding.weight": W @ self.from_one, "embedding.bias": b + W @ self.mean}


def _cut(images: Float[Tensor, "n i"], grid: tuple[int, ...] | None) -> Float[Tensor, "*n i"]:
    return images.double() if grid is None else cut(images.double(), grid)


@dataclass(frozen=True)
class Samples:
    """Inputs and labels of a grid, and others to test on; if inputs are whitened, by what, and as they were.

    image: channels and sides in the data set, or None; words: of its texts.
    """

    x: Tensor
    y: Tensor
    x_test: Tensor
    y_test: Tensor
    classes: int
    whitening: Whitening | None = None
    plain: Tensor | None = None
    image: tuple[int, ...] | None = None
    words: int = 0


def samples_of(grid: OnSamples, dataset: Dataset) -> Samples:
    """The first of each class, tested on the data set's test part; of texts by token, all tokens but the last.

    Images are whitened but for controls by minibatches.

    Raises:
        UserError: samples or patches do not fit the data set.
    """
    words = int(dataset.x_train.max()) + 1 if dataset.image is None else 0
    if isinstance(grid, Runs) and grid.every_token:
        x, _ = pooled_samples(dataset, samples=grid.per_class)
        x_test = torch.from_numpy(dataset.split("test")[0])[: grid.per_class]
        return Samples(x[:, :-1], x[:, 1:].long(), x_test[:, :-1], x_test[:, 1:].long(), words, words=words)
    x, y = pooled_samples(dataset, grid.pool, per_class=grid.per_class, scaled=False)
    x_test, y_test = pooled_samples(dataset, grid.pool, samples=TESTED, split="test", scaled=False)
    whitening, plain = None, None
    if isinstance(grid, Runs) and grid.optimizer != "lbfgs":  # as in practice
        mean, std = (x.mean(), x.std()) if grid.pool > 1 else (0, 1)
        x, x_test = (x - mean) / std, (x_test - mean) / std
    elif dataset.image is not None:
        patch = grid.patch if isinstance(grid, Runs) else None
        whitening, plain = Whitening.of(x, None if patch is None else (dataset.image[0], patch)), x
        x, x_test = whitening(x), whitening(x_test)
    return Samples(x, y, x_test, y_test, dataset.n_classes, whitening, plain, dataset.image, words)


def within_over_between(H: Float[Tensor, "n d"], y: Int[Tensor, " n"], K: int) -> Float[Tensor, ""]:
    """NC1 = tr Sigma_W / tr Sigma_B; Sigma_W is the mean over samples, Sigma_B over classes."""
    _, rest, between = class_scatter(H, y, K)
    return rest.square().sum() / len(H) / between


def rank_with_constant(x: Float[Tensor, "n i"]) -> int:
    """Rank of [x; 1]: if it is the number of samples a free linear map collapses them, and depth has nothing to do."""
    ones = torch.cat([x.double(), torch.ones(len(x), 1, dtype=torch.float64)], 1)
    # What x was rounded to is no dimension.
    return int(torch.linalg.matrix_rank(ones, rtol=max(ones.shape) * torch.finfo(x.dtype).eps))
