from functools import cache
from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from symlab.alignment.forward import outputs
from symlab.alignment.permute import AlignmentError, _changed, check_alignment, differences, permute
from symlab.networks import MLP, build
from symlab.symmetries.symmetry_spec import Group, SymmetrySpec, identity, inverse, random_permutations
from symlab.symmetries.trace import trace


@cache
def traced(norm, activation, widths):
    module = build(MLP(name="mlp", widths=list(widths), norm=norm, activation=activation), 6, 4)
    return module, trace(module, torch.zeros(2, 6)).spec


def network(norm="layernorm", activation="gelu", seed=1, widths=(12, 10, 8)):
    """A module, its spec, and a state of it in which no two neurons, norm entries or statistics are alike."""
    module, spec = traced(norm, activation, widths)
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, tensor in module.state_dict().items():
        if not tensor.is_floating_point():
            state[name] = tensor
        elif tensor.dim() == 2:
            state[name] = torch.randn(tensor.shape, generator=generator) / tensor.shape[1] ** 0.5
        else:
            state[name] = 0.5 + torch.rand(tensor.shape, generator=generator)
            if name.endswith("running_mean"):
                state[name] -= 1.0
    return module, spec, state


@settings(max_examples=15)
@given(
    # Few shapes, as each is traced anew.
    widths=st.sampled_from([(1,), (9, 2), (3, 7, 5)]),
    activation=st.sampled_from(["gelu", "sigma"]),
    seed=st.integers(0, 1000),
)
def test_permute_then_inverse_is_the_identity_and_the_function_stays(widths, activation, seed):
    module, spec, state = network("batchnorm", activation, seed, widths)
    there = random_permutations(spec, np.random.default_rng(seed))
    permuted = permute(state, spec, there)
    check_alignment(module, state, permuted, torch.randn(9, 6, generator=torch.Generator().manual_seed(seed)))
    back = permute(permuted, spec, inverse(there, spec.groups))
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], tensor) for name, tensor in state.items())


@pytest.mark.parametrize("axes", [*permutations("abc")], ids="".join)
def test_nested_groups_are_renumbered_in_any_order_of_the_axes(axes):
    """Position (i, j, k) holds what was at (a_i, b_ij, c_ijk), wherever in the tensor the three groups lie."""
    spec = SymmetrySpec({"w": axes}, {"a": Group(2), "b": Group(3, ("a",)), "c": Group(4, ("a", "b"))})
    pi = random_permutations(spec, np.random.default_rng(0))
    before = torch.arange(24.0).reshape(2, 3, 4)
    expected = torch.empty_like(before)
    for i, j, k in np.ndindex(2, 3, 4):
        expected[i, j, k] = before[int(pi["a"][i]), int(pi["b"][i, j]), int(pi["c"][i, j, k])]
    order = ["abc".index(axis) for axis in axes]
    found = permute({"w": before.permute(order)}, spec, pi)["w"]
    assert torch.equal(found, expected.permute(order))


@pytest.mark.parametrize("name", ["linears.0.weight", "linears.1.bias", "norms.1.weight", "activations.2.C"])
def test_a_corrupted_permutation_is_caught(name):
    module, spec, state = network("layernorm", "sigma")
    permuted = permute(state, spec, random_permutations(spec, np.random.default_rng(5)))
    swapped = [1, 0, *range(2, len(permuted[name]))]
    permuted[name] = permuted[name][swapped]
    with pytest.raises(AlignmentError, match="changed the network"):
        check_alignment(module, state, permuted, torch.randn(32, 6, generator=torch.Generator().manual_seed(6)))


@pytest.mark.parametrize("side", ["state", "permuted", "both"])
def test_outputs_that_are_not_finite_are_refused(side):
    module, _, state = network()
    broken = {**state, "linears.3.bias": torch.full_like(state["linears.3.bias"], torch.nan)}
    x = torch.ones(3, 6)
    before, after = {"state": (broken, state), "permuted": (state, broken), "both": (broken, broken)}[side]
    with pytest.raises(AlignmentError):
        check_alignment(module, before, after, x)


@pytest.mark.parametrize("pi", [[0, 0, 2], [0, 1], [1, 2, 3], [0.0, 1.0, 2.5]])
def test_permutations_that_are_not_bijections_are_refused(pi):
    module = build(MLP(name="mlp", widths=[3]), 2, 2)
    with pytest.raises(AlignmentError, match="not a bijection"):
        permute(module.state_dict(), trace(module, torch.zeros(2, 2)).spec, {"hidden1": np.array(pi)})


def test_outputs_beside_those_of_samples_are_compared_as_wholes():
    """A table of another length and a number that a network returns too are no samples that could have changed."""

    class Telling(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = torch.nn.Linear(4, 5), torch.nn.Linear(5, 2)

        def forward(self, x):
            return self.last(self.first(x).relu()), x, self.last.weight.sum(1), self.last.bias.sum()

    module, x = Telling(), torch.randn(7, 4)
    spec = trace(module, x).spec
    state = dict(module.state_dict())
    permuted = permute(state, spec, random_permutations(spec, np.random.default_rng(0)))
    assert _changed(module, state, permuted, x) == 0
    moved = {**permuted, "last.bias": permuted["last.bias"] + 1}
    assert _changed(module, state, moved, x) == 7


def test_missing_groups_are_refused():
    _, spec, state = network()
    with pytest.raises(AlignmentError, match="hidden1"):
        permute(state, spec, {"hidden1": identity(spec)["hidden1"]})


def test_a_submodule_under_two_names_is_put_back_as_it_was():
    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.part = torch.nn.Linear(4, 4)
            self.again = torch.nn.Sequential(self.part, torch.nn.Tanh())
            self.tied = torch.nn.Linear(4, 4)
            self.tied.weight = self.part.weight

        def forward(self, x):
            return self.tied(self.again(self.part(x)))

    module, x = Twice(), torch.ones(2, 4)
    other = Twice()
    before = module(x)
    for state in (dict(other.named_parameters()), other.state_dict()):
        torch.testing.assert_close(outputs(module, state, x), other(x).detach())
    assert isinstance(module.part.weight, torch.nn.Parameter) and module.tied.weight is module.part.weight
    assert torch.equal(module(x), before)


@pytest.mark.parametrize(("second", "difference"), [([1, 2], 0.0), ([1, 3], 1.0)])
def test_integers_are_the_same_or_are_not(second, difference):
    assert differences(torch.tensor([1, 2]), torch.tensor(second)) == (1.0, difference, 0.0)


class Narrow(torch.nn.Linear):
    """It makes float32 of its inputs, which does not go with weights of float64."""

    def forward(self, x):
        return super().forward(x.float())


def test_samples_that_change_are_counted_in_float32_where_a_network_has_no_float64():
    module, x = Narrow(2, 3), torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    state = {name: tensor.detach() for name, tensor in module.state_dict().items()}
    other = state | {"weight": state["weight"] + torch.tensor([1.0, 0.0])}
    assert (_changed(module, state, state, x), _changed(module, state, other, x)) == (0, 2)
