"""Tables that are made of a study's other tables: of pairs of networks, paths between them, and both swap costs."""

import math

import numpy as np
import pandas as pd

from symlab.connectivity.barrier import above_line
from symlab.measures.job import Job
from symlab.measures.tables import ALONG_PATH
from symlab.papers.neuron_identifiability.rows import MODEL, consecutive, pair_objectives
from symlab.plotting.pairs import PAIR
from symlab.study.statistics import rank_correlation
from symlab.study.tables import last_epoch
from symlab.words import counted

OF_NETWORKS = ["train_accuracy", "val_accuracy", "train_loss"]

SWAP = [*MODEL, "layer", "i", "j"]
"""What tells the swap of two neurons of a network from others."""


def tabulate_trade_off(inputs: dict[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """How close the identity is to the optimal matching, and how well the two networks do, after the last epoch.

    Seeds 2p and 2p + 1 of a mask seed form its pair p. One row a pair: the variant's descriptions; ``identity_ratio``,
    how far the identity comes from random permutations, 0, to the optimal one, 1, by objectives averaged over layers;
    means of the two networks' accuracies and loss, NaN where the history lacks one. As in the history, training figures
    are means over the last epoch, while the network changes.
    """
    matching, history = inputs["matching.csv"], inputs["history.csv"]
    pair = ["variant", *PAIR]
    measured = [*pair[1:], "epoch", "point", "permutation", "objective"]
    ways = pair_objectives(last_epoch(matching), layerwise=False).rename(columns={"way": "identity_ratio"})
    table = ways[[*pair, "identity_ratio"]]
    ends = last_epoch(history).set_index(MODEL)[OF_NETWORKS]
    first, second = (
        ends.reindex(pd.MultiIndex.from_frame(table.assign(seed=2 * table["pair"] + end)[[*pair[:2], "seed"]]))
        for end in (0, 1)
    )
    table[OF_NETWORKS] = (first.to_numpy() + second.to_numpy()) / 2
    descriptions = matching.drop(columns=measured).drop_duplicates("variant")
    return descriptions.merge(table, on="variant", validate="one_to_many")


def bound_losses(inputs: dict[str, pd.DataFrame], job: Job) -> pd.DataFrame:
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
        # |softmax(z) - e_y|_2 <= sqrt(2): the Lipschitz constant of the cross-entropy in the logits.
        bound = (math.sqrt(2) if lipschitz else math.nan) * curve["chord"].to_numpy()
        middle = int(np.abs(lambdas - 0.5).argmin())
        rows.append(
            dict(zip(by, key, strict=True))
            | {"gap_mid": gap[middle], "bound_mid": bound[middle]}
            | {"excess_max": ((gap - bound) / np.maximum(bound, 1.0))[1:-1].max()}
            | {"assumption": "" if lipschitz else "the squared loss is not Lipschitz"}
        )
    return pd.DataFrame(rows)


def compare_estimators(inputs: dict[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Agreement of both estimators on the pairs of neurons that both have, for each network, layer and beta.

    Returns:
        The descriptions of variants, then mask_seed, seed, layer, beta, reported, ``pairs`` and ``spearman``. ``pairs``
        is "consecutive" for the disjoint (0, 1), (2, 3), ..., and "block", at a beta that has others too, for all pairs
        of the first neurons. The correlation is NaN where the costs of one estimator are constant up to rounding or not
        all finite.
    """
    swap_costs, ridge_swap_costs = inputs["swap_costs.parquet"], inputs["ridge_swap_costs.parquet"]
    measured = ["layer", "i", "j", "beta", "reported", "swap_cost"]
    described = [column for column in ridge_swap_costs.columns if column not in (*MODEL[1:], *measured)]
    both = ridge_swap_costs[[*SWAP, "beta", "reported", "swap_cost"]].merge(
        swap_costs[[*SWAP, "swap_cost"]], on=SWAP, suffixes=("_ridge", "_mahalanobis"), validate="many_to_one"
    )
    place = [*MODEL, "layer", "beta", "reported"]
    rows = []
    for key, group in both.groupby(place, sort=False):
        for pairs, chosen in _kinds_of_pairs(group).items():
            costs = (chosen[f"swap_cost_{name}"].to_numpy() for name in ("mahalanobis", "ridge"))
            rows.append((*key, pairs, _spearman(*costs)))
    table = pd.DataFrame(rows, columns=[*place, "pairs", "spearman"])
    job.report(f"{counted(len(table), 'comparisons')}, {int(table['spearman'].isna().sum())} without a correlation")
    descriptions = ridge_swap_costs[described].drop_duplicates("variant")
    return descriptions.merge(table, on="variant", validate="one_to_many")


def _kinds_of_pairs(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The disjoint consecutive pairs, and where there are others too those of the first neurons."""
    disjoint = consecutive(rows)
    kinds = {"consecutive": rows[disjoint]}
    if not disjoint.all():
        kinds["block"] = rows[rows["j"] <= rows.loc[~disjoint, "j"].max()]
    return {name: chosen for name, chosen in kinds.items() if len(chosen)}


def _spearman(mahalanobis: np.ndarray, ridge: np.ndarray) -> float:
    if not np.isfinite([*mahalanobis, *ridge]).all():
        return np.nan
    # Costs that differ by less than a millionth of the largest ridge cost are equal up to rounding. Both estimators
    # measure squared weight norms of the same networks, so the ridge costs give the scale. Rounding in float64 leaves
    # 1e-12 of it and less; where neurons do differ, costs spread over a thousandth of it and more.
    constant = min(np.ptp(mahalanobis), np.ptp(ridge)) <= 1e-6 * np.abs(ridge).max()
    return np.nan if constant else rank_correlation(mahalanobis, ridge)
