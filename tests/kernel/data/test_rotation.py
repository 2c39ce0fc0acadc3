import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symlab.data.rotation import coherence, frame_with_coherence, haar_frame, principal_basis, rotation_to_coherence
from symlab.errors import UserError


@st.composite
def problems(draw):
    d = draw(st.integers(1, 40))
    k = draw(st.integers(1, d))
    return d, k, k / d + (1 - k / d) * draw(st.floats(0, 1)), draw(st.integers(0, 2**32))


@given(problems())
def test_any_admissible_coherence_is_reached_by_an_orthogonal_matrix(problem):
    d, k, target, seed = problem
    rng = np.random.default_rng(seed)
    basis = haar_frame(d, k, rng)
    rotation = rotation_to_coherence(basis, target, rng)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(d), atol=1e-10)
    projector = (rotation @ basis) @ (rotation @ basis).T
    assert np.diagonal(projector).max() == pytest.approx(target, abs=1e-7)
    assert coherence(rotation @ basis) == pytest.approx(np.diagonal(projector).max(), abs=1e-12)


@pytest.mark.parametrize("target", [87 / 784, 0.111, 0.25, 0.5, 0.999, 1.0])
def test_at_the_size_of_mnist(target):
    frame = frame_with_coherence(784, 87, target, np.random.default_rng(0))
    leverages = (frame**2).sum(axis=1)
    np.testing.assert_allclose(frame.T @ frame, np.eye(87), atol=1e-10)
    assert leverages.max() == pytest.approx(target, rel=1e-8)
    # at most one coordinate is neither full nor empty
    assert np.sum((leverages > 1e-8) & (leverages < target - 1e-8)) <= 1


@pytest.mark.parametrize("target", [0.24, 1.01, -1.0, float("nan")])
def test_inadmissible_coherence_is_refused(target):
    with pytest.raises(UserError, match=r"between 0\.25000 and 1"):
        frame_with_coherence(8, 2, target, np.random.default_rng(0))


def test_frames_are_generic():
    # a chain of rotations that starts from unit vectors would leave most coordinate pairs uncorrelated
    frame = frame_with_coherence(60, 12, 0.2, np.random.default_rng(0))
    assert np.mean(np.abs(frame @ frame.T) > 1e-6) > 0.9


def test_haar_frame_has_no_preferred_sign():
    entries = np.array([haar_frame(2, 2, np.random.default_rng(seed))[0, 0] for seed in range(400)])
    assert abs(np.mean(entries > 0) - 0.5) < 0.1


def test_principal_basis_takes_as_few_directions_as_explain_the_variance():
    directions = haar_frame(4, 4, np.random.default_rng(0))
    covariance = directions @ np.diag([4.0, 3.0, 2.0, 1.0]) @ directions.T
    for explained, k in ((0.39, 1), (0.41, 2), (0.69, 2), (0.71, 3), (1.0, 4)):
        basis = principal_basis(covariance, explained)
        assert basis.shape == (4, k)
        np.testing.assert_allclose(basis @ basis.T, directions[:, :k] @ directions[:, :k].T, atol=1e-10)


def test_full_coordinates_are_placed_at_random():
    frames = [frame_with_coherence(20, 2, 0.5, np.random.default_rng(seed)) for seed in range(2)]
    first, second = ((frame**2).sum(axis=1) > 0.25 for frame in frames)
    assert first.sum() == second.sum() == 4
    assert (first != second).any()
