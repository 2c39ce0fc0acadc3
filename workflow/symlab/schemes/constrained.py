"""Constraints by symmetry (DCS): weights composed so that the loss has a mirror, to which decay draws them.

Ziyin (2024), Eq. 7 composes theta = (I - P) v + (P w) o (P u), entry by entry. Unless P is diagonal that may reach only
some theta (for two equal neurons P theta is always 0), and its decay is no norm of O^T theta. Here the product is taken
in the coordinates of the mirror's columns O: theta = (I - P) v + O ((O^T w) o (O^T u)), on whose factors a decay alpha
is 2 alpha |O^T theta|_1; or with one factor s for all of them, which is 2 alpha |O^T theta|_2. What is trained of u and
w are O^T u and O^T w: the rest of them is in no loss.
"""

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase

import torch
from torch import Tensor

from symlab.errors import UserError
from symlab.schemes import Constrained, Mirror
from symlab.schemes.fixed_parts import FixedParts
from symlab.schemes.hadamard import ABOVE, OF_ZEROS, Product
from symlab.schemes.mirror_matrix import Matrix, read_columns
from symlab.schemes.parametrisation import UNDECAYED, Parametrisation

ROOT = math.sqrt(0.5)


class Groups(Parametrisation):
    """theta = s w, one s for each group of entries, which vanish together.

    Args:
        first: the axis that theta begins at: 1 if tensors have a replica axis, else 0.
        name: of the parameter, for what is said if groups do not fit it.
        kept: theta's axes along which groups differ: 0 for rows, 1 for columns, none for all entries in one.
        block: groups are blocks of so many outputs and inputs, instead of ``kept``.
        balanced: whether |s| = |w| at the start, as decay has them. A group of one entry is on a mirror then.
    """

    suffixes = ("s", "w")

    def __init__(
        self,
        first: int,
        name: str,
        kept: Sequence[int] = (),
        block: Sequence[int] | None = None,
        balanced: bool = False,
    ):
        self.first, self.name, self.block, self.balanced = first, name, block, balanced
        self.kept = {first + axis for axis in (kept if block is None else (0, 2))}

    def _tiles(self, value: Tensor) -> Tensor:
        """An axis for places of blocks and one for places in them, for outputs and for inputs."""
        if self.block is None:
            return value
        rows, columns = self.block
        if value.dim() < self.first + 2 or value.shape[self.first] % rows or value.shape[self.first + 1] % columns:
            raise UserError(
                f"Config: scheme.mirrors: blocks of {rows} x {columns} do not tile {self.name}, which is "
                f"{_shape(value, self.first)}."
            )
        return value.unflatten(self.first + 1, (-1, columns)).unflatten(self.first, (-1, rows))

    def _untiled(self, value: Tensor) -> Tensor:
        if self.block is None:
            return value
        return value.flatten(self.first, self.first + 1).flatten(self.first + 1, self.first + 2)

    def _sum(self, value: Tensor) -> Tensor:
        inside = tuple(axis for axis in range(self.first, value.dim()) if axis not in self.kept)
        # torch sums over all axes where it is given none.
        return value.sum(dim=inside, keepdim=True) if inside else value

    def start(self, value: Tensor) -> list[Tensor]:
        if self.kept and max(self.kept) >= value.dim() and self.block is None:
            raise UserError(f"Config: scheme.mirrors: {self.name}, {_shape(value, self.first)}, has no columns.")
        tiles = self._tiles(value)
        norm = self._sum(tiles.square()).sqrt()
        # A row of zeros would stay one.
        balanced = norm.clamp(min=1e-12).sqrt()
        s = balanced if self.balanced else torch.where(norm > 0, ABOVE * norm.sqrt(), OF_ZEROS)
        return [s, tiles / s]

    def compose(self, *trained: Tensor) -> Tensor:
        return self._untiled(trained[0] * trained[1])

    def compose_into(self, target: Tensor, *trained: Tensor) -> None:
        if self.block is None:
            torch.mul(trained[0], trained[1], out=target)
        else:
            target.copy_(self.compose(*trained))

    def pull_back(self, gradient: Tensor, *trained: Tensor) -> list[Tensor]:
        s, w = trained
        tiles = self._tiles(gradient)
        return [self._sum(tiles * w), tiles * s]


