"""Metrics of collapse on features whose answer is known, and against numpy."""

import numpy as np
import torch

from symlab.measures.collapse import collapse_metrics
from symlab.papers.neural_collapse.samples import rank_with_constant

K, D, N = 5, 12, 6


def simplex():
    """Rows of norm 1 at equal angles, in D dimensions with coordinates that sum to 0."""
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.cat([torch.ones(D, 1), torch.randn(D, K, generator=generator)], 1).double()).Q[:, 1:]
    frame = (torch.eye(K) - 1 / K).double() @ basis.T
    return frame / frame.norm(dim=1, keepdim=True)


Y = torch.arange(K).repeat_interleave(N)


def test_a_simplex_is_collapsed_and_far_from_orthogonal():
    W = simplex()
    found = collapse_metrics(D**0.5 * W[Y], 0.7 * W, Y)
    for name in ("NC1", "NC2A", "NC3", "NC2A_centred", "column_sum", "row_sum"):
        assert abs(found[name]) < 1e-6, name
    torch.testing.assert_close(found["NC2B"], torch.tensor(K**-0.5, dtype=torch.float64))


def test_orthogonal_rows_have_no_nc2b():
    W = torch.eye(K, D, dtype=torch.float64)
    assert collapse_metrics(simplex()[Y], W, Y)["NC2B"] == 0


def test_they_are_those_of_numpy():
    generator = np.random.default_rng(1)
    H, W, y = generator.normal(size=(K * N, D)), generator.normal(size=(K, D)), Y.numpy()
    means = np.stack([H[y == k].mean(0) for k in range(K)])
    within = np.mean([np.sum((h - means[k]) ** 2) for h, k in zip(H, y, strict=True)])
    between = np.trace(np.cov(means.T, bias=True))
    M, E = W @ W.T, np.eye(K) - 1 / K
    scales = np.linspace(0, 30, 300_001)
    least = np.sqrt(np.min(np.sum(M * M) - 2 * scales * np.sum(M * E) + scales**2 * np.sum(E * E)) / np.sum(M * M))
    cosines = [h @ W[k] / np.linalg.norm(h) / np.linalg.norm(W[k]) for h, k in zip(H, y, strict=True)]
    found = collapse_metrics(torch.from_numpy(H), torch.from_numpy(W), Y)
    expected = {"NC1": within / between, "NC2A": least, "NC3": 1 - np.mean(cosines), "between": between}
    expected |= {"column_sum": np.linalg.norm(np.ones(K) @ W) / np.linalg.norm(W) / K**0.5}
    expected |= {"row_sum": np.linalg.norm(W @ np.ones(D)) / np.linalg.norm(W) / D**0.5}
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)
    # What the loss sees: differences of outputs under cross-entropy, all of them under squared error.
    for shifts, seen in ((False, W - W.mean(0)), (True, W)):
        projector = np.linalg.pinv(seen) @ seen
        in_rows = np.mean([np.sum((projector @ (h - means[k])) ** 2) for h, k in zip(H, y, strict=True)])
        found = collapse_metrics(torch.from_numpy(H), torch.from_numpy(W), Y, shifts)
        np.testing.assert_allclose(found["NC1_row"], in_rows / between, rtol=1e-6)
        np.testing.assert_allclose(found["NC1_null"], (within - in_rows) / between, rtol=1e-6)
        smaller = collapse_metrics(torch.from_numpy(H), torch.from_numpy(1e-4 * W), Y, shifts)
        np.testing.assert_allclose(smaller["NC1_row"], found["NC1_row"], rtol=1e-6)


def test_scatter_within_and_between_classes_and_the_mean_share_the_norm():
    """tr Sigma_W + tr Sigma_B + |mu_G|^2 = d for normalised features."""
    H = torch.nn.functional.layer_norm(
        torch.randn(K * N, D, generator=torch.Generator().manual_seed(2)).double(), (D,), eps=0
    )
    found = collapse_metrics(H, simplex(), Y)
    total = found["NC1"] * found["between"] + found["between"] + H.mean(0).square().sum()
    torch.testing.assert_close(total, torch.tensor(float(D), dtype=torch.float64))


def test_the_rank_of_inputs_counts_the_constant_and_not_what_they_were_rounded_to():
    generator = torch.Generator().manual_seed(3)
    few, many = torch.randn(30, 40, generator=generator), torch.randn(30, 8, generator=generator)
    assert (rank_with_constant(few), rank_with_constant(many)) == (30, 9)
    assert rank_with_constant(torch.cat([many, many @ torch.randn(8, 4, generator=generator)], 1)) == 9
