"""Gaps of a run over the least losses that all its studies and other runs know: an optimum has one loss.

    python -m symlab.papers.neural_collapse.known <results> [<other results> ...]

Each folder holds <study>/tables/*. Of a setting that several studies share the least loss is that of all. The least
losses, and the gaps over them, are written anew into the first; its claims are then judged again by ``python -m
symlab.pipeline.rejudge``.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from symlab.artifacts import read_table, write_table
from symlab.papers.neural_collapse.evidence import SETTING
from symlab.papers.neural_collapse.run_tables import gaps_over

ELSEWHERE = "another study or run"


def lower_known(optima: pd.DataFrame, others: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The least loss of each setting and depth of a study, or of others where they know a lower one.

    As in one run, it cannot rise with depth.
    """
    keys = [*SETTING, "L"]
    every = pd.concat([optima, *others])[[*keys, "least"]].sort_values("L", ignore_index=True)
    every["so_far"] = every.groupby(SETTING, sort=False)["least"].cummin()
    at_depth = every.groupby(keys, sort=False)[["least", "so_far"]].min()
    found = at_depth.reindex(pd.MultiIndex.from_frame(optima[keys])).set_index(optima.index)
    by = optima["by"].mask(found["least"] < optima["least"], ELSEWHERE)
    return optima.assign(least=found["so_far"], by=by.mask(found["so_far"] < found["least"], "depth before"))


def main() -> None:
    """Write the tables of the first folder anew."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    told = "folder of the run whose gaps are told anew, and of others that may know lower losses"
    parser.add_argument("results", type=Path, nargs="+", help=told)
    folders = parser.parse_args().results
    known = {path: read_table(path) for each in folders for path in sorted(each.glob("*/tables/collapse_optima.*"))}
    for path in [path for path in known if path.is_relative_to(folders[0])]:
        optima = lower_known(known[path], [table for other, table in known.items() if other != path])
        runs = path.with_stem("collapse_runs")
        table = gaps_over(read_table(runs), optima)
        write_table(path, optima)
        write_table(runs, table)
        elsewhere = int((optima["by"] == ELSEWHERE).sum())
        print(f"{path.parts[-3]}: {elsewhere} of {len(optima)} least losses are known from elsewhere.")


if __name__ == "__main__":
    main()
