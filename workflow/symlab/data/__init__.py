"""Data sets by the names of their sources in a config: a class of settings each, which names the module that loads it.

The Snakefile reads this registry on every start, so the modules are named and not imported.
"""

from __future__ import annotations

import math
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from symlab.settings import Amount, Fraction, Positive, ProperFraction, Settings

if TYPE_CHECKING:
    from symlab.data.dataset import Dataset


class Source(Settings):
    """A data set's keys, and facts about it that decide which networks go with it."""

    source: str
    seed: int = Field(0, ge=0, description="Seed of the split and of synthetic samples.")
    loader: ClassVar[str]
    """``module:function`` of (these settings, data_dir), which gives a Dataset."""
    files: ClassVar[tuple[int, int, int] | None] = None
    """(channels, height, width) of the images in its files; None where the inputs are no images."""
    subspace: ClassVar[bool] = False
    """Whether the subspace of its inputs is known."""

    @property
    def image(self) -> tuple[int, int, int] | None:
        """(channels, height, width) of its images as networks see them."""
        return self.files

    @property
    def inputs(self) -> int | None:
        """Input dimension."""
        return None if self.image is None else self.image[0] * self.image[1] * self.image[2]

    @property
    def reads(self) -> list[str]:
        """Files of the user's whose change makes the data set anew."""
        return []

    def columns(self) -> dict[str, Any]:
        """What tables tell of it; ``classes`` from ``n_classes``, which only sources of labelled samples have."""
        keys = ("k", "embedding", "t", "target_nu")
        told = {"source": self.source, "classes": getattr(self, "n_classes", None)}
        return {**told, **{key: getattr(self, key, None) for key in keys}}


class Digits(Source):
    """1,797 handwritten digits of 8 x 8 pixels, from scikit-learn."""

    source: Literal["digits"]
    split: Literal["random"] = Field("random", description="80/10/10 of all images; there is no official test set.")
    loader: ClassVar[str] = "symlab.data.digits:load"
    n_classes: ClassVar[int] = 10
    files: ClassVar[tuple[int, int, int] | None] = (1, 8, 8)


class Gmm(Source):
    """Gaussian classes in a k-dimensional subspace of R^d."""

    source: Literal["gmm"]
    k: Positive = Field(description="Intrinsic dimension.")
    sigma_sep: Amount = Field(description="Standard deviation of the class means.")
    bayes_accuracy: ProperFraction | None = Field(
        None,
        description="Accuracy of the best classifier, which makes the task as hard at every k: isotropic noise within "
        "the subspace is added until it is reached. null adds none; the task then gets easier as k grows.",
    )
    d: Positive = Field(128, description="Ambient dimension.")
    n_classes: int = Field(5, ge=2, description="Number of classes.")
    n_train: Positive = Field(50_000, description="Training samples.")
    n_val: int = Field(5_000, ge=0, description="Validation samples.")
    n_test: Positive = Field(10_000, description="Test samples.")
    loader: ClassVar[str] = "symlab.data.gmm:load"
    subspace: ClassVar[bool] = True

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.k > self.d:
            raise ValueError(f"k = {self.k} exceeds d = {self.d}")
        if self.bayes_accuracy is not None and self.bayes_accuracy <= 1 / self.n_classes:
            raise ValueError(f"bayes_accuracy is above chance, which is 1/{self.n_classes}")
        return self

    @property
    def inputs(self) -> int | None:
        return self.d


class Coherence(Source):
    """Data along a subspace of chosen coherence nu = 1/t, labelled by a teacher."""

    source: Literal["coherence"]
    embedding: Literal["exact_copy", "random_frame"] = Field(description="Family of the embedding.")
    t: Positive = Field(description="Number of copies, nu = 1/t.")
    d: Positive = Field(20, description="Ambient dimension, at least 2 t.")
    n_train: Positive = Field(1024, description="Training samples.")
    n_test: Positive = Field(2048, description="Test samples.")
    loader: ClassVar[str] = "symlab.data.coherence:load"
    subspace: ClassVar[bool] = True

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.t > self.d // 2:
            raise ValueError(f"t = {self.t} exceeds half of d = {self.d}")
        return self

    @property
    def inputs(self) -> int | None:
        return self.d


class Images(Source):
    """Real images in a training and a test part."""

    split: Literal["random", "official"] = Field(
        "random",
        description="random: 80/10/10 of all images; official: the official test set, the training files split 90/10.",
    )
    n_samples: int | None = Field(
        None,
        ge=10,
        multiple_of=10,
        description="Use this many images (a multiple of 10), equally many of each class; null for all.",
    )
    side: Positive | None = Field(
        None,
        description="Pixels of each side, of which each is the mean of a block of the files' pixels; null for these.",
    )

    n_classes: ClassVar[int] = 10

    @model_validator(mode="after")
    def _blocks_fit(self) -> Self:
        if self.side is not None and self.files is not None and self.files[1] % self.side:
            raise ValueError(f"side = {self.side} does not divide the {self.files[1]} pixels of a side")
        return self

    @property
    def image(self) -> tuple[int, int, int] | None:
        return self.files if self.side is None or self.files is None else (self.files[0], self.side, self.side)


