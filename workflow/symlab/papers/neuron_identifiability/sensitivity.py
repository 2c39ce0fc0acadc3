"""What permuting neurons or inputs costs, against the shift of the centres (main paper, Thms. 4.5 and 4.7)."""

import math

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from symlab.errors import UserError
from symlab.identifiability.realization import (
    input_sensitivities,
    permutation_sensitivity,
    projected,
    realization_costs,
)
from symlab.papers.neuron_identifiability.bounds import sensitivity_bound
from symlab.seeds import torch_generator

# A shift of the centres by at most this share of |F|_F is the rounding of one that is zero: coincident centres, or
# inputs that the subspace does not tell apart, such as pixels that are always black.
SHIFT_ROUNDING = 1e-12

TRANSPOSITION, RANDOM = "transposition", "random"


def sensitivity_table(
    W_eff: Float[Tensor, "m d"],
    F: Float[Tensor, "m d"] | None,
    D: Float[Tensor, "m d"] | None,
    U: Float[Tensor, "d k"],
    mu_D: float,
    draws: int,
    *seed: str | int,
) -> pd.DataFrame:
    """Costs of random permutations of the neurons (Eq. 14) and of the inputs (Eqs. 23, 24), and what they should be.

    Thms. 4.5 and 4.7 hold for any weights, masks and subspace, without randomness: cost = (1 +- bound) leading.

    Args:
        W_eff, F, D, U: the layer; ``None`` stands for F = 0 and D = 1.
        mu_D: the mean of d_il^2 under the layer's scheme.
        draws: random transpositions, and as many random permutations, on each side.
        seed: names the draw.

    Returns:
        One row a side (output, input), permutation (transposition, random) and draw: cost, leading (|delta|_F^2 /
        mu_D), rho (infinite or NaN where delta = 0), eps (the largest |S_i - mu_D I|_op; for inputs also of S_i^tau),
        bound (on |cost / leading - 1|, Eqs. 87 and 147, NaN unless delta != 0 and eps < mu_D), assumption (empty where
        those of the theorem hold).

    Raises:
        UserError: the layer has fewer than two neurons or inputs, or its weights are not finite or not F + D * W.
    """
    m, d = W_eff.shape
    if min(m, d) < 2:
        raise UserError(f"A layer of {m} neurons and {d} inputs has nothing to permute; it needs two of both.")
    A, V = projected(W_eff, F, U)
    R = A - V
    of_neurons, of_inputs = (_draw(n, draws, *seed, side) for n, side in ((m, "output"), (d, "input")))
    inputs = input_sensitivities(W_eff, F, D, U, of_inputs, mu_D)
    C2 = realization_costs(W_eff, F, D, U)
    basis = U.double()
    smallest = 0.0 if F is None else SHIFT_ROUNDING * float(torch.linalg.matrix_norm(F.double()))
    rows = []
    for index in range(2 * draws):
        pi, tau = of_neurons[index], of_inputs[index]
        moved = R[pi != torch.arange(m)]
        delta_in = None if F is None else F.double() @ (basis[tau] - basis)
        for side, cost, delta, trainable, eps in (
            ("output", permutation_sensitivity(C2, pi), V[pi] - V, moved, inputs.deviation),
            ("input", float(inputs.costs[index]), delta_in, R, float(inputs.deviations[index])),
        ):
            shift = 0.0 if delta is None else float(torch.linalg.matrix_norm(delta))
            shift = shift if shift > smallest else 0.0
            # 0 / 0 is NaN: nothing fixed and nothing trained.
            rho = float(torch.linalg.matrix_norm(trainable) / torch.tensor(shift, dtype=torch.float64))
            rows.append(
                {"side": side, "permutation": TRANSPOSITION if index < draws else RANDOM, "draw": index % draws}
                | {"cost": cost, "leading": shift**2 / mu_D, "rho": rho, "eps": eps, "mu_D": mu_D}
                | {"bound": sensitivity_bound(rho, eps, mu_D) if shift > 0 else math.nan}
                | {"assumption": _violated(F, shift, rho, eps, mu_D)}
            )
    table = pd.DataFrame(rows)
    return table.sort_values("side", ascending=False, kind="stable", ignore_index=True)


def _draw(n: int, draws: int, *seed: str | int) -> Int[Tensor, "p n"]:
    """``draws`` transpositions of n indices, then as many uniform permutations other than the identity."""
    generator = torch_generator(*seed)
    identity = torch.arange(n)
    drawn = identity.repeat(2 * draws, 1)
    for transposition in drawn[:draws]:
        pair = torch.randperm(n, generator=generator)[:2]
        transposition[pair] = pair.flip(0)
    for permutation in drawn[draws:]:
        while torch.equal(permutation, identity):
            permutation.copy_(torch.randperm(n, generator=generator))
    return drawn


def _violated(F: Tensor | None, shift: float, rho: float, eps: float, mu_D: float) -> str:
    """Which assumptions of Thms. 4.5 and 4.7 do not hold, "" if all do."""
    found = []
    if shift == 0:
        found.append(f"{'F' if F is None or not bool(F.any()) else 'delta'} = 0: no leading term")
    elif rho > 1:
        found.append(f"rho = {rho:.3g} > 1")
    if eps > mu_D / 2:
        found.append(f"eps = {eps:.3g} > mu_D / 2 = {mu_D / 2:.3g}")
    return "; ".join(found)
