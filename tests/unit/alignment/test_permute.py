import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from symlab.alignment.matching import match, objective
from symlab.alignment.moments import record_pair_moments
from symlab.alignment.permute import AlignmentError, check_alignment, inverse, permute
from symlab.alignment.symmetry_spec import symmetry_spec
from symlab.connectivity.barrier import barriers
from symlab.connectivity.path import curve
from symlab.networks import build


def network(norm="layernorm", activation="gelu", seed=1, widths=(12, 10, 8)):
    """A module, and a state of it in which no two neurons, norm entries or statistics are alike, and none is dead."""
    module = build({"name": "mlp", "widths": list(widths), "norm": norm, "activation": activation}, 6, 4)
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
    return module, state


def random_permutations(spec, seed):
    rng = np.random.default_rng(seed)
    return {group: rng.permutation(d) for group, d in spec.sizes.items()}


@pytest.mark.parametrize("norm", ["layernorm", "batchnorm", "none"])
@pytest.mark.parametrize("activation", ["gelu", "relu", "sigma"])
def test_planted_permutations_are_recovered_and_aligned_away(norm, activation):
    module, state_A = network(norm, activation)
    spec = symmetry_spec(module)
    planted = random_permutations(spec, seed=1)
    state_B = permute(state_A, spec, planted)
    generator = torch.Generator().manual_seed(2)
    x = 3 * torch.randn(400, 6, generator=generator)
    y = torch.randint(4, (400,), generator=generator)
    check_alignment(module, state_A, state_B, x)

    moments = record_pair_moments(module, {0: state_A}, {0: state_B}, spec.points, x.split(128))[0]
    found = {group: match(of_group.correlation()) for group, of_group in moments.items()}
    for group, pi in found.items():
        np.testing.assert_array_equal(pi, inverse(planted[group]))
        assert objective(moments[group].correlation(), pi) == pytest.approx(1.0, abs=1e-5)

    aligned = permute(state_B, spec, found)
    assert all(torch.equal(aligned[name], tensor) for name, tensor in state_A.items())
    path = {"lambdas": np.linspace(0, 1, 5), "x": x, "y": y, "task": "classification", "statistics_x": x}
    table = curve(module, state_A, aligned, **path).assign(pair=0)
    barrier = barriers(table, ["pair"]).iloc[0]
    assert abs(barrier["barrier_max"]) < 1e-6 and abs(barrier["barrier_mid"]) < 1e-6
    assert abs(barrier["drop_max_pp"]) < 1e-6
    unaligned = barriers(curve(module, state_A, state_B, **path).assign(pair=0), ["pair"]).iloc[0]
    assert abs(unaligned["barrier_mid"]) > 1e-3, "the planted permutation must matter for its removal to show"


@settings(deadline=None, derandomize=True, max_examples=25)
@given(
    widths=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    activation=st.sampled_from(["gelu", "sigma"]),
    seed=st.integers(0, 1000),
)
def test_permute_then_inverse_is_the_identity_and_the_function_stays(widths, activation, seed):
    module, state = network("batchnorm", activation, seed, widths)
    spec = symmetry_spec(module)
    there = random_permutations(spec, seed)
    permuted = permute(state, spec, there)
    check_alignment(module, state, permuted, torch.randn(9, 6, generator=torch.Generator().manual_seed(seed)))
    back = permute(permuted, spec, {group: inverse(pi) for group, pi in there.items()})
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], tensor) for name, tensor in state.items())


def test_position_i_holds_neuron_pi_i():
    module, state = network()
    spec = symmetry_spec(module)
    pi = random_permutations(spec, seed=3)
    permuted = permute(state, spec, pi)
    expected = state["linears.1.weight"][torch.as_tensor(pi["hidden2"])][:, torch.as_tensor(pi["hidden1"])]
    assert torch.equal(permuted["linears.1.weight"], expected)


def test_coherence_student_keeps_its_function():
    module = build({"name": "coherence_student", "width": 16}, 5, 1)
    spec = symmetry_spec(module)
    state = {name: torch.randn(tensor.shape) for name, tensor in module.state_dict().items()}
    check_alignment(module, state, permute(state, spec, random_permutations(spec, 4)), torch.randn(20, 5))


@pytest.mark.parametrize("name", ["linears.0.weight", "linears.1.bias", "norms.1.weight", "activations.2.C"])
def test_a_corrupted_permutation_is_caught(name):
    module, state = network("layernorm", "sigma")
    spec = symmetry_spec(module)
    permuted = permute(state, spec, random_permutations(spec, seed=5))
    swapped = [1, 0, *range(2, len(permuted[name]))]
    permuted[name] = permuted[name][swapped]
    with pytest.raises(AlignmentError, match="changed the network"):
        check_alignment(module, state, permuted, torch.randn(32, 6, generator=torch.Generator().manual_seed(6)))


@pytest.mark.parametrize("side", ["state", "permuted", "both"])
def test_outputs_that_are_not_finite_are_refused(side):
    module, state = network()
    broken = {**state, "linears.3.bias": torch.full_like(state["linears.3.bias"], torch.nan)}
    x = torch.ones(3, 6)
    before, after = {"state": (broken, state), "permuted": (state, broken), "both": (broken, broken)}[side]
    with pytest.raises(AlignmentError):
        check_alignment(module, before, after, x)


@pytest.mark.parametrize("pi", [[0, 0, 2], [0, 1], [1, 2, 3], [0.0, 1.0, 2.5]])
def test_permutations_that_are_not_bijections_are_refused(pi):
    module = build({"name": "mlp", "widths": [3]}, 2, 2)
    with pytest.raises(AlignmentError, match="not a bijection"):
        permute(module.state_dict(), symmetry_spec(module), {"hidden1": np.array(pi)})


def test_missing_groups_are_refused():
    module, state = network()
    with pytest.raises(AlignmentError, match="hidden1"):
        permute(state, symmetry_spec(module), {"hidden1": np.arange(12)})
