"""Reading what a user brings: a function that builds a network, its weights, and data. Mistakes become sentences."""

from __future__ import annotations

import importlib
import os
import site
import sys
import sysconfig
import traceback
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from symlab.errors import UserError

PICKLE_SUFFIXES = {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".npy"}
MAGIC_OF_PICKLES = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


@dataclass(frozen=True)
class Weights:
    """The content of a weights file: tensors as they are, and the file's metadata."""

    path: Path
    tensors: dict[str, Tensor]
    metadata: dict[str, str]


@dataclass(frozen=True)
class Data:
    """Inputs x [n, ...], float32 or int64, and targets y [n]: int64 classes, float32 values, or None."""

    x: Shaped[Tensor, "n ..."]
    y: Int[Tensor, " n"] | Float[Tensor, " n"] | None


@contextmanager
def foreign(doing: str) -> Iterator[None]:
    """Run code that a user wrote; whatever it raises becomes a sentence with its place.

    Raises:
        UserError: the code raised something.
    """
    try:
        yield
    except UserError:
        raise
    # The code is not symlab's, so no list of exceptions covers what it may raise; SystemExit would end symlab silently.
    except (Exception, SystemExit) as error:
        libraries = (*site.getsitepackages(), sysconfig.get_path("stdlib"), str(Path(__file__).parents[1]), "<")
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if not frame.filename.startswith(libraries)]
        place = f" (line {own[-1].lineno} of {own[-1].filename})" if own else ""
        message = " ".join(str(error).split())[:400]
        raise UserError(f"{doing} failed with {type(error).__name__}: {message}{place}") from error


def load_module(factory: str) -> nn.Module:
    """The network that ``pkg.module:function`` builds; modules of the current folder can be imported too.

    Raises:
        UserError: there is no such function, it raises, or it returns no nn.Module.
    """
    module_name, colon, path = factory.partition(":")
    if not (colon and module_name and path):
        raise UserError(
            f"--model is {factory!r}; it must name a module and a function in it that builds the network, "
            "like my_package.networks:build."
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    with foreign(f"importing {module_name} (from --model, looked for in {os.getcwd()} and PYTHONPATH)"):
        module = importlib.import_module(module_name)
    try:
        build: Any = reduce(getattr, path.split("."), module)
    except AttributeError:
        raise UserError(f"--model names {path!r}, but {module_name} has no such function.") from None
    with foreign(f"calling {factory}() without arguments"):
        network = build()
    if not isinstance(network, nn.Module):
        raise UserError(f"{factory}() returned a {type(network).__name__}; it must return a torch nn.Module.")
    return network


def read_weights(path: str | Path) -> Weights:
    """A safetensors file of weights.

    Raises:
        UserError: the file is missing, no safetensors file, or empty.
    """
    tensors, metadata = _read_safetensors(Path(path))
    if not tensors:
        raise UserError(f"{path} holds no tensors.")
    return Weights(Path(path), tensors, metadata)


def read_data(path: str | Path, task: str | None = None) -> Data:
    """Inputs x and, where a task is given and the file has them, targets y, from a .safetensors or .npz file.

    Raises:
        UserError: the file cannot be read, holds no x, or its entries do not fit together or the task.
    """
    path = Path(path)
    if path.suffix not in (".npz", ".safetensors"):
        raise UserError(
            f"--data is {path}, but data are read from .npz or .safetensors files only; "
            "write one with numpy.savez('data.npz', x=x, y=y)."
        )
    arrays = _read_npz(path) if path.suffix == ".npz" else _read_safetensors(path)[0]
    if "x" not in arrays:
        held = ", ".join(map(repr, sorted(arrays)))
        raise UserError(f"{path} holds {held}, but no 'x': the inputs must have that name (and the targets 'y').")
    x = arrays["x"]
    if x.dim() == 0 or len(x) == 0:
        raise UserError(f"x in {path} has shape {tuple(x.shape)}; it must be [n, ...] with at least one sample.")
    x = x.float() if x.is_floating_point() else x.long()
    if not x.isfinite().all():
        raise UserError(f"x in {path} has entries that are NaN or infinite.")
    return Data(x, _targets(arrays["y"], len(x), task, path) if task and "y" in arrays else None)


def _targets(y: Tensor, n: int, task: str, path: Path) -> Tensor:
    if task == "regression" and y.shape == (n, 1):
        y = y.flatten()
    if y.shape != (n,):
        raise UserError(
            f"y in {path} has shape {tuple(y.shape)}, but x has {n} samples: y must have shape ({n},), one "
            "target a sample; of a language model let --model return the logits of one position, or leave y out."
        )
    if task == "regression":
        if not y.float().isfinite().all():
            raise UserError(f"y in {path} has entries that are NaN or infinite.")
        return y.float()
    if y.is_floating_point():
        raise UserError(
            f"y in {path} holds real numbers, not class labels; say --task regression, or store the labels as integers."
        )
    if int(y.min()) < 0:
        raise UserError(f"y in {path} holds the label {int(y.min())}; labels are counted from 0.")
    return y.long()


def _read_npz(path: Path) -> dict[str, Tensor]:
    try:
        with zipfile.ZipFile(path):
            arrays = dict(np.load(path, allow_pickle=False))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except (ValueError, OSError, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path} cannot be read as an .npz file of plain arrays ({error}); "
            "write it with numpy.savez, from arrays that are not of type object."
        ) from None
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise UserError(f"{name} in {path} is of type {array.dtype}; it must hold real numbers.")
    # torch computes with neither bytes swapped nor wide unsigned integers; what overflows becomes infinite.
    with np.errstate(over="ignore"):
        return {
            name: torch.from_numpy(array.astype(np.float32 if array.dtype.kind == "f" else np.int64))
            for name, array in arrays.items()
        }


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except (SafetensorError, OSError) as error:
        if path.is_file() and (path.suffix in PICKLE_SUFFIXES or _starts_like_a_pickle(path)):
            raise UserError(
                f"{path} is a pickle, and opening one can run code that is hidden in it, so symlab does not; convert "
                'it once, if you trust it: python -c "import torch, safetensors.torch as s; s.save_file({k: '
                f"v.contiguous() for k, v in torch.load('{path}', weights_only=True).items()}}, "
                f"'{path.with_suffix('.safetensors')}')\" (of a checkpoint that holds more, pick its state dict first)"
            ) from None
        raise UserError(f"{path} is truncated or not a safetensors file ({error}).") from None


def _starts_like_a_pickle(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4).startswith(MAGIC_OF_PICKLES)
