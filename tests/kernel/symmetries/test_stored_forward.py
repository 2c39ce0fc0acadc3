"""A traced network that was stored and read back computes the same bits, and needs no exporter for it."""

import json

import pytest
import torch
from torch import nn

from symlab.networks import MLP, VGG, ResNet20, ViT, build
from symlab.symmetries.stored_forward import NotStorable, restore, store
from symlab.symmetries.trace import trace


class Network(nn.Module):
    """Two linear maps around a function of the hidden neurons."""

    def __init__(self, between):
        super().__init__()
        self.hidden, self.head, self.between = nn.Linear(6, 8), nn.Linear(8, 3), between

    def forward(self, x):
        return self.head(torch.relu(self.between(self.hidden(x))))


def halves(hidden):
    """A list of tensors, and memory of a type on a device."""
    a, b = hidden.chunk(2, 1)
    return torch.cat([a * b, torch.ones(hidden.shape[0], 4, dtype=hidden.dtype, device=hidden.device)], 1)


NETWORKS = {
    "mlp": (MLP(name="mlp", widths=[9, 7], norm="batchnorm", activation="sigma"), 48),
    "resnet20": (ResNet20(name="resnet20"), 192),
    "vgg": (VGG(name="vgg", width=2, depth=8), 3072),
    "vit": (ViT(name="vit", patch=4, dim=12, depth=2, heads=3), 192),
    "halves": (halves, 6),
}


@pytest.mark.parametrize(("network", "n_inputs"), NETWORKS.values(), ids=NETWORKS)
def test_stored_networks_give_the_traced_ones_bits(network, n_inputs):
    torch.manual_seed(0)
    module = (Network(network) if network is halves else build(network, n_inputs, 5)).eval()
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


@pytest.mark.parametrize(
    ("between", "message"),
    [
        (lambda hidden: hidden if len(hidden) > 3 else -hidden, "one size"),
        (lambda hidden: hidden + torch.tensor(0.5), "a constant tensor"),
        (lambda hidden: (hidden * (1 + 2j)).abs(), "takes a complex"),
        (lambda hidden: hidden * torch.cond(hidden.sum() > 0, torch.exp, torch.tanh, (hidden.sum(),)), "calls true_g"),
    ],
)
def test_what_json_cannot_say_is_not_stored(between, message):
    with pytest.raises(NotStorable, match=message):
        store(trace(Network(between), torch.zeros(2, 6)))
