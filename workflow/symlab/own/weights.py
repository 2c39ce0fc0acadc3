"""Weights as people have them: files, folders, shards, checkpoints, modules, state dicts. Mistakes become sentences."""

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from tqdm import tqdm

from symlab.errors import UserError
from symlab.own.modules import bare, foreign, quiet, some

PICKLE_SUFFIXES = {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle"}
WEIGHTS = {*PICKLE_SUFFIXES, ".safetensors"}
# Where a checkpoint that holds more than weights has them: torch's tutorials, Lightning, and what others call them.
LAYOUTS = ("state_dict", "model_state_dict", "model", "module", "net", "network", "weights", "params")
# What a folder of weights is looked through for: the list of shards, or all in one file (of transformers, diffusers).
INDEX = (".safetensors.index.json", ".bin.index.json")
WHOLE = ("model.safetensors", "diffusion_pytorch_model.safetensors")
PICKLED = ("pytorch_model.bin", "diffusion_pytorch_model.bin")
MAGIC_OF_PICKLES = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


@dataclass(frozen=True)
class Weights:
    """A network's weights.

    Attributes:
        path: of the file or folder; of what was in memory what it is called.
        tensors: as they are.
        metadata: of the first file.
        files: all that were read.
        remarks: sentences on how the tensors differ from what the files hold.
        shards: the tensors' names by file, if the files are several that ``index`` lists.
    """

    path: Path
    tensors: dict[str, Tensor]
    metadata: dict[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    remarks: tuple[str, ...] = ()
    shards: dict[Path, list[str]] = field(default_factory=dict)
    index: Path | None = None


def weights_of(given: Any, name: str) -> Weights:
    """Weights of a module, a state dict, or a file or folder.

    Args:
        name: what messages call them, unless they have a path.

    Raises:
        UserError: they are none of these, or cannot be read.
    """
    if isinstance(given, str | Path):
        return read_weights(given)
    if isinstance(given, nn.Module):
        given = bare(given).state_dict()
    if not isinstance(given, Mapping):
        raise UserError(
            f"{name} is a {type(given).__name__}; it must be a state dict, a module, or the path of a file of "
            "weights (align takes the module, both networks' weights, then data)."
        )
    tensors, remarks = _tensors_in(given, name)
    return Weights(Path(name), tensors, remarks=remarks)


def read_weights(path: str | Path) -> Weights:
    """Weights of a file, or of a folder that holds one, or several and model.safetensors.index.json.

    Tensors are mapped from the files: they take memory when they are used, which the system may take back. Pickles
    (.pt, .bin, .ckpt) are read by torch's loader of weights alone, which runs no code that they hold.

    Raises:
        UserError: a file is missing, holds no weights or more than the loader takes, or is empty.
    """
    path = at_home(path)
    files, index = _files(path)
    shards: dict[Path, list[str]] = {}
    tensors: dict[str, Tensor] = {}
    metadata: dict[str, str] = {}
    remarks: list[str] = []
    for file in tqdm(files, desc=f"reading {path.name}", unit="file", leave=False, disable=None):
        of_file, described, told = _read_file(file)
        remarks += told
        if twice := of_file.keys() & tensors.keys():
            raise UserError(f"{sorted(twice)[0]!r} lies in two of the files that {path} lists.")
        tensors |= of_file
        shards[file] = list(of_file)
        metadata = metadata or described
    if not tensors:
        raise UserError(f"{path} holds no tensors.")
    # What was read of pickles is written as one safetensors file.
    index = index if index is not None and index.name.endswith(INDEX[0]) else None
    return Weights(path, tensors, metadata, files, tuple(remarks), shards if index else {}, index)


def at_home(path: str | Path) -> Path:
    """A path that may begin at a home (``~``)."""
    # Path.expanduser refuses a name that only begins like one.
    return Path(os.path.expanduser(path))


def converted(weights: Weights, network: nn.Module) -> Weights:
    """A folder's weights under the names that transformers gives them in memory, where those in its files are older.

    Raises:
        UserError: the folder lacks some.
    """
    kind: Any = type(network)
    with foreign(f"reading {weights.path} with transformers"), quiet():
        loaded, info = kind.from_pretrained(
            weights.path, local_files_only=True, use_safetensors=True, dtype="auto", output_loading_info=True
        )
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
    safe, pickled = (sorted(path.glob("*" + suffix)) for suffix in INDEX)
    whole = [path / name for name in WHOLE if (path / name).is_file()] or sorted(path.glob("*.safetensors"))
    lists = safe or (pickled if not whole else [])
    if len(lists) == 1:
        return _shards(lists[0]), lists[0]
    if not lists and len(whole) == 1:
        return (whole[0],), None
    if lists or whole:
        names = ", ".join(file.name for file in lists or whole)
        raise UserError(f"{path} holds several sets of weights ({names}): name the file of one of them.")
    pickles = [path / name for name in PICKLED if (path / name).is_file()] or sorted(
        file for file in path.iterdir() if file.suffix in PICKLE_SUFFIXES
    )
    if len(pickles) == 1:
        return (pickles[0],), None
    if pickles:
        names = ", ".join(file.name for file in pickles)
        raise UserError(f"{path} holds several checkpoints ({names}): name the file of one of them.")
    within = sorted(
        folder.name for folder in path.iterdir() if any(file.suffix in WEIGHTS for file in folder.glob("*.*"))
    )
    raise UserError(
        f"{path} is a folder without files of weights (.safetensors, .pt, .bin, .ckpt)"
        f"{f'; there are some in {some(within, 5)}: name one of these' if within else ''}."
    )


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


def _read_file(path: Path) -> tuple[dict[str, Tensor], dict[str, str], tuple[str, ...]]:
    """Tensors, metadata, and sentences on what was taken of a checkpoint that holds more."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}, ()  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except (SafetensorError, OSError) as error:
        if path.is_file() and _starts_like_a_pickle(path):
            tensors, remarks = _tensors_in(_unpickled(path), str(path))
            return tensors, {}, remarks
        raise UserError(f"{path} is truncated or not a file of weights ({error}).") from None


def _starts_like_a_pickle(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4).startswith(MAGIC_OF_PICKLES)


def _unpickled(path: Path) -> Any:
    """The content of a pickle as torch's loader of weights alone takes it: tensors, numbers, texts, and dicts of them.

    Raises:
        UserError: it holds anything else, which would have to be run to be read.
    """
    try:
        with path.open("rb") as file:
            return torch.load(file, "cpu", weights_only=True)  # noqa: TID251
    except UnpicklingError as error:
        reason = next(
            (line.strip() for line in str(error).splitlines() if "GLOBAL" in line or "nsupported" in line), ""
        )
        raise UserError(
            f"{path} holds more than weights, and opening it would run code from the file, so symlab does not"
            f"{f' ({reason})' if reason else ''}. If you trust it, open it where it was written and save "
            "module.state_dict() alone: torch.save(module.state_dict(), 'weights.pt')."
        ) from None
    except (RuntimeError, ValueError, EOFError, OSError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path} is truncated or no checkpoint of torch ({' '.join(str(error).split())[:200]})."
        ) from None


def _tensors_in(content: Any, name: str) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """The state dict that something is, or holds under one of the usual names, and a sentence on what was taken.

    Raises:
        UserError: there is none, or there are several under names that are not usual.
    """
    inside = {
        str(key): tensors
        for key, value in (content.items() if isinstance(content, Mapping) else ())
        if isinstance(value, Mapping) and (tensors := _tensors_by_name(value))
    }
    usual = [key for key in LAYOUTS if key in inside]
    if not usual and isinstance(content, Mapping) and ((tensors := _tensors_by_name(content)) or not content):
        left = [str(key) for key in content if key not in tensors]
        return tensors, (f"Of {name} what are no tensors was left out: {', '.join(left[:4])}.",) * bool(left)
    usual = usual or list(inside)[: len(inside) == 1]
    if not usual:
        held = (
            ", ".join(map(repr, list(content)[:6])) if isinstance(content, Mapping) else f"a {type(content).__name__}"
        )
        raise UserError(
            f"{name} holds {held or 'nothing'}, and no state dict, neither itself nor under one of the names "
            f"{', '.join(LAYOUTS)}: save module.state_dict() alone."
        )
    others = [key for key in inside if key != usual[0]]
    beside = f" ({', '.join(map(repr, others))} hold tensors too)" if others else ""
    return inside[usual[0]], (f"Of {name} the weights under {usual[0]!r} were taken{beside}.",)


def _tensors_by_name(content: Mapping[Any, Any]) -> dict[str, Tensor]:
    arrays = {key: value for key, value in content.items() if isinstance(value, Tensor | np.ndarray)}
    if not all(isinstance(key, str) for key in arrays):
        return {}
    # Sizes of lazy ones are not known yet, of which the network is told later.
    lazy = (UninitializedBuffer, UninitializedParameter)
    return {key: value if isinstance(value, lazy) else torch.as_tensor(value).detach() for key, value in arrays.items()}


def unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors ready for a safetensors file, where none may share its memory with another."""
    seen: set[int] = set()
    found = {}
    for name, tensor in tensors.items():
        alone = tensor.untyped_storage()._cdata not in seen
        seen.add(tensor.untyped_storage()._cdata)
        found[name] = (tensor if alone else tensor.clone()).contiguous()
    return found
