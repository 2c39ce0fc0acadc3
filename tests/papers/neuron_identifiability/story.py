"""Tables on which the paper on identifiability is right, and how each claim's are spoiled."""

import functools
import itertools

import numpy as np
import pandas as pd

from ..spoiling import change, plus, times
from .grid import (
    ALIGNED,
    ARCHITECTURES,
    IDENTIFIABLE,
    KINDS,
    LAMBDAS,
    OTHER_SCHEMES,
    PAIRS,
    SEEDS,
    SPLITS,
    described,
    noisy,
    rows_for,
)
from .spoiled import SPOILED as SPOILED
from .story_theory import (
    centre_gaps,
    chord_deviation,
    gram_deviation,
    hardness,
    loss_bounds,
    network_gaps,
    sensitivity,
    tail_energy,
    trade_off,
)


@rows_for(variant=ARCHITECTURES, epoch=(0, 1, 30, 60), pair=PAIRS, point=("hidden1", "hidden2"), permutation=KINDS)
def matching(variant, pair, permutation, **place):
    identity = (0.78 if variant in IDENTIFIABLE else 0.04) if place["epoch"] or variant in IDENTIFIABLE else 0.0
    value = {"optimal": 0.8, "identity": identity, "random": 0.0}[permutation]
    return described(variant, mask_seed=0, pair=pair, permutation=permutation, **place) | {
        "objective": noisy(value, pair)
    }


@rows_for(variant=OTHER_SCHEMES, epoch=(0, 30, 60), pair=PAIRS, point=("hidden1", "hidden2"), permutation=KINDS)
def other_matching(variant, pair, permutation, **place):
    value = {"optimal": 0.8, "identity": 0.01, "random": 0.0}[permutation]
    row = described(variant, mask_seed=0, pair=pair, permutation=permutation, **place)
    return row | {"objective": noisy(value, pair)}


@rows_for(variant=("w_0", "w_1"), fixed_fraction=(0.01, 0.05, 0.25), pair=range(2), permutation=KINDS)
def fractions(variant, fixed_fraction, pair, permutation):
    """Matching at the end for a sweep of the fraction of fixed weights (Fig. 10)."""
    identity = 0.7 if variant == "w_1" and fixed_fraction >= 0.05 else 0.1
    row = described(variant, fixed_fraction=fixed_fraction, mask_seed=0, pair=pair, epoch=5, point="hidden1")
    value = {"optimal": 0.8, "identity": identity, "random": 0.0}[permutation]
    return row | {"variant": f"{variant}_{fixed_fraction}", "permutation": permutation, "objective": value}


def drop_row(variant, drop, middle=None, **columns):
    row = {"mask_seed": 0, "barrier_max": drop / 10, "barrier_mid": drop / 10}
    return described(
        variant, **row | {"drop_max_pp": drop, "drop_mid_pp": drop if middle is None else middle} | columns
    )


@rows_for(variant=ARCHITECTURES, pair=PAIRS, aligned=ALIGNED, split=SPLITS)
def barriers(variant, pair, **path):
    drop = 1.0 if path["aligned"] or variant in IDENTIFIABLE else 20.0
    return drop_row(variant, noisy(drop, pair), drop, pair=pair, **path)


@rows_for(variant=OTHER_SCHEMES, pair=PAIRS, aligned=ALIGNED)
def other_barriers(variant, pair, aligned):
    return drop_row(variant, noisy(1.0 if aligned else 20.0, pair), pair=pair, aligned=aligned, split="train")


OF_BLOCKS = {"activation": np.nan, "norm": np.nan}
# Largest drops unaligned and aligned, as in the paper: alignment helps the syre networks too.
RESNETS = {"standard": (80.0, 8.0), "w_0": (78.0, 9.0), "w_3": (25.0, 7.0), "syre": (50.0, 9.0)}


@rows_for(variant=RESNETS, pair=PAIRS, aligned=ALIGNED, split=SPLITS)
def resnet_barriers(variant, pair, **path):
    return drop_row(variant, noisy(RESNETS[variant][path["aligned"]], pair), pair=pair, **path, **OF_BLOCKS)


