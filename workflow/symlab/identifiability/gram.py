"""The Gram matrix S_i of one neuron, and how far it is from mu_D I (main paper, Eqs. 9 and 18)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class MaskedGram(NamedTuple):
    """S = U^T diag(d)^2 U of one neuron, possibly by a smaller matrix.

    core: S [k, k] itself, or K = I - H H^T [h, h] where the mask d hides h < k inputs and keeps the others as they are;
        the eigenvalues of S are then those of K and k - h ones.
    hidden: H [h, k], the hidden rows of U; None where the core is S.
    scale: an upper bound on the eigenvalues of S.
    """

    core: Float[Tensor, "c c"]
    hidden: Float[Tensor, "h k"] | None
    scale: float


def masked_gram(d: Float[Tensor, " d"], U: Float[Tensor, "d k"]) -> MaskedGram:
    """``MaskedGram`` of the neuron with the diagonal d, in the orthonormal float64 basis U."""
    hidden = (d == 0).nonzero().squeeze(1)
    if len(hidden) < U.shape[1] and bool((d == 1).sum() == len(d) - len(hidden)):
        H = U[hidden]
        return MaskedGram(torch.eye(len(H), dtype=U.dtype, device=U.device) - H @ H.T, H, scale=1.0)
    return MaskedGram(weighted_gram(d, U), None, scale=float(d.square().max()))


def with_diagonal(
    S: MaskedGram, old: Float[Tensor, " d"], new: Float[Tensor, " d"], U: Float[Tensor, "d k"]
) -> MaskedGram:
    """``masked_gram(new, U)``, from the Gram matrix S of ``old``, whose entries are those of ``new`` reordered."""
    moved = (new != old).nonzero().squeeze(1)
    if S.hidden is not None or 4 * len(moved) > len(new):
        return masked_gram(new, U)
    rows = U[moved]
    change = new[moved].square() - old[moved].square()
    return S._replace(core=S.core + (rows * change[:, None]).T @ rows)


def weighted_gram(d: Float[Tensor, " d"], U: Float[Tensor, "d k"]) -> Float[Tensor, "k k"]:
    """U^T diag(d)^2 U from the inputs that the mask d leaves."""
    at = d.nonzero().squeeze(1)
    part = U if len(at) == len(d) else U[at]
    return (part * d[at, None].square()).T @ part


def deviation(S: MaskedGram, mu_D: float, at_least: float = -1.0) -> float:
    """|S - mu_D I|_op, or ``at_least`` where that is larger.

    Two Cholesky factorisations tell whether it is, several times faster than eigenvalues; most neurons need no more
    where the largest deviation of a layer is sought.
    """
    if S.hidden is not None:
        at_least = max(at_least, abs(1 - mu_D))
    if len(S.core) == 0:
        return at_least
    if at_least >= 0:
        identity = torch.eye(len(S.core), dtype=S.core.dtype, device=S.core.device)
        if all(
            int(torch.linalg.cholesky_ex(gap).info) == 0
            for gap in (S.core - (mu_D - at_least) * identity, (mu_D + at_least) * identity - S.core)
        ):
            return at_least
    return max(at_least, float((torch.linalg.eigvalsh(S.core) - mu_D).abs().max()))


def gram_deviations(
    D: Float[Tensor, "m d"] | None, U: Float[Tensor, "d k"], mu_D: float, m: int
) -> Float[Tensor, " m"]:
    """|S_i - mu_D I|_op of each of m neurons, float64 (the left side of Eq. 12). ``None`` stands for D = 1."""
    deviations = torch.full((m,), abs(1 - mu_D), dtype=torch.float64)
    if D is None:
        return deviations
    basis = orthonormal(U)
    diagonals = D.double()

    def fill_entry(i: int) -> None:
        deviations[i] = deviation(masked_gram(diagonals[i], basis), mu_D)

    for_each_neuron(fill_entry, m)
    return deviations


def orthonormal(U: Float[Tensor, "d k"]) -> Float[Tensor, "d k"]:
    """An orthonormal float64 basis of the span of U; a float32 basis is orthonormal to seven digits only."""
    return torch.linalg.qr(U.double()).Q.contiguous()


def for_each_neuron(work: Callable[[int], None], m: int) -> None:
    """Calls ``work(i)`` for i < m, the neurons shared out among as many threads as torch uses.

    One neuron's matrices are too small to be split: threads inside each operation would mostly wait for one another,
    for seconds where another process wants the cores.
    """
    threads = torch.get_num_threads()

    def share(first: int) -> None:
        for i in range(first, m, threads):
            work(i)

    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(share, range(threads)):
                pass
    finally:
        torch.set_num_threads(threads)
