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
IDENTIFIABLE = ("w_1", "w_3", "syre")


def described(variant, **columns):
    scheme, sigma_F, activation = ARCHITECTURES[variant]
    description = dict.fromkeys(DESCRIPTION, np.nan)
    description |= {"study": "study", "variant": variant, "family": variant.split("_")[0], "norm": "layernorm"}
    description |= {"source": "digits", "classes": 10}
    return description | {"scheme": scheme, "sigma_F": sigma_F, "activation": activation, "dataset": "digits"} | columns


def noisy(value, index):
    """The value with a deviation that averages out over pairs of indices."""
    return value + (0.01 if index % 2 else -0.01)


def matching():
    rows = []
    grid = itertools.product(ARCHITECTURES, (0, 1, 30, 60), range(4), ("hidden1", "hidden2"))
    for variant, epoch, pair, point in grid:
        identity = 0.78 if variant in IDENTIFIABLE else 0.04
        started = epoch or variant in IDENTIFIABLE
        values = {"optimal": 0.8, "identity": identity if started else 0.0, "random": 0.0}
        columns = {"mask_seed": 0, "pair": pair, "epoch": epoch, "point": point}
        for permutation, value in values.items():
            row = described(variant) | columns
            rows.append(row | {"permutation": permutation, "objective": noisy(value, pair)})
    return pd.DataFrame(rows)


def fractions():
    """Matching at the end for a sweep of the fraction of fixed weights (Fig. 10)."""
    rows = []
    for variant, fraction, pair in itertools.product(("w_0", "w_1"), (0.01, 0.05, 0.25), range(2)):
        identity = 0.7 if variant == "w_1" and fraction >= 0.05 else 0.1
        for permutation, value in {"optimal": 0.8, "identity": identity, "random": 0.0}.items():
            row = described(variant, fixed_fraction=fraction) | {"variant": f"{variant}_{fraction}"}
            row |= {"mask_seed": 0, "pair": pair, "epoch": 5, "point": "hidden1"}
            rows.append(row | {"permutation": permutation, "objective": value})
    return pd.DataFrame(rows)


def barriers():
    rows = []
    for variant, pair, aligned, split in itertools.product(ARCHITECTURES, range(4), (False, True), ("train", "test")):
        drop = 1.0 if aligned or variant in IDENTIFIABLE else 20.0
        columns = {"mask_seed": 0, "pair": pair, "aligned": aligned, "split": split}
        values = {
            "barrier_max": drop / 10,
            "barrier_mid": drop / 10,
            "drop_max_pp": noisy(drop, pair),
            "drop_mid_pp": drop,
        }
        rows.append(described(variant) | columns | values)
    return pd.DataFrame(rows)


def resnet_barriers():
    rows = []
    # Largest drops unaligned and aligned, as in the paper: alignment helps the syre networks too.
    drops = {"standard": (80.0, 8.0), "w_0": (78.0, 9.0), "w_3": (25.0, 7.0), "syre": (50.0, 9.0)}
    for (variant, of_variant), pair, aligned, split in itertools.product(
        drops.items(), range(4), (False, True), ("train", "test")
    ):
        drop = noisy(of_variant[aligned], pair)
        columns = {"mask_seed": 0, "pair": pair, "aligned": aligned, "split": split}
        values = {"barrier_max": drop / 10, "barrier_mid": drop / 10, "drop_max_pp": drop, "drop_mid_pp": drop}
        rows.append(described(variant, activation=np.nan, norm=np.nan) | columns | values)
    return pd.DataFrame(rows)


def curves():
    """Both paths of the architectures of ``barriers``, at seven points."""
    rows = []
    grid = itertools.product(ARCHITECTURES, range(4), (False, True), ("train", "test"), np.linspace(0, 1, 7))
    for variant, pair, aligned, split, position in grid:
        drop = 0.01 if aligned or variant in IDENTIFIABLE else 0.2
        accuracy = noisy(0.98 - 4 * drop * position * (1 - position), pair) - 0.1 * (split == "test")
        columns = {"mask_seed": 0, "pair": pair, "aligned": aligned, "split": split, "lambda": position}
        rows.append(described(variant) | columns | {"loss": 1 - accuracy, "accuracy": accuracy})
    return pd.DataFrame(rows)


VIT_MIDPOINTS = {"standard": 0.3, "w_0": 0.32, "w_1": 0.65}


