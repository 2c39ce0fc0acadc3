"""Escape directions of many runs at once against one run after the other, and descents against a plain torch loop."""

import time
from dataclasses import replace
from itertools import pairwise
from statistics import median

import torch

from symlab.papers.saddle_to_saddle.first_escape import descent_run
from symlab.papers.saddle_to_saddle.optimal_speed import descend, random_directions
from symlab.papers.saddle_to_saddle.polygon import polygon
from symlab.papers.saddle_to_saddle.settings import Descents
from symlab.training.objective import Replica
from symlab.training.replicas import train_block

RUNS, STEPS, WIDTH = 200, 300, 8
SEEDS, BATCH, DEPTH, NEURONS = 6, 32, 6, 100


def test_all_runs_at_once():
    torch.set_num_threads(1)
    X, G = polygon(8)
    sizes = [2, WIDTH, WIDTH, 1]
    start = random_directions(RUNS, sizes, torch.Generator().manual_seed(0))
    descend(start[:2], sizes, X, G, 10)
    began = time.perf_counter()
    together = descend(start, sizes, X, G, STEPS)
    at_once = time.perf_counter() - began
    began = time.perf_counter()
    alone = [plain_descent(start[run], sizes, X, G, STEPS) for run in range(0, RUNS, 20)]
    one_by_one = (time.perf_counter() - began) * 20
    worst = max(abs(speed - float(together.speeds[20 * place])) for place, speed in enumerate(alone))
    print(f"\n{RUNS} runs of {STEPS} steps: {at_once:.2f} s at once, {one_by_one:.1f} s one by one, ", end="")
    print(f"ratio {one_by_one / at_once:.0f}, largest difference of speeds {worst:.1e}")
    assert one_by_one / at_once >= 20 and worst < 1e-9


def plain_descent(theta, sizes, X, G, steps):
    """The same descent as research code writes it: one network, autograd."""
    shapes = [(out, into) for into, out in pairwise(sizes)]
    W = [
        part.reshape(shape).clone() for part, shape in zip(theta.split([a * b for a, b in shapes]), shapes, strict=True)
    ]
    for step in range(steps):
        for W_l in W:
            W_l.requires_grad_()
        Z = X
        for W_l in W[:-1]:
            Z = torch.relu(W_l @ Z)
        gradients = torch.autograd.grad((G * (W[-1] @ Z)).sum(), W)
        rate = 0.05 * (1 if step < 0.5 * steps else 0.1 if step < 0.8 * steps else 0.01)
        with torch.no_grad():
            W = [W_l - rate * gradient for W_l, gradient in zip(W, gradients, strict=True)]
            norm = torch.cat([W_l.flatten() for W_l in W]).norm()
            W = [len(W) ** 0.5 / norm * W_l for W_l in W]
    Z = X
    for W_l in W[:-1]:
        Z = torch.relu(W_l @ Z)
    return -float((G * (W[-1] @ Z)).sum())


def test_a_descent_against_a_plain_loop():
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3200, 784, generator=generator)
    y = torch.randint(10, (3200,), generator=generator)
    grid = Descents(L=[DEPTH], width=NEURONS, seeds=SEEDS, batch_size=BATCH, steps=100)
    run = descent_run(grid, x, y, 10, ("benchmark", "origin"), DEPTH, 0.01, "relu")
    run = replace(run, recipe=run.recipe.model_copy(update={"epochs": 3}))
    ours, plain = [], []
    for _ in range(3):
        began = time.perf_counter()
        train_block(run, [Replica(0, seed) for seed in range(SEEDS)])
        ours.append(SEEDS * 300 / (time.perf_counter() - began))
        plain.append(steps_of_a_plain_loop(x, y, 150))
    ratio = median(a / b for a, b in zip(ours, plain, strict=True))
    print(f"\nsteps a second: {median(ours):.0f} ({SEEDS} networks stacked), plain loop {median(plain):.0f}, ", end="")
    print(f"ratio {ratio:.2f}")
    # The goal was twice as fast, which docs/explanation/performance.md says is missed.
    assert ratio >= 1.5


def steps_of_a_plain_loop(x, y, steps):
    """Steps a second of one network in plain PyTorch."""
    sizes = [784, *[NEURONS] * (DEPTH - 1), 10]
    layers = [torch.nn.Linear(a, b, bias=False) for a, b in pairwise(sizes)]
    net = torch.nn.Sequential(*[each for layer in layers for each in (layer, torch.nn.ReLU())][:-1])
    for layer in layers:
        torch.nn.init.normal_(layer.weight, std=0.01)
    began = time.perf_counter()
    for step in range(steps):
        rows = torch.arange(BATCH) + BATCH * (step % 100)
        loss = torch.nn.functional.cross_entropy(net(x[rows]), y[rows])
        net.zero_grad()
        loss.backward()
        with torch.no_grad():
            norm = torch.sqrt(sum(p.square().sum() for p in net.parameters()))
            for p in net.parameters():
                p -= 10 / norm ** (DEPTH - 2) * p.grad
    return steps / (time.perf_counter() - began)
