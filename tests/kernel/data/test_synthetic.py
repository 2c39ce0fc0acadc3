import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import multivariate_normal, norm

from symlab.data import Coherence, Gmm, load
from symlab.data.gmm import best_accuracy, blur, geometry, sample
from symlab.errors import UserError


def gmm_spec(**changes):
    keys = {"k": 3, "d": 20, "n_classes": 5, "sigma_sep": 2.0, "n_train": 500, "n_val": 50, "n_test": 100}
    return Gmm(source="gmm", **(keys | changes))


def coherence_spec(**changes):
    keys = {"embedding": "random_frame", "t": 3, "d": 20, "n_train": 64, "n_test": 128}
    return Coherence(source="coherence", **(keys | changes))


@pytest.mark.parametrize("k", [1, 2, 8, 20])
def test_gmm_lies_in_the_subspace_of_its_frame(k):
    dataset = load(gmm_spec(k=k), None)
    frame = dataset.extras["U"].astype(np.float64)
    assert frame.shape == (20, k)
    np.testing.assert_allclose(frame.T @ frame, np.eye(k), atol=1e-6)
    x, y = dataset.split("train")
    np.testing.assert_array_equal(x, dataset.x_train)
    np.testing.assert_allclose(x @ frame @ frame.T, x, atol=1e-5)
    assert np.linalg.matrix_rank(x.astype(np.float64), tol=1e-3) == k
    assert (len(x), len(dataset.y_val), len(dataset.y_test)) == (500, 50, 100)
    assert y.dtype == np.int64 and set(y) == set(range(5))


def test_gmm_classes_have_the_means_and_covariances_of_the_formula():
    shape = geometry(k=3, d=10, n_classes=2, sigma_sep=2.0, rng=np.random.default_rng(1))
    x, y = sample(shape, 200_000, np.random.default_rng(2))
    for label in range(2):
        embedded = shape.embedding @ shape.rotations[label]
        np.testing.assert_allclose(x[y == label].mean(axis=0), embedded @ shape.means[label], atol=0.03)
        expected = embedded @ np.diag(shape.scales**2) @ embedded.T
        np.testing.assert_allclose(np.cov(x[y == label].T, bias=True), expected, atol=0.03)
        spectrum = np.linalg.eigvalsh(expected)[-3:]
        np.testing.assert_allclose(spectrum, np.sort(shape.scales**2), atol=1e-10)
    assert abs(np.mean(y) - 0.5) < 0.01


def test_gmm_separation_scales_the_means_alone():
    near, far = (geometry(3, 10, 4, sigma, np.random.default_rng(0)) for sigma in (1.0, 5.0))
    np.testing.assert_allclose(far.means, 5 * near.means)
    np.testing.assert_array_equal(far.scales, near.scales)
    np.testing.assert_array_equal(far.rotations, near.rotations)


def test_gmm_best_accuracy_is_that_of_the_densities_in_the_ambient_space():
    shape = geometry(4, 4, 3, 0.7, np.random.default_rng(3))
    x, y = sample(shape, 3000, np.random.default_rng(4))
    densities = []
    for rotation, mean in zip(shape.rotations, shape.means, strict=True):
        into = shape.embedding @ rotation
        densities.append(multivariate_normal(into @ mean, into @ np.diag(shape.scales**2) @ into.T).logpdf(x))
    expected = np.mean(np.argmax(densities, axis=0) == y)
    assert 0.5 < expected < 0.99
    assert best_accuracy(shape, 3000, np.random.default_rng(4)) == expected


def test_gmm_noise_leaves_the_accuracy_that_two_normal_densities_have():
    shape = geometry(1, 5, 2, 3.0, np.random.default_rng(1))
    blurred = blur(shape, 0.8, seed=0)
    places = shape.rotations[:, 0, 0] * shape.means[:, 0]
    distance = abs(places[0] - places[1])
    assert norm.cdf(distance / 2 / abs(shape.scales[0])) > 0.85
    assert norm.cdf(distance / 2 / blurred.scales[0]) == pytest.approx(0.8, abs=0.01)


def test_gmm_is_as_hard_at_every_dimension_and_only_the_noise_is_another():
    for k in (2, 8):
        plain = geometry(k, 20, 5, 4.0, np.random.default_rng(7))
        blurred = blur(plain, 0.6, seed=1)
        assert best_accuracy(blurred, 20_000, np.random.default_rng(9)) == pytest.approx(0.6, abs=0.015)
        np.testing.assert_array_equal(blurred.means, plain.means)
        added = blurred.scales**2 - plain.scales**2
        np.testing.assert_allclose(added, added[0])
    dataset = load(gmm_spec(k=8, d=20, sigma_sep=4.0, bayes_accuracy=0.6), None)
    assert not np.allclose(dataset.x_train, load(gmm_spec(k=8, d=20, sigma_sep=4.0), None).x_train)


