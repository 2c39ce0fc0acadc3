"""Tables of students: a row for each of them, and a row for each pair whose barriers are measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from torch import Tensor

from symlab.artifacts import read_tensors
from symlab.papers.permutation_invariance.barrier import barriers, minima_barriers, permuted
from symlab.papers.permutation_invariance.grid import Point, teachers_and_widths
from symlab.papers.permutation_invariance.kernel import population_loss
from symlab.papers.permutation_invariance.matching import Sort, hungarian, match_by_type
from symlab.papers.permutation_invariance.minima import Minima, types_of, uniform_minima
from symlab.papers.permutation_invariance.overlap import (
    expected_overlap,
    gaussian_limit,
    overlap_lower_bound,
    poisson_limit,
    sampled_overlap,
)
from symlab.papers.permutation_invariance.sparsity import is_zero, pq_index
from symlab.papers.permutation_invariance.stability import stability_limit
from symlab.seeds import numpy_rng

# A run that is to reach zero loss and ends above has stopped at another minimum, or was stopped too early.
KEPT_BELOW = 1e-5
# Entries below are what is left of a neuron's other coordinates, which convergence has not yet taken away.
CLEANED_BELOW = 1e-3
# Entries of W up to which the Hessian is computed; that of wider students takes longer than their training.
LARGEST_HESSIAN = 150
# Which lists Algorithm 1 sorts, by the column of the barriers that it leaves.
SORTED: dict[str, Sort] = {"permuted": "both", "permuted_one_sorted": "second", "permuted_unsorted": "none"}


@dataclass(frozen=True)
class Students:
    """The students of one point: weights W [r, m, d], the steps they took, and the grid that they belong to."""

    point: Point
    W: Float64[Tensor, "r m d"]
    steps: np.ndarray
    grid: dict[str, Any]

    @property
    def source(self) -> str:
        """How they came about: "gd" or "sgd"."""
        return "sgd" if self.grid["batch"] else "gd"


def open_students(paths: Sequence[str | Path]) -> Iterator[Students]:
    """The students that training jobs have written, point by point.

    Raises:
        ArtifactError: a file is missing, damaged, or of another kind.
    """
    for path in paths:
        tensors, header = read_tensors(path, "students")
        for described in header["points"]:
            point = Point(**described)
            W = torch.from_numpy(tensors[f"{point.name}/W"])
            yield Students(point, W, tensors[f"{point.name}/steps"], header["grid"])


def runs_of_trained(students: Students) -> pd.DataFrame:
    """One row a student: loss, steps, sparsity and types (columns as in workflow/report/tables.yaml)."""
    point = students.point
    columns = {"source": students.source, **_of_point(point), "init_std": point.init_std}
    measured = _measured(students.W, point)
    return pd.DataFrame({**columns, "seed": np.arange(len(students.W)), "steps": students.steps, **measured})


def runs_of_uniform(grid: dict[str, Any], study: str, role: str) -> pd.DataFrame:
    """The same of uniform samples of the minima, two for each of the grid's ``uniform_pairs``; nothing below m = M."""
    tables = [pd.DataFrame()]
    for point in _with_minima(grid):
        W = _drawn(point, 2 * grid["uniform_pairs"], study, role, "runs").dense()
        columns = {"source": "uniform", "M": point.M, "d": point.d, "m": point.m}
        tables.append(pd.DataFrame({**columns, "seed": np.arange(len(W)), **_measured(W, point)}))
    return pd.concat(tables, ignore_index=True)


def barriers_of_trained(students: Students, lambdas: Sequence[float]) -> pd.DataFrame:
    """One row for each pair of consecutive seeds: direct barrier, and those after each matching, in the loss's unit."""
    point, M = students.point, students.point.M
    W_A, W_B = students.W[0::2], students.W[1::2]
    kept = _kept(population_loss(students.W, M).numpy(), point)
    types_A, values_A = types_of(W_A, M)
    types_B, values_B = types_of(W_B, M)
    table = pd.DataFrame({"source": students.source, **_of_point(point), "pair": np.arange(len(W_A))})
    table["kept"] = kept[0::2] & kept[1::2]
    table["loss_A"], table["loss_B"] = population_loss(W_A, M).numpy(), population_loss(W_B, M).numpy()
    at = np.array(lambdas, dtype=float)
    table["direct"] = barriers(W_A, W_B, M, at)
    for column, sort in SORTED.items():
        pi = match_by_type(types_A, values_A, types_B, values_B, sort)
        table[column] = barriers(W_A, permuted(W_B, pi), M, at)
    table["permuted_hungarian"] = barriers(W_A, permuted(W_B, hungarian(W_A, W_B)), M, at)
    return table


