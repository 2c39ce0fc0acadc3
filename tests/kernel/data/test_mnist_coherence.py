import numpy as np
import pytest

from symlab.data import Mnist, MnistCoherence, load
from symlab.data.dataset import covariance
from symlab.data.rotation import coherence, principal_basis
from symlab.errors import UserError


def spec(**changes):
    return MnistCoherence(source="mnist_coherence", **{"target_nu": 0.9, "explained_variance": 0.5, **changes})


def distances(x):
    return np.linalg.norm(x[:, None] - x[None], axis=-1)


@pytest.mark.parametrize("target", [0.9, 1.0])
def test_rotated_pixels_have_the_coherence_and_the_old_distances(tiny_mnist, target):
    plain = load(Mnist(source="mnist"), tiny_mnist)
    rotated = load(spec(target_nu=target), tiny_mnist)
    x, y = plain.split("val")
    x_rotated, y_rotated = rotated.split("val")
    np.testing.assert_array_equal(y, y_rotated)
    assert not np.allclose(x, x_rotated, atol=0.1)
    assert (plain.image, rotated.image) == ((1, 4, 4), None)
    np.testing.assert_allclose(distances(x_rotated), distances(x), rtol=1e-5, atol=1e-5)

    basis = principal_basis(covariance(rotated), 0.5)
    assert coherence(basis) == pytest.approx(target, rel=1e-4)
    np.testing.assert_allclose(basis @ basis.T, rotated.extras["U"] @ rotated.extras["U"].T, atol=1e-4)
    assert rotated.provenance["nu"] == pytest.approx(target, rel=1e-9)


def test_all_the_variance_leaves_out_only_the_constant_pixel(tiny_mnist):
    rotated = load(spec(explained_variance=1.0, target_nu=1.0), tiny_mnist)
    assert rotated.extras["U"].shape == (16, 15)


def test_unreachable_coherence_names_the_range(tiny_mnist):
    with pytest.raises(UserError, match="target_nu"):
        load(spec(target_nu=0.01), tiny_mnist)


def test_real_mnist_reaches_the_papers_coherence(real_mnist):
    dataset = load(spec(target_nu=0.111, explained_variance=0.9), real_mnist)
    rotation, frame = dataset.extras["rotation"].astype(np.float64), dataset.extras["U"].astype(np.float64)
    assert frame.shape == (784, 87)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(784), atol=1e-6)
    assert coherence(frame) == pytest.approx(0.111, rel=0.01)
    assert dataset.provenance["nu_before"] > 0.3
