"""The folder in which files of real data are looked for."""

from __future__ import annotations

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
    folder = Path(os.path.expanduser(text))
    if os.path.isfile(folder):
        raise UserError(f"{origin} is {text!r}, which is a file: name the folder that the data files lie in.")
    if not os.path.isdir(folder):
        raise UserError(f"The data folder {text!r} named by {origin} does not exist: create it or correct {origin}.")
    return folder


def find_file(data_dir: Path, candidates: Iterable[str]) -> Path | None:
    """The first of the candidate paths (relative to ``data_dir``) that is a file, or None if nothing has their names.

    Raises:
        UserError: a candidate is, or lies behind, a symbolic link that leads out of ``data_dir`` (which may be a link
            itself), or something other than files has the candidates' names.
    """
    root = os.path.realpath(data_dir)
    other = None
    for candidate in candidates:
        path = data_dir / candidate
        if not os.path.lexists(path):
            continue
        real = os.path.realpath(path)
        if not Path(real).is_relative_to(root):
            raise UserError(
                f"{path} leads out of the data folder {data_dir} by a symbolic link: put the file itself there, or "
                f"name the folder where it really is, {os.path.dirname(real)}, as data_dir."
            )
        if os.path.isfile(path):
            return path
        other = other or path
    if other is not None:
        raise UserError(f"{other} is {_kind(other)}, where a file is expected: put the data file itself there.")
    return None


def _kind(path: Path) -> str:
    if os.path.isdir(path):
        return "a folder"
    return "no regular file" if os.path.exists(path) else "a symbolic link that leads nowhere"
