"""Networks of other libraries, tiny and with random weights, and how much of each can be renumbered.

``matrix_axes`` counts, by hand, the factors of groups on the axes of all tensors with two axes or more: heads and
dimensions within them apart, the residual stream, hidden units, channels, experts. What must stay is not counted:
tokens, pixels, classes, positions turned by rotary embeddings. Copies of tied tensors count again.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Family:
    """A network to be traced at ``inputs``; ``lost`` of its ``matrix_axes`` are not found yet."""

    library: str
    build: Callable[[], nn.Module]
    inputs: Callable[[], torch.Tensor]
    matrix_axes: int
    lost: int = 0


class Picked(nn.Module):
    """One output of a network, at constant other inputs."""

    def __init__(self, network: nn.Module, which: int = 0, **others: Any):
        super().__init__()
        self.network, self.which, self.others = network, which, others
        for name, other in others.items():
            self.register_buffer(name, other, persistent=False)

    def forward(self, x):
        return self.network(x, **{name: getattr(self, name) for name in self.others})[self.which]


class Detector(nn.Module):
    """The classes and boxes that a network finds in an image."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, x):
        found = self.network(x)
        return torch.cat([found.logits, found.pred_boxes], -1)


class Controlled(nn.Module):
    """A UNet and the network that controls it, at one time, text and image."""

    def __init__(self):
        from diffusers import ControlNetModel, UNet2DConditionModel

        super().__init__()
        down = CONDITIONED["down_block_types"]
        options = UNET | {"attention_head_dim": 4, "cross_attention_dim": 12, "down_block_types": down}
        self.network = UNet2DConditionModel(**UNET, **CONDITIONED)
        self.control = ControlNetModel(**options, conditioning_embedding_out_channels=(8, 12))
        for name, constant in (("time", TIME), ("text", text(12)), ("image", noise(3, 16, 16)())):
            self.register_buffer(name, constant, persistent=False)

    def forward(self, x):
        down, middle = self.control(x, self.time, self.text, self.image, return_dict=False)
        return self.network(
            x, self.time, self.text, down_block_additional_residuals=down, mid_block_additional_residual=middle
        )[0]


DETECTOR = {
    "use_timm_backbone": False,
    "backbone": None,
    "num_queries": 6,
    "num_labels": 5,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
WORDS = SIZES | {
    "vocab_size": 64,
    "max_position_embeddings": 32,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
DECODER = WORDS | {"num_key_value_heads": 2, "use_cache": False}
MIXTURE = DECODER | {"num_experts_per_tok": 2, "head_dim": 8}
SMALL = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "use_cache": False}
GPT = {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "use_cache": False}
BART = {
    "vocab_size": 64,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 32,
    "use_cache": False,
}
T5 = {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
SOUND = SIZES | {
    "vocab_size": 11,
    "conv_dim": [16, 16, 16],
    "conv_stride": [5, 2, 2],
    "conv_kernel": [10, 3, 3],
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
}
STAGES = {"hidden_sizes": [8, 12, 16, 20], "depths": [1, 1, 1, 1]}
IMAGE = SIZES | {"image_size": 32, "patch_size": 8}
WINDOWS = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
PYRAMID = {
    "hidden_sizes": [8, 16, 16, 24],
    "depths": [1, 1, 1, 1],
    "num_attention_heads": [1, 2, 2, 4],
    "mlp_ratios": [2, 2, 2, 2],
}
VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 4, "num_classes": 5}
UNET = {"block_out_channels": (16, 16), "layers_per_block": 1, "norm_num_groups": 4}
CONDITIONED = {
    "sample_size": 8,
    "attention_head_dim": 4,
    "cross_attention_dim": 12,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
}
AUTOENCODER = {
    "block_out_channels": (8, 16),
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
}
PATCHES = {
    "num_attention_heads": 4,
    "attention_head_dim": 8,
    "num_layers": 2,
    "sample_size": 8,
    "patch_size": 2,
    "in_channels": 4,
}
TIME = torch.tensor([10, 10])


def words() -> torch.Tensor:
    return torch.randint(3, 64, (2, 9), generator=torch.Generator().manual_seed(0))


def sentences() -> torch.Tensor:
    return torch.cat([words(), torch.full((2, 1), 2)], 1)


def noise(*shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))


