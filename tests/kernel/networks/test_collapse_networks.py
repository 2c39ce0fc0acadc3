"""Residual networks and causal transformers of neural collapse against numpy, and what their blocks must not do."""

import itertools

import numpy as np
import pytest
import torch
from torch.func import functional_call

from symlab.alignment.permute import permute
from symlab.errors import UserError
from symlab.networks import NETWORKS, build
from symlab.networks.causal_transformer import CausalTransformer
from symlab.networks.layernorm_resnet import LayerNormResNet
from symlab.settings import choose
from symlab.symmetries.symmetry_spec import random_permutations
from symlab.symmetries.trace import trace

IMAGES = torch.randn(5, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
TOKENS = torch.randint(9, (5, 6), generator=torch.Generator().manual_seed(2)).double()


def drawn(module, seed=0):
    """Float64, with random values in every parameter."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return module


def resnet(**keys):
    return drawn(LayerNormResNet(16, 3, width=8, depth=4, **keys))


def transformer(tokens=False, **keys):
    inputs = {"vocabulary": 9} if tokens else {"patch": 2}
    return drawn(CausalTransformer(6 if tokens else 16, 3, width=8, depth=3, **inputs, **keys))


def arrays(module):
    return {name: tensor.numpy() for name, tensor in module.state_dict().items()}


def norm(z):
    centred = z - z.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def ln(Z):
    """LayerNorm of the columns."""
    return norm(Z.T).T


def relu_branch(W, path, z, layers):
    inner = np.maximum(z @ W[f"{path}.0.weight"].T + W[f"{path}.0.bias"], 0)
    return inner if layers == 1 else inner @ W[f"{path}.1.weight"].T + W[f"{path}.1.bias"]


@pytest.mark.parametrize(("layers", "pre"), list(itertools.product((1, 2), (False, True))))
def test_a_resnet_is_equations_1_2_15_and_16(layers, pre):
    module = resnet(block_layers=layers, pre_norm=pre)
    W = arrays(module)
    x = norm(IMAGES.numpy() @ W["embedding.weight"].T + W["embedding.bias"])
    for block in range(3):
        added = relu_branch(W, f"blocks.{block}", norm(x) if pre and block else x, layers)
        x = x + added if pre else norm(x + added)
    outputs = (norm(x) if pre else x) @ W["readout.weight"].T + W["readout.bias"]
    np.testing.assert_allclose(module(IMAGES).detach(), outputs, atol=1e-4 if pre else 1e-12)


@pytest.mark.parametrize(("attention", "layers", "pre"), list(itertools.product((1, 2), (1, 2), (False, True))))
def test_a_transformer_is_equations_3_to_6_and_17_to_20(attention, layers, pre):
    """Written as in the paper, tokens in columns, one sample after the other."""
    module = transformer(attention_layers=attention, block_layers=layers, pre_norm=pre)
    W = arrays(module)
    mask = np.where(np.tril(np.ones((4, 4)), -1) > 0, -np.inf, 0)
    for x, output in zip(IMAGES.numpy(), module(IMAGES).detach().numpy(), strict=True):
        image = x.reshape(4, 4)
        patches = [image[r : r + 2, c : c + 2].ravel() for r, c in itertools.product((0, 2), (0, 2))]
        Z = np.array(patches) @ W["embedding.weight"].T + W["embedding.bias"] + W["positions"][0]
        Z = Z.T
        Z = ln(Z) if pre else Z
        for block in range(3):
            at = {name.rsplit(".", 2)[1]: w for name, w in W.items() if name.startswith(f"blocks.{block}.attention")}
            VO = at["value_output"] if attention == 1 else at["output"] @ at["value"]
            QK = at["query_key"] if attention == 1 else at["key"].T @ at["query"]

            def attend(Z, VO=VO, QK=QK):
                A = np.exp(mask + Z.T @ QK @ Z / np.sqrt(8))
                return VO @ Z @ (A / A.sum(0))

            def feed(Z, block=block):
                return relu_branch(W, f"blocks.{block}.linears", Z.T, layers).T

            if pre:
                Z = Z + attend(ln(Z))
                Z = Z + feed(ln(Z))
            else:
                Z = ln(Z)
                Z = ln(Z + attend(Z))
                Z = Z + feed(Z)
        np.testing.assert_allclose(output, W["readout.weight"] @ ln(Z)[:, -1] + W["readout.bias"], atol=1e-10)


@pytest.mark.parametrize("pre", [False, True])
@pytest.mark.parametrize("tokens", [False, True])
def test_no_token_sees_a_later_one(pre, tokens):
    module = transformer(tokens, pre_norm=pre)
    x = TOKENS.clone() if tokens else IMAGES.clone()
    before = module.streams(x)[-1]
    if tokens:
        x[:, 4] = (x[:, 4] + 1) % 9
        first = 4
    else:
        # The third patch, bottom left: rows 2 and 3 of columns 0 and 1.
        x[:, 8] += 1
        first = 2
    after = module.streams(x)[-1]
    torch.testing.assert_close(after[:, :first], before[:, :first], rtol=0, atol=0)
    assert ((after - before).abs().amax(dim=-1)[:, first:] > 1e-6).all()


@pytest.mark.parametrize(
    ("module", "groups"),
    [
        (resnet(), {"stream"}),
        (resnet(block_layers=2), {"stream", "block1", "block2", "block3"}),
        (resnet(pre_norm=True), {"stream"}),
        (transformer(), {"stream"}),
        (transformer(pre_norm=True, block_layers=2), {"stream", "block1", "block2", "block3"}),
        (transformer(attention_layers=2), {"stream"}),
    ],
)
def test_their_symmetries_are_found(module, groups):
    spec = trace(module, IMAGES).spec
    assert groups <= set(spec.groups)
    permutations = random_permutations(spec, np.random.default_rng(3))
    moved = permute(dict(module.state_dict()), spec, permutations)
    torch.testing.assert_close(functional_call(module, moved, (IMAGES,)), module(IMAGES), atol=1e-10, rtol=0)
    assert all((permutations[group] != np.arange(8)).any() for group in groups)


def test_a_transformer_needs_patches_or_tokens_and_patches_that_fit():
    for keys, word in (({}, "not both"), ({"patch": 3}, "does not divide")):
        with pytest.raises(UserError, match=word):
            CausalTransformer(16, 3, **keys)


def test_its_settings_build_it():
    settings = choose(NETWORKS, {"name": "causal_transformer", "width": 8, "depth": 2, "vocabulary": 9})
    assert build(settings, 6, 2)(TOKENS.float()).shape == (5, 2)
