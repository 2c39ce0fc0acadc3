"""Deeper networks from shallower ones: what splitting halves, and what blocks of zeros leave."""

import numpy as np
import pytest
import torch
from torch.func import functional_call

from symlab.networks.causal_transformer import CausalTransformer
from symlab.networks.layernorm_resnet import LayerNormResNet
from symlab.papers.neural_collapse.growth import grow, pad

X = torch.randn(12, 16, generator=torch.Generator().manual_seed(0)).double()


def resnet(layers, pre_norm=False):
    return lambda blocks: LayerNormResNet(16, 3, 8, blocks + 1, layers, pre_norm).double()


def transformer(layers, pre_norm=False):
    return lambda blocks: CausalTransformer(16, 3, 8, blocks, layers, layers, pre_norm, patch=2).double()


def state_of(make, blocks, seed=0):
    torch.manual_seed(seed)
    return {name: torch.randn_like(t)[None] * 0.3 for name, t in make(blocks).named_parameters()}


def outputs(make, blocks, state):
    return functional_call(make(blocks), {name: tensor[0] for name, tensor in state.items()}, (X,))


def squares(state):
    return sum(tensor.square().sum().item() for name, tensor in state.items() if "blocks" in name and "weight" in name)


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("make", [resnet, transformer])
@pytest.mark.parametrize("layers", [1, 2])
def test_blocks_of_zeros_change_nothing(make, layers, pre_norm):
    build = make(layers, pre_norm)
    state = state_of(build, 2)
    padded = pad(state, 4)
    assert list(sorted(padded)) == sorted(name for name, _ in build(4).named_parameters())
    torch.testing.assert_close(outputs(build, 4, padded), outputs(build, 2, state), rtol=0, atol=1e-4)


@pytest.mark.parametrize(("layers", "left"), [(1, 1 / 2), (2, 1)])
def test_a_split_of_small_blocks_leaves_the_function_and_the_penalty_or_half_of_it(layers, left):
    build = resnet(layers)
    state = state_of(build, 2)
    np.testing.assert_allclose(squares(grow(state, 4)), squares(state) * left, rtol=1e-12)
    # Two halves follow a block's flow: what they miss is of second order in the branch, which of two layers has the
    # last one as a factor.
    missed = []
    for scale in (1e-2, 1e-3):
        last = tuple(f"blocks.{block}.{layers - 1}." for block in range(2))
        small = {name: scale * t if name.startswith(last) else t for name, t in state.items()}
        missed.append((outputs(build, 4, grow(small, 4)) - outputs(build, 2, small)).abs().max().item())
    assert 50 < missed[0] / missed[1] < 200


@pytest.mark.parametrize("make", [resnet, transformer])
@pytest.mark.parametrize("layers", [1, 2])
def test_the_less_of_a_large_branch_is_split_off_the_less_the_map_changes(make, layers):
    build = make(layers)
    state = {name: 3 * tensor for name, tensor in state_of(build, 2).items()}
    missed = [
        (outputs(build, 4, grow(state, 4, share)) - outputs(build, 2, state)).norm().item()
        for share in (1 / 2, 1e-4, 1e-6)
    ]
    assert missed[0] > 100 * missed[1]
    # In proportion to the share, or to its root where bias and one of two maps have it.
    assert 5 < missed[1] / missed[2] < 200


def test_the_second_of_two_blocks_has_the_share():
    state = state_of(resnet(1), 1)
    parts = grow(state, 2, 0.1)
    for block, share in enumerate((0.9, 0.1)):
        torch.testing.assert_close(parts[f"blocks.{block}.0.weight"], share * state["blocks.0.0.weight"])


@pytest.mark.parametrize("layers", [1, 2])
def test_halves_of_attention_look_where_the_whole_looked(layers):
    build = transformer(layers)
    state = state_of(build, 1)
    halves = grow(state, 2)
    asks = ["query_key"] if layers == 1 else ["query", "key"]
    for name in asks:
        assert torch.equal(halves[f"blocks.1.attention.{name}.weight"], state[f"blocks.0.attention.{name}.weight"])
    gives = 2 if layers == 1 else 2**0.5
    for name in ["value_output"] if layers == 1 else ["value", "output"]:
        torch.testing.assert_close(
            halves[f"blocks.0.attention.{name}.weight"] * gives, state[f"blocks.0.attention.{name}.weight"]
        )


def test_any_number_of_blocks_comes_from_splits_that_are_spread():
    state = state_of(resnet(1), 4)
    grown = grow(state, 6)
    shares = [float(grown[f"blocks.{b}.0.weight"][0, 0, 0]) for b in range(6)]
    whole = [float(state[f"blocks.{b}.0.weight"][0, 0, 0]) for b in range(4)]
    assert shares == pytest.approx([whole[0] / 2] * 2 + [whole[1]] + [whole[2] / 2] * 2 + [whole[3]]) or (
        shares == pytest.approx([whole[0], whole[1] / 2, whole[1] / 2, whole[2], whole[3] / 2, whole[3] / 2])
    )
    assert len({name.split(".")[1] for name in grow(state, 13) if name.startswith("blocks")}) == 13
