"""What counts as proven: a move that changes nothing, of weights that outputs see."""

import pytest
import torch
from torch import nn

from symlab.symmetries.proof import general_passes, proven
from symlab.symmetries.trace import trace

with torch.random.fork_rng():
    torch.manual_seed(0)
    NETWORK = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
INPUTS = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def passes():
    return general_passes(NETWORK, trace(NETWORK, INPUTS), INPUTS, NETWORK.state_dict())


def scaled(into, out):
    """The first layer's first neuron, times ``into``, what reads it times ``out``."""

    def move(state):
        first, bias, last = (state[name].clone() for name in ("0.weight", "0.bias", "2.weight"))
        first[0] *= into
        bias[0] *= into
        last[:, 0] *= out
        return {**state, "0.weight": first, "0.bias": bias, "2.weight": last}

    return move


def test_passes_are_at_two_sizes_of_weights_in_float64(passes):
    large, small = (each.state["0.weight"] for each in passes)
    assert large.dtype == small.dtype == torch.float64
    assert float(small.std() / large.std()) == pytest.approx(0.4, rel=1e-6)


def test_a_scale_of_a_neuron_of_relu_is_proven(passes):
    assert proven(passes, scaled(3.0, 1 / 3.0)) < 1e-14


def test_what_is_told_is_the_most_that_any_pass_changes_by(passes):
    move = scaled(3.0, (1 + 1e-11) / 3.0)
    changes = [each.change(move(each.state)) for each in passes]
    assert min(changes) < 0.9 * max(changes) and proven(passes, move) == max(changes)


@pytest.mark.parametrize("move", [scaled(-1.0, -1.0), scaled(2.0, 1.0), scaled(1 + 1e-8, 1.0)])
def test_what_changes_outputs_is_not(passes, move):
    assert proven(passes, move) is None


def test_what_outputs_do_not_see_is_not(passes):
    assert proven(passes, lambda state: dict(state)) is None
    unread = scaled(1.0, 0.0)
    assert proven(passes, scaled(5.0, 1.0), prepare=unread) is None


@pytest.mark.parametrize("neuron", range(8))
def test_a_sign_of_two_weights_is_proven_for_every_neuron(neuron):
    # Every second random half of them holds both or neither: that changes nothing, and tells nothing.
    network = nn.Sequential(nn.Linear(1, 8, bias=False), nn.Tanh(), nn.Linear(8, 1, bias=False))
    x = INPUTS[:, :1]

    def turned(state):
        signs = torch.ones(8, dtype=torch.float64)
        signs[neuron] = -1
        return {"0.weight": state["0.weight"] * signs[:, None], "2.weight": state["2.weight"] * signs}

    assert proven(general_passes(network, trace(network, x), x, network.state_dict()), turned) == 0


def test_a_move_is_of_what_is_prepared(passes):
    assert proven(passes, scaled(2.0, 0.5), prepare=scaled(7.0, 1 / 7.0)) < 1e-14
