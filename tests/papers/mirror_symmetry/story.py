"""Tables on which the paper on mirror symmetry is right, and how each claim's are spoiled."""

import functools

from ..spoiling import change, plus, times
from . import simulated, story_factors, story_networks, story_online

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
    "3a-half": story_online.simulate_law,
    "3a-slope": story_online.simulate_falls,
    "batch-noise": story_online.simulate_batches,
    "edges-sign": story_online.simulate_edges,
    "phase-stationary": story_online.simulate_stationary,
    "7-norms": story_networks.simulate_forgetting,
    "7-proximal": story_networks.simulate_learning,
    "7-time": story_networks.simulate_times,
    **dict.fromkeys(("removed-curvature", "removed-exponent", "removed-drawn"), story_networks.simulate_pairs),
    **simulated.SIMULATIONS,
}


VIOLATED = {
    **{name: SPOILED[name] for name in simulated.SIMULATIONS},
    "2-blocks": plus("value", 1e-3, basis="mirrors"),
    "phase-alone": (story_online.LAW, plus("alone_4", -0.2, d=50)),
    "2-gamma-1": times("measured", 2, part="gamma_1"),
    "2-eq-2": change("measured", 0.1, part="eq_2"),
    **{f"thm1-{name}": change("on", 1e-6, quantity=name) for name in ("gradient", "hessian")},
    "thm1-gradient-off": change("off", 1e-9, quantity="gradient"),
    "thm1-stays": change("on", 1e-9, quantity="left"),
    "thm1-growth": plus("off", 0.1, quantity="growth"),
    "thm1-second-order": change("on", 0.2, quantity="second_order"),
    "tasks-dead": change("dead", -0.2, variant="Hadamard"),
    "6-merged": change("merged", lambda rows: 300 - rows["merged"], epoch=10),
    "7-memory": times("momentum", 4, scheme="hadamard"),
    "7-memory-large": times("activations", 3, scheme="hadamard"),
    "edges-sign": story_online.attracted_everywhere,
    **dict.fromkeys(("removed-curvature", "removed-exponent", "removed-drawn"), story_networks.told_wrongly),
}
SIMULATED = tuple(SIMULATIONS)


def simulate(name, generator):
    """Tables as the theory of a claim gives them."""
    return SIMULATIONS[name](generator)