class Mnist(Images):
    """70,000 handwritten digits of 28 x 28 pixels."""

    source: Literal["mnist"]
    loader: ClassVar[str] = "symlab.data.mnist:load"
    files: ClassVar[tuple[int, int, int] | None] = (1, 28, 28)


class MnistCoherence(Source):
    """MNIST, rotated so that its input subspace has a chosen coherence."""

    source: Literal["mnist_coherence"]
    split: Literal["random", "official"] = Field("random", description="As for mnist.")
    target_nu: Fraction = Field(0.111, description="Coherence of the input subspace after rotation.")
    explained_variance: Fraction = Field(0.9, description="Explained variance that defines the input subspace.")
    loader: ClassVar[str] = "symlab.data.mnist_coherence:load"
    subspace: ClassVar[bool] = True
    n_classes: ClassVar[int] = 10

    @property
    def inputs(self) -> int | None:
        return 784


class Cifar10(Images):
    """60,000 photographs of 32 x 32 pixels in ten classes."""

    source: Literal["cifar10"]
    loader: ClassVar[str] = "symlab.data.cifar10:load"
    files: ClassVar[tuple[int, int, int] | None] = (3, 32, 32)


class Cifar10Jpeg(Images):
    """CIFAR-10 recompressed as JPEG, in parquet files."""

    source: Literal["cifar10_jpeg"]
    loader: ClassVar[str] = "symlab.data.cifar10_jpeg:load"
    files: ClassVar[tuple[int, int, int] | None] = (3, 32, 32)


class Imdb(Source):
    """50,000 movie reviews with two labels, as contexts of word ids."""

    source: Literal["imdb"]
    context: Positive = Field(64, description="Words of a sample: the first of each review that has as many.")
    vocabulary: int = Field(1000, ge=2, description="Word ids: the most frequent words, and one for all others.")
    n_samples: int | None = Field(
        None, ge=10, multiple_of=2, description="Use this many training reviews, half of each label; null for all."
    )
    loader: ClassVar[str] = "symlab.data.imdb:load"
    n_classes: ClassVar[int] = 2

    @property
    def inputs(self) -> int | None:
        return self.context


class File(Source):
    """Samples of your own: an .npz file of x and y, or x_train, y_train, x_test, y_test and perhaps x_val, y_val.

    x is [n, d], or images [n, height, width] or [n, channels, height, width], of uint8 pixels or real numbers; y is
    [n], classes from 0 on or real numbers. x and y are split 80/10/10; without x_val, a tenth of x_train is taken.
    Inputs are normalised by the training samples: images by channel, others by one mean and deviation of all columns.
    """

    source: Literal["file"]
    path: str = Field(description="The file, from where snakemake is called; written with ``numpy.savez``.")
    task: Literal["classification", "regression"] | None = Field(
        None, description="null: whole numbers are classes, others the targets of a regression."
    )
    loader: ClassVar[str] = "symlab.data.file:load"

    @property
    def file(self) -> Path:
        """The path, its ``~`` replaced by the home folder."""
        return Path(self.path).expanduser()

    @property
    def reads(self) -> list[str]:
        return [str(self.file)]

    @property
    def image(self) -> tuple[int, int, int] | None:
        shape = self._shape()
        if len(shape) not in (3, 4):
            return None
        return (1, *shape[1:]) if len(shape) == 3 else (shape[1], shape[2], shape[3])

    @property
    def inputs(self) -> int | None:
        return math.prod(self._shape()[1:])

    @property
    def n_classes(self) -> int | None:
        """One more than the largest label; None where targets are real numbers."""
        from symlab.data.npz import read_npz

        if self.task == "regression":
            return None
        targets = read_npz(self.file, "y").values()
        labels = [int(y.max()) for y in targets if y.dtype.kind in ("iuf" if self.task else "iu") and y.size]
        return 1 + max(labels) if labels else None

    def _shape(self) -> tuple[int, ...]:
        # numpy is not needed where the registry alone is read
        from symlab.data.npz import shapes_in

        shapes = shapes_in(self.file)
        return shapes.get("x", shapes.get("x_train", (0, 0)))


SOURCES: tuple[type[Source], ...] = (Digits, Gmm, Coherence, Mnist, MnistCoherence, Cifar10, Cifar10Jpeg, Imdb, File)


def load(source: Source, data_dir: Path | None) -> Dataset:
    """The data set that the settings describe; ``data_dir`` is where files of real data are looked for first.

    Raises:
        UserError: its files are missing, damaged or not what they should be.
    """
    dataset: Dataset = resolve_name(source.loader)(source, data_dir)
    return dataset
