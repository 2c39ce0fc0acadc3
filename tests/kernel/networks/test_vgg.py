"""VGG networks: their layers, sizes and symmetries, and what they refuse."""

import numpy as np
import pytest
import torch

from symlab.alignment.permute import permute
from symlab.errors import UserError
from symlab.networks import NETWORKS, build
from symlab.settings import choose
from symlab.symmetries.symmetry_spec import random_permutations
from symlab.symmetries.trace import trace


@pytest.mark.parametrize("depth", [8, 11, 13, 16])
def test_the_name_counts_the_weight_layers(depth):
    module = build(choose(NETWORKS, {"name": "vgg", "width": 4, "depth": depth}), 3072, 10)
    layers = [child for child in module.modules() if isinstance(child, torch.nn.Conv2d | torch.nn.Linear)]
    assert len(layers) == depth
    assert module(torch.zeros(2, 3072)).shape == (2, 10)


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
