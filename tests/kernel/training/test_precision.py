"""recipe.precision on the CPU: what bf16 changes and what it must not."""

import pytest
import torch
from torch import nn

from symlab.errors import UserError
from symlab.networks import NETWORKS, build
from symlab.settings import choose
from symlab.training import stack_size
from symlab.training.on_samples import TrainingData
from symlab.training.precision import arithmetic

MLP = {"name": "mlp", "widths": [32, 32]}
RESNET = {"name": "resnet20"}


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(64, 3 * 8 * 8, generator=generator)
    y = x[:, :8].argmax(dim=1)
    return TrainingData(x, y, x[:32], y[:32], "classification", image=(3, 8, 8), black=(0.0, 0.0, 0.0))


# bfloat16 has 8 significant bits: a rounding of 2^-9 = 0.2 % an operation; a few of them in a row stay below 2 %.
@pytest.mark.parametrize(
    ("network", "stacked"), [(MLP, False), (MLP, True), (RESNET, False)], ids=["mlp", "mlp stack", "resnet"]
)
def test_bf16_trains_as_float32_does(monkeypatch, train, data, network, stacked):
    monkeypatch.setattr(stack_size, "stacks_on_cpu", lambda module, shapes: stacked)
    blocks = [
        train(
            lambda: build(choose(NETWORKS, network), 192, 8),
            data,
            [(0, 0), (0, 1)],
            snapshots=(2,),
            precision=precision,
        )
        for precision in ("float32", "bf16")
    ]
    for column in ("train_loss", "val_loss"):
        exact, rounded = (torch.tensor(block.history[column].values) for block in blocks)
        torch.testing.assert_close(rounded, exact, rtol=0.02, atol=0)
        assert (rounded != exact).all()
    assert all(tensor.dtype == torch.float32 for tensor in blocks[1].snapshots[2].values())


def test_validation_uses_the_precision_of_training(monkeypatch, train, data):
    monkeypatch.setattr(stack_size, "stacks_on_cpu", lambda module, shapes: False)
    block = train(lambda: build(choose(NETWORKS, MLP), 192, 8), data, epochs=1, snapshots=(1,), precision="bf16")
    module = build(choose(NETWORKS, MLP), 192, 8)
    module.load_state_dict({name: tensor[0] for name, tensor in block.snapshots[1].items()})
    with torch.autocast("cpu", torch.bfloat16):
        outputs = module(data.x_val)
    exact = nn.functional.cross_entropy(module(data.x_val), data.y_val).item()
    expected = nn.functional.cross_entropy(outputs.float(), data.y_val).item()
    assert block.history["val_loss"].iloc[0] == pytest.approx(expected, rel=1e-5)
    assert exact != pytest.approx(expected, rel=1e-5)


def test_tf32_needs_a_gpu(train, data):
    with pytest.raises(UserError, match=r"recipe.precision is tf32, .* the device is the CPU; set recipe.precision"):
        train(lambda: build(choose(NETWORKS, MLP), 192, 8), data, precision="tf32")


@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
def test_a_gpu_s_float32_products_use_tf32_only_if_asked_and_settings_return(precision):
    def settings():
        return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark

    before = settings()
    with pytest.raises(ZeroDivisionError), arithmetic(precision, torch.device("cuda")):
        assert settings() == (precision == "tf32", precision == "tf32", True)
        raise ZeroDivisionError
    assert settings() == before
