"""How far two estimators of swap costs agree: Mahalanobis distances against ridge regression (Appendix G.3)."""

import numpy as np
import pandas as pd

from symlab.measures.job import Job
from symlab.papers.neuron_identifiability.rows import MODEL, consecutive
from symlab.study.claim import rank_correlation

SWAP = [*MODEL, "layer", "i", "j"]
"""What tells the swap of two neurons of a network from others."""

# Costs that differ by less than this share of the largest ridge cost are equal up to rounding. Both estimators measure
# squared weight norms of the same networks, so the ridge costs give the scale. Rounding in float64 leaves 1e-12 of it
# and less; where neurons do differ, costs spread over a thousandth of it and more. 1e-6 lies far from both.
ROUNDING = 1e-6


def compare_estimators(inputs: dict[str, pd.DataFrame], settings: None, job: Job) -> pd.DataFrame:
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
    job.report(f"{len(table)} comparisons, {int(table['spearman'].isna().sum())} without a correlation")
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
    constant = min(np.ptp(mahalanobis), np.ptp(ridge)) <= ROUNDING * np.abs(ridge).max()
    return np.nan if constant else rank_correlation(mahalanobis, ridge)
