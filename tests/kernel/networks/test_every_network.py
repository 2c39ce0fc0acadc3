"""What holds of networks of each kind: how they are drawn, and that replicas of them run side by side."""

import pytest
import torch

from symlab.networks import NETWORKS, Lecun, build
from symlab.networks.initialise import sample_parameters
from symlab.settings import choose

VIT = {"name": "vit", "patch": 2, "dim": 96, "depth": 2, "heads": 3, "mlp_ratio": 2}
EVERY = {
    "mlp": ({"name": "mlp", "widths": [8, 6]}, 12),
    "resnet20": ({"name": "resnet20"}, 192),
    "vit": (VIT, 108),
    "layernorm_resnet": ({"name": "layernorm_resnet", "width": 8}, 16),
    "causal_transformer": ({"name": "causal_transformer", "width": 8, "patch": 2}, 16),
}


def drawn(network, seed=4):
    module = build(choose(NETWORKS, EVERY[network][0]), EVERY[network][1], 5)
    return module, sample_parameters(module, Lecun(name="lecun"), torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("network", EVERY)
def test_initial_values_come_from_the_generator_alone(network):
    (_, first), (_, second), (_, other) = drawn(network), drawn(network), drawn(network, 5)
    for name, value in first.items():
        assert torch.equal(value, second[name])
        if "norm" in name:
            assert (value == (1 if name.endswith("weight") else 0)).all()
        else:
            assert not torch.equal(value, other[name])


@pytest.mark.parametrize(("widths", "width"), [([8, 8], 8), ([8, 6], None)])
def test_tables_tell_the_layers_of_an_mlp_and_the_width_that_all_hidden_ones_have(widths, width):
    columns = choose(NETWORKS, {"name": "mlp", "widths": widths, "activation": "relu"}).columns()
    assert columns == {"activation": "relu", "norm": "layernorm", "width": width, "depth": 3}


def test_tokens_and_weights_of_a_vit_have_the_deviations_of_their_kind():
    _, first = drawn("vit")
    assert first["positions"].std().item() == pytest.approx(0.02, rel=0.1)
    assert first["class_token"].std().item() == pytest.approx(0.02, rel=0.25)
    assert first["blocks.0.attention.query.weight"].std().item() == pytest.approx(96**-0.5, rel=0.05)


def test_tokens_of_a_causal_transformer_are_drawn_with_deviation_1():
    module = build(choose(NETWORKS, {"name": "causal_transformer", "width": 64, "vocabulary": 200}), 6, 5)
    first, other = (sample_parameters(module, Lecun(name="lecun"), torch.Generator().manual_seed(n)) for n in (0, 1))
    assert first["embedding.weight"].std().item() == pytest.approx(1, rel=0.02)
    assert first["positions"].std().item() == pytest.approx(0.02, rel=0.2)
    assert not torch.equal(first["embedding.weight"], other["embedding.weight"])


@pytest.mark.filterwarnings("ignore:There is a performance drop because we have not yet implemented the batching rule")
@pytest.mark.parametrize("network", EVERY)
def test_replicas_run_side_by_side(network):
    module, first = drawn(network)
    states = [first, drawn(network, 5)[1]]
    buffers = dict(module.named_buffers())
    x = torch.randn(2, 3, EVERY[network][1], generator=torch.Generator().manual_seed(1))
    outputs = torch.func.vmap(lambda state, x: torch.func.functional_call(module, (state, buffers), (x,)))(
        {name: torch.stack([state[name] for state in states]) for name in first}, x
    )
    for output, state, batch in zip(outputs, states, x, strict=True):
        expected = torch.func.functional_call(module, (state, buffers), (batch,))
        torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-4)
