"""Reading what a user brings: a function that builds a network, its weights, and data. Mistakes become sentences."""

from __future__ import annotations

import importlib
import io
import json
import logging
import os
import site
import sys
import sysconfig
import traceback
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from tqdm import tqdm

from symlab.connectivity.path import IGNORED
from symlab.errors import UserError

PICKLE_SUFFIXES = {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle", ".npy"}
# What a folder of weights is looked through for: the list of shards, or all in one file (of transformers, diffusers).
INDEX = ".safetensors.index.json"
WHOLE = ("model.safetensors", "diffusion_pytorch_model.safetensors")
MAGIC_OF_PICKLES = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


@dataclass(frozen=True)
class Weights:
    """The content of a file or folder of weights.

    Attributes:
        tensors: as they are.
        metadata: of the first file.
        files: all that were read.
        remarks: sentences on how the tensors differ from what the files hold.
        shards: the tensors' names by file, if the files are several that ``index`` lists.
    """

    path: Path
    tensors: dict[str, Tensor]
    metadata: dict[str, str]
    files: tuple[Path, ...] = ()
    remarks: tuple[str, ...] = ()
    shards: dict[Path, list[str]] = field(default_factory=dict)
    index: Path | None = None


@dataclass(frozen=True)
class Data:
    """Inputs x [n, ...], float32 or int64, and targets y: int64 classes (-100: ignored), float32 values, or None."""

    x: Shaped[Tensor, "n ..."]
    y: Int[Tensor, "n ..."] | Float[Tensor, " n"] | None


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


def load_module(factory: str, folder: str | Path | None = None) -> nn.Module:
    """The network that ``pkg.module:function`` builds; modules of the current folder can be imported too.

    A class of transformers, ``transformers:AutoModelForCausalLM``, is built from the config.json in ``folder``, with
    random weights. A model of transformers, whoever built it, gets to return its logits (or else its first output).

    Raises:
        UserError: there is no such function, it raises, or it returns no nn.Module.
    """
    library = factory.partition(":")[0] == "transformers"
    if library:
        # Read when the library is imported: nothing is ever downloaded.
        os.environ["HF_HUB_OFFLINE"] = "1"
    build = _imported(factory, "--model", "a function in it that builds the network, like my_package.networks:build")
    with foreign(f"building {factory}" if library else f"calling {factory}() without arguments"):
        network = _from_config(build, factory, folder) if library else build()
    if not isinstance(network, nn.Module):
        raise UserError(f"{factory}() returned a {type(network).__name__}; it must return a torch nn.Module.")
    return _returning_logits(network)


def _imported(name: str, option: str, what: str) -> Any:
    """What ``pkg.module:path`` names."""
    module_name, colon, path = name.partition(":")
    if not (colon and module_name and path):
        raise UserError(f"{option} is {name!r}; it must name a module and {what}.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    with foreign(f"importing {module_name} (from {option}, looked for in {os.getcwd()} and PYTHONPATH)"):
        module = importlib.import_module(module_name)
    try:
        return reduce(getattr, path.split("."), module)
    except AttributeError:
        raise UserError(f"{option} names {path!r}, but {module_name} has no such function.") from None


def _from_config(build: Any, factory: str, folder: str | Path | None) -> nn.Module:
    """A model of transformers as the config.json in a folder describes it; code beside it is not run."""
    path = None if folder is None else Path(folder) / "config.json"
    if path is None or not path.is_file():
        given = "there is none" if path is None else f"{path} is none"
        raise UserError(
            f"{factory} is built from the config.json of a model's folder, and {given}: give A and B as folders that "
            "hold a config.json beside the weights (--folder for symlab trace), or let --model name a function of "
            "yours that builds the network."
        )
    of_class = getattr(build, "config_class", None)
    reader = of_class or importlib.import_module("transformers").AutoConfig
    only_local: dict[str, Any] = {"local_files_only": True} | ({} if of_class else {"trust_remote_code": False})
    config = reader.from_pretrained(path.parent, **only_local)
    return build(config) if of_class else build.from_config(config, trust_remote_code=False)


def is_of_transformers(network: nn.Module) -> bool:
    """Whether a network is a model of transformers, which need not be installed."""
    return any(
        base.__name__ == "PreTrainedModel" and base.__module__.startswith("transformers")
        for base in type(network).mro()
    )


def _returning_logits(network: nn.Module) -> nn.Module:
    """The network, which returns one tensor if it is a model of transformers, and keeps its parameters' names."""
    kind: Any = type(network)
    if not any(
        base.__name__ == "PreTrainedModel" and base.__module__.startswith("transformers") for base in kind.mro()
    ):
        return network
    config: Any = network.config
    if getattr(config, "use_cache", False):
        config.use_cache = False

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        out = kind.forward(self, x)
        if isinstance(out, Tensor):
            return out
        return out["logits"] if "logits" in out else out[0]

    network.__class__ = type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})
    return network


