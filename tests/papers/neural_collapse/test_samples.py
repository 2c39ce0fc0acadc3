"""Whitened samples: what the map does, and that networks on plain inputs are the same networks on whitened ones."""

import pytest
import torch

from symlab.data import Digits, load
from symlab.errors import UserError
from symlab.networks.causal_transformer import CausalTransformer
from symlab.networks.layernorm_resnet import LayerNormResNet
from symlab.papers.neural_collapse.run_tables import _describe_samples
from symlab.papers.neural_collapse.samples import Samples, Whitening, samples_of
from symlab.papers.neural_collapse.settings import Runs

GENERATOR = torch.Generator().manual_seed(0)
MIXING = torch.randn(8, 8, generator=GENERATOR)
PATCHES = torch.randn(500, 4, 8, generator=GENERATOR) @ MIXING + 3
"""Of 2 channels and 2 x 2 pixels, of images of 4 x 4."""


def images_of(patches):
    return patches.unflatten(1, (2, 2)).unflatten(3, (2, 2, 2)).permute(0, 3, 1, 4, 2, 5).flatten(1)


def test_whitened_patches_are_a_linear_map_of_patches_with_equal_variances():
    images = images_of(PATCHES)
    whitening = Whitening.of(images, (2, 2))
    white = whitening(images)
    with pytest.raises(UserError, match="patch = 3 does not cut the images, of 32 inputs"):
        Whitening.of(images, (2, 3))
    torch.testing.assert_close(whitening(images[:9]), white[:9])
    again = white.unflatten(1, (2, 2, 2, 2, 2)).permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(0, 2)
    torch.testing.assert_close(again.mean(0), torch.zeros(8), rtol=0, atol=1e-4)
    variances = torch.linalg.eigvalsh(torch.cov(again.T))
    assert variances.min() > 0.5 and variances.max() <= 1 + 1e-4
    whole = torch.cat([PATCHES.flatten(0, 1), torch.ones(2000, 1)], dim=1).double()
    solved = torch.linalg.lstsq(whole, again.double()).solution
    torch.testing.assert_close(whole @ solved, again.double(), rtol=0, atol=1e-4)


def test_images_of_any_form_are_whitened_where_the_first_layer_reads_all_pixels_and_equal_ones_stay_so():
    images = PATCHES.flatten(1)[:, :30]
    torch.testing.assert_close(torch.cov(Whitening.of(images)(images).T), torch.eye(30), rtol=0, atol=0.02)
    equal = torch.ones(5, 6)
    assert not Whitening.of(equal)(equal).any()


@pytest.mark.parametrize("patch", [None, (2, 2)])
def test_networks_of_plain_inputs_are_carried_to_the_same_ones_of_whitened_inputs(patch):
    images = images_of(PATCHES)
    torch.manual_seed(0)
    make = {"patch": 2, "channels": 2} if patch else {"depth": 3}
    networks = [(CausalTransformer if patch else LayerNormResNet)(32, 3, 8, **make).double() for _ in range(2)]
    whitening = Whitening.of(images, patch)
    stacked = {n: torch.stack([dict(each.named_parameters())[n].detach() for each in networks])
               for n, _ in networks[0].named_parameters()}  # fmt: skip
    carried = whitening.carried(stacked)
    for seed, network in enumerate(networks):
        here = {name: tensor[seed] for name, tensor in carried.items()}
        outputs = torch.func.functional_call(network, here, (whitening(images).double(),))
        torch.testing.assert_close(outputs, network(images.double()), rtol=1e-4, atol=1e-4)


def test_networks_are_tested_on_images_whitened_by_the_map_of_the_training_samples():
    digits = load(Digits(source="digits"), None)
    samples = samples_of(Runs(network="rn1", L=[2], per_class=12), digits)
    x, y = map(torch.from_numpy, digits.split("test"))
    assert torch.equal(samples.y_test, y[:1000])
    by_hand = (x[:1000].double() - samples.plain.double().mean(0)) @ samples.whitening.to_one
    torch.testing.assert_close(samples.x_test, by_hand.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("patch", "rank"), [(2, 3), (None, 7)])
def test_the_rank_is_that_of_what_is_read_where_the_output_is_taken(patch, rank):
    """Of a transformer the last patch: 2 dimensions and the constant; of others all inputs, 4 more in the first."""
    images = torch.zeros(20, 1, 4, 4)
    images[:, 0, :2, :2] = torch.randn(20, 2, 2, generator=GENERATOR)
    images[:, 0, 3, 2:] = torch.randn(20, 2, generator=GENERATOR)
    x, y = images.flatten(1), torch.arange(20) % 2
    grid = Runs(network="t11" if patch else "rn1", patch=patch, per_class=10)
    found = _describe_samples(grid, Samples(x, y, x, y, 2, image=(1, 4, 4)), "drawn")
    assert found["rank"] == rank and found["N"] == 20 and found["patch"] == (patch or 0)
