"""Files of numpy arrays that users write: read without pickles, and looked into without reading them."""

import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from symlab.errors import UserError


def read_npz(path: Path, first: str = "") -> dict[str, np.ndarray]:
    """The arrays of an .npz file whose names begin with ``first``, by name.

    Raises:
        UserError: there is no such file, or it holds other things than plain arrays.
    """
    try:
        with zipfile.ZipFile(path) as archive, np.load(path, allow_pickle=False) as arrays:
            names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
            return {name: arrays[name] for name in names if name.startswith(first)}
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except (ValueError, OSError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
        raise UserError(
            f"{path} cannot be read as an .npz file of plain arrays ({error}); "
            "write it with numpy.savez, from arrays that are not of type object."
        ) from None


def shapes_in(path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each array of an .npz file, from its header alone.

    Raises:
        UserError: as ``read_npz``.
    """
    shapes = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for name in (name for name in archive.namelist() if name.endswith(".npy")):
                with archive.open(name) as member:
                    version = npy.read_magic(member)
                    header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                    shapes[name.removesuffix(".npy")] = header(member)[0]
    except (ValueError, OSError, EOFError, RuntimeError, zlib.error, zipfile.BadZipFile):
        read_npz(path)
        raise
    return shapes
