"""Barriers: how much worse the networks between two ends are than the ends themselves."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from symlab.errors import UserError


def barriers(curves: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Barriers of every curve in a tidy table.

    At each lambda the gap is taken between the curve and the straight line through its end values, with the sign that
    makes a worse network positive: value minus line for the loss, line minus value for the accuracy (Section 5).

    Args:
        curves: columns ``lambda``, ``loss``, ``accuracy`` (a fraction, or NaN for regression) and ``by``; one row a
            point, with points at lambda 0, 0.5 and 1.
        by: the columns that tell curves apart, e.g. pair, split, aligned.

    Returns:
        One row a curve: ``by``, ``barrier_max`` and ``barrier_mid`` of the loss, in the loss's unit, ``drop_max_pp``
        and ``drop_mid_pp`` of the accuracy, in percentage points (NaN where there is no accuracy). The maximum runs
        over the whole path, whose ends have gap 0, so it is never negative; the midpoint can be.

    Raises:
        UserError: a curve lacks an end or the midpoint, or has a lambda twice.
    """
    by = list(by)
    rows = []
    for key, curve in curves.groupby(by, sort=False, dropna=False):
        curve = curve.sort_values("lambda")
        lambdas = curve["lambda"].to_numpy()
        which = ", ".join(f"{column} {value}" for column, value in zip(by, key, strict=True))
        for needed in (0.0, 0.5, 1.0):
            if not (lambdas == needed).any():
                raise UserError(f"the curve of {which} has no point at lambda {needed}: add it to the lambdas.")
        if len(np.unique(lambdas)) < len(lambdas):
            raise UserError(f"the curve of {which} has a lambda more than once: is a column missing in by = {by}?")
        losses, errors = curve["loss"].to_numpy(), -curve["accuracy"].to_numpy()
        middle = int(np.flatnonzero(lambdas == 0.5)[0])
        rows.append(
            dict(zip(by, key, strict=True))
            | {"barrier_max": largest(lambdas, losses), "barrier_mid": above_line(lambdas, losses)[middle]}
            | {"drop_max_pp": 100 * largest(lambdas, errors), "drop_mid_pp": 100 * above_line(lambdas, errors)[middle]}
        )
    return pd.DataFrame(rows, columns=[*by, "barrier_max", "barrier_mid", "drop_max_pp", "drop_mid_pp"])


def largest(lambdas: Float[np.ndarray, " l"], values: Float[np.ndarray, "*curves l"]) -> Float[np.ndarray, "*curves"]:
    """Barriers of curves, of networks and of students: the largest gap between a curve and the line."""
    return above_line(lambdas, values).max(axis=-1)


def above_line(
    lambdas: Float[np.ndarray, " l"], values: Float[np.ndarray, "*curves l"]
) -> Float[np.ndarray, "*curves l"]:
    """Values of curves minus the straight line through those at lambda 0 and 1."""
    start, end = values[..., lambdas == 0.0][..., [0]], values[..., lambdas == 1.0][..., [0]]
    return values - ((1 - lambdas) * start + lambdas * end)
