"""Correlations between the neurons of two networks from one pass over the data, in O(d^2) memory.

Activations are never kept: of each batch only the sums that Pearson's correlation needs are added up.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from symlab.alignment.forward import outputs
from symlab.errors import UserError

# Activations are float32: a neuron that is constant in exact arithmetic still varies by a few units in the last place
# of its value. A standard deviation below this many of them, relative to the root mean square, is called constant.
CONSTANT_NEURON_TOLERANCE = 8 * float(np.finfo(np.float32).eps)

Key = TypeVar("Key", bound=Hashable)


class PairMoments:
    """Running first and second moments of activations Z_A, Z_B [n, d] of d neurons of each of two networks.

    Products are taken in float32, one matrix product a batch, and added up in float64. Both sides are shifted by the
    first batch's means before: a neuron with a large mean and a small variance would otherwise lose its variance to
    cancellation in float32. Any shift gives the same correlation in exact arithmetic, so the estimate may be crude: the
    means' squared distance from the shift is at most n / n_first variances, and typically 1 / n_first.
    """

    def __init__(self, d: int):
        self.d = d
        self.n = 0

    def add(self, z_a: Float[Tensor, "n d"], z_b: Float[Tensor, "n d"]) -> None:
        """Take in one batch of both networks' activations on the same n > 0 inputs.

        Raises:
            UserError: a batch is empty, or not [n, d] with the same n on both sides.
        """
        if z_a.shape != z_b.shape or z_a.dim() != 2 or z_a.shape[1] != self.d or len(z_a) == 0:
            raise UserError(
                f"activations of shapes {tuple(z_a.shape)} and {tuple(z_b.shape)} cannot be matched: "
                f"both networks must give [n, {self.d}] on the same n > 0 inputs."
            )
        if self.n == 0:
            self.shift_a, self.shift_b = z_a.mean(dim=0), z_b.mean(dim=0)
            vector = torch.zeros(self.d, dtype=torch.float64, device=z_a.device)
            self.sum_a, self.sum_b, self.square_a, self.square_b = (vector.clone() for _ in range(4))
            self.cross = torch.zeros(self.d, self.d, dtype=torch.float64, device=z_a.device)
        a, b = (z_a - self.shift_a).float(), (z_b - self.shift_b).float()
        self.n += len(a)
        self.sum_a += a.sum(dim=0)
        self.sum_b += b.sum(dim=0)
        self.square_a += a.square().sum(dim=0)
        self.square_b += b.square().sum(dim=0)
        self.cross += a.T @ b

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
        std_a, constant_a = _spread(self.square_a.cpu().numpy() / self.n, mean_a, self.shift_a.cpu().numpy())
        std_b, constant_b = _spread(self.square_b.cpu().numpy() / self.n, mean_b, self.shift_b.cpu().numpy())
        covariance = self.cross.cpu().numpy() / self.n - np.outer(mean_a, mean_b)
        if not np.isfinite(covariance).all():
            raise UserError("some activations are not finite, so neurons cannot be matched: did the training diverge?")
        correlation = covariance / np.outer(np.where(constant_a, 1.0, std_a), np.where(constant_b, 1.0, std_b))
        correlation[constant_a, :] = 0.0
        correlation[:, constant_b] = 0.0
        return correlation.clip(-1.0, 1.0)


def _spread(
    mean_square: Float[np.ndarray, " d"], mean: Float[np.ndarray, " d"], shift: Float[np.ndarray, " d"]
) -> tuple[Float[np.ndarray, " d"], np.ndarray]:
    """Standard deviations from moments about ``shift``, and which neurons are constant."""
    variance = np.maximum(mean_square - mean**2, 0.0)
    mean_square_about_zero = variance + (mean + shift) ** 2
    return np.sqrt(variance), variance <= CONSTANT_NEURON_TOLERANCE**2 * mean_square_about_zero


def record_pair_moments(
    module: nn.Module,
    states_A: Mapping[Key, Mapping[str, Tensor]],
    states_B: Mapping[Key, Mapping[str, Tensor]],
    points: Mapping[str, str],
    batches: Iterable[Float[Tensor, "n d"]],
) -> dict[Key, dict[str, PairMoments]]:
    """Moments of both networks' activations for many pairs, in one pass over the data.

    Args:
        module: a network of the pairs' shape; its own state is not used.
        states_A, states_B: the states to compare, by a key that names the pair (and the snapshot, if there are many).
        points: for each group of neurons, the submodule whose output [n, d] is recorded (``SymmetrySpec.points``).
        batches: the inputs; 512 to 2048 at a time keep a 512-wide layer in cache.

    Returns:
        For each key and group the moments; 8 d^2 bytes each, so record very many snapshots in portions.

    Raises:
        UserError: the two sides have different keys, there are no inputs, or a point's output is not [n, d].
    """
    if states_A.keys() != states_B.keys():
        raise UserError("states_A and states_B must name the same pairs.")
    recorded: dict[str, Tensor] = {}

    def recorder(group: str, point: str):
        def hook(_module: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> None:
            if output.dim() != 2:
                raise UserError(
                    f"the output of {point!r} has shape {tuple(output.shape)}; matching needs one row a sample."
                )
            if group in recorded:
                raise UserError(f"{point!r} runs more than once in a forward pass: record a module that runs once.")
            recorded[group] = output

        return hook

    def activations(state: Mapping[str, Tensor], x: Tensor) -> dict[str, Tensor]:
        recorded.clear()
        outputs(module, state, x)
        return dict(recorded)

    moments: dict[Key, dict[str, PairMoments]] = {key: {} for key in states_A}
    handles = [
        module.get_submodule(point).register_forward_hook(recorder(group, point)) for group, point in points.items()
    ]
    try:
        for x in batches:
            for key, of_groups in moments.items():
                z_a, z_b = activations(states_A[key], x), activations(states_B[key], x)
                for group in points:
                    if group not in of_groups:
                        of_groups[group] = PairMoments(z_a[group].shape[1])
                    of_groups[group].add(z_a[group], z_b[group])
    finally:
        for handle in handles:
            handle.remove()
    if not all(moments.values()):
        raise UserError("there are no inputs to record activations on: the data set is empty.")
    return moments
