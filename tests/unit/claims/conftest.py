import functools
import itertools

import numpy as np
import pandas as pd
import pytest

DESCRIPTION = ["study", "variant", "family", "scheme", "sigma_F", "fixed_fraction", "activation", "norm", "dataset"]
DESCRIPTION += ["source", "k", "embedding", "t", "target_nu"]

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
    return description | {"scheme": scheme, "sigma_F": sigma_F, "activation": activation, "dataset": "digits"} | columns


def noisy(value, index):
    """The value with a deviation that averages out over pairs of indices."""
    return value + (0.01 if index % 2 else -0.01)


def matching():
    rows = []
    grid = itertools.product(ARCHITECTURES, (0, 1, 30, 60), range(4), ("hidden1", "hidden2"))
    for variant, epoch, pair, point in grid:
        identity = 0.78 if variant in IDENTIFIABLE else 0.04
        values = {"optimal": 0.8, "identity": identity if epoch else 0.0, "random": 0.0}
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
    rows = []
    for k, pair in itertools.product((2, 8, 32), range(4)):
        drop = {2: 40.0, 8: 10.0, 32: 5.0}[k]
        row = described("w_1", k=k, dataset=f"gmm_k{k}") | {"variant": f"w_1_k{k}"}
        row |= {"mask_seed": 0, "pair": pair, "aligned": False, "split": "train"}
        rows.append(
            row | {"barrier_max": 0.1, "barrier_mid": 0.1, "drop_max_pp": drop, "drop_mid_pp": noisy(drop, pair)}
        )
    return pd.DataFrame(rows)


def coherence_barriers():
    rows = []
    for embedding, t, pair in itertools.product(("exact_copy", "random_frame"), range(1, 11), range(4)):
        row = described("standard", scheme="sparse", embedding=embedding, t=t, dataset=f"coherence_{embedding}_{t}")
        row |= {"variant": f"sparse_{embedding}_{t}", "mask_seed": pair % 2, "pair": pair // 2}
        row |= {"aligned": False, "split": "test", "barrier_max": 1.0}
        rows.append(row | {"barrier_mid": noisy(0.02 * t, pair), "drop_max_pp": np.nan, "drop_mid_pp": np.nan})
    return pd.DataFrame(rows)


def pairs_of(m):
    return np.triu_indices(m, 1)


def swap_costs():
    """Two models a variant, three layers: costs around zero, except for the identifiable architectures."""
    generator = np.random.default_rng(0)
    i, j = pairs_of(12)
    tables = []
    for variant, seed, layer in itertools.product(ARCHITECTURES, range(2), (1, 2, 3)):
        noise = generator.permutation(np.linspace(-1.0, 1.0, len(i)))
        costs = {"standard": 1e-9 * noise, "sigma_mlp": 1e-9 * noise, "w_0": 0.1 * noise}.get(variant, 10.0 + noise)
        rows = pd.DataFrame({"mask_seed": 0, "seed": seed, "layer": layer, "i": i, "j": j, "swap_cost": costs})
        tables.append(rows.assign(**described(variant)))
    return pd.concat(tables, ignore_index=True)


def gmm_swap_costs():
    generator = np.random.default_rng(0)
    i, j = pairs_of(20)
    tables = []
    for variant, k, seed in itertools.product(("w_0", "w_1"), (2, 8, 32), range(2)):
        spread = generator.permutation(np.linspace(-1.0, 1.0, len(i)))
        # At sigma_F = 1, costs reach down to zero at k = 2 and stay far from it at k = 32.
        costs = 0.01 * spread if variant == "w_0" else {2: 1.0, 8: 4.0, 32: 20.0}[k] + spread
        rows = pd.DataFrame({"mask_seed": 0, "seed": seed, "layer": 1, "i": i, "j": j, "swap_cost": costs})
        tables.append(rows.assign(**described(variant, k=k, dataset=f"gmm_k{k}") | {"variant": f"{variant}_k{k}"}))
    return pd.concat(tables, ignore_index=True)


def centre_gaps():
    rows = []
    for k, fraction, m, draw in itertools.product((2, 8, 32), (0.125, 1.0), (16, 64, 256), range(4)):
        exponent = {2: -1.0, 8: -0.25, 32: -0.1}[k]
        row = {"dataset": f"gmm_k{k}", "k": k, "d": 128, "m": m, "draw": draw, "sigma_F": 1.0}
        rows.append(row | {"fixed_fraction": fraction, "gamma_out": (1 + 0.1 * draw) * m**exponent})
    return pd.DataFrame(rows)


def subspaces():
    rows = []
    for variant, seed, epoch, point in itertools.product(
        ARCHITECTURES, range(2), (0, 60), ("input", "hidden1", "hidden2", "output")
    ):
        nu = 0.6 if variant in IDENTIFIABLE and epoch and point in ("hidden2", "output") else 0.3
        row = described(variant) | {"mask_seed": 0, "seed": seed, "epoch": epoch, "point": point}
        rows.append(row | {"d": 64, "k_subspace": 9, "nu": noisy(nu, seed), "explained": 0.9})
    return pd.DataFrame(rows)


FIGURES = {
    "4b": {"barriers.csv": resnet_barriers},
    "4d": {"barriers.csv": resnet_barriers},
    "5": {"swap_costs.parquet": gmm_swap_costs, "barriers.csv": gmm_barriers},
    "6": {"barriers.csv": coherence_barriers},
    "10": {"matching.csv": fractions},
    "11": {"centre_gaps.csv": centre_gaps},
    "13": {"swap_costs.parquet": gmm_swap_costs},
    "20": {"barriers.csv": vit_barriers, "curves.csv": vit_curves},
    "15": {"ridge_swap_costs.parquet": gmm_swap_costs},
}
OTHERS = {
    "matching.csv": matching,
    "barriers.csv": barriers,
    "swap_costs.parquet": swap_costs,
    "subspaces.csv": subspaces,
}
built = functools.cache(lambda build: build())


@pytest.fixture
def tables_for():
    """A function from a claim's figure to synthetic tables on which the paper's story is true."""
    return lambda figure: {name: built(build).copy() for name, build in FIGURES.get(figure, OTHERS).items()}
