"""The vision transformer against torch's own attention, block and patch functions."""

import pytest
import torch
import torch.nn.functional as functional
from torch import nn

from symlab.errors import UserError
from symlab.networks import NETWORKS, build
from symlab.schemes.fixed_parts import weight_shapes
from symlab.settings import choose

SMALL = {"name": "vit", "patch": 2, "dim": 24, "depth": 2, "heads": 3, "mlp_ratio": 2}


def small(seed=0, channels=3, n_outputs=5):
    """A small network on 6 x 6 images with random values in every parameter, norms included."""
    module = build(choose(NETWORKS, SMALL | {"channels": channels}), channels * 36, n_outputs)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return module


def torch_attention(attention):
    """``nn.MultiheadAttention`` with the same weights."""
    reference = nn.MultiheadAttention(SMALL["dim"], SMALL["heads"], batch_first=True)
    reads = (attention.query, attention.key, attention.value)
    reference.load_state_dict(
        {
            "in_proj_weight": torch.cat([each.weight for each in reads]),
            "in_proj_bias": torch.cat([each.bias for each in reads]),
            "out_proj.weight": attention.output.weight,
            "out_proj.bias": attention.output.bias,
        }
    )
    return reference


def test_forward_is_that_of_the_reference():
    module = small()
    state = module.state_dict()
    x = torch.randn(4, 108, generator=torch.Generator().manual_seed(1))
    # unfold gives [n, channels * patch * patch, patches], the patches row by row.
    patches = functional.unfold(x.reshape(4, 3, 6, 6), kernel_size=2, stride=2).mT
    tokens = patches @ state["patch_embedding.weight"].T + state["patch_embedding.bias"]
    z = torch.cat([state["class_token"].repeat(4, 1, 1), tokens], dim=1) + state["positions"]

    def norm(z, name):
        return functional.layer_norm(z, (24,), state[f"{name}.weight"], state[f"{name}.bias"])

    def linear(z, name):
        return z @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    for number, block in enumerate(module.blocks):
        name = f"blocks.{number}"
        read = norm(z, f"{name}.norm1")
        z = z + torch_attention(block.attention)(read, read, read)[0]
        hidden = functional.gelu(linear(norm(z, f"{name}.norm2"), f"{name}.mlp.0"))
        z = z + linear(hidden, f"{name}.mlp.2")
    torch.testing.assert_close(module(x), linear(norm(z, "norm")[:, 0], "readout"), rtol=1e-4, atol=1e-4)


def test_sizes_and_names_are_those_of_the_paper():
    module = build(choose(NETWORKS, {"name": "vit"}), 3072, 10)
    shapes = weight_shapes(module)
    block = {f"attention.{name}": (384, 384) for name in ("query", "key", "value", "output")}
    block |= {"mlp.0": (1536, 384), "mlp.2": (384, 1536)}
    assert shapes == {
        "patch_embedding.weight": (384, 48),
        **{f"blocks.{b}.{name}.weight": shape for b in range(8) for name, shape in block.items()},
        "readout.weight": (10, 384),
    }
    assert module.positions.shape == (1, 65, 384) and module.class_token.shape == (1, 1, 384)
    weights = sum(fan_out * (fan_in + 1) for fan_out, fan_in in shapes.values())
    assert sum(parameter.numel() for parameter in module.parameters()) == weights + 66 * 384 + 2 * 384 * 17


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"channels": 1}, "channels = 1 channels, but .* have 108 numbers"),
        ({"patch": 4}, "patch = 4 does not divide the 6 pixels"),
        ({"heads": 5}, "heads = 5 does not divide network.dim = 24"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(options, sentence):
    with pytest.raises(UserError, match=sentence):
        build(choose(NETWORKS, SMALL | options), 108, 5)


def test_group_names():
    assert small().group_names() == {
        "patch_embedding": "stream",
        "blocks.0.attention.output": "stream",
        "blocks.0.mlp.0": "mlp1",
        "blocks.0.mlp.2": "stream",
        "blocks.1.attention.output": "stream",
        "blocks.1.mlp.0": "mlp2",
        "blocks.1.mlp.2": "stream",
    }
