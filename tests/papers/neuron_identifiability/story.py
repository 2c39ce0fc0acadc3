"""Tables on which the paper on identifiability is right, and how each claim's are spoiled."""

import functools
import itertools

import numpy as np
import pandas as pd

DESCRIPTION = ["study", "variant", "family", "scheme", "sigma_F", "fixed_fraction", "activation", "norm", "dataset"]
DESCRIPTION += ["source", "classes", "k", "embedding", "t", "target_nu"]
# name: (scheme, sigma_F, activation)
ARCHITECTURES = {
    "standard": ("standard", np.nan, "gelu"),
    "w_0": ("w_asymmetric", 0.0, "gelu"),
    "w_1": ("w_asymmetric", 1.0, "gelu"),
    "w_3": ("w_asymmetric", 3.0, "gelu"),
    "syre": ("syre", 1.0, "gelu"),
    "sigma_mlp": ("standard", np.nan, "sigma"),
}
OTHER_SCHEMES = {"sparse": ("sparse", np.nan, "gelu"), "residual": ("residual", np.nan, "gelu")}
IDENTIFIABLE = ("w_1", "w_3", "syre")


def described(variant, **columns):
    scheme, sigma_F, activation = (ARCHITECTURES | OTHER_SCHEMES)[variant]
    description = dict.fromkeys(DESCRIPTION, np.nan)
    description |= {"study": "study", "variant": variant, "family": variant.split("_")[0], "norm": "layernorm"}
    description |= {"source": "digits", "classes": 10}
    return description | {"scheme": scheme, "sigma_F": sigma_F, "activation": activation, "dataset": "digits"} | columns


def noisy(value, index):
    """The value with a deviation that averages out over pairs of indices."""
    return value + (0.01 if index % 2 else -0.01)


def rows_for(**axes):
    """A table with a row for each combination of values, which the decorated function gives (None: there is none)."""

    def decorate(row):
        def build():
            made = (row(**dict(zip(axes, at, strict=True))) for at in itertools.product(*axes.values()))
            return pd.DataFrame([each for each in made if each is not None])

        return build

    return decorate


PAIRS, SEEDS, LAMBDAS = range(4), range(4), np.linspace(0, 1, 7)
KINDS, SPLITS, ALIGNED = ("optimal", "identity", "random"), ("train", "test"), (False, True)
TRAINED = ("standard", "w_0", "w_1", "w_3", "syre")


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


@rows_for(variant=OTHER_SCHEMES, pair=PAIRS, aligned=ALIGNED)
def other_barriers(variant, pair, aligned):
    return drop_row(variant, noisy(1.0 if aligned else 20.0, pair), pair=pair, aligned=aligned, split="train")


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
    """Of eight neurons a layer, the dearer half keeps its place at sigma_F = 1 and none at 0."""
    kept = variant == "w_1" and (neuron >= 4 or (neuron == 1 and layer == 2))
    rank = noisy(0.3 if variant == "w_1" else 0.5, pair) + 0.01 * (layer == 2) * (1 if neuron % 2 else -1)
    row = described(variant, mask_seed=0, pair=pair, layer=layer, neuron=neuron, itself=kept)
    # Once a neuron that leaves is dearer than those that stay.
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
        return row | {"n_pairs": 6, "spearman": -0.5, "sign_agreement": 0.5}
    spearman = {"standard": np.nan, "sigma_mlp": np.nan, "w_0": 0.2}.get(variant, 0.8)
    return row | {"n_pairs": 66, "spearman": noisy(spearman, seed), "sign_agreement": 1}


@rows_for(variant=TRAINED, seed=SEEDS, layer=(1, 2), masks=("own", "fresh"))
def gram_deviation(variant, seed, layer, masks):
    trained = masks == "own" and layer > 1
    row = described(
        variant, mask_seed=0, seed=seed, layer=layer, masks=masks, k_subspace=9, nu=0.3 + layer / 10, mu_D=0.8
    )
    row |= {"sigma_D2": 0.0 if variant == "standard" else 0.16, "b_D": 0.8, "delta": 0.05, "deviation_median": 0.2}
    row |= {"deviation_max": 2.0 if trained else 0.4, "bound": 1.0, "bound_all": 1.5}
    row |= {"share_above": 0.3 if trained else noisy(0.02, seed), "assumption": "U depends on D" if trained else ""}
    if variant == "standard":
        row |= {"deviation_max": 1e-16, "bound": 0.0, "bound_all": 0.0, "share_above": 1.0}
    return row


