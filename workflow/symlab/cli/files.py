"""Results of a command in a folder: all of them or none."""

import json
import os
import shutil
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from symlab import __version__
from symlab.artifacts import write_text
from symlab.data.folder import sha256_of
from symlab.errors import UserError
from symlab.own.weights import Weights
from symlab.products import products_by
from symlab.symmetries.symmetry_spec import SymmetrySpec

# What tells libraries of models how a folder's network is built.
CONFIG = "config.json"


def computing(options: Namespace) -> dict[str, Any]:
    """What ``symlab.cli.add_computing`` adds to a command's options, as ``symlab.own.models.load_models`` takes it."""
    names = ("task", "metric", "samples", "batch_size", "seed", "device", "folder")
    return {name: getattr(options, name, None) for name in names}


def check_folder(options: Namespace, results: Sequence[str]) -> None:
    """Check that a command's folder can take its results, before anything is read.

    Raises:
        UserError: it cannot.
    """
    folder = Path(options.out)
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise UserError(f"--out is {folder}, but {nearest} is no folder that you may write to; name another one.")
    existing = [name for name in results if os.path.lexists(folder / name)]
    if existing and not options.overwrite:
        raise UserError(
            f"--out is {folder}, where {existing[0]} lies already; name another folder, or say --overwrite to replace "
            "the results in it."
        )


@contextmanager
def all_or_nothing(folder: Path, results: Sequence[str]) -> Iterator[Path]:
    """A folder to write results to; they get to ``folder`` when all are written, and vanish otherwise.

    Results of an earlier run are replaced, those that this run does not have are removed; other files stay.
    """
    existed = folder.is_dir()
    name = f".{folder.name}.{os.getpid()}"
    staged = folder / name if existed else folder.with_name(name)
    try:
        staged.mkdir(parents=True)
        yield staged
        if not existed:
            staged.rename(folder)
            return
        for name in results:
            _replace(folder / name, staged / name)
    except OSError as error:
        raise UserError(f"the results cannot be written to {folder} ({error}); choose another --out.") from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)


@contextmanager
def written(options: Namespace, results: Sequence[str], told: str) -> Iterator[Path]:
    """A folder for a command's results, to which its options and versions are added; then what it found is printed."""
    folder = Path(options.out)
    with all_or_nothing(folder, results) as staged:
        yield staged
        made_with: dict[str, Any] = {"symlab": __version__, "torch": torch.__version__, "products": products_by()}
        write_text(staged / "run.json", json.dumps(made_with | vars(options), indent=1) + "\n")
    print(told)
    print(f"\nWritten to {folder}: {', '.join(name for name in results if (folder / name).exists())}")


def _replace(old: Path, new: Path) -> None:
    """Put a result, or none, in the place of an earlier run's; files in a folder that symlab did not write stay."""
    if old.is_dir():
        for file in (*old.glob("*.safetensors*"), old / CONFIG):
            file.unlink(missing_ok=True)
        if not any(old.iterdir()):
            old.rmdir()
    if new.is_dir():
        old.mkdir(exist_ok=True)
        for file in new.iterdir():
            os.replace(file, old / file.name)
    elif new.exists():
        os.replace(new, old)
    elif not old.is_dir():
        old.unlink(missing_ok=True)


def sha256(weights: Weights) -> str:
    """Of the file; of several the sums of all, in the order of their names."""
    return " ".join(sha256_of([path]) for path in weights.files)


def spec_as_json(spec: SymmetrySpec) -> str:
    """The spec with where activations are recorded and what stays in place: a line a group, tensor or sentence."""
    described = spec.to_json()
    for group, points in spec.points.items():
        described["groups"][group]["recorded_at"] = list(
            dict.fromkeys(point.place or "the network itself" for point in points)
        )
    lines = {
        key: ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in entries.items())
        for key, entries in described.items()
    }
    unsupported = json.dumps(list(spec.unsupported), indent=2)
    groups, axes = ("{\n" + lines[key] + "\n }" for key in ("groups", "axes"))
    return f'{{\n "groups": {groups},\n "axes": {axes},\n "unsupported": {unsupported}\n}}\n'
