"""A record beside every file that a job writes, and its check before another job reads the file.

Whatever is read is what symlab wrote there: not truncated, altered, or put there from another run.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TypedDict

from symlab import __version__
from symlab.artifacts import ArtifactError, rebuild, write_text


class Origin(TypedDict):
    """What a file is made from: digests of all settings and inputs that led to it, and of the code of its job."""

    settings: str
    code: str


def record_path(path: str | Path) -> Path:
    """``models/.0.safetensors.json`` of ``models/0.safetensors``."""
    path = Path(path)
    return path.with_name(f".{path.name}.json")


def write_record(path: str | Path, origin: Origin | None) -> None:
    """Say what ``path`` holds and which version of symlab made it from what."""
    content = {"symlab": __version__, "sha256": _sha256(path), "origin": origin}
    write_text(record_path(path), json.dumps(content, sort_keys=True) + "\n")


def check_record(path: str | Path, origin: Origin | None) -> None:
    """Refuse a file that is not what its record says, or not what the config asks for.

    Args:
        origin: what the file is to be made from; None if that is not known, as of a file outside the results.

    Raises:
        ArtifactError: the file or its record is missing; its content is another; it is of other settings, or of
            another version of symlab whose code for it is another.
    """
    if not Path(path).exists():
        raise ArtifactError(f"{path} does not exist. {rebuild(path)}")
    try:
        record = json.loads(record_path(path).read_text())
        version, digest, found = record["symlab"], record["sha256"], record["origin"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ArtifactError(
            f"{path} comes from elsewhere or from an interrupted job: {record_path(path).name} beside it, which says "
            f"what symlab wrote, is missing or damaged. {rebuild(path)}"
        ) from None
    if digest != _sha256(path):
        raise ArtifactError(f"{path} is not what symlab wrote there: it was cut, altered or replaced. {rebuild(path)}")
    if origin is None:
        return
    if found is None or found["settings"] != origin["settings"]:
        raise ArtifactError(f"{path} was made with other settings or data than this config's. {rebuild(path)}")
    if version != __version__ and found["code"] != origin["code"]:
        raise ArtifactError(
            f"{path} was made by symlab {version}, and how it is made has changed since; this is {__version__}. "
            f"{rebuild(path)}"
        )


def _sha256(path: str | Path) -> str:
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror or error}.") from None
