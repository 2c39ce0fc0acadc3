"""Autoencoders of diffusers: one rounds its latents to bytes, of one an operation keeps some axes in place."""

import numpy as np
import pytest
import torch
from torch import nn

from symlab import align, trace
from symlab.alignment.permute import permute
from symlab.own.report import coverage
from symlab.symmetries.symmetry_spec import random_permutations

pytestmark = pytest.mark.slow


class Decoded(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x).sample


def drawn(name, **options):
    diffusers = pytest.importorskip("diffusers", reason="the extra 'models' is not installed (diffusers)")
    torch.manual_seed(0)
    return Decoded(getattr(diffusers, name)(**options)).eval().requires_grad_(False)


def test_a_renumbering_of_the_tiny_autoencoder_is_undone_though_it_rounds():
    widths = {"encoder_block_out_channels": (8, 8, 8, 8), "decoder_block_out_channels": (8, 8, 8, 8)}
    network = drawn("AutoencoderTiny", **widths)
    x = torch.rand(24, 3, 32, 32)
    traced = trace(network, x)
    assert "round" in "".join(traced.jumps()) or "floor" in "".join(traced.jumps())
    state = network.state_dict()
    moved = permute(state, traced.spec, random_permutations(traced.spec, np.random.default_rng(0)))
    aligned = align(network, state, moved, (x, x), task="regression")
    assert all(torch.equal(aligned.permuted[name], tensor) for name, tensor in state.items())


def test_what_an_operation_keeps_in_the_deep_compression_autoencoder_is_told():
    ends = {"in_channels": 3, "latent_channels": 4, "attention_head_dim": 8}
    for part in ("encoder", "decoder"):
        ends |= {
            f"{part}_block_types": ("ResBlock", "EfficientViTBlock"),
            f"{part}_block_out_channels": (16, 32),
            f"{part}_layers_per_block": (1, 1),
            f"{part}_qkv_multiscales": ((), (5,)),
        }
    network = drawn("AutoencoderDC", **ends, decoder_norm_types=("rms_norm",) * 2, decoder_act_fns=("silu",) * 2)
    spec = trace(network, torch.randn(2, 3, 16, 16)).spec
    assert spec.unsupported == ()
    told = coverage(network, spec)
    assert told.startswith("36 of 52 axes")
    assert "chunk in 'network.encoder.down_blocks.1.0.attn' moves or combines" in told
    assert told.endswith(
        "these stay, as those of inputs and outputs do: axis 1 of 'network.encoder.conv_in.weight', "
        "axis 0 of 'network.decoder.conv_out.weight'."
    )
