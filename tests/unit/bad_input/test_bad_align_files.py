"""What ``python -m symlab align`` is given besides a network: files and names that are wrong, each with its sentence.

Networks and weights that do not fit each other are in tests/unit/cli/test_cli_errors.py.
"""

import io
import json
import os
import struct
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from symlab.__main__ import main
from symlab.cli import align as align_module
from symlab.cli.inputs import load_module, read_data, read_weights

X = np.zeros((4, 3), np.float32)


def npy(array=X, version=(1, 0), header=None):
    """An .npy file, or one that claims another header."""
    stream = io.BytesIO()
    if header is None:
        np.lib.format.write_array(stream, array, version=version)
        return stream.getvalue()
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H", len(text)) + text + array.tobytes()


def claim(shape, descr="<f4"):
    return npy(header=f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}")


def npz(method=zipfile.ZIP_STORED, **members):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return stream.getvalue()


def encrypted():
    content = bytearray(npz(x=npy()))
    for at in (content.index(b"PK\x03\x04") + 6, content.index(b"PK\x01\x02") + 8):
        content[at] |= 1
    return bytes(content)


def by_method(number):
    content = bytearray(npz(x=npy()))
    for at in (content.index(b"PK\x03\x04") + 8, content.index(b"PK\x01\x02") + 10):
        content[at] = number
    return bytes(content)


PLAIN = "cannot be read as an .npz file of plain arrays ("
CUT = npz(x=npy())

