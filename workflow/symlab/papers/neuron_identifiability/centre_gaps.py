"""How far exchanging two neurons or two inputs moves the projected centres v_i (main paper, Sec. 4.3 and 4.4)."""

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from scipy.spatial.distance import pdist
from torch import Tensor

from symlab.errors import UserError
from symlab.measures.job import Job
from symlab.papers.neuron_identifiability.settings import CentreGaps
from symlab.seeds import torch_generator


def draw_centre_gaps(
    settings: CentreGaps, job: Job, dataset: str, fixed_fraction: float, m: int
) -> dict[str, pd.DataFrame]:
    """Gaps of randomly drawn fixed weights of a layer of m neurons, on the true subspace of a data set (Fig. 11).

    The same F gives both gaps.

    Raises:
        UserError: fixed_fraction leaves no entry of its inputs.
    """
    U = torch.from_numpy(job.datasets[dataset].extras["U"]).double()
    rows = []
    for draw in range(settings.draws):
        # The tuple is in the generators' names as it is written.
        seed = ((job.study, "centres", dataset), "centres", m, draw)
        F = sample_fixed(len(U), m, settings.sigma_F, fixed_fraction, *seed)  # type: ignore[arg-type]
        rows.append(
            {"k": U.shape[1], "d": len(U), "m": m, "draw": draw, "sigma_F": settings.sigma_F}
            | {"fixed_fraction": fixed_fraction, "gamma_out": centre_gap(F @ U), "gamma_in": input_gap(F, U)}
        )
    return {"centre_gaps.csv": pd.DataFrame(rows).assign(row_gap=row_gap(U), dataset=dataset)}


def centre_gap(V: Float[Tensor, "m k"]) -> float:
    """gamma_out = sqrt(2) min_{i != j} |v_i - v_j| over the rows of V (Eq. 22): the least |delta_out|_F of a swap.

    Raises:
        UserError: there are fewer than two centres.
    """
    return float(np.sqrt(2) * _distances(V).min())


def input_gap(F: Float[Tensor, "m d"], U: Float[Tensor, "d k"]) -> float:
    """gamma_in = min_{a != b} |F_:b - F_:a| |U_b: - U_a:| (Eq. 27): the least |delta_in|_F of a swap of two inputs."""
    return float((_distances(F.T) * _distances(U)).min())


def row_gap(U: Float[Tensor, "d k"]) -> float:
    """min_{a != b} |U_a: - U_b:|_2, the distance of the two inputs that are hardest to tell apart on the subspace."""
    return float(_distances(U).min())


def _distances(points: Float[Tensor, "n k"]) -> Float[np.ndarray, " pairs"]:
    """Of all pairs of rows."""
    if len(points) < 2:
        raise UserError(f"A gap between neurons or inputs needs two of them, got {len(points)}; give the layer more.")
    # Of differences, not by products: near-coincident points are the answer, and products would round them away.
    return pdist(points.double().numpy())


def sample_fixed(d: int, m: int, sigma_F: float, fixed_fraction: float, *seed: str | int) -> Float[Tensor, "m d"]:
    """F [m, d], float64: N(0, sigma_F^2) in exactly round(fixed_fraction * d) entries of each row, else 0.

    Raises:
        UserError: ``fixed_fraction`` leaves no entry or is above 1.
    """
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
    return F
