"""Networks of other libraries, tiny and with random weights, and how much of each can be renumbered.

``matrix_axes`` counts, by hand, the factors of groups on the axes of all tensors with two axes or more: heads and
dimensions within them apart, the residual stream, hidden units, channels, experts. What must stay is not counted:
tokens, pixels, classes, positions turned by rotary embeddings. Copies of tied tensors count again.
"""

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
    axes: int, model: str, config: str, inputs: Callable = words, *, lost: int = 0, which: int = 0, **options: Any
) -> Family:
    def build() -> nn.Module:
        import transformers

        return Picked(getattr(transformers, model)(getattr(transformers, config)(**options)), which)

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


def mixer(mlp_ratio: Any = (0.5, 4.0), **options: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        from timm.models import mlp_mixer

        layers = {name: getattr(mlp_mixer, layer) for name, layer in options.items()}
        sizes = {"num_classes": 5, "img_size": 32, "patch_size": 8, "num_blocks": 2, "embed_dim": 32}
        return mlp_mixer.MlpMixer(mlp_ratio=mlp_ratio, **sizes, **layers)

    return build


def conv_mixer() -> nn.Module:
    from timm.models.convmixer import ConvMixer

    return ConvMixer(24, 2, kernel_size=3, patch_size=4, num_classes=5)


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


FAMILIES = {
    "BERT": hugging(38, "BertForSequenceClassification", "BertConfig", **WORDS),
    "DistilBERT": hugging(
        37,
        "DistilBertForSequenceClassification",
        "DistilBertConfig",
        vocab_size=64,
        dim=32,
        n_layers=2,
        n_heads=4,
        hidden_dim=48,
        max_position_embeddings=32,
    ),
    "ELECTRA": hugging(40, "ElectraForSequenceClassification", "ElectraConfig", embedding_size=24, **WORDS),
    "ALBERT": hugging(24, "AlbertForSequenceClassification", "AlbertConfig", embedding_size=24, **WORDS),
    "MPNet": hugging(38, "MPNetForSequenceClassification", "MPNetConfig", **WORDS),
    "GPT-2": hugging(
        31,
        "GPT2LMHeadModel",
        "GPT2Config",
        vocab_size=64,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=32,
        use_cache=False,
    ),
    "OPT": hugging(
        35,
        "OPTForCausalLM",
        "OPTConfig",
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        ffn_dim=48,
        num_attention_heads=4,
        max_position_embeddings=32,
        word_embed_proj_dim=32,
        use_cache=False,
    ),
    "Llama": hugging(38, "LlamaForCausalLM", "LlamaConfig", **DECODER),
    "Mistral": hugging(38, "MistralForCausalLM", "MistralConfig", **DECODER),
    "Qwen2": hugging(38, "Qwen2ForCausalLM", "Qwen2Config", **DECODER),
    "Qwen3": hugging(38, "Qwen3ForCausalLM", "Qwen3Config", head_dim=8, **DECODER),
    "Gemma": hugging(38, "GemmaForCausalLM", "GemmaConfig", head_dim=8, **DECODER),
    "Phi-3": hugging(32, "Phi3ForCausalLM", "Phi3Config", **DECODER),
    "BLOOM": hugging(
        22, "BloomForCausalLM", "BloomConfig", vocab_size=64, hidden_size=32, n_layer=2, n_head=4, use_cache=False
    ),
    "Falcon": hugging(
        26,
        "FalconForCausalLM",
        "FalconConfig",
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_kv_heads=2,
        new_decoder_architecture=True,
        use_cache=False,
    ),
    "BART classifier": hugging(96, "BartForSequenceClassification", "BartConfig", sentences, **BART),
    "CLIP text": hugging(35, "CLIPTextModelWithProjection", "CLIPTextConfig", projection_dim=16, **WORDS),
    "Mamba": hugging(
        30,
        "MambaForCausalLM",
        "MambaConfig",
        vocab_size=64,
        hidden_size=32,
        state_size=8,
        num_hidden_layers=2,
        use_cache=False,
    ),
    "Mixtral": hugging(44, "MixtralForCausalLM", "MixtralConfig", num_local_experts=4, **MIXTURE),
    "Qwen3-MoE": hugging(
        44, "Qwen3MoeForCausalLM", "Qwen3MoeConfig", num_experts=4, moe_intermediate_size=24, **MIXTURE
    ),
    # The best expert and the second best are found one after the other: experts, on three axes a layer, stay.
    "Phi-3.5-MoE": hugging(44, "PhimoeForCausalLM", "PhimoeConfig", num_local_experts=4, lost=6, **MIXTURE),
    "GPT-OSS": hugging(50, "GptOssForCausalLM", "GptOssConfig", num_local_experts=4, **MIXTURE),
    "DeepSeek-V3": hugging(
        54,
        "DeepseekV3ForCausalLM",
        "DeepseekV3Config",
        n_routed_experts=4,
        n_group=2,
        topk_group=1,
        first_k_dense_replace=1,
        kv_lora_rank=16,
        q_lora_rank=16,
        qk_rope_head_dim=4,
        qk_nope_head_dim=4,
        v_head_dim=8,
        moe_intermediate_size=24,
        num_experts_per_tok=2,
        **WORDS | {"use_cache": False, "num_key_value_heads": 4},
    ),
    "ViT": hugging(36, "ViTForImageClassification", "ViTConfig", images, **IMAGE),
    "DeiT": hugging(37, "DeiTForImageClassification", "DeiTConfig", images, **IMAGE),
    "DINOv2 with registers": hugging(
        39,
        "Dinov2WithRegistersForImageClassification",
        "Dinov2WithRegistersConfig",
        images,
        mlp_ratio=2,
        num_register_tokens=4,
        **{k: v for k, v in IMAGE.items() if k != "intermediate_size"},
    ),
    "timm MLP-Mixer": Family("timm", mixer(), images, 14),
    "GPT-NeoX": hugging(26, "GPTNeoXForCausalLM", "GPTNeoXConfig", use_cache=False, **WORDS),
    "ModernBERT": hugging(
        30, "ModernBertForSequenceClassification", "ModernBertConfig", cls_token_id=1, sep_token_id=2, **WORDS
    ),
    "BEiT": hugging(35, "BeitForImageClassification", "BeitConfig", images, **IMAGE),
    "ConvNeXt v2": hugging(36, "ConvNextV2ForImageClassification", "ConvNextV2Config", images, **STAGES),
    "PoolFormer": hugging(24, "PoolFormerForImageClassification", "PoolFormerConfig", images, **STAGES),
    "ResNet": hugging(
        20,
        "ResNetForImageClassification",
        "ResNetConfig",
        images,
        hidden_sizes=[8, 12],
        depths=[2, 2],
        embedding_size=8,
        layer_type="basic",
    ),
    "timm ViT": timm_model("vit_tiny_patch16_224", 32, **VIT),
    "timm ResNet-18": timm_model("resnet18", 40, num_classes=5),
    "RoBERTa": hugging(38, "RobertaForSequenceClassification", "RobertaConfig", **WORDS),
    "T5 encoder": hugging(36, "T5ForTokenClassification", "T5Config", **T5),
    "mT5 encoder": hugging(40, "MT5ForTokenClassification", "MT5Config", feed_forward_proj="gated-gelu", **T5),
    "DeBERTa-v2": hugging(
        38,
        "DebertaV2ForSequenceClassification",
        "DebertaV2Config",
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=8,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        **WORDS,
    ),
    # Heads stay: their biases are constants.
    "MPT": hugging(
        22,
        "MptForCausalLM",
        "MptConfig",
        d_model=32,
        n_heads=4,
        n_layers=2,
        expansion_ratio=2,
        max_seq_len=32,
        vocab_size=64,
        use_cache=False,
    ),
    # The residual stream stays: Fourier transforms mix it.
    "FNet": hugging(
        10,
        "FNetForSequenceClassification",
        "FNetConfig",
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        intermediate_size=48,
        max_position_embeddings=32,
    ),
    "Gemma-2": hugging(
        38, "Gemma2ForCausalLM", "Gemma2Config", head_dim=8, query_pre_attn_scalar=8, sliding_window=4, **DECODER
    ),
    "Gemma-3": hugging(
        38, "Gemma3ForCausalLM", "Gemma3TextConfig", head_dim=8, query_pre_attn_scalar=8, sliding_window=4, **DECODER
    ),
    "RWKV": hugging(
        40,
        "RwkvForCausalLM",
        "RwkvConfig",
        lambda: words()[:, :4],
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        attention_hidden_size=24,
        intermediate_size=48,
        rescale_every=0,
        use_cache=False,
    ),
    # Heads lie within the groups that share a state.
    "Mamba-2": hugging(
        50,
        "Mamba2ForCausalLM",
        "Mamba2Config",
        vocab_size=64,
        hidden_size=32,
        num_heads=8,
        head_dim=8,
        state_size=8,
        n_groups=2,
        num_hidden_layers=2,
        chunk_size=4,
        use_cache=False,
    ),
    # Half of a head's dimensions of queries and keys are turned; gates act within the heads of the recurrence.
    "RecurrentGemma": hugging(
        76,
        "RecurrentGemmaForCausalLM",
        "RecurrentGemmaConfig",
        head_dim=8,
        lru_width=32,
        attention_window_size=8,
        **DECODER | {"num_hidden_layers": 3},
    ),
    "Jamba": hugging(
        82,
        "JambaForCausalLM",
        "JambaConfig",
        attn_layer_period=2,
        attn_layer_offset=1,
        num_experts=1,
        mamba_d_state=4,
        mamba_dt_rank=4,
        **DECODER | {"num_hidden_layers": 4},
    ),
    "GPT-Neo": hugging(
        35,
        "GPTNeoForCausalLM",
        "GPTNeoConfig",
        vocab_size=64,
        hidden_size=32,
        num_layers=2,
        attention_types=[[["global", "local"], 1]],
        num_heads=4,
        max_position_embeddings=32,
        window_size=4,
        use_cache=False,
    ),
    # Half of a head's dimensions are turned.
    "GPT-J": hugging(
        34,
        "GPTJForCausalLM",
        "GPTJConfig",
        vocab_size=64,
        n_embd=32,
        n_layer=2,
        n_head=4,
        rotary_dim=4,
        n_positions=32,
        use_cache=False,
    ),
    # The residual stream stays: sinusoids are added to it.
    "XGLM": hugging(
        20,
        "XGLMForCausalLM",
        "XGLMConfig",
        vocab_size=64,
        d_model=32,
        ffn_dim=48,
        num_layers=2,
        attention_heads=4,
        max_position_embeddings=32,
        use_cache=False,
    ),
    "Phi": hugging(38, "PhiForCausalLM", "PhiConfig", partial_rotary_factor=0.5, **DECODER),
    "Cohere": hugging(44, "CohereForCausalLM", "CohereConfig", use_qk_norm=True, **DECODER),
    "OLMo-2": hugging(38, "Olmo2ForCausalLM", "Olmo2Config", **DECODER),
    # Its convolutions have as many groups as there are heads, so the residual stream is groups x channels.
    "SqueezeBERT": hugging(48, "SqueezeBertForSequenceClassification", "SqueezeBertConfig", embedding_size=32, **WORDS),
    # Heads of attention and of convolution are joined, and the dimensions within all of them get one permutation.
    "ConvBERT": hugging(
        68,
        "ConvBertForSequenceClassification",
        "ConvBertConfig",
        lost=2,
        embedding_size=24,
        head_ratio=2,
        conv_kernel_size=3,
        **WORDS,
    ),
    "MobileBERT": hugging(
        78,
        "MobileBertForSequenceClassification",
        "MobileBertConfig",
        embedding_size=16,
        intra_bottleneck_size=16,
        **WORDS,
    ),
    # The frequencies of its rotary embeddings are stored, and are renumbered as parameters are.
    "ESM-2": hugging(
        40, "EsmForSequenceClassification", "EsmConfig", position_embedding_type="rotary", token_dropout=False, **WORDS
    ),
    "CLIP vision": hugging(35, "CLIPVisionModelWithProjection", "CLIPVisionConfig", images, projection_dim=16, **IMAGE),
    # Pooled by attention.
    "SigLIP vision": hugging(46, "SiglipVisionModel", "SiglipVisionConfig", images, which=1, **IMAGE),
    # The residual stream is the output.
    "BLIP vision": hugging(20, "BlipVisionModel", "BlipVisionConfig", images, **IMAGE),
    "Swin": hugging(75, "SwinForImageClassification", "SwinConfig", images, **WINDOWS),
    "Swin v2": hugging(87, "Swinv2ForImageClassification", "Swinv2Config", images, **WINDOWS),
    "ConvNeXt": hugging(28, "ConvNextForImageClassification", "ConvNextConfig", images, **STAGES),
    "RegNet": hugging(
        51,
        "RegNetForImageClassification",
        "RegNetConfig",
        images,
        embedding_size=8,
        hidden_sizes=[16, 24],
        depths=[2, 1],
        groups_width=8,
    ),
    "MobileNetV2": hugging(87, "MobileNetV2ForImageClassification", "MobileNetV2Config", images, depth_multiplier=0.25),
    "MobileViT": hugging(
        210,
        "MobileViTForImageClassification",
        "MobileViTConfig",
        images,
        image_size=32,
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 12, 16, 16, 20, 24],
        num_attention_heads=4,
    ),
    "SegFormer": hugging(
        89,
        "SegformerForSemanticSegmentation",
        "SegformerConfig",
        images,
        sr_ratios=[4, 2, 1, 1],
        decoder_hidden_size=20,
        **PYRAMID,
    ),
    "PVT": hugging(
        77,
        "PvtForImageClassification",
        "PvtConfig",
        images,
        image_size=32,
        sequence_reduction_ratios=[4, 2, 1, 1],
        **PYRAMID,
    ),
    "PVT v2": hugging(
        76, "PvtV2ForImageClassification", "PvtV2Config", images, image_size=32, sr_ratios=[4, 2, 1, 1], **PYRAMID
    ),
    # The convolution of positions has two groups, so the residual stream is groups x channels.
    "PatchTST": hugging(
        35,
        "PatchTSTForPrediction",
        "PatchTSTConfig",
        noise(32, 3),
        num_input_channels=3,
        context_length=32,
        patch_length=8,
        patch_stride=8,
        d_model=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=48,
        prediction_length=4,
        scaling=None,
    ),
    "Wav2Vec2": hugging(57, "Wav2Vec2ForCTC", "Wav2Vec2Config", waves, **SOUND),
    "HuBERT": hugging(57, "HubertForCTC", "HubertConfig", waves, **SOUND),
    "Whisper encoder": hugging(
        39,
        "WhisperForAudioClassification",
        "WhisperConfig",
        noise(8, 20),
        vocab_size=64,
        d_model=32,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        num_mel_bins=8,
        max_source_positions=10,
        classifier_proj_size=16,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        decoder_start_token_id=1,
        begin_suppress_tokens=None,
    ),
    # The residual stream stays: sinusoids are added to it.
    "VideoMAE": hugging(
        20,
        "VideoMAEForVideoClassification",
        "VideoMAEConfig",
        noise(4, 3, 16, 16),
        num_frames=4,
        **IMAGE | {"image_size": 16},
    ),
    "TimeSformer": hugging(
        57,
        "TimesformerForVideoClassification",
        "TimesformerConfig",
        noise(4, 3, 16, 16),
        num_frames=4,
        **IMAGE | {"image_size": 16},
    ),
    # Its attention mask is given whole: torch.export cannot follow how it is made.
    "Nystromformer": Family("transformers", nystromformer, words, 40),
    # Characters are looked up in two tables, so the residual stream is two groups, but behind the upsampling one.
    "CANINE": hugging(
        98,
        "CanineForTokenClassification",
        "CanineConfig",
        lambda: torch.cat([words(), words()[:, :7]], 1),
        downsampling_rate=4,
        num_hash_functions=2,
        num_hash_buckets=16,
        local_transformer_stride=8,
        **WORDS,
    ),
    # The latents themselves may be renumbered.
    "Perceiver": hugging(
        66,
        "PerceiverForSequenceClassification",
        "PerceiverConfig",
        num_latents=5,
        d_latents=24,
        d_model=32,
        num_blocks=1,
        num_self_attends_per_block=2,
        num_self_attention_heads=4,
        num_cross_attention_heads=4,
        vocab_size=64,
        max_position_embeddings=9,
    ),
    "Zamba2": hugging(
        59,
        "Zamba2ForCausalLM",
        "Zamba2Config",
        mamba_d_state=8,
        mamba_headdim=8,
        mamba_ngroups=1,
        n_mamba_heads=8,
        chunk_size=4,
        num_mem_blocks=1,
        adapter_rank=6,
        layers_block_type=["mamba", "hybrid"],
        use_mem_rope=False,
        **DECODER | {"num_key_value_heads": 4},
    ),
    # Only the queries with the largest scores attend. The decoder's residual stream is the output.
    "Informer": Family("transformers", informer, noise(14), 54),
    # The residual streams of encoders stay: sinusoids are added to them.
    "Conditional DETR": detector(
        107,
        "ConditionalDetr",
        images,
        {"hidden_sizes": [8, 12], "depths": [1, 1], "out_features": ["stage2"]},
        d_model=32,
        encoder_layers=1,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
    ),
    # Each head samples the image at points of its own.
    "RT-DETR": detector(
        209,
        "RTDetr",
        noise(3, 64, 64),
        {"hidden_sizes": [8, 12, 16, 20], "depths": [1, 1, 1, 1], "out_features": ["stage2", "stage3", "stage4"]},
        encoder_hidden_dim=16,
        encoder_in_channels=[12, 16, 20],
        encoder_ffn_dim=24,
        d_model=16,
        decoder_in_channels=[16, 16, 16],
        decoder_ffn_dim=24,
        decoder_n_points=2,
        num_denoising=0,
        anchor_image_size=None,
    ),
    # Scores and weights of attention are mixed over heads: there are three groups of heads.
    "timm CaiT": timm_model("cait_xxs24_224", 72, **VIT),
    "timm DeiT-III": timm_model("deit3_small_patch16_224", 32, **VIT),
    # Attention of channels to channels.
    "timm XCiT": timm_model("xcit_nano_12_p16_224", 74, **VIT),
    "timm BEiT v2": timm_model("beitv2_base_patch16_224", 33, **VIT),
    "timm EVA-02": timm_model("eva02_tiny_patch14_224", 30, **VIT),
    "timm DenseNet": timm_model("densenet121", 39, growth_rate=8, block_config=(2, 2, 2), num_classes=5),
    "timm DLA": timm_model("dla34", 85, channels=(8, 8, 16, 24, 32, 40), levels=(1, 1, 1, 2, 2, 1), num_classes=5),
    "timm MobileNetV3": timm_model("mobilenetv3_small_050", 95, num_classes=5),
    "timm EfficientNet": timm_model("test_efficientnet", 32, num_classes=5),
    # Half of a block's hidden units are the other half's gates, and some of those are convolved.
    "timm MambaOut": timm_model("test_mambaout", 66, num_classes=5),
    "timm ConvMixer": Family("timm", conv_mixer, images, 8),
    "timm ResMLP": Family("timm", mixer(4, block_layer="ResBlock", norm_layer="Affine"), images, 20),
    "timm gMLP": Family("timm", mixer(4, block_layer="SpatialGatingBlock", mlp_layer="GatedMlp"), images, 12),
    # Standardised weights.
    "timm NF-ResNet": Family("timm", without_norms, images, 27),
    # Values of windows are summed where these overlap.
    "timm VOLO": Family("timm", outlooks, images, 69),
    # Groups of channels that are normalised together, and pairs of them where two values are normalised together.
    "UNet2DModel": diffusion(
        236,
        "UNet2DModel",
        images,
        {"timestep": TIME},
        sample_size=32,
        attention_head_dim=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        **UNET,
    ),
    "UNet2DConditionModel": diffusion(
        295,
        "UNet2DConditionModel",
        latents,
        {"timestep": TIME, "encoder_hidden_states": text(12)},
        **CONDITIONED,
        **UNET,
    ),
    "ControlNet and UNet": Family("diffusers", Controlled, latents, 447),
    # The latent variances, of which the output has none, count too.
    "AutoencoderKL": diffusion(135, "AutoencoderKL", images, {}, **AUTOENCODER),
    # Entries of the code book too may be renumbered.
    "VQModel": diffusion(136, "VQModel", images, {}, num_vq_embeddings=20, **AUTOENCODER),
    # The residual stream stays: sinusoids are added to it. So it does in PixArt, whose embedding of times joins it.
    "DiT": diffusion(
        31,
        "DiTTransformer2DModel",
        latents,
        {"timestep": TIME, "class_labels": torch.tensor([1, 2])},
        out_channels=8,
        num_embeds_ada_norm=10,
        **PATCHES,
    ),
    "PixArt": diffusion(
        45,
        "PixArtTransformer2DModel",
        latents,
        {"encoder_hidden_states": text(12), "timestep": TIME},
        out_channels=8,
        cross_attention_dim=32,
        caption_channels=12,
        use_additional_conditions=False,
        **PATCHES,
    ),
    # Its sinusoids are stored, and are renumbered as parameters are.
    "SD3": diffusion(
        94,
        "SD3Transformer2DModel",
        latents,
        {"encoder_hidden_states": text(12), "pooled_projections": text(6)[:, 0], "timestep": TIME},
        out_channels=4,
        joint_attention_dim=12,
        caption_projection_dim=32,
        pooled_projection_dim=6,
        pos_embed_max_size=8,
        **PATCHES,
    ),
    "Flux": diffusion(
        71,
        "FluxTransformer2DModel",
        noise(6, 16),
        {
            "encoder_hidden_states": text(12),
            "pooled_projections": text(6)[:, 0],
            "timestep": TIME / 10,
            "img_ids": torch.arange(18.0).reshape(6, 3) % 5,
            "txt_ids": torch.zeros(5, 3),
        },
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=12,
        pooled_projection_dim=6,
        guidance_embeds=False,
        axes_dims_rope=(4, 6, 6),
    ),
    "Transformer2DModel": diffusion(
        29,
        "Transformer2DModel",
        latents,
        {"encoder_hidden_states": text(12)},
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        norm_num_groups=2,
        cross_attention_dim=12,
        num_layers=1,
    ),
}
