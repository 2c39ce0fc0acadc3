"""Optimizers that start on a mirror of rotations: those whose steps turn with the weights stay on it (Corollary 1)."""

from __future__ import annotations

import pandas as pd
import torch

from symlab.measures.job import Job
from symlab.seeds import torch_generator
from symlab.symmetries.mirrors import rotation

SHAPE, STEPS, RATE = (6, 8), 200, 1e-3
"""Of W, and how ||W^T W - C||^2 is descended."""
OPTIMIZERS = {
    "SGD": lambda W: torch.optim.SGD([W], lr=RATE),
    "SGD, momentum 0.9": lambda W: torch.optim.SGD([W], lr=RATE, momentum=0.9),
    "SGD, decay 0.01": lambda W: torch.optim.SGD([W], lr=RATE, weight_decay=0.01),
    "Adam": lambda W: torch.optim.Adam([W], lr=RATE),
}


def descend_with(name: str, job: Job) -> pd.DataFrame:
    """Distance |n^T W| over |W| at every step, from W that lies on the mirror n^T W = 0 of ||W^T W - C||^2."""
    generator = torch_generator(job.study, "rotation")
    shapes = {"W": SHAPE, "n": SHAPE[:1], "C": (SHAPE[1], SHAPE[1])}
    drawn = {key: torch.randn(size, generator=generator, dtype=torch.float64) for key, size in shapes.items()}
    n, C = drawn["n"] / drawn["n"].norm(), drawn["C"] @ drawn["C"].T
    mirror = rotation("W", n)
    W = mirror.on({"W": drawn["W"]})["W"].requires_grad_()
    optimizer = OPTIMIZERS[name](W)
    off = []
    for _ in range(STEPS + 1):
        off.append(mirror.order_parameter({"W": W.detach()}) / float(W.detach().norm()))
        optimizer.zero_grad()
        (W.T @ W - C).square().sum().backward()
        optimizer.step()
    return pd.DataFrame({"optimizer": name, "step": range(STEPS + 1), "off": off})
