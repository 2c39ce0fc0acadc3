"""Gaussian classes in a k-dimensional subspace of R^d (paper, appendix F.6)."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from symlab.data import Gmm
from symlab.data.dataset import Dataset
from symlab.data.rotation import haar_frame
from symlab.errors import UserError
from symlab.seeds import numpy_rng

SAMPLES = 20_000
"""Samples on which the accuracy of the best classifier is measured: its standard error is below 0.4 points."""


class Geometry(NamedTuple):
    """The fixed part of a mixture: class means mu_c, rotations Q_c, the shared scales s, and the embedding P."""

    means: Float64[np.ndarray, "n_classes k"]
    rotations: Float64[np.ndarray, "n_classes k k"]
    scales: Float64[np.ndarray, " k"]
    embedding: Float64[np.ndarray, "d k"]


def geometry(k: int, d: int, n_classes: int, sigma_sep: float, rng: np.random.Generator) -> Geometry:
    """Draw mu_c ~ N(0, sigma_sep^2)^k, Haar Q_c, s ~ N(0, 1)^k and an orthonormal P."""
    return Geometry(
        means=sigma_sep * rng.standard_normal((n_classes, k)),
        rotations=np.stack([haar_frame(k, k, rng) for _ in range(n_classes)]),
        scales=rng.standard_normal(k),
        embedding=haar_frame(d, k, rng),
    )


def sample(
    shape: Geometry, n: int, rng: np.random.Generator
) -> tuple[Float64[np.ndarray, "n d"], Int64[np.ndarray, " n"]]:
    """n samples x = P Q_c (mu_c + e) with e ~ N(0, diag(s^2)) and classes c drawn uniformly."""
    y = rng.integers(len(shape.means), size=n)
    latents = shape.means[y] + shape.scales * rng.standard_normal((n, len(shape.scales)))
    for label, rotation in enumerate(shape.rotations):
        latents[y == label] = latents[y == label] @ rotation.T
    return latents @ shape.embedding.T, y


def best_accuracy(shape: Geometry, n: int, rng: np.random.Generator) -> float:
    """Share of n samples that the mixture's exact posterior assigns to their own class: what no classifier beats."""
    x, y = sample(shape, n, rng)
    latents = x @ shape.embedding
    # All classes are as frequent and have the same determinant, so the nearest mean, in units of the noise, decides.
    distances = [
        np.square((latents @ rotation - mean) / shape.scales).sum(axis=1)
        for rotation, mean in zip(shape.rotations, shape.means, strict=True)
    ]
    return float(np.mean(np.argmin(distances, axis=0) == y))


def blur(shape: Geometry, accuracy: float, seed: int) -> Geometry:
    """The mixture with as much isotropic noise in its subspace as lets the best classifier reach ``accuracy``.

    The separation of the means could not do it: where k is large, the classes' covariances alone tell them apart.

    Raises:
        UserError: without further noise the best classifier stays below it.
    """

    def blurred(noise: float) -> Geometry:
        return shape._replace(scales=np.hypot(shape.scales, noise))

    def reached(noise: float) -> float:
        # The same draws for every noise, so that the accuracy is a function of it.
        return best_accuracy(blurred(noise), SAMPLES, numpy_rng("gmm", "accuracy", seed))

    if (best := reached(0.0)) < accuracy:
        raise UserError(
            f"the gmm data set with k = {len(shape.scales)} has bayes_accuracy = {accuracy:g}, but its best classifier "
            f"reaches {best:.3f}; give it a larger sigma_sep, another seed or a lower bayes_accuracy."
        )
    low, high = 0.0, 1.0
    while reached(high) > accuracy:
        low, high = high, 2 * high
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) > accuracy else (low, middle)
    return blurred(high)


def load(spec: Gmm, data_dir: Path | None) -> Dataset:
    """The mixture with ``k``, ``d``, ``n_classes``, ``sigma_sep`` and ``seed``; extras hold ``U`` = P [d, k].

    Each split has its own generator, so changing the size of one leaves the others as they were.
    """
    k, d, n_classes, seed = spec.k, spec.d, spec.n_classes, spec.seed
    shape = geometry(k, d, n_classes, spec.sigma_sep, numpy_rng("gmm", "geometry", seed))
    if spec.bayes_accuracy is not None:
        shape = blur(shape, spec.bayes_accuracy, seed)
    arrays: dict[str, Any] = {}
    for name, n in (("train", spec.n_train), ("val", spec.n_val), ("test", spec.n_test)):
        x, y = sample(shape, n, numpy_rng("gmm", name, seed))
        arrays |= {f"x_{name}": x.astype(np.float32), f"y_{name}": y}
    return Dataset(
        **arrays,
        task="classification",
        n_classes=n_classes,
        extras={"U": shape.embedding.astype(np.float32)},
        provenance={"source": "gmm", "k": k, "d": d, "sigma_sep": spec.sigma_sep, "seed": seed},
    )
