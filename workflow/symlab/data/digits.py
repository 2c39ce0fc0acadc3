"""The 1,797 real 8x8 digits that come with scikit-learn: the default data set, which needs no network."""

from pathlib import Path

import numpy as np

from symlab.artifacts import content_digest
from symlab.data import Digits
from symlab.data.dataset import Dataset, mean_and_std
from symlab.data.splits import random_split, tenth
from symlab.seeds import numpy_rng


def load(spec: Digits, data_dir: Path | None) -> Dataset:
    """Random 80/10/10 split (seeded by ``seed``) of all images, 64 inputs 0..16, standardised by the train split."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x, y = images.astype(np.float32), labels.astype(np.int64)
    rows = random_split(len(x), tenth(len(x)), tenth(len(x)), numpy_rng("split", "digits", spec.seed))
    mean, std = mean_and_std(x[rows[0]])
    return Dataset.of_rows(
        *(x, y, rows),
        task="classification",
        n_classes=10,
        mean=mean,
        std=std,
        image=spec.image,
        provenance={
            "source": "digits",
            "split": spec.split,
            "seed": spec.seed,
            "inputs_sha256": content_digest({"images": x, "labels": y}),
        },
    )