@rows_for(variant=TRAINED, seed=SEEDS, layer=(1, 2), side=("output", "input"), draw=range(3))
def sensitivity(variant, draw, **place):
    rho = {"w_1": 0.5, "syre": 1.5, "w_3": 0.05}.get(variant, np.inf)
    row = described(variant, mask_seed=0, **place, permutation="random", draw=draw, leading=10.0, rho=rho, eps=0.1)
    row |= {"mu_D": 0.8, "cost": noisy(12.0, draw), "bound": 2 * rho + 0.2, "assumption": ""}
    if not rho <= 1:
        row |= {"cost": 50.0, "bound": np.nan, "assumption": f"rho = {rho + 0.1 * draw:.2g} > 1"}
    if rho == np.inf:
        row |= {"leading": 0.0, "assumption": "F = 0: no leading term"}
    return row


@rows_for(variant=TRAINED, seed=SEEDS, layer=(1, 2), gap=("out", "in"))
def network_gaps(variant, **place):
    row = described(variant, mask_seed=0, **place, m=64, d_in=64, k_subspace=9, nu=0.4, gamma=2.0, lower=0.5)
    row |= {"upper": 4.0 if place["gap"] == "in" else np.nan, "assumption": ""}
    if variant in ("standard", "w_0"):
        row |= {"gamma": 0.0, "lower": np.nan, "upper": np.nan, "assumption": "F = 0: no gap"}
    return row


@rows_for(
    variant=("w_0", "w_1", "w_3"),
    pair=range(2),
    layer=(1, 2),
    inputs=("gaussian", "data"),
    nonlinearity=("relu", "gelu"),
    scale=(3.0, 1.0, 0.1, 0.03, 0.01, 0.003, 0.001),
)
def chord_deviation(variant, inputs, nonlinearity, scale, **place):
    beta = scale * {"w_0": np.inf, "w_1": 0.9, "w_3": 0.3}[variant]
    exponent = {"relu": 1.5, "gelu": 2.0}[nonlinearity]
    # Above the beta up to which slopes are measured, the deviation levels off.
    chord = min(beta, {"relu": 0.1, "gelu": 0.01}[nonlinearity]) ** exponent
    row = described(variant, mask_seed=0, **place, inputs=inputs, nonlinearity=nonlinearity, scale=scale, beta=beta)
    row |= {"chord": chord, "norm_F": 5.0, "bound": 4 * beta**exponent, "assumption": ""}
    if not beta < 1:
        row |= {"bound": np.nan, "assumption": f"beta = {beta:.2g} >= 1"}
    return row if inputs == "gaussian" else row | {"chord": 9.0, "assumption": "inputs are not Gaussian"}


@rows_for(variant=ARCHITECTURES, pair=PAIRS, aligned=ALIGNED, split=SPLITS)
def loss_bounds(variant, pair, **path):
    row = described(variant, mask_seed=0, pair=pair, **path, barrier_max=0.5, lambda_max=0.5, excess_max=0.0)
    row |= {"gap_mid": -0.1 if path["aligned"] else 0.5, "assumption": ""}
    return row | dict.fromkeys(("bound_at_max", "bound_mid"), noisy(3.0, pair))


@rows_for(sigma_F=(0.0, 1.0, 3.0, 10.0, None), pair=PAIRS)
def trade_off(sigma_F, pair):
    if sigma_F is None:
        return described("standard", mask_seed=0, pair=pair, val_accuracy=0.99, identity_ratio=0.0)
    accuracy = {0.0: 0.95, 1.0: 0.97, 3.0: 0.96, 10.0: 0.9}[sigma_F] + noisy(0.0, pair) / 10
    row = described("w_1", sigma_F=sigma_F, mask_seed=0, pair=pair, train_accuracy=1.0, val_accuracy=accuracy)
    return row | {"variant": f"w_{sigma_F:g}", "identity_ratio": 0.1 if sigma_F == 0 else 0.97, "train_loss": 0.01}