def barriers_of_uniform(grid: dict[str, Any], study: str, role: str) -> pd.DataFrame:
    """The same between independent uniform samples of the minima; nothing below m = M, where there are none."""
    n, at = grid["uniform_pairs"], np.array(grid["lambdas"], dtype=float)
    tables = [pd.DataFrame()]
    for point in _with_minima(grid):
        A, B = (_drawn(point, n, study, role, end) for end in "AB")
        columns = {"source": "uniform", "M": point.M, "d": point.d, "m": point.m}
        table = pd.DataFrame({**columns, "pair": np.arange(n), "kept": True, "loss_A": 0.0, "loss_B": 0.0})
        table["direct"] = minima_barriers(A, B, None, at)
        for column, sort in SORTED.items():
            table[column] = minima_barriers(A, B, match_by_type(A.types, A.values, B.types, B.values, sort), at)
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def column_entries(students: Students) -> pd.DataFrame:
    """Entries of column 1 by rank, over the runs that were kept, beside those expected of a uniform sample (M = 1).

    No rows if fewer than two runs were kept.

    The k-th largest of m parts of a broken stick is (1/m) sum_{i >= k} 1/i on average.
    """
    point = students.point
    kept = _kept(population_loss(students.W, point.M).numpy(), point)
    entries = -np.sort(-students.W[..., 0].numpy()[kept], axis=1)
    rank = np.arange(1, point.m + 1)
    if len(entries) < 2:
        # There is no mean with an error; the claims and the figure say that they lack it.
        rank, entries = rank[:0], np.zeros((2, 0))
    return pd.DataFrame(
        {
            **{name: value for name, value in _of_point(point).items() if name in ("M", "d", "m")},
            "init_std": point.init_std,
            "runs": len(entries),
            "rank": rank,
            "mean": entries.mean(axis=0),
            "std": entries.std(axis=0, ddof=1),
            "first": entries[0],
            "expected": np.cumsum(1 / rank[::-1])[::-1] / point.m,
        }
    )


def overlap_table(M: int, up_to: float, draws: int, seed: tuple[str, ...]) -> pd.DataFrame:
    """Overlap P at every width m from M to ``up_to`` M: exact T(m, M), its bound and limits (Theorem 5), and by draws.

    Args:
        seed: names that the draws' generators are derived from, with M and m.
    """
    rows = []
    for m in range(M, round(up_to * M) + 1):
        drawn, error = sampled_overlap(m, M, draws, numpy_rng(*seed, M, m))
        rows.append(
            {"M": M, "m": m, "draws": draws, "overlap_mean": drawn, "overlap_se": error}
            | {"overlap": expected_overlap(m, M), "lower_bound": overlap_lower_bound(m, M)}
            | {"poisson_limit": poisson_limit(m / M), "gaussian_limit": gaussian_limit(M / m)}
        )
    return pd.DataFrame(rows)


def _of_point(point: Point) -> dict[str, Any]:
    return {"M": point.M, "d": point.d, "m": point.m, "lr": point.lr, "c": point.c}


def _with_minima(grid: dict[str, Any]) -> list[Point]:
    """The points at which uniform samples are asked for and exist."""
    return [point for point in teachers_and_widths(grid) if point.m >= point.M] if grid["uniform_pairs"] else []


def _drawn(point: Point, n: int, study: str, role: str, what: str) -> Minima:
    rng = numpy_rng(study, role, "uniform", point.M, point.d, point.m, what)
    return uniform_minima(point.M, point.d, point.m, n, rng)


def _kept(loss: np.ndarray, point: Point) -> np.ndarray:
    """Runs that say something about the minima: none that diverged, from m = M on none that missed zero loss."""
    return ~_diverged(loss, point) & ((loss <= KEPT_BELOW) | (point.m < point.M))


def _diverged(loss: np.ndarray, point: Point) -> np.ndarray:
    without_neurons = float(population_loss(torch.zeros(1, point.d, dtype=torch.float64), point.M))
    return ~(loss <= without_neurons)


def _measured(W: Float64[Tensor, "r m d"], point: Point) -> dict[str, Any]:
    loss = population_loss(W, point.M).numpy()
    diverged = _diverged(loss, point)
    types, _ = types_of(W, point.M)
    counts = (types[:, :, None] == np.arange(point.M)).sum(axis=1)
    largest = counts.max(axis=1)
    entries = W.reshape(len(W), -1)
    cleaned = torch.where(entries.abs() < CLEANED_BELOW, 0, entries)
    small = point.m * point.d <= LARGEST_HESSIAN
    return {
        "loss": loss,
        "diverged": diverged,
        "kept": _kept(loss, point),
        "zero_rows": is_zero(W).sum(dim=-1).numpy(),
        "pq_rows": pq_index(W.norm(dim=-1)),
        "pq_entries": pq_index(entries),
        "pq_entries_cleaned": pq_index(cleaned),
        "type_variance": counts.var(axis=1),
        "doubled_type": np.where((counts == largest[:, None]).sum(axis=1) == 1, counts.argmax(axis=1) + 1, 0),
        "stability_limit": _stability_limits(W, diverged) if small else np.nan,
    }


def _stability_limits(W: Float64[Tensor, "r m d"], diverged: np.ndarray) -> np.ndarray:
    limits = np.full(len(W), np.nan)
    limits[~diverged] = np.asarray(stability_limit(W[torch.from_numpy(~diverged)]))
    return limits
