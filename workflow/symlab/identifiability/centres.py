"""How far apart the projected centres v_i of sampled fixed weights lie, against the layer's width (Thm. 4.6)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from symlab.errors import UserError
from symlab.seeds import torch_generator

CHUNK_ROWS = 512


def centre_gap(V: Float[Tensor, "m k"]) -> float:
    """gamma_out = sqrt(2) min_{i != j} |v_i - v_j| over the rows of V (Eq. 22): the least |delta_out|_F of a swap.

    Raises:
        UserError: there are fewer than two centres.
    """
    m = len(V)
    if m < 2:
        raise UserError(f"The gap between projected centres needs at least two neurons, got {m}; give the layer more.")
    centres = V.double()
    smallest = torch.inf
    for start in range(0, m - 1, CHUNK_ROWS):
        rows = centres[start : start + CHUNK_ROWS]
        # Differences, not a gemm: near-coincident centres are the answer, and the expansion would round them away.
        distances = torch.cdist(rows, centres[start:], compute_mode="donot_use_mm_for_euclid_dist")
        distances.diagonal().fill_(torch.inf)
        smallest = min(smallest, float(distances.min()))
    return float(np.sqrt(2) * smallest)


def sample_centres(
    U: Float[Tensor, "d k"], m: int, sigma_F: float, fixed_fraction: float, *seed: str | int
) -> Float[Tensor, "m k"]:
    """V = F U for a sampled F [m, d]: N(0, sigma_F^2) in exactly round(fixed_fraction * d) entries of each row, else 0.

    Raises:
        UserError: ``fixed_fraction`` leaves no entry or is above 1.
    """
    d = len(U)
    n_fixed = round(fixed_fraction * d)
    if not 1 <= n_fixed <= d:
        raise UserError(
            f"fixed_fraction is {fixed_fraction}, which fixes {n_fixed} of {d} inputs a neuron; give 1/{d} to 1."
        )
    generator = torch_generator(*seed)
    F = torch.randn(m, d, generator=generator, dtype=torch.float64) * sigma_F
    if n_fixed < d:
        order = torch.rand(m, d, generator=generator).argsort(dim=1)
        F.scatter_(1, order[:, n_fixed:], 0.0)
    return F @ U.double().cpu()


def centre_gap_table(
    U: Float[Tensor, "d k"],
    widths: Sequence[int],
    draws: int,
    sigma_F: float,
    fixed_fraction: float,
    *seed: str | int,
) -> pd.DataFrame:
    """gamma_out of ``draws`` independent samples of F at every width (Fig. 11).

    Columns k, d, m, draw, sigma_F, fixed_fraction, gamma_out; one row a width and draw.

    Raises:
        UserError: a width is below 2, or ``fixed_fraction`` leaves no entry or is above 1.
    """
    d, k = U.shape
    rows = [
        {
            "k": k,
            "d": d,
            "m": m,
            "draw": draw,
            "sigma_F": sigma_F,
            "fixed_fraction": fixed_fraction,
            "gamma_out": centre_gap(sample_centres(U, m, sigma_F, fixed_fraction, *seed, "centres", m, draw)),
        }
        for m in widths
        for draw in range(draws)
    ]
    return pd.DataFrame(rows)


def slope(table: pd.DataFrame) -> float:
    """Least-squares slope of log(mean gamma_out over draws) against log m; Thm. 4.6 predicts -2/k.

    Raises:
        UserError: the table holds more than one k, sigma_F or fixed_fraction, or fewer than two widths.
    """
    for column in ("k", "sigma_F", "fixed_fraction"):
        if table[column].nunique() != 1:
            raise UserError(
                f"A slope needs rows of one {column}, the table holds {table[column].nunique()}; select one first."
            )
    means = table.groupby("m")["gamma_out"].mean()
    if len(means) < 2:
        raise UserError(f"A slope needs at least two widths m, the table holds {len(means)}; sample more widths.")
    x = np.log(means.index.to_numpy(dtype=np.float64))
    y = np.log(means.to_numpy(dtype=np.float64))
    return float(np.polynomial.polynomial.polyfit(x, y, 1)[1])


def predicted_rate(
    m: Float[np.ndarray, "*n"] | float, k: int, anchor_m: float, anchor_gamma: float
) -> Float[np.ndarray, "*n"]:
    """c_k m^(-2/k), with c_k such that the rate passes through (anchor_m, anchor_gamma) (Eq. 22 and Fig. 11)."""
    return anchor_gamma * (np.asarray(m, dtype=np.float64) / anchor_m) ** (-2.0 / k)
