"""Groups that meet in one activation, groups without activations, and groups that the activations say nothing of."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from symlab.alignment.activation_matching import activation_matching
from symlab.alignment.matching import match_all
from symlab.alignment.moments import record_pair_moments
from symlab.alignment.permute import permute
from symlab.alignment.universe import match_to_universe
from symlab.symmetries.symmetry_spec import identity, random_permutations
from symlab.symmetries.trace import trace


class Mixer(nn.Module):
    """Two blocks that mix 5 patches, then 6 channels; hidden units of the first are indexed by channels too."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(4, 6)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {"up": nn.Linear(5, 7), "down": nn.Linear(7, 5), "wide": nn.Linear(6, 9), "narrow": nn.Linear(9, 6)}
            )
            for _ in range(2)
        )
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block["down"](F.gelu(block["up"](x.mT))).mT
            x = x + block["narrow"](F.gelu(block["wide"](x)))
        return self.head(x.mean(1))


class Registers(nn.Module):
    """Tokens of its own beside those of the input, in one block of attention."""

    def __init__(self):
        super().__init__()
        self.stem, self.registers = nn.Linear(4, 8), nn.Parameter(torch.randn(1, 4, 8))
        self.qkv, self.out, self.head = nn.Linear(8, 24), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        x = torch.cat([self.registers.expand(len(x), -1, -1), self.stem(x)], 1)
        q, k, v = self.qkv(x).unflatten(2, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return self.head(x[:, 4:].mean(1))


class PositionBias(nn.Module):
    """A bias of positions that a network of its own computes from constants, as in Swin v2: no input reaches it."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(4, 6), nn.Linear(6, 3)
        self.first, self.last = nn.Linear(1, 16), nn.Linear(16, 1)
        self.register_buffer("places", torch.linspace(-1, 1, 5)[:, None])

    def forward(self, x):
        x = self.stem(x) + self.last(torch.relu(self.first(self.places)))
        return self.head(torch.tanh(x).mean(1))


class Dead(nn.Module):
    """Two layers in which half of the neurons are zero on all inputs."""

    def __init__(self):
        super().__init__()
        self.stem, self.first, self.second, self.head = (
            nn.Linear(n, m) for n, m in ((4, 6), (6, 16), (16, 12), (12, 3))
        )
        self.offsets = nn.ParameterList([torch.zeros(16), torch.zeros(12)])

    def forward(self, x):
        x = torch.relu(self.first(torch.tanh(self.stem(x))) + 40 * self.offsets[0])
        return self.head(torch.relu(torch.tanh(self.second(x)) + 40 * self.offsets[1]).mean(1))


class SharedKeys(nn.Module):
    """Two heads of keys and values with two heads of queries each: the values' dimensions meet the queries' heads."""

    def __init__(self):
        super().__init__()
        self.stem, self.q, self.k, self.v = (nn.Linear(n, m) for n, m in ((4, 8), (8, 16), (8, 8), (8, 8)))
        self.out, self.head = nn.Linear(16, 8), nn.Linear(8, 3)

    def forward(self, x):
        x = self.stem(x)
        q = self.q(x).unflatten(2, (2, 2, 4)).permute(0, 2, 3, 1, 4)
        k, v = (part(x).unflatten(2, (2, 1, 4)).permute(0, 2, 3, 1, 4) for part in (self.k, self.v))
        mixed = torch.softmax(q @ k.mT, -1) @ v.expand(-1, -1, 2, -1, -1)
        return self.head((x + self.out(mixed.permute(0, 3, 1, 2, 4).flatten(2))).mean(1))


class Noise(nn.Module):
    """A hidden layer whose activations on different inputs have nothing to do with each other, as if hashed."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, 12), nn.Linear(12, 12), nn.Linear(12, 2)

    def forward(self, x):
        return self.head(torch.sin(1e3 * self.second(torch.tanh(self.first(x)))))


def drawn(module, seed):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(tensor.shape, generator=generator) / max(tensor.shape[-1], 1) ** 0.5
        if name != "places"
        else tensor
        for name, tensor in module.state_dict().items()
    }


