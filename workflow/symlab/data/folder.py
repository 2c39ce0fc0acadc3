"""The folder in which files of real data are looked for."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from symlab.errors import UserError


def resolve_data_dir(configured: str | None) -> Path | None:
    """The data folder: the configured one, else the environment's SYMLAB_DATA, else None.

    Raises:
        UserError: the folder that was named does not exist.
    """
    origin, text = ("data_dir", configured) if configured else ("SYMLAB_DATA", os.environ.get("SYMLAB_DATA"))
    if not text:
        return None
    folder = Path(text).expanduser()
    if not folder.is_dir():
        raise UserError(f"The data folder {text!r} named by {origin} does not exist: create it or correct {origin}.")
    return folder


def find_file(data_dir: Path, candidates: Iterable[str]) -> Path | None:
    """The first of the candidate paths (relative to ``data_dir``) that is a file, or None.

    Raises:
        UserError: a candidate is, or lies behind, a symbolic link that leads out of ``data_dir``.
    """
    root = data_dir.resolve()
    for candidate in candidates:
        path = data_dir / candidate
        if not path.is_file():
            continue
        if not path.resolve().is_relative_to(root):
            raise UserError(
                f"{path} leads out of the data folder {data_dir} by a symbolic link: put the file itself there."
            )
        return path
    return None
