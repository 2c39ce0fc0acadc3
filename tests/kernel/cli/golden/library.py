"""Stands for transformers, which the tests do without: what symlab asks of it, for one small model."""

import os
from pathlib import Path
from typing import ClassVar

import torch
from safetensors.torch import load_file
from torch import nn


class Config:
    pad_token_id, use_cache = 0, True
    asked: ClassVar = {"local_files_only": True}

    @classmethod
    def from_pretrained(cls, folder, **options):
        assert os.environ["HF_HUB_OFFLINE"] == "1"  # Else the library would ask elsewhere for files that it lacks.
        assert options == cls.asked and folder.name == "A.d"
        return cls()


class AutoConfig(Config):
    """Would run code that lies beside a config if it were not told otherwise."""

    asked: ClassVar = Config.asked | {"trust_remote_code": False}


class PreTrainedModel(nn.Module):
    config_class = Config

    @classmethod
    def from_pretrained(cls, folder, *, output_loading_info, **options):
        """Names of an older time are the present ones with ``old.`` before them."""
        assert options == {"local_files_only": True, "use_safetensors": True, "dtype": "auto"}
        stored = load_file(Path(folder) / "model.safetensors")
        model = cls(Config()).double()
        missing = model.load_state_dict({name.removeprefix("old_"): stored[name] for name in stored}, strict=False)
        return model, {"missing_keys": set(missing.missing_keys)}


class Texts(PreTrainedModel):
    """The mean over the tokens that count; the class of each text, beside what a cache would hold."""

    def __init__(self, config):
        super().__init__()
        self.config, self.words, self.dense, self.out = config, nn.Embedding(9, 5), nn.Linear(5, 6), nn.Linear(6, 3)

    def forward(self, input_ids=None, attention_mask=None, labels=None, **options):
        assert labels is None and not options
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        h = torch.tanh(self.dense(self.words(input_ids))) * mask[..., None]
        held = {"cache": h} if self.config.use_cache else {}
        return held | {"hidden": h, "logits": self.out(h.sum(1) / mask.sum(1, keepdim=True))}


class AutoModel:
    @classmethod
    def from_config(cls, config, trust_remote_code):
        assert trust_remote_code is False
        return Texts(config)