def inputs(n=120):
    return torch.randn(n, 5, 4, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize("network", [Mixer, Registers, PositionBias, Dead, SharedKeys])
def test_planted_permutations_are_recovered(network):
    module, x = network(), inputs()
    traced = trace(module, x[:2])
    for seed in range(3):
        A = drawn(module, seed)
        B = permute(A, traced.spec, random_permutations(traced.spec, np.random.default_rng(seed)))
        found = activation_matching(traced, [A], B, x, 50, np.random.default_rng(0))
        matched = permute(B, traced.spec, found.permutations)
        assert found.in_place == ()
        assert found.by_weights == (("first",) if network is PositionBias else ())
        for name, tensor in A.items():
            assert torch.equal(matched[name], tensor), (name, seed)
    if network is PositionBias:
        # Among many too weights decide where there are no activations.
        universe = match_to_universe(traced, [A, B], np.random.default_rng(0), x)
        assert torch.equal(universe.permuted[1]["first.weight"], A["first.weight"])
        assert dict(universe.by_weights) == {"first": [0, 1]}


def test_pixels_of_one_image_are_enough():
    module = nn.Sequential(nn.Conv2d(1, 6, 3), nn.Tanh(), nn.Flatten(), nn.Linear(216, 2))
    x = torch.randn(1, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    traced, A = trace(module, x), drawn(module, 0)
    B = permute(A, traced.spec, random_permutations(traced.spec, np.random.default_rng(0)))
    found = activation_matching(traced, [A], B, x, 50, np.random.default_rng(0))
    assert found.in_place == ()
    assert all(torch.equal(tensor, A[name]) for name, tensor in permute(B, traced.spec, found.permutations).items())


def test_two_neurons_that_never_vary_are_told_apart_by_their_weights():
    module, x = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)), inputs().flatten(0, 1)
    A = drawn(module, 0)
    A["0.bias"][:2] = -100
    order = torch.tensor([1, 0, 2, 4, 3, 5])
    B = A | {"0.weight": A["0.weight"][order], "0.bias": A["0.bias"][order], "2.weight": A["2.weight"][:, order]}
    found = activation_matching(trace(module, x[:2]), [A], B, x, 50, np.random.default_rng(0))
    assert found.permutations["0"].tolist() == order.argsort().tolist()


def test_without_activations_of_two_groups_it_is_the_matching_of_studies():
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 2))
    x = inputs().flatten(0, 1)
    traced = trace(module, x[:2])
    A, B = drawn(module, 0), drawn(module, 1)
    moments = record_pair_moments(traced, {0: A}, {0: B}, [x])[0]
    expected = match_all({group: moment.correlation() for group, moment in moments.items()}, traced.spec.groups)
    found = activation_matching(traced, [A], B, x, 64, np.random.default_rng(0))
    assert found.permutations.keys() == expected.keys()
    for group, pi in expected.items():
        assert np.array_equal(found.permutations[group], pi)
        np.testing.assert_allclose(found.correlations[group], moments[group].correlation(), atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_what_correlates_no_more_than_chance_stays_in_place(seed):
    module, x = Noise(), inputs(400).flatten(0, 1)
    traced = trace(module, x[:2])
    A, B = drawn(module, 2 * seed), drawn(module, 2 * seed + 1)
    found = activation_matching(traced, [A], B, x, 500, np.random.default_rng(0))
    assert found.in_place == ("second",)
    assert np.array_equal(found.permutations["second"], identity(traced.spec)["second"])
    assert not np.array_equal(found.permutations["first"], identity(traced.spec)["first"])
    planted = permute(A, traced.spec, random_permutations(traced.spec, np.random.default_rng(seed)))
    found = activation_matching(traced, [A], planted, x, 500, np.random.default_rng(0))
    assert found.in_place == ()
    assert torch.equal(permute(planted, traced.spec, found.permutations)["second.weight"], A["second.weight"])


@pytest.mark.parametrize("seed", range(5))
def test_a_weak_match_is_found_where_it_is_above_chance(seed):
    """32 neurons correlate by 0.19 with their partners: 3.8 errors of 1 / sqrt(400), where chance gives 2.6.

    The level is the expected largest of 32 errors, sqrt(2 ln 32) = 2.6.
    """
    rho, d = 0.19, 32
    rng = np.random.default_rng(seed)
    module = nn.Sequential(nn.Linear(2 * d, d), nn.Tanh(), nn.Linear(d, 2))
    x = torch.from_numpy(rng.standard_normal((400, 2 * d))).float()
    traced = trace(module, x[:2])
    (group,) = traced.spec.groups
    A, planted = drawn(module, seed), rng.permutation(d)
    # As good as linear, so that correlations of neurons are those of their weights.
    A |= {"0.weight": 0.01 * torch.eye(d, 2 * d), "0.bias": torch.zeros(d)}
    mixed = 0.01 * torch.cat([rho * torch.eye(d), (1 - rho**2) ** 0.5 * torch.eye(d)], 1)
    B = A | {"0.weight": mixed[torch.from_numpy(planted)]}
    found = activation_matching(traced, [A], B, x, 100, np.random.default_rng(0))
    assert found.in_place == ()
    assert (found.permutations[group] == np.argsort(planted)).mean() > 0.5
