"""A traced network that was stored and read back computes the same bits, and needs no exporter for it."""

import json

import pytest
import torch
from torch import nn

from symlab.networks import MLP, VGG, ResNet20, ViT, build
from symlab.symmetries.stored_forward import NotStorable, restore, store
from symlab.symmetries.trace import trace

NETWORKS = {
    "mlp": (MLP(name="mlp", widths=[9, 7], norm="batchnorm", activation="sigma"), 48),
    "resnet20": (ResNet20(name="resnet20"), 192),
    "vgg": (VGG(name="vgg", width=2, depth=8), 3072),
    "vit": (ViT(name="vit", patch=4, dim=12, depth=2, heads=3), 192),
}


@pytest.mark.parametrize(("network", "n_inputs"), NETWORKS.values(), ids=NETWORKS)
def test_stored_networks_give_the_traced_ones_bits(network, n_inputs):
    torch.manual_seed(0)
    module = build(network, n_inputs, 5).eval()
    traced = trace(module, torch.zeros(2, n_inputs))
    stored = restore(json.loads(json.dumps(store(traced))))
    assert (stored.spec.axes, stored.spec.groups) == (traced.spec.axes, traced.spec.groups)
    assert stored.spec.points == traced.spec.points
    names = sorted({point.value for points in stored.spec.points.values() for point in points})
    for n in (1, 6):
        x = torch.randn(n, n_inputs)
        expected = traced.values(module.state_dict(), x, names)
        found = stored.values(module.state_dict(), x, names)
        assert all(torch.equal(found[name], expected[name]) for name in names)


class Counting(nn.Module):
    """The forward pass branches on the batch's size."""

    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        hidden = torch.tanh(self.hidden(x))
        return self.head(hidden) if len(x) > 3 else self.head(-hidden)


def test_a_network_of_one_batch_size_alone_is_not_stored():
    with pytest.raises(NotStorable, match="one size"):
        store(trace(Counting(), torch.zeros(2, 6)))