def vit_barriers():
    rows = []
    for (variant, middle), pair, split in itertools.product(VIT_MIDPOINTS.items(), range(4), ("train", "test")):
        drop = 100 * (0.99 - noisy(middle, pair))
        columns = {"mask_seed": 0, "pair": pair, "aligned": False, "split": split}
        values = {"barrier_max": drop / 10, "barrier_mid": drop / 10, "drop_max_pp": drop, "drop_mid_pp": drop}
        rows.append(described(variant, activation=np.nan, norm=np.nan) | columns | values)
    return pd.DataFrame(rows)


def vit_curves():
    rows = []
    for (variant, middle), pair, split, position in itertools.product(
        VIT_MIDPOINTS.items(), range(4), ("train", "test"), (0.0, 0.5, 1.0)
    ):
        accuracy = (noisy(middle, pair) if position == 0.5 else 0.99) - 0.1 * (split == "test")
        columns = {"mask_seed": 0, "pair": pair, "aligned": False, "split": split, "lambda": position}
        row = described(variant, activation=np.nan, norm=np.nan) | columns
        rows.append(row | {"loss": 1 - accuracy, "accuracy": accuracy})
    return pd.DataFrame(rows)


def gmm_barriers():
    """Four masks of a pair each: the drop falls with k at sigma_F = 1 and not at 0."""
    rows = []
    for variant, k, mask in itertools.product(("w_0", "w_1"), (2, 8, 32), range(4)):
        drop, pair = 50.0 if variant == "w_0" else {2: 40.0, 8: 10.0, 32: 5.0}[k], mask
        row = described(variant, k=k, source="gmm", classes=5, dataset=f"gmm_k{k}") | {"variant": f"{variant}_k{k}"}
        row |= {"mask_seed": mask, "pair": 0, "aligned": False, "split": "train"}
        rows.append(
            row | {"barrier_max": 0.1, "barrier_mid": 0.1, "drop_max_pp": drop, "drop_mid_pp": noisy(drop, pair)}
        )
    return pd.DataFrame(rows)


def drops_by_fraction():
    """Four masks of a pair each: at the fewest fixed weights the paper's drops, which fall by an eighth a doubling."""
    rows = []
    for k, fraction, mask in itertools.product((2, 8, 32), (1 / 64, 1 / 16, 1 / 4), range(4)):
        drop = {2: 46.4, 8: 15.7, 32: 6.1}[k] * (1 - np.log2(64 * fraction) / 8)
        row = described("w_1", k=k, fixed_fraction=fraction, source="gmm", classes=5, dataset=f"gmm_k{k}")
        row |= {"variant": f"w_{fraction}_k{k}", "mask_seed": mask, "pair": 0, "aligned": False, "split": "train"}
        rows.append(row | {"drop_mid_pp": noisy(drop, mask) + mask / 10, "drop_max_pp": drop})
    return pd.DataFrame(rows)


