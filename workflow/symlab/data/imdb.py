"""Movie reviews (Maas et al. 2011) from parquet files or the folder aclImdb."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int64

from symlab.data import Imdb
from symlab.data.dataset import Dataset
from symlab.data.folder import find_file, sha256_of
from symlab.data.splits import balanced_subset, random_split, tenth
from symlab.errors import UserError
from symlab.seeds import numpy_rng

FOLDERS = ("imdb/", "aclImdb/", "")
LABELS = {"neg": 0, "pos": 1}
WORD = re.compile(r"[a-z0-9']+")
BREAK = re.compile(r"<br\s*/?>")
UNKNOWN = 0
"""Id of every word that is not among the most frequent."""


class Reviews(NamedTuple):
    """The words of each review and its label, 0 negative or 1 positive."""

    words: list[list[str]]
    y: Int64[np.ndarray, " n"]


def load(spec: Imdb, data_dir: Path | None) -> Dataset:
    """Reviews of at least ``context`` words, of each the first words as ids [n, context] (whole numbers as float32).

    Ids count words from the most frequent of the training files, which is 1; all beyond ``vocabulary`` - 1 of them are
    0. A context that occurs twice is left out of its files, since a network cannot tell its reviews apart. Of the
    training files ``n_samples`` contexts, equally many of each label, are split 90/10 into train and val.

    Raises:
        UserError: the reviews are not in the data folder, or there are fewer than ``n_samples`` such contexts.
    """
    (train, test), digests = read(data_dir)
    counts = Counter(chain.from_iterable(train.words))
    # Of equally frequent words the one that comes first in the alphabet.
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[: spec.vocabulary - 1]
    ids = {word: number for number, word in enumerate(frequent, start=1)}
    x, y = contexts(train, ids, spec.context)
    kept = np.arange(len(y))
    if spec.n_samples is not None:
        kept = balanced_subset(y, spec.n_samples, 2, numpy_rng("subset", "imdb", spec.seed))
    of_train, of_val, _ = random_split(len(kept), tenth(len(kept)), 0, numpy_rng("split", "imdb", spec.seed))
    x_test, y_test = contexts(test, ids, spec.context)
    of_test = np.arange(len(y), len(y) + len(y_test))
    return Dataset.of_rows(
        np.concatenate([x, x_test]),
        np.concatenate([y, y_test]),
        (kept[of_train], kept[of_val], of_test),
        task="classification",
        n_classes=2,
        provenance={"source": "imdb", "seed": spec.seed, "n_samples": spec.n_samples, "inputs_sha256": digests},
    )


def contexts(
    reviews: Reviews, ids: dict[str, int], context: int
) -> tuple[Float32[np.ndarray, "n c"], Int64[np.ndarray, " n"]]:
    """The first words of every review that is long enough, as ids; without those that are equal to another's."""
    long = [place for place, words in enumerate(reviews.words) if len(words) >= context]
    x = np.array([[ids.get(word, UNKNOWN) for word in reviews.words[place][:context]] for place in long], np.float32)
    _, firsts, seen = np.unique(x, axis=0, return_index=True, return_counts=True)
    single = np.sort(firsts[seen == 1])
    return x[single], reviews.y[long][single]


def split_words(text: str) -> list[str]:
    """Lower-case runs of letters, digits and apostrophes; HTML line breaks separate words."""
    return WORD.findall(BREAK.sub(" ", text.lower()))


def read(data_dir: Path | None) -> tuple[tuple[Reviews, Reviews], dict[str, str]]:
    """The training and the test reviews, and SHA-256 digests of what was read.

    Raises:
        UserError: they are not in the data folder.
    """
    for folder in FOLDERS:
        files = [find_file(data_dir, (f"{folder}{split}.parquet",)) for split in ("train", "test")]
        if data_dir is not None and all(files):
            paths = [path for path in files if path is not None]
            digests = {path.name: sha256_of([path]) for path in paths}
            train, test = map(_read_parquet, paths)
            return (train, test), digests
        if data_dir is not None and all((data_dir / folder / split / "pos").is_dir() for split in ("train", "test")):
            trees = [data_dir / folder / split for split in ("train", "test")]
            digests = {tree.name: sha256_of(path for _, path in _files(tree)) for tree in trees}
            train, test = map(_read_tree, trees)
            return (train, test), digests
    raise UserError(
        "The movie reviews (imdb) were not found: put train.parquet and test.parquet with the columns text and label, "
        "or the unpacked folder aclImdb, into the folder that data_dir or SYMLAB_DATA names"
        + (f", {data_dir}." if data_dir is not None else ".")
    )


def _read_parquet(path: Path) -> Reviews:
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.read_table(path, columns=["text", "label"])
        labels = table["label"].to_numpy().astype(np.int64)
        texts: Sequence[str] = table["text"].to_pylist()
    except (OSError, ValueError, KeyError, pyarrow.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(
            f"{path} cannot be read as reviews with the columns text and label ({reason}): replace the file."
        ) from None
    if not np.isin(labels, (0, 1)).all() or None in texts:
        raise UserError(f"{path} must hold a text and a label 0 or 1 in every row: replace the file.")
    return Reviews([split_words(text) for text in texts], labels)


def _files(tree: Path) -> Iterator[tuple[int, Path]]:
    for name, label in LABELS.items():
        yield from ((label, path) for path in sorted((tree / name).glob("*.txt")))


def _read_tree(tree: Path) -> Reviews:
    labels, words = [], []
    for label, path in _files(tree):
        labels.append(label)
        words.append(split_words(path.read_text(encoding="utf-8")))
    return Reviews(words, np.array(labels, np.int64))
