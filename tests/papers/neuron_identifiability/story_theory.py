"""Tables of theorems in which they hold."""

import numpy as np

from .grid import ALIGNED, ARCHITECTURES, PAIRS, SEEDS, SPLITS, TRAINED, described, noisy, rows_for


@rows_for(variant=TRAINED, seed=SEEDS, layer=(1, 2), masks=("own", "fresh"))
def gram_deviation(variant, seed, layer, masks):
    trained = masks == "own" and layer > 1
    row = described(
        variant, mask_seed=0, seed=seed, layer=layer, masks=masks, k_subspace=9, nu=0.3 + layer / 10, mu_D=0.8
    )
    row |= {"sigma_D2": 0.0 if variant == "standard" else 0.16, "b_D": 0.8, "delta": 0.05}
    row |= {"deviation_max": 2.0 if trained else 0.4, "bound": 1.0, "bound_all": 1.5}
    row |= {"share_above": 0.3 if trained else noisy(0.02, seed), "assumption": "U depends on D" if trained else ""}
    if variant == "standard":
        row |= {"deviation_max": 1e-16, "bound": 0.0, "bound_all": 0.0, "share_above": 1.0}
    return row


@rows_for(variant=TRAINED, seed=SEEDS, layer=(1, 2), side=("output", "input"), draw=range(3))
def sensitivity(variant, draw, **place):
    rho = {"w_1": 0.5, "syre": 1.5, "w_3": 0.05}.get(variant, np.inf)
    row = described(variant, mask_seed=0, **place, permutation="random", draw=draw, leading=10.0, rho=rho, eps=0.1)
    row |= {"mu_D": 0.8, "cost": noisy(12.0, draw), "bound": 2 * rho + 0.2, "assumption": ""}
    if not rho <= 1:
        row |= {"cost": 50.0, "bound": np.nan, "assumption": f"rho = {rho + 0.1 * draw:.2g} > 1"}
    if rho == np.inf:
        row |= {"leading": 0.0, "assumption": "F = 0: no leading term"}
    return row


@rows_for(variant=TRAINED, seed=SEEDS, layer=(1, 2), gap=("out", "in"))
def network_gaps(variant, **place):
    row = described(variant, mask_seed=0, **place, m=64, d_in=64, k_subspace=9, nu=0.4, gamma=2.0, lower=0.5)
    row |= {"upper": 4.0 if place["gap"] == "in" else np.nan, "assumption": ""}
    if variant in ("standard", "w_0"):
        row |= {"gamma": 0.0, "lower": np.nan, "upper": np.nan, "assumption": "F = 0: no gap"}
    return row


@rows_for(
    variant=("w_0", "w_1", "w_3"),
    pair=range(2),
    layer=(1, 2),
    inputs=("gaussian", "data"),
    nonlinearity=("relu", "gelu"),
    scale=(3.0, 1.0, 0.1, 0.03, 0.01, 0.003, 0.001),
)
def chord_deviation(variant, inputs, nonlinearity, scale, **place):
    beta = scale * {"w_0": np.inf, "w_1": 0.9, "w_3": 0.3}[variant]
    exponent = {"relu": 1.5, "gelu": 2.0}[nonlinearity]
    # Above the beta up to which slopes are measured, the deviation levels off.
    chord = min(beta, {"relu": 0.1, "gelu": 0.01}[nonlinearity]) ** exponent
    row = described(variant, mask_seed=0, **place, inputs=inputs, nonlinearity=nonlinearity, scale=scale, beta=beta)
    row |= {"chord": chord, "norm_F": 5.0, "bound": 4 * beta**exponent, "assumption": ""}
    if not beta < 1:
        row |= {"bound": np.nan, "assumption": f"beta = {beta:.2g} >= 1"}
    return row if inputs == "gaussian" else row | {"chord": 9.0, "assumption": "inputs are not Gaussian"}


@rows_for(variant=TRAINED, seed=SEEDS, layer=(1, 2), beta=(0.01, 1.0))
def tail_energy(variant, seed, layer, beta):
    row = described(variant, mask_seed=0, seed=seed, layer=layer, beta=beta, k_subspace=9, tail=0.5)
    return row | {"error_share": 0.2, "cost_share": 0.3 + beta / 10 + seed / 100, "assumption": ""}


@rows_for(d=(50, 100), m=(64, 128), draw=range(3), bias=(0.0, 1.0))
def hardness(d, m, draw, bias):
    """Half of a neuron is left, more in more dimensions."""
    share = 0.5 + d / 1000 - m / 2000 + draw / 1000 - bias / 10
    return {"study": "study", "d": d, "m": m, "draw": draw, "bias": bias, "norm": 1e3, "error": 1e3 * share}


@rows_for(variant=ARCHITECTURES, pair=PAIRS, aligned=ALIGNED, split=SPLITS)
def loss_bounds(variant, pair, **path):
    row = described(variant, mask_seed=0, pair=pair, **path, excess_max=0.0)
    return row | {"gap_mid": -0.1 if path["aligned"] else 0.5, "assumption": "", "bound_mid": noisy(3.0, pair)}


@rows_for(sigma_F=(0.0, 1.0, 3.0, 10.0, None), pair=PAIRS)
def trade_off(sigma_F, pair):
    if sigma_F is None:
        return described("standard", mask_seed=0, pair=pair, val_accuracy=0.99, identity_ratio=0.0)
    accuracy = {0.0: 0.95, 1.0: 0.97, 3.0: 0.96, 10.0: 0.9}[sigma_F] + noisy(0.0, pair) / 10
    row = described("w_1", sigma_F=sigma_F, mask_seed=0, pair=pair, train_accuracy=1.0, val_accuracy=accuracy)
    return row | {"variant": f"w_{sigma_F:g}", "identity_ratio": 0.1 if sigma_F == 0 else 0.97, "train_loss": 0.01}


@rows_for(k=(2, 8, 32), fixed_fraction=(0.125, 1.0), m=(16, 64, 256, 1024, 2048), draw=range(4))
def centre_gaps(k, m, draw, fixed_fraction):
    row = {
        "study": "study",
        "dataset": f"gmm_k{k}",
        "k": k,
        "d": 128,
        "m": m,
        "draw": draw,
        "sigma_F": 1.0,
        "row_gap": 0.1,
    }
    row |= {"fixed_fraction": fixed_fraction, "gamma_out": (1 + 0.1 * draw) * m ** (-2 / k)}
    # Widths that are not large beside log d have far smaller gaps than the rate says.
    return row | {"gamma_in": (1 + 0.1 * draw) * (m**0.5 if m >= 256 else 0.01)}
