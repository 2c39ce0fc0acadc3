"""Permutations planted in networks of other libraries are found again by ``symlab align``'s default settings.

A network with random weights is renumbered at random in every group; recovered means that the aligned network is the
first one bit for bit, in every tensor. SYMLAB_PLANTED=FILE appends the rows of the table in
docs/reference/symmetries.md to FILE.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import building
import families
import numpy as np
import pytest
import torch
from torch import nn

from symlab.alignment.activation_matching import activation_matching
from symlab.alignment.forward import batch_rows
from symlab.alignment.permute import permute
from symlab.networks.mlp import MLP
from symlab.networks.resnet import ResNet20
from symlab.own.models import trace_quietly
from symlab.own.network import prepare
from symlab.own.weights import Weights
from symlab.seeds import numpy_rng
from symlab.symmetries.symmetry_spec import random_permutations

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Planted:
    """A network, inputs for it, and how often a permutation is planted; ``shape`` None stands for tokens."""

    library: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...] | None = (64, 3, 32, 32)
    draws: int = 20

    def inputs(self, generator):
        if self.shape is None:
            return torch.randint(3, 64, (64, 9), generator=generator)
        return torch.randn(self.shape, generator=generator)


class Denoiser(nn.Module):
    """A UNet at one time of the diffusion."""

    def __init__(self):
        from diffusers import UNet2DModel

        super().__init__()
        self.network = UNet2DModel(
            sample_size=16,
            block_out_channels=(16, 32),
            layers_per_block=1,
            norm_num_groups=4,
            attention_head_dim=8,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        )

    def forward(self, x):
        return self.network(x, 10).sample


def family(name, *options):
    return Planted(families.FAMILIES[name].library, families.FAMILIES[name].build, *options)


# All experts compute every token.
MIXTRAL = building.MIXTURE | {"num_local_experts": 4, "experts_implementation": "batched_mm"}
NETWORKS = {
    "MLP": Planted("symlab", lambda: MLP(20, [64, 64, 64], 5), (512, 20)),
    "ResNet20": Planted("symlab", lambda: ResNet20(3072, 10, 1, 1, 3), (64, 3072)),
    "ResNet-50": Planted("timm", building.timm_model("resnet50", 0).build, (64, 3, 64, 64), 2),
    "ConvNeXt": Planted(
        "timm", building.timm_class("convnext", "ConvNeXt", depths=(1, 1, 2, 1), dims=(16, 24, 32, 48))
    ),
    "DenseNet": Planted("timm", building.timm_class("densenet", "DenseNet", growth_rate=8, block_config=(2, 3, 2))),
    "MLP-Mixer": family("timm MLP-Mixer"),
    "ViT": family("ViT"),
    "DINOv2 with registers": family("DINOv2 with registers"),
    "SwinV2": family("Swin v2", (64, 3, 32, 32), 10),
    **{name: family(name, None) for name in ("BERT", "GPT-2", "Llama", "Mamba")},
    "Mixtral": Planted("transformers", building.hugging(0, "MixtralForCausalLM", **MIXTRAL).build, None),
    "UNet2D": Planted("diffusers", Denoiser, (64, 3, 16, 16), 10),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_planted_permutations_are_recovered(name):
    planted = NETWORKS[name]
    generator = families.start(planted.library)
    module = planted.build()
    state, x = families.in_an_ordinary_state(module, generator), planted.inputs(generator)
    network = prepare(module, [Weights(Path("planted"), state, {})] * 2, "cpu")
    traced = trace_quietly(network.module, x[:8])
    A = network.by_all_names(network.state(state))
    recovered, unequal = 0, {}
    for seed in range(planted.draws):
        B = permute(A, traced.spec, random_permutations(traced.spec, np.random.default_rng(seed)))
        found = activation_matching(traced, [A], B, x, batch_rows(x), numpy_rng("align", 0, "restarts"))
        aligned = permute(B, traced.spec, found.permutations)
        wrong = {key: traced.spec.axes[key] for key, tensor in A.items() if not torch.equal(tensor, aligned[key])}
        recovered += not wrong
        unequal |= wrong
    if path := os.environ.get("SYMLAB_PLANTED"):
        row = (name, planted.library, len(traced.spec.groups), f"{recovered} of {planted.draws}")
        with Path(path).open("a") as file:
            file.write(f"| {' | '.join(map(str, row))} |\n")
    assert recovered == planted.draws, unequal
