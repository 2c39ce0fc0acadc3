"""One order for many networks: planted orders are found exactly, and what is found is a best answer to the others."""

from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from torch import nn

from symlab import align, merge, trace
from symlab.alignment.forward import outputs
from symlab.alignment.permute import permute
from symlab.alignment.universe import match_to_universe
from symlab.errors import UserError
from symlab.networks import MLP, ResNet20, ViT, build
from symlab.symmetries.symmetry_spec import Group, SymmetrySpec, random_permutations
from symlab.symmetries.trace import Traced

N_INPUTS = 64
NETWORKS = {
    "mlp": MLP(name="mlp", widths=[12, 12]),
    "resnet20": ResNet20(name="resnet20", channels=1),
    "vit": ViT(name="vit", channels=1, patch=4, dim=12, depth=1, heads=3, mlp_ratio=2),
}


def drawn(module, seed):
    """Weights whose neurons all differ, and are seldom dead."""
    generator = torch.Generator().manual_seed(seed)
    return {
        entry: torch.rand(tensor.shape, generator=generator) + 0.5
        if tensor.dim() == 1
        else torch.randn(tensor.shape, generator=generator) / max(1, tensor[0].numel()) ** 0.5
        for entry, tensor in module.state_dict().items()
    }


def related(module, n):
    """Networks that have something in common: no match of theirs is below chance."""
    common = drawn(module, 0)
    return [{k: common[k] + 0.5 * tensor for k, tensor in drawn(module, 1 + seed).items()} for seed in range(n)]


@pytest.mark.parametrize(
    ("name", "method"), [("mlp", "activation"), ("mlp", "weight"), ("resnet20", "weight"), ("vit", "activation")]
)
def test_renumbered_copies_merge_to_the_first(name, method):
    module = build(NETWORKS[name], N_INPUTS, 10)
    x = torch.randn(64, N_INPUTS, generator=torch.Generator().manual_seed(1))
    traced = trace(module, x)
    A, rng = drawn(module, 0), np.random.default_rng(2)
    planted = [random_permutations(traced.spec, rng) for _ in range(3)]
    copies = [permute(A, traced.spec, each) for each in planted]
    merged = merge(module, [A, *copies], x, method, traced=traced, restarts=2)
    assert all(torch.equal(merged.state[entry], tensor) for entry, tensor in A.items())
    assert merged.universe.settled
    assert all((pi == np.arange(pi.shape[-1])).all() for pi in merged.universe.permutations[0].values())
    for copy, found in zip(copies, merged.universe.permutations[1:], strict=True):
        back = permute(copy, traced.spec, found)
        assert all(torch.equal(back[entry], tensor) for entry, tensor in A.items())


def one_layer(seed, d=4):
    """Weights of 5 -> d -> 2 without structure, and the spec of its one group, written by hand."""
    generator = torch.Generator().manual_seed(seed)
    spec = SymmetrySpec({"W": ("h", None), "V": (None, "h")}, {"h": Group(d)})
    shapes = {"W": (d, 5), "V": (2, d)}
    return spec, {entry: torch.randn(shape, generator=generator) for entry, shape in shapes.items()}


@pytest.mark.parametrize("seed", range(5))
def test_no_network_has_a_better_order_given_the_others(seed):
    states = [one_layer(4 * seed + n)[1] for n in range(4)]
    spec = one_layer(0)[0]
    universe = match_to_universe(Traced(spec, None, nn.Identity(), {}), states, np.random.default_rng(0))
    assert universe.settled

    def agreement(orders):
        rows = [
            torch.cat([s["W"][list(pi)].flatten(), s["V"][:, list(pi)].flatten()])
            for s, pi in zip(states, orders, strict=True)
        ]
        return sum(float(a @ b) for a, b in combinations(rows, 2))

    found = [tuple(of_network["h"]) for of_network in universe.permutations]
    assert found[0] == (0, 1, 2, 3)
    best = agreement(found)
    for n in range(4):
        for pi in permutations(range(4)):
            assert agreement([*found[:n], pi, *found[n + 1 :]]) <= best + 1e-5


def test_the_merge_does_not_depend_on_how_the_others_are_numbered():
    module = build(NETWORKS["mlp"], N_INPUTS, 10)
    x = torch.randn(200, N_INPUTS, generator=torch.Generator().manual_seed(1))
    traced = trace(module, x)
    states = related(module, 3)
    rng = np.random.default_rng(3)
    renumbered = [states[0], *(permute(s, traced.spec, random_permutations(traced.spec, rng)) for s in states[1:])]
    first, second = (merge(module, of, x, traced=traced) for of in (states, renumbered))
    for entry, tensor in first.state.items():
        torch.testing.assert_close(second.state[entry], tensor)
    for state, permuted in zip(states, first.universe.permuted, strict=True):
        torch.testing.assert_close(outputs(module, permuted, x), outputs(module, state, x), atol=1e-4, rtol=1e-4)


def test_two_networks_are_merged_as_they_are_aligned():
    module = build(NETWORKS["mlp"], N_INPUTS, 10)
    x = torch.randn(200, N_INPUTS, generator=torch.Generator().manual_seed(1))
    traced = trace(module, x)
    A, B = related(module, 2)
    aligned = align(module, A, B, x, traced=traced)
    merged = merge(module, [A, B], x, traced=traced)
    for group, pi in aligned.permutations.items():
        assert np.array_equal(merged.universe.permutations[1][group], pi)
    for entry, tensor in merged.state.items():
        torch.testing.assert_close(tensor, (A[entry] + aligned.permuted[entry]) / 2)


@pytest.mark.parametrize(
    ("data", "method", "words"),
    [(torch.zeros(4, N_INPUTS), "activations", "activation or weight"), (None, "weight", "traced at inputs")],
)
def test_arguments_that_do_not_fit_are_told(data, method, words):
    module = build(NETWORKS["mlp"], N_INPUTS, 2)
    with pytest.raises(UserError, match=words):
        align(module, module, module, data, method)


def test_one_network_alone_is_matched_to_nothing():
    spec, state = one_layer(0)
    with pytest.raises(UserError, match="at least two; got 1"):
        match_to_universe(Traced(spec, None, nn.Identity(), {}), [state], np.random.default_rng(0))
