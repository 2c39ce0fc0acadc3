"""Planted renumberings are told neuron by neuron, with the costs of swaps, by function and by command."""

import numpy as np
import pytest
import torch
from torch import nn

from symlab import align, diagnose, trace
from symlab.alignment.permute import permute
from symlab.identifiability.realization import realization_costs, swap_costs
from symlab.symmetries.symmetry_spec import random_permutations

MOVED = torch.tensor([3, 1, 2, 0, 4, 5, 7, 6])


class Net(nn.Module):
    """Two hidden layers, the second of which reads the first."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(6, 8), nn.Linear(8, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


@pytest.fixture(scope="module")
def networks():
    """A, and B: A with four neurons of the first layer elsewhere, a little trained, but for a few shared weights."""
    torch.manual_seed(0)
    A = {name: 2 * tensor for name, tensor in Net().state_dict().items()}
    B = {name: tensor.clone() for name, tensor in A.items()}
    for name in ("first.weight", "first.bias"):
        B[name] = A[name][MOVED]
    B["second.weight"] = A["second.weight"][:, MOVED]
    B = {name: tensor + 0.01 * torch.randn_like(tensor) for name, tensor in B.items()}
    B["second.weight"][:, 0] = A["second.weight"][:, 0]
    return A, B, torch.randn(200, 6)


def test_moved_neurons_are_named_with_their_partners(networks):
    A, B, x = networks
    found = diagnose(Net(), A, B, x)
    first, second = (rows for _, rows in found.neurons.groupby("group", sort=False))
    # B has neuron 3 of A at place 0: pi puts place 0 at 3.
    assert list(first["partner"]) == np.argsort(MOVED).tolist()
    assert list(first["neuron"][~first["itself"]]) == [0, 3, 6, 7] and second["itself"].all()
    hidden = [torch.tanh(x @ net["first.weight"].T + net["first.bias"]).numpy() for net in (A, B)]
    for row in first.itertuples():
        expected = np.corrcoef(hidden[0][:, row.neuron], hidden[1][:, row.partner])[0, 1]
        assert row.correlation == pytest.approx(expected, abs=1e-5)
        assert row.own_correlation == pytest.approx(np.corrcoef(*(h[:, row.neuron] for h in hidden))[0, 1], abs=1e-5)
    assert "4 of 8 neurons are not identifiable" in str(found) and "0 of 5" in str(found)
    # Nothing is fixed in the first layer, so that any neuron can take the function of any other.
    assert first["cheapest"].to_numpy() == pytest.approx(0, abs=1e-9)


def test_costs_are_those_of_both_networks_with_what_they_share_fixed(networks):
    A, B, x = networks
    F, D = torch.zeros(5, 8), torch.ones(5, 8)
    F[:, 0], D[:, 0] = A["second.weight"][:, 0], 0.0

    def cheapest(share):
        costs = []
        for net in (A, B):
            h = torch.tanh(x @ net["first.weight"].T + net["first.bias"]).double()
            _, sigma, directions = torch.linalg.svd(h - h.mean(0), full_matrices=False)
            k = int((sigma.square().cumsum(0) < share * sigma.square().sum()).sum()) + 1
            found = swap_costs(realization_costs(net["second.weight"], F, D, directions[:k].T))
            costs.append(found.fill_diagonal_(torch.inf))
        return ((costs[0] + costs[1]) / 2).min(1).values

    fixed = {"second.weight": (F, D)}
    for share, options in ((0.9, {}), (0.4, {"explained_variance": 0.4}), (0.9, {"fixed": fixed})):
        diagnosis, expected = diagnose(Net(), A, B, x, **options), cheapest(share)
        found = diagnosis.neurons.query("group == 'second'")["cheapest"]
        np.testing.assert_allclose(found, expected, rtol=1e-3)
        told = str(diagnosis).splitlines()[2].partition("cheapest swap: ")[2].rstrip(".")
        assert float(told) == pytest.approx(float(expected.median()), rel=0.01)
    # Where nothing is said to be fixed, what both share counts as trained.
    assert diagnose(Net(), A, B, x, fixed={}).neurons["cheapest"].to_numpy() == pytest.approx(0, abs=1e-9)


class Mixer(nn.Module):
    """Channels, and hidden neurons over tokens: one activation is indexed by both."""

    def __init__(self):
        super().__init__()
        self.embed, self.mix = nn.Linear(4, 8), nn.Linear(5, 6)
        self.back, self.head = nn.Linear(6, 5), nn.Linear(8, 3)

    def forward(self, x):
        x = self.embed(x)
        return self.head((x + self.back(torch.tanh(self.mix(x.mT))).mT).mean(1))


def test_where_two_groups_meet_neurons_are_compared_with_the_other_group_in_order():
    torch.manual_seed(0)
    A, x = {name: 2 * tensor for name, tensor in Mixer().state_dict().items()}, torch.randn(200, 5, 4)
    traced = trace(Mixer(), x[:2])
    B = permute(A, traced.spec, random_permutations(traced.spec, np.random.default_rng(0)))
    neurons = diagnose(Mixer(), A, B, x).neurons
    assert set(neurons["group"]) == {"embed", "mix"}
    assert neurons["correlation"].to_numpy() == pytest.approx(1, abs=1e-4)
    by_weights = align(Mixer(), A, B, x, "weight").matching.set_index("permutation")["objective"]
    assert by_weights["match"].to_numpy() == pytest.approx(1, abs=1e-4) and (by_weights["identity"] < 0.9).all()
    # Without data nothing correlates, group by group.
    blind = align(Mixer(), A, B, None, "weight", traced=traced).matching
    assert list(blind["group"].unique()) == traced.spec.free and blind["objective"].isna().all()


class Branched(nn.Module):
    """Two maps compute the first neurons together, none the second, one the third."""

    def __init__(self):
        super().__init__()
        self.one, self.other, self.third = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(5, 4)
        self.second, self.head = nn.Parameter(torch.randn(5, 8)), nn.Linear(4, 3)

    def forward(self, x):
        x = torch.tanh(self.one(x) + self.other(x)) @ self.second.T
        return self.head(torch.tanh(self.third(torch.tanh(x))))


def test_costs_are_of_neurons_that_one_linear_map_computes():
    torch.manual_seed(0)
    A, B = Branched().state_dict(), Branched().state_dict()
    found = diagnose(Branched(), A, B, torch.randn(100, 6))
    known = found.neurons.groupby("group")["cheapest"].agg(lambda costs: costs.notna().mean())
    assert sorted(zip(found.neurons.groupby("group").size(), known, strict=True)) == [(4, 1), (5, 0), (8, 0)]
    assert str(found).count("median cost of the cheapest swap") == 1