images, latents, waves = noise(3, 32, 32), noise(4, 8, 8), noise(400)


def hugging(
    axes: int, model: str, inputs: Callable = words, *, lost: int = 0, which: int = 0, **options: Any
) -> Family:
    def build() -> nn.Module:
        import transformers

        kind = getattr(transformers, model)
        return Picked(kind(kind.config_class(**options)), which)

    return Family("transformers", build, inputs, axes, lost)


def detector(axes: int, name: str, inputs: Callable, stages: dict[str, Any], **options: Any) -> Family:
    def build() -> nn.Module:
        import transformers

        resnet = "RTDetrResNetConfig" if name == "RTDetr" else "ResNetConfig"
        backbone = getattr(transformers, resnet)(embedding_size=8, layer_type="basic", **stages)
        config = getattr(transformers, f"{name}Config")(backbone_config=backbone, **DETECTOR, **options)
        return Detector(getattr(transformers, f"{name}ForObjectDetection")(config))

    return Family("transformers", build, inputs, axes)


def diffusion(axes: int, model: str, inputs: Callable, others: dict[str, Any], *, lost: int = 0, **options) -> Family:
    def build() -> nn.Module:
        import diffusers

        return Picked(getattr(diffusers, model)(**options), **others)

    return Family("diffusers", build, inputs, axes, lost)


def timm_model(name: str, axes: int, **options: Any) -> Family:
    def build() -> nn.Module:
        import timm

        return timm.create_model(name, **options)

    return Family("timm", build, images, axes)


def timm_class(module: str, name: str, *sizes: int, **options: Any) -> Callable[[], nn.Module]:
    """A network of timm from its class, smaller than any that has a name."""

    def build() -> nn.Module:
        return getattr(importlib.import_module(f"timm.models.{module}"), name)(*sizes, **options)

    return build


def mixer(mlp_ratio: Any = (0.5, 4.0), **options: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        from timm.models import mlp_mixer

        layers = {name: getattr(mlp_mixer, layer) for name, layer in options.items()}
        sizes = {"num_classes": 5, "img_size": 32, "patch_size": 8, "num_blocks": 2, "embed_dim": 32}
        return mlp_mixer.MlpMixer(mlp_ratio=mlp_ratio, **sizes, **layers)

    return build


def without_norms() -> nn.Module:
    from timm.models.nfnet import NfCfg, NormFreeNet

    return NormFreeNet(NfCfg(depths=(1, 1), channels=(16, 32), stem_chs=8), num_classes=5)


def outlooks() -> nn.Module:
    from timm.models.volo import VOLO

    sizes = {"layers": (1, 1), "embed_dims": (24, 32), "num_heads": (2, 4), "mlp_ratio": 2.0, "stem_hidden_dim": 8}
    return VOLO(**sizes, img_size=32, downsamples=(True, False), outlook_attention=(True, False), num_classes=5)


def nystromformer() -> nn.Module:
    from transformers import NystromformerConfig, NystromformerForSequenceClassification

    config = NystromformerConfig(num_landmarks=3, segment_means_seq_len=9, conv_kernel_size=3, **WORDS)
    return Picked(NystromformerForSequenceClassification(config), attention_mask=torch.zeros(1, 1, 1, 9))


def informer() -> nn.Module:
    from transformers import InformerConfig, InformerModel

    lengths = {"prediction_length": 4, "context_length": 12, "lags_sequence": [1, 2], "num_time_features": 2}
    options = {name: value for name, value in BART.items() if name not in ("vocab_size", "max_position_embeddings")}
    network = InformerModel(InformerConfig(distil=False, scaling=None, **lengths, **options | {"decoder_layers": 1}))
    past, future = (torch.randn(2, n, 2, generator=torch.Generator().manual_seed(n)) for n in (14, 4))
    return Picked(
        network,
        past_time_features=past,
        past_observed_mask=torch.ones(2, 14),
        future_values=future[..., 0],
        future_time_features=future,
    )


def text(channels: int) -> torch.Tensor:
    return torch.randn(2, 5, channels, generator=torch.Generator().manual_seed(1))
