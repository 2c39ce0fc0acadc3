"""The folder in which files of real data are looked for."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from symlab.errors import UserError


def resolve_data_dir(configured: str | None) -> Path | None:
    """The data folder: the configured one, else the environment's SYMLAB_DATA, else None.

    Raises:
        UserError: what was named is no folder.
    """
    origin, text = ("data_dir", configured) if configured else ("SYMLAB_DATA", os.environ.get("SYMLAB_DATA"))
    if not text:
        return None
    folder = Path(text).expanduser()
    if not folder.is_dir():
        raise UserError(f"The data folder {text!r} named by {origin} is no folder: create it or correct {origin}.")
    return folder


def find_file(data_dir: Path | None, candidates: Iterable[str]) -> Path | None:
    """The first of the candidate paths (relative to ``data_dir``) that is a file; None if there is none."""
    if data_dir is None:
        return None
    return next((path for name in candidates if (path := data_dir / name).is_file()), None)


def sha256_of(paths: Iterable[Path]) -> str:
    """Of the contents of files, one after another."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()
