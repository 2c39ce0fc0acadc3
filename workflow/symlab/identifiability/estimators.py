"""How far two estimators of swap costs agree: Mahalanobis distances against ridge regression (Appendix G.3)."""

from __future__ import annotations

import numpy as np
import pandas as pd

MODEL = ["variant", "mask_seed", "seed"]
PAIR = [*MODEL, "layer", "i", "j"]

# Costs that differ by less than this share of the largest ridge cost are equal up to rounding. Both estimators measure
# squared weight norms of the same networks, so the ridge costs give the scale. Rounding in float64 leaves 1e-12 of it
# and less; where neurons do differ, costs spread over a thousandth of it and more. 1e-6 lies far from both.
ROUNDING = 1e-6


# The paper's choice among those it sweeps (Appendix F.7).
BETA_OF_PAPER = 0.01


def estimators(swap_costs: pd.DataFrame, ridge_swap_costs: pd.DataFrame) -> pd.DataFrame:
    """Agreement of both estimators on the pairs of neurons that both have, for each network, layer and beta.

    Args:
        swap_costs: Mahalanobis costs; columns variant, mask_seed, seed, layer, i, j (i < j), swap_cost.
        ridge_swap_costs: the same with a column beta, and the variants' descriptions.

    Returns:
        Columns: the descriptions, then mask_seed, seed, layer, beta, ``pairs``, n_pairs, spearman and sign_agreement.
        ``pairs`` is "consecutive" for the disjoint (0, 1), (2, 3), ..., and "block", at a beta that has other pairs
        too, for all pairs of the first neurons that these cover. ``spearman`` is the rank correlation, NaN where the
        costs of one estimator are constant up to rounding or not all finite; ``sign_agreement`` the share of pairs
        whose costs have the same sign, NaN where costs are constant up to rounding or not a number.
    """
    measured = ["layer", "i", "j", "beta", "swap_cost"]
    described = [column for column in ridge_swap_costs.columns if column not in (*MODEL[1:], *measured)]
    both = ridge_swap_costs[[*PAIR, "beta", "swap_cost"]].merge(
        swap_costs[[*PAIR, "swap_cost"]], on=PAIR, suffixes=("_ridge", "_mahalanobis"), validate="many_to_one"
    )
    rows = []
    for key, group in both.groupby([*MODEL, "layer", "beta"], sort=False):
        for pairs, chosen in _kinds_of_pairs(group).items():
            agreement = _agreement(chosen["swap_cost_mahalanobis"].to_numpy(), chosen["swap_cost_ridge"].to_numpy())
            rows.append((*key, pairs, len(chosen), *agreement))
    table = pd.DataFrame(rows, columns=[*MODEL, "layer", "beta", "pairs", "n_pairs", "spearman", "sign_agreement"])
    descriptions = ridge_swap_costs[described].drop_duplicates("variant")
    return descriptions.merge(table, on="variant", validate="one_to_many")


def _kinds_of_pairs(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    consecutive = (rows["j"] == rows["i"] + 1) & (rows["i"] % 2 == 0)
    kinds = {"consecutive": rows[consecutive]}
    if not consecutive.all():
        kinds["block"] = rows[rows["j"] <= rows.loc[~consecutive, "j"].max()]
    return {name: chosen for name, chosen in kinds.items() if len(chosen)}


def _agreement(mahalanobis: np.ndarray, ridge: np.ndarray) -> tuple[float, float]:
    """Spearman correlation and share of equal signs."""
    # Importing it takes most of a second, and Snakemake's own process imports this module through the claims.
    from scipy.stats import spearmanr

    if np.isnan(mahalanobis).any() or not np.isfinite(ridge).all():
        return np.nan, np.nan
    rounding = ROUNDING * np.abs(ridge).max()
    # Infinities of one sign differ by NaN, which is no constant: their signs are what they are.
    with np.errstate(invalid="ignore"):
        if np.ptp(mahalanobis) <= rounding or np.ptp(ridge) <= rounding:
            return np.nan, np.nan
    signs = float(np.mean(np.sign(mahalanobis) == np.sign(ridge)))
    if not np.isfinite(mahalanobis).all():
        return np.nan, signs
    return float(spearmanr(mahalanobis, ridge).statistic), signs


def reported_beta(pairs: pd.Series) -> float:
    """The beta with the most pairs (``pairs``: their number, by beta); of several, the paper's 0.01, else the smallest.

    Only at the reported beta are all pairs of a block swapped; where the block is all there is, the numbers are equal.
    """
    most = [float(beta) for beta in pairs.index[pairs == pairs.max()]]
    return BETA_OF_PAPER if BETA_OF_PAPER in most else min(most)
