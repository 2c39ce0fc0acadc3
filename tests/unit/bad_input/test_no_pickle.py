"""Nothing is unpickled: no line of symlab could, and a pickle in the place of every kind of file does not go off."""

import ast
import gzip
import hashlib
import io
import os
import pickle
import re
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet
from safetensors.numpy import save_file

from symlab.artifacts import read_header, read_table, read_tensors, write_tensors
from symlab.cli.inputs import read_data, read_weights
from symlab.config_files import check_files
from symlab.data import cifar10, cifar10_jpeg, idx, open_dataset
from symlab.errors import UserError
from symlab.records import check_record, record_path
from symlab.training.models import open_models
from symlab.training.resume import Checkpoints

ROOT = Path(__file__).parents[3]
SOURCES = sorted(
    path
    for folder in ("workflow", "examples")
    for path in (ROOT / folder).rglob("*.py")
    if "__pycache__" not in path.parts
)
RULES = [ROOT / "Snakefile", *sorted((ROOT / "workflow" / "rules").glob("*.smk"))]

# Modules whose loading runs what the file says.
MODULES = {
    "pickle",
    "_pickle",
    "cPickle",
    "cloudpickle",
    "dill",
    "joblib",
    "shelve",
    "marshal",
    "jsonpickle",
    "copyreg",
}
CALLS = {
    "read_pickle",
    "unsafe_load",
    "unsafe_load_all",
    "full_load",
    "full_load_all",
    "eval",
    "exec",
    "fromfile_prefix",
}
LOADERS = {"UnsafeLoader", "FullLoader", "Loader", "CLoader", "CFullLoader", "CUnsafeLoader"}
# What loads pickles unless it is told not to, by the module that it is called on.
LOADS = {"torch", "jit", "hub", "package", "yaml", "np", "numpy", "model_zoo"}


def unpickling(tree):
    """Lines of a syntax tree that could unpickle, with what they name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            found = [name for name in names if name.partition(".")[0] in MODULES or name in CALLS | LOADERS]
            if isinstance(node, ast.ImportFrom) and node.module in ("torch", "yaml", "numpy"):
                found += [name for name in names if name in ("load", "load_all")]
        elif isinstance(node, ast.Attribute) and node.attr in CALLS - {"eval", "exec"} | LOADERS:
            found = [node.attr]
        elif isinstance(node, ast.Call):
            found = list(_unpickling_call(node))
        else:
            continue
        yield from ((node.lineno, name) for name in found)


def _unpickling_call(node):
    function = node.func
    options = {keyword.arg: keyword.value for keyword in node.keywords}
    refuses = isinstance(options.get("allow_pickle"), ast.Constant) and options["allow_pickle"].value is False
    if isinstance(function, ast.Name) and function.id in ("eval", "exec", "__import__"):
        yield function.id
    if "allow_pickle" in options and not refuses:
        yield "allow_pickle"
    if isinstance(function, ast.Attribute) and function.attr in ("load", "load_all", "read_array"):
        owner = function.value.attr if isinstance(function.value, ast.Attribute) else getattr(function.value, "id", "")
        if owner in LOADS and not refuses:
            yield f"{owner}.{function.attr}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_can_unpickle(path):
    assert list(unpickling(ast.parse(path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_no_rule_can_unpickle(path):
    words = "|".join([*MODULES, *CALLS - {"eval", "exec"}, r"torch\.load", r"np\.load", r"yaml\.load", "allow_pickle"])
    assert re.findall(rf"\b(?:{words})\b", path.read_text(encoding="utf-8")) == []


def test_nothing_is_left_out():
    assert len(SOURCES) > 100 and len(RULES) > 8
    assert {"align.py", "artifacts.py", "train.py", "model.py"} <= {path.name for path in SOURCES}


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "import dill as json",
        "from pickle import loads",
        "import torch, joblib",
        "from pandas import read_pickle",
        "from torch import load",
        "from yaml import UnsafeLoader",
        "torch.load(path)",
        "torch.load(path, weights_only=True)",
        "torch.jit.load(path)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=allowed)",
        "np.lib.format.read_array(file, allow_pickle=True)",
        "pd.read_pickle(path)",
        "yaml.load(text, yaml.Loader)",
        "yaml.load(text)",
        "yaml.unsafe_load(text)",
        "yaml.full_load(text)",
        "eval(text)",
        "exec(text)",
        "__import__('pickle')",
    ],
)
def test_the_search_finds(line):
    assert list(unpickling(ast.parse(line)))


def test_the_search_lets_through():
    fine = "np.load(path, allow_pickle=False)\nyaml.safe_load(text)\njson.load(file)\nimport torch\nmodule.eval()\n"
    assert list(unpickling(ast.parse(fine))) == []


class Bomb:
    """Unpickling it makes a folder."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __reduce__(self):
        return os.mkdir, (self.folder,)


