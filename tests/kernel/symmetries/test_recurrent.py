"""Recurrent layers: the hidden units of each layer and direction are one group."""

import pytest
import torch
from torch import nn

from symlab.symmetries.symmetry_spec import Concat
from symlab.symmetries.trace import trace

from .nets import check

H = 5


class Sequences(nn.Module):
    """A recurrent layer and a linear map of what ``pick`` takes of its results."""

    def __init__(self, kind, pick, n_picked, **options):
        super().__init__()
        self.recurrent = kind(3, H, batch_first=True, **options)
        self.pick, self.last = pick, nn.Linear(n_picked, 2)

    def forward(self, x):
        return self.last(self.pick(*self.recurrent(x)))


class LearnedStart(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent, self.last = nn.GRU(3, H), nn.Linear(H, 2)
        self.start = nn.Parameter(torch.zeros(1, 1, H))

    def forward(self, x):
        return self.last(self.recurrent(x.transpose(0, 1), self.start.expand(-1, len(x), -1).contiguous())[0][-1])


class Begun(nn.Module):
    """Two layers in two directions, of which each cell begins at a state of its own."""

    def __init__(self, kind, n_states):
        super().__init__()
        self.recurrent, self.last = kind(3, H, num_layers=2, bidirectional=True, batch_first=True), nn.Linear(3 * H, 2)
        self.starts = nn.Parameter(torch.randn(n_states, 4, 1, H, generator=torch.Generator().manual_seed(0)))

    def forward(self, x):
        starts = tuple(self.starts.expand(-1, -1, len(x), -1).contiguous())
        out, last = self.recurrent(x, starts if len(starts) > 1 else starts[0])
        return self.last(torch.cat([out[:, 0], (last[1] if len(starts) > 1 else last)[2]], 1))


class Cells(nn.Module):
    """Two steps, one cell a step, as in hand-written loops over time."""

    def __init__(self, cell):
        super().__init__()
        self.recurrent, self.last = cell(3, H), nn.Linear(H, 2)

    def forward(self, x):
        state = None
        for step in (x[:, 0], x[:, 1]):
            state = self.recurrent(step, state)
        return self.last(state[0] if isinstance(state, tuple) else state)


@pytest.mark.parametrize(
    "module, sizes",
    [
        (Sequences(nn.RNN, lambda out, h: out[:, -1], H), [H]),
        (Sequences(nn.RNN, lambda out, h: out.mean(1), H, nonlinearity="relu", bias=False), [H]),
        (Sequences(nn.GRU, lambda out, h: out, H, num_layers=2), [H, H]),
        (Sequences(nn.LSTM, lambda out, h: out[:, -1], 2 * H, bidirectional=True), [H, H]),
        (Sequences(nn.LSTM, lambda out, h: h[1][-1], H), [H]),
        (Sequences(nn.GRU, lambda out, h: torch.cat([h[-2], h[-1]], 1), 2 * H, bidirectional=True), [H, H]),
        (Sequences(nn.LSTM, lambda out, h: h[0][0] - h[1][-1], H, num_layers=2), [H]),
        # All states are parts of one tensor, in which they share an axis.
        (Sequences(nn.LSTM, lambda out, h: h[0].mean(0), H, num_layers=2), [H]),
        (LearnedStart(), [H]),
        (Cells(nn.LSTMCell), [H]),
        (Cells(nn.GRUCell), [H]),
        (Cells(nn.RNNCell), [H]),
    ],
    ids=[
        *("tanh", "relu", "two layers", "two directions", "cell state", "states of both directions"),
        *("states that are subtracted", "states of all layers", "learned start"),
        *("LSTM cell", "GRU cell", "RNN cell"),
    ],
)
def test_hidden_units_are_renumbered_in_all_gates(module, sizes):
    x = torch.randn(4, 7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    spec = check(module.requires_grad_(False), x)
    assert spec.unsupported == ()
    assert [group.size for group in spec.groups.values()] == sizes
    assert all(None not in axes for name, axes in spec.axes.items() if name.startswith("recurrent.weight_hh_l0"))


def test_gates_are_parts_of_an_axis():
    spec = trace(Sequences(nn.LSTM, lambda out, h: out, H).requires_grad_(False), torch.zeros(2, 7, 3)).spec
    (group,) = spec.groups
    assert spec.axes["recurrent.weight_hh_l0"] == (Concat((group,) * 4), group)


class Packed(nn.Module):
    """One step of three packed sequences."""

    def __init__(self):
        super().__init__()
        self.recurrent, self.last = nn.GRU(3, H), nn.Linear(H, 2)

    def forward(self, x):
        weights, start = [*self.recurrent.parameters()], torch.zeros(1, 3, H)
        return self.last(torch.gru(x, torch.tensor([3]), start, weights, True, 1, 0.0, False, False)[0])


@pytest.mark.parametrize(
    ("module", "shape", "told"),
    [
        (Sequences(nn.LSTM, lambda out, h: out, 2, proj_size=2), (2, 7, 3), "projected"),
        (Packed(), (3, 3), "sequences of several lengths"),
    ],
)
def test_layers_without_a_rule_are_told(module, shape, told):
    spec = trace(module.requires_grad_(False), torch.zeros(shape)).spec
    assert spec.groups == {} and told in spec.unsupported[0]


@pytest.mark.parametrize(("kind", "n_states"), [(nn.GRU, 1), (nn.LSTM, 2)])
def test_cells_that_were_taken_apart_compute_what_the_layer_does(kind, n_states):
    module = Begun(kind, n_states).eval().requires_grad_(False)
    x = torch.randn(4, 7, 3, generator=torch.Generator().manual_seed(1))
    forward = trace(module, x).evaluated(module.state_dict(), x)
    torch.testing.assert_close(forward.values[forward.outputs[0]], module.double()(x.double()))
