"""Measurements on subspaces.csv: coherence nu of the subspace that a layer's inputs span."""

from __future__ import annotations

import numpy as np
import pandas as pd

from symlab.papers.claim import Measurement, Tables, mean, spread
from symlab.claims.variants import Mask, at_last_epoch, same_dataset, split_variants


def excess_at_last_hidden(tables: Tables, which: Mask, baselines: tuple[Mask, ...]) -> list[Measurement]:
    """By how much nu at the last hidden layer exceeds the largest of the baselines', for each variant."""
    rows = tables["subspaces.csv"]
    hidden = rows[rows["point"].str.fullmatch(r"hidden\d+")]
    number = hidden["point"].str.removeprefix("hidden").astype(int)
    return _excess(hidden[number == number.groupby(hidden["variant"]).transform("max")], which, baselines)


def excess_at_output(tables: Tables, which: Mask, baselines: tuple[Mask, ...]) -> list[Measurement]:
    """By how much nu of the network's outputs exceeds the largest of the baselines', for each variant."""
    rows = tables["subspaces.csv"]
    return _excess(rows[rows["point"] == "output"], which, baselines)


def _excess(rows: pd.DataFrame, which: Mask, baselines: tuple[Mask, ...]) -> list[Measurement]:
    """Mean nu over models at the last epoch, less the largest mean of a baseline; every kind of baseline is needed."""
    rows = at_last_epoch(rows)
    measured = []
    for case, of_variant in split_variants(rows, which):
        near = same_dataset(rows, of_variant)
        kinds = [split_variants(near, baseline) for baseline in baselines]
        if all(kinds):
            levels = {name: mean(other["nu"].to_numpy()) for kind in kinds for name, other in kind}
            values = of_variant["nu"].to_numpy()
            told = ", ".join(f"{name}: {level:.3g}" for name, level in {"nu here": mean(values), **levels}.items())
            excess = mean(values) - float(np.max(list(levels.values())))
            measured.append(Measurement(excess, len(values), spread(values), case, told))
    return measured
