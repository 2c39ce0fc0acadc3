"""Barriers between students of the coherence experiment (Appendix F.5)."""

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd

from symlab.connectivity.barrier import above_line
from symlab.measures.job import Job
from symlab.papers.neuron_identifiability.settings import CoherenceStudents
from symlab.study.points import Result


def tabulate_barriers(
    results: Sequence[Result], settings: Sequence[CoherenceStudents], job: Job
) -> dict[str, pd.DataFrame]:
    """Barriers of the mean squared error of all pairs on the test samples, one row a pair."""
    tables = []
    for each in results:
        gaps = above_line(np.linspace(0, 1, each.settings.lambdas), each.found["losses"])
        pairs = np.array(list(product(range(each.settings.mask_seeds), range(each.settings.seeds // 2))))
        rows = {**each.point, "mask_seed": pairs[:, 0], "pair": pairs[:, 1], "split": "test", "aligned": False}
        rows |= {"barrier_max": gaps.max(axis=1), "barrier_mid": gaps[:, each.settings.lambdas // 2]}
        tables.append(pd.DataFrame(rows))
    return {"coherence_barriers.csv": pd.concat(tables, ignore_index=True)}
