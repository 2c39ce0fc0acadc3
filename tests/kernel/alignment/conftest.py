"""A network that several tests of matching use."""

import pytest
import torch
from torch import nn


class Noise(nn.Module):
    """A hidden layer whose activations on different inputs have nothing to do with each other, as if hashed."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 12), nn.Linear(12, 12), nn.Linear(12, 2)

    def forward(self, x):
        return self.head(torch.sin(1e3 * self.second(torch.tanh(self.first(x)))))


@pytest.fixture
def noise():
    return Noise()
