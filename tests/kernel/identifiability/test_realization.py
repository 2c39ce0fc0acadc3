import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from symlab.errors import UserError
from symlab.identifiability.realization import (
    input_sensitivities,
    permutation_sensitivity,
    projected,
    realization_costs,
    swap_costs,
)

SCHEMES = ["standard", "w_asymmetric", "syre", "sparse", "residual"]


class Layer:
    """A random layer: W_eff, F, D and U as symlab takes them, and numpy views with F = 0 and D = 1 written out."""

    def __init__(
        self, scheme: str, m: int, d: int, k: int, seed: int, sigma_F: float = 1.0, density: float = 0.5
    ) -> None:
        rng = np.random.default_rng(seed)
        F: np.ndarray = np.zeros((m, d))
        D: np.ndarray = np.ones((m, d))
        if scheme == "w_asymmetric":
            hidden = rng.random((m, d)).argsort(axis=1) < max(1, d // 8)
            F, D = np.where(hidden, sigma_F * rng.standard_normal((m, d)), 0.0), 1.0 - hidden
        elif scheme == "syre":
            F, D = sigma_F * rng.standard_normal((m, d)), 1 / np.sqrt(rng.uniform(0.9, 1.1, (m, d)))
        elif scheme == "sparse":
            D = (rng.random((m, d)) < density).astype(float)
        elif scheme == "residual":
            F = np.eye(m, d)
        self.w_eff = F + D * rng.standard_normal((m, d)) / np.sqrt(d)
        self.f, self.d, self.u = F, D, np.linalg.qr(rng.standard_normal((d, k)))[0]
        self.W_eff, self.U = torch.from_numpy(self.w_eff), torch.from_numpy(self.u)
        self.F = None if scheme in ("standard", "sparse") else torch.from_numpy(F)
        self.D = None if scheme in ("standard", "residual") else torch.from_numpy(D)

    @property
    def parts(self) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor]:
        return self.W_eff, self.F, self.D, self.U


def swap_terms(layer: Layer) -> dict[str, np.ndarray]:
    """The three terms of Eq. (16) for all transpositions, [m, m] each, for full-rank S_i.

    With r_i = a_i - v_i: |v_j - v_i|^2 in S_i^-1 + S_j^-1; 2 <v_j - v_i, S_i^-1 r_j - S_j^-1 r_i>; and
    |r_j|^2 in S_i^-1 - S_j^-1 plus |r_i|^2 in S_j^-1 - S_i^-1.
    """
    V = layer.f @ layer.u
    R = layer.w_eff @ layer.u - V
    centre, cross, metric = (np.empty((len(V), len(V))) for _ in range(3))
    for i, row in enumerate(layer.d):
        inverse = np.linalg.inv(layer.u.T @ np.diag(row**2) @ layer.u)
        between = V - V[i]
        centre[i] = np.einsum("jk,kl,jl->j", between, inverse, between)
        cross[i] = np.einsum("jk,kl,jl->j", between, inverse, R)
        metric[i] = np.einsum("jk,kl,jl->j", R, inverse, R)
    own = metric.diagonal()
    return {
        "centre": centre + centre.T,
        "cross": 2 * (cross + cross.T),
        "mismatch": metric + metric.T - own[:, None] - own[None, :],
    }


def input_sensitivity(layer: Layer, tau: Tensor) -> float:
    return float(input_sensitivities(*layer.parts, tau[None], mu_D=1.0).costs[0])


def least_norm_costs(layer: Layer) -> np.ndarray:
    """c(i, j)^2 from definition (8): the least |w|^2 with U^T (f_i + d_i * w) = a_j, infinite without a solution."""
    a = layer.w_eff @ layer.u
    m = len(a)
    costs = np.full((m, m), np.inf)
    for i in range(m):
        M = layer.u.T * layer.d[i]
        for j in range(m):
            target = a[j] - layer.u.T @ layer.f[i]
            w = np.linalg.lstsq(M, target, rcond=None)[0]
            if np.linalg.norm(M @ w - target) < 1e-9:
                costs[i, j] = w @ w
    return costs


@given(
    scheme=st.sampled_from(SCHEMES),
    m=st.integers(1, 7),
    d=st.integers(2, 16),
    data=st.data(),
    seed=st.integers(0, 2**31),
)
def test_the_cost_is_the_least_weight_norm(scheme: str, m: int, d: int, data: st.DataObject, seed: int) -> None:
    layer = Layer(scheme, m, d, data.draw(st.integers(1, d)), seed)
    C2 = realization_costs(*layer.parts)
    assert C2.dtype == torch.float64
    np.testing.assert_allclose(C2, least_norm_costs(layer), rtol=1e-6, atol=1e-9)


