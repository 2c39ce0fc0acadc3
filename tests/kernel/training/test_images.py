"""Training convolutional networks: against a plain loop, fixed entries, augmentation, memory layout."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from symlab.errors import UserError
from symlab.networks import INITS, NETWORKS, build
from symlab.schemes.fixed_parts import effective, weight_shapes
from symlab.seeds import torch_generator
from symlab.settings import choose
from symlab.training import replicas as engine
from symlab.training import stack_size
from symlab.training.augmentation import Augmentation
from symlab.training.objective import Replica

KEY = ("study", "variant")
AUGMENT = {"flip": True, "crop": 2}
SCHEMES = [
    {"name": "standard"},
    {"name": "w_asymmetric", "sigma_F": 1.0, "fixed_fraction": 0.25},
    {"name": "syre", "sigma_F": 1.0, "epsilon": 0.01},
    {"name": "sparse", "density": 0.5},
]


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme["name"])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_engine_equals_a_plain_loop(train, conv_net, images, stacked, scheme, optimizer):
    lr = 1e-3 if optimizer == "adamw" else 1e-2
    block = train(conv_net, images, [(0, 3), (0, 4)], scheme, optimizer=optimizer, lr=lr, augment=AUGMENT)
    fixed = block.fixed[0]
    module = conv_net()
    W = engine.sample_parameters(module, choose(INITS, {"name": "lecun"}), torch_generator(*KEY, "init", 0, 3))
    W = {name: tensor.requires_grad_() for name, tensor in W.items()}
    kind = torch.optim.AdamW if optimizer == "adamw" else torch.optim.SGD
    options = {} if optimizer == "adamw" else {"momentum": 0.9}
    steps = kind(W.values(), lr=lr, weight_decay=0.01, **options)
    augmentation = Augmentation(images.image, images.black, **AUGMENT, device=torch.device("cpu"))

    def weights():
        return {name: effective(tensor, *fixed.get(name, (None, None))) for name, tensor in W.items()}

    for name, tensor in weights().items():
        torch.testing.assert_close(block.snapshots[0][name][0], tensor.detach())
    for epoch in (1, 2):
        order = torch.randperm(72, generator=torch_generator(*KEY, "order", 0, 3, epoch))
        views = augmentation.draw(72, *KEY, "augment", 0, 3, epoch)
        for rows, batch_views in zip(order.split(16), views.split(16), strict=True):
            steps.zero_grad()
            outputs = torch.func.functional_call(module, weights(), (augmentation(images.x_train[rows], batch_views),))
            nn.functional.cross_entropy(outputs, images.y_train[rows]).backward()
            steps.step()
    for name, tensor in weights().items():
        # Adam divides a gradient by its own size: where it is rounding alone, an entry's step may be any up to lr.
        off = (block.snapshots[2][name][0] - tensor.detach()).abs()
        assert off.max() < (lr if optimizer == "adamw" else 2e-5 + 1e-3 * tensor.abs().max())
        assert (off > 2e-5 + 1e-3 * tensor.abs()).float().mean() <= (0.01 if optimizer == "adamw" else 0)


@pytest.mark.parametrize("company", [[(0, 3)], [(0, 9), (1, 1), (0, 3)]], ids=["alone", "in a block"])
def test_a_seed_is_trained_the_same_in_any_company(train, conv_net, images, stacked, company):
    reference = train(conv_net, images, [(0, s) for s in range(5)], SCHEMES[2], augment=AUGMENT)
    block = train(conv_net, images, company, SCHEMES[2], augment=AUGMENT)
    place = block.replicas.index(Replica(0, 3))
    for name, tensor in block.snapshots[2].items():
        result, expected = tensor[place], reference.snapshots[2][name][3]
        if stacked:
            torch.testing.assert_close(result, expected, rtol=1e-3, atol=1e-5)
        else:
            assert torch.equal(result, expected), name


def test_small_networks_of_full_vector_registers_without_convolutions_are_stacked_on_the_cpu(conv_net):
    """The readout's size does not count."""
    of_widths = {(16, 32): True, (32, 24): False, (24, 32): False, (400, 400): False}
    cases = [(build(choose(NETWORKS, {"name": "mlp", "widths": [*w]}), 5, 3), small) for w, small in of_widths.items()]
    for module, stacked in ((conv_net(), False), *cases):
        assert stack_size.stacks_on_cpu(module, weight_shapes(module)) == stacked


def test_saved_states_are_contiguous(train, conv_net, images, stacked):
    block = train(conv_net, images, [(0, 0), (0, 1)], SCHEMES[2])
    assert all(tensor.is_contiguous() for state in block.snapshots.values() for tensor in state.values())


def test_only_images_can_be_augmented(train, conv_net, images):
    data = copy.copy(images)
    object.__setattr__(data, "image", None)
    with pytest.raises(UserError, match=r"study study, variant variant: recipe.augment .* set recipe.augment to null"):
        train(conv_net, data, augment=AUGMENT)


def test_mirrors_of_convolutions_train_alike_one_by_one_and_stacked(conv_net, images, train, monkeypatch, tmp_path):
    np.save(tmp_path / "O.npy", np.linalg.qr(np.random.default_rng(0).normal(size=(16, 4)))[0])
    matrix = {"P": "matrix", "file": str(tmp_path / "O.npy"), "axis": 0}
    mirrors = {
        "conv1.*": {"P": "pairs", "pairs": [[3, 14]]},
        "conv2.weight": matrix,
        "conv3.weight": {"P": "blocks", "block": [4, 8]},
        "readout.weight": {**matrix, "together": True},
    }
    found = []
    for stacked in (False, True):
        monkeypatch.setattr(stack_size, "stacks_on_cpu", lambda module, shapes, stacked=stacked: stacked)
        scheme = {"name": "dcs", "mirrors": mirrors}
        found.append(train(conv_net, images, scheme=scheme, optimizer="sgd", lr=0.05, weight_decay=0.01).snapshots)
    alone, together = found
    for name, tensor in alone[2].items():
        torch.testing.assert_close(tensor, together[2][name], rtol=1e-3, atol=2e-5)
    assert not torch.allclose(alone[0]["conv2.weight"], alone[2]["conv2.weight"], atol=1e-4)
