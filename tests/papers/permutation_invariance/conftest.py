"""Small tables of students and of networks by width, with the magnitudes of a real study."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, poisson

from symlab.artifacts import read_table, write_table

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
    columns = {"study": "students", "M": 1, "d": 10, "m": 10, "runs": 200, "rank": rank}
    return pd.concat(
        pd.DataFrame(columns | moments | {"init_std": std, "mean": share * moments["mean"] + (1 - share) / 10})
        for std, share in ((0.01, 0.4), (10**-0.5, 1.0))
    )


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
            columns = {"study": "widths", "variant": name, "family": "mlp", "scheme": "standard", "dataset": dataset}
            columns |= {"source": dataset, "activation": "relu", "norm": np.nan, "width": width, "depth": depth}
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


@pytest.fixture(scope="session")
def tables_of(student_tables, width_tables, depth_tables, convolutional_tables):
    """The tables that a figure is drawn from."""
    own = {
        **dict.fromkeys(("permutation-7", "permutation-8"), width_tables),
        "permutation-14": depth_tables,
        "permutation-15": convolutional_tables,
    }
    return lambda figure_id: own.get(figure_id, student_tables)
