"""When an exponent is known, on series of growth, and when there is none to tell of."""

import numpy as np
import pytest
import torch
from torch import nn

from symlab import SGD, UserError, mirrors
from symlab.own.mirrors import is_known, mean_growth


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("noise", [0.1, 0.2, 0.5, 1.5])
def test_an_exponent_said_to_be_known_is_wrong_by_a_tenth_in_at_most_a_twentieth_of_series(alike, noise):
    """Growth of mean 1 with noise that is alike from step to step, as by momentum (0.8 on digits at 0.9)."""
    rng, n = np.random.default_rng(0), 500
    drawn = rng.standard_normal((300, n))
    steps = [drawn[0]]
    for fresh in drawn[1:]:
        steps.append(alike * steps[-1] + (1 - alike**2) ** 0.5 * fresh)
    series = 1 + noise * np.array(steps).T
    known = [next((grown[:end] for end in range(120, 301, 30) if is_known(grown[:end])), None) for grown in series]
    wrong = sum(abs(mean_growth(grown)[0] - 1) > 0.1 for grown in known if grown is not None)
    assert wrong / n <= 0.05
    if noise == 0.1:
        assert sum(grown is not None for grown in known) / n > 0.9
    # Of those that never are, the error that is told is that of the mean.
    scores = [(mean - 1) / error for mean, error in map(mean_growth, series)]
    assert np.mean(np.abs(scores) < 3) > 0.9


def test_one_look_at_a_small_error_is_not_enough():
    """Noise in the steps from 30 to 40 counts at 90, where a third is left out, and at 120 not any more."""
    grown = np.ones(150)
    grown[30:40] = 5
    assert mean_growth(grown[:90])[1] > 0.1 and mean_growth(grown[:120]) == (1, 0)
    assert not is_known(grown[:120]) and is_known(grown)


@pytest.fixture
def learned():
    """Four neurons, of which two never fire, that give y = x of four samples but for a tenth; with the samples."""
    network = nn.Sequential(nn.Linear(1, 4), nn.ReLU(), nn.Linear(4, 1)).double()
    x = torch.tensor([[-1.0], [-0.5], [0.5], [1.0]], dtype=torch.float64)
    with torch.no_grad():
        network[0].weight[:, 0], network[0].bias[:] = torch.tensor([[1.0, -1, 1, 1], [0, 0, -3, -4]])
        network[2].weight[0], network[2].bias[:] = torch.tensor([0.9, -0.9, 1, 1]), 0
    return network, (x, x.clone())


def test_neurons_that_never_fire_stay_as_far_apart_as_they_are(learned):
    network, data = learned
    told = mirrors(network, None, data, training=SGD(0.01, batch=4), pairs=6, task="regression")
    dead = told.pairs.set_index(["a", "b"]).loc[(2, 3)]
    assert (dead["exponent"], dead["curvature"], dead["steps"]) == (0, 0, np.inf) and not dead["merges"]
    assert "the closest, 2 and 3, is" in str(told) and "apart, which stays so" in str(told)


def test_a_rate_at_which_training_undoes_what_a_network_has_learned_is_refused(learned):
    """At 100 a step throws its neurons so far that none fires any more: nothing then diverges, and nothing is left."""
    network, data = learned
    with pytest.raises(UserError, match=r"undoes what it has learned: its loss goes from .* to .*; give a lower rate"):
        mirrors(network, None, data, training=SGD(3.0, batch=4), task="regression")


def test_a_network_that_training_makes_worse_but_no_constant_is_followed(learned):
    """With decay a slope goes from 0.9 to 1 - 0.2 / 0.625, the loss from 0.006 to 0.064; a constant's is 0.625."""
    network, data = learned
    told = mirrors(network, None, data, training=SGD(0.1, 0.2, batch=4), pairs=1, task="regression")
    assert told.pairs["exponent"].item() == pytest.approx(np.log(1 - 0.1 * 0.2), rel=1e-6)