@rows_for(k=(2, 8, 32), fixed_fraction=(0.125, 1.0), m=(16, 64, 256, 1024, 2048), draw=range(4))
def centre_gaps(k, m, draw, fixed_fraction):
    row = {"dataset": f"gmm_k{k}", "k": k, "d": 128, "m": m, "draw": draw, "sigma_F": 1.0, "row_gap": 0.1}
    row |= {"fixed_fraction": fixed_fraction, "gamma_out": (1 + 0.1 * draw) * m ** (-2 / k)}
    # Widths that are not large beside log d have far smaller gaps than the rate says.
    return row | {"gamma_in": (1 + 0.1 * draw) * (m**0.5 if m >= 256 else 0.01)}


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


def thesis_swap_costs():
    table = swap_costs()
    return table.assign(swap_cost=table["variant"].map(lambda variant: THESIS[variant][1]) + table["seed"] / 100)


def thesis_barriers():
    table = barriers()
    return table.assign(drop_max_pp=table["variant"].map(lambda variant: THESIS[variant][2]) + table["pair"] / 100)


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
        "swap_costs.parquet": thesis_swap_costs,
        "barriers.csv": thesis_barriers,
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
    "loss_bounds.csv": loss_bounds,
    "trade_off.csv": trade_off,
}
built = functools.cache(lambda build: build())


def story(name):
    """The tables of the study that judges a claim or draws a figure, on which the paper's story is true."""
    tables = FIGURES.get(name) or FIGURES.get(name.partition("-")[0], OTHERS)
    return {table: built(build) for table, build in tables.items()}


# How to spoil the table that a claim reads: each function changes values in place.


def objectives(table, value, variant=None, epoch=None, permutation="identity", point=None):
    rows = table["permutation"] == permutation
    rows &= table["variant"].isin([variant] if variant else table["variant"].unique())
    if epoch is not None:
        rows &= table["epoch"] == epoch
    if point is not None:
        rows &= table["point"] == point
    table.loc[rows, "objective"] = value


def costs(table, value, variants=None, layer=None, k=None):
    rows = table["swap_cost"].notna()
    if variants:
        rows &= table["variant"].isin(variants)
    if layer:
        rows &= table["layer"] == layer
    if k:
        rows &= table["k"] == k
    table.loc[rows, "swap_cost"] = value


def shift_costs(table, by, k, layer=1):
    table.loc[(table["k"] == k) & (table["sigma_F"] == 1) & (table["layer"] == layer), "swap_cost"] += by


def column(table, name, value, **where):
    rows = pd.Series(True, index=table.index)
    for key, wanted in where.items():
        rows &= table[key] == wanted
    table.loc[rows, name] = value


def sigma_costs(table, sigma_F, value, k=None):
    rows = table["sigma_F"] == sigma_F
    if k:
        rows &= table["k"] == k
    table.loc[rows, "swap_cost"] = value


GMM_SPOILED = {
    "near-zero": lambda t: sigma_costs(t, 0, 0.6, k=2),
    "growth": lambda t: shift_costs(t, -17.0, k=32),
    "cheap-swaps": lambda t: sigma_costs(t, 1, 1.0, k=2),
}


def _cheap_row(table):
    table.loc[(table["k"] == 32) & (table["i"] == 0), "swap_cost"] = 0.0


GMM_SPOILED["diagonal"] = _cheap_row


def tilt(k, exponent):
    def spoil(table):
        rows = table["k"] == k
        table.loc[rows, "gamma_out"] = table.loc[rows, "m"].astype(float) ** exponent

    return spoil


def sweep_spoiled(figure, large):
    return {
        f"{figure}-unbroken": lambda t: objectives(t, 0.2, "w_0", 60),
        f"{figure}-identifiable": lambda t: objectives(t, 0.7, large, 60),
        f"{figure}-random": lambda t: objectives(t, 0.5, "w_3", 60, "random"),
    }


