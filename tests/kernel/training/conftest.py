"""A small convolutional network, images for it, and one way to train them."""

import pytest
import torch
from torch import nn

from symlab.networks import Lecun
from symlab.schemes import SCHEMES
from symlab.settings import choose
from symlab.training import stack_size
from symlab.training.objective import Replica
from symlab.training.on_samples import TrainingData
from symlab.training.replicas import Run, train_block
from symlab.training.settings import Recipe

RECIPE = {"epochs": 2, "batch_size": 16}


class SmallConvNet(nn.Module):
    """Plain, grouped, strided and 1x1 convolutions; inputs are flat images of 3 x 8 x 6."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.GroupNorm(2, 16)
        self.conv2 = nn.Conv2d(16, 16, 3, stride=2, groups=2, bias=False)
        self.conv3 = nn.Conv2d(16, 32, 1)
        self.readout = nn.Linear(32, 16)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv1(x.unflatten(1, (3, 8, 6)))))
        x = torch.relu(self.conv3(torch.relu(self.conv2(x))))
        return self.readout(x.mean(dim=(2, 3)))


@pytest.fixture(params=[False, True], ids=["one by one", "together"])
def stacked(request, monkeypatch):
    """Networks are trained in both ways, whatever their size."""
    monkeypatch.setattr(stack_size, "stacks_on_cpu", lambda module, shapes: request.param)
    return request.param


@pytest.fixture
def recipe():
    return dict(RECIPE)


@pytest.fixture
def conv_net():
    return SmallConvNet


@pytest.fixture
def images():
    """72 images in 16 classes that their brightness decides; the last batch of 16 is a smaller one."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(72, 3 * 8 * 6, generator=generator)
    y = torch.arange(72) % 16
    x += 0.3 * y[:, None]
    return TrainingData(x, y, x[:20], y[:20], "classification", image=(3, 8, 6), black=(-1.5, 0.25, 2.0))


@pytest.fixture
def train(recipe):
    """Trains ``replicas`` of a network; further keywords change the recipe."""

    def train(build, data, replicas=((0, 0),), scheme=None, snapshots=(0, 2), device="cpu", **changes):
        return train_block(
            Run(
                build,
                data,
                choose(SCHEMES, scheme or {"name": "standard"}),
                Lecun(name="lecun"),
                Recipe(**{**recipe, **changes}),
                snapshots,
                ("study", "variant"),
                device,
            ),
            [Replica(*replica) for replica in replicas],
        )

    return train
