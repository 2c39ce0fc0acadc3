"""Claims that gradient descent finds minima as uniform samples would: Fig. 9."""

from __future__ import annotations

import numpy as np
import pandas as pd

from symlab.papers.claim import Measurement, above, at_most
from symlab.claims.permutation_invariance.stated import Found, each_of, of_trained, stated

# Below five expected runs a type the distribution of the statistic is not chi-squared.
EXPECTED = 5
RUNS = 50


def p_of_doubled_types(table: pd.DataFrame) -> list[Found]:
    """p value of Pearson's test that each of the M types is doubled equally often in students with m = M + 1."""

    def measure(case: str, rows: pd.DataFrame) -> Found:
        # At every start of the workflow this module is imported, and scipy takes time.
        from scipy.special import chdtrc

        rows = rows[rows["m"] == rows["M"] + 1]
        M = int(rows["M"].iloc[0]) if len(rows) else 0
        doubled = rows.loc[rows["doubled_type"] != 0, "doubled_type"]
        if not M > 1 or len(doubled) < EXPECTED * M:
            return f"{case}: needs {EXPECTED} M students with m = M + 1 that reached a minimum"
        counts = np.array([(doubled == type_).sum() for type_ in range(1, M + 1)])
        expected = len(doubled) / M
        statistic = float(np.sum((counts - expected) ** 2) / expected)
        value = float(chdtrc(M - 1, statistic)) if counts.sum() == len(doubled) else float("nan")
        told = f"{', '.join(map(str, counts))} of {len(rows)} students; chi^2 = {statistic:.3g}"
        return Measurement(value, len(doubled), None, case, told)

    return each_of(of_trained(table), measure, "needs trained students that reached a minimum")


def distance_from_simplex(table: pd.DataFrame) -> list[Found]:
    """Largest |mean - expected| over the ranks of a sorted column, for students initialised with 1/sqrt(d)."""
    found: list[Found] = []
    for (M, d, m, init_std), rows in table.groupby(["M", "d", "m", "init_std"], sort=False):
        case = f"M = {M:g}, d = {d:g}, m = {m:g}"
        if M != 1 or abs(init_std * np.sqrt(d) - 1) > 1e-3 or rows["runs"].min() < RUNS:
            found.append(f"{case}: needs M = 1, an initialisation of 1/sqrt(d) and {RUNS} students")
            continue
        difference = (rows["mean"] - rows["expected"]).abs().to_numpy(dtype=float)
        # argmax takes a value that is not a number for the largest.
        at = int(np.argmax(difference))
        told = f"rank {rows['rank'].iloc[at]:g}: {rows['mean'].iloc[at]:.3g} against {rows['expected'].iloc[at]:.3g}"
        found.append(Measurement(float(difference[at]), int(rows["runs"].min()), None, case, told))
    return found


CLAIMS = (
    stated(
        "9",
        "doubled-types",
        "Each of the teacher's neurons is as likely as any other to be the one that a student of M + 1 neurons has "
        "twice (Fig. 9a): p value of Pearson's chi^2 test",
        above(0.01),
        "The paper's histogram looks flat; a true one fails at this level once in a hundred.",
        "doubled_types_runs.csv",
        p_of_doubled_types,
    ),
    stated(
        "9",
        "column",
        "The shares of one teacher neuron that a student's neurons take, sorted, are those of a uniform point of the "
        "simplex (Fig. 9b): largest difference from the expected share over the ranks, mean over students",
        at_most(0.03),
        "The paper's line looks like one of the uniform law. A tenth of the largest share is left room: a small trial "
        "was off by 0.012 from this initialisation, by 0.1 and more from smaller ones.",
        "column_entries.csv",
        distance_from_simplex,
    ),
)
