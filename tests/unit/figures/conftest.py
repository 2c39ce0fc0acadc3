"""Small tables with the shapes and magnitudes of a real study."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, poisson

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


BETAS = (0.001, 0.01, 0.1, 1.0)
BLOCK = 40


def ridge_of(costs: pd.DataFrame, reported: float, block: int) -> pd.DataFrame:
    """Ridge costs that follow the given ones: a network a variant, pairs of the block at the reported beta alone."""
    rng = np.random.default_rng(8)
    first = costs[costs["seed"] == 0]
    consecutive = (first["j"] == first["i"] + 1) & (first["i"] % 2 == 0)
    parts = []
    for beta in BETAS:
        chosen = first[consecutive | ((beta == reported) & (first["j"] < block))]
        finite = chosen["swap_cost"].replace(np.inf, 9.0)
        noisy = finite / (1 + 8 * beta) + 0.02 * rng.normal(size=len(chosen))
        parts.append(chosen.assign(beta=beta, swap_cost=noisy))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="session")
def ridge_swap_costs(swap_costs) -> pd.DataFrame:
    """All variants but the sigma-MLP, whose costs the estimator has no closed target for."""
    return ridge_of(swap_costs[swap_costs["activation"] != "sigma"], 0.01, BLOCK)


@pytest.fixture(scope="session")
def gmm_ridge_swap_costs(gmm_swap_costs) -> pd.DataFrame:
    return ridge_of(gmm_swap_costs, 0.01, 64)


@pytest.fixture(scope="session")
def estimators() -> pd.DataFrame:
    rng = np.random.default_rng(9)
    rows = []
    for (columns, *_), seed, layer, beta in itertools.product(MLPS[:5], range(2), range(1, LAYERS + 1), BETAS):
        constant = columns["scheme"] == "standard" or (columns["variant"] == "w_sigma_F0" and layer == 3)
        level = 0.4 + 0.15 * min(np.nan_to_num(columns["sigma_F"]), 3) - 0.1 * layer * np.log10(1 + 9 * beta)
        for pairs in ("consecutive", "block") if beta == 0.01 else ("consecutive",):
            spearman = np.nan if constant else level + 0.03 * rng.normal() - 0.2 * (pairs == "block")
            place = {"mask_seed": 0, "seed": seed, "layer": layer, "beta": beta, "pairs": pairs, "n_pairs": 30}
            rows.append(columns | place | {"spearman": spearman, "sign_agreement": 0.9})
    return pd.DataFrame(rows)


MU_D = {"standard": 1.0, "w_asymmetric": 0.875, "syre": 1.0}
SPREAD_D = {"standard": (0.0, 0.0), "w_asymmetric": (0.109, 0.875), "syre": (3.3e-5, 0.01)}


@pytest.fixture(scope="session")
def gram_deviation() -> pd.DataFrame:
    rng = np.random.default_rng(10)
    rows = []
    layers = ((1, 20, 0.55), (2, 30, 0.35), (3, 25, 0.3), (4, 12, 0.2))
    for (columns, _, share, _), seed, (layer, k, nu), masks in itertools.product(
        MLPS[:5], range(2), layers, ("own", "fresh")
    ):
        sigma_D2, b_D = SPREAD_D[columns["scheme"]]
        nu = nu if layer == 1 else nu * (1 + share * rng.uniform(0.1, 0.6))
        median = 1.3 * np.sqrt(sigma_D2 * nu) * rng.uniform(0.9, 1.1) if sigma_D2 else 1e-7
        L, L_all = np.log(2 * k / 0.05), np.log(2 * k * 128 / 0.05)
        bounds = [np.sqrt(2 * sigma_D2 * nu * logarithm) + 2 / 3 * b_D * nu * logarithm for logarithm in (L, L_all)]
        place = {"mask_seed": 0, "seed": seed, "layer": layer, "masks": masks, "k_subspace": k, "nu": nu}
        moments = {"mu_D": MU_D[columns["scheme"]], "sigma_D2": sigma_D2, "b_D": b_D}
        measured = {"deviation_median": median, "deviation_max": 1.6 * median, "delta": 0.05}
        dependent = masks == "own" and layer > 1
        says = {"share_above": 0.0, "assumption": "U depends on D" if dependent else ""}
        rows.append(
            columns | place | moments | measured | dict(zip(("bound", "bound_all"), bounds, strict=True)) | says
        )
    return pd.DataFrame(rows)


@pytest.fixture(scope="session")
def sensitivity() -> pd.DataFrame:
    rng = np.random.default_rng(11)
    rows = []
    for (columns, *_), seed, layer, side, permutation, draw in itertools.product(
        MLPS[:5], range(2), range(1, LAYERS + 1), ("output", "input"), ("transposition", "random"), range(8)
    ):
        sigma_F, mu = np.nan_to_num(columns["sigma_F"]), MU_D[columns["scheme"]]
        eps = 0.01 if columns["scheme"] == "syre" else 0.3 + 0.2 * layer
        width = 0.4 if permutation == "transposition" else 0.02
        syre = columns["scheme"] == "syre"
        rho = np.exp(width * rng.normal()) * (0.3 if syre else 0.8) * layer / sigma_F if sigma_F else np.inf
        leading = 30.0 * sigma_F**2 * (1 if permutation == "transposition" else 40)
        bound = 2 * rho + eps / (mu - eps) * (1 + 2 * rho + 2 * rho**2) if eps < mu else np.nan
        why = "F = 0: no leading term" if not sigma_F else f"rho = {rho:.2g} > 1" if rho > 1 else ""
        if sigma_F and not why and eps > mu / 2:
            why = f"eps = {eps:.2g} > mu_D / 2"
        cost = leading * (1 + 0.5 * rho * rng.normal() + 0.2) if sigma_F else rng.normal()
        place = {"mask_seed": 0, "seed": seed, "layer": layer, "side": side, "permutation": permutation, "draw": draw}
        terms = {"cost": cost, "leading": leading, "rho": rho, "eps": eps, "mu_D": mu}
        rows.append(columns | place | terms | {"bound": bound if sigma_F else np.nan, "assumption": why})
    return pd.DataFrame(rows)


@pytest.fixture(scope="session")
def network_gaps() -> pd.DataFrame:
    rng = np.random.default_rng(12)
    rows = []
    for (columns, *_), seed, layer, gap in itertools.product(MLPS[:5], range(2), range(1, LAYERS + 1), ("out", "in")):
        sigma_F = np.nan_to_num(columns["sigma_F"])
        # Dead inputs of the first layer are alike, so swapping two of them changes nothing.
        scale = 1e-9 if gap == "in" and layer == 1 else 1.0
        gamma = scale * sigma_F * (1.5 if gap == "out" else 2.5) * rng.uniform(0.8, 1.2)
        bounds = {"lower": 0.3 * gamma, "upper": np.nan if gap == "out" else 1.7 * gamma}
        why = "F = 0: no gap" if not sigma_F else "fixed weights are not independent" if layer == 3 else ""
        place = {"mask_seed": 0, "seed": seed, "layer": layer, "gap": gap, "m": 128, "d_in": 64, "k_subspace": 20}
        rows.append(columns | place | {"nu": 0.4, "gamma": gamma} | bounds | {"assumption": why})
    return pd.DataFrame(rows)


@pytest.fixture(scope="session")
def centre_gaps_in(centre_gaps) -> pd.DataFrame:
    """Centre gaps of a run that measured those of inputs too."""
    rng = np.random.default_rng(13)
    noise = rng.uniform(0.9, 1.1, len(centre_gaps))
    gamma = 0.05 * centre_gaps["k"] ** 0.5 * (centre_gaps["fixed_fraction"] * centre_gaps["m"]) ** 0.5 * noise
    return centre_gaps.assign(gamma_in=gamma, row_gap=0.02)


@pytest.fixture(scope="session")
def chord_deviation() -> pd.DataFrame:
    rng = np.random.default_rng(14)
    rows = []
    choices = (range(1, LAYERS + 1), ("gaussian", "data"), ("relu", "gelu"), (0.03, 0.1, 0.3, 1.0))
    for (columns, *_), layer, inputs, nonlinearity, scale in itertools.product(MLPS[:5], *choices):
        sigma_F = np.nan_to_num(columns["sigma_F"])
        beta = scale * (0.7 + 0.3 * layer) / sigma_F if sigma_F else np.inf
        norm = 8.0 * sigma_F
        power = 1.5 if nonlinearity == "relu" else 2.0
        chord = 0.2 * norm * min(beta, 5) ** power * rng.uniform(0.8, 1.2) if sigma_F else 0.1
        if not beta < 1:
            bound = np.nan
        elif nonlinearity == "relu":
            bound = np.sqrt(2 * np.pi**2 / 3) * (1 + beta) * beta**1.5 * norm
        else:
            bound = 0.69 * beta**2 * norm**2 / 5
        why = "F = 0: no unit" if not sigma_F else f"beta = {beta:.2g} >= 1" if beta >= 1 else ""
        if not why and inputs == "data":
            why = "inputs are not Gaussian"
        place = {"mask_seed": 0, "pair": 0, "layer": layer, "inputs": inputs, "nonlinearity": nonlinearity}
        terms = {"scale": scale, "beta": beta, "chord": chord, "norm_F": norm}
        rows.append(columns | place | terms | {"bound": bound, "assumption": why})
    return pd.DataFrame(rows)


@pytest.fixture(scope="session")
def loss_bounds() -> pd.DataFrame:
    rng = np.random.default_rng(15)
    rows = []
    for (columns, _, _, drop), pair, aligned, split in itertools.product(
        MLPS, range(PAIRS), (False, True), ("train", "test")
    ):
        barrier = 4 * (0.02 if aligned else drop) * rng.uniform(0.7, 1.3)
        none = columns["variant"] == "w_sigma_F3" and aligned
        bound = 0.0 if none else 6 * barrier**0.7 * rng.uniform(0.9, 1.1)
        place = {"mask_seed": 0, "pair": pair, "aligned": aligned, "split": split}
        measured = {"barrier_max": 0.0 if none else barrier, "lambda_max": 0.5, "bound_at_max": bound}
        rows.append(columns | place | measured | {"excess_max": -0.01})
    return pd.DataFrame(rows)


@pytest.fixture(scope="session")
def trade_off() -> pd.DataFrame:
    rng = np.random.default_rng(16)
    rows = []
    for (columns, _, share, _), pair in itertools.product(MLPS, range(PAIRS)):
        loss = 0.002 * np.nan_to_num(columns["sigma_F"]) ** 2
        measured = {
            "identity_ratio": share + 0.01 * rng.normal(),
            "train_accuracy": 0.999 - loss,
            "val_accuracy": 0.97 - 2 * loss + 0.003 * rng.normal(),
        }
        rows.append(columns | {"mask_seed": 0, "pair": pair} | measured | {"train_loss": loss})
    return pd.DataFrame(rows)


@pytest.fixture(scope="session")
def theory_tables(
    estimators, gram_deviation, sensitivity, network_gaps, chord_deviation, loss_bounds, trade_off, tmp_path_factory
) -> dict[str, pd.DataFrame]:
    """The tables of the checks of theorems, written to files and read back."""
    made = {
        "estimators.csv": estimators,
        "gram_deviation.csv": gram_deviation,
        "sensitivity.csv": sensitivity,
        "network_gaps.csv": network_gaps,
        "chord_deviation.csv": chord_deviation,
        "loss_bounds.csv": loss_bounds,
        "trade_off.csv": trade_off,
    }
    folder = tmp_path_factory.mktemp("theory")
    for name, table in made.items():
        write_table(folder / name, table)
    return {name: read_table(folder / name) for name in made}


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


# Students and their teacher: magnitudes of barriers as measured for M = 6, d = 8 and scaled as the theory says.
PEAK, DIRECT_LEVEL = {"uniform": 6.7e-4, "gd": 9e-4}, {"uniform": 0.055, "gd": 0.05}
NOT_COMPUTED = ("permuted_one_sorted", "permuted_unsorted")


def student_pair(rng, source: str, M: int, d: int, m: int, pair: int, **columns: object) -> dict[str, object]:
    """A pair's row of a table of barriers: none at m = M, a peak between M and 2M, decay; high below M."""
    ratio = m / M
    peak = 1.5 if source == "gd" else 1.9
    shape = 0.0 if ratio <= 1 else ((ratio - 1) / (peak - 1)) ** 0.7 * np.exp(0.7 - 0.7 * (ratio - 1) / (peak - 1))
    below = 0.02 * (1 - ratio) ** 0.8 * (m > 1) if ratio < 1 else 1e-11 * (ratio == 1)
    scale = 8 / d * (M / 6) ** 1.5 * rng.lognormal(0, 0.6)
    size = DIRECT_LEVEL[source] * 8 / d * (M / 6) ** 2 * (0.4 + 0.6 / ratio) * rng.lognormal(0, 0.2)
    permuted = PEAK[source] * shape * scale + below * rng.uniform(0.7, 1.3)
    trained = source != "uniform"
    loss = 10 ** rng.uniform(-9.3, -6) if trained and m >= M else 1e-3 * (m < M)
    spurious = trained and m == M + 1 and pair == 0
    return {
        "study": "students",
        "source": source,
        **{"M": M, "d": d, "m": m, "lr": d / m if trained else np.nan, "c": 1.0 if trained else np.nan},
        **{"pair": pair, "kept": not spurious, "loss_A": 2e-3 if spurious else loss, "loss_B": loss},
        **{"direct": size, "permuted": 1.0 if spurious else permuted},
        **dict.fromkeys(NOT_COMPUTED, np.nan),
        "permuted_hungarian": permuted * rng.uniform(0.7, 1.1) if trained else np.nan,
    } | columns


