"""When the loss of networks that fit their data jumps, by two ways to compute cross-entropy that are equal on paper.

    python benchmarks/late_losses.py [--epochs 1000] [--seeds 10]

Ten MLPs are trained on digits by AdamW at a constant rate, as one stack. For each way it prints the epochs in which a
network's train loss first exceeds 1e-4 after it was below 1e-6, and the mean losses of the last tenth of all epochs.
"""

import argparse
from collections.abc import Callable
from unittest.mock import patch

import pandas as pd
import torch
from torch import Tensor

from symlab.data import Digits
from symlab.data.digits import load
from symlab.networks import MLP, Lecun, build
from symlab.schemes import Standard
from symlab.training import stacks
from symlab.training.objective import Replica
from symlab.training.replicas import Run, train_block
from symlab.training.settings import Recipe

Loss = Callable[[str, Tensor, Tensor], Tensor]


def by_logsumexp(_task: str, outputs: Tensor, targets: Tensor) -> Tensor:
    """The logarithm of a sum less the right logit: what stacks descended until 2026-11-26."""
    picked = outputs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return (outputs.logsumexp(dim=-1) - picked).mean(dim=-1)


def histories(loss: Loss, epochs: int, seeds: int) -> pd.DataFrame:
    """Losses of every network and epoch."""
    dataset = load(Digits(source="digits"), None)
    tensors = [torch.from_numpy(array) for name in ("train", "val") for array in dataset.split(name)]
    data = stacks.TrainingData(*tensors, "classification")
    network = MLP(name="mlp", widths=[64, 64, 64])
    recipe, made = Recipe(epochs=epochs, batch_size=64), lambda: build(network, data.x_train.shape[1], 10)
    run = Run(made, data, Standard(name="standard"), Lecun(name="lecun"), recipe, [epochs], ("s", "v"))
    with patch.object(stacks, "losses", loss):
        return train_block(run, [Replica(0, seed) for seed in range(seeds)]).history


def main() -> None:
    """Train by both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name, loss in {"logsumexp": by_logsumexp, "log_softmax": stacks.losses}.items():
        history = histories(loss, arguments.epochs, arguments.seeds)
        fitted = history.groupby("seed").train_loss.cummin() < 1e-6
        jumps = history[fitted & (history.train_loss > 1e-4)].groupby("seed").epoch.min()
        last = history[history.epoch > 0.9 * arguments.epochs].train_loss.mean()
        print(f"{name}: first jumps at {sorted(jumps)} ({len(jumps)} networks), last losses {last:.2g}", flush=True)


if __name__ == "__main__":
    main()
