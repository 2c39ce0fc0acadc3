"""``symlab align`` on folders as transformers saves them: shards, half precision, names of the library's own."""

import shutil
import warnings

import building
import numpy as np
import pytest
import torch

from symlab.cli import main
from symlab.own.weights import read_weights

pytestmark = pytest.mark.slow

MODELS = {
    "BertForSequenceClassification": ("AutoModelForSequenceClassification", "BertConfig", building.WORDS),
    "GPT2LMHeadModel": (
        "AutoModelForCausalLM",
        "GPT2Config",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64},
    ),
    # In its files each expert has tensors of its own, in memory all have one.
    "MixtralForCausalLM": ("MixtralForCausalLM", "MixtralConfig", building.MIXTURE | {"num_local_experts": 4}),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_saved_model_is_aligned_and_loads_again(name, dtype, tmp_path, monkeypatch, capsys):
    transformers = pytest.importorskip("transformers", reason="the extra 'models' is not installed (transformers)")
    warnings.simplefilter("ignore")
    factory, config, options = MODELS[name]
    kind = getattr(transformers, name)
    for seed, folder in enumerate("AB"):
        torch.manual_seed(seed)
        model = kind(getattr(transformers, config)(**options)).to(dtype)
        model.save_pretrained(tmp_path / folder, max_shard_size="20KB")
    assert len(list((tmp_path / "B").glob("*.safetensors"))) > 1
    x = np.random.default_rng(0).integers(3, 64, (24, 9))
    y = x[:, 0] % 2 if "Sequence" in name else np.concatenate([x[:, 1:], np.full((24, 1), -100)], 1)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    monkeypatch.chdir(tmp_path)
    model = f"transformers:{factory}"
    main(
        ["align", "A", "B", "--model", model, "--data", "data.npz", "--out", "out", "--device", "cpu", "--lambdas", "3"]
    )

    assert ("names that transformers gives them in memory" in capsys.readouterr().out) == (name == "MixtralForCausalLM")
    folder = tmp_path / "out" / "permuted"
    if name == "MixtralForCausalLM":
        folder.mkdir()
        shutil.copy("B/config.json", folder / "config.json")
        shutil.copy("out/permuted.safetensors", folder / "model.safetensors")
    permuted = read_weights(folder).tensors
    assert {tensor.dtype for tensor in permuted.values() if tensor.is_floating_point()} == {dtype}
    before, after = (kind.from_pretrained(each).float().eval() for each in ("B", folder))
    assert any(not torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True))
    with torch.no_grad():
        logits = [model(torch.from_numpy(x)).logits for model in (before, after)]
    torch.testing.assert_close(logits[1], logits[0], atol=1e-4, rtol=1e-4)


def test_the_groups_of_a_saved_model_are_printed(tmp_path, monkeypatch, capsys):
    transformers = pytest.importorskip("transformers", reason="the extra 'models' is not installed (transformers)")
    transformers.BertConfig(**building.WORDS).save_pretrained(tmp_path / "A")
    np.savez(tmp_path / "data.npz", x=np.full((2, 9), 3))
    monkeypatch.chdir(tmp_path)
    main(["trace", "transformers:AutoModelForSequenceClassification", "--data", "data.npz", "--folder", "A"])
    assert "bert.embeddings.word_embeddings (32)" in capsys.readouterr().out
