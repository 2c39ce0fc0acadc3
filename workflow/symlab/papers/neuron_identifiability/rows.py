"""Which rows of networks, paths and pairs of neurons the paper's figures and claims are about."""

import numpy as np
import pandas as pd

from symlab.papers.neuron_identifiability.variants import SERIES, SIZES
from symlab.plotting.pairs import PAIR
from symlab.study.tables import one_matching

MODEL = ["variant", "mask_seed", "seed"]
PLACE = ("point", "epoch")
"""Where in a network and when in its training neurons are compared."""
BLOCK = 128
"""Neurons of a layer in the paper's heat maps of swap costs: its first ones."""


def one_path(paths: pd.DataFrame, split: str, aligned: bool) -> pd.DataFrame:
    """The rows of one split's aligned or unaligned path; of several ways of matching, that of the first."""
    rows = paths[(paths["split"] == split) & (paths["aligned"].astype(bool) == aligned)]
    return one_matching(rows)


def consecutive(pairs: pd.DataFrame) -> pd.Series:
    """The disjoint consecutive pairs (0, 1), (2, 3), ... of neurons i < j, as in the paper's distributions."""
    return (pairs["j"] == pairs["i"] + 1) & (pairs["i"] % 2 == 0)


def first_block(pairs: pd.DataFrame) -> pd.Series:
    """The pairs of the first ``BLOCK`` neurons, as in the paper's heat maps."""
    return (pairs["i"] < BLOCK) & (pairs["j"] < BLOCK)


def signed_sqrt(values: pd.Series | np.ndarray) -> np.ndarray:
    """sign(x) sqrt(|x|), the transform swap costs are shown in."""
    x = np.asarray(values, dtype=np.float64)
    return np.sign(x) * np.sqrt(np.abs(x))


def describe(rows: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """The rows with the columns that describe their variants in a table."""
    described = [column for column in ("variant", "dataset", *SERIES, *SIZES, "k", "source") if column in table]
    return rows.merge(table[described].drop_duplicates("variant"), on="variant")


def average_layers(matching: pd.DataFrame) -> pd.DataFrame:
    """The rows of matching with labels, each pair's objectives averaged over its layers."""
    kept = ["variant", "dataset", "label", "sigma_F", *PAIR, "epoch", "permutation"]
    return matching.groupby(kept, dropna=False, sort=False, as_index=False)["objective"].mean()


def pair_objectives(matching: pd.DataFrame, layerwise: bool) -> pd.DataFrame:
    """The objectives of each pair at each epoch, a row a layer, or one for their mean ("all layers").

    Returns:
        Columns ``optimal``, ``identity``, ``random``; ``way``: (identity - random) / (optimal - random), 0 where the
        numbering is no better than a random one, 1 where it is the best; ``random_share``: random / optimal; ``above``:
        identity - random; and what describes the variant.
    """
    place = ["variant", *PAIR, "epoch", "point"]
    # Sorted, then in the order of the table: by pandas 3.0.0 an unsorted unstack takes values of other rows.
    wide = matching.set_index([*place, "permutation"])["objective"].unstack("permutation")
    wide = wide.reindex(matching.set_index(place).index.unique(), columns=["optimal", "identity", "random"])
    if not layerwise:
        wide = wide.groupby(level=place[:-1], sort=False).mean(skipna=False)
        wide = wide.assign(point="all layers").set_index("point", append=True)
    wide = wide.assign(
        way=(wide["identity"] - wide["random"]) / (wide["optimal"] - wide["random"]),
        random_share=wide["random"] / wide["optimal"],
        above=wide["identity"] - wide["random"],
    )
    return describe(wide.reset_index(), matching)
