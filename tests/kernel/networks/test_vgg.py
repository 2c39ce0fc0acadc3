"""VGG networks: their layers, sizes and symmetries, and what they refuse."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from symlab.alignment.permute import permute
from symlab.errors import UserError
from symlab.networks import NETWORKS, build
from symlab.settings import choose
from symlab.symmetries.symmetry_spec import random_permutations
from symlab.symmetries.trace import trace


@pytest.mark.parametrize("depth", [8, 11, 13, 16])
@torch.no_grad()
def test_networks_have_as_many_layers_as_they_are_named_by_and_compute_what_these_say(depth):
    """Convolutions, whose stages end with the largest of four pixels, then linear maps; ReLU after all but the last."""
    torch.manual_seed(0)
    module = build(choose(NETWORKS, {"name": "vgg", "width": 4, "depth": depth}), 3072, 10)
    layers = {name: each for name, each in module.named_modules() if isinstance(each, nn.Conv2d | nn.Linear)}
    assert len(layers) == depth
    for layer in layers.values():
        layer.weight.mul_(2)
    x = torch.randn(2, 3072)
    z = x.reshape(2, 3, 32, 32)
    for stage in range(5):
        for name in (name for name in layers if name.startswith(f"stages.{stage}.")):
            z = functional.conv2d(z, layers[name].weight, layers[name].bias, padding=1).clamp(min=0)
        n, c, side, _ = z.shape
        z = z.reshape(n, c, side // 2, 2, side // 2, 2).amax((3, 5))
    first, second, last = [*layers.values()][-3:]
    z = z.flatten(1) @ first.weight.T + first.bias
    z = z.clamp(min=0) @ second.weight.T + second.bias
    torch.testing.assert_close(module(x), z.clamp(min=0) @ last.weight.T + last.bias, rtol=1e-4, atol=1e-5)
    assert module(x).std() > 1e-3


def test_vgg16_of_width_64_has_the_parameters_of_the_original_for_small_images():
    module = build(choose(NETWORKS, {"name": "vgg", "width": 64, "depth": 16}), 3072, 10)
    convolutions = sum(p.numel() for name, p in module.named_parameters() if name.startswith("stages"))
    # The convolutions of VGG16 hold 14,714,688 parameters whatever the size of the images.
    assert convolutions == 14_714_688


def test_every_hidden_channel_is_a_group_of_its_own_and_permuting_changes_nothing():
    torch.manual_seed(0)
    module = build(choose(NETWORKS, {"name": "vgg", "width": 3, "depth": 8}), 3072, 10).double().eval()
    x = torch.randn(4, 3072, dtype=torch.float64)
    spec = trace(module, x).spec
    assert sorted(group.size for group in spec.groups.values()) == [3, 6, 12, 24, 24, 24, 24] and not spec.unsupported
    before = module(x)
    moved = permute(module.state_dict(), spec, random_permutations(spec, np.random.default_rng(2)))
    after = torch.func.functional_call(module, moved, (x,))
    torch.testing.assert_close(after, before, rtol=0, atol=1e-12)
    assert any(not torch.equal(moved[name], tensor) for name, tensor in module.state_dict().items())


def test_images_that_are_too_small_are_refused():
    with pytest.raises(UserError, match="28 pixels a side"):
        build(choose(NETWORKS, {"name": "vgg", "width": 4, "depth": 8, "channels": 1}), 784, 10)
