"""Logarithmic axes: their labels, and the edge at which values stand that are 0 or but rounding."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from symlab.plotting.types import Axis

DECADES = 6
"""Decades below the largest value of an axis from which on values are rounding."""
FEW_DECADES, PART, WIDE = 2.5, 0.7, 1.5
"""Decades below which a logarithmic axis has labels within them too, below which its labels are evenly spaced (of 1, 2
and 5 there may be but one), and from which an x axis has two a decade, for want of room."""

PLAIN = 1e-3
"""The smallest value on an axis whose labels are plain numbers; below they are powers of ten."""


def floor_of(values: Iterable[Any]) -> float:
    """The edge of a logarithmic axis for values that are 0 or but rounding (DECADES below the largest).

    It lies below all others, or is the smallest where there are none of those.
    """
    finite = np.array([value for value in values if np.isfinite(value)], dtype=float)
    regular = finite[finite > 10.0**-DECADES * finite.max(initial=0.0)]
    if not len(regular):
        return 1.0
    return float(regular.min() / 3 if len(regular) < len(finite) else regular.min())


def scale_log(axes: np.ndarray, which: str) -> None:
    """Make the x or y axes logarithmic, with labels also within decades where there are few of them.

    For axes that share their limits, with everything drawn.
    """
    from matplotlib.ticker import LogFormatterSciNotation, LogLocator, MaxNLocator, NullFormatter, NullLocator

    for axes_of in axes.flat:
        (axes_of.set_xscale if which == "x" else axes_of.set_yscale)("log", nonpositive="mask")
    for axes_of in axes.flat:
        axis: Axis = axes_of.xaxis if which == "x" else axes_of.yaxis
        low, high = sorted(axis.get_view_interval())
        axis.set_minor_formatter(NullFormatter())
        decades = np.log10(high / low)
        if decades < FEW_DECADES:
            evenly, wide = decades < PART, which == "x" and decades > WIDE
            within = LogLocator(subs=(1.0, 3.0) if wide else (1.0, 2.0, 5.0))
            axis.set_major_locator(MaxNLocator(4) if evenly else within)
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(
                "{x:g}" if low >= PLAIN else LogFormatterSciNotation(minor_thresholds=(np.inf, np.inf))
            )
