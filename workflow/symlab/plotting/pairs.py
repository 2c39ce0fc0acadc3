"""What tells pairs of networks apart in tables, and the mean and spread over them.

Apart from what draws them: measures and tables use it, and another colour shall compute none of them anew.
"""

import pandas as pd

PAIR = ["mask_seed", "pair"]


def mean_std(table: pd.DataFrame, x: str, value: str) -> pd.DataFrame:
    """Columns x, mean, std of ``value`` at each x in rising order; std has n - 1 in it and is 0 for a single row."""
    return table.groupby(x)[value].agg(["mean", "std"]).fillna({"std": 0.0}).reset_index()