def read_weights(path: str | Path) -> Weights:
    """Weights of a safetensors file, or of a folder that holds one, or several and model.safetensors.index.json.

    Tensors are mapped from the files: they take memory when they are used, which the system may take back.

    Raises:
        UserError: a file is missing, no safetensors file, or empty.
    """
    path = Path(path)
    files, index = _files(path)
    shards: dict[Path, list[str]] = {}
    tensors: dict[str, Tensor] = {}
    metadata: dict[str, str] = {}
    for file in tqdm(files, desc=f"reading {path.name}", unit="file", leave=False, disable=None):
        of_file, described = _read_safetensors(file)
        if twice := of_file.keys() & tensors.keys():
            raise UserError(f"{sorted(twice)[0]!r} lies in two of the files that {path} lists.")
        tensors |= of_file
        shards[file] = list(of_file)
        metadata = metadata or described
    if not tensors:
        raise UserError(f"{path} holds no tensors.")
    return Weights(path, tensors, metadata, files, shards=shards if index else {}, index=index)


def converted(weights: Weights, network: nn.Module) -> Weights:
    """A folder's weights under the names that transformers gives them in memory, where those in its files are older.

    Raises:
        UserError: the folder lacks some.
    """
    kind: Any = type(network)
    logging.disable(logging.ERROR)
    try:
        with foreign(f"reading {weights.path} with transformers"), redirect_stderr(io.StringIO()):
            loaded, info = kind.from_pretrained(
                weights.path, local_files_only=True, use_safetensors=True, dtype="auto", output_loading_info=True
            )
    finally:
        logging.disable(logging.NOTSET)
    if missing := sorted(info["missing_keys"]):
        raise UserError(f"{weights.path} does not fit {kind.__name__}: it lacks {missing[0]!r} (of {len(missing)}).")
    remark = (
        f"The tensors of {weights.path} have the names that transformers gives them in memory, not those of its files."
    )
    return replace(weights, tensors=dict(loaded.state_dict()), remarks=(remark,), shards={}, index=None)


def _files(path: Path) -> tuple[tuple[Path, ...], Path | None]:
    """The safetensors files that a path to a file, a list of shards, or a folder stands for, and their list."""
    if path.name.endswith(INDEX):
        return _shards(path), path
    if not path.is_dir():
        return (path,), None
    lists = sorted(path.glob("*" + INDEX))
    whole = [path / name for name in WHOLE if (path / name).is_file()] or sorted(path.glob("*.safetensors"))
    if len(lists) == 1:
        return _shards(lists[0]), lists[0]
    if not lists and len(whole) == 1:
        return (whole[0],), None
    if lists or whole:
        names = ", ".join(file.name for file in lists or whole)
        raise UserError(f"{path} holds several sets of weights ({names}): name the file of one of them.")
    pickles = sorted(file for file in path.iterdir() if file.suffix in PICKLE_SUFFIXES)
    if pickles:
        raise _is_a_pickle(pickles[0])
    raise UserError(f"{path} is a folder without safetensors files.")


def _shards(path: Path) -> tuple[Path, ...]:
    try:
        listed = json.loads(path.read_text())["weight_map"]
        names = sorted(set(listed.values()))
        plain = all(Path(name).name == name for name in names)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is no list of the files that hold the weights ({error!r}).") from None
    if not plain:
        raise UserError(f"{path} lists files of other folders; they must lie beside it.")
    for name in names:
        if not (path.parent / name).is_file():
            raise UserError(f"{path} lists {name}, which is not there: was the download finished?")
    return tuple(path.parent / name for name in names)


