"""Following gradient flow by arc length, against closed forms."""

import itertools
import math

import pytest
import torch

from symlab.training.flow import follow_flow, norm_of


def product(W):
    """The loss -a b c, of degree 3, whose flow from a = b = c is dx/dt = x^2."""
    a, b, c = W
    return [-b * c, -a * c, -a * b], float(a * b * c)


def equal(value):
    return [torch.full((1, 1), value, dtype=torch.float64) for _ in range(3)]


@pytest.mark.parametrize(("heun", "error"), [(True, 2e-3), (False, 2e-2)])
def test_time_and_place_are_those_of_the_flow(heun, error):
    """x(t) = x_0 / (1 - x_0 t): from 0.001 to 1 it takes 999."""
    for place in follow_flow(equal(1e-3), product, 0.03, heun=heun):
        if float(place.W[0]) >= 1:
            break
    x = float(place.W[0])
    assert place.clock == pytest.approx(1e3 - 1 / x, rel=error)
    assert place.gradients < 1000 and float(place.moved[0]) == pytest.approx(x - 1e-3)
    assert place.slope == pytest.approx(math.sqrt(3) * x**2) and place.seen == pytest.approx(x**3)


def test_the_clock_counts_the_steps_of_a_rate_over_a_power_of_the_norm():
    lr = 1e-3
    x, steps = 0.01, 0
    while x < 0.5:
        x, steps = x + lr / (math.sqrt(3) * x) * x**2, steps + 1
    place = next(each for each in follow_flow(equal(0.01), product, 0.03, power=1) if float(each.W[0]) >= 0.5)
    assert place.clock / lr == pytest.approx(steps, rel=0.02)


def test_half_the_step_errs_by_an_eighth_and_the_path_does_not_depend_on_the_scale_of_the_loss():
    def quadratic(W, factor=1.0):
        (w,) = W
        return [factor * torch.stack([w[0] * 2 - 1, w[1] - 1])], None

    start = [torch.tensor([0.3, 0.2], dtype=torch.float64)]

    def end(h, factor=1.0):
        way = follow_flow(start, lambda W: quadratic(W, factor), h)
        # The flow: w_0 = 1/2 - 0.2 u^2, w_1 = 1 - 0.8 u with u = exp(-t).
        place = next(each for each in way if float(each.W[0][1]) > 0.6)
        u = (1 - float(place.W[0][1])) / 0.8
        return place, abs(float(place.W[0][0]) - 0.5 + 0.2 * u**2)

    (_, coarse), (place, fine) = end(0.04), end(0.02)
    assert fine < coarse / 3
    torch.testing.assert_close(end(0.02, 1e-9)[0].W[0], place.W[0])


def test_no_step_is_shorter_than_that_of_the_rate():
    """Over |x| the gradient turns back at the kink however short a step is."""

    def valley(W):
        (w,) = W
        return [torch.stack([w[0].sign(), torch.full((), -0.1, dtype=w.dtype)])], None

    start = [torch.tensor([0.05, 1.0], dtype=torch.float64)]
    shortest = {}
    for rate in (0.0, 0.01):
        places = list(itertools.islice(follow_flow(start, valley, 0.03, heun=False, rate=rate), 100))
        steps = [float((after.W[0] - before.W[0]).norm()) for before, after in itertools.pairwise(places[20:])]
        shortest[rate] = min(steps)
        assert all(after > 0.49 * before for before, after in itertools.pairwise(steps))
    assert shortest[0.01] > 0.999 * 0.01 * math.hypot(1, 0.1) > 10 * shortest[0.0]


def test_norms_of_tiny_gradients_do_not_vanish():
    assert norm_of([torch.full((2, 2), 1e-30)]) == pytest.approx(2e-30)


def test_no_direction_is_followed_where_there_is_none():
    with pytest.raises(FloatingPointError, match="no direction"):
        list(itertools.islice(follow_flow(equal(0.0), product, 0.03), 2))
