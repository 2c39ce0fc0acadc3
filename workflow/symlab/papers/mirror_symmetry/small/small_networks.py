"""Tanh networks, whose mirrors are known in closed form: the decay from which 0 is stable, and a Hessian in blocks."""

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.func import grad

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.settings import SmallNetworks
from symlab.papers.mirror_symmetry.small.theorem_1 import theorem_1_in_numbers
from symlab.seeds import torch_generator
from symlab.symmetries.mirrors import Mirror, State, basis, equal_rows, flat, random_state, unflat

INPUTS, NEURONS = 3, 6
"""Of the network whose Hessian is shown."""


def measure_small_networks(settings: SmallNetworks, job: Job, seed: int) -> dict[str, pd.DataFrame]:
    """Descents of one draw at every decay; with the first draw, the Hessian of a network. In double precision."""
    shown = {"mirror_hessian.csv": _hessian(job), "mirror_theorem.csv": theorem_1_in_numbers(job)} if seed == 0 else {}
    return {"mirror_decay.csv": _decays(settings, seed, job), **shown}


def _decays(settings: SmallNetworks, seed: int, job: Job) -> pd.DataFrame:
    generator = torch_generator(job.study, "tanh", seed)
    x = torch.randn(settings.samples, generator=generator, dtype=torch.float64)
    y = x + 0.5 * torch.randn(settings.samples, generator=generator, dtype=torch.float64)
    ratios = torch.tensor(settings.gamma_over_critical, dtype=torch.float64)[:, None]
    gamma = ratios * (x * y).mean().abs() / 2
    theta = torch.randn(1, 2 * settings.d, generator=generator, dtype=torch.float64)
    theta = (settings.start * theta / theta.norm()).expand(len(ratios), -1)
    u, w = (part.clone() for part in theta.split(settings.d, dim=1))
    for _ in range(settings.steps):
        # [decays, neurons, samples]
        a = torch.tanh(w[:, :, None] * x)
        r = ((u[:, :, None] * a).sum(dim=1, keepdim=True) - y) / settings.samples
        du, dw = (r * a).sum(dim=2), u * (r * (1 - a * a) * x).sum(dim=2)
        u, w = (at - settings.lr * (g + 2 * gamma * at) for at, g in ((u, du), (w, dw)))
    norms = torch.cat([u, w], dim=1).norm(dim=1)
    return pd.DataFrame({"seed": seed, "gamma_over_critical": settings.gamma_over_critical, "norm": norms.numpy()})


def _hessian(job: Job) -> pd.DataFrame:
    generator = torch_generator(job.study, "hessian")
    x, y = (torch.randn(*size, generator=generator, dtype=torch.float64) for size in ((50, INPUTS), (50,)))
    like = {"u": torch.zeros(NEURONS, dtype=torch.float64), "w": torch.zeros(NEURONS, INPUTS, dtype=torch.float64)}

    def loss(state: State) -> Tensor:
        return (torch.tanh(x @ state["w"].T) @ state["u"] - y).square().mean()

    state = random_state(like, generator)
    for mirror in MIRRORS.values():
        state = mirror.on(state)
    # Descents stay on the mirrors: what is shown is a Hessian late in training, not at a drawn point.
    for _ in range(200):
        gradient = grad(loss)(state)
        state = {name: value - 0.1 * gradient[name] for name, value in state.items()}

    def at(vector: Tensor) -> Tensor:
        return loss(unflat(vector, like))

    H = torch.func.jacrev(grad(at))(flat(state))
    columns, blocks = _mirror_basis(like)
    values = (columns.T @ H @ columns).numpy()
    i, j = (index.ravel() for index in np.indices(values.shape))
    return pd.DataFrame({"basis": "mirrors", "block": np.array(blocks)[i], "i": i, "j": j, "value": values.ravel()})


def _mirror_basis(like: State) -> tuple[Tensor, list[str]]:
    """Columns of every mirror's O, then of the directions within all of them, and the block of each column."""
    offs = {name: basis(mirror, like)[0] for name, mirror in MIRRORS.items()}
    inside = torch.cat(list(offs.values()), dim=1)
    rest = torch.linalg.svd(inside, full_matrices=True).U[:, inside.shape[1] :]
    names = [name for name, off in offs.items() for _ in range(off.shape[1])]
    return torch.cat([inside, rest], dim=1), [*names, *["within"] * rest.shape[1]]


def _flipped(neuron: int) -> Mirror:
    signs = torch.ones(NEURONS, dtype=torch.float64)
    signs[neuron] = -1
    return Mirror(f"{neuron} = 0", lambda state: {"u": state["u"] * signs, "w": state["w"] * signs[:, None]})


MIRRORS = {"neurons 1 = 2": equal_rows(0, 1), "neurons 3 = 4": equal_rows(2, 3), "neuron 5 = 0": _flipped(4)}
"""Mirrors of the tanh network: two of permutations, and one of the sign that a neuron's weights share."""
