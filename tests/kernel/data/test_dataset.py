from dataclasses import replace

import numpy as np
import pytest

from symlab.artifacts import read_header, write_tensors
from symlab.data import SOURCES, Coherence, Digits, Gmm, load
from symlab.data.dataset import Dataset, covariance, mean_and_std, normalise, open_dataset, save
from symlab.data.folder import resolve_data_dir
from symlab.data.samples import pooled_samples
from symlab.errors import UserError


def small(**changes):
    rng = np.random.default_rng(0)
    fields = {
        "x_train": rng.standard_normal((6, 3)).astype(np.float32),
        "y_train": np.array([0, 1, 2, 0, 1, 2]),
        "x_val": np.zeros((0, 3), np.float32),
        "y_val": np.zeros(0, np.int64),
        "x_test": rng.standard_normal((2, 3)).astype(np.float32),
        "y_test": np.array([2, 0]),
        "task": "classification",
        "n_classes": 3,
    }
    return Dataset(**(fields | changes))


def test_digits_are_all_there_once():
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    dataset = load(Digits(source="digits"), None)
    x = np.concatenate([dataset.x_train, dataset.x_val, dataset.x_test])
    y = np.concatenate([dataset.y_train, dataset.y_val, dataset.y_test])
    assert [len(part) for part in (dataset.y_train, dataset.y_val, dataset.y_test)] == [1437, 180, 180]
    rows = np.column_stack([x, y])
    expected = np.column_stack([images, labels])
    np.testing.assert_array_equal(rows[np.lexsort(rows.T)], expected[np.lexsort(expected.T)])
    assert dataset.image == (1, 8, 8)
    train, _ = dataset.split("train")
    assert (train.mean(), train.std()) == (pytest.approx(0, abs=1e-6), pytest.approx(1, abs=1e-6))


def test_digits_split_follows_the_seed():
    first, again, other = (load(Digits(source="digits", seed=seed), None) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.x_test, again.x_test)
    assert not np.array_equal(first.x_test, other.x_test)


def test_sources_tell_tables_how_many_classes_they_have():
    sizes = {"n_train": 40, "n_test": 20}
    mixture = Gmm(source="gmm", k=2, d=6, sigma_sep=1, n_classes=3, n_val=0, **sizes)
    for source in (Digits(source="digits"), mixture):
        assert source.columns()["classes"] == load(source, None).n_classes
    coherence = Coherence(source="coherence", embedding="exact_copy", t=2, **sizes)
    assert coherence.columns()["classes"] is None
    assert [source.inputs for source in (mixture, coherence)] == [6, 20]
    assert load(coherence, None).n_inputs == 20
    # Those of files, which have as many as their authors say.
    published = {"mnist": 10, "mnist_coherence": 10, "cifar10": 10, "cifar10_jpeg": 10, "imdb": 2}
    found = {each.model_fields["source"].annotation.__args__[0]: each for each in SOURCES}
    assert {name: found[name](source=name).columns()["classes"] for name in published} == published


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_normalisation(dtype):
    raw = np.random.default_rng(0).integers(256, size=(30, 5)).astype(dtype)
    scaled = raw.astype(np.float64) / (255 if dtype == np.uint8 else 1)
    mean, std = mean_and_std(raw)
    assert (mean, std) == (pytest.approx(scaled.mean(), rel=1e-12), pytest.approx(scaled.std(), rel=1e-12))
    before = raw.copy()
    x = normalise(raw, mean, std)
    np.testing.assert_allclose(x, (scaled - mean) / std, atol=1e-6)
    assert x.dtype == np.float32
    np.testing.assert_array_equal(raw, before)


def pictures(**changes):
    """Images of 2 channels, 1 x 3 pixels, whose second channel is darker and flatter than the first."""
    x = np.random.default_rng(0).integers(256, size=(8, 6), dtype=np.uint8)
    x[:, 3:] //= 4
    mean, std = mean_and_std(x[:6], channels=2)
    parts = {"x_train": x[:6], "x_val": x[:0], "x_test": x[6:]}
    return small(**parts, **({"mean": mean, "std": std, "image": (2, 1, 3)} | changes))


