"""The only place that writes or reads symlab's files: safetensors with a JSON header, tables as CSV or parquet.

Every file is written under a temporary name and renamed, so a killed job leaves no half-written artifact; every tensor
file carries a digest of its content, so a truncated, altered or foreign file is refused instead of silently used.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from symlab import __version__
from symlab.errors import UserError

Tensors = dict[str, np.ndarray]


class ArtifactError(UserError):
    """A file is missing, truncated, altered, or not the kind of file that is expected under its name."""


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that becomes ``path`` when the block succeeds and vanishes when it fails."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        # safetensors makes files that only their owner can read; all others follow the umask, and so shall these.
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def content_digest(tensors: Tensors) -> str:
    """SHA-256 over names, types, shapes and bytes of all tensors, independent of their order."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def write_tensors(path: str | Path, tensors: Tensors, kind: str, header: dict[str, Any]) -> None:
    """Write named arrays with a header (any JSON value) that says what the file is.

    ``kind`` names the sort of artifact ("models", "moments", ...); ``read_tensors`` refuses a file of another kind.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    full = {**header, "symlab": __version__, "kind": kind, "content_sha256": content_digest(arrays)}
    with atomic(path) as temporary:
        save_file(arrays, temporary, metadata={"symlab": json.dumps(full, sort_keys=True)})


def read_header(path: str | Path, kind: str) -> dict[str, Any]:
    """The header of a tensor file, after checking that it is a symlab artifact of the given kind.

    Raises:
        ArtifactError: the file is missing, damaged, written by something else, or of another kind.
    """
    with _opened(path) as file:
        return _checked_header(path, file.metadata(), kind)


def read_tensors(path: str | Path, kind: str, names: Iterable[str] | None = None) -> tuple[Tensors, dict[str, Any]]:
    """All tensors of an artifact (or only ``names``) and its header.

    Raises:
        ArtifactError: as for ``read_header``; also when the content does not match its digest (checked when the whole
            file is read) or a name is missing.
    """
    with _opened(path) as file:
        header = _checked_header(path, file.metadata(), kind)
        available = set(file.keys())
        wanted = available if names is None else set(names)
        if missing := wanted - available:
            raise ArtifactError(f"{path} holds no tensor named {sorted(missing)[0]!r}. {_rebuild(path)}")
        tensors = {name: file.get_tensor(name) for name in sorted(wanted)}
    if names is None and content_digest(tensors) != header["content_sha256"]:
        raise ArtifactError(f"{path} was altered after it was written (its digest does not match). {_rebuild(path)}")
    return tensors, header


def write_table(path: str | Path, table: pd.DataFrame) -> None:
    """Write a tidy table as .csv (small) or .parquet (large), by the file's suffix."""
    with atomic(path) as temporary:
        if Path(path).suffix == ".parquet":
            table.to_parquet(temporary, index=False)
        else:
            table.to_csv(temporary, index=False)


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a table that ``write_table`` wrote.

    Raises:
        ArtifactError: the file is missing or cannot be parsed.
    """
    try:
        # A layer may be called 1.10, as modules in a list are; read as a number it would be layer 1.1.
        return pd.read_parquet(path) if Path(path).suffix == ".parquet" else pd.read_csv(path, dtype={"point": str})
    except FileNotFoundError:
        raise ArtifactError(f"{path} does not exist. {_rebuild(path)}") from None
    except (ValueError, OSError) as error:
        raise ArtifactError(f"{path} is not a readable table ({error}). {_rebuild(path)}") from None


def write_text(path: str | Path, text: str) -> None:
    """Write a small text file atomically."""
    with atomic(path) as temporary:
        temporary.write_text(text)


@contextmanager
def _opened(path: str | Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except FileNotFoundError:
        raise ArtifactError(f"{path} does not exist. {_rebuild(path)}") from None
    except (SafetensorError, OSError) as error:
        raise ArtifactError(f"{path} is truncated or not a safetensors file ({error}). {_rebuild(path)}") from None


def _checked_header(path: str | Path, metadata: dict[str, str] | None, kind: str) -> dict[str, Any]:
    try:
        header = json.loads((metadata or {})["symlab"])
    except (KeyError, ValueError):
        raise ArtifactError(f"{path} was not written by symlab (it has no symlab header). {_rebuild(path)}") from None
    if header.get("kind") != kind:
        raise ArtifactError(f"{path} is a {header.get('kind')!r} artifact where {kind!r} is needed. {_rebuild(path)}")
    return header


def _rebuild(path: str | Path) -> str:
    return f"Delete it and rebuild it with: snakemake {path}"
