"""The least error of random features for a single neuron, against samples and cases that are known."""

import math

import numpy as np
import pytest

from symlab.papers.neuron_identifiability.hardness import least_errors
from symlab.papers.neuron_identifiability.settings import Hardness
from symlab.seeds import numpy_rng


def unit_rows(m, d, seed=0):
    F = np.random.default_rng(seed).standard_normal((m, d))
    return F / np.linalg.norm(F, axis=1, keepdims=True)


def test_the_norm_of_a_neuron_without_bias_is_that_of_half_a_gaussian():
    ((norm, _),) = least_errors(unit_rows(3, 5), [0.0])
    assert norm == pytest.approx(math.sqrt(0.5))


def test_a_feature_along_the_neuron_does_all_of_it():
    F = unit_rows(3, 5)
    F[1] = [1 - 1e-13, *[math.sqrt(2e-13 / 4)] * 4]
    (_, unbiased), (_, biased) = least_errors(F, [0.0, 1.0])
    assert unbiased < 1e-4
    assert biased > 0.1


@pytest.mark.parametrize("bias", [-1.0, 0.5])
def test_the_error_is_that_of_least_squares_on_many_samples(bias):
    F = unit_rows(6, 4)
    x = np.random.default_rng(1).standard_normal((400_000, 4))
    features, target = np.maximum(x @ F.T, 0), np.maximum(x[:, 0] + bias, 0)
    rest = target - features @ np.linalg.lstsq(features, target, rcond=None)[0]
    ((norm, error),) = least_errors(F, [bias])
    assert error == pytest.approx(math.sqrt(np.mean(rest**2)), rel=0.01)
    assert norm == pytest.approx(math.sqrt(np.mean(target**2)), rel=0.01)


def test_rows_are_in_the_unit_of_the_weights_of_norm_d_squared(experiment):
    """Of one feature at the angle t to the neuron: |error|^2 = 1/2 - 2 k^2, k = (sin t + (pi - t) cos t) / (2 pi)."""
    settings = Hardness(d=[41, 60], widths=[1], biases=[-1.0, 0.0], draws=2)
    rows = experiment("hardness", settings)["hardness.csv"].set_index(["d", "m", "draw", "bias"])
    assert len(rows) == 8
    for d in (41, 60):
        f = numpy_rng("study", "hardness", d, 1, 1).standard_normal(d)
        t = math.acos(f[0] / np.linalg.norm(f))
        k = (math.sin(t) + (math.pi - t) * math.cos(t)) / (2 * math.pi)
        found = rows.loc[d, 1, 1, 0.0]
        assert tuple(found) == pytest.approx((d**2 * math.sqrt(0.5), d**2 * math.sqrt(0.5 - 2 * k**2)))
        # E relu(x - 1)^2 = 2 P(x > 1) - p(1).
        assert rows.loc[d, 1, 1, -1.0]["norm"] == pytest.approx(d**2 * math.sqrt(2 * 0.158655254 - 0.241970725))
