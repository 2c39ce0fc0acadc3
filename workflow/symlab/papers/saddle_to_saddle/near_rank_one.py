"""How tight Proposition 3.3 is: escape directions for inputs that are rank one but for noise."""

import pandas as pd
import torch

from symlab.measures.job import Job
from symlab.papers.saddle_to_saddle.localized_loss import bound_near_rank_one, layer_ratios
from symlab.papers.saddle_to_saddle.optimal_speed import descend, random_directions
from symlab.papers.saddle_to_saddle.settings import NearRankOne
from symlab.seeds import torch_generator


def perturb_rank_one(settings: NearRankOne, job: Job, noise: float, seed: int) -> dict[str, pd.DataFrame]:
    """Ratios of the fastest of all runs on u v^T + E, u, v >= 0, for a norm of E in units of that of u v^T.

    Returns:
        ``near_rank_one.csv``: a row: ``noise``, ``seed``, ``speed``, A_l, B_l, D_l, and Proposition 3.3's ``bound`` on
        all of them (infinite where it says nothing).
    """
    drawn = torch_generator(job.study, "near rank one", seed)
    u, v, E, G = (
        torch.randn(*shape, generator=drawn, dtype=torch.float64)
        for shape in ((settings.d, 1), (1, settings.n), (settings.d, settings.n), (settings.outputs, settings.n))
    )
    plain = u.abs() @ v.abs()
    plain, E = plain / plain.norm(), E / E.norm()
    sizes = [settings.d, *[settings.width] * (settings.L - 1), settings.outputs]
    start = random_directions(settings.runs, sizes, drawn)
    X = plain + noise * E
    found = descend(start, X, G, settings.steps)
    best = int(found.speeds.argmax())
    ratios = layer_ratios([W_l[best] for W_l in found.W], X)
    speed = float(found.speeds[best])
    row = {"noise": noise, "seed": seed, "speed": speed, "bound": bound_near_rank_one(noise, G, speed)}
    for letter, values in zip("ABD", ratios, strict=True):
        first = 0 if letter == "B" else 1
        row |= {f"{letter}_{first + place}": float(value) for place, value in enumerate(values)}
    return {"near_rank_one.csv": pd.DataFrame([row])}
