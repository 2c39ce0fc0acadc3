"""Tables of the polygon experiment: the speeds of runs, beside what one neuron reaches and what is certified."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from symlab.measures.job import Job
from symlab.papers.saddle_to_saddle.localized_loss import escape_of, lift, speed_budget
from symlab.papers.saddle_to_saddle.polygon import best_rank_one_speed, certify_speed, example_one, polygon
from symlab.papers.saddle_to_saddle.settings import STILL_BELOW, Polygons
from symlab.papers.saddle_to_saddle.sphere_searches import MARGIN
from symlab.study.points import Result


def tabulate_polygons(results: Sequence[Result], grids: Sequence[Polygons], job: Job) -> dict[str, pd.DataFrame]:
    """The runs, and what follows from the fastest of each point, as the room's card says.

    Layer 0 of ``polygon_budget.csv`` are the inputs, layer L + 1 is the output.
    """
    runs, curves, best = [], [], {}
    for each in results:
        key, found = each.point, each.found
        numbers = {name: values for name, values in found.items() if values.ndim == 1 and name != "recorded"}
        table = pd.DataFrame({**key, "run": np.arange(len(found["speed"])), **numbers})
        success, dead = table["speed"] > best_rank_one_speed(key["N"]) + MARGIN, table["speed"] == 0
        chosen = [success, dead, table["slope"] > STILL_BELOW]
        runs.append(table.assign(outcome=np.select(chosen, ["success", "dead", "undecided"], "failure")))
        speeds, (run, place) = found["curves"].ravel(), np.indices(found["curves"].shape).reshape(2, -1)
        curves.append(pd.DataFrame({**key, "run": run, "step": found["recorded"][place], "speed": speeds}))
        fastest = [torch.from_numpy(found[f"fastest_{layer}"]) for layer in range(1, key["L"] + 1)]
        best[key["N"], key["L"], key["width"]] = fastest
    limits = [
        {"N": N, "rank_one": best_rank_one_speed(N), "certified": certify_speed(N)}
        for N in dict.fromkeys(each.point["N"] for each in results)
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
        (N, width, L, of, float(escape_of(lift(W, *polygon(N), L - of), *polygon(N)).speed))
        for (N, of, width), W in best.items()
        for L in sorted({L for n, L, w in best if (n, w) == (N, width) and of < L})
        # What is not on its way out has nothing to hand on.
        if float(escape_of(W, *polygon(N)).speed) > 0
    ]
    return pd.DataFrame(rows, columns=columns)


def _budgets(best: Fastest) -> pd.DataFrame:
    shown = {(N, L, width, "fastest run"): W for (N, L, width), W in best.items()}
    if any(N == 8 for N, _, _ in best):
        shown[8, 3, 4, "Example 1"] = example_one()
    rows = []
    for (N, L, width, of), W in shown.items():
        X, G = polygon(N)
        if float(escape_of(W, X, G).speed) > 0:
            terms = speed_budget(W, X, G).items()
            rows += [(N, L, width, of, term, layer, float(lost)) for (term, layer), lost in terms]
    return pd.DataFrame(rows, columns=["N", "L", "width", "of", "term", "layer", "lost"])
