"""The polygon experiment: the speeds that random starts reach, beside what one neuron reaches and what is certified."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pandas as pd
import torch

from symlab.artifacts import Tensors
from symlab.measures.job import Job
from symlab.measures.points import keep_point
from symlab.papers.saddle_to_saddle.localized_loss import (
    budget_by_layer,
    budget_missed,
    escape_speed,
    layer_ratios,
    lift,
    speed_budget,
)
from symlab.papers.saddle_to_saddle.optimal_speed import Runs, descend, random_directions
from symlab.papers.saddle_to_saddle.polygon import best_rank_one_speed, certify_speed, example_one, polygon
from symlab.papers.saddle_to_saddle.settings import STILL_BELOW, Polygons
from symlab.seeds import torch_generator

MARGIN = 1e-3
"""How far above the best speed of one neuron a run counts as a success."""
UNDECIDED = 0.05


def search_polygons(grids: Sequence[Polygons], job: Job) -> dict[str, pd.DataFrame]:
    """Descend from random starts on every polygon, at every depth and width.

    Returns:
        ``polygon_runs.csv``: a row a run: N, L, width, run, steps, speed, its ``outcome`` (success, failure, dead,
        undecided), the ratios A_l, B_l, D_l of Theorem 3.1, ``second_l``, the second singular value of W_l over the
        first, and by how much the speed budget misses.
        ``polygon_curves.csv``: the speed of each run along its steps.
        ``polygon_limits.csv``: of each polygon the speed of one neuron and the certified limit at depth three.
        ``polygon_lifts.csv``: N, width, L, and the speed of the fastest run of depth ``of`` made L deep by Prop. 3.2.
        ``polygon_budget.csv``: where the fastest run of each point, and Example 1, lose speed: N, L, width, ``of``,
        ``term``, ``layer`` and ``lost``, terms that sum to log(|X| |G| / s); layer L + 1 is the output.
    """
    runs, curves, best = [], [], {}
    for grid in grids:
        for N, L, width in product(grid.N, grid.L, grid.widths):

            def make(_: object, grid: Polygons = grid, N: int = N, L: int = L, width: int = width) -> Tensors:
                return _point(grid, N, L, width, job)

            spec = {"study": job.study, "N": N, "L": L, "width": width, **grid.model_dump(exclude={"N", "L", "widths"})}
            point = keep_point(job, f"N{N}_L{L}_w{width}", spec, make)
            key = {"N": N, "L": L, "width": width}
            numbers = {name: values for name, values in point.items() if values.ndim == 1 and name != "recorded"}
            table = pd.DataFrame({**key, "run": np.arange(len(point["speed"])), **numbers})
            runs.append(table.assign(outcome=_outcomes(table, best_rank_one_speed(N))))
            curves.append(_long(point, key))
            best[N, L, width] = [torch.from_numpy(point[f"fastest_{layer}"]) for layer in range(1, L + 1)]
            share = (runs[-1]["outcome"] == "success").mean()
            job.report(f"N = {N}, L = {L}, width {width}: {share:.3g} of {grid.runs} runs are faster than one neuron")
    limits = [
        {"N": N, "rank_one": best_rank_one_speed(N), "certified": certify_speed(N)}
        for N in dict.fromkeys(N for grid in grids for N in grid.N)
    ]
    return {
        "polygon_runs.csv": pd.concat(runs, ignore_index=True),
        "polygon_curves.csv": pd.concat(curves, ignore_index=True),
        "polygon_limits.csv": pd.DataFrame(limits),
        "polygon_lifts.csv": _lifts(best),
        "polygon_budget.csv": _budgets(best),
    }


Fastest = dict[tuple[int, int, int], list[torch.Tensor]]
"""Weights of the fastest run by N, L and width."""


def _lifts(best: Fastest) -> pd.DataFrame:
    columns = ["N", "width", "L", "of", "speed"]
    rows = [
        (N, width, L, of, float(escape_speed(lift(W, *polygon(N), L - of), *polygon(N))))
        for (N, of, width), W in best.items()
        for L in sorted({L for n, L, w in best if (n, w) == (N, width) and of < L})
        # What is not on its way out has nothing to hand on.
        if float(escape_speed(W, *polygon(N))) > 0
    ]
    return pd.DataFrame(rows, columns=columns)


def _budgets(best: Fastest) -> pd.DataFrame:
    shown = {(N, L, width, "fastest run"): W for (N, L, width), W in best.items()}
    if any(N == 8 for N, _, _ in best):
        shown[8, 3, 4, "Example 1"] = example_one()
    rows = []
    for (N, L, width, of), W in shown.items():
        X, G = polygon(N)
        if float(escape_speed(W, X, G)) > 0:
            budget = speed_budget(W, X, G)
            terms = {**budget_by_layer(budget), ("output", L + 1): budget.output}
            rows += [(N, L, width, of, term, layer, float(lost)) for (term, layer), lost in terms.items()]
    return pd.DataFrame(rows, columns=["N", "L", "width", "of", "term", "layer", "lost"])


def _point(grid: Polygons, N: int, L: int, width: int, job: Job) -> Tensors:
    X, G = polygon(N)
    sizes = [2, *[width] * (L - 1), 1]
    start = random_directions(grid.runs, sizes, torch_generator("polygon", job.study, N, L, width))
    steps, found = grid.steps, descend(start, sizes, X, G, grid.steps)
    limit = best_rank_one_speed(N)
    for _ in range(grid.doublings):
        if _undecided(found, limit).double().mean() <= UNDECIDED:
            break
        steps *= 2
        found = descend(start, sizes, X, G, steps)
    ratios = layer_ratios(found.W, X)
    singular = [torch.linalg.svdvals(W_l) for W_l in found.W]
    second = [values[:, 1] / values[:, 0] if values.shape[1] > 1 else torch.zeros(len(values)) for values in singular]
    columns = {
        **{f"second_{place + 1}": ratio for place, ratio in enumerate(second)},
        **{f"A_{place + 1}": ratios.A[:, place] for place in range(L)},
        **{f"B_{place}": ratios.B[:, place] for place in range(L)},
        **{f"D_{place + 1}": ratios.D[:, place] for place in range(L - 1)},
    }
    numbers = {
        "steps": torch.full((grid.runs,), steps),
        "speed": found.speeds,
        "slope": found.slope,
        **columns,
        "budget_missed": budget_missed(speed_budget(found.W, X, G)),
    }
    fastest = int(found.speeds.argmax())
    kept = {f"fastest_{place + 1}": W_l[fastest] for place, W_l in enumerate(found.W)}
    arrays = {**numbers, **kept, "curves": found.curves, "recorded": torch.tensor(found.recorded)}
    return {name: values.contiguous().numpy() for name, values in arrays.items()}


def _undecided(found: Runs, limit: float) -> torch.Tensor:
    return (found.slope > STILL_BELOW) & (found.speeds <= limit + MARGIN)


def _outcomes(runs: pd.DataFrame, limit: float) -> np.ndarray:
    success, dead = runs["speed"] > limit + MARGIN, runs["speed"] == 0
    return np.select([success, dead, runs["slope"] > STILL_BELOW], ["success", "dead", "undecided"], "failure")


def _long(point: Tensors, key: dict[str, int]) -> pd.DataFrame:
    run, place = (index.ravel() for index in np.indices(point["curves"].shape))
    return pd.DataFrame({**key, "run": run, "step": point["recorded"][place], "speed": point["curves"].ravel()})