def read_data(source: str | Path, task: str | None = None, samples: int | None = None) -> Data:
    """Inputs x and, where a task is given and there are any, targets y.

    Args:
        source: a .safetensors or .npz file, or ``pkg.module:batches``, an iterable of batches or a function that
            returns one; a batch is x, or x and y.
        samples: no batches are asked for when there are as many samples.

    Raises:
        UserError: the data cannot be read, hold no x, or their entries do not fit together or the task.
    """
    path = Path(source)
    if path.suffix not in (".npz", ".safetensors"):
        if ":" not in str(source):
            raise UserError(
                f"--data is {path}, but data are read from .npz or .safetensors files only, or from a function "
                "(my_package.data:batches); write a file with numpy.savez('data.npz', x=x, y=y)."
            )
        arrays = _read_batches(str(source), samples)
    else:
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


def _read_batches(source: str, samples: int | None) -> dict[str, Tensor]:
    """The batches that a user's iterable gives, put together: x, and y if they have targets."""
    batches = _imported(source, "--data", "an iterable of batches in it, or a function that returns one")
    parts: list[tuple[Tensor, ...]] = []
    n = 0
    with foreign(f"reading batches from {source}"):
        given = batches() if callable(batches) else batches
        if not isinstance(given, Iterable) or isinstance(given, Tensor | np.ndarray | dict | str):
            raise UserError(f"{source} gives a {type(given).__name__}; it must be an iterable of batches (x, y) or x.")
        for batch in tqdm(given, desc="reading data", unit="batch", leave=False, disable=None):
            part = batch if isinstance(batch, tuple | list) else (batch,)
            if not 1 <= len(part) <= 2 or not all(isinstance(each, Tensor | np.ndarray) for each in part):
                raise UserError(
                    f"a batch of {source} is a {_kind(batch)}; it must be a tensor x [n, ...], or two: x and the "
                    "targets y. Several inputs, such as masks, travel as one x that a module of yours takes apart "
                    "(docs/align.md)."
                )
            parts.append(tuple(torch.as_tensor(each).detach().cpu() for each in part))
            n += len(parts[-1][0]) if parts[-1][0].dim() else 0
            if samples is not None and n >= samples:
                break
    if not parts:
        raise UserError(f"{source} gives no batches.")
    for part in parts:
        first = [(each.shape[1:], each.dtype) for each in parts[0]]
        if [(each.shape[1:], each.dtype) for each in part] != first or any(len(each) != len(part[0]) for each in part):
            described = " and ".join(" beside ".join(_shape(each) for each in p) for p in (parts[0], part))
            raise UserError(f"batches of {source} differ in more than their number of samples: {described}.")
    return {name: torch.cat(column)[:samples] for name, column in zip("xy", zip(*parts, strict=True), strict=False)}


def _kind(value: Any) -> str:
    inner = f" of {', '.join(type(each).__name__ for each in value)}" if isinstance(value, tuple | list) else ""
    return type(value).__name__ + inner


def _shape(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"


def _targets(y: Tensor, n: int, task: str, path: Path) -> Tensor:
    if task == "regression" and y.shape == (n, 1):
        y = y.flatten()
    if y.dim() == 0 or len(y) != n or (task == "regression" and y.dim() > 1):
        raise UserError(
            f"y in {path} has shape {tuple(y.shape)}, but x has {n} samples: y must have shape ({n},), one target a "
            f"sample, or of class labels ({n}, tokens)."
        )
    if task == "regression":
        if not y.float().isfinite().all():
            raise UserError(f"y in {path} has entries that are NaN or infinite.")
        return y.float()
    if y.is_floating_point():
        raise UserError(
            f"y in {path} holds real numbers, not class labels; say --task regression, or store the labels as integers."
        )
    y = y.long()
    counted = y[y != IGNORED]
    if not len(counted):
        raise UserError(f"y in {path} holds no label but {IGNORED}, which is ignored: there would be no loss.")
    if int(counted.min()) < 0:
        raise UserError(
            f"y in {path} holds the label {int(counted.min())}; labels are counted from 0 ({IGNORED}: ignored)."
        )
    return y


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
            raise _is_a_pickle(path) from None
        raise UserError(f"{path} is truncated or not a safetensors file ({error}).") from None


def _is_a_pickle(path: Path) -> UserError:
    return UserError(
        f"{path} is a pickle, and opening one can run code that is hidden in it, so symlab does not; convert "
        'it once, if you trust it: python -c "import torch, safetensors.torch as s; s.save_file({k: '
        f"v.contiguous() for k, v in torch.load('{path}', weights_only=True).items()}}, "
        f"'{path.with_suffix('.safetensors')}')\" (of a checkpoint that holds more, pick its state dict first)"
    )


def _starts_like_a_pickle(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4).startswith(MAGIC_OF_PICKLES)
