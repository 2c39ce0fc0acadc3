"""The loss's gap along a path against the chord deviation of the network's outputs (main paper, Prop. 5.2)."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from symlab.connectivity.barrier import above_line
from symlab.errors import UserError
from symlab.measures.job import Job
from symlab.measures.tables import ALONG_PATH

# |softmax(z) - e_y|_2 <= sqrt(2): the Lipschitz constant of the cross-entropy in the logits.
CROSS_ENTROPY_LIPSCHITZ = math.sqrt(2)


def bound_losses(inputs: dict[str, pd.DataFrame], settings: None, job: Job) -> pd.DataFrame:
    """The gap between the cross-entropy and the line through its end values, against sqrt(2) |xi_f|_L2 (Eq. 34).

    Args:
        inputs: ``curves.csv``: columns ``lambda``, ``loss``, ``accuracy``, ``chord`` (|xi_f(lambda)|_L2 over the same
            inputs) and those that tell curves apart, such as pair, split and aligned; one row a point, with points at
            lambda 0, 1 and in between.
        settings, job: of no use here.

    Returns:
        One row a curve: what tells it apart, ``barrier_max`` (the largest gap over the path, never negative),
        ``lambda_max`` (where; 0 if no network is worse than the line), ``bound_at_max`` (the bound there), ``gap_mid``
        and ``bound_mid`` (the gap, which may be negative, and its bound at the point nearest to the middle),
        ``excess_max`` (the largest gap minus bound, in units of the larger of the bound and 1, between the ends, where
        both are 0; not positive if the bound holds) and ``assumption`` ("" where it holds: the squared loss of
        regression, which has no accuracy, is not Lipschitz, and has no bound).

    Raises:
        UserError: the curves have no chord, or a curve lacks an end or a point between, or has a lambda twice.
    """
    curves = inputs["curves.csv"]
    if "chord" not in curves:
        raise UserError("the curves have no column chord, which bounds their loss: interpolate the networks anew.")
    by = [column for column in curves.columns if column not in ALONG_PATH]
    rows = []
    for key, curve in curves.groupby(by, sort=False, dropna=False):
        curve = curve.sort_values("lambda")
        lambdas, loss = curve["lambda"].to_numpy(), curve["loss"].to_numpy()
        which = ", ".join(f"{column} {value}" for column, value in zip(by, key, strict=True))
        if len(np.unique(lambdas)) < len(lambdas):
            raise UserError(f"the curve of {which} has a lambda more than once, among {by}.")
        if len(lambdas) < 3 or (lambdas[0], lambdas[-1]) != (0.0, 1.0):
            raise UserError(f"the curve of {which} needs points at lambda 0, 1 and between: add them to the lambdas.")
        gap = above_line(lambdas, loss)
        lipschitz = bool(curve["accuracy"].notna().any())
        bound = (CROSS_ENTROPY_LIPSCHITZ if lipschitz else math.nan) * curve["chord"].to_numpy()
        at, middle = int(gap.argmax()), int(np.abs(lambdas - 0.5).argmin())
        rows.append(
            dict(zip(by, key, strict=True))
            | {"barrier_max": gap[at], "lambda_max": lambdas[at], "bound_at_max": bound[at]}
            | {"gap_mid": gap[middle], "bound_mid": bound[middle]}
            | {"excess_max": ((gap - bound) / np.maximum(bound, 1.0))[1:-1].max()}
            | {"assumption": "" if lipschitz else "the squared loss is not Lipschitz"}
        )
    found = ["barrier_max", "lambda_max", "bound_at_max", "gap_mid", "bound_mid", "excess_max", "assumption"]
    return pd.DataFrame(rows, columns=[*by, *found])