def test_channels_are_normalised_one_by_one():
    dataset = pictures()
    scaled = dataset.x_train.reshape(6, 2, 3) / 255
    np.testing.assert_allclose(dataset.mean, scaled.mean(axis=(0, 2)), rtol=1e-12)
    np.testing.assert_allclose(dataset.std, scaled.std(axis=(0, 2)), rtol=1e-12)
    x, _ = dataset.split("train")
    assert x.dtype == np.float32
    channels = x.reshape(6, 2, 3)
    np.testing.assert_allclose(channels.mean(axis=(0, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(channels.std(axis=(0, 2)), 1, rtol=1e-6)
    np.testing.assert_allclose(channels[:, 1], (scaled[:, 1] - dataset.mean[1]) / dataset.std[1], atol=1e-6)


def test_one_channel_and_one_number_mean_the_same():
    tuples, numbers = pictures(mean=(0.5, 0.5), std=(0.25, 0.25)), pictures(mean=0.5, std=0.25)
    np.testing.assert_array_equal(tuples.split("train")[0], numbers.split("train")[0])
    x = numbers.x_train
    assert mean_and_std(x) == mean_and_std(x, channels=1) and isinstance(mean_and_std(x)[0], float)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"image": (2, 2, 3)}, r"6 inputs; it cannot be \(2, 2, 3\)"),
        ({"image": (2, 3)}, "channels, height, width"),
        ({"image": (-2, -1, 3)}, "channels, height, width"),
        ({"image": None}, "mean of a data set is one number"),
        ({"image": (1, 2, 3)}, "mean of a data set is one number"),
        ({"image": None, "mean": 0.5}, "std of a data set is one number"),
        ({"mean": (0.5,)}, "mean of a data set is one number"),
        ({"mean": (0.5, float("nan"))}, "infinite or no numbers"),
        ({"std": (0.5, 0.0)}, "that are constant"),
        ({"extras": {"rotation": np.eye(6, dtype=np.float32)}}, "rotation.*no image"),
    ],
)
def test_malformed_images_are_refused(changes, sentence):
    with pytest.raises(UserError, match=sentence):
        pictures(**changes)


def test_split_of_unnormalised_data_is_a_copy():
    dataset = small()
    x, _ = dataset.split("train")
    x += 1
    assert not np.array_equal(x, dataset.x_train)


def test_unknown_split():
    with pytest.raises(UserError, match="'valid'"):
        small().split("valid")


def test_covariance_is_that_of_normalised_inputs():
    x = np.random.default_rng(0).integers(256, size=(5000, 4), dtype=np.uint8)
    dataset = small(x_train=x, y_train=np.zeros(5000, np.int64), x_val=x[:0], x_test=x[:2], mean=0.4, std=0.3)
    np.testing.assert_allclose(covariance(dataset), np.cov(x.T / 255 / 0.3, bias=True), atol=1e-5)


@pytest.mark.parametrize(("data", "extra"), [(small(mean=0.25, std=2.0), "rotation"), (pictures(), "U")])
def test_saved_data_come_back(tmp_path, data, extra):
    path = tmp_path / "data.safetensors"
    dataset = replace(data, extras={extra: np.eye(3, dtype=np.float32)}, provenance={"source": "hand"})
    save(path, dataset)
    copy = open_dataset(path)
    for name in ("x_train", "y_train", "x_val", "y_val", "x_test", "y_test"):
        np.testing.assert_array_equal(getattr(copy, name), getattr(dataset, name))
        assert getattr(copy, name).dtype == getattr(dataset, name).dtype
    assert copy.extras.keys() == {extra}
    np.testing.assert_array_equal(copy.extras[extra], dataset.extras[extra])
    for name in ("task", "n_classes", "mean", "std", "image", "provenance"):
        assert getattr(copy, name) == getattr(dataset, name)
    header = read_header(path, "dataset")
    assert header["sizes"] == {"train": 6, "val": 0, "test": 2} and header["n_inputs"] == data.x_train.shape[1]


def test_content_digest_follows_the_arrays(tmp_path):
    digests = []
    for name, dataset in (("a", small()), ("b", small()), ("c", small(y_test=np.array([2, 1])))):
        save(tmp_path / name, dataset)
        digests.append(read_header(tmp_path / name, "dataset")["content_sha256"])
    assert digests[0] == digests[1] != digests[2]


