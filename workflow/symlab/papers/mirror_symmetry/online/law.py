"""How fast SGD collapses onto mirrors, without a fit: a regression of products u w on noisy labels (Fig. 3 left).

Near u = w = 0 each step multiplies u + w by 1 - lr h and u - w by 1 + lr h, h = -2 mean(y x) over a batch. Their
logarithms are random walks with opposite noise, from which everything here follows. The paper has the sign of their
drift alone (Eq. 5). Away from 0 the drift is that of h = 2 (u w - 1/d) on average: a product that has learned its
coefficient has no signal left that would keep it from falling (``simulate_products``).
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float

Each = Any
"""A number, or an array or column of one for each run."""

LOG_OF_CHI = -(np.euler_gamma + math.log(2))
"""Mean of ln z^2 for a standard normal z."""
LARGEST_MOVE = 0.5
"""What ln (u + w)^2 moves by in a step of ``simulate_products``: by noise, and where u w is as large as it can be."""
LARGEST_PRODUCT = 6
"""About the largest d |u w| of thousands of starts."""


def noise_strength(d: Each, sigma: Each, batch: Each) -> Each:
    """E[h^2] / 4 for x ~ N(0, I_d), y = sum(x) / d + sigma N(0, 1); an infinite batch has (1/d)^2 left."""
    return (sigma**2 + (d + 1) / d**2) / batch + 1 / d**2


def growth_rate(lr: Each, d: Each, sigma: Each, batch: Each) -> Each:
    """Lambda, E log|1 - lr h| to second order: what log|u + w| gains a step near the mirror."""
    return 2 * lr / d - 2 * lr**2 * noise_strength(d, sigma, batch)


def critical_rate(d: Each, sigma: Each, batch: Each) -> Each:
    """The rate above which Lambda < 0: 1 / (d sigma^2 + 1) for batches of one, but for terms of order 1/d."""
    return 1 / (d * noise_strength(d, sigma, batch))


def half_rate(d: Each, sigma: Each, batch: Each, steps: Each, below: float = 1e-6) -> Each:
    """The rate at which about half of the products are smaller than ``below`` after so many steps."""
    s2 = noise_strength(d, sigma, batch)
    # By how much ln (u + w)^2 / 2 has to fall, on average from a start N(0, 1/d).
    fall = LOG_OF_CHI - np.log(d) - math.log(2 * below)
    return (1 / d + np.sqrt(1 / d**2 + fall * s2 / steps)) / (2 * s2)


def stationary_share(lr: Each, d: Each, sigma: Each, batch: Each, below: float = 1e-6) -> Each:
    """Share of products with |u w| < ``below`` after infinitely many steps; 1 from the critical rate on.

    Below it Z = (u + w)^2 / 2 follows dZ = Z (4 lr / d + 4 lr^2 s2 - 2 lr Z) dt + 4 lr sqrt(s2) Z dB once u - w has
    fallen to 0, whose stationary law is a Gamma law: u w = Z / 2 is of shape (critical rate / lr - 1) / 2 and scale
    2 lr s2 (ours; the paper has the sign of the drift alone).
    """
    # Claims of other figures are imported beside this module, and scipy takes time.
    from scipy.special import gammainc

    shape = np.maximum((critical_rate(d, sigma, batch) / lr - 1) / 2, 0)
    return gammainc(shape, below / (2 * lr * noise_strength(d, sigma, batch)))


def relaxation_steps(lr: Each, d: Each, sigma: Each, batch: Each) -> Each:
    """Steps in which what is left of the start falls by e; at the critical rate it is never forgotten.

    Far below its wall ln Z is a walk of drift 8 lr^2 s2 k and noise 4 lr sqrt(s2), whose gap is drift^2 / (2 noise^2).
    """
    k = (critical_rate(d, sigma, batch) / lr - 1) / 2
    return np.divide(1, 2 * lr**2 * noise_strength(d, sigma, batch) * k**2)


def simulate_products(
    lr: float,
    d: int,
    sigma: float,
    batch: float,
    moments: list[int],
    generator: np.random.Generator,
    products: int = 4000,
) -> Float[np.ndarray, "moments products"]:
    """|u w| of single products after so many steps each, every one alone with its own signal 1/d - u w.

    With x = ln (u + w)^2 / 2 and y = ln (u - w)^2 / 2 it follows dx = 4 lr (1/d - u w) dt - 4 lr^2 s2 dt + 4 lr
    sqrt(s2) dB and the same for y with the signs of signal and noise turned, by Euler's method in long steps.
    """
    s2 = noise_strength(d, sigma, batch)
    longest = max(1.0, min((LARGEST_MOVE / (4 * lr)) ** 2 / s2, LARGEST_MOVE * d / (8 * lr * LARGEST_PRODUCT)))
    x, y = (np.log(generator.standard_normal(products) ** 2 / d) for _ in range(2))
    found, now = [], 0
    # At rates at which SGD diverges these do too; what is not a number is below no threshold.
    with np.errstate(over="ignore", invalid="ignore"):
        for moment in moments:
            count = math.ceil((moment - now) / longest)
            dt, now = (moment - now) / count, moment
            for _ in range(count):
                theta = (np.exp(x) - np.exp(y)) / 2
                move = 4 * lr * ((1 / d - theta) * dt + math.sqrt(s2 * dt) * generator.standard_normal(products))
                x += move - 4 * lr**2 * s2 * dt
                y -= move + 4 * lr**2 * s2 * dt
            found.append(np.abs(np.exp(x) - np.exp(y)) / 2)
    return np.stack(found)
