import math

import numpy as np
import pytest
import torch

from symlab.identifiability.subspace import coherence
from symlab.papers.neuron_identifiability.bounds import bernstein_moments, gram_deviation_bound, squared_moments
from symlab.papers.neuron_identifiability.theory import gram_deviation_table
from symlab.schemes import Residual, Scheme, Sparse, Standard, Syre, WAsymmetric
from symlab.schemes.fixed_parts import sample_fixed_parts

COLUMNS = "masks k_subspace nu mu_D sigma_D2 b_D deviation_max delta bound bound_all share_above assumption"

SCHEMES = [
    WAsymmetric(name="w_asymmetric", sigma_F=1.0, n_fixed=40),
    Syre(name="syre", sigma_F=1.0, epsilon=0.3),
    Sparse(name="sparse", density=0.6),
]
M, D_IN, K = 200, 120, 4


def subspace(d: int = D_IN, k: int = K) -> torch.Tensor:
    return torch.from_numpy(np.linalg.qr(np.random.default_rng(0).standard_normal((d, k)))[0])


def own_masks(scheme: Scheme) -> torch.Tensor | None:
    return sample_fixed_parts(scheme, {"w": (M, D_IN)}, "own")["w"][1]


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_masks_that_are_independent_of_the_subspace_stay_below_the_bound(scheme: Scheme) -> None:
    U, D = subspace(), own_masks(scheme)
    table = gram_deviation_table(D, U, M, scheme, 0.1, True, "seed")
    assert list(table.columns) == COLUMNS.split()
    assert table["masks"].tolist() == ["own", "fresh"]
    assert (table["assumption"] == "").all()
    assert (table["share_above"] <= 0.1).all()
    assert (table["deviation_max"] <= table["bound_all"]).all()
    moments = squared_moments(scheme, D_IN)
    u = U.numpy()
    deviations = [np.linalg.norm(u.T @ np.diag(d**2) @ u - moments.mu_D * np.eye(K), 2) for d in D.double().numpy()]
    own, fresh = table.iloc[0], table.iloc[1]
    assert own["deviation_max"] == pytest.approx(max(deviations))
    assert own["bound"] < 12 * np.median(deviations)
    assert own["share_above"] == np.mean(np.array(deviations) > own["bound"])
    assert own["deviation_max"] != fresh["deviation_max"]
    assert (own["mu_D"], own["sigma_D2"], own["b_D"]) == tuple(moments)
    proxies = bernstein_moments(scheme, D_IN)
    assert own["bound_all"] == gram_deviation_bound(proxies, coherence(U), K, 0.1 / M)


def test_a_subspace_that_the_masks_chose_is_above_the_bound_and_named() -> None:
    scheme = Sparse(name="sparse", density=0.9)
    D = torch.ones(M, 400)
    D[:, :10] = 0.0
    # A basis on the inputs that every mask hides: S_i = 0, although the subspace is as coherent as any.
    U = torch.zeros(400, 1, dtype=torch.float64)
    U[:10] = 10**-0.5
    table = gram_deviation_table(D, U, M, scheme, 0.1, False, "seed")
    own, fresh = table.iloc[0], table.iloc[1]
    assert own["deviation_max"] == pytest.approx(0.9) and own["share_above"] == 1.0
    assert own["assumption"] == "U depends on D"
    assert fresh["share_above"] <= 0.1 and fresh["assumption"] == ""


@pytest.mark.parametrize("scheme", [Standard(name="standard"), Residual(name="residual")])
def test_without_masks_there_is_neither_deviation_nor_bound(scheme: Scheme) -> None:
    table = gram_deviation_table(None, subspace(), M, scheme, 0.1, False, "seed")
    zeros = table[["deviation_max", "bound", "bound_all", "share_above", "sigma_D2", "b_D"]]
    assert not zeros.to_numpy().any()
    assert (table["assumption"] == "").all() and (table["mu_D"] == 1).all()


def test_fresh_masks_are_those_of_their_seed() -> None:
    scheme = SCHEMES[0]
    first, again, other = (
        gram_deviation_table(own_masks(scheme), subspace(), M, scheme, 0.1, True, seed)["deviation_max"]
        for seed in ("a", "a", "b")
    )
    assert first.equals(again) and first[0] == other[0] and first[1] != other[1]
    assert math.isfinite(first[1])
