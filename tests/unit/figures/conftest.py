"""Small tables with the shapes and magnitudes of a real study."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from symlab.artifacts import read_table, write_table

EPOCHS = (0, 1, 5, 20, 60)
PAIRS = 4
LAYERS = 3

DESCRIPTION = {"study": "digits", "dataset": "digits", "source": "digits", "activation": "gelu", "norm": "layernorm"}
NOT_APPLICABLE = dict.fromkeys(["sigma_F", "fixed_fraction", "k", "embedding", "t", "target_nu"], np.nan)


def variant(name: str, scheme: str, **columns: object) -> dict[str, object]:
    named = {"variant": name, "family": name.partition("_")[0], "scheme": scheme}
    return DESCRIPTION | NOT_APPLICABLE | named | columns


# Aligned agreement, identity's share of it, and unaligned drop: a made-up ordering like the paper's.
MLPS = [
    (variant("standard", "standard"), 0.62, 0.0, 0.22),
    (variant("w_sigma_F0", "w_asymmetric", sigma_F=0.0), 0.63, 0.05, 0.2),
    (variant("w_sigma_F1", "w_asymmetric", sigma_F=1.0), 0.67, 0.95, 0.01),
    (variant("w_sigma_F3", "w_asymmetric", sigma_F=3.0), 0.92, 1.0, 0.002),
    (variant("syre", "syre", sigma_F=1.0), 0.91, 1.0, 0.003),
    (variant("sigma_mlp", "standard", activation="sigma"), 0.55, 0.0, 0.3),
]
FRACTIONS = [
    (
        variant(f"fractions_{fraction}_{sigma_F}", "w_asymmetric", fixed_fraction=fraction, sigma_F=sigma_F),
        0.6 + 0.2 * fraction,
        0.1 if sigma_F == 0 else 0.5 + fraction / 2,
        0.1,
    )
    for fraction in (0.125, 0.25, 0.5)
    for sigma_F in (0.0, 1.0)
]


@pytest.fixture(scope="session")
def matching() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    rows = []
    for (columns, optimal, share, _), pair, epoch, layer in itertools.product(
        MLPS + FRACTIONS, range(PAIRS), EPOCHS, range(1, LAYERS + 1)
    ):
        grown = optimal * (1 - 0.4 * np.exp(-epoch / 5)) - 0.05 * layer
        for permutation, value in (("optimal", grown), ("identity", grown * share), ("random", 0.0)):
            noisy = value + 0.02 * rng.normal()
            place = {"mask_seed": 0, "pair": pair, "epoch": epoch, "point": f"hidden{layer}"}
            rows.append(columns | place | {"permutation": permutation, "objective": noisy})
    return pd.DataFrame(rows)


@pytest.fixture(scope="session")
def curves() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    rows = []
    walks = itertools.product(MLPS, range(PAIRS), (False, True), ("train", "test"))
    for (columns, _, _, drop), pair, aligned, split in walks:
        size = (0.01 if aligned else drop) * rng.uniform(0.8, 1.2)
        for position in np.linspace(0, 1, 11):
            accuracy = 0.995 - 4 * size * position * (1 - position) - 0.02 * (split == "test")
            place = {"mask_seed": 0, "pair": pair, "aligned": aligned, "split": split, "lambda": position}
            rows.append(columns | place | {"loss": 1 - accuracy, "accuracy": accuracy})
    return pd.DataFrame(rows)


@pytest.fixture(scope="session")
def barriers() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    rows = []
    for embedding, t, mask_seed, pair, split in itertools.product(
        ("exact_copy", "random_frame"), range(1, 11), range(3), range(5), ("train", "test")
    ):
        name = f"embedding{embedding}_t{t}"
        place = {"study": "coherence", "source": "coherence", "dataset": f"coherence_{name}", "embedding": embedding}
        columns = variant(f"sparse_{name}", "sparse", t=t, activation=np.nan, norm=np.nan, **place)
        middle = 0.27 * (1 - 1 / t) * rng.uniform(0.6, 1.4) + 0.003 * (embedding == "random_frame")
        place = {"mask_seed": mask_seed, "pair": pair, "aligned": False, "split": split}
        drops = {"drop_max_pp": np.nan, "drop_mid_pp": np.nan}
        rows.append(columns | place | {"barrier_max": 1.1 * middle, "barrier_mid": middle} | drops)
    return pd.DataFrame(rows)


@pytest.fixture(scope="session")
def subspaces() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    rows = []
    points = {"input": 0.35, "hidden1": 0.2, "hidden2": 0.18, "hidden3": 0.15, "output": 0.9}
    for (columns, _, share, _), seed, epoch, (point, nu) in itertools.product(MLPS, range(4), EPOCHS, points.items()):
        moved = 0.0 if point == "input" else 0.1 * share * (1 - np.exp(-epoch / 5)) + 0.02 * rng.normal()
        place = {"mask_seed": 0, "seed": seed, "epoch": epoch, "point": point, "d": 128, "k_subspace": 20}
        rows.append(columns | place | {"nu": nu + moved, "explained": 0.91})
    return pd.DataFrame(rows)


def pair_costs(columns: dict[str, object], scale: float, seed: int, layer: int, m: int) -> pd.DataFrame:
    rng = np.random.default_rng([seed, layer, m])
    i, j = np.triu_indices(m, 1)
    costs = scale * rng.gamma(4.0, 0.25, len(i)) + 0.3 * rng.normal(size=len(i)) * (columns["scheme"] != "standard")
    table = pd.DataFrame({"mask_seed": 0, "seed": seed, "layer": layer, "i": i, "j": j, "swap_cost": costs})
    return table.assign(**columns)


@pytest.fixture(scope="session")
def swap_costs() -> pd.DataFrame:
    scales = [0.0, 0.1, 12.0, 90.0, 80.0, 0.0]
    tables = [
        pair_costs(columns, scale, seed, layer, 140 if layer == 1 else 60)
        for (columns, *_), scale in zip(MLPS, scales, strict=True)
        for seed in range(2)
        for layer in range(1, LAYERS + 1)
    ]
    return pd.concat(tables, ignore_index=True)


@pytest.fixture(scope="session")
def gmm_swap_costs() -> pd.DataFrame:
    tables = []
    scales = {2: 0.7, 8: 4.0, 32: 20.0}
    for (k, scale), sigma_F, seed, layer in itertools.product(scales.items(), (0.0, 1.0), range(2), range(1, 4)):
        name = f"w_sigma_F{sigma_F:g}_k{k}"
        columns = variant(name, "w_asymmetric", study="gmm", source="gmm", dataset=f"gmm_k{k}", sigma_F=sigma_F, k=k)
        tables.append(pair_costs(columns, sigma_F * scale, seed, layer, 64))
    table = pd.concat(tables, ignore_index=True)
    infinite = (table["k"] == 2) & (table["sigma_F"] == 0) & (table["i"] < 8)
    return table.assign(swap_cost=table["swap_cost"].mask(infinite, np.inf))


@pytest.fixture(scope="session")
def centre_gaps() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    rows = [
        {"dataset": f"gmm_k{k}", "k": k, "d": 128, "m": m, "draw": draw, "sigma_F": 1.0, "fixed_fraction": fraction}
        | {"gamma_out": np.sqrt(fraction * k) * (m / 4) ** (-2.1 / k) * rng.uniform(0.6, 1.4)}
        for k in (2, 8, 32)
        for m in (16, 32, 64, 128, 256, 512, 1024, 2048)
        for fraction in (0.125, 1.0)
        for draw in range(6)
    ]
    return pd.DataFrame(rows)


@pytest.fixture(scope="session")
def tables(matching, curves, barriers, subspaces, swap_costs, centre_gaps, tmp_path_factory) -> dict[str, pd.DataFrame]:
    """All tables as a run hands them over: written to files and read back."""
    made = {
        "matching.csv": matching,
        "curves.csv": curves,
        "barriers.csv": barriers,
        "subspaces.csv": subspaces,
        "swap_costs.parquet": swap_costs,
        "centre_gaps.csv": centre_gaps,
    }
    folder = tmp_path_factory.mktemp("tables")
    for name, table in made.items():
        write_table(folder / name, table)
    return {name: read_table(folder / name) for name in made}


# As tracing finds them: a block group's stream after the inside of its first block.
RESNET20 = [point for g in (1, 2, 3) for point in (f"inner{g}.1", f"stream{g}", f"inner{g}.2", f"inner{g}.3")]
SIGMAS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
IMAGES = {"study": "resnet", "dataset": "cifar", "source": "cifar10", "activation": np.nan, "norm": np.nan}


def w_objectives(points: list, sigmas: tuple[float, ...]) -> pd.DataFrame:
    """Matching of W-asymmetric networks with these groups: the identity nears the optimum as sigma_F grows."""
    rng = np.random.default_rng(6)
    rows = []
    for sigma_F, pair, (number, point) in itertools.product(sigmas, range(PAIRS), enumerate(points)):
        columns = variant(f"w_sigma_F{sigma_F:g}", "w_asymmetric", sigma_F=sigma_F) | IMAGES
        optimal = 0.4 + 0.3 * sigma_F / (1 + sigma_F) - 0.01 * number
        identity = optimal * sigma_F**2 / (sigma_F**2 + 0.5)
        for permutation, value in (("optimal", optimal), ("identity", identity), ("random", 0.0)):
            place = {"mask_seed": 0, "pair": pair, "epoch": 100, "point": point, "permutation": permutation}
            rows.append(columns | place | {"objective": value + 0.02 * rng.normal()})
    return pd.DataFrame(rows)


def image_curves(drops: dict[str, tuple[float, ...]]) -> pd.DataFrame:
    """Curves of networks by name, from the drops of accuracy unaligned and, where there are two, aligned."""
    schemes = {"standard": "standard", "syre": "syre"}
    rng = np.random.default_rng(7)
    rows = []
    for (name, of_name), pair, split in itertools.product(drops.items(), range(PAIRS), ("train", "test")):
        sigma_F = float(name[-1]) if name[-1].isdigit() else {"syre": 1.0}.get(name, np.nan)
        columns = variant(name, schemes.get(name, "w_asymmetric"), sigma_F=sigma_F) | IMAGES
        for aligned, drop in zip((False, True), of_name, strict=False):
            size = drop * rng.uniform(0.85, 1.1)
            for position in np.linspace(0, 1, 25):
                accuracy = 0.98 - 0.07 * (split == "test") - size * (1 - (2 * position - 1) ** 4)
                place = {"mask_seed": 0, "pair": pair, "aligned": aligned, "split": split, "lambda": position}
                rows.append(columns | place | {"loss": 1 - accuracy, "accuracy": accuracy})
    return pd.DataFrame(rows)


@pytest.fixture(scope="session")
def objectives_of():
    return w_objectives


@pytest.fixture(scope="session")
def resnet_matching() -> pd.DataFrame:
    return w_objectives(RESNET20, SIGMAS)


@pytest.fixture(scope="session")
def resnet_curves() -> pd.DataFrame:
    return image_curves({"standard": (0.86, 0.1), "w_0": (0.84, 0.11), "w_2": (0.25, 0.13), "syre": (0.6, 0.12)})


@pytest.fixture(scope="session")
def vit_curves() -> pd.DataFrame:
    return image_curves({"standard": (0.7,), "w_0": (0.68,), "w_1": (0.35,)})


@pytest.fixture(scope="session")
def tables_of(tables, gmm_swap_costs, resnet_matching, resnet_curves, vit_curves):
    """The tables a figure is drawn from: those of the Gaussian mixture for the figures that show k, and so on."""
    own = {
        "3b": {"matching.csv": resnet_matching},
        "5": {"swap_costs.parquet": gmm_swap_costs},
        "9": {"matching.csv": resnet_matching},
        "13": {"swap_costs.parquet": gmm_swap_costs},
        "4b": {"curves.csv": resnet_curves},
        "20": {"curves.csv": vit_curves},
    }
    return lambda figure_id: tables | own.get(figure_id, {})
