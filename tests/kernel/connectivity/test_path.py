import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from torch import nn

from symlab.alignment.forward import batch_rows, outputs
from symlab.connectivity.norm_statistics import running_statistics
from symlab.connectivity.path import curve, interpolate
from symlab.errors import UserError
from symlab.networks import MLP, CoherenceStudent, build

from ..symmetries.nets import random_state

LAMBDAS = [0.0, 0.3, 0.5, 1.0]


def two_states(module):
    return [random_state(module, seed) for seed in range(2)]


def data(n=300, d=6, classes=4):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, d, generator=generator), torch.randint(classes, (n,), generator=generator)


def test_interpolation_is_exact_at_its_ends_and_linear_between():
    module = build(MLP(name="mlp", widths=[5, 5], norm="batchnorm"), 6, 4)
    state_A, state_B = two_states(module)
    for lam, end in ((0.0, state_A), (1.0, state_B)):
        assert all(torch.equal(tensor, end[name]) for name, tensor in interpolate(state_A, state_B, lam).items())
    between = interpolate(state_A, state_B, 0.3)
    for name, a in state_A.items():
        if a.is_floating_point():
            expected = 0.7 * a.double() + 0.3 * state_B[name].double()
            torch.testing.assert_close(between[name].double(), expected, atol=1e-6, rtol=0)
    assert between["norms.0.num_batches_tracked"].dtype == torch.int64


def test_interpolation_refuses_networks_of_different_shapes():
    states = [build(MLP(name="mlp", widths=[width]), 6, 4).state_dict() for width in (5, 6)]
    with pytest.raises(UserError, match="different shapes"):
        interpolate(*states, 0.5)


class Skip(nn.Module):
    """Its input goes into two linear layers and around them, and one of its layers runs twice."""

    def __init__(self):
        super().__init__()
        self.later, self.left, self.right = nn.Linear(6, 4), nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        h = torch.relu(self.left(x)) * self.right(x) + x
        return self.later(h + 0.1 * functional.pad(self.later(x), (0, 2)))


@pytest.mark.parametrize(
    "module",
    [
        build(MLP(name="mlp", widths=[8, 7]), 6, 4),
        build(MLP(name="mlp", widths=[8], norm="none", activation="sigma"), 6, 4),
        Skip(),
        nn.Sequential(nn.Linear(6, 5, bias=False), nn.ReLU(), nn.Linear(5, 4)),
        nn.Sequential(nn.Tanh(), nn.Linear(6, 4)),
        nn.Linear(6, 4),
    ],
    ids=["mlp", "sigma", "skip", "no bias", "nothing linear on the input", "linear"],
)
@pytest.mark.parametrize("batch_size", [64, 1000])
def test_curve_equals_evaluating_every_interpolated_network(module, batch_size):
    state_A, state_B = two_states(module)
    x, y = data()
    table = curve(module, state_A, state_B, LAMBDAS, x, y, "classification", batch_size)
    assert table["lambda"].tolist() == LAMBDAS
    for lam, row in zip(LAMBDAS, table.itertuples(), strict=True):
        logits = outputs(module, interpolate(state_A, state_B, lam), x)
        assert row.loss == pytest.approx(float(functional.cross_entropy(logits, y)), rel=1e-5)
        assert row.accuracy == pytest.approx(float((logits.argmax(-1) == y).double().mean()))


def test_a_curve_is_evaluated_in_passes_of_the_size_asked_for():
    module, (x, y), rows = build(MLP(name="mlp", widths=[5]), 6, 4), data(), []
    module.register_forward_hook(lambda _, given, __: rows.append(len(given[0])))
    curve(module, *two_states(module), [0.5], x, y, "classification", 128)
    assert rows[-3:] == [128, 128, 44]


@pytest.mark.parametrize("batch_size", [64, 1000])
def test_chord_is_the_distance_of_the_outputs_from_the_line_between_those_of_the_ends(batch_size):
    module = build(MLP(name="mlp", widths=[8, 7]), 6, 4)
    state_A, state_B = two_states(module)
    x, y = data()
    table = curve(module, state_A, state_B, LAMBDAS, x, y, "classification", batch_size)
    out_A, out_B = (outputs(module, state, x).double().numpy() for state in (state_A, state_B))
    for lam, chord in zip(LAMBDAS, table["chord"], strict=True):
        out = outputs(module, interpolate(state_A, state_B, lam), x).double().numpy()
        xi = out - ((1 - lam) * out_A + lam * out_B)
        assert chord == pytest.approx(np.sqrt(np.mean(np.sum(xi**2, axis=1))), rel=1e-5, abs=1e-6)
    assert table["chord"].iloc[0] == table["chord"].iloc[-1] == 0
    assert table["chord"].iloc[1:-1].min() > 0.01
    assert curve(module, state_A, state_B, [0.0, 0.5], x, y, "classification")["chord"].isna().all()