def student_pairs(seed: int, places: dict, sources: dict[str, int]) -> pd.DataFrame:
    """Pairs of each source (with how many there are) for widths by teacher (M, d)."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        student_pair(rng, source, M, d, m, pair)
        for (M, d), widths in places.items()
        for source, n in sources.items()
        for m in widths
        for pair in range(n)
        if source != "uniform" or m >= M
    )


@pytest.fixture(scope="session")
def widths_barriers() -> pd.DataFrame:
    places = {(6, 8): range(1, 37), (12, 20): range(12, 49, 3), (30, 40): (30, 36, 45, 52, 60, 75, 90, 120)}
    return student_pairs(20, places, {"gd": 20, "uniform": 40})


@pytest.fixture(scope="session")
def ratios_barriers() -> pd.DataFrame:
    ratios = (1, 1.25, 1.5, 1.75, 2, 2.25, 2.5, 3, 4)
    places = {(M, max(M, 4)): [round(ratio * M) for ratio in ratios] for M in (4, 20, 100, 500)}
    return student_pairs(21, places, {"uniform": 20})


@pytest.fixture(scope="session")
def dimensions_barriers() -> pd.DataFrame:
    uniform = student_pairs(22, {(4, d): range(6, 16) for d in (4, 16, 64, 128)}, {"uniform": 40})
    return pd.concat([uniform, student_pairs(23, {(4, d): range(6, 16) for d in (16, 64)}, {"gd": 10})])


@pytest.fixture(scope="session")
def teachers_barriers() -> pd.DataFrame:
    places = {(M, 64): [round(ratio * M) for ratio in (1.25, 1.5, 1.75, 2, 2.5, 3, 4)] for M in (4, 8, 16)}
    return student_pairs(24, places, {"gd": 6, "uniform": 30})


RATES = (0.1, 0.3, 0.5, 1.0, 1.5, 1.8, 1.9, 2.0, 2.1, 2.2, 2.3)


@pytest.fixture(scope="session")
def learning_rates_barriers() -> pd.DataFrame:
    """Collapse at lr = 2; at lr = 0.1 runs have not converged, at 2.3 all diverge."""
    rng = np.random.default_rng(25)
    level = dict.fromkeys(RATES, 3.3e-4) | {1.8: 3.6e-4, 1.9: 3.9e-4, 2.0: 1.7e-4, 2.1: 2e-5, 2.2: 2e-5}
    return pd.DataFrame(
        student_pair(rng, "gd", 6, 8, 12, pair, lr=lr, c=1.5 * lr, kept=0.1 < lr < 2.3 and (lr < 2.2 or pair < 4))
        | {"permuted": level[lr] * rng.lognormal(0, 0.4) if lr < 2.3 else np.nan}
        for lr in RATES
        for pair in range(20)
    )


NOT_TRAINED = dict.fromkeys(("lr", "c", "init_std", "steps", "stability_limit"), np.nan)
MEASURED = ("loss", "zero_rows", "pq_rows", "pq_entries", "pq_entries_cleaned", "type_variance", "stability_limit")


def student_run(rng, M: int, d: int, m: int, c: float, seed: int, **columns: object) -> dict[str, object]:
    """A trained student's row of a table of runs; one that ``diverged`` has no measurements."""
    run = {"zero_rows": 0, "diverged": False, "source": "gd", "doubled_type": 0} | columns
    by_row = 0.055 + 0.03 * rng.random() + run["zero_rows"] / m
    row = {
        "study": "students",
        **{"M": M, "d": d, "m": m, "lr": c * d / m, "c": c, "init_std": 1 / (m * d), "seed": seed, "steps": 20000},
        **{"loss": 5e-10, "kept": not run["diverged"], "pq_rows": by_row, "type_variance": 0.25},
        **{"pq_entries": 1 - (1 - by_row) / d - 0.12 * np.exp(-c), "pq_entries_cleaned": 1 - (1 - by_row) / d},
        **{"stability_limit": 2.75 * d / m * rng.uniform(0.99, 1.01)},
    } | run
    return row | (dict.fromkeys(MEASURED, np.nan) if run["diverged"] else {})


