"""The penalty above which the branches of two-layer blocks die: predicted by what one neuron could gain, and found.

Near a dead branch W_2 relu(W_1 x + b_1) a neuron a relu(v.x + beta) gains |a| |v| S at first order and costs
lambda / 2 (|a|^2 + |v|^2), so that it dies where lambda > S = sup over |v| = 1 and beta of |sum_i g_i relu(v.x_i +
beta)|. g_i is the fit's gradient at the residual stream of the network without branches; S hardly
depends on depth: each dead block adds its last bias and a LayerNorm.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from symlab.measures.job import Job
from symlab.networks import TorchDefault
from symlab.networks.initialise import sample_parameters
from symlab.networks.layernorm_resnet import LayerNormResNet, normalise
from symlab.papers.neural_collapse.growth import blocks_of
from symlab.papers.neural_collapse.networks import with_zeros
from symlab.papers.neural_collapse.samples import Samples, samples_of
from symlab.papers.neural_collapse.settings import CriticalPenalty
from symlab.papers.neural_collapse.trained_runs import SINGLE, Descent
from symlab.schemes.fixed_parts import State
from symlab.seeds import torch_generator
from symlab.training.on_samples import TrainingData

WIDEST = 4
"""Branches are looked for from the predicted penalty over this to as many times it."""
WITHOUT = 10
"""Iterations of networks without branches, as a multiple of the effort: S depends on how well they are minimised."""
TOLERANCE = 1e-6
"""A neuron next to nothing has next to no gradient."""
NEWBORN = 50
"""Iterations after which a branch next to nothing has grown or shrunk; either is slow, and its sign is asked for."""
DEAD = 1e-2
"""Squared norm of a block's weights below which its branch is dead; alive ones are of order 1."""
SMALL = 0.05
"""Norm of each of the two weight vectors of the neuron that a branch next to nothing has."""


class Neuron(NamedTuple):
    """a relu(v.x + beta) with unit vectors: what it gains at first order over |a| |v|."""

    gain: float
    v: Float[Tensor, " d"]
    beta: float
    a: Float[Tensor, " d"]


