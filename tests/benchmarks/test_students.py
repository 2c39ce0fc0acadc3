"""Gradient descent of 40 students as one batch, by the replica engine, against one student after the other.

``pytest tests/benchmarks/test_students.py -s`` runs it; ``python tests/benchmarks/test_students.py`` prints the
figures of a paired measurement.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from symlab.papers.permutation_invariance.population_loss import loss_and_gradient
from symlab.papers.permutation_invariance.settings import Widths
from symlab.papers.permutation_invariance.student_points import Point
from symlab.papers.permutation_invariance.student_training import train_students
from symlab.seeds import torch_generator

RUNS = 40
GRID = Widths(M=6, d=8, m=12, runs=RUNS, steps=1000)
KEY = ("benchmark", "students")
GOAL_RATIO = 5.0


def together(point: Point) -> Tensor:
    return train_students(point, range(RUNS), GRID, KEY)["W"]


def one_after_the_other(point: Point) -> Tensor:
    """The same students by a plain loop over seeds and steps, without the engine around it."""
    return torch.stack([plain(point, seed) for seed in range(RUNS)])


def plain(point: Point, seed: int) -> Tensor:
    generator = torch_generator(KEY[0], f"{KEY[1]}/{point.name}", "init", 0, seed)
    W = torch.empty(point.m, point.d, dtype=torch.float64).normal_(0, point.init_std, generator=generator)
    for _ in range(GRID.steps):
        loss, gradient = loss_and_gradient(W, point.M)
        if loss < GRID.stop_below:
            break
        W = W - point.lr * gradient
    return W


def seconds(run: Callable[[Point], Tensor], point: Point) -> float:
    start = time.perf_counter()
    run(point)
    return time.perf_counter() - start


def measure(m: int, repeats: int = 3) -> dict[str, float]:
    """Median seconds of both, alternating in one run on one thread, and the median of each round's ratio."""
    point = Point(6, 8, m, 8 / m, 1 / (8 * m))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        together(point)
        rounds = [[seconds(run, point) for run in (together, one_after_the_other)] for _ in range(repeats)]
    finally:
        torch.set_num_threads(before)
    return {
        "m": m,
        "together_s": statistics.median(times[0] for times in rounds),
        "one_by_one_s": statistics.median(times[1] for times in rounds),
        "ratio": statistics.median(times[1] / times[0] for times in rounds),
    }


def test_both_train_the_same_students() -> None:
    point = Point(6, 8, 12, 2 / 3, 1 / 96)
    torch.testing.assert_close(together(point), one_after_the_other(point), rtol=0, atol=1e-10)


def test_students_as_a_batch(benchmark: Any) -> None:
    figures = measure(m=12)
    benchmark.extra_info.update(figures)
    print(figures)
    benchmark.pedantic(together, args=(Point(6, 8, 12, 2 / 3, 1 / 96),), rounds=3, warmup_rounds=1)
    assert figures["ratio"] >= GOAL_RATIO


if __name__ == "__main__":
    for width in (7, 12, 24, 36):
        print(json.dumps(measure(width)))