@pytest.fixture(scope="session")
def sparsity_runs() -> pd.DataFrame:
    """Zero rows from c = 3 on; at c = 3.5 all wide students diverge, at c = 3 the first of each width does."""
    rng = np.random.default_rng(26)
    widths = (8, 12, 18, 24, 36)
    rows = [
        student_run(rng, 6, 8, m, c, seed, zero_rows=m // 12 if c >= 3 else 0, diverged=gone)
        for c in (0.15, 1, 2, 2.5, 3, 3.5)
        for m in widths
        for seed in range(10)
        for gone in [(c == 3.5 and m > 12) or (c == 3 and seed == 0)]
    ]
    for m, seed in itertools.product(widths, range(20)):
        sampled = NOT_TRAINED | {"source": "uniform", "pq_rows": 0.215 - 0.8 / m + 0.02 * rng.normal()}
        rows.append(student_run(rng, 6, 8, m, 1.0, seed) | sampled)
    return pd.DataFrame(rows)


@pytest.fixture(scope="session")
def learning_rates_runs() -> pd.DataFrame:
    """Zero rows from lr = 2 on; at 2.2 some runs diverge, at 2.3 all."""
    rng = np.random.default_rng(27)
    return pd.DataFrame(
        student_run(rng, 6, 8, 12, 1.5 * lr, seed, zero_rows=(lr >= 2) + (lr > 2), diverged=gone)
        for lr in RATES
        for seed in range(20)
        for gone in [lr == 2.3 or (lr == 2.2 and seed > 4)]
    )


@pytest.fixture(scope="session")
def doubled_types_runs() -> pd.DataFrame:
    rng = np.random.default_rng(28)
    types = rng.integers(1, 6, 500)
    types[:3] = 0
    return pd.DataFrame(
        student_run(rng, 5, 5, 6, 1.0, seed, doubled_type=int(doubled), kept=seed != 10)
        for seed, doubled in enumerate(types)
    )


@pytest.fixture(scope="session")
def column_entries() -> pd.DataFrame:
    rng = np.random.default_rng(29)
    draws = np.sort(rng.dirichlet(np.ones(10), 200))[:, ::-1]
    rank = np.arange(1, 11)
    expected = [sum(1 / k for k in range(r, 11)) / 10 for r in rank]
    moments = {"mean": draws.mean(axis=0), "std": draws.std(axis=0, ddof=1), "first": draws[0], "expected": expected}
    columns = {"study": "students", "M": 1, "d": 10, "m": 10, "init_std": 10**-0.5, "runs": 200, "rank": rank}
    return pd.DataFrame(columns | moments)


@pytest.fixture(scope="session")
def overlap() -> pd.DataFrame:
    """Exact values by binomial mean absolute differences; the Monte Carlo columns are these with noise."""
    rng = np.random.default_rng(30)
    rows = []
    for M, m in [(6, m) for m in range(6, 37)] + [(20, m) for m in range(20, 121, 2)]:
        below = binom.cdf(np.arange(m - M + 1), m - M, 1 / M)
        exact = 1 - M / m * float((below * (1 - below)).sum())
        below_poisson = poisson.cdf(np.arange(10 * m), m / M - 1)
        limit = 1 - M / m * float((below_poisson * (1 - below_poisson)).sum())
        se, t = 0.0007, M / m
        rows.append(
            {"study": "students", "M": M, "m": m, "draws": 10000, "overlap_mean": exact + se * rng.normal()}
            | {"overlap_se": se if m > M else 0.0, "overlap": exact, "poisson_limit": limit}
            | {"lower_bound": 1 - np.sqrt(2 * (m - M) * (M - 1)) / (2 * m)}
            | {"gaussian_limit": 1 - np.sqrt(t * (1 - t) / np.pi)}
        )
    return pd.DataFrame(rows)


MATCHINGS = ("none", "weight", "activation")


def width_paths(depths: dict[str, tuple[int, ...]], widths: tuple[int, ...]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Curves and barriers of MLPs by data set (with its depths) and width: permuted ones peak, direct ones do not."""
    rng = np.random.default_rng(31)
    curves, barriers = [], []
    lambdas = np.linspace(0, 1, 11)
    for dataset, of_dataset in depths.items():
        top = {"mnist": 25, "cifar10": 55}[dataset]
        walks = itertools.product(of_dataset, widths, range(6), MATCHINGS, ("train", "test"))
        for depth, width, pair, matching, split in walks:
            name = f"mlp_{dataset}_{depth}_widths{width}"
            columns = variant(name, "standard", activation="relu", norm=np.nan, width=width, depth=depth)
            columns |= {"study": "widths", "source": dataset, "dataset": dataset}
            size = 1.1 - 0.003 * width
            if matching != "none":
                size = 0.35 * np.exp(-(np.log(width / top) ** 2) / 0.4) + 0.02 + 0.05 * (matching == "activation")
            size *= rng.lognormal(0, 0.2)
            place = {"mask_seed": 0, "pair": pair, "aligned": matching != "none", "matching": matching, "split": split}
            ends = 0.05 + 0.03 * (split == "test") + 0.5 / width
            losses = ends + size * (4 * lambdas * (1 - lambdas)) ** 1.5
            measured = {"barrier_max": size, "barrier_mid": size, "drop_max_pp": 10 * size, "drop_mid_pp": 10 * size}
            barriers.append(columns | place | measured)
            curves += [
                columns | place | {"lambda": position, "loss": loss, "accuracy": 1 - loss / 4, "chord": np.nan}
                for position, loss in zip(lambdas, losses, strict=True)
            ]
    return pd.DataFrame(curves), pd.DataFrame(barriers)


@pytest.fixture(scope="session")
def width_tables() -> dict[str, pd.DataFrame]:
    """Curves and barriers of a study of widths on one data set."""
    curves, barriers = width_paths({"mnist": (4,)}, (15, 20, 25, 30, 40, 50, 75, 100))
    return {"curves.csv": curves, "barriers.csv": barriers}


@pytest.fixture(scope="session")
def depth_tables() -> dict[str, pd.DataFrame]:
    """Curves and barriers of a study of widths and depths on two data sets."""
    curves, barriers = width_paths({"mnist": (3, 4, 5), "cifar10": (3, 4)}, (10, 20, 40, 80, 160))
    return {"curves.csv": curves, "barriers.csv": barriers}


@pytest.fixture(scope="session")
def convolutional_tables() -> dict[str, pd.DataFrame]:
    """Curves of networks of three width multipliers whose depth is not told."""
    curves, _ = width_paths({"cifar10": (8,)}, (4, 16, 64))
    return {"curves.csv": curves.assign(depth=np.nan)}


@pytest.fixture(scope="session")
def student_tables(
    overlap,
    widths_barriers,
    ratios_barriers,
    dimensions_barriers,
    teachers_barriers,
    learning_rates_barriers,
    sparsity_runs,
    learning_rates_runs,
    doubled_types_runs,
    column_entries,
    tmp_path_factory,
) -> dict[str, pd.DataFrame]:
    """The tables of a study of students, written to files and read back."""
    made = {
        "overlap.csv": overlap,
        "widths_barriers.csv": widths_barriers,
        "ratios_barriers.csv": ratios_barriers,
        "dimensions_barriers.csv": dimensions_barriers,
        "teachers_barriers.csv": teachers_barriers,
        "learning_rates_barriers.csv": learning_rates_barriers,
        "sparsity_runs.csv": sparsity_runs,
        "learning_rates_runs.csv": learning_rates_runs,
        "doubled_types_runs.csv": doubled_types_runs,
        "column_entries.csv": column_entries,
    }
    folder = tmp_path_factory.mktemp("students")
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
def tables_of(
    tables,
    theory_tables,
    student_tables,
    width_tables,
    depth_tables,
    convolutional_tables,
    gmm_swap_costs,
    gmm_ridge_swap_costs,
    resnet_matching,
    resnet_curves,
    vit_curves,
):
    """The tables a figure is drawn from: those of the Gaussian mixture for the figures that show k, and so on."""
    own = {
        "3b": {"matching.csv": resnet_matching},
        "5": {"swap_costs.parquet": gmm_swap_costs},
        "9": {"matching.csv": resnet_matching},
        "13": {"swap_costs.parquet": gmm_swap_costs},
        "15": {"ridge_swap_costs.parquet": gmm_ridge_swap_costs},
        "4b": {"curves.csv": resnet_curves},
        "20": {"curves.csv": vit_curves},
        **dict.fromkeys(("permutation-7", "permutation-8"), width_tables),
        "permutation-14": depth_tables,
        "permutation-15": convolutional_tables,
    }
    return lambda figure_id: tables | theory_tables | student_tables | own.get(figure_id, {})


@pytest.fixture(scope="session")
def optional_tables_of(tables_of, ridge_swap_costs, gmm_ridge_swap_costs, centre_gaps_in):
    """As ``tables_of`` with the tables that are optional for some figures."""
    ridge = {"ridge_swap_costs.parquet": ridge_swap_costs}
    own = dict.fromkeys(("12", "16", "17", "18", "19"), ridge) | {
        "13": {"ridge_swap_costs.parquet": gmm_ridge_swap_costs},
        "thm4.8": {"centre_gaps.csv": centre_gaps_in},
    }
    return lambda figure_id: tables_of(figure_id) | own.get(figure_id, {})