def test_regression_has_a_mean_squared_error_and_no_accuracy():
    module = build(CoherenceStudent(name="coherence_student", width=9), 6, 1)
    state_A, state_B = two_states(module)
    x, _ = data()
    y = torch.randn(len(x), generator=torch.Generator().manual_seed(2))
    table = curve(module, state_A, state_B, LAMBDAS, x, y, "regression", batch_size=100)
    for lam, row in zip(LAMBDAS, table.itertuples(), strict=True):
        error = outputs(module, interpolate(state_A, state_B, lam), x)[:, 0] - y
        assert row.loss == pytest.approx(float(error.square().mean()), rel=1e-5)
        assert np.isnan(row.accuracy)


class Scaled(nn.Module):
    """A mean and the logarithm of a scale: a loss of one's own reads both."""

    def __init__(self):
        super().__init__()
        self.mean, self.log_scale = nn.Linear(6, 1), nn.Linear(6, 1)

    def forward(self, x):
        return {"logits": self.mean(x), "log_scale": self.log_scale(x)}


def test_a_loss_of_ones_own_is_given_all_of_the_output():
    def likelihood(output, y):
        return (
            output["log_scale"][:, 0] + (output["logits"][:, 0] - y).square() * (-2 * output["log_scale"][:, 0]).exp()
        )

    (state_A, state_B), (x, _) = two_states(Scaled()), data()
    y = x[:, 0]
    found = curve(Scaled(), state_A, state_B, [0, 0.5, 1], x, y, likelihood, batch_size=70)
    for lam, loss in zip(found["lambda"], found["loss"], strict=True):
        weight = {name: torch.lerp(state_A[name], state_B[name], lam) for name in state_A}
        mean, log_scale = (x @ weight[f"{name}.weight"][0] + weight[f"{name}.bias"] for name in ("mean", "log_scale"))
        assert loss == pytest.approx(float((log_scale + ((mean - y) / log_scale.exp()) ** 2).mean()), rel=1e-5)
    assert found["accuracy"].isna().all()


@pytest.mark.parametrize("repair", [False, True])
def test_curve_leaves_the_module_and_the_states_alone(repair):
    module = build(MLP(name="mlp", widths=[8], norm="batchnorm"), 6, 4)
    states = two_states(module)
    copies = [{name: tensor.clone() for name, tensor in state.items()} for state in (*states, module.state_dict())]
    x, y = data()
    curve(module, *states, LAMBDAS, x, y, "classification", statistics_x=x, repair=repair)
    assert module.training
    assert all(norm.momentum == 0.1 for norm in module.norms)
    for state, copy in zip((*states, module.state_dict()), copies, strict=True):
        assert state.keys() == copy.keys() and all(torch.equal(state[name], tensor) for name, tensor in copy.items())


def test_running_statistics_of_the_first_layer_in_closed_form_even_on_sorted_inputs():
    module = build(MLP(name="mlp", widths=[3], norm="batchnorm"), 1, 2)
    state = two_states(module)[0]
    x = torch.linspace(-2, 2, 4000)[:, None]
    found = running_statistics(module, state, x)
    h = functional.linear(x, state["linears.0.weight"], state["linears.0.bias"])
    torch.testing.assert_close(found["norms.0.running_mean"], h.mean(0), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found["norms.0.running_var"], h.var(0), atol=1e-4, rtol=5e-3)
    assert int(found["norms.0.num_batches_tracked"]) == 3
    assert running_statistics(build(MLP(name="mlp", widths=[3]), 1, 2), {}, None) == {}


