"""Movie reviews as contexts of word ids, from both forms of the files."""

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from symlab.data import Imdb
from symlab.data.imdb import load, split_words
from symlab.errors import UserError

TRAIN = [
    ("The film was good, the good film.<br /><br />A good one", 1),
    ("The film was bad; a bad end, the end", 0),
    ("A film the dog would like", 1),
    ("too short", 0),
    # The first four words are twice there.
    ("Yes no I said", 1),
    ("yes NO I said so", 0),
    ("the a dog is not it's own", 0),
]
TEST = [("the unheard film was", 1), ("a good good film", 0)]


def write_parquet(folder, name, rows):
    folder.mkdir(exist_ok=True)
    texts, labels = zip(*rows, strict=True)
    parquet.write_table(pyarrow.table({"text": texts, "label": pyarrow.array(labels, pyarrow.uint8())}), folder / name)


def write_tree(folder, name, rows):
    for place, (text, label) in enumerate(rows):
        of_label = folder / name / ("pos" if label else "neg")
        of_label.mkdir(parents=True, exist_ok=True)
        (of_label / f"{place}_7.txt").write_text(text)


@pytest.fixture(params=["parquet", "tree"])
def data_dir(request, tmp_path):
    if request.param == "parquet":
        write_parquet(tmp_path / "imdb", "train.parquet", TRAIN)
        write_parquet(tmp_path / "imdb", "test.parquet", TEST)
    else:
        write_tree(tmp_path / "aclImdb", "train", TRAIN)
        write_tree(tmp_path / "aclImdb", "test", TEST)
    return tmp_path


def spec(**keys):
    return Imdb(source="imdb", context=4, vocabulary=5, **keys)


def test_words_are_lower_case_without_line_breaks_and_signs():
    assert split_words("It's <br />GOOD<br>film,2nd!") == ["it's", "good", "film", "2nd"]


def test_contexts_are_the_first_words_of_long_reviews_that_occur_once(data_dir):
    dataset = load(spec(), data_dir)
    # By hand: the (6 times in TRAIN) 1, a (4) 2, film (4) 3, good (3) 4, everything else 0.
    expected = {(1, 3, 0, 4): 1, (1, 3, 0, 0): 0, (2, 3, 1, 0): 1, (1, 2, 0, 0): 0}
    x = np.concatenate([dataset.x_train, dataset.x_val])
    y = np.concatenate([dataset.y_train, dataset.y_val])
    assert {tuple(row): label for row, label in zip(x.astype(int).tolist(), y.tolist(), strict=True)} == expected
    assert sorted(dataset.x_test.tolist()) == [[1, 0, 3, 0], [2, 4, 4, 3]]
    # Ids reach networks as they are.
    np.testing.assert_array_equal(dataset.split("test")[0], dataset.x_test)


def test_of_fewer_contexts_half_have_each_label(tmp_path):
    write_tree(tmp_path / "aclImdb", "train", [(f"w{n} w{n + 1} a b", n % 3 == 0) for n in range(30)])
    write_tree(tmp_path / "aclImdb", "test", TEST)
    of_words = {"source": "imdb", "context": 4, "vocabulary": 40}
    found = [load(Imdb(**of_words, n_samples=n, seed=seed), tmp_path) for n, seed in ((None, 0), (10, 0), (10, 1))]
    whole, first, other = (
        {(*row, y) for rows, ys in map(of.split, ("train", "val")) for row, y in zip(rows.tolist(), ys, strict=True)}
        for of in found
    )
    assert len(whole) == 30 and first < whole and other < whole and first != other
    assert [sum(row[-1] for row in rows) for rows in (first, other)] == [5, 5]


def test_what_is_missing_or_wrong_is_named(tmp_path):
    with pytest.raises(UserError, match="aclImdb"):
        load(spec(), tmp_path)
    write_parquet(tmp_path / "imdb", "train.parquet", [("a b c d", 2)])
    write_parquet(tmp_path / "imdb", "test.parquet", TEST)
    with pytest.raises(UserError, match=r"train\.parquet must hold"):
        load(spec(), tmp_path)
    (tmp_path / "imdb" / "train.parquet").write_bytes(b"no parquet")
    with pytest.raises(UserError, match="cannot be read"):
        load(spec(), tmp_path)