def transition_spoiled(figure):
    return {
        f"{figure}-above-random": lambda t: objectives(t, -0.1, "w_0", 60),
        f"{figure}-transition": lambda t: (objectives(t, 0.05, "w_1", 60), objectives(t, 0.5, "w_3", 60)),
        f"{figure}-rise": lambda t: objectives(t, 0.5, "w_3", 60),
    }


SPOILED = {
    "sec6-size": lambda t: column(t, "drop_mid_pp", 3.0, k=2),
    "fractions-size": lambda t: column(t, "drop_mid_pp", 3.0, k=2, fixed_fraction=1 / 64),
    "fractions-fall": lambda t: column(t, "drop_mid_pp", 20.0, k=32, fixed_fraction=1 / 4),
    "neurons-kept": lambda t: column(t, "cheapest", 0.5, variant="w_1", itself=True),
    "neurons-partner": lambda t: column(t, "cost_rank", 0.6, variant="w_1", itself=False),
    "neurons-control": lambda t: column(t, "cost_rank", 0.3, variant="w_0", layer=1),
    **sweep_spoiled("3a", "w_3"),
    **sweep_spoiled("3b", "w_3"),
    **sweep_spoiled("8", "w_1"),
    **sweep_spoiled("9", "w_3"),
    **transition_spoiled("3a"),
    **transition_spoiled("3b"),
    "3c-apart": lambda t: objectives(t, 0.5, "w_1", 30),
    "3c-untrained": lambda t: objectives(t, 0.5, "syre", 0),
    "7-apart": lambda t: objectives(t, 0.3, "w_0", 30, point="hidden2"),
    "thesis-identity": lambda t: objectives(t, 0.0, "w_3", 60),
    "thesis-swap-cost": lambda t: costs(t, -1.0, ["w_3"]),
    "7-sigma": lambda t: objectives(t, 0.1, "sigma_mlp", 30, point="hidden1"),
    "7-syre": lambda t: objectives(t, 0.7, "syre", 60, point="hidden1"),
    "4a-barrier": lambda t: column(t, "drop_max_pp", 9.0, variant="w_0", aligned=False),
    "4a-connected": lambda t: column(t, "drop_max_pp", 4.0, variant="w_3", aligned=False),
    "4b-barrier": lambda t: column(t, "drop_max_pp", 9.0, variant="standard", aligned=False),
    "4b-lowered": lambda t: column(t, "drop_max_pp", 45.0, variant="w_3", aligned=False),
    "4c-aligned": lambda t: column(t, "drop_max_pp", 4.0, variant="w_0", aligned=True),
    "4c-sigma": lambda t: column(t, "drop_max_pp", 4.0, variant="sigma_mlp", aligned=True),
    "4a-others": lambda t: column(t, "drop_max_pp", 9.0, variant="residual", aligned=False),
    "4c-others": lambda t: column(t, "drop_max_pp", 4.0, variant="sparse", aligned=True),
    "7-residual": lambda t: objectives(t, 0.1, "residual", 30, point="hidden2"),
    "7-sparse": lambda t: objectives(t, 0.2, "sparse", 60, point="hidden1"),
    "4c-alike": lambda t: column(t, "drop_max_pp", 5.0, variant="w_0", aligned=True),
    "4d-alike": lambda t: column(t, "drop_max_pp", 45.0, variant="w_0", aligned=True),
    "4d-aligned": lambda t: column(t, "drop_max_pp", 11.0, variant="w_0", aligned=True),
    "4d-lowered": lambda t: column(t, "drop_max_pp", 45.0, variant="w_0", aligned=True),
    "4d-syre": lambda t: column(t, "drop_max_pp", 50.5, variant="syre", aligned=True),
    "20-barrier": lambda t: column(t, "drop_mid_pp", 9.0, variant="w_0", aligned=False),
    "20-alike": lambda t: column(t, "accuracy", 0.2, **{"variant": "w_0", "lambda": 0.5}),
    "20-higher": lambda t: column(t, "accuracy", 0.6, **{"variant": "w_0", "lambda": 0.5}),
    "20-remaining": lambda t: column(t, "drop_mid_pp", 9.0, variant="w_1"),
    **{f"5-{name}": spoil for name, spoil in GMM_SPOILED.items()},
    **{f"15-{name}": spoil for name, spoil in GMM_SPOILED.items()},
    "5-drop": lambda t: column(t, "drop_mid_pp", 11.0, k=32, sigma_F=1),
    "thm4.6-width": lambda t: column(t, "swap_cost", 1.0, variant="w_widths32"),
    "6-ends": lambda t: column(t, "barrier_mid", 0.1, t=1),
    "6-trend": lambda t: column(t, "barrier_mid", 0.0, t=8),
    "10-sparse": lambda t: objectives(t, 0.3, "w_0_0.25"),
    "10-fixed": lambda t: objectives(t, 0.5, "w_1_0.05"),
    "11-k2": tilt(2, -0.7),
    "11-k8": tilt(8, -0.35),
    "11-k32": tilt(32, -0.1),
    "12-positive": lambda t: costs(t, 0.0, ["syre"], 3),
    "12-around-zero": lambda t: costs(t, 2.0, ["w_0"], 3),
    "13-sigma": lambda t: sigma_costs(t, 0, 5.0, k=8),
    "13-growth": lambda t: shift_costs(t, -17.0, k=32, layer=2),
    "21-layers": lambda t: column(t, "nu", 0.65, variant="w_0", point="hidden2", epoch=60),
    "12-ridge-positive": lambda t: costs(t, 0.0, ["syre"], 1),
    "12-ridge-around-zero": lambda t: costs(t, 1.5, ["w_0"], 3),
    "13-ridge-sigma": lambda t: sigma_costs(t, 0, 5.0, k=8),
    "13-ridge-growth": lambda t: shift_costs(t, -17.0, k=32),
    "ridge-rank": lambda t: column(t, "spearman", 0.4, variant="syre", layer=2),
    "ridge-order": lambda t: costs(t, 12.0, ["w_0"], 2),
    "thm4.4-share": lambda t: column(t, "share_above", 0.06, variant="w_1", layer=2, masks="fresh"),
    "thm4.4-all": lambda t: column(t, "deviation_max", 1.6, variant="w_1", layer=2, masks="fresh"),
    "thm4.5-bound": lambda t: column(t, "cost", 23.0, variant="w_1", side="output", layer=2, draw=1),
    "thm4.5-leading": lambda t: column(t, "cost", 16.0, variant="w_3", side="output"),
    "thm4.7-bound": lambda t: column(t, "cost", -2.5, variant="w_1", side="input", layer=2, draw=1),
    "thm4.7-leading": lambda t: column(t, "cost", 4.0, variant="w_3", side="input"),
    "thm4.8-out": lambda t: column(t, "gamma", 0.4, variant="w_1", gap="out", layer=2, seed=1),
    "thm4.8-in": lambda t: column(t, "gamma", 4.1, variant="w_1", gap="in", layer=2, seed=1),
    "thm4.8-growth": lambda t: column(t, "gamma_in", 30.0, k=8, m=2048),
    "sec4.5-trade-off": lambda t: column(t, "identity_ratio", 0.8, sigma_F=10.0),
    "thm5.1-relu-bound": lambda t: column(t, "chord", 9.0, variant="w_3", nonlinearity="relu", scale=0.01, layer=2),
    "thm5.1-gelu-bound": lambda t: column(t, "chord", 9.0, variant="w_3", nonlinearity="gelu", scale=0.01, layer=2),
    "thm5.1-relu-slope": lambda t: column(t, "chord", 1e-3, nonlinearity="relu", scale=0.001),
    "thm5.1-gelu-slope": lambda t: column(t, "chord", 1e-5, nonlinearity="gelu", scale=0.001),
    "prop5.2-bound": lambda t: column(t, "excess_max", 1e-4, variant="syre", pair=3, aligned=True, split="test"),
}


SIMULATED = ("11-k2", "11-k8")


def simulate(name, generator):
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
