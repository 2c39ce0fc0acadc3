"""Training samples as experiments take them: pixels averaged, equally many of each class."""

from typing import Literal

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor

from symlab.data.dataset import Dataset
from symlab.errors import UserError


def pooled_samples(
    dataset: Dataset,
    pool: int = 1,
    samples: int | None = None,
    per_class: int | None = None,
    split: Literal["train", "val", "test"] = "train",
    scaled: bool = True,
) -> tuple[Tensor, Tensor]:
    """Normalised inputs [n, d] and targets [n], the first ones of a part of the data set.

    Args:
        pool: pixels of each side of an image that are averaged into one; they are then ``scaled`` to variance 1 again.
        samples: how many; None for all.
        per_class: how many of each class instead.

    Raises:
        UserError: a class has fewer samples, or pooling does not fit the images.
    """
    x, y = map(torch.from_numpy, dataset.split(split))
    if per_class is not None:
        of_class = [np.flatnonzero(y == label)[:per_class] for label in range(dataset.n_classes)]
        if (fewest := min(map(len, of_class))) < per_class:
            raise UserError(f"per_class is {per_class}, but a class has only {fewest} training samples.")
        rows = torch.from_numpy(np.sort(np.concatenate(of_class)))
        x, y = x[rows], y[rows]
    x, y = x[:samples], y[:samples]
    if pool > 1:
        if dataset.image is None or any(side % pool for side in dataset.image[1:]):
            raise UserError(f"pool = {pool} averages pixels, which needs images whose sides it divides.")
        x = functional.avg_pool2d(x.unflatten(1, dataset.image), pool).flatten(1)
        x = (x - x.mean()) / x.std() if scaled else x
    return x, y
