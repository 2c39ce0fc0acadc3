"""Realization costs of neurons' functions by other neurons, and what exchanging them costs (main paper, Sec. 4.1-4.4).

A layer is given by W_eff, F and D, each [m, d] with one row a neuron, and by an orthonormal basis U [d, k] of its input
subspace. ``None`` stands for F = 0 and for D = 1. All arithmetic is float64 whatever the dtype of the weights.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from symlab.errors import UserError
from symlab.identifiability.gram import MaskedGram, deviation, for_each_neuron, masked_gram, orthonormal, with_diagonal

# A Gram matrix whose smallest eigenvalue is below about this share of max_l d_il^2 goes to the singular value path:
# Cholesky loses eps / share of relative accuracy, so the costs of the other neurons keep about ten digits.
CHOLESKY_LIMIT = 1e-6

# Singular values of M_i at most this share of max_l |d_il| count as zero. It lies between what is noise (the rounding
# of U and of the decomposition, about 1e-15 of that scale) and the weakest access to a direction that a mask leaves.
# Relative to max |d_il| and not to the largest singular value, since a mask may hide every varying input.
RANK_TOLERANCE = 1e-10

# a_j - v_i is outside im(S_i) where its part orthogonal to im(S_i) exceeds this share of |W_eff_j| + |f_i|, the norms
# before projection: its rounding is about 1e-14 of their sum, even where a_j and v_i cancel or lie all but outside the
# subspace. A real obstruction is of order one.
RESIDUAL_TOLERANCE = 1e-8


class Whitening(NamedTuple):
    """S_i^+ of one neuron, factored: b^T S_i^+ b = |root b|^2, plus |b|^2 where ``plus_identity``, for b in im(S_i).

    null: an orthonormal basis of ker(S_i) as rows, None where S_i is regular.
    """

    root: Float[Tensor, "r k"]
    plus_identity: bool
    null: Float[Tensor, "q k"] | None


class InputSensitivities(NamedTuple):
    """Of p reindexings of a layer's inputs.

    costs: D_in(tau) of each, in units of squared weight norm, possibly infinite.
    deviation: the largest |S_i - mu_D I|_op of the neurons.
    deviations: for each tau the largest |S_i - mu_D I|_op and |S_i^tau - mu_D I|_op, the least eps of Thm. 4.7.
    """

    costs: Float[Tensor, " p"]
    deviation: float
    deviations: Float[Tensor, " p"]


def projected(
    W_eff: Float[Tensor, "m d"], F: Float[Tensor, "m d"] | None, U: Float[Tensor, "d k"]
) -> tuple[Float[Tensor, "m k"], Float[Tensor, "m k"]]:
    """Coefficients A with rows a_i = U^T (f_i + d_i * w_i) and centres V with rows v_i = U^T f_i, float64 (Eqs. 5, 6).

    Raises:
        UserError: the weights are not finite.
    """
    if not bool(torch.isfinite(W_eff).all()):
        raise UserError("The effective weights of a layer are not finite; its network has diverged, train it again.")
    basis = U.double()
    A = W_eff.double() @ basis
    return A, torch.zeros_like(A) if F is None else F.double() @ basis


def realization_costs(
    W_eff: Float[Tensor, "m d"], F: Float[Tensor, "m d"] | None, D: Float[Tensor, "m d"] | None, U: Float[Tensor, "d k"]
) -> Float[Tensor, "m m"]:
    """Squared costs c(i, j)^2 = (a_j - v_i)^T S_i^+ (a_j - v_i) of realizing neuron j's function by neuron i (Eq. 10).

    Entry [i, j] is in units of squared weight norm, float64; infinite where a_j - v_i is outside im(S_i), never NaN.
    Memory is O(m^2 + m d): each of torch's threads holds one neuron's Gram matrix at a time. The costs depend on the
    span of U only. While it runs, torch's number of threads is 1 in this process: they work on different neurons.

    Raises:
        UserError: the weights are not finite.
    """
    basis = orthonormal(U)
    A, V = projected(W_eff, F, basis)
    if D is None:
        return _isotropic_costs(A, None if F is None else V)
    of_functions, of_centres = _sizes(W_eff, F)
    diagonals = D.double()
    # What an unmasked neuron would pay, and the functions on all inputs, [d, m]: few hidden inputs need no more.
    C2, functions = _isotropic_costs(A, None if F is None else V), basis @ A.T

    def fill_row(i: int) -> None:
        d = diagonals[i]
        S = masked_gram(d, basis)
        inverse = None if S.hidden is None else _inverse_factor(S.core, S.scale)
        if S.hidden is None or inverse is None:
            C2[i] = _squared_costs(A - V[i], of_functions + of_centres[i], _whitening(d, basis, S))
        else:
            missing = functions[d == 0] - (S.hidden @ V[i])[:, None]
            C2[i] += (inverse @ missing).square_().sum(dim=0)

    for_each_neuron(fill_row, len(A))
    return C2


def swap_costs(C2: Float[Tensor, "m m"]) -> Float[Tensor, "m m"]:
    """Costs D_out((i j)) = c(i,j)^2 + c(j,i)^2 - c(i,i)^2 - c(j,j)^2 of all transpositions (Eq. 14).

    Symmetric with a zero diagonal, possibly negative, infinite where one neuron cannot realize the other's function.

    Raises:
        UserError: some c(i, i) is infinite, so the layer's weights do not have the form F + D * W.
    """
    own = _own_costs(C2)
    return (C2 + C2.T) - (own[:, None] + own[None, :])


def permutation_sensitivity(C2: Float[Tensor, "m m"], permutation: Int[Tensor, " m"]) -> float:
    """D_out(pi) = sum_i c(i, pi(i))^2 - c(i, i)^2: neuron i takes over the function of neuron pi(i) (Eqs. 13, 14).

    Raises:
        UserError: some c(i, i) is infinite, so the layer's weights do not have the form F + D * W.
    """
    own = _own_costs(C2)
    return float((C2[torch.arange(len(C2), device=C2.device), permutation] - own).sum())


def input_sensitivities(
    W_eff: Float[Tensor, "m d"],
    F: Float[Tensor, "m d"] | None,
    D: Float[Tensor, "m d"] | None,
    U: Float[Tensor, "d k"],
    permutations: Int[Tensor, "p d"],
    mu_D: float,
) -> InputSensitivities:
    """D_in(tau) of every row tau of ``permutations``, and how far the Gram matrices are from mu_D I (Eqs. 18, 23, 24).

    D_in(tau) = |H(P_tau^T .)|^2 - |H|^2 is the change of the layer's cost when its inputs are reindexed. The reindexed
    support has the basis P_tau U (row l is row tau(l) of U); the coefficients a_i stay, the centres become F P_tau U
    and the Gram matrices U^T P_tau^T diag(d_i)^2 P_tau U. Infinite where a function is lost.

    Each neuron's Gram matrix serves its cost and its deviation; transpositions change it by a matrix of rank 2. While
    it runs, torch's number of threads is 1 in this process: they work on different neurons.

    Raises:
        UserError: the weights are not finite, or do not have the form F + D * W.
    """
    basis = orthonormal(U)
    A, V = projected(W_eff, F, basis)
    # [p, m, k]: the coefficients of every neuron relative to its centre on the reindexed support.
    R = torch.stack([A if F is None else A - F.double() @ basis[tau] for tau in permutations])
    if D is None:
        costs = (R.square() - (A - V).square()).sum(dim=(1, 2))
        gap = abs(1 - mu_D)
        return InputSensitivities(costs, gap, torch.full_like(costs, gap))
    of_functions, of_centres = _sizes(W_eff, F)
    sizes = (of_functions + of_centres)[:, None]
    return _masked_sensitivities(A - V, R, sizes, D.double(), basis, permutations, mu_D)


def _masked_sensitivities(
    displacements: Float[Tensor, "m k"],
    R: Float[Tensor, "p m k"],
    sizes: Float[Tensor, "m 1"],
    diagonals: Float[Tensor, "m d"],
    basis: Float[Tensor, "d k"],
    permutations: Int[Tensor, "p d"],
    mu_D: float,
) -> InputSensitivities:
    """``input_sensitivities`` from a_i - v_i on the support as it is, and on the reindexed ones."""
    # U^T P^T diag(d)^2 P U = U^T diag(P^T d)^2 U: the basis may stay and the mask be reindexed backwards.
    backwards = permutations.argsort(dim=1)
    own = R.new_empty(len(diagonals))
    reindexed = R.new_empty(len(diagonals), len(permutations))
    own_deviations = torch.zeros_like(own)
    deviations = torch.zeros_like(reindexed)

    def fill_row(i: int) -> None:
        d = diagonals[i]
        S = masked_gram(d, basis)
        whitening = _whitening(d, basis, S)
        own[i] = _squared_costs(displacements[i][None], sizes[i], whitening)[0]
        # Other threads may raise the maximum meanwhile; a smaller one only costs time.
        own_deviations[i] = deviation(S, mu_D, at_least=float(own_deviations.max()))
        for t, back in enumerate(backwards):
            d_tau = d[back]
            if torch.equal(d_tau, d):
                reindexed[i, t] = _squared_costs(R[t, i][None], sizes[i], whitening)[0]
                continue
            S_tau = with_diagonal(S, d, d_tau, basis)
            largest = torch.maximum(own_deviations.max(), deviations[:, t].max())
            deviations[i, t] = bound = deviation(S_tau, mu_D, at_least=float(largest))
            if mu_D - bound > CHOLESKY_LIMIT * S_tau.scale:
                reindexed[i, t] = _regular_squared_cost(R[t, i], S_tau)
            else:
                reindexed[i, t] = _squared_costs(R[t, i][None], sizes[i], _whitening(d_tau, basis, S_tau))[0]

    for_each_neuron(fill_row, len(diagonals))
    _require_finite(own)
    largest_own = float(own_deviations.max())
    return InputSensitivities(
        costs=(reindexed - own[:, None]).sum(dim=0),
        deviation=largest_own,
        deviations=deviations.amax(dim=0).clamp_min(largest_own),
    )


def _isotropic_costs(A: Tensor, V: Tensor | None) -> Tensor:
    """|a_j - v_i|^2, the costs where D = 1 and so S_i = U^T U = I; ``V`` None where all centres are 0."""
    squares = A.square().sum(dim=1)
    if V is None:
        return squares.expand(len(A), len(A)).clone()
    C2 = torch.addmm(squares[None, :] + V.square().sum(dim=1)[:, None], V, A.T, alpha=-2)
    # The expansion rounds relative to |a_i|^2 + |v_i|^2, which may dwarf the diagonal that every swap uses.
    C2.diagonal().copy_((A - V).square().sum(dim=1))
    return C2.clamp_min_(0)


def _sizes(W_eff: Tensor, F: Tensor | None) -> tuple[Tensor, Tensor]:
    """Row norms of W_eff and F, [m] each."""
    functions = torch.linalg.vector_norm(W_eff.double(), dim=1)
    return functions, torch.zeros_like(functions) if F is None else torch.linalg.vector_norm(F.double(), dim=1)


def _squared_costs(displacements: Tensor, sizes: Tensor, whitening: Whitening) -> Tensor:
    """|b|^2 in S_i^+ of each row b of ``displacements`` [n, k]; infinite where b is not in im(S_i).

    ``sizes`` [n] are the norms that the rounding of b scales with.
    """
    costs = (displacements @ whitening.root.T).square_().sum(dim=1)
    if whitening.plus_identity:
        costs += displacements.square().sum(dim=1)
    if whitening.null is not None:
        residuals = torch.linalg.vector_norm(displacements @ whitening.null.T, dim=1)
        costs[residuals > RESIDUAL_TOLERANCE * sizes] = torch.inf
    return costs


def _regular_squared_cost(b: Tensor, S: MaskedGram) -> Tensor:
    """|b|^2 in S^-1 of one vector [k] for a well-conditioned S, without the inverse of its factor."""
    part = b if S.hidden is None else S.hidden @ b
    solved = torch.linalg.solve_triangular(torch.linalg.cholesky(S.core), part[:, None], upper=False)
    cost = solved.square().sum()
    return cost if S.hidden is None else cost + b.square().sum()


def _whitening(d: Tensor, U: Tensor, S: MaskedGram) -> Whitening:
    """``Whitening`` of the neuron with the diagonal d [d] and the Gram matrix S in the orthonormal basis U [d, k]."""
    inverse = _inverse_factor(S.core, S.scale)
    if inverse is None:
        return _singular_whitening(d, U)
    if S.hidden is None:
        return Whitening(root=inverse, plus_identity=False, null=None)
    # Woodbury: S^-1 = I + H^T K^-1 H, and K has the smallest eigenvalue of S; every term of a cost is a square, so
    # nothing cancels.
    return Whitening(root=inverse @ S.hidden, plus_identity=True, null=None)


def _inverse_factor(S: Tensor, scale: float) -> Tensor | None:
    """L^-1 of the Cholesky factor L of S; None where lambda_min(S) is too small a share of ``scale`` >= lambda_max."""
    L, info = torch.linalg.cholesky_ex(S)
    if int(info) != 0:
        return None
    inverse = torch.linalg.solve_triangular(L, torch.eye(len(S), dtype=S.dtype, device=S.device), upper=False)
    # |L^-1|_F^2 = tr(S^-1) lies in [1, k] / lambda_min: unlike the pivots, it cannot miss an ill-conditioned S.
    return inverse if float(inverse.square().sum()) * scale < 1 / CHOLESKY_LIMIT else None


def _singular_whitening(d: Tensor, U: Tensor) -> Whitening:
    """``_whitening`` from the singular values of M_i = U^T diag(d_i), whose condition number S_i squares."""
    at = d.nonzero().squeeze(1)
    k = U.shape[1]
    if len(at) == 0:
        return Whitening(root=U.new_zeros(0, k), plus_identity=False, null=torch.eye(k, dtype=U.dtype, device=U.device))
    triangle = torch.linalg.qr(U[at] * d[at, None], mode="r").R
    _, values, directions = torch.linalg.svd(triangle, full_matrices=True)
    rank = int((values > RANK_TOLERANCE * d.abs().max()).sum())
    return Whitening(root=directions[:rank] / values[:rank, None], plus_identity=False, null=directions[rank:])


def _own_costs(C2: Tensor) -> Tensor:
    own = C2.diagonal()
    _require_finite(own)
    return own


def _require_finite(own: Tensor) -> None:
    if not bool(torch.isfinite(own).all()):
        neuron = int((~torch.isfinite(own)).nonzero()[0])
        raise UserError(
            f"Neuron {neuron} does not realize its own function at a finite cost: the layer's weights are not "
            "F + D * W for this F and D; pass the fixed parts that the network was trained with."
        )
