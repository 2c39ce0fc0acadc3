"""A mirror whose columns O a user gives as a matrix, and the files that they come from."""

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from symlab.errors import UserError
from symlab.schemes.parametrisation import UNDECAYED, Parametrisation

# Columns written in single precision are orthonormal to some 1e-6; in half precision they are not unless exact.
TOLERANCE = 1e-5


class Matrix(Parametrisation):
    """theta = (I - O O^T) v + O z, with z, which has the shape of O^T theta, composed of factors.

    Args:
        first: the axis that theta begins at: 1 if tensors have a replica axis, else 0.
        columns: O, orthonormal.
        factors: how z comes about.
        axis: theta's axis that O acts along; None for all entries in one row.
        decayed: whether decay acts on v.
        name: of the parameter, for what is said if O does not fit it.
    """

    def __init__(
        self,
        first: int,
        columns: Float[Tensor, "n k"],
        factors: Parametrisation,
        axis: int | None,
        decayed: bool,
        name: str,
    ):
        self.first, self.O, self.factors, self.axis, self.name = first, columns, factors, axis, name
        self.suffixes = ("v" if decayed else UNDECAYED, *factors.suffixes)

    def off(self, theta: Tensor) -> Tensor:
        """O^T theta: k entries on the last axis."""
        entries = theta.flatten(self.first) if self.axis is None else theta.movedim(self.first + self.axis, -1)
        return self._times(entries, self.O)

    def _spread(self, z: Tensor, like: Tensor) -> Tensor:
        """O z in the shape of a parameter."""
        entries = self._times(z, self.O.mT)
        return entries.view(like.shape) if self.axis is None else entries.movedim(-1, self.first + self.axis)

    def _times(self, entries: Tensor, M: Tensor) -> Tensor:
        # One by one, since rounding in a larger product depends on how many replicas there are.
        return torch.stack([each @ M for each in entries]) if self.first else entries @ M

    def start(self, value: Tensor) -> list[Tensor]:
        """As ``Parametrisation.start``.

        Raises:
            UserError: O has not as many rows as the parameter entries.
        """
        shape = value.shape[self.first :]
        told = " x ".join(map(str, shape))
        if self.axis is not None and self.axis >= len(shape):
            raise UserError(f"Config: scheme.mirrors: {self.name} is {told} and has no axis {self.axis}.")
        entries = shape.numel() if self.axis is None else shape[self.axis]
        if len(self.O) != entries:
            along = "" if self.axis is None else f" along axis {self.axis}"
            raise UserError(
                f"Config: scheme.mirrors: the matrix of {self.name} has {len(self.O)} rows, but the parameter, which "
                f"is {told}, has {entries} entries{along}."
            )
        self.O = self.O.to(value)
        z = self.off(value)
        return [(value - self._spread(z, value)).contiguous(), *self.factors.start(z)]

    def compose(self, *trained: Tensor) -> Tensor:
        v, *factors = trained
        return v + self._spread(self.factors.compose(*factors) - self.off(v), v)

    def pull_back(self, gradient: Tensor, *trained: Tensor) -> list[Tensor]:
        of_z = self.off(gradient)
        of_v = (gradient - self._spread(of_z, gradient)).contiguous()
        return [of_v, *self.factors.pull_back(of_z, *trained[1:])]


def read_columns(file: str, parameter: str, together: bool) -> Float[Tensor, "n k"]:
    """The orthonormal columns O that a file gives for a parameter, or those of the projection P that it gives.

    P itself says in which coordinates entries vanish only where it is diagonal; ``together`` needs none.

    Raises:
        UserError: the file cannot be read, lacks the parameter, or holds neither O nor such a P.
    """
    M = _read(file, parameter)
    where = f"Config: scheme.mirrors: {file} (for {parameter})"
    if M.ndim != 2 or M.shape[1] > M.shape[0] or 0 in M.shape or M.dtype.kind not in "iuf" or not np.isfinite(M).all():
        raise UserError(
            f"{where} has shape {' x '.join(map(str, M.shape))} and type {M.dtype}; it must be a finite matrix of real "
            "numbers with at most as many columns as rows (a vector is one as v.reshape(-1, 1), O^T as its transpose)."
        )
    M = M.astype(np.float64)
    off = np.abs(M.T @ M - np.eye(M.shape[1])).max()
    square = len(M) == M.shape[1]
    if off <= TOLERANCE and square and np.abs(M - M.T).max() <= TOLERANCE and np.abs(M - np.eye(len(M))).max() > 0.5:
        raise UserError(f"{where} is a reflection, I - 2 P; give P, or the orthonormal columns O of O O^T = P.")
    if off <= TOLERANCE:
        return torch.from_numpy(M)
    if not square or max(np.abs(M - M.T).max(), np.abs(M @ M - M).max()) > TOLERANCE:
        raise UserError(
            f"{where} is no mirror: its columns are not orthonormal (O^T O differs from I by up to {off:.2g}), and it "
            "is no projection; numpy.linalg.qr(matrix)[0] has orthonormal columns that span the same."
        )
    if not together and np.abs(M - np.diag(M.diagonal())).max() > TOLERANCE:
        raise UserError(
            f"{where} is a projection that is not diagonal, which does not say in which coordinates entries vanish; "
            "give its orthonormal columns O, or together: true."
        )
    values, vectors = np.linalg.eigh(M) if together else (M.diagonal(), np.eye(len(M)))
    if not (values > 0.5).any():
        raise UserError(f"{where} is a projection onto nothing: all its entries are 0.")
    return torch.from_numpy(vectors[:, values > 0.5])


def _read(file: str, parameter: str) -> np.ndarray:
    where = f"Config: scheme.mirrors: {file}"
    suffix = Path(file).suffix
    if suffix not in (".npy", ".safetensors"):
        raise UserError(f"{where} is neither a .npy nor a .safetensors file.")
    if suffix == ".npy":
        try:
            array = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            array = None
        if not isinstance(array, np.ndarray):
            raise UserError(f"{where} is no array that numpy.save wrote.")
        return array
    try:
        tensors = load_file(file)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{where} cannot be read ({error}).") from None
    if parameter in tensors or len(tensors) == 1:
        return tensors.get(parameter, next(iter(tensors.values()))).double().numpy()
    raise UserError(f"{where} has no tensor {parameter}; it has {', '.join(tensors) or 'none'}.")
