"""Tables of a study that are made from its other tables."""

from typing import Any

import pandas as pd

from symlab.connectivity.barrier import barriers
from symlab.measures.job import Job

# What is measured at each point of a path; all other columns tell paths apart.
ALONG_PATH = ("lambda", "loss", "accuracy", "chord")


def barriers_of_curves(inputs: dict[str, Any], job: Job) -> pd.DataFrame:
    """Maximum and midpoint barriers of every path."""
    curves = inputs["curves.csv"]
    return barriers(curves, [column for column in curves.columns if column not in ALONG_PATH])
