"""MNIST rotated so that its 90 % PCA subspace has a chosen coherence (paper, Fig. 21)."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from symlab.data import Mnist, MnistCoherence, mnist
from symlab.data.dataset import Dataset, covariance
from symlab.data.rotation import coherence, principal_basis, rotation_to_coherence
from symlab.seeds import numpy_rng


def load(spec: MnistCoherence, data_dir: Path | None) -> Dataset:
    """The ``mnist`` data set of the same ``split`` and ``seed``, its normalised inputs multiplied by an orthogonal Q.

    The subspace is that of the top principal directions of the train inputs which explain ``explained_variance`` of
    their variance (87 of 784 at 0.9); after the rotation its coherence is ``target_nu``. Pixels are stored as they
    are, but what networks see is no image (``image`` is None); extras hold ``rotation`` = Q [784, 784], which
    ``Dataset.split`` applies, and ``U`` [784, k], the basis of the rotated subspace.

    Raises:
        UserError: as for ``mnist``; also when ``target_nu`` is outside [k/784, 1].
    """
    plain = mnist.load(Mnist(source="mnist", split=spec.split, seed=spec.seed), data_dir)
    basis = principal_basis(covariance(plain), spec.explained_variance)
    rng = numpy_rng("mnist_coherence", "rotation", spec.seed)
    rotation = rotation_to_coherence(basis, spec.target_nu, rng)
    rotated = rotation @ basis
    return replace(
        plain,
        image=None,
        extras={"rotation": rotation.astype(np.float32), "U": rotated.astype(np.float32)},
        provenance={
            **plain.provenance,
            "source": "mnist_coherence",
            "k": basis.shape[1],
            "nu_before": coherence(basis),
            "nu": coherence(rotated),
        },
    )