# content of data.npz, words of the sentence
NPZ = {
    "empty": (b"", f"{PLAIN}File is not a zip file"),
    "text": (b"x,y\n1,2\n", f"{PLAIN}File is not a zip file"),
    "cut": (CUT[:-30], PLAIN),
    "a changed byte": (CUT[:180] + b"\x07" + CUT[181:], f"{PLAIN}Bad CRC-32 for file 'x.npy'"),
    "encrypted": (encrypted(), f"{PLAIN}File 'x.npy' is encrypted, password required"),
    "an unknown compression": (by_method(99), f"{PLAIN}That compression method is not supported"),
    "another compression": (by_method(8), PLAIN),
    "no array": (npz(x=b"hello"), PLAIN),
    "no member": (npz(), "holds nothing, but no 'x': the inputs must have that name (and the targets 'y')"),
    "other names": (npz(inputs=npy(), labels=npy()), "holds 'inputs', 'labels', but no 'x'"),
    "a name that writes": (npz(**{"\x1b[2J": npy()}), "holds '\\x1b[2J', but no 'x'"),
    "names without end": (npz(**{"a" * 9999: npy(), "b": b""}), "but no 'x': the inputs must have that name"),
    "a member out of the folder": (npz(**{"../x": npy()}), "holds '../x', but no 'x'"),
    "more than there is": (npz(x=claim((4, 4))), "x claims the shape (4, 4), which its"),
    "less than there is": (npz(x=claim((4, 2))), "x claims the shape (4, 2), which its"),
    "a size that overflows": (npz(x=claim((2**40, 2**40))), "x claims the shape (1099511627776, 1099511627776), which"),
    "a size below zero": (npz(x=claim((-4, -3))), "x claims the shape (-4, -3), which its"),
    "a shape that is no tuple": (npz(x=claim("'abc'")), PLAIN),
    "a type that does not exist": (npz(x=claim((4, 3), "<f3")), PLAIN),
    "a header that is code": (npz(x=npy(header="__import__('os').mkdir('ran')")), PLAIN),
    "a header of brackets": (npz(x=npy(header="(" * 5000)), f"{PLAIN}the header of an array is damaged"),
    "a header that is too long": (npz(x=npy(header=" " * 60_000 + "{}")), f"{PLAIN}the header of an array is damaged"),
    "a version that does not exist": (npz(x=npy(header="{}", version=(9, 9))), PLAIN),
    "objects": (npz(x=claim((4, 3), "|O")), "x is of type object, which is stored as a pickle"),
    "objects in fields": (npz(x=claim((4,), [("a", "|O")])), "x is of type object, which is stored as a pickle"),
    "fields": (npz(x=npy(np.zeros(4, [("a", "f4"), ("b", "i4")]))), "it must hold numbers."),
    "dates": (npz(x=npy(X.astype("datetime64[s]"))), "x in data.npz is of type datetime64[s]; it must hold numbers."),
    "complex numbers": (npz(x=npy(X.astype(complex))), "x in data.npz is of type complex128; it must hold numbers."),
    "numbers that overflow": (
        npz(x=npy(np.full((4, 3), 1e300))),
        "x in data.npz has entries that are NaN or infinite.",
    ),
    "one number": (
        npz(x=npy(np.float32(1))),
        "x in data.npz has shape (); it must be [n, ...] with at least one sample",
    ),
    "targets as columns": (npz(x=npy(), y=npy(np.zeros((4, 2), int))), "y in data.npz has shape (4, 2), but x has 4"),
    "a target too many": (npz(x=npy(), y=npy(np.zeros(5, int))), "y in data.npz has shape (5,), but x has 4 samples"),
    "a label below 0": (
        npz(x=npy(), y=npy(np.array([0, 1, -2, 0]))),
        "y in data.npz holds the label -2; labels are coun",
    ),
    "labels with fractions": (npz(x=npy(), y=npy(np.zeros(4))), "y in data.npz holds real numbers, not class labels"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("content", "words"), NPZ.values(), ids=NPZ)
def test_npz(content, words, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    Path("data.npz").write_bytes(content)
    with refused("data.npz ", words):
        read_data("data.npz", "classification")
    assert os.listdir() == ["data.npz"]


def test_an_npz_bomb_is_not_inflated(tmp_path, refused):
    path, size = tmp_path / "data.npz", 2**28 + 2**24
    head = claim((size // 4,))[: -X.nbytes]
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w") as file,
    ):
        file.write(head)
        for _ in range(size // 2**24):
            file.write(bytes(2**24))
    tracemalloc.start()
    with refused(f"x in {path} would inflate to {size + len(head)} bytes, more than 100 times its size", "numpy.savez"):
        read_data(path, "classification")
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


def test_right_npz_files_of_every_layout(tmp_path):
    path, values = tmp_path / "data.npz", np.arange(12.0).reshape(4, 3)
    for array in (
        values,
        np.asfortranarray(values),
        values.astype(">f4"),
        values.astype(np.uint64),
        values > 3,
        values[::2],
    ):
        for save in (np.savez, np.savez_compressed):
            save(path, x=array, y=np.arange(len(array)))
            np.testing.assert_array_equal(read_data(path, "classification").x.numpy(), array.astype(float))
    path.write_bytes(npz(x=npy(version=(2, 0))))
    assert read_data(path, "classification").x.shape == (4, 3)


def framed(header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def entry(shape, start, end, kind="F32"):
    return {"dtype": kind, "shape": shape, "data_offsets": [start, end]}


# content of A.safetensors, words of the sentence
SAFETENSORS = {
    "empty": (b"", "is truncated or not a safetensors file ("),
    "text": (b"hello, world" * 9, "is truncated or not a safetensors file ("),
    "a header without end": (struct.pack("<Q", 2**62), "is truncated or not a safetensors file ("),
    "a header that is no JSON": (framed(b"{]"), "is truncated or not a safetensors file ("),
    "a header that is a list": (framed([1]), "is truncated or not a safetensors file ("),
    "no tensors": (framed({}), "A.safetensors holds no tensors."),
    "a tensor that is not there": (framed({"w": entry([4], 0, 16)}), "is truncated or not a safetensors file ("),
    "a shape of another size": (
        framed({"w": entry([5], 0, 16)}, bytes(16)),
        "is truncated or not a safetensors file (",
    ),
    "tensors that overlap": (
        framed({"w": entry([4], 0, 16), "v": entry([4], 8, 24)}, bytes(24)),
        "is truncated or not a safetensors file (",
    ),
    "a size that overflows": (framed({"w": entry([2**62, 2**62], 0, 16)}, bytes(16)), "is truncated or not a saf"),
    "an unknown type": (
        framed({"w": entry([4], 0, 16, "PICKLE")}, bytes(16)),
        "is truncated or not a safetensors file (",
    ),
}


@pytest.mark.parametrize(("content", "words"), SAFETENSORS.values(), ids=SAFETENSORS)
def test_safetensors(content, words, tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    Path("A.safetensors").write_bytes(content)
    with refused("A.safetensors ", words):
        read_weights("A.safetensors")


def test_complex_data_in_safetensors(tmp_path, refused):
    save_file({"x": torch.zeros(2, 3, dtype=torch.complex64)}, tmp_path / "data.safetensors")
    with refused("is of type torch.complex64; it must hold real numbers."):
        read_data(tmp_path / "data.safetensors", "classification")


@pytest.mark.parametrize("name", ["data.npz", "data.safetensors"])
def test_what_is_no_file(name, tmp_path, refused):
    path = tmp_path / name
    with refused(f"{path} does not exist."):
        read_data(path, "classification")
    path.mkdir()
    with refused(f"{path} is not a", "but a folder; name the file itself."):
        read_data(path, "classification")
    path.rmdir()
    os.mkfifo(path)
    with refused(f"{path} is not a", "but a pipe or device; name the file itself."):
        read_data(path, "classification")
    with refused("a" * 300, ".safetensors does not exist."):
        read_weights(tmp_path / f"{'a' * 300}.safetensors")


MODEL = """
import sys
from torch import nn

number = 3

def ending():
    sys.exit(0)

def needing(path):
    return nn.Linear(1, 1)

def printing():
    raise ValueError("\\n".join(["many lines"] * 1000))

def recursing():
    return recursing()

def __getattr__(name):
    raise AttributeError(name)
"""

# --model, words of the sentence
MODELS = {
    "": ["--model is ''; it must name a module and a function in it"],
    "brought": ["--model is 'brought'; it must name a module and a function"],
    ":build": ["--model is ':build'; it must name a module and a function"],
    "./brought.py:build": ["./brought.py"],
    ".brought:build": ["importing .brought (from --model) failed with TypeError"],
    "absent.networks:build": [
        "--model names the module 'absent.networks', which Python does not find from",
        "PYTHONPATH",
    ],
    "sys:absent": ["--model names 'absent', but sys (which is no file) has no such function."],
    "brought:number": ["--model names brought:number, which is a int and cannot be called."],
    "brought:a..b": ["--model names 'a..b', but brought", "has no such function."],
    "brought:ending": ["calling brought:ending() without arguments failed with SystemExit: 0 (line 8 of"],
    "brought:needing": ["calling brought:needing() without arguments failed with TypeError", "'path'"],
    "brought:printing": ["failed with ValueError: many lines many lines", " ... (line 14 of"],
    "brought:recursing": ["failed with RecursionError: maximum recursion depth exceeded"],
    "ended:build": ["importing ended (from --model) failed with SystemExit: usage: train.py"],
    "os:getcwd": ["os:getcwd() returned a str; it must return a torch nn.Module."],
}


@pytest.mark.parametrize(("model", "words"), MODELS.items(), ids=MODELS)
def test_models(model, words, tmp_path, monkeypatch, refused):
    (tmp_path / "brought.py").write_text(MODEL)
    (tmp_path / "ended.py").write_text("raise SystemExit('usage: train.py')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "modules", {name: module for name, module in sys.modules.items() if name != "brought"})
    with refused(*words):
        load_module(model)


def test_folders_for_the_results(tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine")
    Path("loop").symlink_to("loop")
    Path("out").mkdir()
    (Path("out") / "run.json").symlink_to("../absent")
    for out, words in {
        "file": "--out is file, but file is a file; name a folder.",
        "file/deeper": "--out is file/deeper, but file is a file; name a folder.",
        "loop": "--out is loop, but loop is a file; name a folder.",
        "out": "--out is out, where run.json lies already; name another folder, or say --overwrite",
    }.items():
        with refused(words):
            align_module._check_folder(Path(out), overwrite=False)


def test_the_command_ends_with_one_line_and_nothing_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("data.npz").write_bytes(npz(x=claim((2**40, 2**40))))
    save_file({"w": torch.zeros(2)}, "A.safetensors")
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "align",
                "A.safetensors",
                "A.safetensors",
                "--data",
                "data.npz",
                "--out",
                "out",
                "--model",
                "brought:build",
            ]
        )
    assert str(ended.value.code).startswith("Error: data.npz cannot be read as an .npz file of plain arrays (x claims")
    assert capsys.readouterr() == ("", "") and sorted(os.listdir()) == ["A.safetensors", "data.npz"]
