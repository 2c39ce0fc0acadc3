"""Descents in the plane: what is exact on a mirror, and how fast they leave it where they start beside it."""

import numpy as np
import pytest

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.lines import LOSSES, descend_along_mirrors
from symlab.papers.mirror_symmetry.settings import Lines


@pytest.fixture(scope="module")
def rows():
    return descend_along_mirrors(Lines(steps=200), Job("study"))["mirror_lines.csv"]


def test_on_the_mirrors_of_the_product_not_a_bit_is_off(rows):
    on = rows[(rows["loss_of"] == "rescaling") & (rows["offset"] == 0)]
    assert (on["u"].abs() == on["w"].abs()).all()


def test_a_start_beside_an_unstable_mirror_leaves_at_the_rate_of_the_hessian(rows):
    """At 0 the Hessian of (wu - 1)^2 is -2 along u = w, so the distance grows by 1 + 2 lr a step."""
    beside = rows[(rows["mirror"] == "u = -w") & (rows["offset"] > 0) & (rows["radius"] == 0.3)].set_index("step")[
        "off"
    ]
    assert beside[70] / beside[60] == pytest.approx(1.1**10, rel=1e-3)


def test_gradients_are_those_of_the_losses():
    u, w = np.random.default_rng(0).normal(size=(2, 50))
    for loss, gradient in LOSSES.values():
        for part, (du, dw) in zip(gradient(u, w), ((1e-6, 0), (0, 1e-6)), strict=True):
            assert part == pytest.approx((loss(u + du, w + dw) - loss(u - du, w - dw)) / 2e-6, abs=1e-7)