@pytest.fixture
def crater(tmp_path):
    """The folder that is there once a bomb went off."""
    return tmp_path / "crater"


@pytest.fixture(params=["protocol 0", "protocol 5", "torch.save", "numpy"])
def bomb(request, crater):
    stream = io.BytesIO()
    if request.param == "torch.save":
        torch.save({"w": torch.ones(2), "bomb": Bomb(crater)}, stream)
    elif request.param == "numpy":
        np.save(stream, np.array([Bomb(crater)]), allow_pickle=True)
    else:
        pickle.dump({"x": Bomb(crater)}, stream, protocol=int(request.param[-1]))
    return stream.getvalue()


def test_the_bomb_goes_off(tmp_path):
    pickle.loads(pickle.dumps(Bomb(tmp_path / "crater")))
    assert (tmp_path / "crater").is_dir()


def archive(path):
    return cifar10.read_archive(path, hashlib.sha256(path.read_bytes()).hexdigest(), 1)


# name of the file: its reader, words of the sentence
READERS = {
    "my.yaml": (lambda path: check_files([path]), "my.yaml"),
    "images-idx3-ubyte": (lambda path: idx.read(path, (3, 28, 28), ""), "images-idx3-ubyte is truncated"),
    "images-idx3-ubyte.gz": (lambda path: idx.read(path, (3, 28, 28), ""), "cannot be read (Not a gzipped file"),
    "cifar-10-binary.tar.gz": (archive, "cannot be read (Not a gzipped file"),
    "train.parquet": (lambda path: cifar10_jpeg.read_parquet(path, 3), "is not a parquet file"),
    "dataset.safetensors": (open_dataset, "is truncated or not a safetensors file"),
    "models.safetensors": (open_models, "is truncated or not a safetensors file"),
    "moments.safetensors": (lambda path: read_tensors(path, "moments"), "is truncated or not a safetensors file"),
    "header.safetensors": (lambda path: read_header(path, "moments"), "is truncated or not a safetensors file"),
    "swap_costs.parquet": (read_table, "is not a readable table"),
    "A.safetensors": (read_weights, "A.safetensors is "),
    "A.pt": (read_weights, "A.pt is a pickle, and opening one can run code that is hidden in it, so symlab does not"),
    "data.npz": (lambda path: read_data(path, "regression"), "data.npz "),
    "data.safetensors": (lambda path: read_data(path, "regression"), "data.safetensors is "),
    "data.npy": (lambda path: read_data(path, "regression"), "data are read from .npz or .safetensors files only"),
    "data.pkl": (lambda path: read_data(path, "regression"), "data are read from .npz or .safetensors files only"),
}


@pytest.mark.parametrize("name", READERS)
def test_a_pickle_in_the_place_of_a_file(name, bomb, crater, tmp_path, refused):
    read, words = READERS[name]
    (tmp_path / name).write_bytes(bomb)
    with refused(words):
        read(tmp_path / name)
    assert not crater.exists()