def coherence_barriers():
    rows = []
    for embedding, t, pair in itertools.product(("exact_copy", "random_frame"), range(1, 11), range(8)):
        row = {"study": "study", "embedding": embedding, "t": t, "mask_seed": pair // 2, "pair": pair % 2}
        rows.append(row | {"barrier_max": 1.0, "barrier_mid": noisy(0.02 * t, pair)})
    return pd.DataFrame(rows)


def pairs_of(m):
    return np.triu_indices(m, 1)


def swap_costs():
    """Four models a variant, three layers: costs around zero, except for the identifiable architectures."""
    generator = np.random.default_rng(0)
    i, j = pairs_of(12)
    tables = []
    for variant, seed, layer in itertools.product(ARCHITECTURES, range(4), (1, 2, 3)):
        noise = generator.permutation(np.linspace(-1.0, 1.0, len(i)))
        costs = {"standard": 1e-9 * noise, "sigma_mlp": 1e-9 * noise, "w_0": 0.1 * noise}.get(variant, 10.0 + noise)
        rows = pd.DataFrame({"mask_seed": 0, "seed": seed, "layer": layer, "i": i, "j": j, "swap_cost": costs})
        tables.append(rows.assign(**described(variant)))
    return pd.concat(tables, ignore_index=True)


def gmm_swap_costs():
    generator = np.random.default_rng(0)
    i, j = pairs_of(20)
    tables = []
    for variant, k, mask in itertools.product(("w_0", "w_1"), (2, 8, 32), range(4)):
        spread = generator.permutation(np.linspace(-1.0, 1.0, len(i)))
        # At sigma_F = 1, costs reach down to zero at k = 2 and stay far from it at k = 32.
        costs = 0.01 * spread if variant == "w_0" else {2: 1.0, 8: 4.0, 32: 20.0}[k] + spread
        description = described(variant, k=k, source="gmm", classes=5, dataset=f"gmm_k{k}") | {
            "variant": f"{variant}_k{k}"
        }
        for layer in (1, 2):
            rows = pd.DataFrame({"mask_seed": mask, "seed": 0, "layer": layer, "i": i, "j": j, "swap_cost": costs})
            tables.append(rows.assign(**description))
    return pd.concat(tables, ignore_index=True)


def swap_costs_by_width():
    """At W 1 and k = 2, four masks a width: a quarter of 8 and three quarters of 32 neurons have a cheap swap."""
    tables = []
    for m, mask in itertools.product((8, 32), range(4)):
        i, j = pairs_of(m)
        cheap = (j == i + 1) & (i % 2 == 0) & (j < {8: 2, 32: 24}[m] + 2 * (mask == 2))
        rows = pd.DataFrame({"mask_seed": mask, "seed": 0, "layer": 1, "i": i, "j": j, "swap_cost": 1.0 - 0.95 * cheap})
        description = described("w_1", k=2, source="gmm", classes=5, dataset="gmm_k2")
        tables.append(rows.assign(**description | {"variant": f"w_widths{m}"}))
    return pd.concat(tables, ignore_index=True)


def neuron_places():
    """Of eight neurons a layer, the dearer half keeps its place at sigma_F = 1 and none at 0."""
    rows = []
    for variant, pair, layer, neuron in itertools.product(("w_0", "w_1"), range(4), (1, 2), range(8)):
        kept = variant == "w_1" and (neuron >= 4 or (neuron == 1 and layer == 2))
        rank = noisy(0.3 if variant == "w_1" else 0.5, pair) + 0.01 * (layer == 2) * (1 if neuron % 2 else -1)
        row = described(variant) | {"mask_seed": 0, "pair": pair, "layer": layer, "neuron": neuron, "itself": kept}
        # Once a neuron that leaves is dearer than those that stay.
        row["cheapest"] = 100.0 if neuron == 0 and pair == 2 else 1.0 + neuron + 0.1 * layer
        rows.append(row | {"cost_rank": np.nan if kept else rank, "correlation": 0.7, "own_correlation": 0.5})
    return pd.DataFrame(rows)


def neurons():
    """Circles of radius 1; what runs A and B learned is far apart, but in networks with fixed weights."""
    rows = []
    for variant, seed, neuron in itertools.product(ARCHITECTURES, range(2), range(10)):
        angle = neuron + (0.05 if variant in IDENTIFIABLE else 2.5) * seed
        row = described(variant) | {"mask_seed": 0, "seed": seed, "neuron": neuron}
        row |= {"S_11": 1.0, "S_12": 0.0, "S_22": 1.0}
        row |= {"v_1": 3.0 * neuron * (variant in IDENTIFIABLE), "v_2": 0.0}
        rows.append(row | {"a_1": row["v_1"] + np.cos(angle), "a_2": np.sin(angle)})
    return pd.DataFrame(rows)


def at_betas(costs, others):
    """A ridge table: all pairs of ``costs`` at 0.01; consecutive ones at other betas, with misleading costs."""
    costs = costs.assign(beta=0.01)
    consecutive = costs[(costs["j"] == costs["i"] + 1) & (costs["i"] % 2 == 0)]
    tables = [consecutive.assign(beta=beta, swap_cost=cost) for beta, cost in others.items()]
    table = pd.concat([tables[0], costs, *tables[1:]], ignore_index=True)
    return table.assign(reported=table["beta"] == 0.01)


def ridge_swap_costs():
    costs = swap_costs()
    broken = costs["variant"].isin(IDENTIFIABLE)
    # Frozen batch norms keep the costs of standard networks from being exactly zero.
    costs.loc[costs["variant"] == "standard", "swap_cost"] *= 2e8
    costs.loc[broken, "swap_cost"] += 1.0
    return at_betas(costs, {0.001: -1.0, 1.0: 5.0})


def gmm_ridge_swap_costs():
    return at_betas(gmm_swap_costs(), {0.001: -1.0, 1.0: 0.5})


def estimators():
    rows = []
    for variant, seed, layer, beta in itertools.product(ARCHITECTURES, range(4), (1, 2, 3), (0.001, 0.01, 1.0)):
        spearman = {"standard": np.nan, "sigma_mlp": np.nan, "w_0": 0.2}.get(variant, 0.8)
        row = described(variant) | {"mask_seed": 0, "seed": seed, "layer": layer, "beta": beta}
        row["reported"] = beta == 0.01
        rows.append(row | {"pairs": "consecutive", "n_pairs": 6, "spearman": -0.5, "sign_agreement": 0.5})
        if beta == 0.01:
            rows.append(row | {"pairs": "block", "n_pairs": 66, "spearman": noisy(spearman, seed), "sign_agreement": 1})
    return pd.DataFrame(rows)


def ridge_costs():
    rows = []
    for variant, seed, layer, beta in itertools.product(ARCHITECTURES, range(2), (1, 2, 3), (0.01, 1.0)):
        row = described(variant) | {"mask_seed": 0, "seed": seed, "layer": layer, "beta": beta, "n_costs": 100}
        rows.append(row | {"cost_median": 2.0, "bound_ratio_max": 0.7, "gradient_max": 1e-9})
    return pd.DataFrame(rows)


LAYERS = tuple(itertools.product(("standard", "w_0", "w_1", "w_3", "syre"), range(4), (1, 2)))


def gram_deviation():
    rows = []
    for (variant, seed, layer), masks in itertools.product(LAYERS, ("own", "fresh")):
        trained = masks == "own" and layer > 1
        row = described(variant) | {"mask_seed": 0, "seed": seed, "layer": layer, "masks": masks, "k_subspace": 9}
        row |= {"nu": 0.4, "mu_D": 0.8, "sigma_D2": 0.0 if variant == "standard" else 0.16, "b_D": 0.8, "delta": 0.05}
        row |= {"deviation_median": 0.2, "deviation_max": 2.0 if trained else 0.4, "bound": 1.0, "bound_all": 1.5}
        row |= {"share_above": 0.3 if trained else noisy(0.02, seed), "assumption": "U depends on D" if trained else ""}
        if variant == "standard":
            row |= {"deviation_max": 1e-16, "bound": 0.0, "bound_all": 0.0, "share_above": 1.0}
        rows.append(row)
    return pd.DataFrame(rows)


def sensitivity():
    rows = []
    for (variant, seed, layer), side, draw in itertools.product(LAYERS, ("output", "input"), range(3)):
        rho = {"w_1": 0.5, "syre": 1.5, "w_3": 0.05}.get(variant, np.inf)
        row = described(variant) | {"mask_seed": 0, "seed": seed, "layer": layer, "side": side}
        row |= {"permutation": "random", "draw": draw, "leading": 10.0, "rho": rho, "eps": 0.1, "mu_D": 0.8}
        row |= {"cost": noisy(12.0, draw), "bound": 2 * rho + 0.2, "assumption": ""}
        if not rho <= 1:
            row |= {"cost": 50.0, "bound": np.nan, "assumption": f"rho = {rho + 0.1 * draw:.2g} > 1"}
        if rho == np.inf:
            row |= {"leading": 0.0, "assumption": "F = 0: no leading term"}
        rows.append(row)
    return pd.DataFrame(rows)


def network_gaps():
    rows = []
    for (variant, seed, layer), gap in itertools.product(LAYERS, ("out", "in")):
        row = described(variant) | {"mask_seed": 0, "seed": seed, "layer": layer, "gap": gap, "m": 64, "d_in": 64}
        row |= {"k_subspace": 9, "nu": 0.4, "gamma": 2.0, "lower": 0.5, "upper": 4.0 if gap == "in" else np.nan}
        row |= {"assumption": ""}
        if variant in ("standard", "w_0"):
            row |= {"gamma": 0.0, "lower": np.nan, "upper": np.nan, "assumption": "F = 0: no gap"}
        rows.append(row)
    return pd.DataFrame(rows)


def chord_deviation():
    rows = []
    for variant, pair, layer, inputs, nonlinearity in itertools.product(
        ("w_0", "w_1", "w_3"), range(2), (1, 2), ("gaussian", "data"), ("relu", "gelu")
    ):
        for scale in (3.0, 1.0, 0.1, 0.03, 0.01, 0.003, 0.001):
            beta = scale * {"w_0": np.inf, "w_1": 0.9, "w_3": 0.3}[variant]
            exponent = {"relu": 1.5, "gelu": 2.0}[nonlinearity]
            # Above the beta up to which slopes are measured, the deviation levels off.
            chord = min(beta, {"relu": 0.1, "gelu": 0.01}[nonlinearity]) ** exponent
            row = described(variant) | {"mask_seed": 0, "pair": pair, "layer": layer, "inputs": inputs}
            row |= {"nonlinearity": nonlinearity, "scale": scale, "beta": beta, "chord": chord, "norm_F": 5.0}
            row |= {"bound": 4 * beta**exponent, "assumption": ""}
            if not beta < 1:
                row |= {"bound": np.nan, "assumption": f"beta = {beta:.2g} >= 1"}
            if inputs == "data":
                row |= {"chord": 9.0, "assumption": "inputs are not Gaussian"}
            rows.append(row)
    return pd.DataFrame(rows)


def loss_bounds():
    rows = []
    for variant, pair, aligned, split in itertools.product(ARCHITECTURES, range(4), (False, True), ("train", "test")):
        row = described(variant) | {"mask_seed": 0, "pair": pair, "aligned": aligned, "split": split}
        row |= {"barrier_max": 0.5, "lambda_max": 0.5, "bound_at_max": noisy(3.0, pair), "excess_max": 0.0}
        row |= {"gap_mid": -0.1 if aligned else 0.5, "bound_mid": row["bound_at_max"]}
        row["assumption"] = ""
        rows.append(row)
    return pd.DataFrame(rows)


def trade_off():
    rows = []
    for sigma_F, pair in itertools.product((0.0, 1.0, 3.0, 10.0), range(4)):
        accuracy = {0.0: 0.95, 1.0: 0.97, 3.0: 0.96, 10.0: 0.9}[sigma_F] + noisy(0.0, pair) / 10
        row = described("w_1", sigma_F=sigma_F) | {"variant": f"w_{sigma_F:g}", "mask_seed": 0, "pair": pair}
        row |= {"identity_ratio": 0.1 if sigma_F == 0 else 0.97, "train_accuracy": 1.0, "val_accuracy": accuracy}
        rows.append(row | {"train_loss": 0.01})
    standard = described("standard") | {"mask_seed": 0, "pair": 0, "val_accuracy": 0.99, "identity_ratio": 0.0}
    return pd.DataFrame([*rows, standard])


def centre_gaps():
    rows = []
    for k, fraction, m, draw in itertools.product((2, 8, 32), (0.125, 1.0), (16, 64, 256, 1024, 2048), range(4)):
        exponent = -2 / k
        row = {"dataset": f"gmm_k{k}", "k": k, "d": 128, "m": m, "draw": draw, "sigma_F": 1.0}
        row |= {"fixed_fraction": fraction, "gamma_out": (1 + 0.1 * draw) * m**exponent, "row_gap": 0.1}
        # Widths that are not large beside log d have far smaller gaps than the rate says.
        rows.append(row | {"gamma_in": (1 + 0.1 * draw) * (m**0.5 if m >= 256 else 0.01)})
    return pd.DataFrame(rows)


def subspaces():
    rows = []
    for variant, seed, epoch, point in itertools.product(
        ARCHITECTURES, range(4), (0, 60), ("input", "hidden1", "hidden2", "output")
    ):
        nu = 0.6 if variant in IDENTIFIABLE and epoch and point.startswith("hidden") else 0.3
        row = described(variant) | {"mask_seed": 0, "seed": seed, "epoch": epoch, "point": point}
        rows.append(row | {"d": 64, "k_subspace": 9, "nu": noisy(nu, seed), "explained": 0.9})
    return pd.DataFrame(rows)


# From the least identifiable to the most: the identity's objective, the swap cost, the unaligned drop.
THESIS = {
    "sigma_mlp": (0.01, 0.0, 30.0),
    "standard": (0.02, 0.0, 25.0),
    "w_0": (0.05, 0.1, 20.0),
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


FIGURES = {
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
    "ridge_costs.csv": ridge_costs,
    "gram_deviation.csv": gram_deviation,
    "sensitivity.csv": sensitivity,
    "chord_deviation.csv": chord_deviation,
    "loss_bounds.csv": loss_bounds,
    "trade_off.csv": trade_off,
}
built = functools.cache(lambda build: build())


def story(name):
    """The tables of the study that judges a claim or draws a figure, on which the paper's story is true."""
    return {table: built(build) for table, build in FIGURES.get(name.partition("-")[0], OTHERS).items()}


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
