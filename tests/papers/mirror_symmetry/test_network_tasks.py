"""Networks on tasks: steps against torch, and planted dead parameters."""

import numpy as np
import pytest
import torch

from symlab.papers.mirror_symmetry.settings import NetworkTasks
from symlab.papers.mirror_symmetry.small.network_tasks import VARIANTS, Networks
from symlab.papers.mirror_symmetry.small.plasticity import BIAS, DECAY, HADAMARD, NOISE, SKIP, SYRE, VANILLA

SMALL = NetworkTasks(width=5, samples=12, tasks=2, steps=3, batch=4, seeds=1)


@pytest.fixture
def networks():
    return Networks(SMALL, 6, 3, torch.Generator().manual_seed(0))


@pytest.fixture
def samples():
    drawn = torch.Generator().manual_seed(1)
    return torch.randn(12, 6, generator=drawn), torch.randint(3, (12,), generator=drawn)


def test_all_variants_but_those_with_a_bias_start_as_the_same_function(networks, samples):
    logits = dict(zip(VARIANTS, networks.logits(samples[0]), strict=True))
    for name, each in logits.items():
        assert torch.allclose(each, logits[VANILLA], atol=1e-5) == (name not in (BIAS, SYRE))


@pytest.mark.parametrize("name", [VANILLA, HADAMARD, BIAS, DECAY, SYRE, SKIP])
def test_steps_are_those_of_torch(networks, samples, name):
    x, y = samples
    place = VARIANTS.index(name)
    own = [each[:, place].detach().clone().requires_grad_() for each in networks.parameters]
    bias = [each[:, place] for each in networks.bias]
    decay = 2e-3 if name in (DECAY, SYRE) else 0.0
    optimizer = torch.optim.Adam(own, lr=1e-3, betas=(0.0, 0.999), weight_decay=decay)
    has = networks.has[:, place]
    rows = np.array([[0, 1, 2, 3], [3, 4, 5, 6], [11, 0, 11, 2]])
    for batch in torch.from_numpy(rows):
        W, b, V, c = ((p[0] + q[0]) * (p[1] + q[1]) + p[2] for p, q in zip(own, bias, strict=True))
        loss = torch.nn.functional.cross_entropy((x[batch] @ W.T + b).relu() @ V.T + c, y[batch])
        optimizer.zero_grad()
        loss.backward()
        for each in own:
            each.grad *= has.view(3, *[1] * (each.dim() - 1))
        optimizer.step()
    networks.learn(x, y, rows, torch.Generator().manual_seed(2))
    for mine, theirs in zip(networks.parameters, own, strict=True):
        torch.testing.assert_close(mine[:, place], theirs, rtol=1e-4, atol=1e-6)


def test_parameters_at_the_mirrors_crossing_are_dead_for_ever(networks, samples):
    """Those that lead to the first neuron and, its output being 0, those that lead on from it: 10 of 53."""
    place = VARIANTS.index(HADAMARD)
    with torch.no_grad():
        for each in networks.parameters[:2]:
            each[:2, place, 0] = 0
    assert networks.dead(*samples)[place] == pytest.approx(10 / 53, abs=1e-6)
    networks.learn(*samples, np.zeros((5, 4), dtype=int), torch.Generator().manual_seed(2))
    assert not any(each[:2, place, 0].any() for each in networks.parameters[:2])


def test_noise_moves_what_is_dead_and_nothing_else(networks, samples):
    before = [each.detach().clone() for each in networks.parameters]
    networks.learn(torch.zeros_like(samples[0]), samples[1], np.zeros((1, 4), dtype=int), torch.Generator())
    moved = networks.parameters[0].detach() != before[0]
    # Weights of black pixels have no gradient: of these noise moves u and w, and decay those that it is for.
    assert moved[:2, VARIANTS.index(NOISE)].all() and not moved[2, VARIANTS.index(NOISE)].any()
    still = [VARIANTS.index(name) for name in (VANILLA, HADAMARD, BIAS, SKIP)]
    assert not moved[:, still].any()
