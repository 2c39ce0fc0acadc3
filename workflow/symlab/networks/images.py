"""Flat inputs of image networks: the pipeline hands every network its inputs as vectors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from symlab.errors import UserError

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor


def side_of(network: str, n_inputs: int, channels: int) -> int:
    """Side in pixels of the square image that ``n_inputs`` = channels * side^2 numbers hold.

    Raises:
        UserError: the inputs cannot be square images of that many channels.
    """
    side = math.isqrt(n_inputs // channels)
    if side == 0 or channels * side * side != n_inputs:
        raise UserError(
            f"network {network} reads square images of network.channels = {channels} channels, but the data set's "
            f"samples have {n_inputs} numbers, which no such image has; set network.channels or use another data set."
        )
    return side


def cut(x: Float[Tensor, "n i"], grid: tuple[int, ...]) -> Float[Tensor, "n p e"]:
    """The patches of flat images, row by row, each flat: of a grid (channels, rows, patch, columns, patch)."""
    return x.unflatten(1, grid).permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
