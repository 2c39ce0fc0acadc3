"""Correlations between the neurons of two networks from one pass over the data, in O(d^2) memory.

Activations are never kept: of each batch only the sums that Pearson's correlation needs are added up.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from copy import copy
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from symlab.batches import Inputs
from symlab.errors import UserError
from symlab.products import fast_products
from symlab.symmetries.symmetry_spec import Axes, Group, blocks, shape

if TYPE_CHECKING:
    from symlab.symmetries.stored_forward import StoredForward
    from symlab.symmetries.trace import Traced

# Activations are float32: a neuron that is constant in exact arithmetic still varies by a few units in the last place
# of its value. A standard deviation below this many of them, relative to the root mean square, is called constant.
CONSTANT_NEURON_TOLERANCE = 8 * float(np.finfo(np.float32).eps)

# Sums of squares in float32 lose a factor of (mean / deviation)^2 of their precision: 16 of some 1e7.
LARGE_MEAN = 4.0

Key = TypeVar("Key", bound=Hashable)


class PairMoments:
    """Running first and second moments of the activations of d neurons of each of two networks.

    Products are taken in float32 (in float64 of activations in that), a matrix product for each image or batch, and
    added up in float64. A batch in which some neuron's mean is large beside its deviation is centred before: in float32
    its variance would be lost to cancellation otherwise. Other batches are read only, which keeps the moments much
    cheaper than the forward passes.
    """

    def __init__(self, d: int):
        self.d = d
        self.n = 0

    def add(self, z_a: Float[Tensor, "n d"] | Float[Tensor, "b d p"], z_b: Float[Tensor, ...]) -> None:
        """Take in one batch of both networks' activations on the same inputs.

        Args:
            z_a, z_b: one row a sample, or for each of b images the d neurons (channels) at p places: n = b p samples.

        Raises:
            UserError: a batch is empty, or of another shape, or not of the same shape on both sides.
        """
        if z_a.shape != z_b.shape or z_a.dim() not in (2, 3) or z_a.shape[1] != self.d or z_a.numel() == 0:
            raise UserError(
                f"activations of shapes {tuple(z_a.shape)} and {tuple(z_b.shape)} cannot be matched: both networks "
                f"must give [n, {self.d}] or [b, {self.d}, p] on the same inputs, at least one."
            )
        a, b = _as_images(z_a), _as_images(z_b)
        n = a.shape[0] * a.shape[2]
        if self.n == 0:
            vector = torch.zeros(self.d, dtype=torch.float64, device=z_a.device)
            self.sum_a, self.sum_b, self.square_a, self.square_b = (vector.clone() for _ in range(4))
            self.cross = torch.zeros(self.d, self.d, dtype=torch.float64, device=z_a.device)
        self.n += n
        sum_a, square_a = _sums(a)
        sum_b, square_b = _sums(b)
        if bool(_needs_centring(n, sum_a, square_a) | _needs_centring(n, sum_b, square_b)):
            # In their type, so that exactly what is subtracted here is added back below.
            mean_a, mean_b = (sum_a / n).to(a.dtype), (sum_b / n).to(b.dtype)
            a, b = a - mean_a[:, None], b - mean_b[:, None]
            mean_a, mean_b = mean_a.double(), mean_b.double()
            rest_a, square_a = _sums(a)
            rest_b, square_b = _sums(b)
            square_a += mean_a * (2 * rest_a + n * mean_a)
            square_b += mean_b * (2 * rest_b + n * mean_b)
            sum_a, sum_b = rest_a + n * mean_a, rest_b + n * mean_b
            # sum ab = sum a'b' + mean_a sum b' + (sum a' + n mean_a) mean_b.
            self.cross.addr_(mean_a, rest_b).addr_(sum_a, mean_b)
        self.sum_a += sum_a
        self.sum_b += sum_b
        self.square_a += square_a
        self.square_b += square_b
        self.cross += torch.bmm(a, b.mT).sum(dim=0, dtype=torch.float64)

    def joined(self, other: PairMoments) -> PairMoments:
        """The moments of the samples of both."""
        if not (self.n and other.n):
            return self if self.n else other
        both = PairMoments(self.d)
        for name in ("n", "sum_a", "sum_b", "square_a", "square_b", "cross"):
            setattr(both, name, getattr(self, name) + getattr(other, name))
        return both

    def swapped(self) -> PairMoments:
        """The moments with both networks exchanged."""
        other = copy(self)
        if self.n:
            other.cross, other.sum_a, other.sum_b = self.cross.T, self.sum_b, self.sum_a
            other.square_a, other.square_b = self.square_b, self.square_a
        return other

    def renumbered(self, pi_a: Int[np.ndarray, " d"], pi_b: Int[np.ndarray, " d"]) -> PairMoments:
        """The moments of networks whose neuron i is neuron pi[i] of these."""
        other = copy(self)
        if self.n:
            a, b = (torch.as_tensor(pi, device=self.cross.device) for pi in (pi_a, pi_b))
            other.sum_a, other.sum_b, other.cross = self.sum_a[a], self.sum_b[b], self.cross[a][:, b]
            other.square_a, other.square_b = self.square_a[a], self.square_b[b]
        return other

    def correlation(self) -> Float[np.ndarray, "d d"]:
        """S_ij: Pearson correlation of neuron i of A and neuron j of B; 0 where one of them is constant.

        A neuron is constant if its standard deviation is below ``CONSTANT_NEURON_TOLERANCE`` times its root mean
        square. Errors against a float64 computation on stored activations are of the order of 1e-6.

        Raises:
            UserError: no data were added, or some activation is not finite.
        """
        if self.n == 0:
            raise UserError("the correlation of activations needs at least one batch of inputs: the data set is empty.")
        mean_a, mean_b = (self.sum_a / self.n).cpu().numpy(), (self.sum_b / self.n).cpu().numpy()
        std_a, constant_a = _spread(self.square_a.cpu().numpy() / self.n, mean_a)
        std_b, constant_b = _spread(self.square_b.cpu().numpy() / self.n, mean_b)
        covariance = self.cross.cpu().numpy() / self.n - np.outer(mean_a, mean_b)
        if not np.isfinite(covariance).all():
            raise UserError("some activations are not finite, so neurons cannot be matched: did the training diverge?")
        correlation = covariance / np.outer(np.where(constant_a, 1.0, std_a), np.where(constant_b, 1.0, std_b))
        correlation[constant_a, :] = 0.0
        correlation[:, constant_b] = 0.0
        return correlation.clip(-1.0, 1.0)


def _as_images(z: Float[Tensor, ...]) -> Float[Tensor, "b d p"]:
    """Activations, float32 or float64, as [b, d, p]; samples of few places an image become one image of many."""
    if z.dim() == 2:
        z = z.T[None]
    elif z.shape[2] < z.shape[1]:
        # A product for each image would then be larger than the image.
        z = z.transpose(0, 1).reshape(1, z.shape[1], -1)
    return z if z.dtype == torch.float64 else z.float()


def _sums(z: Float[Tensor, "b d p"]) -> tuple[Float[Tensor, " d"], Float[Tensor, " d"]]:
    """Sums of the entries and of their squares, float64."""
    if z.stride(2) == 1:
        # The norm reads the entries once; squaring first would write them to memory. It is slow on other strides.
        square = torch.linalg.vector_norm(z, dim=2).double().square()
    else:
        square = z.square().sum(dim=2).double()
    return z.sum(dim=2).sum(dim=0, dtype=torch.float64), square.sum(dim=0)


def _needs_centring(n: int, total: Float[Tensor, " d"], square: Float[Tensor, " d"]) -> Tensor:
    """Whether some mean is above ``LARGE_MEAN`` standard deviations."""
    mean = total / n
    return (mean.square() > LARGE_MEAN**2 * (square / n - mean.square())).any()


def _spread(
    mean_square: Float[np.ndarray, " d"], mean: Float[np.ndarray, " d"]
) -> tuple[Float[np.ndarray, " d"], np.ndarray]:
    """Standard deviations, and which neurons are constant."""
    variance = np.maximum(mean_square - mean**2, 0.0)
    return np.sqrt(variance), variance <= CONSTANT_NEURON_TOLERANCE**2 * mean_square


@fast_products()
def record_pair_moments(
    traced: Traced | StoredForward,
    states_A: Mapping[Key, Mapping[str, Tensor]],
    states_B: Mapping[Key, Mapping[str, Tensor]],
    batches: Iterable[Float[Tensor, "n d"]] | Iterable[Inputs],
    groups: Collection[str] | None = None,
    unsettled: Collection[str] = (),
) -> dict[Key, dict[str, PairMoments]]:
    """Moments of both networks' activations for many pairs, in one pass over the data.

    Every place (pixel, token) of every input is a sample, and so is every recording point of a group: a residual
    stream's points are taken together.

    Args:
        traced: a network of the pairs' shape with its symmetry spec.
        states_A, states_B: the states to compare, by a key that names the pair (and the snapshot, if there are many).
        batches: the inputs. All points of one batch are in memory at once for both networks: 512 to 2048 inputs at a
            time for a multilayer perceptron, 32 to 128 images for a convolutional network.
        groups: those to record; by default all that have recording points.
        unsettled: groups whose neurons have another order in A than in B: activations that are indexed by one of them,
            beside the group that they are recorded for, are no samples of the same thing and left out.

    Returns:
        For each key the moments of every group that has recording points, of d = prod(sizes of within) * size neurons,
        the group's own index fastest; 8 d^2 bytes each, so record very many snapshots in portions.

    Raises:
        UserError: the two sides have different keys, or there are no inputs.
    """
    if states_A.keys() != states_B.keys():
        raise UserError("states_A and states_B must name the same pairs.")
    spec = traced.spec
    wanted = [group for group, points in spec.points.items() if points and (groups is None or group in groups)]
    names = sorted({point.value for group in wanted for point in spec.points[group]})
    moments: dict[Key, dict[str, PairMoments]] = {
        key: {group: PairMoments(math.prod(shape(group, spec.groups))) for group in wanted} for key in states_A
    }
    empty = True
    for x in batches:
        empty = False
        for key, of_groups in moments.items():
            values_a, values_b = traced.values(states_A[key], x, names), traced.values(states_B[key], x, names)
            for group, of_group in of_groups.items():
                for point in spec.points[group]:
                    for z_a, z_b in zip(
                        samples(values_a[point.value], point.axes, group, spec.groups, unsettled),
                        samples(values_b[point.value], point.axes, group, spec.groups, unsettled),
                        strict=True,
                    ):
                        of_group.add(z_a, z_b)
    if empty:
        raise UserError("there are no inputs to record activations on: the data set is empty.")
    return moments


def samples(
    value: Float[Tensor, ...],
    axes: Axes,
    group: str,
    groups: Mapping[str, Group],
    unsettled: Collection[str] = (),
) -> Iterator[Float[Tensor, "n d"] | Float[Tensor, "b d p"]]:
    """Activations by neuron of a group, the batch first, without a copy.

    Yields:
        [n, d] where the neurons are the fastest index in memory, else [b, d, p]; for each block in which the group is
        without ``unsettled`` others.
    """
    wanted = (*groups[group].within, group)
    for block in blocks(value, axes, groups):
        names = [name for name, _ in block.labels]
        # Where each token goes to an expert of its own, the groups within experts are met without the expert's axis.
        if not {*wanted} <= {*names} or any(name in unsettled and name not in wanted for name in names):
            continue
        neurons = [names.index(name) for name in wanted]
        # The batch is the first of the others: heads may be folded into its axis.
        batch, *places = [dim for dim in range(len(names)) if dim not in neurons]
        d = math.prod(groups[name].size for name in wanted)
        rows = block.tensor.permute(batch, *places, *neurons)
        if rows.is_contiguous():
            yield rows.reshape(-1, d)
        else:
            yield block.tensor.permute(batch, *neurons, *places).reshape(block.tensor.shape[batch], d, -1)
