"""Data as people have them: files, tensors, arrays, tuples, dicts, loaders; all become one batch and targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, IterableDataset
from tqdm import tqdm

from symlab.batches import Inputs
from symlab.connectivity.objective import IGNORED
from symlab.data.npz import read_npz
from symlab.errors import UserError
from symlab.own.modules import foreign, imported, is_of_transformers, names_of_inputs, needed_inputs, wants_names
from symlab.own.weights import at_home, weights_of
from symlab.seeds import numpy_rng

# What targets are called in dictionaries; everything else in them is an input.
TARGETS = ("y", "label", "labels", "target", "targets")
MASK = "attention_mask"
# Their key beside the inputs', of which one may be called y.
Y = "#y"

SAMPLES_AT_ONCE = 256

Arrays = dict[str, Tensor]


@dataclass(frozen=True)
class Data:
    """Inputs and targets of some samples.

    Attributes:
        x: the inputs, several as ``Inputs``; integers are int64.
        y: targets, or None; integers are int64, -100 where there is none.
        name: what messages call the data.
        names: what the module calls its inputs, if they are given by name.
        remarks: sentences on what was left out or is missing.
    """

    x: Shaped[Tensor, "n ..."] | Inputs
    y: Shaped[Tensor, "n ..."] | None
    name: str
    names: tuple[str, ...] | None = None
    remarks: tuple[str, ...] = ()

    def __getitem__(self, rows: Any) -> Data:
        return replace(self, x=self.x[rows], y=None if self.y is None else self.y[rows])


def read_data(
    source: Any, module: nn.Module, samples: int | None = None, seed: int = 0, option: str = "--data"
) -> Data:
    """Inputs and, if there are any, targets.

    Args:
        source: a .safetensors, .npz or .pt file; ``pkg.module:batches``; or a batch, or an iterable of batches (a
            ``DataLoader``, a ``Dataset`` of samples, a list, a function that returns one). A batch is a tensor or
            array x; a tuple (x, y) or of the module's several inputs, with targets after them or not; or a dictionary
            of inputs by the names of the module's, with targets under one of ``TARGETS``.
        module: whose inputs they are.
        samples: as many random samples are kept; of an iterable no more batches are asked for than hold them.
        seed: of the samples' choice.
        option: by which messages say that the source was given.

    Raises:
        UserError: the data cannot be read, hold no inputs of the module, or their parts do not fit together.
    """
    name = str(source) if isinstance(source, str | Path) else option.removeprefix("--")
    batches, whole = _batches(source, name, option)
    parts: list[Arrays] = []
    n = 0
    with foreign(f"reading batches from {name}"):
        for batch in tqdm(batches, desc="reading data", unit="batch", leave=False, disable=True if whole else None):
            parts.append(_arrays(batch, module, name))
            n += _rows(parts[-1], name)
            if samples is not None and n >= samples and not whole:
                break
    if not parts:
        raise UserError(f"{name} gives no batches.")
    data = _data(_joined(parts, name), module, name)
    if samples is None or samples >= n:
        return data
    rows = np.sort(numpy_rng("align", seed, "samples").permutation(n)[:samples]) if whole else np.arange(samples)
    return data[torch.from_numpy(rows)]


def _batches(source: Any, name: str, option: str) -> tuple[Iterable[Any], bool]:
    """The batches that a source is, or gives, and whether they are one that holds all."""
    if isinstance(source, str | Path):
        path = at_home(source)
        if path.suffix == ".npz":
            return [read_npz(path)], True
        if path.suffix in (".safetensors", ".pt", ".pth"):
            return [weights_of(path, str(path)).tensors], True
        if ":" not in str(source):
            raise UserError(
                f"{option} is {path}, but data are read from .npz, .safetensors or .pt files only, or from a function "
                "(my_package.data:batches); write a file with numpy.savez('data.npz', x=x, y=y)."
            )
        source = imported(name, option, "an iterable of batches in it, or a function that returns one")
    if callable(source) and not isinstance(source, Tensor | Mapping | Iterable | Dataset):
        with foreign(f"calling {name}"):
            source = source()
    if isinstance(source, Tensor | np.ndarray | pd.DataFrame | Mapping | tuple):
        return [source], True
    if isinstance(source, Dataset) and not isinstance(source, IterableDataset):
        return DataLoader(source, SAMPLES_AT_ONCE), False
    if not isinstance(source, Iterable) or isinstance(source, str | bytes | nn.Module):
        raise UserError(
            f"{name} gives a {type(source).__name__}; it must be a tensor, an array, a tuple, a dictionary, or an "
            "iterable of batches (x, y) or x."
        )
    return source, False


def _arrays(batch: Any, module: nn.Module, name: str) -> Arrays:
    """A batch's inputs by position ("#0", "#1", ...) or name, and targets as ``Y``."""
    if isinstance(batch, Mapping):
        targets = {*TARGETS} - {*needed_inputs(module)}
        keys = {key: "#0" if key == "x" else Y if key in targets else str(key) for key in batch}
        return {keys[key]: _tensor(value, f"{key} in {name}") for key, value in batch.items() if value is not None}
    if isinstance(batch, tuple | list) and batch:
        nested = any(isinstance(part, Mapping | tuple | list) for part in batch[:-1])
        alone = len(batch) == 1 or (len(batch) == len(needed_inputs(module)) and not nested)
        *inputs, y = (*batch, None) if alone else batch
        of_inputs = (
            _arrays(inputs[0], module, name)
            if nested and isinstance(inputs[0], Mapping)
            else {
                f"#{at}": _tensor(part, f"input {at} in {name}")
                for at, part in enumerate(inputs[0] if nested else inputs)
            }
        )
        return of_inputs if alone else of_inputs | {Y: _tensor(y, f"y in {name}")}
    return {"#0": _tensor(batch, f"x in {name}")}