def on_path(variant, accuracy, split, position, **columns):
    accuracy -= 0.1 * (split == "test")
    place = {"mask_seed": 0, "split": split, "lambda": position}
    return described(variant, **place, **columns) | {"loss": 1 - accuracy, "accuracy": accuracy}


@rows_for(variant=ARCHITECTURES, pair=PAIRS, aligned=ALIGNED, split=SPLITS, position=LAMBDAS)
def curves(variant, pair, aligned, split, position):
    """Both paths of the architectures of ``barriers``, at seven points."""
    drop = 0.01 if aligned or variant in IDENTIFIABLE else 0.2
    accuracy = noisy(0.98 - 4 * drop * position * (1 - position), pair)
    return on_path(variant, accuracy, split, position, pair=pair, aligned=aligned)


VIT_MIDPOINTS = {"standard": 0.3, "w_0": 0.32, "w_1": 0.65}


@rows_for(variant=VIT_MIDPOINTS, pair=PAIRS, split=SPLITS)
def vit_barriers(variant, pair, split):
    drop = 100 * (0.99 - noisy(VIT_MIDPOINTS[variant], pair))
    return drop_row(variant, drop, pair=pair, aligned=False, split=split, **OF_BLOCKS)


@rows_for(variant=VIT_MIDPOINTS, pair=PAIRS, split=SPLITS, position=(0.0, 0.5, 1.0))
def vit_curves(variant, pair, split, position):
    accuracy = noisy(VIT_MIDPOINTS[variant], pair) if position == 0.5 else 0.99
    return on_path(variant, accuracy, split, position, pair=pair, aligned=False, **OF_BLOCKS)


def of_mixture(k):
    return {"k": k, "source": "gmm", "classes": 5, "dataset": f"gmm_k{k}"}


@rows_for(variant=("w_0", "w_1"), k=(2, 8, 32), mask=range(4))
def gmm_barriers(variant, k, mask):
    """Four masks of a pair each: the drop falls with k at sigma_F = 1 and not at 0."""
    drop = 50.0 if variant == "w_0" else {2: 40.0, 8: 10.0, 32: 5.0}[k]
    row = drop_row(variant, drop, noisy(drop, mask), aligned=False, split="train", **of_mixture(k))
    return row | {"variant": f"{variant}_k{k}", "mask_seed": mask, "pair": 0}


@rows_for(k=(2, 8, 32), fixed_fraction=(1 / 64, 1 / 16, 1 / 4), mask=range(4))
def drops_by_fraction(k, fixed_fraction, mask):
    """Four masks of a pair each: at the fewest fixed weights the paper's drops, which fall by an eighth a doubling."""
    drop = {2: 46.4, 8: 15.7, 32: 6.1}[k] * (1 - np.log2(64 * fixed_fraction) / 8)
    row = drop_row("w_1", drop, noisy(drop, mask) + mask / 10, aligned=False, split="train", **of_mixture(k))
    row |= {"fixed_fraction": fixed_fraction, "variant": f"w_{fixed_fraction}_k{k}"}
    return row | {"mask_seed": mask, "pair": 0}


