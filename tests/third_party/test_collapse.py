"""Collapse of networks of other libraries: which linear map is the readout, which features, which blocks."""

import pytest
import torch

from symlab import collapse

TEXT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 30}

MOBILE = (1, 2, 3, 2, 3, 1)
"""Blocks of each stage."""


def texts(n=24, tokens=7):
    generator = torch.Generator().manual_seed(0)
    return torch.randint(2, 30, (n, tokens), generator=generator), torch.arange(n) % 3


def nc1(features, y):
    H = features.detach().double()
    means = torch.stack([H[y == k].mean(0) for k in range(3)])
    return float((H - means[y]).square().sum() / len(H) / ((means - means.mean(0)).square().sum() / 3))


def test_a_classifier_of_texts_reads_what_its_pooler_gives():
    transformers = pytest.importorskip("transformers", reason="the extra 'models' is not installed (transformers)")
    torch.manual_seed(0)
    network = transformers.BertForSequenceClassification(transformers.BertConfig(**TEXT, num_labels=3)).eval()
    x, y = texts()
    found = collapse(network, (x, y), token=0)
    assert found.readout == "classifier"
    assert list(found.layers["layer"]) == ["bert.encoder.layer.0", "bert.encoder.layer.1", "features"]
    hidden = network.bert(x)
    assert found.layers["NC1"].tolist()[1:] == pytest.approx(
        [nc1(hidden.last_hidden_state[:, 0], y), nc1(hidden.pooler_output, y)], rel=1e-3
    )


def test_the_token_before_padding_is_the_one_that_is_read():
    transformers = pytest.importorskip("transformers", reason="the extra 'models' is not installed (transformers)")
    torch.manual_seed(0)
    options = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 30, "n_positions": 8}
    network = transformers.GPT2ForSequenceClassification(
        transformers.GPT2Config(**options, num_labels=3, pad_token_id=0)
    ).eval()
    x, y = texts()
    length = 3 + torch.arange(len(x)) % 4
    x[torch.arange(7) >= length[:, None]] = 0
    found = collapse(network, (x, y))
    hidden = network.transformer(x).last_hidden_state
    assert found.readout == "score"
    assert found.parts["NC1"][0] == pytest.approx(nc1(hidden[torch.arange(len(x)), length - 1], y), rel=1e-3)


@pytest.mark.parametrize(
    ("name", "readout", "blocks"),
    [
        ("resnet18", "fc", [f"layer{n}.{m}" for n in (1, 2, 3, 4) for m in (0, 1)]),
        ("vit_tiny_patch16_224", "head", [f"blocks.{n}" for n in range(12)]),
        ("mobilenetv3_small_050", "classifier", [f"blocks.{n}.{m}" for n, k in enumerate(MOBILE) for m in range(k)]),
    ],
)
def test_classifiers_of_images(name, readout, blocks):
    timm = pytest.importorskip("timm", reason="the extra 'models' is not installed (timm)")
    torch.manual_seed(0)
    size = {"img_size": 32} if name.startswith("vit") else {}
    network = timm.create_model(name, num_classes=3, **size).eval()
    x, y = torch.randn(24, 3, 32, 32), torch.arange(24) % 3
    found = collapse(network, (x, y), batch_size=10)
    assert found.readout == readout
    assert list(found.layers["layer"]) == [*blocks, "features"]
    features = network.forward_head(network.forward_features(x), pre_logits=True)
    assert found.parts["NC1"][0] == pytest.approx(nc1(features, y), rel=1e-3)