class SmallConvolutional(nn.Module):
    """Two convolutions with batch norm on flat images of 2 x 6 x 6."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(2, 5, 3, padding=1), nn.BatchNorm2d(5)
        self.conv2, self.norm2 = nn.Conv2d(5, 6, 3, stride=2, bias=False), nn.BatchNorm2d(6)
        self.readout = nn.Linear(6, 4)

    def forward(self, x):
        x = torch.relu(self.norm1(self.conv1(x.unflatten(1, (2, 6, 6)))))
        return self.readout(torch.relu(self.norm2(self.conv2(x))).mean(dim=(2, 3)))


@pytest.mark.parametrize("batch_size", [64, None])
@pytest.mark.parametrize(
    ("make", "d"),
    [(SmallConvolutional, 72), (lambda: build(MLP(name="mlp", widths=[8, 7], norm="batchnorm"), 6, 4), 6)],
    ids=["convolutions", "mlp"],
)
def test_batchnorm_statistics_are_those_of_the_interpolated_network(make, d, batch_size):
    module = make()
    state_A, state_B = two_states(module)
    x, y = data(d=d)
    table = curve(module, state_A, state_B, LAMBDAS, x, y, "classification", batch_size, statistics_x=x)
    for lam, row in zip(LAMBDAS, table.itertuples(), strict=True):
        reference = make()
        reference.load_state_dict(interpolate(state_A, state_B, lam))
        for norm in reference.modules():
            # The running statistics become those of the only batch.
            norm.momentum = 1.0
        with torch.no_grad():
            reference(x)
            logits = reference.eval()(x)
        assert row.loss == pytest.approx(float(functional.cross_entropy(logits, y)), rel=1e-5)
        assert row.accuracy == pytest.approx(float((logits.argmax(-1) == y).double().mean()))


class Tagger(nn.Module):
    """Logits of 4 classes at each of 3 tokens."""

    def __init__(self):
        super().__init__()
        self.hidden, self.readout = nn.Linear(2, 5), nn.Linear(5, 4)

    def forward(self, x):
        return self.readout(torch.tanh(self.hidden(x.unflatten(1, (3, 2)))))


def test_ignored_tokens_count_neither_in_the_loss_nor_in_the_accuracy():
    module = Tagger()
    states = two_states(module)
    x, _ = data(n=50)
    generator = torch.Generator().manual_seed(3)
    y = torch.randint(4, (50, 3), generator=generator)
    # Most tokens of some batches, few of others.
    y[torch.rand(50, 3, generator=generator) < torch.linspace(0, 0.9, 50)[:, None]] = -100
    table = curve(module, *states, [0.0, 1.0], x, y, "classification", batch_size=16)
    for state, row in zip(states, table.itertuples(), strict=True):
        logits = outputs(module, state, x).double()
        losses, right = [], []
        for i, token in (y != -100).nonzero().tolist():
            at = logits[i, token]
            losses.append(float(at.logsumexp(0) - at[y[i, token]]))
            right.append(int(at.argmax()) == int(y[i, token]))
        assert row.loss == pytest.approx(np.mean(losses), rel=1e-5)
        assert row.accuracy == pytest.approx(np.mean(right))


def test_rows_of_a_batch_fall_with_the_size_of_an_input():
    rows = [batch_rows(torch.zeros(1, d)) for d in (1, 784, 1024, 2048, 3072, 12288, 10**7)]
    assert rows == [1024, 1024, 1024, 48, 32, 16, 16]


def test_a_diverged_network_has_no_accuracy():
    module = build(MLP(name="mlp", widths=[5]), 6, 4)
    state_A, state_B = two_states(module)
    state_B["linears.1.bias"] = torch.full((4,), torch.nan)
    x, y = data()
    table = curve(module, state_A, state_B, [0.5, 1.0], x, torch.zeros_like(y), "classification")
    assert table["loss"].isna().all() and table["accuracy"].isna().all()


def test_settings_that_do_not_fit_are_refused():
    x, y = data()
    module = build(MLP(name="mlp", widths=[5], norm="batchnorm"), 6, 4)
    states = two_states(module)
    for repair in (False, True):
        with pytest.raises(UserError, match="statistics_x"):
            curve(module, *states, LAMBDAS, x, y, "classification", repair=repair)
    with pytest.raises(UserError, match="ranking"):
        curve(module, *states, LAMBDAS, x, y, "ranking", statistics_x=x)
    with pytest.raises(UserError, match="as many targets"):
        curve(module, *states, LAMBDAS, x, y[:-1], "classification", statistics_x=x)
    with pytest.raises(UserError, match="as many outputs"):
        curve(module, *states, LAMBDAS, x, y.float(), "regression", statistics_x=x)
