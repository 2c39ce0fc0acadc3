"""Data sets of one's own: what an .npz file gives, and what is wrong with one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from symlab.data import File, load
from symlab.errors import UserError
from symlab.networks import NETWORKS
from symlab.settings import choose

rng = np.random.default_rng(0)
PIXELS, LABELS = rng.integers(256, size=(40, 2, 3, 5), dtype=np.uint8), rng.integers(3, size=40)


def source(folder: Path, **arrays: Any) -> File:
    np.savez(folder / "mine.npz", **arrays)
    return File(source="file", path=str(folder / "mine.npz"))


def test_images_are_split_by_the_seed_and_normalised_by_channel(tmp_path: Path) -> None:
    spec = source(tmp_path, x=PIXELS, y=LABELS)
    dataset, other = load(spec, None), load(spec.model_copy(update={"seed": 1}), None)
    assert (spec.image, spec.inputs, spec.columns()["classes"]) == ((2, 3, 5), 30, int(LABELS.max()) + 1)
    assert (dataset.image, dataset.n_classes, dataset.task) == (spec.image, int(LABELS.max()) + 1, "classification")
    assert [len(dataset.split(part)[1]) for part in ("train", "val", "test")] == [32, 4, 4]
    rows = {tuple(x): y for x, y in zip(PIXELS.reshape(40, -1), LABELS, strict=True)}
    for part in ("train", "val", "test"):
        for x, y in zip(getattr(dataset, f"x_{part}"), getattr(dataset, f"y_{part}"), strict=True):
            assert rows[tuple(x)] == y
    assert not np.array_equal(dataset.x_test, other.x_test)
    channels = dataset.split("train")[0].reshape(32, 2, 15)
    np.testing.assert_allclose(channels.mean(axis=(0, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(channels.std(axis=(0, 2)), 1, rtol=1e-5)


def test_parts_of_the_file_stay(tmp_path: Path) -> None:
    x, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
    parts = {"x_train": x[:20], "y_train": y[:20], "x_test": x[20:25], "y_test": y[20:25]}
    with_val = load(source(tmp_path, **parts, x_val=x[25:], y_val=y[25:, None]), None)
    np.testing.assert_allclose(with_val.x_val, x[25:] - x[:20].mean(), atol=1e-6)
    np.testing.assert_array_equal(with_val.y_val, y[25:].astype(np.float32))
    assert (with_val.task, with_val.n_classes, with_val.image) == ("regression", 1, None)
    assert with_val.mean == pytest.approx(0, abs=1e-6) and with_val.std == pytest.approx(x[:20].std())
    without = load(source(tmp_path, **parts), None)
    assert (len(without.y_train), len(without.y_val)) == (18, 2)
    held = np.concatenate([without.x_train, without.x_val])
    held, given = held[np.argsort(held[:, 0])], x[np.argsort(x[:20, 0])]
    shift = (given - held).mean()
    np.testing.assert_allclose(held + shift, given, atol=1e-6)
    np.testing.assert_allclose(without.x_test + shift, x[20:25], atol=1e-6)


def test_numbers_far_from_0_keep_their_digits(tmp_path: Path) -> None:
    """Float32 knows 1e6 to 0.06 alone."""
    x, y = 1e6 + rng.standard_normal((50, 2)), np.arange(50) % 2
    dataset = load(
        source(tmp_path, x_train=x[:40], y_train=y[:40], x_test=x[40:], y_test=y[40:], x_val=x[40:], y_val=y[40:]), None
    )
    for part, rows in (("train", x[:40]), ("test", x[40:])):
        wanted = (rows - x[:40].mean()) / x[:40].std()
        np.testing.assert_allclose(dataset.split(part)[0], wanted, atol=1e-5)


def test_grey_images_need_no_axis_of_channels(tmp_path: Path) -> None:
    spec = source(tmp_path, x=PIXELS[:, 0], y=LABELS)
    assert spec.image == load(spec, None).image == (1, 3, 5)


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x": PIXELS}, "holds x; it has to hold x and y"),
        ({"x": PIXELS, "y": LABELS, "x_val": PIXELS, "y_val": LABELS}, "x and y, or x_train"),
        ({"x": PIXELS, "y": LABELS[:-1]}, r"one target for each sample"),
        ({"x": PIXELS, "y": np.eye(3)[LABELS]}, "one whole number a sample"),
        ({"x": PIXELS, "y": LABELS - 1}, "classes are 0, 1"),
        ({"x": PIXELS, "y": LABELS + 1}, "classes are 0, 1"),
        ({"x": PIXELS, "y": LABELS * 0}, "1 different targets"),
        ({"x": PIXELS, "y": LABELS.astype(float)}, "say task"),
        ({"x": np.zeros((40, 8, 8, 3), np.uint8), "y": LABELS}, "channels last"),
        ({"x": PIXELS[:2], "y": LABELS[:2] * 0}, "different targets"),
        (
            {"x_train": PIXELS, "y_train": LABELS, "x_test": PIXELS.reshape(40, 30), "y_test": LABELS},
            "give all parts one",
        ),
        ({"x": PIXELS > 9, "y": LABELS}, "inputs of type bool"),
        ({"x": np.full((40, 2), np.nan), "y": LABELS}, r"mine\.npz has inputs that are .* no numbers"),
    ],
)
def test_what_is_no_data_set_is_told(arrays: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        load(source(tmp_path, **arrays), None)


def test_whole_numbers_are_a_regression_if_it_is_said(tmp_path: Path) -> None:
    spec = source(tmp_path, x=PIXELS, y=100 * LABELS).model_copy(update={"task": "regression"})
    dataset = load(spec, None)
    assert (dataset.task, dataset.n_classes, dataset.y_train.dtype) == ("regression", 1, np.float32)
    floats = source(tmp_path, x=PIXELS, y=LABELS.astype(float)).model_copy(update={"task": "classification"})
    assert load(floats, None).n_classes == 1 + LABELS.max() and load(floats, None).y_test.dtype == np.int64


def test_an_empty_test_part_stays_empty(tmp_path: Path) -> None:
    parts = {"x_train": PIXELS, "y_train": LABELS, "x_test": PIXELS[:0], "y_test": LABELS[:0]}
    assert load(source(tmp_path, **parts), None).x_test.shape == (0, 30)


@pytest.mark.parametrize(
    "block", [{"name": "resnet20"}, {"name": "vit", "patch": 1}, {"name": "causal_transformer", "patch": 1}]
)
def test_networks_refuse_images_that_are_no_squares(block: dict[str, Any]) -> None:
    network = choose(NETWORKS, {**block, "channels": 2}, "name")
    assert "square images" in str(network.misfit((2, 3, 5)))


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"name": "resnet20"}, "resnet20 reads images, but its samples are none"),
        ({"name": "causal_transformer", "patch": 2}, "patch cuts images, but its samples are none"),
        ({"name": "causal_transformer", "vocabulary": 9}, "None"),
    ],
)
def test_networks_of_images_refuse_other_samples(block: dict[str, Any], told: str) -> None:
    assert told in str(choose(NETWORKS, block, "name").misfit(None))


def test_a_path_may_begin_at_home() -> None:
    assert File(source="file", path="~/own.npz").reads == [str(Path.home() / "own.npz")]


def test_a_file_that_is_none_is_told_before_anything_runs(tmp_path: Path) -> None:
    missing = File(source="file", path=str(tmp_path / "none.npz"))
    with pytest.raises(UserError, match="does not exist"):
        _ = missing.image
    (tmp_path / "none.npz").write_text("no archive")
    with pytest.raises(UserError, match=r"cannot be read as an \.npz"):
        _ = missing.image
