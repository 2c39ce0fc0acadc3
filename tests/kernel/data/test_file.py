"""Data sets of one's own: what an .npz file gives, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from symlab.data import File, load
from symlab.errors import UserError

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
    np.testing.assert_array_equal(with_val.x_val, x[25:].astype(np.float32))
    np.testing.assert_array_equal(with_val.y_val, y[25:].astype(np.float32))
    assert (with_val.task, with_val.n_classes, with_val.image) == ("regression", 1, None)
    assert with_val.mean == pytest.approx(x[:20].mean()) and with_val.std == pytest.approx(x[:20].std())
    without = load(source(tmp_path, **parts), None)
    assert (len(without.y_train), len(without.y_val)) == (18, 2)
    np.testing.assert_array_equal(without.x_test, x[20:25].astype(np.float32))
    held = np.concatenate([without.x_train, without.x_val])
    np.testing.assert_array_equal(held[np.lexsort(held.T)], (t := x[:20].astype(np.float32))[np.lexsort(t.T)])


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
        ({"x": PIXELS, "y": LABELS - 1}, "labels 0"),
        ({"x": PIXELS > 9, "y": LABELS}, "inputs of type bool"),
        ({"x": np.full((40, 2), np.nan), "y": LABELS}, "finite"),
    ],
)
def test_what_is_no_data_set_is_told(arrays: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        load(source(tmp_path, **arrays), None)


def test_a_file_that_is_none_is_told_before_anything_runs(tmp_path: Path) -> None:
    missing = File(source="file", path=str(tmp_path / "none.npz"))
    with pytest.raises(UserError, match="does not exist"):
        _ = missing.image
    (tmp_path / "none.npz").write_text("no archive")
    with pytest.raises(UserError, match=r"cannot be read as an \.npz"):
        _ = missing.image