def test_gmm_names_an_accuracy_out_of_reach():
    with pytest.raises(UserError, match=r"k = 2 has bayes_accuracy = 0\.99, but its best classifier reaches 0\."):
        load(gmm_spec(k=2, sigma_sep=0.1, bayes_accuracy=0.99), None)


@pytest.mark.parametrize("make", [gmm_spec, coherence_spec])
def test_splits_do_not_depend_on_each_others_size_and_differ(make):
    small, large = (load(make(n_train=n), None) for n in (100, 300))
    np.testing.assert_array_equal(small.x_test, large.x_test)
    together = np.concatenate([small.x_train, small.x_val, small.x_test])
    assert len(np.unique(together, axis=0)) == len(together)


@pytest.mark.parametrize("embedding", ["exact_copy", "random_frame"])
@pytest.mark.parametrize("t", range(1, 11))
def test_coherence_frames(embedding, t):
    dataset = load(coherence_spec(embedding=embedding, t=t), None)
    frame = dataset.extras["U"].astype(np.float64)
    np.testing.assert_allclose(frame.T @ frame, np.eye(2), atol=1e-6)
    leverages = np.diagonal(frame @ frame.T)
    np.testing.assert_allclose(np.sort(leverages)[-2 * t :], 1 / t, rtol=1e-6)
    np.testing.assert_allclose(np.sort(leverages)[: 20 - 2 * t], 0)
    assert dataset.provenance["nu"] == 1 / t == pytest.approx(leverages.max(), rel=1e-6)


def test_exact_copy_rows_are_the_papers():
    frame = load(coherence_spec(embedding="exact_copy", t=4), None).extras["U"]
    for r in range(1, 5):
        np.testing.assert_array_equal(frame[2 * r - 2], [0.5, 0.0])
        np.testing.assert_array_equal(frame[2 * r - 1], [0.0, 0.5])
    assert not frame[8:].any()


def test_random_frame_keeps_permutation_and_angles_over_t():
    frames = {t: np.sqrt(t) * load(coherence_spec(t=t), None).extras["U"] for t in (2, 7)}
    active = np.flatnonzero(frames[2].any(axis=1))
    assert len(active) == 4
    np.testing.assert_allclose(frames[7][active], frames[2][active], atol=1e-6)


def test_latents_are_shared_by_levels_and_embeddings():
    target = load(coherence_spec(), None)
    latents = target.x_train @ target.extras["U"]
    for changes in ({"t": 9}, {"embedding": "exact_copy"}):
        other = load(coherence_spec(**changes), None)
        np.testing.assert_array_equal(other.y_train, target.y_train)
        np.testing.assert_array_equal(other.y_test, target.y_test)
        np.testing.assert_allclose(other.x_train @ other.extras["U"], latents, atol=1e-5)
    np.testing.assert_allclose(target.y_train, np.maximum(latents.sum(axis=1), 0), atol=1e-5)
    assert target.y_train.dtype == np.float32 and (target.task, target.n_classes) == ("regression", 1)
    assert target.x_val.shape == (0, 20) and target.y_val.shape == (0,)


def test_coherence_latents_are_standard_normal():
    dataset = load(coherence_spec(n_train=100_000), None)
    latents = dataset.x_train @ dataset.extras["U"]
    np.testing.assert_allclose(np.cov(latents.T), np.eye(2), atol=0.02)


@pytest.mark.parametrize(
    ("make", "changes", "sentence"),
    [
        (gmm_spec, {"k": 21}, "k = 21 exceeds d = 20"),
        (gmm_spec, {"bayes_accuracy": 0.2}, "above chance, which is 1/5"),
        (coherence_spec, {"t": 0}, "greater than or equal to 1"),
        (coherence_spec, {"t": 11}, "t = 11 exceeds half of d = 20"),
        (coherence_spec, {"embedding": "copy"}, "should be .exact_copy. or .random_frame."),
    ],
)
def test_specs_of_what_cannot_be_are_refused(make, changes, sentence):
    with pytest.raises(ValidationError, match=sentence):
        make(**changes)


@pytest.mark.parametrize("make", [gmm_spec, coherence_spec])
def test_seed_decides_everything(make):
    first, again, other = (load(make(seed=seed), None) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.x_train, again.x_train)
    np.testing.assert_array_equal(first.extras["U"], again.extras["U"])
    assert not np.array_equal(first.x_train, other.x_train)
