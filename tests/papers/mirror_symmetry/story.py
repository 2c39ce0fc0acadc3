"""Tables on which the paper on mirror symmetry is right, and how each claim's are spoiled."""

import functools

import numpy as np

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


def _of(column, value, **where):
    """A change of a column in some rows: to a value, or by a function of it."""

    def spoil(rows):
        chosen = np.logical_and.reduce([np.isin(rows[name], wanted) for name, wanted in where.items()])
        rows[column] = rows[column].astype(float)
        rows.loc[chosen, column] = value(rows.loc[chosen, column]) if callable(value) else value

    return spoil


PRODUCTS = {"scheme": ["hadamard"]}
VIOLATED = {
    **{name: SPOILED[name] for name in simulated.SIMULATIONS},
    "2-blocks": _of("value", lambda of: of + 1e-3, basis=["mirrors"]),
    "phase-alone": (story_online.LAW, _of("alone_4", lambda of: of - 0.2, d=[50])),
    "2-gamma-1": _of("measured", lambda of: 2 * of, part=["gamma_1"]),
    "2-eq-2": _of("measured", 0.1, part=["eq_2"]),
    **{f"thm1-{name}": _of("on", 1e-6, quantity=[name]) for name in ("gradient", "hessian")},
    "thm1-gradient-off": _of("off", 1e-9, quantity=["gradient"]),
    "thm1-stays": _of("on", 1e-9, quantity=["left"]),
    "thm1-growth": _of("off", lambda of: of + 0.1, quantity=["growth"]),
    "thm1-second-order": _of("on", 0.2, quantity=["second_order"]),
    "tasks-dead": _of("dead", -0.2, variant=["Hadamard"]),
    "6-merged": _of("merged", lambda of: 300 - of, epoch=[10]),
    "7-memory": _of("momentum", lambda of: 4 * of, **PRODUCTS),
    "7-memory-large": _of("activations", lambda of: 3 * of, **PRODUCTS),
    "edges-sign": story_online.attracted_everywhere,
    **dict.fromkeys(("removed-curvature", "removed-exponent", "removed-drawn"), story_networks.told_wrongly),
}
SIMULATED = tuple(SIMULATIONS)


def simulate(name, generator):
    """Tables as the theory of a claim gives them."""
    return SIMULATIONS[name](generator)
