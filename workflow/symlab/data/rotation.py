"""Orthonormal frames, and rotations that give a subspace a chosen coherence."""

import numpy as np
from jaxtyping import Float64

from symlab.errors import UserError

_SLACK = 1e-9


def coherence(frame: Float64[np.ndarray, "d k"]) -> float:
    """nu(U) = max_l (U U^T)_ll of an orthonormal frame U, in [k/d, 1] (paper, Eq. 11)."""
    return float(_leverages(frame).max())


def haar_frame(d: int, k: int, rng: np.random.Generator) -> Float64[np.ndarray, "d k"]:
    """A uniformly random orthonormal d x k frame (for k = d: a Haar random orthogonal matrix).

    The signs make the R factor's diagonal positive, without which QR does not give the Haar measure.
    """
    q, r = np.linalg.qr(rng.standard_normal((d, k)))
    return q * np.where(np.diagonal(r) < 0, -1.0, 1.0)


def principal_basis(covariance: Float64[np.ndarray, "d d"], explained: float) -> Float64[np.ndarray, "d k"]:
    """The top principal directions, as few as explain the given fraction of the variance."""
    variances, directions = np.linalg.eigh(covariance)
    variances, directions = variances[::-1].clip(min=0), directions[:, ::-1]
    fractions = np.cumsum(variances) / variances.sum()
    return directions[:, : int(np.searchsorted(fractions, explained)) + 1]


def frame_with_coherence(d: int, k: int, target: float, rng: np.random.Generator) -> Float64[np.ndarray, "d k"]:
    """A random orthonormal d x k frame of coherence ``target`` exactly (up to rounding).

    As many coordinates as can (floor(k / target)) have leverage ``target``, one more takes the remainder, the others
    have none: at k/d all coordinates are alike, at 1 the subspace is axis-aligned. Such a diagonal exists by the
    Schur-Horn theorem; it is reached from a Haar random frame by at most d plane rotations, each of which gives one
    coordinate its final leverage and leaves the sum, hence the trace k, unchanged.

    Raises:
        UserError: target is outside [k/d, 1].
    """
    if not k / d - _SLACK <= target <= 1 + _SLACK:
        raise UserError(
            f"A subspace of {k} out of {d} dimensions has a coherence between {k / d:.5f} and 1, not {target}: "
            "choose target_nu in this range."
        )
    target = min(max(target, k / d), 1.0)
    n_full = min(int(k / target + _SLACK), d)
    remainder = k - n_full * target
    frame = np.zeros((d, k))
    frame[:n_full] = haar_frame(n_full, k, rng)
    if n_full < d and remainder > _SLACK:
        _rotate_to(frame, n_full, int(np.argmax(_leverages(frame))), remainder)
    _level(frame, n_full, target)
    return frame[rng.permutation(d)]


def rotation_to_coherence(
    basis: Float64[np.ndarray, "d k"], target: float, rng: np.random.Generator
) -> Float64[np.ndarray, "d d"]:
    """A random orthogonal Q such that the subspace spanned by the orthonormal ``Q @ basis`` has coherence ``target``.

    Q maps the basis to a ``frame_with_coherence`` and its orthogonal complement to that frame's by a Haar random
    isometry.

    Raises:
        UserError: target is outside [k/d, 1].
    """
    d, k = basis.shape
    image = frame_with_coherence(d, k, target, rng)
    return image @ basis.T + _complement(image) @ haar_frame(d - k, d - k, rng) @ _complement(basis).T


def _leverages(frame: Float64[np.ndarray, "d k"]) -> Float64[np.ndarray, " d"]:
    return np.einsum("dk,dk->d", frame, frame)


def _complement(frame: Float64[np.ndarray, "d k"]) -> Float64[np.ndarray, "d d-k"]:
    return np.linalg.qr(frame, mode="complete")[0][:, frame.shape[1] :]


def _level(frame: Float64[np.ndarray, "d k"], n: int, target: float) -> None:
    """Give the first n rows, whose leverages sum to n * target, that leverage each by plane rotations, in place."""
    leverages = _leverages(frame[:n])
    below = [row for row in range(n) if leverages[row] < target]
    above = [row for row in range(n) if leverages[row] >= target]
    while below and above:
        low, high = below[-1], above[-1]
        rest = leverages[low] + leverages[high] - target
        _rotate_to(frame, low, high, target)
        leverages[low], leverages[high] = target, rest
        below.pop()
        if rest < target:
            below.append(above.pop())


def _rotate_to(frame: Float64[np.ndarray, "d k"], low: int, high: int, target: float) -> None:
    """Rotate two rows in their plane, in place, so that row ``low`` gets squared norm ``target``.

    ``target`` lies between the squared norms a <= b of the two rows. With inner product c and x = tan(angle) the new
    squared norm (a + 2 c x + b x^2) / (1 + x^2) equals the target where (b - target) x^2 + 2 c x + (a - target) = 0,
    a quadratic with two real roots; the smaller one disturbs the rows least.
    """
    u, v = frame[low].copy(), frame[high].copy()
    p, q, r = v @ v - target, u @ v, u @ u - target
    root = np.sqrt(max(q * q - p * r, 0.0))
    angle = np.arctan2(-r, abs(q) + root)
    if q < 0:
        angle = -angle
    frame[low] = np.cos(angle) * u + np.sin(angle) * v
    frame[high] = np.cos(angle) * v - np.sin(angle) * u
