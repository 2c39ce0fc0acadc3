"""Networks that compute with complex numbers of real weights: rotary embeddings as turns, and Fourier operators."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import gelu, scaled_dot_product_attention

from symlab import align
from symlab.alignment.permute import permute
from symlab.alignment.signs import signs_of
from symlab.symmetries.actions import actions_of
from symlab.symmetries.symmetry_spec import random_permutations
from symlab.symmetries.trace import trace

# Taken for real numbers, complex ones would lose their imaginary parts.
pytestmark = pytest.mark.filterwarnings("error:Casting complex values to real")


class Turned(nn.Module):
    """Attention of two heads of four dimensions, whose queries and keys are turned as complex numbers are."""

    def __init__(self):
        super().__init__()
        self.read, self.q, self.k, self.v = (nn.Linear(8 if n else 5, 8, bias=False) for n in range(4))
        self.o, self.head = nn.Linear(8, 8, bias=False), nn.Linear(8, 3)
        angles = torch.outer(torch.arange(6.0), torch.tensor([1.0, 0.1]))
        self.turns = torch.polar(torch.ones_like(angles), angles)[:, None]

    def forward(self, x):
        def turned(y):
            pairs = torch.view_as_complex(y.unflatten(-1, (2, 2, 2)))
            return torch.view_as_real(pairs * self.turns).flatten(3).transpose(1, 2)

        h = self.read(x)
        mixed = scaled_dot_product_attention(
            turned(self.q(h)), turned(self.k(h)), self.v(h).unflatten(-1, (2, 4)).transpose(1, 2)
        )
        return self.head(h + self.o(mixed.transpose(1, 2).flatten(2)))


class Waves(nn.Module):
    """A Fourier operator: channels are mixed wave by wave."""

    def __init__(self, dims):
        super().__init__()
        self.dims, self.first, self.head = dims, nn.Linear(5, 6), nn.Linear(6, 3)
        self.waves = nn.Parameter(torch.randn(6, 6, 4, 2))

    def forward(self, x):
        h = self.first(x).mT
        if self.dims == 1:
            spectrum, back = torch.fft.rfft(h), torch.fft.irfft
        else:
            spectrum, back = torch.fft.rfftn(h, dim=(-1,)), lambda z, n: torch.fft.irfftn(z, (n,), dim=(-1,))
        mixed = torch.einsum("ncw,cdw->ndw", spectrum, torch.view_as_complex(self.waves))
        return self.head(gelu(h + back(mixed, h.shape[-1])).mT)


@pytest.mark.parametrize(
    ("module", "sizes"),
    [(Turned(), {2, 4, 8}), (Waves(1), {6}), (Waves(2), {6})],
    ids=["turns", "waves", "waves by axes"],
)
def test_neurons_around_complex_numbers_are_found_and_free(module, sizes):
    torch.manual_seed(0)
    module = module.double().eval().requires_grad_(False)
    if isinstance(module, Turned):
        module.turns = module.turns.to(torch.complex128)
    x = torch.randn(3, 6, 5).double()
    traced = trace(module, x)
    spec, state = traced.spec, dict(module.state_dict())
    assert spec.unsupported == () and {group.size for group in spec.groups.values()} == sizes
    moved = permute(state, spec, random_permutations(spec, np.random.default_rng(1)))
    assert any(not torch.equal(moved[name], state[name]) for name in ("q.weight", "waves") if name in state)
    assert float((functional_call(module, moved, (x,)) - module(x)).abs().max()) <= 1e-12
    # Of the stream no sign alone is free in the operator; in attention pairs of planes turn.
    assert all(change.change < 1e-10 for change in actions_of(module, traced, x[:2], state, 0))
    assert bool(signs_of(module, traced, x[:2], state, 0)) == isinstance(module, Turned)


class Mixed(nn.Module):
    """Tokens and channels mixed by a transform along both, as in FNet, in either order of the axes."""

    def __init__(self, turned):
        super().__init__()
        self.turned, self.first, self.up, self.head = turned, nn.Linear(5, 6), nn.Linear(6, 7), nn.Linear(7, 3)

    def forward(self, x):
        h = self.first(x)
        mixed = torch.fft.fft2(h.mT).mT if self.turned else torch.fft.fft2(h)
        return self.head(gelu(self.up(torch.view_as_real(mixed)[..., 0])))


@pytest.mark.parametrize("turned", [False, True])
def test_no_axis_along_which_images_are_transformed_is_free(turned):
    """Waves are neither channels nor tokens; behind them a layer has neurons of its own."""
    traced = trace(Mixed(turned).eval().requires_grad_(False), torch.randn(3, 4, 5))
    assert traced.spec.unsupported == () and [group.size for group in traced.spec.groups.values()] == [7]


@pytest.mark.parametrize("module", [Turned(), Waves(1)], ids=["turns", "waves"])
def test_activations_around_complex_numbers_tell_a_planted_permutation(module):
    torch.manual_seed(0)
    module, x = module.eval(), torch.randn(40, 6, 5)
    state = dict(module.state_dict())
    spec = trace(module.requires_grad_(False), x[:2]).spec
    B = permute(state, spec, random_permutations(spec, np.random.default_rng(1)))
    found = align(module, state, B, x, method="activation")
    for name, tensor in state.items():
        torch.testing.assert_close(found.permuted[name], tensor)
