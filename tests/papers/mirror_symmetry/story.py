"""Tables on which the paper on mirror symmetry is right, and how each claim's are spoiled."""

import functools

from . import story_factors, story_networks, story_online

SPOILED = story_networks.SPOILED | story_factors.SPOILED | story_online.SPOILED


@functools.cache
def tables():
    return story_networks.tables() | story_factors.tables() | story_online.tables()


def story(name):
    """The tables of the study that judges a claim or draws a figure."""
    if name == "7-proximal":
        return tables() | {"pruned.csv": story_networks.where_guess(tables()["pruned.csv"], "products")}
    if name == "7-norms":
        return tables() | {
            "history.csv": story_networks.forgets(tables()["history.csv"], hadamard=story_networks.SEEDS)
        }
    return story_online.at_full_rank(tables()) if name == "3b-residual" else tables()


SIMULATIONS = {
    **dict.fromkeys(("3a-law", "3a-half"), story_online.simulate_law),
    **dict.fromkeys(("3a-slope", "3a-mirror"), story_online.simulate_falls),
    "batch-noise": story_online.simulate_batches,
    "edges-sign": story_online.simulate_edges,
    "phase-stationary": story_online.simulate_stationary,
    "7-norms": story_networks.simulate_forgetting,
    "7-proximal": story_networks.simulate_learning,
    "7-time": story_networks.simulate_times,
    **dict.fromkeys(("removed-curvature", "removed-exponent", "removed-drawn"), story_networks.simulate_pairs),
}
VIOLATED = {
    "edges-sign": story_online.attracted_everywhere,
    **dict.fromkeys(("removed-curvature", "removed-exponent", "removed-drawn"), story_networks.told_wrongly),
}
SIMULATED = tuple(SIMULATIONS)


def simulate(name, generator):
    """Tables as the theory of a claim gives them."""
    return SIMULATIONS[name](generator)
