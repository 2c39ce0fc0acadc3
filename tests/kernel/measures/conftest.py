"""Two networks with batch norm, and data whose splits differ in size, mean and covariance."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from symlab.networks import MLP, build
from symlab.schemes import Syre
from symlab.schemes.fixed_parts import sample_fixed_parts, weight_shapes
from symlab.training.models import Models

SIZES = {"train": 300, "val": 90, "test": 70}
EPOCHS = [0, 3]
NETWORK = MLP(name="mlp", widths=[5, 6], norm="batchnorm", activation="relu")


@pytest.fixture(scope="package")
def splits():
    rng = np.random.default_rng(0)
    splits = {}
    for shift, (name, n) in enumerate(SIZES.items()):
        x = rng.standard_normal((n, 4)) @ rng.standard_normal((4, 4)) + 2 * shift
        splits[name] = x.astype("float32"), rng.integers(3, size=n)
    return splits


@pytest.fixture(scope="package")
def data(splits):
    return SimpleNamespace(split=splits.__getitem__, task="classification")


@pytest.fixture(scope="package")
def models():
    """Untrained networks of seeds 4 and 5, which are pair 2, with running statistics of no data at all."""
    scheme = Syre(name="syre", sigma_F=0.5, epsilon=0.3)
    parts = sample_fixed_parts(scheme, weight_shapes(build(NETWORK, 4, 3)), "mask")
    generator = torch.Generator().manual_seed(0)
    tensors = {
        f"{part}/7/{name}": tensor for name, pair in parts.items() for part, tensor in zip("FD", pair, strict=True)
    }
    for epoch in EPOCHS:
        for name, like in build(NETWORK, 4, 3).state_dict().items():
            drawn = torch.randn(2, *like.shape, generator=generator)
            if name in parts:
                F, D = parts[name]
                drawn = F + D * drawn
            elif name.endswith(("running_var", "norms.0.weight", "norms.1.weight")):
                drawn = 0.5 + drawn.abs()
            tensors[f"{epoch}/{name}"] = drawn if like.is_floating_point() else like.expand(2).clone()
    header = {"network": NETWORK.spec(), "n_inputs": 4, "n_outputs": 3, "replicas": [(7, 4), (7, 5)], "epochs": EPOCHS}
    header |= {"scheme": scheme.spec(), "recipe": {"epochs": EPOCHS[-1], "weight_decay": 0.01}}
    return Models(tensors, header)
