"""What one neuron gains near a dead branch: against brute force, and against the loss of a network that has it."""

import numpy as np
import pytest
import torch
from torch.func import functional_call

from symlab.data import Digits, load
from symlab.measures.job import Job
from symlab.networks.layernorm_resnet import LayerNormResNet, normalise
from symlab.papers.neural_collapse import critical_penalty
from symlab.papers.neural_collapse.critical_penalty import best_neuron, next_to_nothing, stream_and_gradient, weights_of
from symlab.papers.neural_collapse.networks import with_zeros
from symlab.papers.neural_collapse.samples import Samples
from symlab.papers.neural_collapse.settings import CriticalPenalty
from symlab.papers.neural_collapse.trained_runs import Descent
from symlab.training.on_samples import TrainingData


def test_the_best_neuron_is_that_of_a_grid():
    generator = torch.Generator().manual_seed(0)
    Z, g = torch.randn(30, 2, generator=generator).double(), torch.randn(30, 4, generator=generator).double()
    g -= g.mean(0)
    angles, betas = np.linspace(0, 2 * np.pi, 721), np.linspace(-4, 4, 401)
    v = np.c_[np.cos(angles), np.sin(angles)]
    active = np.maximum(v @ Z.numpy().T + betas[:, None, None], 0)
    grid = np.linalg.norm(active @ g.numpy(), axis=-1).max()
    found = best_neuron(Z, g, 50, torch.Generator().manual_seed(1))
    assert grid * 0.9999 < found.gain < grid * 1.02
    # Where it says that it is.
    at = (Z @ found.v + found.beta).clamp_min(0) @ g
    torch.testing.assert_close(at, -found.gain * found.a)


def without_branches(iterations, steps=300):
    """A network without branches on random points, and these."""
    n, K = 40, 3
    generator = torch.Generator().manual_seed(2)
    x, y = torch.randn(n, 5, generator=generator), torch.arange(n) % K
    data = TrainingData(x, y, x[:0], y[:0], "classification")
    descent = Descent(lambda: with_zeros(LayerNormResNet(5, K, 6, 2, 2)), data, (0.0, 0.01), ("s", "v"), steps,
                      iterations, 0.02, 1)  # fmt: skip
    state, _ = descent.run(Job("s"))
    return {name: tensor[0] for name, tensor in state.items()}, Samples(x, y, x, y, K)


def test_a_neuron_changes_the_loss_by_its_gain():
    """The derivative of the whole network's fit along a W_2, W_1 of one neuron is minus |sum_i g_i relu(v.x_i)|."""
    without, samples = without_branches(500)
    neuron = best_neuron(*stream_and_gradient(without, samples), 20, torch.Generator().manual_seed(0), steps=300)
    network = LayerNormResNet(5, 3, 6, 2, 2).double()
    like = {name: tensor.detach() for name, tensor in network.named_parameters()}

    def fit(scale):
        state = {n: t[0] for n, t in next_to_nothing(without, like, neuron).items()}
        small = {n: scale * t if n in ("blocks.0.0.weight", "blocks.0.0.bias") else t for n, t in state.items()}
        outputs = functional_call(network, small, (samples.x.double(),))
        return torch.nn.functional.cross_entropy(outputs, samples.y)

    # Both vectors of the neuron have norm 0.05, of which the first is scaled. What is centred gains nothing more where
    # the shift is at its optimum; training ends a little before.
    Z, g = stream_and_gradient(without, samples)
    activity = (Z @ neuron.v + neuron.beta).clamp_min(0)
    torch.testing.assert_close(-(activity @ g @ neuron.a), torch.tensor(neuron.gain).double())
    shift = without["blocks.0.1.bias"].clone().requires_grad_()
    out = normalise(Z + shift) @ without["readout.weight"].T + without["readout.bias"]
    (left,) = torch.autograd.grad(torch.nn.functional.cross_entropy(out, samples.y), shift)
    gained = (fit(0.0) - fit(1e-4)) / (1e-4 * 0.05**2)
    expected = neuron.gain - activity.mean() * (left @ neuron.a)
    assert abs(gained / expected - 1) < 1e-3


def test_gradients_are_centred_before_training_has_made_them_so():
    without, samples = without_branches(1, steps=3)
    _, g = stream_and_gradient(without, samples)
    assert g.abs().max() > 1e-3
    torch.testing.assert_close(g.sum(0), torch.zeros(6).double(), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_new_branches_are_born_below_what_is_predicted_and_living_ones_hold_out(experiment):
    """On few digits; every penalty begins with the networks of the least one."""
    settings = CriticalPenalty(per_class=6, width=16, L=[2], last_penalty=[0.005], effort=100, halvings=2, seeds=2)
    job = Job("s", datasets={"digits": load(Digits(source="digits"), None)})
    table = experiment("neural_collapse.critical_penalty", settings, job)["critical_penalty.csv"]
    assert len(table) == 2 and (table["weights"] > 0.1).all()
    assert ((table["born"] / table["predicted"]).between(0.5, 2)).all()
    assert (table["dies"] >= table["born"]).all()
    np.testing.assert_allclose(table["step"] ** 2**2, 16)


def test_networks_of_each_depth_start_from_weights_of_their_own(experiment, monkeypatch):
    """Else what two depths have in common were no evidence of either."""
    begun = []

    def watched(descent, job, start, hidden):
        begun.append(start)
        return start, weights_of(start)

    monkeypatch.setattr(critical_penalty, "minimise_branches", watched)
    settings = CriticalPenalty(per_class=3, width=8, L=[2, 3], last_penalty=[0.005], steps=2, effort=10, halvings=1,
                               starts=5, seeds=2)  # fmt: skip
    job = Job("s", datasets={"digits": load(Digits(source="digits"), None)})
    experiment("neural_collapse.critical_penalty", settings, job)
    # Of a seed and depth the living network comes before one next to nothing, and before both again in the bisection.
    lives = [bool(start["blocks.0.0.weight"].abs().min() > 0) for start in begun]
    first = [start["embedding.weight"].double().numpy().tobytes() for start in begun]
    assert len({weight for weight, alive in zip(first, lives, strict=True) if alive}) == 4
    # What is next to nothing begins at a network without branches, which each seed has one of.
    assert len({weight for weight, alive in zip(first, lives, strict=True) if not alive}) == 2


def test_a_blocks_weights_are_the_mean_over_blocks_without_biases():
    """Squared norms 4 + 9 and 1 + 2, of two blocks."""
    state = {
        "embed.weight": torch.full((1, 3, 3), 7.0),
        "blocks.0.0.weight": torch.full((1, 2, 2), 1.0),
        "blocks.0.0.bias": torch.full((1, 2), 5.0),
        "blocks.0.1.weight": torch.full((1, 1, 1), 3.0),
        "blocks.1.0.weight": torch.full((1, 1, 1), 1.0),
        "blocks.1.1.weight": torch.full((1, 1, 2), 1.0),
    }
    assert weights_of(state) == pytest.approx((4 + 9 + 1 + 2) / 2)
