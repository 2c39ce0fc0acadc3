"""Tables of students: a row for each of them, and a row for each pair whose barriers are measured."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64, Int
from torch import Tensor

from symlab.measures.job import Job
from symlab.papers.permutation_invariance.minima import Minima, pq_index, stability_limit, types_of, uniform_minima
from symlab.papers.permutation_invariance.pairs import barriers, hungarian, match_by_type, minima_barriers, permuted
from symlab.papers.permutation_invariance.population_loss import population_loss
from symlab.papers.permutation_invariance.settings import AllPermutations, Grid, Ratios, Samples
from symlab.papers.permutation_invariance.student_points import Point, Size
from symlab.seeds import numpy_rng
from symlab.study.points import Result

# A run that is to reach zero loss and ends above has stopped at another minimum, or was stopped too early.
KEPT_BELOW = 1e-5
# Entries below are what is left of a neuron's other coordinates, which convergence has not yet taken away.
CLEANED_BELOW = 1e-3
# Entries of W up to which the Hessian is computed; that of wider students takes longer than their training.
LARGEST_HESSIAN = 150
# Rows of a table of barriers for the uniform samples of one size: of more pairs each row is a mean of several.
MOST_ROWS = 100
# Pairs of uniform samples whose rows are looked at; their indices vary far less than their barriers.
MOST_LOOKED_AT = 500


def tabulate_runs_and_barriers(results: Sequence[Result], grids: Sequence[Grid], job: Job) -> dict[str, pd.DataFrame]:
    """The tables of both."""
    return tabulate_runs(results, grids, job) | tabulate_barriers(results, grids, job)


def tabulate_runs(results: Sequence[Result], grids: Sequence[Grid], job: Job) -> dict[str, pd.DataFrame]:
    """Losses, sparsity and types of the students of one role, and of uniform samples of the minima beside them."""
    tables = [*map(runs_of_trained, results), *(runs_of_uniform(grid, job.study) for grid in grids)]
    return {f"{grids[0].role}_runs.csv": pd.concat(tables, ignore_index=True)}


def tabulate_barriers(results: Sequence[Result], grids: Sequence[Grid], job: Job) -> dict[str, pd.DataFrame]:
    """Barriers between pairs of trained students of one role, and between uniform samples of the minima."""
    tables = [*map(barriers_of_trained, results), *(barriers_of_uniform(grid, job.study) for grid in grids)]
    return {f"{grids[0].role}_barriers.csv": pd.concat(tables, ignore_index=True)}


def tabulate_entries(results: Sequence[Result], grids: Sequence[Grid], job: Job) -> dict[str, pd.DataFrame]:
    """How trained students split the weight of one teacher neuron among theirs."""
    return {f"{grids[0].role}_entries.csv": pd.concat(map(column_entries, results))}


def draw_ratios(settings: Ratios, job: Job, M: int, d: int, m: int) -> dict[str, pd.DataFrame]:
    """Barriers between uniform samples of the minima of one size, one row a pair; ``ratios_barriers.csv``."""
    return {"ratios_barriers.csv": barriers_between_minima(Size(M, d, m), settings, job.study)}


def try_all_permutations(settings: AllPermutations, job: Job, M: int, d: int, m: int) -> dict[str, pd.DataFrame]:
    """Barriers between uniform samples, one row a pair: matched, and the lowest of all m! permutations.

    ``leftovers`` is the lowest of those that keep Algorithm 1's pairs of one type: it pairs anew what found no partner.
    """
    n, at = settings.uniform_pairs, np.array(settings.lambdas, dtype=float)
    A, B = (drawn(Size(M, d, m), n, (job.study, settings.role), end) for end in "AB")
    orders = np.array(list(permutations(range(m))))
    columns = {"source": "uniform", "M": M, "d": d, "m": m, "pair": np.arange(n), "pairs": 1, "kept": True}
    table = pd.DataFrame({**columns, "direct": minima_barriers(A, B, None, at)})
    by_type = match_by_type(A.types, A.values, B.types, B.values)
    table["permuted"] = minima_barriers(A, B, by_type, at)
    table["permuted_hungarian"] = minima_barriers(A, B, hungarian(A.dense(), B.dense()), at)
    alone = A.types != np.take_along_axis(B.types, by_type, axis=1)
    tried = {
        "leftovers": [reorderings(pi, np.flatnonzero(free)) for pi, free in zip(by_type, alone, strict=True)],
        "lowest": [orders] * n,
    }
    for column, of_pairs in tried.items():
        table[column] = [
            minima_barriers(A.repeated(pair, len(each)), B.repeated(pair, len(each)), each, at).min()
            for pair, each in enumerate(of_pairs)
        ]
    return {"all_permutations_barriers.csv": table}


def reorderings(pi: Int[np.ndarray, " m"], places: Int[np.ndarray, " k"]) -> Int[np.ndarray, "n m"]:
    """The permutation with what it has at these places in all their orders."""
    orders = np.array(list(permutations(places)), dtype=int)
    found = np.tile(pi, (len(orders), 1))
    found[:, places] = pi[orders]
    return found


def runs_of_trained(students: Result) -> pd.DataFrame:
    """One row a student of a point: loss, steps, sparsity and types (columns as in the card's captions)."""
    point, W = _opened(students)
    columns = {"source": students.settings.source, **_of_point(point), "init_std": point.init_std}
    measured = _measured(W, point)
    if point.m * point.d <= LARGEST_HESSIAN:
        whole = ~measured["diverged"]
        measured["stability_limit"] = np.full(len(W), np.nan)
        measured["stability_limit"][whole] = stability_limit(W[torch.from_numpy(whole)])
    return pd.DataFrame({**columns, "seed": np.arange(len(W)), "steps": students.found["steps"], **measured})


def runs_of_uniform(grid: Samples, study: str) -> pd.DataFrame:
    """The same of uniform samples of the minima, two for each of up to 500 pairs; nothing below m = M."""
    tables = [pd.DataFrame()]
    for size in _with_minima(grid):
        n = 2 * min(grid.uniform_pairs, MOST_LOOKED_AT)
        W = drawn(size, n, (study, grid.role), "runs").dense()
        columns = {"source": "uniform", **asdict(size), "seed": np.arange(len(W))}
        tables.append(pd.DataFrame({**columns, **_measured(W, size)}))
    return pd.concat(tables, ignore_index=True)


def barriers_of_trained(students: Result) -> pd.DataFrame:
    """One row for each pair of consecutive seeds: direct barrier, and those after each matching, in the loss's unit."""
    point, W = _opened(students)
    M, W_A, W_B = point.M, W[0::2], W[1::2]
    kept = _kept(population_loss(W, M).numpy(), point)
    table = pd.DataFrame({"source": students.settings.source, **_of_point(point), "pair": np.arange(len(W_A))})
    table["pairs"], table["kept"] = 1, kept[0::2] & kept[1::2]
    at = np.array(students.settings.lambdas, dtype=float)
    table["direct"] = barriers(W_A, W_B, M, at)
    by_type = match_by_type(*types_of(W_A, M), *types_of(W_B, M))
    table["permuted"] = barriers(W_A, permuted(W_B, by_type), M, at)
    table["permuted_hungarian"] = barriers(W_A, permuted(W_B, hungarian(W_A, W_B)), M, at)
    return table


def barriers_of_uniform(grid: Samples, study: str) -> pd.DataFrame:
    """Barriers between uniform samples of the minima; nothing below m = M, where there are none."""
    tables = [barriers_between_minima(size, grid, study) for size in _with_minima(grid)]
    return pd.concat([pd.DataFrame(), *tables], ignore_index=True)


def barriers_between_minima(size: Size, grid: Samples, study: str) -> pd.DataFrame:
    """The same between independent uniform samples of the minima of one size, in at most ``MOST_ROWS`` rows."""
    n, at = grid.uniform_pairs, np.array(grid.lambdas, dtype=float)
    A, B = (drawn(size, n, (study, grid.role), end) for end in "AB")
    found = pd.DataFrame({"direct": minima_barriers(A, B, None, at)})
    found["permuted"] = minima_barriers(A, B, match_by_type(A.types, A.values, B.types, B.values), at)
    by_row = found.groupby(np.arange(n) * min(n, MOST_ROWS) // n)
    means = by_row.mean().rename_axis("pair").reset_index()
    return means.assign(source="uniform", **asdict(size), pairs=by_row.size(), kept=True)


def column_entries(students: Result) -> pd.DataFrame:
    """Entries of column 1 by rank, over the runs that were kept, beside those expected of a uniform sample (M = 1).

    No rows if fewer than two runs were kept.

    The k-th largest of m parts of a broken stick is (1/m) sum_{i >= k} 1/i on average.
    """
    point, W = _opened(students)
    kept = _kept(population_loss(W, point.M).numpy(), point)
    entries = -np.sort(-W[..., 0].numpy()[kept], axis=1)
    rank = np.arange(1, point.m + 1)
    if len(entries) < 2:
        # There is no mean with an error; the claims and the figure say that they lack it.
        rank, entries = rank[:0], np.zeros((2, 0))
    return pd.DataFrame(
        {
            **{"M": point.M, "d": point.d, "m": point.m, "init_std": point.init_std},
            "runs": len(entries),
            "rank": rank,
            "mean": entries.mean(axis=0),
            "std": entries.std(axis=0, ddof=1),
            "expected": np.cumsum(1 / rank[::-1])[::-1] / point.m,
        }
    )


def _opened(students: Result) -> tuple[Point, Float64[Tensor, "r m d"]]:
    """A point and the weights of its students."""
    return Point(**students.point), torch.from_numpy(students.found["W"])


def _of_point(point: Point) -> dict[str, Any]:
    return {"M": point.M, "d": point.d, "m": point.m, "lr": point.lr, "c": point.c}


def _with_minima(grid: Samples) -> list[Size]:
    """The sizes at which uniform samples are asked for and exist."""
    return [size for size in grid.sizes() if size.m >= size.M] if grid.uniform_pairs else []


def drawn(size: Size, n: int, key: tuple[str, str], what: str) -> Minima:
    """Uniform samples of a size; ``key``, (study, role), and ``what`` seed them."""
    rng = numpy_rng(*key, "uniform", size.M, size.d, size.m, what)
    return uniform_minima(size.M, size.d, size.m, n, rng)


def _kept(loss: np.ndarray, size: Size) -> np.ndarray:
    """Runs that say something about the minima: none that diverged, from m = M on none that missed zero loss."""
    return ~_diverged(loss, size) & ((loss <= KEPT_BELOW) | (size.m < size.M))


def _diverged(loss: np.ndarray, size: Size) -> np.ndarray:
    """Runs that ended with a loss above that of no neurons at all."""
    without_neurons = float(population_loss(torch.zeros(1, size.d, dtype=torch.float64), size.M))
    return ~(loss <= without_neurons)


def _measured(W: Float64[Tensor, "r m d"], size: Size) -> dict[str, Any]:
    """Of each student the columns that do not depend on how it came about."""
    loss = population_loss(W, size.M).numpy()
    diverged = _diverged(loss, size)
    types, _ = types_of(W, size.M)
    counts = (types[:, :, None] == np.arange(size.M)).sum(axis=1)
    largest = counts.max(axis=1)
    entries = W.reshape(len(W), -1)
    cleaned = torch.where(entries.abs() < CLEANED_BELOW, 0, entries)
    return {
        "loss": loss,
        "diverged": diverged,
        "kept": _kept(loss, size),
        "zero_rows": (types < 0).sum(axis=1),
        "pq_rows": pq_index(W.norm(dim=-1)),
        "pq_entries": pq_index(entries),
        "pq_entries_cleaned": pq_index(cleaned),
        "type_variance": counts.var(axis=1),
        "doubled_type": np.where((counts == largest[:, None]).sum(axis=1) == 1, counts.argmax(axis=1) + 1, 0),
        "stability_limit": np.nan,
    }
