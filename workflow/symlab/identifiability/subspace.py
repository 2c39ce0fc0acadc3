"""The input subspace of a layer, estimated from a stream of its inputs, and the subspace's coherence."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from symlab.errors import UserError
from symlab.products import fast_products

# Eigenvalues of a d x d covariance carry rounding of about d * 2e-16 of the trace: without this slack an
# explained variance of 1 would count such noise as directions.
TRACE_ROUNDING = 1e-12


class Covariance:
    """Mean and covariance of d-dimensional samples that arrive in batches; memory O(d^2) for any number of samples.

    Batches are shifted by the first batch's mean before their products are formed (one gemm in the batch's own
    precision), so that a large common offset does not eat the digits; the sums over batches are float64.
    """

    def __init__(self) -> None:
        self.n = 0
        self._shift: Tensor | None = None
        self._sum = torch.zeros(0, dtype=torch.float64)
        self._products = torch.zeros(0, 0, dtype=torch.float64)

    def update(self, batch: Float[Tensor, "n d"]) -> None:
        """Adds the rows of ``batch``; a batch without rows changes nothing."""
        if len(batch) == 0:
            return
        if self._shift is None:
            self._shift = batch.double().mean(dim=0).to(batch.dtype)
            d = batch.shape[1]
            self._sum = torch.zeros(d, dtype=torch.float64, device=batch.device)
            self._products = torch.zeros(d, d, dtype=torch.float64, device=batch.device)
        shifted = batch - self._shift
        self.n += len(batch)
        self._sum += shifted.sum(dim=0, dtype=torch.float64)
        self._products += shifted.T @ shifted

    @property
    def mean(self) -> Float[Tensor, " d"]:
        """Mean of all samples so far, float64.

        Raises:
            UserError: no sample has been seen.
        """
        if self._shift is None:
            raise UserError("The mean of a layer's inputs needs at least one sample, got none; pass it data.")
        return self._shift.double() + self._sum / self.n

    def covariance(self) -> Float[Tensor, "d d"]:
        """Unbiased covariance (divisor n - 1) of all samples so far, float64.

        Raises:
            UserError: fewer than two samples have been seen.
        """
        if self.n < 2:
            raise UserError(
                f"The covariance of a layer's inputs needs at least two samples, got {self.n}; pass more data."
            )
        return (self._products - torch.outer(self._sum, self._sum / self.n)) / (self.n - 1)


@fast_products()
def covariance_of(batches: Iterable[Float[Tensor, "n d"]]) -> Covariance:
    """The covariance of all rows of the batches."""
    covariance = Covariance()
    for batch in batches:
        covariance.update(batch)
    return covariance


@dataclass(frozen=True)
class Subspace:
    """A linear subspace of a layer's inputs.

    U: orthonormal basis, [d, k] float64, directions of decreasing variance. k: its dimension. explained: the share of
    the variance it holds. nu: its coherence (Eq. 11).
    """

    U: Float[Tensor, "d k"]
    k: int
    explained: float
    nu: float


def principal_subspace(covariance: Float[Tensor, "d d"], explained_variance: float = 0.9) -> Subspace:
    """The top principal directions, the fewest that hold ``explained_variance`` of the trace (paper, Appendix F.7).

    Raises:
        UserError: ``explained_variance`` is not in (0, 1], or the covariance is not finite or zero.
    """
    if not 0 < explained_variance <= 1:
        raise UserError(
            f"explained_variance is {explained_variance}; it is a share of the variance, give it in (0, 1]."
        )
    if not bool(torch.isfinite(covariance).all()):
        raise UserError("The covariance of a layer's inputs is not finite; its network has diverged, train it again.")
    eigenvalues, vectors = torch.linalg.eigh(covariance.double())
    variances = eigenvalues.flip(0).clamp_min(0)
    total = variances.sum()
    if total == 0:
        raise UserError(
            "The inputs of a layer do not vary, so they span no subspace; pass it more than one distinct input."
        )
    shares = variances.cumsum(0) / total
    k = min(int((shares < explained_variance - TRACE_ROUNDING).sum()) + 1, len(shares))
    U = vectors.flip(1)[:, :k].contiguous()
    return Subspace(U=U, k=k, explained=float(shares[k - 1]), nu=coherence(U))


def coherence(U: Float[Tensor, "d k"]) -> float:
    """nu = max_l (U U^T)_ll, in [k/d, 1], of the span of the orthonormal columns of U (Eq. 11)."""
    return float(U.double().square().sum(dim=1).max())
