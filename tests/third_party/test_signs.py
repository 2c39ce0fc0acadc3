"""Signs and permutations planted in networks of other libraries are found again; what is found changes nothing."""

import families
import numpy as np
import pytest
import torch
from test_planted import NETWORKS

from symlab.alignment.forward import batch_rows
from symlab.alignment.permute import permute
from symlab.alignment.signs import signed_matching, signs_of
from symlab.own.models import trace_quietly
from symlab.seeds import numpy_rng
from symlab.symmetries.signs import apply_flips, random_signs
from symlab.symmetries.symmetry_spec import random_permutations

pytestmark = pytest.mark.slow

DRAWS = 3
# By hand: how many independent signs a neuron of some group has. The stream of a Llama of two blocks: of itself, and of
# the gains of five norms with what reads them.
FREE = {
    "BERT": {"network.bert.pooler.dense": 1, "network.bert.encoder.layer.0.attention.self.query:1": 1},
    "GPT-2": {"network.transformer.h.0.attn.c_attn:2": 1},
    "Llama": {"network.model.embed_tokens": 6, "network.model.layers.0.mlp.gate_proj": 1},
    "Qwen3": {"network.model.embed_tokens": 6, "network.model.layers.0.mlp.gate_proj": 1},
    "Gemma": {"network.model.layers.0.mlp.gate_proj": 1},
    "T5 encoder": {"network.transformer.shared": 6},
    "Mamba": {},
    # Queries, keys and values of all heads in one matrix; an image's class and registers beside its patches.
    "GPT-NeoX": {"network.gpt_neox.layers.0.attention.query_key_value:1": 1},
    "DINOv2 with registers": {},
    "Mixtral": {},
    "ViT": {},
}


@pytest.mark.parametrize("name", FREE)
def test_planted_signs_are_recovered(name):
    # Its experts are compared where all compute every token, as in the table of permutations.
    module, A, x, _ = families.drawn(name, NETWORKS["Mixtral"].build if name == "Mixtral" else None)
    tied: dict[int, torch.Tensor] = {}
    A = {entry: tied.setdefault(id(own), A[entry]) for entry, own in module.state_dict(keep_vars=True).items()}
    traced = trace_quietly(module, x[:4])
    flips = signs_of(module, traced, x[:2], A)
    assert flips
    for group, count in FREE[name].items():
        assert sum(flip.group == group for flip in flips) == count
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        B = permute(A, traced.spec, random_permutations(traced.spec, rng))
        B = apply_flips(B, traced.spec, flips, random_signs(traced.spec, flips, rng))
        found = signed_matching(traced, A, B, x, batch_rows(x), flips, numpy_rng("align", 0, "restarts"))
        back = apply_flips(permute(B, traced.spec, found.matching.permutations), traced.spec, flips, found.signs)
        assert [entry for entry, tensor in A.items() if not torch.equal(back[entry], tensor)] == []