def test_costs_are_infinite_exactly_where_the_function_is_out_of_reach() -> None:
    layer = Layer("sparse", m=24, d=12, k=4, seed=5, density=0.35)
    C2, expected = realization_costs(*layer.parts), least_norm_costs(layer)
    infinite = np.isinf(expected)
    assert 0.1 < infinite.mean() < 0.9
    np.testing.assert_array_equal(np.isinf(C2.numpy()), infinite)
    np.testing.assert_allclose(C2.numpy()[~infinite], expected[~infinite], rtol=1e-6)
    assert bool(torch.isfinite(C2.diagonal()).all())
    Delta = swap_costs(C2)
    np.testing.assert_array_equal(np.isinf(Delta.numpy()), infinite | infinite.T)
    assert not bool(torch.isnan(Delta).any())
    assert bool((Delta[torch.isinf(Delta)] > 0).all())


def test_a_neuron_without_inputs_realizes_only_its_own_centre() -> None:
    U = torch.eye(3, dtype=torch.float64)[:, :2]
    F = torch.tensor([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    D = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    W_eff = torch.tensor([[1.0, 2.0, 0.0], [1.0, 2.0, 5.0]])
    expected = torch.tensor([[0.0, 0.0], [5.0, 5.0]], dtype=torch.float64)
    torch.testing.assert_close(realization_costs(W_eff, F, D, U), expected)


def test_a_mask_that_hides_every_varying_input_leaves_nothing_but_the_centre() -> None:
    U = torch.linalg.qr(torch.randn(3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q
    U = torch.cat([U, torch.full((9, 2), 1e-16, dtype=torch.float64)])
    D = torch.ones(2, 12)
    D[0, :3] = 0
    C2 = realization_costs(D.clone(), None, D, U)
    assert torch.isinf(C2).tolist() == [[False, True], [False, False]]


def test_example_4_3_prices_what_the_masks_hide() -> None:
    epsilon = 1e-3
    U = torch.tensor([[1, 0], [epsilon, 0], [0, 1], [0, epsilon]], dtype=torch.float64) / (1 + epsilon**2) ** 0.5
    D = torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 1.0, 0.0]], dtype=torch.float64)
    C2 = realization_costs(D, None, D, U)
    assert C2[0, 0] == pytest.approx(2.0)
    assert C2[0, 1] == pytest.approx(epsilon**2 + epsilon**-2)


def test_a_weak_access_to_a_direction_is_expensive_and_not_infinite() -> None:
    weak = 1e-7
    D = torch.tensor([[1.0, weak], [1.0, 1.0]], dtype=torch.float64)
    W_eff = torch.tensor([[1.0, weak], [1.0, 1.0]], dtype=torch.float64)
    C2 = realization_costs(W_eff, None, D, torch.eye(2, dtype=torch.float64))
    torch.testing.assert_close(C2, torch.tensor([[2.0, 1 + weak**-2], [1 + weak**2, 2.0]], dtype=torch.float64))


def test_the_costs_depend_on_the_span_of_the_basis_only() -> None:
    layer = Layer("w_asymmetric", m=9, d=20, k=5, seed=0)
    whole = realization_costs(*layer.parts)
    turned = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q
    for U in (layer.U @ turned, layer.U @ turned * 2):
        torch.testing.assert_close(realization_costs(*layer.parts[:3], U), whole, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n_hidden", [0, 1, 4, 5, 11])
def test_few_hidden_inputs_take_a_shortcut_with_the_same_result(n_hidden: int) -> None:
    layer = Layer("standard", m=6, d=24, k=5, seed=n_hidden)
    rng = np.random.default_rng(n_hidden)
    layer.d = (rng.random((6, 24)).argsort(axis=1) >= n_hidden).astype(float)
    layer.w_eff = layer.w_eff * layer.d
    expected = np.array(
        [[a @ np.linalg.solve(layer.u.T * d**2 @ layer.u, a) for a in layer.w_eff @ layer.u] for d in layer.d]
    )
    C2 = realization_costs(torch.from_numpy(layer.w_eff), None, torch.from_numpy(layer.d), layer.U)
    np.testing.assert_allclose(C2, expected, rtol=1e-10)


def test_the_projections_are_theirs() -> None:
    layer = Layer("syre", m=4, d=9, k=3, seed=2)
    A, V = projected(layer.W_eff.float(), layer.F, layer.U)
    assert A.dtype == V.dtype == torch.float64
    np.testing.assert_allclose(A, layer.w_eff @ layer.u, atol=1e-6)
    np.testing.assert_allclose(V, layer.f @ layer.u, atol=1e-13)
    assert not projected(layer.W_eff, None, layer.U)[1].any()


@given(
    scheme=st.sampled_from(SCHEMES),
    m=st.integers(1, 12),
    d=st.integers(8, 40),
    data=st.data(),
    seed=st.integers(0, 2**31),
)
def test_equation_14_equals_equation_16(scheme: str, m: int, d: int, data: st.DataObject, seed: int) -> None:
    layer = Layer(scheme, m, d, data.draw(st.integers(1, 4)), seed, density=0.9)
    Delta = swap_costs(realization_costs(*layer.parts))
    if bool(torch.isfinite(Delta).all()):
        by_difference = torch.from_numpy(sum(swap_terms(layer).values()))
        torch.testing.assert_close(Delta, by_difference, rtol=1e-7, atol=1e-8 * float(Delta.abs().max()) + 1e-11)
    assert torch.equal(Delta, Delta.T)
    assert not Delta.diagonal().any()


def test_swapping_neurons_of_a_standard_layer_is_free() -> None:
    layer = Layer("standard", m=10, d=12, k=5, seed=0)
    C2 = realization_costs(*layer.parts)
    np.testing.assert_allclose(C2, np.tile(((layer.w_eff @ layer.u) ** 2).sum(axis=1), (10, 1)), rtol=1e-13)
    assert not swap_costs(C2).any()
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    assert permutation_sensitivity(C2, order) == pytest.approx(0)


def test_a_swap_of_far_apart_centres_keeps_the_digits_of_small_weights() -> None:
    rng = np.random.default_rng(0)
    F = torch.from_numpy(1e6 * rng.standard_normal((3, 5)))
    W = torch.from_numpy(1e-3 * rng.standard_normal((3, 5)))
    own = realization_costs(F + W, F, None, torch.eye(5, dtype=torch.float64)).diagonal()
    torch.testing.assert_close(own, W.square().sum(dim=1), rtol=1e-6, atol=0)


@given(m=st.integers(2, 8), data=st.data(), seed=st.integers(0, 2**31))
def test_permutation_sensitivity_sums_the_reassigned_costs(m: int, data: st.DataObject, seed: int) -> None:
    layer = Layer("w_asymmetric", m, 16, 3, seed)
    C2 = realization_costs(*layer.parts)
    order = data.draw(st.permutations(range(m)))
    by_hand = sum(float(C2[i, order[i]] - C2[i, i]) for i in range(m))
    assert permutation_sensitivity(C2, torch.tensor(order)) == pytest.approx(by_hand, rel=1e-9, abs=1e-9)
    i, j = sorted(data.draw(st.sets(st.integers(0, m - 1), min_size=2, max_size=2)))
    transposition = torch.arange(m)
    transposition[i], transposition[j] = j, i
    assert permutation_sensitivity(C2, transposition) == pytest.approx(float(swap_costs(C2)[i, j]), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_input_sensitivity_is_the_cost_of_the_reindexed_layer(scheme: str) -> None:
    layer = Layer(scheme, m=8, d=24, k=4, seed=6, density=0.8)
    tau = torch.randperm(24, generator=torch.Generator().manual_seed(1))
    P = torch.eye(24, dtype=torch.float64)[tau]
    before = realization_costs(*layer.parts).trace()
    # H(P^T x) has the weights W P^T, on inputs from the span of P U.
    after = realization_costs(layer.W_eff @ P.T, layer.F, layer.D, P @ layer.U).trace()
    assert input_sensitivity(layer, tau) == pytest.approx(float(after - before), rel=1e-9, abs=1e-9)
    assert input_sensitivity(layer, torch.arange(24)) == pytest.approx(0, abs=1e-9)


def test_reindexing_can_take_a_function_out_of_reach() -> None:
    D = torch.tensor([[1.0, 0.0]])
    U = torch.tensor([[1.0], [0.0]])
    assert float(input_sensitivities(D, None, D, U, torch.tensor([[1, 0]]), mu_D=1.0).costs[0]) == float("inf")


@pytest.mark.parametrize("measure", [swap_costs, lambda C2: permutation_sensitivity(C2, torch.arange(2))])
def test_fixed_parts_of_another_network_are_told(measure: object) -> None:
    C2 = torch.tensor([[1.0, 2.0], [3.0, torch.inf]])
    with pytest.raises(UserError, match="Neuron 1 does not realize its own function"):
        measure(C2)  # type: ignore[operator]


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_threads_changes_nothing_and_is_restored(threads: int) -> None:
    layer = Layer("sparse", m=7, d=12, k=4, seed=0)
    expected, before = realization_costs(*layer.parts), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert torch.equal(realization_costs(*layer.parts), expected)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_diverged_weights_are_told() -> None:
    with pytest.raises(UserError, match="diverged"):
        realization_costs(torch.full((2, 3), torch.nan), None, None, torch.eye(3))