def find_critical_penalty(
    settings: CriticalPenalty, job: Job, dataset: str, last_penalty: float
) -> dict[str, pd.DataFrame]:
    """The penalty at which branches die, for one of the last layer, in networks of every depth; a row a seed.

    ``born`` and ``dies`` are middles of intervals, ``step`` the ratio of their ends; ``predicted`` is S, from below,
    of a network without branches, and taken for every depth.
    """
    samples = samples_of(settings, job.datasets[dataset])
    data = TrainingData(samples.x, samples.y, samples.x[:0], samples.y[:0], "classification")
    shape, name = (samples.x.shape[1], samples.classes, settings.width), f"critical_{dataset}_{last_penalty:g}"
    build, cost = lambda: with_zeros(LayerNormResNet(*shape, 2, 2)), (settings.steps, WITHOUT * settings.effort)
    dead = Descent(
        build, data, (0, last_penalty), (job.study, name), *cost, settings.lr, settings.seeds, tolerance=TOLERANCE
    )
    states, found = replace(dead, single=SINGLE).run(job, checkpoints=True)
    rows = []
    for seed in range(settings.seeds):
        without = {name: tensor[seed] for name, tensor in states.items()}
        drawn = partial(torch_generator, job.study, "critical penalty", dataset, f"{last_penalty:g}", seed)
        neuron = best_neuron(*stream_and_gradient(without, samples), settings.starts, drawn())
        for L in settings.L:
            deep, iterations = partial(LayerNormResNet, *shape, L, 2), max(settings.effort // L, 1)
            living = replace(dead, build=deep, key=(job.study, f"{name}_{L}"), iterations=iterations)
            random = sample_parameters(living.build(), TorchDefault(name="torch"), drawn(L))
            start = {name: tensor[None].double() for name, tensor in random.items()}
            alive, weights = minimise_branches(living, job, start, neuron.gain / WIDEST)
            small = next_to_nothing(without, random, neuron)
            ends = {
                end: _bisect(partial(minimise_branches, of, job, start), least, neuron.gain, settings.halvings)
                for end, of, start, least in (
                    ("born", replace(living, iterations=NEWBORN), small, weights_of(small)),
                    ("dies", living, alive, DEAD),
                )
            }
            key = {"dataset": dataset, "last_penalty": last_penalty, "L": L, "seed": seed, "predicted": neuron.gain}
            step = WIDEST ** (2 / 2**settings.halvings)
            rows.append({**key, **ends, "step": step, "weights": weights, "without": found["objective"][seed]})
            job.report(f"{dataset}, L = {L}: predicted {neuron.gain:.3g}, found {ends}")
    return {"critical_penalty.csv": pd.DataFrame(rows)}


def minimise_branches(descent: Descent, job: Job, start: State, hidden: float) -> tuple[State, float]:
    """A network minimised from a start at a penalty of hidden weights, and ``weights_of`` it."""
    at = replace(descent, start=start, steps=0, seeds=1, penalties=(hidden, descent.penalties[1]))
    state, _ = at.run(job)
    return state, weights_of(state)


def _bisect(branches: Callable[[float], tuple[State, float]], least: float, predicted: float, halvings: int) -> float:
    """The penalty above which a block's weights end below ``least``; an end of the interval where all or none do."""
    low, high = math.log(predicted / WIDEST), math.log(predicted * WIDEST)
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if branches(math.exp(middle))[1] >= least else (low, middle)
    return math.exp((low + high) / 2)


def weights_of(state: State) -> float:
    """Squared norm of a block's weights, in the mean."""
    blocks = blocks_of(state)
    return sum(float(t.square().sum()) for block in blocks for n, t in block.items() if "weight" in n) / len(blocks)


def next_to_nothing(without: State, like: State, neuron: Neuron) -> State:
    """A deep network that is one without branches but for the best neuron, small, in its first block; stacked."""
    state = {n: torch.zeros_like(t).double() if n.startswith("blocks.") else without[n] for n, t in like.items()}
    state["blocks.0.0.weight"][0], state["blocks.0.0.bias"][0] = SMALL * neuron.v, SMALL * neuron.beta
    state["blocks.0.1.weight"][:, 0] = SMALL * neuron.a
    state["blocks.0.1.bias"] = without["blocks.0.1.bias"]
    return {name: tensor[None] for name, tensor in state.items()}


def stream_and_gradient(without: State, samples: Samples) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"]]:
    """What a branch would read, and the fit's gradient (1/N inside) at the stream that it would add to, centred.

    Where the block's last bias is at its optimum the gradients sum to 0; they are centred, so that ``best_neuron`` does
    not diverge with beta.
    """
    W, b = without["readout.weight"], without["readout.bias"]
    Z = normalise(functional.linear(samples.x.double(), without["embedding.weight"], without["embedding.bias"]))
    stream = (Z + without["blocks.0.1.bias"]).requires_grad_()
    fit = functional.cross_entropy(normalise(stream) @ W.T + b, samples.y)
    (g,) = torch.autograd.grad(fit, stream)
    return Z, g - g.mean(0)


def best_neuron(
    Z: Float[Tensor, "n d"], g: Float[Tensor, "n d"], starts: int, generator: torch.Generator, steps: int = 1000
) -> Neuron:
    """S, the largest |sum_i g_i relu(v.x_i + beta)| over |v| = 1 and beta that gradient ascent finds, and where.

    Starts are differences of samples, whose planes cut the data.
    """
    pairs = torch.randint(len(Z), (2, starts), generator=generator)
    v = (Z[pairs[0]] - Z[pairs[1]] + 1e-3).requires_grad_()
    beta = torch.zeros(starts, dtype=Z.dtype, requires_grad=True)
    optimizer = torch.optim.Adam([v, beta], lr=0.03)
    best = Neuron(0.0, v[0], 0.0, v[0])
    for _ in range(steps):
        unit = v / v.norm(dim=1, keepdim=True)
        pulls = (Z @ unit.T + beta).clamp_min(0).T @ g
        gains = pulls.norm(dim=1)
        at = int(gains.argmax())
        if (gain := float(gains.detach()[at])) > best.gain:
            best = Neuron(gain, unit[at].detach(), float(beta.detach()[at]), -pulls[at].detach() / gain)
        optimizer.zero_grad()
        (-gains.log().sum()).backward()
        optimizer.step()
    return best
