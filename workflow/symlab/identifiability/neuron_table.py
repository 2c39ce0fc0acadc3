"""What becomes of each neuron of one network in another: its partner, whether that is itself, what its swaps cost."""

import numpy as np
import pandas as pd
from jaxtyping import Float, Int


def neuron_table(
    costs: Float[np.ndarray, "m m"], correlations: Float[np.ndarray, "m m"], partner: Int[np.ndarray, " m"]
) -> pd.DataFrame:
    """What becomes of each of A's neurons.

    Args:
        costs: of swapping neurons i and j.
        correlations: of A's neuron i with B's neuron j.
        partner: B's neuron that is matched to A's neuron i.

    Returns:
        Columns ``neuron``; ``itself``, whether its partner is B's neuron of the same number; ``cheapest``, the cost of
        its cheapest swap; ``cost_rank``, the share of its swaps that cost less than that with its partner (half of
        those that cost as much), NaN where that is itself; ``correlation`` with its partner and ``own_correlation``.
    """
    m = len(costs)
    neuron = np.arange(m)
    others = np.where(np.eye(m, dtype=bool), np.inf, costs)
    with_partner = costs[neuron, partner][:, None]
    ranks = ((others < with_partner).sum(1) + 0.5 * ((others == with_partner).sum(1) - 1)) / max(m - 2, 1)
    return pd.DataFrame(
        {
            "neuron": neuron,
            "itself": partner == neuron,
            "cheapest": others.min(axis=1, initial=np.inf),
            "cost_rank": np.where(partner == neuron, np.nan, ranks),
            "correlation": correlations[neuron, partner].astype(float),
            "own_correlation": np.diag(correlations).astype(float),
        }
    )
