"""What one neuron gains near a dead branch: against brute force, and against the loss of a network that has it."""

import numpy as np
import torch
from torch.func import functional_call

from symlab.networks.layernorm_resnet import LayerNormResNet
from symlab.papers.neural_collapse.critical_penalty import best_neuron, train_without_branches
from symlab.papers.neural_collapse.settings import CriticalPenalty


def test_the_best_neuron_is_that_of_a_grid():
    generator = torch.Generator().manual_seed(0)
    Z, g = torch.randn(30, 2, generator=generator).double(), torch.randn(30, 4, generator=generator).double()
    g -= g.mean(0)
    angles, betas = np.linspace(0, 2 * np.pi, 721), np.linspace(-4, 4, 401)
    v = np.c_[np.cos(angles), np.sin(angles)]
    active = np.maximum(v @ Z.numpy().T + betas[:, None, None], 0)
    grid = np.linalg.norm(active @ g.numpy(), axis=-1).max()
    found = best_neuron(Z, g, 50, torch.Generator().manual_seed(1))
    assert grid * 0.9999 < found < grid * 1.02


def test_a_neuron_changes_the_loss_by_its_gain():
    """The derivative of the whole network's fit along a W_2, W_1 of one neuron is minus |sum_i g_i relu(v.x_i)|."""
    n, K = 40, 3
    generator = torch.Generator().manual_seed(2)
    x, y = torch.randn(n, 5, generator=generator).double(), torch.arange(n) % K
    settings = CriticalPenalty(per_class=3, width=6, steps=2000, lr=0.02)
    Z, g, _, trained = train_without_branches(x, y, K, settings, 0.01, torch.Generator().manual_seed(3))
    network = LayerNormResNet(5, K, 6, 2, 2).double()
    v = torch.randn(6, generator=generator).double()
    v /= v.norm()
    total = (g.T @ (Z @ v).clamp_min(0)).detach()
    a = -total / total.norm()
    step = 1e-5
    W_1, W_2 = torch.zeros(6, 6).double(), torch.zeros(6, 6).double()
    W_1[0], W_2[:, 0] = step**0.5 * v, step**0.5 * a

    def fit(W_1, W_2):
        branch = {
            "blocks.0.0.weight": W_1,
            "blocks.0.0.bias": torch.zeros(6).double(),
            "blocks.0.1.weight": W_2,
        }
        return torch.nn.functional.cross_entropy(functional_call(network, trained | branch, (x,)), y)

    gained = (fit(torch.zeros_like(W_1), W_2) - fit(W_1, W_2)) / step
    # Training has all but ended, so that the gradients that are centred summed to nearly 0 before.
    torch.testing.assert_close(gained, total.norm(), rtol=0.05, atol=1e-6)


def test_gradients_are_centred_before_training_has_made_them_so():
    generator = torch.Generator().manual_seed(4)
    x, y = torch.randn(40, 5, generator=generator).double(), torch.arange(40) % 3
    settings = CriticalPenalty(per_class=3, width=6, steps=3, lr=0.02)
    g = train_without_branches(x, y, 3, settings, 0.01, torch.Generator().manual_seed(5)).g
    assert g.abs().max() > 1e-3
    torch.testing.assert_close(g.sum(0), torch.zeros(6).double(), rtol=0, atol=1e-12)
