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
    "3a-law": story_online.simulate_law,
    "3a-mirror": story_online.simulate_falls,
    "phase-stationary": story_online.simulate_stationary,
    "7-norms": story_networks.simulate_forgetting,
}
SIMULATED = tuple(SIMULATIONS)


def simulate(name, generator):
    """Tables as the theory of a claim gives them."""
    return SIMULATIONS[name](generator)