def test_artifact_without_all_arrays_is_refused(tmp_path):
    write_tensors(tmp_path / "data.safetensors", {"x_train": np.zeros((1, 1), np.float32)}, "dataset", {})
    with pytest.raises(UserError, match="data set without"):
        open_dataset(tmp_path / "data.safetensors")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"task": "ranking"}, "task"),
        ({"std": 0.0}, "std"),
        ({"mean": float("nan")}, "mean"),
        ({"x_train": np.zeros((6, 3))}, "x_train must be float32"),
        ({"x_test": np.zeros((2, 4), np.float32)}, r"x_test must be .* \[n, d\].*\[2, 4\]"),
        ({"x_test": np.zeros((2, 3), np.uint8)}, "x_test must be float32"),
        ({"x_train": np.zeros(6, np.float32)}, "x_train must be"),
        ({"x_train": np.zeros((6, 3), np.int64)}, "x_train must be float32 or uint8"),
        ({"x_test": np.full((2, 3), np.inf, np.float32)}, "not finite"),
        ({"y_test": np.array([0])}, "y_test must hold a target for each of 2"),
        ({"y_test": np.array([0, 3])}, r"labels 0\.\.2"),
        ({"y_test": np.array([0, -1])}, r"labels 0\.\.2"),
        ({"y_test": np.array([0, 1], np.uint8)}, "int64"),
        ({"task": "regression"}, "n_classes = 1"),
        ({"extras": {"rotation": np.eye(2, dtype=np.float32)}}, "rotation"),
        ({"x_train": np.zeros((0, 3), np.float32), "y_train": np.zeros(0, np.int64)}, "training sample"),
    ],
)
def test_malformed_data_are_refused(changes, sentence):
    with pytest.raises(UserError, match=sentence):
        small(**changes)


def test_rotation_is_applied_after_normalisation():
    quarter_turn = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]], np.float32)
    dataset = small(mean=1.0, std=2.0)
    x, _ = dataset.split("test")
    rotated, _ = replace(dataset, extras={"rotation": quarter_turn}).split("test")
    np.testing.assert_allclose(rotated, np.stack([-x[:, 1], x[:, 0], x[:, 2]], axis=1))


def test_data_dir_config_first_then_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("SYMLAB_DATA", raising=False)
    assert resolve_data_dir(None) is None
    (tmp_path / "a").mkdir()
    monkeypatch.setenv("SYMLAB_DATA", str(tmp_path))
    assert resolve_data_dir(None) == tmp_path
    assert resolve_data_dir(str(tmp_path / "a")) == tmp_path / "a"
    with pytest.raises(UserError, match=r"absent.*data_dir"):
        resolve_data_dir(str(tmp_path / "absent"))
    monkeypatch.setenv("SYMLAB_DATA", str(tmp_path / "gone"))
    with pytest.raises(UserError, match=r"gone.*SYMLAB_DATA"):
        resolve_data_dir(None)


def test_samples_are_the_first_of_each_class_and_pixels_means_of_squares():
    x, y = np.arange(6 * 16, dtype=np.float32).reshape(6, 16), np.array([0, 1, 1, 0, 0, 1])
    parts = {"x_val": x[:0], "x_test": x[:2] + 1, "y_test": y[:2]}
    dataset = small(x_train=x, y_train=y, **parts, n_classes=2, image=(1, 4, 4))
    chosen, labels = pooled_samples(dataset, per_class=2)
    assert labels.tolist() == [0, 1, 1, 0] and chosen[:, 0].tolist() == [0, 16, 32, 48]
    assert len(pooled_samples(dataset, samples=5)[0]) == 5
    # Means of the squares of side 2 of an image that counts its pixels row by row.
    corners = np.array([2.5, 4.5, 10.5, 12.5])
    pooled, _ = pooled_samples(dataset, 2, scaled=False, split="test")
    np.testing.assert_allclose(pooled, [corners + 1, corners + 17])
    scaled, _ = pooled_samples(dataset, 2, samples=3)
    expected = np.concatenate([corners + 16 * place for place in range(3)])
    np.testing.assert_allclose(scaled.flatten(), (expected - expected.mean()) / expected.std(ddof=1), rtol=1e-5)
    with pytest.raises(UserError, match="pool = 3 averages pixels"):
        pooled_samples(dataset, 3)
    with pytest.raises(UserError, match="a class has only 3"):
        pooled_samples(dataset, per_class=4)