def test_a_pickle_in_the_place_of_a_table_of_text(bomb, crater, tmp_path):
    path = tmp_path / "matching.csv"
    path.write_bytes(bomb)
    # Some bytes are lines of text; what they are not is the table that its record says.
    record_path(path).write_bytes(bomb)
    with pytest.raises(UserError, match=r"matching\.csv comes from elsewhere"):
        check_record(path, None)
    try:
        assert isinstance(read_table(path), pd.DataFrame)
    except UserError as error:
        assert "is not a readable table" in str(error)
    assert not crater.exists()


def test_a_pickle_in_the_place_of_a_checkpoint(bomb, crater, tmp_path):
    path, lines = tmp_path / "0.safetensors", []
    path.write_bytes(bomb)
    assert Checkpoints(path, {}, 1, lines.append).load(torch.device("cpu")) is None
    assert len(lines) == 1 and "training begins anew, its checkpoint cannot be used" in lines[0]
    assert not crater.exists()


def test_a_pickle_within_an_archive(crater, tmp_path, refused):
    """The Python version of CIFAR-10 is an archive of pickles."""
    path = tmp_path / "archive.tar.gz"
    for name in ("cifar-10-batches-py/data_batch_1", cifar10.MEMBERS[0]):
        content = pickle.dumps({b"data": Bomb(crater)})
        content += bytes(3073 - len(content))
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as tar:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
            for other in cifar10.MEMBERS[1:]:
                entry = tarfile.TarInfo(other)
                entry.size = 3073
                tar.addfile(entry, io.BytesIO(bytes(3073)))
        path.write_bytes(gzip.compress(stream.getvalue()))
        with refused(
            "holds no cifar" if name.startswith("cifar-10-batches-py") else "holds the label 128 at position 0"
        ):
            archive(path)
    assert not crater.exists()


def test_pickles_within_a_parquet_file(crater, tmp_path, refused):
    path = tmp_path / "train.parquet"
    bomb = pickle.dumps(Bomb(crater))
    parquet.write_table(pa.table({"image": [bomb] * 3, "label": [0, 1, 2]}), path)
    with refused("row 0: the image is not a JPEG image"):
        cifar10_jpeg.read_parquet(path, 3)
    # The types that pyarrow unpickled once (CVE-2023-47248), and metadata that pandas reads.
    extension = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": bomb}
    fields = [pa.field("image", pa.binary(), metadata=extension), pa.field("label", pa.int64(), metadata=extension)]
    schema = pa.schema(fields, metadata={"pandas": bomb, "huggingface": bomb})
    parquet.write_table(pa.table({"image": [bomb] * 3, "label": [0, 1, 2]}, schema=schema), path)
    with refused(str(path)):
        cifar10_jpeg.read_parquet(path, 3)
    with refused("is not a readable table"):
        read_table(path)
    assert not crater.exists()


def test_pickles_within_other_files(crater, tmp_path, refused):
    bomb = pickle.dumps(Bomb(crater))
    np.savez(tmp_path / "data.npz", x=np.array([Bomb(crater)], dtype=object))
    with refused("x is of type object, which is stored as a pickle", "write it with numpy.savez"):
        read_data(tmp_path / "data.npz", "regression")
    np.savez(tmp_path / "data.npz", x=np.zeros((1, 2)), y=np.array([Bomb(crater)], dtype=object))
    with refused("y is of type object, which is stored as a pickle"):
        read_data(tmp_path / "data.npz", "regression")
    # Other entries are not even read.
    np.savez(tmp_path / "data.npz", x=np.zeros((1, 2)), extra=np.array([Bomb(crater)], dtype=object))
    assert read_data(tmp_path / "data.npz", "regression").x.shape == (1, 2)
    content = np.frombuffer(bomb, np.uint8)
    save_file({"bomb": content}, tmp_path / "models.safetensors", metadata={"symlab": bomb.decode("latin-1")})
    with refused("was not written by symlab (it has no symlab header)"):
        open_models(tmp_path / "models.safetensors")
    write_tensors(tmp_path / "dataset.safetensors", {"bomb": content}, "dataset", {})
    with refused("is a data set without"):
        open_dataset(tmp_path / "dataset.safetensors")
    assert not crater.exists()
