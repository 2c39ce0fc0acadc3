"""The only place that writes or reads symlab's files: safetensors with a JSON header, tables as CSV or parquet.

Every file is written under a temporary name and renamed, so a killed job leaves no half-written artifact; every tensor
file carries a digest of its content, so a truncated, altered or foreign file is refused instead of silently used.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
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
    """A temporary path beside ``path`` that becomes ``path`` when the block succeeds and vanishes when it fails.

    Raises:
        ArtifactError: the file cannot be written (a full disk, a read-only folder); what was there before is kept.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.{socket.gethostname()}.{os.getpid()}.part{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_parts_of_the_dead(path)
        yield temporary
        # safetensors makes files that only their owner can read; all others follow the umask, and so shall these.
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def cannot_write(path: str | Path, error: Exception) -> ArtifactError:
    """The sentence for a file that cannot be written."""
    number, why = getattr(error, "errno", None), getattr(error, "strerror", None) or str(error)
    # safetensors says in words what it met.
    full = number in (errno.ENOSPC, errno.EDQUOT) or "No space left" in why
    shut = number in (errno.EROFS, errno.EACCES, errno.EPERM)
    advice = "Make room" if full else "Make the folder writable" if shut else "Choose another folder"
    return ArtifactError(f"{path} cannot be written: {why}. {advice} and run again; what is finished is kept.")


def remove(path: str | Path) -> None:
    """Remove a file, and all that was left of it under temporary names; nothing else may be writing it."""
    path = Path(path)
    # What cannot be removed does no harm: it is replaced when the file is written again.
    with suppress(OSError):
        for part in (path, *_parts(path, "*")):
            part.unlink(missing_ok=True)


def _remove_parts_of_the_dead(path: Path) -> None:
    """Remove what processes of this machine left under temporary names when they were killed while writing."""
    for part in _parts(path, f"{glob.escape(socket.gethostname())}.*"):
        pid = part.name.removesuffix(f".part{path.suffix}").rpartition(".")[2]
        if pid.isdecimal() and not _alive(int(pid)):
            part.unlink(missing_ok=True)


def _parts(path: Path, owner: str) -> list[Path]:
    return list(path.parent.glob(f".{glob.escape(path.stem)}.{owner}.part{glob.escape(path.suffix)}"))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def content_digest(tensors: Tensors) -> str:
    """SHA-256 over names, types, shapes and bytes of all tensors, independent of their order."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        array = np.asarray(tensors[name], order="C")
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def write_tensors(path: str | Path, tensors: Tensors, kind: str, header: dict[str, Any]) -> None:
    """Write named arrays with a header (any JSON value) that says what the file is.

    ``kind`` names the sort of artifact ("models", "moments", ...); ``read_tensors`` refuses a file of another kind.
    """
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    full = {**header, "symlab": __version__, "kind": kind, "content_sha256": content_digest(arrays)}
    full["header_sha256"] = _header_digest(full)
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
            raise ArtifactError(f"{path} holds no tensor named {sorted(missing)[0]!r}. {rebuild(path)}")
        tensors = {name: file.get_tensor(name) for name in sorted(wanted)}
    if names is None and content_digest(tensors) != header.get("content_sha256"):
        raise ArtifactError(f"{path} was altered after it was written (its digest does not match). {rebuild(path)}")
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
        raise ArtifactError(f"{path} does not exist. {rebuild(path)}") from None
    except (ValueError, OSError, LookupError, TypeError, NotImplementedError) as error:
        # pyarrow and pandas explain over several lines what they make of a damaged file; the first says enough.
        why = str(error).partition("\n")[0]
        raise ArtifactError(f"{path} is not a readable table ({why}). {rebuild(path)}") from None


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
        raise ArtifactError(f"{path} does not exist. {rebuild(path)}") from None
    except (SafetensorError, OSError) as error:
        raise ArtifactError(f"{path} is truncated or not a safetensors file ({error}). {rebuild(path)}") from None


def _header_digest(header: dict[str, Any]) -> str:
    named = {key: value for key, value in header.items() if key != "header_sha256"}
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()


def _checked_header(path: str | Path, metadata: dict[str, str] | None, kind: str) -> dict[str, Any]:
    try:
        header = json.loads((metadata or {})["symlab"])
        if not isinstance(header, dict):
            raise ValueError
    except (KeyError, ValueError):
        raise ArtifactError(f"{path} was not written by symlab (it has no symlab header). {rebuild(path)}") from None
    if header.get("kind") != kind:
        raise ArtifactError(f"{path} is a {header.get('kind')!r} artifact where {kind!r} is needed. {rebuild(path)}")
    if header.get("header_sha256") != _header_digest(header):
        raise ArtifactError(
            f"{path} was altered after it was written (its header's digest does not match). {rebuild(path)}"
        )
    return header


def rebuild(path: str | Path) -> str:
    """What to do about a file that cannot be used."""
    return f"Delete {path} and give the same command again."
