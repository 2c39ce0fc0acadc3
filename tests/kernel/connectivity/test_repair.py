import pytest
import torch
import torch.nn.functional as functional
from torch import nn

from symlab.alignment.forward import outputs, watching
from symlab.connectivity.norm_statistics import running_statistics
from symlab.connectivity.path import curve, interpolate
from symlab.connectivity.repair import with_goal_statistics
from symlab.errors import UserError
from symlab.networks import MLP, build

N = 400


class Tokens(nn.Module):
    """A linear map on [n, tokens, d], one that runs twice, and a sum as output."""

    def __init__(self):
        super().__init__()
        self.first, self.twice, self.last = nn.Linear(3, 7), nn.Linear(7, 7), nn.Linear(7, 4)

    def forward(self, x):
        x = torch.relu(self.first(x.unflatten(1, (4, 3))))
        return self.last(self.twice(torch.relu(self.twice(x)))).mean(dim=1)


def convolutional():
    return nn.Sequential(
        nn.Unflatten(1, (3, 2, 2)), nn.Conv2d(3, 6, 2, padding=1), nn.GroupNorm(1, 6), nn.ReLU(),
        nn.Conv2d(6, 5, 3, padding=1, bias=False), nn.BatchNorm2d(5), nn.ReLU(), nn.Flatten(), nn.Linear(45, 4),
    )  # fmt: skip


def normed():
    """Weights that are made of others, by norms of weights."""
    norms = nn.utils.parametrizations
    first, second = norms.weight_norm(nn.Linear(12, 16)), norms.spectral_norm(nn.Linear(16, 12))
    return nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), nn.Linear(12, 4))


MODULES = {
    "norms of weights": normed,
    "mlp": lambda: build(MLP(name="mlp", widths=[16, 12]), 12, 4),
    "batchnorm mlp": lambda: build(MLP(name="mlp", widths=[16, 12], norm="batchnorm"), 12, 4),
    "convolutional": convolutional,
    "tokens": Tokens,
}


def case(name, seed=0):
    module = MODULES[name]()
    torch.manual_seed(seed)
    states = []
    for _ in range(2):
        state = {}
        for entry, tensor in module.state_dict().items():
            if not tensor.is_floating_point():
                state[entry] = tensor
            elif tensor.dim() > 1:
                state[entry] = torch.randn(tensor.shape) / tensor[0].numel() ** 0.5
            else:
                state[entry] = 0.5 + torch.rand(tensor.shape)
        states.append(state)
    return module, *states, torch.randn(N, 12), torch.randint(4, (N,))


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("end", [0, 1])
def test_ends_keep_their_function(name, end):
    module, *states, x, _ = case(name)
    rescaling, ends = with_goal_statistics(module, states, x)
    measured = running_statistics(rescaling, ends[end], x)
    before = outputs(module, {**states[end], **running_statistics(module, states[end], x)}, x)
    after = outputs(rescaling, {**ends[end], **measured}, x)
    # Normalised by the batch's biased variance while statistics are taken, by the unbiased one after.
    torch.testing.assert_close(after, before, atol=5 / N * float(before.abs().max()), rtol=0)
    assert any(entry.endswith("rescaled.weight") for entry in ends[end])


def test_the_output_layer_and_layers_that_run_twice_are_left_alone():
    for name, wrapped in (
        ("mlp", ["linears.0", "linears.1"]),
        ("convolutional", ["1", "4"]),
        ("tokens", ["first", "last"]),
    ):
        module, *states, x, _ = case(name)
        rescaling, _ = with_goal_statistics(module, states, x)
        found = [path.removesuffix(".rescaled") for path, _ in rescaling.named_modules() if path.endswith("rescaled")]
        assert found == wrapped


def layer_outputs(module, state, x, layers):
    seen = {}
    with watching(module, layers, lambda layer, given, output: seen.update({layer: output})):
        outputs(module, state, x)
    return [seen[layer].movedim(1, -1).flatten(0, -2) for layer in layers]


@pytest.mark.parametrize("lam", [0.25, 0.5])
def test_channel_statistics_between_the_ends_are_the_interpolated_ones(lam):
    module = build(MLP(name="mlp", widths=[256, 256], norm="none", activation="relu"), 12, 4)
    torch.manual_seed(1)
    A, B = (
        {
            entry: torch.randn(tensor.shape) * (2 / tensor.shape[-1]) ** 0.5 if tensor.dim() > 1 else tensor
            for entry, tensor in module.state_dict().items()
        }
        for _ in range(2)
    )
    x = torch.randn(1000, 12)
    rescaling, (rescaled_A, rescaled_B) = with_goal_statistics(module, [A, B], x)
    state = interpolate(rescaled_A, rescaled_B, lam)
    state |= running_statistics(rescaling, state, x)

    layers = ["linears.0", "linears.1"]
    at_A, at_B = (layer_outputs(module, end, x, layers) for end in (A, B))
    plain = layer_outputs(module, interpolate(A, B, lam), x, layers)
    rescaled = layer_outputs(rescaling, state, x, layers)
    for a, b, between, found in zip(at_A, at_B, plain, rescaled, strict=True):
        goal_std = (1 - lam) * a.std(0) + lam * b.std(0)
        torch.testing.assert_close(found.std(0), goal_std, rtol=5e-3, atol=0)
        torch.testing.assert_close(found.mean(0), (1 - lam) * a.mean(0) + lam * b.mean(0), atol=5e-3, rtol=0)
        assert between.std(0).mean() < 0.9 * goal_std.mean(), "without REPAIR the variance collapses"


def test_curve_with_repair_evaluates_the_rescaled_networks():
    module, A, B, x, y = case("convolutional")
    lambdas = [0.0, 0.5, 1.0]
    plain = curve(module, A, B, lambdas, x, y, "classification", statistics_x=x)
    repaired = curve(module, A, B, lambdas, x, y, "classification", statistics_x=x, repair=True)
    assert repaired["loss"][[0, 2]].tolist() == pytest.approx(plain["loss"][[0, 2]].tolist(), rel=5e-3)
    rescaling, ends = with_goal_statistics(module, [A, B], x)
    state = interpolate(*ends, 0.5)
    logits = outputs(rescaling, {**state, **running_statistics(rescaling, state, x)}, x)
    assert repaired["loss"][1] == pytest.approx(float(functional.cross_entropy(logits, y)), rel=1e-5)
    assert repaired["loss"][1] != pytest.approx(plain["loss"][1], rel=1e-3)


def test_inputs_are_needed():
    module, A, B, x, _ = case("mlp")
    with pytest.raises(UserError, match="empty"):
        with_goal_statistics(module, [A, B], x[:0])