@rows_for(embedding=("exact_copy", "random_frame"), t=range(1, 11), pair=range(8))
def coherence_barriers(embedding, t, pair):
    row = {"study": "study", "embedding": embedding, "t": t, "mask_seed": pair // 2, "pair": pair % 2}
    return row | {"barrier_max": 1.0, "barrier_mid": noisy(0.02 * t, pair)}


def costs_of_layers(units, cost_of, m):
    """The costs of all pairs of m neurons for each of some units: dictionaries of columns."""
    i, j = np.triu_indices(m, 1)
    tables = [pd.DataFrame({"i": i, "j": j, "swap_cost": cost_of(unit, i, j)}).assign(**unit) for unit in units]
    return pd.concat(tables, ignore_index=True)


def swap_costs():
    """Four models a variant, three layers: costs around zero, except for the identifiable architectures."""
    generator = np.random.default_rng(0)

    def cost(unit, i, j):
        noise = generator.permutation(np.linspace(-1.0, 1.0, len(i)))
        of_broken = {"standard": 1e-9 * noise, "sigma_mlp": 1e-9 * noise, "w_0": 0.1 * noise}
        return of_broken.get(unit["variant"], 10.0 + noise)

    grid = itertools.product(ARCHITECTURES, SEEDS, (1, 2, 3))
    return costs_of_layers([described(v, mask_seed=0, seed=seed, layer=layer) for v, seed, layer in grid], cost, 12)


def gmm_swap_costs():
    generator = np.random.default_rng(0)
    spreads = {}

    def cost(unit, i, j):
        of_network = (unit["variant"], unit["mask_seed"])
        spread = spreads.setdefault(of_network, generator.permutation(np.linspace(-1.0, 1.0, len(i))))
        # At sigma_F = 1, costs reach down to zero at k = 2 and stay far from it at k = 32.
        return 0.01 * spread if unit["sigma_F"] == 0 else {2: 1.0, 8: 4.0, 32: 20.0}[unit["k"]] + spread

    units = [
        described(v, **of_mixture(k), mask_seed=mask, seed=0, layer=layer) | {"variant": f"{v}_k{k}"}
        for v, k, mask, layer in itertools.product(("w_0", "w_1"), (2, 8, 32), range(4), (1, 2))
    ]
    return costs_of_layers(units, cost, 20)


def swap_costs_by_width():
    """At W 1 and k = 2, four masks a width: a quarter of 8 and three quarters of 32 neurons have a cheap swap."""

    def of_width(m):
        def cost(unit, i, j):
            few = {8: 2, 32: 24}[m] + 2 * (unit["mask_seed"] == 2)
            return 1.0 - 0.95 * ((j == i + 1) & (i % 2 == 0) & (j < few))

        row = described("w_1", **of_mixture(2), seed=0, layer=1) | {"variant": f"w_widths{m}"}
        return costs_of_layers([row | {"mask_seed": mask} for mask in range(4)], cost, m)

    return pd.concat([of_width(8), of_width(32)], ignore_index=True)


@rows_for(variant=("w_0", "w_1"), pair=PAIRS, layer=(1, 2), neuron=range(8))
def neuron_places(variant, pair, layer, neuron):
    """Of eight neurons a layer, the costlier half keeps its place at sigma_F = 1 and none at 0."""
    kept = variant == "w_1" and (neuron >= 4 or (neuron == 1 and layer == 2))
    rank = noisy(0.3 if variant == "w_1" else 0.5, pair) + 0.01 * (layer == 2) * (1 if neuron % 2 else -1)
    row = described(variant, mask_seed=0, pair=pair, layer=layer, neuron=neuron, itself=kept)
    # Once a neuron that leaves is costlier than those that stay.
    row["cheapest"] = 100.0 if neuron == 0 and pair == 2 else 1.0 + neuron + 0.1 * layer
    return row | {"cost_rank": np.nan if kept else rank, "correlation": 0.7, "own_correlation": 0.5}


@rows_for(variant=ARCHITECTURES, seed=range(2), neuron=range(10))
def neurons(variant, seed, neuron):
    """Circles of radius 1; what runs A and B learned is far apart, but in networks with fixed weights."""
    angle = neuron + (0.05 if variant in IDENTIFIABLE else 2.5) * seed
    row = described(variant, mask_seed=0, seed=seed, neuron=neuron, S_11=1.0, S_12=0.0, S_22=1.0, v_2=0.0)
    row["v_1"] = 3.0 * neuron * (variant in IDENTIFIABLE)
    return row | {"a_1": row["v_1"] + np.cos(angle), "a_2": np.sin(angle)}


def at_betas(costs, others):
    """A ridge table: all pairs of ``costs`` at 0.01; consecutive ones at other betas, with misleading costs."""
    costs = costs.assign(beta=0.01)
    consecutive = costs[(costs["j"] == costs["i"] + 1) & (costs["i"] % 2 == 0)]
    tables = [consecutive.assign(beta=beta, swap_cost=cost) for beta, cost in others.items()]
    table = pd.concat([tables[0], costs, *tables[1:]], ignore_index=True)
    return table.assign(reported=table["beta"] == 0.01)


def ridge_swap_costs():
    costs = swap_costs()
    # Frozen batch norms keep the costs of standard networks from being exactly zero.
    costs.loc[costs["variant"] == "standard", "swap_cost"] *= 2e8
    costs.loc[costs["variant"].isin(IDENTIFIABLE), "swap_cost"] += 1.0
    return at_betas(costs, {0.001: -1.0, 1.0: 5.0})


def gmm_ridge_swap_costs():
    return at_betas(gmm_swap_costs(), {0.001: -1.0, 1.0: 0.5})


@rows_for(variant=ARCHITECTURES, seed=SEEDS, layer=(1, 2, 3), beta=(0.001, 0.01, 1.0), pairs=("consecutive", "block"))
def estimators(variant, seed, layer, beta, pairs):
    if pairs == "block" and beta != 0.01:
        return None
    row = described(variant, mask_seed=0, seed=seed, layer=layer, beta=beta, reported=beta == 0.01, pairs=pairs)
    if pairs == "consecutive":
        return row | {"spearman": -0.5}
    spearman = {"standard": np.nan, "sigma_mlp": np.nan, "w_0": 0.2}.get(variant, 0.8)
    return row | {"spearman": noisy(spearman, seed)}


@rows_for(variant=ARCHITECTURES, seed=SEEDS, epoch=(0, 60), point=("input", "hidden1", "hidden2", "output"))
def subspaces(variant, seed, epoch, point):
    nu = 0.6 if variant in IDENTIFIABLE and epoch and point.startswith("hidden") else 0.3
    row = described(variant, mask_seed=0, seed=seed, epoch=epoch, point=point, d=64, k_subspace=9)
    return row | {"nu": noisy(nu, seed), "explained": 0.9}


# From the least identifiable to the most: the identity's objective, the swap cost, the unaligned drop.
THESIS = {
    "sigma_mlp": (0.01, 0.0, 30.0),
    "standard": (0.06, 0.0, 25.0),
    "w_0": (0.12, 0.1, 20.0),
    "w_1": (0.6, 5.0, 5.0),
    "syre": (0.7, 8.0, 2.0),
    "w_3": (0.78, 10.0, 1.0),
}


def thesis_matching():
    table = matching()
    identity = table["variant"].map(lambda variant: THESIS[variant][0])
    return table.assign(objective=table["objective"].where(table["permutation"] != "identity", identity))


def of_thesis(table, column, place, unit, scatter):
    """Units' mean is not their median."""
    planted = table["variant"].map(lambda variant: THESIS[variant][place])
    return table.assign(**{column: planted + scatter * table[unit] ** 1.5})


def barriers_with_half():
    """Some is lost with a small scale."""
    table = barriers()
    half = table[table["variant"] == "w_1"].assign(variant="w_half", sigma_F=0.5)
    return pd.concat([table, half], ignore_index=True)


OTHER_BARRIERS = {"barriers.csv": other_barriers, "curves.csv": curves}
FIGURES = {
    "4a-others": OTHER_BARRIERS,
    "4c-others": OTHER_BARRIERS,
    "7-residual": {"matching.csv": other_matching},
    "7-sparse": {"matching.csv": other_matching},
    "4c": {"barriers.csv": barriers_with_half, "curves.csv": curves},
    "thesis": {
        "matching.csv": thesis_matching,
        "swap_costs.parquet": lambda: of_thesis(swap_costs(), "swap_cost", 1, "seed", 0.01),
        "barriers.csv": lambda: of_thesis(barriers(), "drop_max_pp", 2, "pair", 0.05),
    },
    "2": {"neurons.csv": neurons},
    "neurons": {"neuron_places.parquet": neuron_places},
    "sec6": {"barriers.csv": lambda: gmm_barriers().assign(drop_mid_pp=lambda table: 1.1 * table["drop_mid_pp"])},
    "fractions": {"barriers.csv": drops_by_fraction},
    "thm4.6": {"swap_costs.parquet": swap_costs_by_width},
    "4b": {"barriers.csv": resnet_barriers, "curves.csv": curves},
    "4d": {"barriers.csv": resnet_barriers, "curves.csv": curves},
    "5": {"swap_costs.parquet": gmm_swap_costs, "barriers.csv": gmm_barriers},
    "6": {"coherence_barriers.csv": coherence_barriers},
    "10": {"matching.csv": fractions},
    "11": {"centre_gaps.csv": centre_gaps},
    "13": {"swap_costs.parquet": gmm_swap_costs, "ridge_swap_costs.parquet": gmm_ridge_swap_costs},
    "20": {"barriers.csv": vit_barriers, "curves.csv": vit_curves},
    "15": {"ridge_swap_costs.parquet": gmm_ridge_swap_costs},
    "thmC.10": {"hardness.csv": hardness},
    "thm4.8": {"network_gaps.csv": network_gaps, "centre_gaps.csv": centre_gaps},
}
OTHERS = {
    "matching.csv": matching,
    "barriers.csv": barriers,
    "curves.csv": curves,
    "swap_costs.parquet": swap_costs,
    "subspaces.csv": subspaces,
    "ridge_swap_costs.parquet": ridge_swap_costs,
    "estimators.csv": estimators,
    "gram_deviation.csv": gram_deviation,
    "sensitivity.csv": sensitivity,
    "chord_deviation.csv": chord_deviation,
    "tail_energy.csv": tail_energy,
    "loss_bounds.csv": loss_bounds,
    "trade_off.csv": trade_off,
}
built = functools.cache(lambda build: build())


def story(name):
    """The tables of the study that judges a claim or draws a figure, on which the paper's story is true."""
    tables = FIGURES.get(name) or FIGURES.get(name.partition("-")[0], OTHERS)
    return {table: built(build) for table, build in tables.items()}


def closest_points(name, generator):
    """The least of the m (m - 1) / 2 distances of random points in k dimensions: its k-th power is exponential."""
    k = int(name.removeprefix("11-k"))
    rows = [
        {"study": "s", "dataset": "gmm", "k": k, "d": 64, "m": m, "draw": draw, "sigma_F": 1.0, "fixed_fraction": share}
        | {"gamma_out": (generator.exponential() / (m * (m - 1) / 2)) ** (1 / k), "row_gap": 1.0, "gamma_in": 1.0}
        for share in (0.125, 1.0)
        for m in 2 ** np.arange(4, 12)
        for draw in range(12)
    ]
    return {"centre_gaps.csv": pd.DataFrame(rows)}


def any_order(generator, pairs=4, layers=3, width=128):
    """At sigma_F = 0 each order is as likely as any other, so that a neuron's partner is one of all at random."""
    places = pd.DataFrame(
        itertools.product(range(pairs), range(1, layers + 1), range(width)), columns=["pair", "layer", "neuron"]
    )
    partner = np.concatenate([generator.permutation(width) for _ in range(pairs * layers)])
    places = places.assign(itself=partner == places["neuron"], cost_rank=generator.integers(0, width - 1, len(places)))
    places["cost_rank"] = (places["cost_rank"] / (width - 2)).where(~places["itself"])
    return {"neuron_places.parquet": places.assign(cheapest=1.0, **described("w_0", mask_seed=0))}


def unrelated_neurons(name, generator, width=128):
    """Where nothing tells neurons apart the identity is a random permutation: a mean of that many correlations."""
    table = story(name)["matching.csv"].copy()
    free = (table["variant"] == "w_0") & (table["permutation"] != "optimal")
    table.loc[free, "objective"] = generator.normal(0, 0.2 / np.sqrt(width), free.sum())
    return {"matching.csv": table}


SIMULATED = ("11-k2", "11-k8", "11-k32", "neurons-control", "3a-unbroken", "8-unbroken")


def simulate(name, generator):
    if name == "neurons-control":
        return any_order(generator)
    return (closest_points if name.startswith("11") else unrelated_neurons)(name, generator)


# How a table that theory made is changed, so that the claim fails.
VIOLATED = {
    "neurons-control": times("cost_rank", 0.6),
    **dict.fromkeys(("3a-unbroken", "8-unbroken"), plus("objective", 0.3, variant="w_0", permutation="identity")),
    **{
        name: change("gamma_out", lambda rows: rows["gamma_out"] * rows["m"] ** (-2.0 / rows["k"]))
        for name in ("11-k2", "11-k8", "11-k32")
    },
}
