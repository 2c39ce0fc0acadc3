"""The loss's gap along a path against the chord deviation of the network's outputs (main paper, Prop. 5.2)."""

import math

import numpy as np
import pandas as pd

from symlab.connectivity.barrier import above_line
from symlab.measures.job import Job
from symlab.measures.tables import ALONG_PATH

# |softmax(z) - e_y|_2 <= sqrt(2): the Lipschitz constant of the cross-entropy in the logits.
CROSS_ENTROPY_LIPSCHITZ = math.sqrt(2)


def bound_losses(inputs: dict[str, pd.DataFrame], settings: None, job: Job) -> pd.DataFrame:
    """The gap between the cross-entropy and the line through its end values, against sqrt(2) |xi_f|_L2 (Eq. 34).

    Returns:
        One row a curve: what tells it apart, ``gap_mid`` and ``bound_mid`` (the gap, which may be negative, and its
        bound at the point nearest to the middle), ``excess_max`` (the largest gap minus bound, in units of the larger
        of the bound and 1, between the ends, where both are 0; not positive if the bound holds) and ``assumption``
        ("" where it holds: the squared loss of regression, which has no accuracy, is not Lipschitz, and has no bound).
    """
    curves = inputs["curves.csv"]
    by = [column for column in curves.columns if column not in ALONG_PATH]
    rows = []
    for key, curve in curves.groupby(by, sort=False, dropna=False):
        curve = curve.sort_values("lambda")
        lambdas, loss = curve["lambda"].to_numpy(), curve["loss"].to_numpy()
        gap = above_line(lambdas, loss)
        lipschitz = bool(curve["accuracy"].notna().any())
        bound = (CROSS_ENTROPY_LIPSCHITZ if lipschitz else math.nan) * curve["chord"].to_numpy()
        middle = int(np.abs(lambdas - 0.5).argmin())
        rows.append(
            dict(zip(by, key, strict=True))
            | {"gap_mid": gap[middle], "bound_mid": bound[middle]}
            | {"excess_max": ((gap - bound) / np.maximum(bound, 1.0))[1:-1].max()}
            | {"assumption": "" if lipschitz else "the squared loss is not Lipschitz"}
        )
    return pd.DataFrame(rows)
