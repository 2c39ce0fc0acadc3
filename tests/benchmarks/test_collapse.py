"""Stacked full-batch steps of residual networks against one network after the other, on one thread."""

import time
from statistics import median

import numpy as np
import pytest
import torch
import torch.nn.functional as functional

from symlab.networks import TorchDefault
from symlab.networks.layernorm_resnet import LayerNormResNet
from symlab.papers.neural_collapse.resnet_stack import ResNetData
from symlab.papers.neural_collapse.trained_runs import penalties_by_path
from symlab.schemes import Standard
from symlab.training.objective import Replica
from symlab.training.replicas import Run, train_block
from symlab.training.settings import Recipe
from symlab.training.stacks import TrainingData

WIDTH, CLASSES, STEPS, SEEDS, PENALTY = 64, 10, 60, 4, 0.005


# With a thousand samples the products themselves take most of a step.
@pytest.mark.parametrize(("n", "inputs", "ratio"), [(300, 64, 3), (1000, 196, 1)])
def test_stacked_seeds_against_one_after_the_other(n, inputs, ratio):
    torch.set_num_threads(1)
    x = torch.randn(n, inputs, generator=torch.Generator().manual_seed(0))
    y = torch.arange(n) % CLASSES
    for depth in (2, 5, 13):
        ours, kernel, plain = [], [], []
        for _ in range(3):
            together, seconds = trained(ResNetData, x, y, depth, range(SEEDS))
            ours.append(seconds / SEEDS)
            alone, seconds = trained(TrainingData, x, y, depth, [1])
            kernel.append(seconds)
            plain.append(plain_loop(x, y, depth))
        # The same but for rounding, which grows by half with each step: Adam's first ones are signs of gradients.
        losses = [block.history.query("seed == 1")["train_loss"].to_numpy() for block in (together, alone)]
        np.testing.assert_allclose(losses[0][:4], losses[1][:4], rtol=1e-4)
        by_plain, by_kernel = (median(a / b for a, b in zip(each, ours, strict=True)) for each in (plain, kernel))
        print(f"\nN = {n}, L = {depth}: {1e3 * median(ours) / STEPS:.2f} ms a step and network, ", end="")
        print(f"plain loop {by_plain:.2f} times as long, the kernel's loop on one network {by_kernel:.2f}", end="")
        assert by_kernel >= ratio


def trained(data, x, y, depth, seeds):
    def make():
        return LayerNormResNet(x.shape[1], CLASSES, WIDTH, depth)

    recipe = Recipe(optimizer="adam", lr=0.005, weight_decay=0, penalties=penalties_by_path(make(), PENALTY, PENALTY),
                    epochs=STEPS, batch_size=None)  # fmt: skip
    samples = data(x, y, x[:0], y[:0], "classification")
    run = Run(make, samples, Standard(name="standard"), TorchDefault(name="torch"), recipe, [], ("b", "v"))
    began = time.perf_counter()
    return train_block(run, [Replica(0, seed) for seed in seeds]), time.perf_counter() - began


def plain_loop(x, y, depth):
    """Seconds of one network as research code writes it."""
    torch.manual_seed(0)
    network = LayerNormResNet(x.shape[1], CLASSES, WIDTH, depth)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.005)
    penalised = [p for name, p in network.named_parameters() if "weight" in name and not name.startswith("embedding")]
    began = time.perf_counter()
    for _ in range(STEPS):
        loss = functional.cross_entropy(network(x), y)
        loss = loss + PENALTY / 2 * sum(p.square().sum() for p in penalised)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return time.perf_counter() - began
