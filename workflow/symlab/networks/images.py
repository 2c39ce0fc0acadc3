"""Flat inputs of image networks: the pipeline hands every network its inputs as vectors."""

from __future__ import annotations

import math

from symlab.errors import UserError


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
