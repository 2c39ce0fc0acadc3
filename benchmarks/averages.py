"""What each way to average two networks is worth: CNNs on MNIST from two seeds, and two fine-tunings of one.

    SYMLAB_DATA=FOLDER python benchmarks/averages.py

prints a row a way with the accuracy on test images, mean and standard error over pairs. Networks are matched, layers
fitted, on 1,000 of the training images.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from symlab import merge, trace
from symlab.alignment.forward import outputs
from symlab.data import Mnist, load

PAIRS, TRAINED_ON, TESTED_ON, MATCHED_ON = 3, 6_000, 2_000, 1_000
WAYS: dict[str, dict[str, Any]] = {
    "mean": {},
    "mean, REPAIR": {"repair": True},
    "slerp": {"average": "slerp"},
    "least squares": {"average": "least-squares"},
    "up to the first convolution": {"until": "0"},
    "up to the second convolution": {"until": "3"},
    "up to the hidden layer": {"until": "7"},
}
OF_FINE_TUNINGS: dict[str, dict[str, Any]] = {
    "mean": {},
    "slerp": {"average": "slerp"},
    "least squares": {"average": "least-squares"},
    "task vectors, scale 1.5": {"base": True, "scale": 1.5},
    "task vectors, scale 2 (their sum)": {"base": True, "scale": 2.0},
    "TIES, density 0.2": {"base": True, "average": "ties"},
    "TIES, density 0.2, scale 1.5": {"base": True, "average": "ties", "scale": 1.5},
    "up to the hidden layer": {"until": "7"},
}
State = Mapping[str, Tensor]


def cnn() -> nn.Sequential:
    """Two convolutions and two linear maps, 110,000 weights."""
    convolutions = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    convolutions += [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Linear(64, 10))


def trained(x: Tensor, y: Tensor, seed: int, epochs: int, start: State | None = None) -> State:
    """Weights after some epochs of Adam."""
    torch.manual_seed(seed)
    network = cnn()
    network.load_state_dict(start or network.state_dict())
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(128):
            optimiser.zero_grad()
            cross_entropy(network(x[rows]), y[rows]).backward()
            optimiser.step()
    return network.state_dict()


def accuracy(states: list[State], x: Tensor, y: Tensor) -> float:
    """Of a network, or the mean of the outputs of several, in percent."""
    logits = torch.stack([torch.cat([outputs(cnn(), state, part) for part in x.split(500)]) for state in states])
    return 100 * float((logits.mean(0).argmax(1) == y).float().mean())


def compared(A: State, B: State, base: State | None, ways: Mapping[str, Any], data: Any, test: Any) -> dict[str, float]:
    """Accuracy of two networks alone, together, and as one by each way."""
    x, _ = data
    traced = trace(cnn(), x[:2])
    alone = [accuracy([state], *test) for state in (A, B)]
    found = {"the networks alone": float(np.mean(alone)), "their ensemble": accuracy([A, B], *test)}
    if base is not None:
        found["their base"] = accuracy([base], *test)
    for way, options in ways.items():
        options = options | ({"base": base} if options.get("base") else {})
        merged = merge(cnn(), [A, B], x, traced=traced, **options)
        found["plain mean"] = found["plain mean"] if "plain mean" in found else accuracy([merged.plain], *test)
        found[way] = accuracy([*merged.states], *test)
    return found


def main() -> None:
    """Train, merge, print both tables."""
    mnist = load(Mnist(source="mnist", split="official", n_samples=TRAINED_ON), Path(os.environ["SYMLAB_DATA"]))
    (x, y), test = (
        (torch.as_tensor(images).float().reshape(-1, 1, 28, 28) / 255, torch.as_tensor(labels))
        for images, labels in ((mnist.x_train, mnist.y_train), (mnist.x_test[:TESTED_ON], mnist.y_test[:TESTED_ON]))
    )
    data = (x[:MATCHED_ON], y[:MATCHED_ON])
    seeds, fine = [], []
    for pair in range(PAIRS):
        A, B = (trained(x, y, 2 * pair + n, 2) for n in range(2))
        seeds.append(compared(A, B, None, WAYS, data, test))
        small, large = (y < 5).nonzero().squeeze(1), (y >= 5).nonzero().squeeze(1)
        parts = [trained(x[rows], y[rows], 100 + 2 * pair + n, 1, A) for n, rows in enumerate((small, large))]
        fine.append(compared(*parts, A, OF_FINE_TUNINGS, data, test))
    for title, tables in (("two seeds", seeds), ("one fine-tuned on digits 0 to 4, one on 5 to 9", fine)):
        print(f"\n| {title} | accuracy, % |\n|---|---|")
        for way in tables[0]:
            values = np.array([table[way] for table in tables])
            print(f"| {way} | {values.mean():.1f} ± {values.std(ddof=1) / len(values) ** 0.5:.1f} |")


if __name__ == "__main__":
    main()