class Pairs(Parametrisation):
    """theta_a, theta_b = (v + d) / sqrt 2, (v - d) / sqrt 2 for each pair of neurons, with d composed of factors.

    With d = 0 both are equal. Neurons without a partner are in v alone.

    Args:
        first: the axis that theta begins at: 1 if tensors have a replica axis, else 0.
        name: of the parameter, for what is said if pairs do not fit it.
        difference: how d comes about; by default a product entry by entry.
        axis: theta's axis of neurons.
        pairs: places of the neurons of each; None for 2i and 2i + 1.
        decayed: whether decay acts on v.
    """

    def __init__(
        self,
        first: int,
        name: str,
        difference: Product | Groups | None = None,
        axis: int = 0,
        pairs: Sequence[Sequence[int]] | None = None,
        decayed: bool = True,
    ):
        self.axis, self.first, self.name, self.pairs = first + axis, first, name, pairs
        self.difference = difference or Product(on_mirror=False, stacked=first == 1)
        self.suffixes = ("v" if decayed else UNDECAYED, *self.difference.suffixes)
        self.places: tuple[Tensor, int] | None = None
        self.back: Tensor | None = None

    def _halves(self, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The first neurons of all pairs, the second ones, and those without a partner."""
        order, pairs = self.places if self.places is not None else self._place(value)
        parts = order[0 : 2 * pairs : 2], order[1 : 2 * pairs : 2], order[2 * pairs :]
        a, b, single = (value.index_select(self.axis, each) for each in parts)
        return a, b, single

    def _place(self, value: Tensor) -> tuple[Tensor, int]:
        """Places of neurons, first those of the pairs, and how many pairs there are."""
        told = f"{self.name}, {_shape(value, self.first)},"
        if value.dim() <= self.axis:
            raise UserError(f"Config: scheme.mirrors: {told} has no axis {self.axis - self.first} of neurons.")
        n = value.shape[self.axis]
        pairs = [[i, i + 1] for i in range(0, n - 1, 2)] if self.pairs is None else self.pairs
        paired = [neuron for pair in pairs for neuron in pair]
        if max(paired, default=0) >= n:
            raise UserError(
                f"Config: scheme.mirrors: pairs name neuron {max(paired)}, but {told} has those from 0 to {n - 1} "
                f"along axis {self.axis - self.first}."
            )
        order = torch.tensor([*paired, *sorted(set(range(n)) - set(paired))], device=value.device)
        self.places, self.back = (order, len(pairs)), order.argsort()
        return self.places

    def start(self, value: Tensor) -> list[Tensor]:
        a, b, single = self._halves(value)
        return [torch.cat([(a + b) * ROOT, single], self.axis), *self.difference.start((a - b) * ROOT)]

    def compose(self, *trained: Tensor) -> Tensor:
        v, *factors = trained
        pairs = factors[-1].shape[self.axis]
        paired, single = v.split([pairs, v.shape[self.axis] - pairs], self.axis)
        # Composed twice: gradients of factors are then rounded as those of two terms.
        a, b = paired + self.difference.compose(*factors), paired - self.difference.compose(*factors)
        both = torch.stack([a * ROOT, b * ROOT], self.axis + 1).flatten(self.axis, self.axis + 1)
        theta = torch.cat([both, single], self.axis)
        if self.pairs is None:
            return theta
        assert self.back is not None, "start has placed the neurons"
        return theta.index_select(self.axis, self.back)

    def pull_back(self, gradient: Tensor, *trained: Tensor) -> list[Tensor]:
        a, b, single = self._halves(gradient)
        of_rest = torch.cat([(a + b) * ROOT, single], self.axis)
        return [of_rest, *self.difference.pull_back((a - b) * ROOT, *trained[1:])]


def _shape(value: Tensor, first: int) -> str:
    return " x ".join(map(str, value.shape[first:]))


def constrain(
    scheme: Constrained, parameters: Sequence[str], fixed: FixedParts, stacked: bool
) -> dict[str, Parametrisation]:
    """The parametrisation of each parameter with a mirror; others are simply trained.

    Raises:
        UserError: a pattern matches no parameter, or a file of a matrix does not hold one.
    """
    if scheme.mirror == "rows":
        return {name: Groups(int(stacked), name, kept=(0,), balanced=True) for name in fixed}
    if scheme.mirror is not None:
        of_all = Mirror(P=scheme.mirror)
        return {name: _parametrise(of_all, name, int(stacked), scheme.decay_rest) for name in fixed}
    fitting = {name: [pattern for pattern in scheme.mirrors if fnmatchcase(name, pattern)] for name in parameters}
    first = {name: patterns[0] for name, patterns in fitting.items() if patterns}
    if unused := [pattern for pattern in scheme.mirrors if pattern not in first.values()]:
        raise UserError(
            f"Config: scheme.mirrors: the pattern {unused[0]!r} matches no parameter of the network, or none that "
            f"those before it leave ({', '.join(parameters)})."
        )
    return {
        name: _parametrise(scheme.mirrors[pattern], name, int(stacked), scheme.decay_rest)
        for name, pattern in first.items()
    }


def _parametrise(mirror: Mirror, name: str, first: int, decayed: bool) -> Parametrisation:
    product = Product(on_mirror=False, stacked=first == 1)
    if mirror.P == "identity":
        return product
    if mirror.P in ("rows", "columns", "blocks"):
        return Groups(first, name, kept=(0,) if mirror.P == "rows" else (1,), block=mirror.block)
    if mirror.P == "pairs":
        axis = mirror.axis or 0
        difference = Groups(first, name, kept=(axis,)) if mirror.together else product
        return Pairs(first, name, difference, axis, mirror.pairs, decayed)
    assert mirror.file is not None
    columns = read_columns(mirror.file, name, mirror.together)
    return Matrix(first, columns, Groups(first, name) if mirror.together else product, mirror.axis, decayed, name)
