"""How far features and the last layer are from neural collapse: NC1, NC2A, NC2B, NC3 and what they are made of."""

import torch
import torch.nn.functional as functional
from jaxtyping import Float, Int
from torch import Tensor


def class_scatter(
    H: Float[Tensor, "n d"], y: Int[Tensor, " n"], K: int
) -> tuple[Float[Tensor, "k d"], Float[Tensor, "n d"], Float[Tensor, ""]]:
    """Class means, every sample's distance from its own, and tr Sigma_B."""
    unit = functional.one_hot(y, K).to(H)
    means = unit.T @ H / unit.sum(0)[:, None]
    return means, H - means[y], (means - means.mean(0)).square().sum() / K


def distance_from(M: Float[Tensor, "k k"], E: Float[Tensor, "k k"]) -> Float[Tensor, ""]:
    """min over c >= 0 of |M - c E| / |M|, Frobenius norms."""
    c = ((M * E).sum() / (E * E).sum()).clamp_min(0)
    return (M - c * E).norm() / M.norm()


def collapse_metrics(
    H: Float[Tensor, "n d"], W: Float[Tensor, "k d"], y: Int[Tensor, " n"], shifts: bool = False
) -> dict[str, Float[Tensor, ""]]:
    """The paper's metrics of features H and the last layer's W, by name.

    NC1; NC2A and NC2B: distance of W W^T from a simplex I - 1 1^T / K and from I; NC3 = 1 - mean cosine of features and
    their class's row. Besides: tr Sigma_B (``between``); the shares of NC1 in W's row space (``NC1_row``) and beyond
    (``NC1_null``); NC2A of W centred on both sides, NC3 of W less its mean row; and how much of W lies along the two
    directions that only decay moves, 1^T W (``column_sum``) and W 1 (``row_sum``), over |W|. ``shifts``: whether the
    loss sees a sum that all outputs share; under cross-entropy it does not, and the row space is that of W less its
    mean row.
    """
    K = len(W)
    _, rest, between = class_scatter(H, y, K)
    rows = row_space(W, shifts)
    within, in_rows = (each.square().sum() / len(H) for each in (rest, rest @ rows.T))
    eye = torch.eye(K).to(W)
    simplex = eye - 1 / K
    centred = W - W.mean(0)
    centred = centred - centred.mean(1, keepdim=True)
    return {
        "NC1": within / between,
        "NC2A": distance_from(W @ W.T, simplex),
        "NC2B": distance_from(W @ W.T, eye),
        "NC3": 1 - functional.cosine_similarity(H, W[y], dim=1).mean(),
        "NC3_centred": 1 - functional.cosine_similarity(H, (W - W.mean(0))[y], dim=1).mean(),
        "between": between,
        "NC1_row": in_rows / between,
        "NC1_null": (within - in_rows) / between,
        "NC2A_centred": distance_from(centred @ centred.T, simplex),
        "column_sum": W.sum(0).norm() / W.norm() / K**0.5,
        "row_sum": W.sum(1).norm() / W.norm() / W.shape[1] ** 0.5,
    }


def row_space(W: Float[Tensor, "k d"], shifts: bool) -> Float[Tensor, "r d"]:
    """An orthonormal basis of what the loss sees through W, as ``collapse_metrics`` has it."""
    _, strength, V = torch.linalg.svd(W if shifts else W - W.mean(0), full_matrices=False)
    return V[strength > 1e-6 * strength[0]]


class ClassSums:
    """Sums over the samples of each class, batch by batch in float64, of which NC1, NC2 and NC3 of a layer are made.

    Attributes:
        size: entries of a sample's features.
    """

    def __init__(self, K: int, W: Float[Tensor, "k d"], rows: Float[Tensor, "r d"]):
        """W, the readout's weights, and a basis of their row space: of layers of its size."""
        self.K, self.W, self.rows, self.size = K, W, rows, 0

    def add(self, H: Float[Tensor, "n d"], y: Int[Tensor, " n"]) -> "ClassSums":
        """Add features of a batch."""
        if not self.size:
            self.size = H.shape[1]
            # Squares are added up about a point among the features, where they lose least to rounding.
            self.origin = H.mean(0)
            self.counts, self.sums = torch.zeros(self.K).to(H), torch.zeros(self.K, self.size).to(H)
            self.squares = self.squares_in_rows = self.cosines = torch.zeros(()).to(H)
        apart = H - self.origin
        self.counts = self.counts + torch.bincount(y, minlength=self.K)
        self.sums.index_add_(0, y, apart)
        self.squares = self.squares + apart.square().sum()
        if self.size == self.W.shape[1]:
            self.squares_in_rows = self.squares_in_rows + (apart @ self.rows.T).square().sum()
            self.cosines = self.cosines + functional.cosine_similarity(H, self.W[y], dim=1).sum()
        return self

    def means(self) -> Float[Tensor, "k d"]:
        """Of the classes."""
        return self.sums / self.counts[:, None] + self.origin

    def metrics(self) -> dict[str, float]:
        """NC1; its share in the readout's row space and beyond; NC2 of the class means; NC3; NaN for other sizes."""
        centred = self.sums / self.counts[:, None]
        centred = centred - centred.mean(0)
        between = centred.square().sum() / self.K
        n, fits = self.counts.sum(), self.size == self.W.shape[1]
        within = (self.squares - (self.sums.square().sum(1) / self.counts).sum()).clamp_min(0) / n
        of_rows = ((self.sums @ self.rows.T).square().sum(1) / self.counts).sum() if fits else torch.nan
        in_rows = (self.squares_in_rows - of_rows).clamp_min(0) / n
        simplex = torch.eye(self.K).to(centred) - 1 / self.K
        return {
            "NC1": float(within / between),
            "NC1_row": float(in_rows / between),
            "NC1_null": float((within - in_rows) / between),
            "NC2": float(distance_from(centred @ centred.T, simplex)),
            "NC3": float(1 - self.cosines / n) if fits else torch.nan,
        }
