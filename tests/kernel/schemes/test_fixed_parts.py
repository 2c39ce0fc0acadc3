"""F and D of every scheme, and initial values."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from symlab.errors import UserError
from symlab.networks import NETWORKS, Kaiming, Lecun, Normal, TorchDefault, build
from symlab.networks.initialise import sample_parameters
from symlab.schemes import SCHEMES
from symlab.schemes.fixed_parts import effective, sample_buffers, sample_fixed_parts, weight_shapes
from symlab.schemes.parametrisation import Affine
from symlab.settings import choose

SHAPES = {"a": (40, 64), "b": (10, 40)}


def drawn(scheme, shapes, *seed):
    return sample_fixed_parts(choose(SCHEMES, scheme), shapes, *seed)


def network(spec, n_inputs, n_outputs):
    return build(choose(NETWORKS, spec), n_inputs, n_outputs)


@given(n_fixed=st.integers(0, 39), sigma_F=st.sampled_from([0.0, 0.5, 2.0]), seed=st.integers(0, 5))
def test_w_asymmetric_fixes_exactly_n_fixed_entries_in_every_row(n_fixed, sigma_F, seed):
    parts = drawn({"name": "w_asymmetric", "sigma_F": sigma_F, "n_fixed": n_fixed}, SHAPES, "s", seed)
    for name, (F, D) in parts.items():
        assert F.shape == D.shape == SHAPES[name]
        assert set(D.unique().tolist()) <= {0.0, 1.0}
        assert torch.equal((D == 0).sum(dim=1), torch.full((len(D),), n_fixed))
        assert (F[D == 1] == 0).all()
        if sigma_F == 0:
            assert (F == 0).all()


@given(
    shape=st.tuples(st.integers(1, 6), st.integers(1, 5), st.sampled_from([1, 3]), st.sampled_from([1, 3])),
    fraction=st.floats(0, 0.99),
    seed=st.integers(0, 5),
)
def test_w_asymmetric_convolutions_fix_exactly_n_fixed_entries_for_every_input_channel(shape, fraction, seed):
    n_fixed = int(fraction * shape[0] * shape[2] * shape[3])
    scheme = {"name": "w_asymmetric", "sigma_F": 1.0, "n_fixed": n_fixed}
    F, D = drawn(scheme, {"a": shape}, "s", seed)["a"]
    assert F.shape == D.shape == shape and F.is_contiguous() and D.is_contiguous()
    for channel in range(shape[1]):
        assert (D[:, channel] == 0).sum() == n_fixed
    assert torch.equal(F != 0, D == 0)


def test_fixed_entries_of_a_convolution_spread_over_output_channels_and_kernel():
    scheme = {"name": "w_asymmetric", "sigma_F": 1.0, "fixed_fraction": 0.25}
    _, D = drawn(scheme, {"a": (4, 4000, 3, 3)}, "s")["a"]
    # Each place is fixed for a quarter of the input channels: binomial standard deviation 0.0068.
    assert ((D == 0).float().mean(dim=1) - 0.25).abs().max() < 5 * 0.0068


def test_w_asymmetric_values_are_normal_and_columns_uniform():
    F, D = drawn({"name": "w_asymmetric", "sigma_F": 3.0, "n_fixed": 20}, {"a": (4000, 80)}, "s")["a"]
    values = F[D == 0]
    assert values.std().item() == pytest.approx(3.0, rel=0.02) and abs(values.mean().item()) < 0.05
    # Each column is fixed in a quarter of the rows: binomial standard deviation 0.0068.
    assert ((D == 0).float().mean(dim=0) - 0.25).abs().max() < 5 * 0.0068


def test_syre():
    F, D = drawn({"name": "syre", "sigma_F": 2.0, "epsilon": 0.1}, {"a": (300, 300)}, "s")["a"]
    assert F.std().item() == pytest.approx(2.0, rel=0.02)
    uniform = D**-2
    assert uniform.min() >= 0.9 - 1e-5 and uniform.max() <= 1.1 + 1e-5
    assert uniform.std().item() == pytest.approx(0.2 / math.sqrt(12), rel=0.02)


def test_sparse_residual_and_standard():
    F, D = drawn({"name": "sparse", "density": 0.15}, {"a": (300, 300)}, "s")["a"]
    assert F is None and set(D.unique().tolist()) == {0.0, 1.0} and D.mean().item() == pytest.approx(0.15, abs=0.005)
    residual = drawn({"name": "residual"}, {"square": (7, 7), "wide": (7, 9), "conv": (7, 7, 1, 1)}, "s")
    assert torch.equal(residual["square"][0], torch.eye(7)) and residual["wide"] == residual["conv"] == (None, None)
    assert drawn({"name": "standard"}, SHAPES, "s") == {"a": (None, None), "b": (None, None)}
    with pytest.raises(UserError, match="known are dcs, hadamard, residual, sparse, standard, syre, w_asymmetric"):
        drawn({"name": "wasym"}, SHAPES, "s")


def test_masks_differ_between_seeds_and_layers():
    scheme = {"name": "sparse", "density": 0.5}
    first, second = (drawn(scheme, {"a": (9, 9), "b": (9, 9)}, "s", seed) for seed in (0, 1))
    assert not torch.equal(first["a"][1], second["a"][1]) and not torch.equal(first["a"][1], first["b"][1])
    assert torch.equal(first["a"][1], drawn(scheme, {"a": (9, 9)}, "s", 0)["a"][1])


def test_effective_is_f_plus_d_times_w():
    W, F, D = torch.tensor([2.0, 3.0]), torch.tensor([10.0, 20.0]), torch.tensor([0.0, 2.0])
    assert effective(W, F, D).tolist() == [10, 26]
    assert effective(W, None, D).tolist() == [0, 6]
    assert effective(W, F, None).tolist() == [12, 23]
    assert effective(W, None, None).tolist() == [2, 3]
    for parts in ((F, D), (None, D), (F, None)):
        Affine(*parts).compose_into(target := torch.empty(2), W)
        assert torch.equal(target, effective(W, *parts))


@pytest.mark.parametrize(
    ("layer", "reads"), [(torch.nn.Linear(400, 300), 400), (torch.nn.Conv2d(32, 40, 3, groups=2), 144)]
)
@pytest.mark.parametrize(
    ("init", "square"),
    [
        (Lecun(name="lecun"), 1),
        (TorchDefault(name="torch"), 1 / 3),
        (Kaiming(name="kaiming"), 2),
        (Normal(name="normal", std=0.05), None),
    ],
)
def test_initial_values_have_the_spread_that_what_one_output_reads_asks_for(init, square, layer, reads):
    module = torch.nn.Sequential(layer, torch.nn.LayerNorm(3))
    state = sample_parameters(module, init, torch.Generator().manual_seed(0))
    std = 0.05 if square is None else math.sqrt(square / reads)
    assert state["0.weight"].std().item() == pytest.approx(std, rel=0.03)
    bias, bound = state["0.bias"], reads**-0.5
    if init.name in ("kaiming", "normal"):
        assert (bias == 0).all()
    else:
        assert bias.abs().max() <= bound and bias.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.3)
    assert (state["1.weight"] == 1).all()


def test_sigma_mlp_multiplies_by_a_gate_of_the_fixed_matrix():
    module = network({"name": "mlp", "widths": [6, 6], "norm": "none", "activation": "sigma"}, 4, 3)
    buffers = sample_buffers(module, "s", 0)
    assert list(buffers) == ["activations.0.C", "activations.1.C"] and buffers["activations.0.C"].shape == (6, 6)
    assert not torch.equal(*buffers.values())
    module.load_state_dict(buffers, strict=False)
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    C = buffers["activations.0.C"]
    expected = torch.stack([row * torch.sigmoid(C @ row) for row in x])
    torch.testing.assert_close(module.activations[0](x), expected)


def test_weight_shapes_and_unknown_networks():
    module = network({"name": "mlp", "widths": [5, 6]}, 4, 3)
    assert weight_shapes(module) == {"linears.0.weight": (5, 4), "linears.1.weight": (6, 5), "linears.2.weight": (3, 6)}
    conv = torch.nn.Sequential(torch.nn.Conv2d(6, 8, (3, 1), groups=2), torch.nn.Flatten(), torch.nn.Linear(16, 2))
    assert weight_shapes(conv) == {"0.weight": (8, 3, 3, 1), "2.weight": (2, 16)}
    with pytest.raises(UserError, match="known are causal_transformer, coherence_student, layernorm_resnet, mlp"):
        network({"name": "cnn"}, 4, 3)
    with pytest.raises(UserError, match="has one output"):
        network({"name": "coherence_student", "width": 5}, 4, 3)


def test_coherence_student_sums_its_hidden_layer():
    module = network({"name": "coherence_student", "width": 5}, 4, 1)
    x = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))
    hidden = x @ module.linears[0].weight.T + module.linears[0].bias
    torch.testing.assert_close(module(x)[:, 0], hidden.clamp(min=0).sum(dim=1))


def test_hidden_layers_have_the_names_of_the_tables():
    module = network({"name": "mlp", "widths": [5, 6]}, 4, 3)
    assert module.group_names() == {"linears.0": "hidden1", "linears.1": "hidden2"}
    assert network({"name": "coherence_student", "width": 5}, 4, 1).group_names() == {"linears.0": "hidden1"}


def test_weights_are_pinned_only_where_all_that_is_fixed_lies_outside_the_mask():
    D = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    outside, partly = torch.tensor([[0.0, 3.0], [0.0, 0.0]]), torch.tensor([[0.0, 3.0], [2.0, 0.0]])
    assert Affine(outside, D).pinned() is not None and Affine(None, D).pinned() is not None
    assert Affine(partly, D).pinned() is None and Affine(outside, 0.5 * D).pinned() is None
    assert Affine(outside, None).pinned() is None
