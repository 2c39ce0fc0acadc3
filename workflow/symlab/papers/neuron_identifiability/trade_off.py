"""What identifiability costs in accuracy: both for every pair of networks (main paper, Section 4.5)."""

import pandas as pd

from symlab.measures.job import Job
from symlab.papers.neuron_identifiability.rows import MODEL, objectives
from symlab.plotting.pairs import PAIR
from symlab.study.tables import last_epoch

OF_NETWORKS = ["train_accuracy", "val_accuracy", "train_loss"]


def tabulate_trade_off(inputs: dict[str, pd.DataFrame], settings: None, job: Job) -> pd.DataFrame:
    """How close the identity is to the optimal matching, and how well the two networks do, after the last epoch.

    Seeds 2p and 2p + 1 of a mask seed form its pair p. One row a pair: the variant's descriptions; ``identity_ratio``,
    how far the identity comes from random permutations, 0, to the optimal one, 1, by objectives averaged over layers;
    means of the two networks' accuracies and loss, NaN where the history lacks one. As in the history, training figures
    are means over the last epoch, while the network changes.
    """
    matching, history = inputs["matching.csv"], inputs["history.csv"]
    pair = ["variant", *PAIR]
    measured = [*pair[1:], "epoch", "point", "permutation", "objective"]
    ways = objectives(last_epoch(matching), layerwise=False).rename(columns={"way": "identity_ratio"})
    table = ways[[*pair, "identity_ratio"]]
    ends = last_epoch(history).set_index(MODEL)[OF_NETWORKS]
    first, second = (
        ends.reindex(pd.MultiIndex.from_frame(table.assign(seed=2 * table["pair"] + end)[[*pair[:2], "seed"]]))
        for end in (0, 1)
    )
    table[OF_NETWORKS] = (first.to_numpy() + second.to_numpy()) / 2
    descriptions = matching.drop(columns=measured).drop_duplicates("variant")
    return descriptions.merge(table, on="variant", validate="one_to_many")
