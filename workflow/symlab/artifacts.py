"""The only place that writes or reads symlab's files: safetensors with a JSON header, tables as CSV or parquet.

Every file is written under a temporary name and renamed, so a killed job leaves no half-written artifact; every tensor
file carries a digest of its content, so a truncated, altered or foreign file is refused instead of silently used.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from symlab import __version__
from symlab.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

Tensors = dict[str, np.ndarray]


class ArtifactError(UserError):
    """A file is missing, truncated, altered, or not the kind of file that is expected under its name."""


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary path beside ``path`` that becomes ``path`` when the block succeeds and vanishes when it fails.

    Its name is the same at each try, so what a killed job left is overwritten by the next one.

    Raises:
        ArtifactError: the file cannot be written (a full disk, a read-only folder); what was there before is kept.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
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
    advice = "Make room" if full else "Make the folder writable or choose another"
    return ArtifactError(f"{path} cannot be written: {why}. {advice} and run again; what is finished is kept.")


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

    Args:
        kind: the sort of artifact ("models", "moments", ...); ``read_tensors`` refuses a file of another kind.
        header: its key ``spec``, if there is one, says what the content was made by; see ``read_tensors``.

    Raises:
        ArtifactError: the file cannot be written.
    """
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    full = {**header, "symlab": __version__, "kind": kind, "content_sha256": content_digest(arrays)}
    with atomic(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode
        save_file(arrays, temporary, metadata={"symlab": json.dumps(full, sort_keys=True)})
        # safetensors makes files that only their owner can read.
        temporary.chmod(mode)


def read_header(path: str | Path, kind: str) -> dict[str, Any]:
    """The header of a tensor file, after checking that it is a symlab artifact of the given kind.

    Raises:
        ArtifactError: the file is missing, damaged, written by something else, or of another kind.
    """
    with _opened(path) as file:
        return _checked_header(path, (file.metadata() or {}).get("symlab"), kind)


def read_tensors(path: str | Path, kind: str) -> tuple[Tensors, dict[str, Any]]:
    """All tensors of an artifact and its header.

    Raises:
        ArtifactError: as for ``read_header``; also when the content does not match its digest.
    """
    with _opened(path) as file:
        header = _checked_header(path, (file.metadata() or {}).get("symlab"), kind)
        tensors = {name: file.get_tensor(name) for name in sorted(file.keys())}
    if content_digest(tensors) != header.get("content_sha256"):
        raise ArtifactError(f"{path} was altered after it was written (its digest does not match). {rebuild(path)}")
    return tensors, header


def write_table(path: str | Path, table: pd.DataFrame) -> None:
    """Write a tidy table as .csv (small) or .parquet (large), by the file's suffix.

    A parquet file also holds the version, and a checksum of every page.

    Raises:
        ArtifactError: the file cannot be written.
    """
    with atomic(path) as temporary:
        if Path(path).suffix != ".parquet":
            table.to_csv(temporary, index=False)
            return
        import pyarrow as pa
        from pyarrow import parquet

        arrow = pa.Table.from_pandas(table, preserve_index=False)
        header = json.dumps({"symlab": __version__, "kind": "table"}, sort_keys=True)
        arrow = arrow.replace_schema_metadata({**(arrow.schema.metadata or {}), b"symlab": header.encode()})
        parquet.write_table(arrow, temporary, write_page_checksum=True)


def read_table(path: str | Path, text: Collection[str] = ()) -> pd.DataFrame:
    """Read a table that ``write_table`` wrote.

    Args:
        text: columns of names, which stay as they are written: read as a number, a layer 1.10 would be layer 1.1.

    Raises:
        ArtifactError: the file is missing, or is truncated, altered or no table.
    """
    import pandas as pd

    try:
        if Path(path).suffix == ".parquet":
            return pd.read_parquet(path, page_checksum_verification=True)
        return pd.read_csv(path, dtype=dict.fromkeys(text, str))
    except FileNotFoundError:
        raise ArtifactError(f"{path} does not exist. {rebuild(path)}") from None
    except (ValueError, OSError, LookupError, TypeError, NotImplementedError) as error:
        # pyarrow and pandas explain over several lines what they make of a damaged file; the first says enough.
        why = str(error).partition("\n")[0]
        raise ArtifactError(f"{path} is not a readable table ({why}). {rebuild(path)}") from None


def write_text(path: str | Path, text: str) -> None:
    """Write a small text file atomically.

    Raises:
        ArtifactError: the file cannot be written.
    """
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


def _checked_header(path: str | Path, text: str | None, kind: str) -> dict[str, Any]:
    try:
        header = json.loads(text or "")
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise ArtifactError(f"{path} was not written by symlab (it has no symlab header). {rebuild(path)}")
    if header.get("kind") != kind:
        raise ArtifactError(f"{path} is a {header.get('kind')!r} artifact where {kind!r} is needed. {rebuild(path)}")
    return header


def rebuild(path: str | Path) -> str:
    """What to do about a file that cannot be used."""
    return f"Delete {path} and give the same command again."