def _tensor(value: Any, what: str) -> Tensor:
    """An array on the CPU: real numbers as they are, integers as int64.

    Raises:
        UserError: it is none, or no array of numbers.
    """
    try:
        if isinstance(value, pd.DataFrame | pd.Series):
            value = value.to_numpy()
        # torch computes with neither bytes swapped nor wide unsigned integers; what overflows becomes infinite.
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
            with np.errstate(over="ignore"):
                kind = value.dtype.kind
                wide = np.int64 if kind != "f" else np.float64 if value.dtype.itemsize >= 8 else np.float32
                value = value.astype(wide)
        tensor = torch.as_tensor(value).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        kind = f"of type {value.dtype}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        raise UserError(f"{what} is {kind}; it must hold real numbers, as a tensor or an array.") from None
    if tensor.is_floating_point():
        return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
    return tensor if tensor.dtype == torch.bool else tensor.long()


def _rows(arrays: Arrays, name: str) -> int:
    """How many samples a batch holds.

    Raises:
        UserError: there are none, or its parts differ in that.
    """
    first = next((key for key in arrays if key != Y), None)
    if first is None:
        raise UserError(f"{name} holds targets, but no 'x': the inputs must have that name, or the module's for them.")
    x = arrays[first]
    if x.dim() == 0 or len(x) == 0:
        raise UserError(f"x in {name} has shape {tuple(x.shape)}; it must be [n, ...] with at least one sample.")
    if Y in arrays and arrays[Y].dim() == 0:
        raise UserError(
            f"a batch of {name} has one number as its target: samples come in batches, a list of single ones as "
            "torch.utils.data.DataLoader(samples, 256)."
        )
    for key, array in arrays.items():
        if key == Y and len(array) != len(x):
            raise UserError(
                f"y in {name} has shape {tuple(array.shape)}, but x has {len(x)} samples: it must hold as many."
            )
    return len(x)


def _joined(parts: list[Arrays], name: str) -> Arrays:
    """The batches put together; texts of several lengths, if it is said what of them counts, are filled up.

    Raises:
        UserError: they differ in more than their numbers of samples.
    """
    if len(parts) == 1:
        return parts[0]
    if MASK in parts[0] and len({array.shape[1:] for part in parts for array in part.values() if array.dim() == 2}) > 1:
        parts = [_filled(part, max(other[MASK].shape[1] for other in parts)) for part in parts]
    kinds = [{key: (array.shape[1:], array.dtype) for key, array in part.items()} for part in parts]
    for part, kind in zip(parts, kinds, strict=True):
        if kind != kinds[0]:
            described = " and ".join(" beside ".join(map(_shape, each.values())) for each in (parts[0], part))
            raise UserError(f"batches of {name} differ in more than their number of samples: {described}.")
    return {key: torch.cat([part[key] for part in parts]) for key in parts[0]}


def _filled(part: Arrays, tokens: int) -> Arrays:
    """A batch of texts made as long as the longest: with tokens 0 that do not count, and targets that do not."""
    missing = tokens - part[MASK].shape[1]
    return {
        key: functional.pad(array, (0, missing), value=IGNORED if key == Y else 0)
        if array.shape == part[MASK].shape
        else array
        for key, array in part.items()
    }


def _data(arrays: Arrays, module: nn.Module, name: str) -> Data:
    """The arrays as the module takes them.

    Raises:
        UserError: none is an input of it, or some input is not finite.
    """
    known, open_ended = names_of_inputs(module)
    y = arrays.pop(Y, None)
    given = [key for key in arrays if not key.startswith("#")]
    # What lies beside x is an input only if the module has a name for it.
    by_name = [key for key in given if key in known or (open_ended and "#0" not in arrays)]
    left = [key for key in given if key not in by_name]
    chosen = {key: array for key, array in arrays.items() if key not in left}
    if not chosen:
        held = ", ".join(map(repr, sorted(arrays)))
        raise UserError(
            f"{name} holds {held}, but no 'x' and no input of {type(module).__name__} by its name "
            f"({', '.join(known[:6])}): the inputs must have one of these names (and the targets 'y')."
        )
    for key, array in chosen.items():
        if len(array) != len(next(iter(chosen.values()))):
            raise UserError(f"inputs in {name} have {len(next(iter(chosen.values())))} and {len(array)} samples.")
        if array.is_floating_point() and not array.isfinite().all():
            raise UserError(f"{'x' if key == '#0' else key} in {name} has entries that are NaN or infinite.")
    named = bool(by_name) or (wants_names(module) and len(chosen) <= len(known))
    names = tuple(known[int(key[1:])] if key.startswith("#") else key for key in chosen) if named else None
    remarks = [f"Of {name} what the module does not take was left out: {', '.join(left)}."] if left else []
    remarks += _on_masks(chosen, module)
    parts = tuple(chosen.values())
    return Data(parts[0] if len(parts) == 1 and names is None else Inputs(parts), y, name, names, tuple(remarks))


def _on_masks(inputs: Arrays, module: nn.Module) -> list[str]:
    """A sentence where tokens that only fill up texts would be attended to."""
    padding = getattr(getattr(module, "config", None), "pad_token_id", None) if is_of_transformers(module) else None
    tokens = next(iter(inputs.values()))
    if MASK in inputs or MASK not in names_of_inputs(module)[0] or padding is None or tokens.is_floating_point():
        return []
    if not bool((tokens == padding).any()):
        return []
    return [
        f"The inputs hold the token {padding}, which fills texts up, but no {MASK!r}: it is attended to as any other. "
        f"Give batches that are dictionaries with {MASK!r} to leave it out."
    ]


def _shape(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
