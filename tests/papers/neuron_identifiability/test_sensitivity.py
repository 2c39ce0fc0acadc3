import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from symlab.errors import UserError
from symlab.identifiability.realization import input_sensitivities
from symlab.papers.neuron_identifiability.sensitivity import _draw, sensitivity_table

COLUMNS = ["side", "permutation", "draw", "cost", "leading", "rho", "eps", "mu_D", "bound", "assumption"]


class Layer:
    def __init__(self, scheme: str, m: int, d: int, k: int, seed: int, sigma_F: float, trained: float) -> None:
        rng = np.random.default_rng(seed)
        F, D, self.mu = np.zeros((m, d)), np.ones((m, d)), 1.0
        if scheme == "w_asymmetric":
            hidden = rng.random((m, d)).argsort(axis=1) < d // 8
            F, D, self.mu = np.where(hidden, sigma_F * rng.standard_normal((m, d)), 0.0), 1.0 - hidden, 1 - (d // 8) / d
        elif scheme == "syre":
            F, D = sigma_F * rng.standard_normal((m, d)), 1 / np.sqrt(rng.uniform(0.9, 1.1, (m, d)))
            self.mu = np.arctanh(0.1) / 0.1
        elif scheme == "sparse":
            D, self.mu = (rng.random((m, d)) < 0.5).astype(float), 0.5
        elif scheme == "residual":
            F = np.eye(m, d)
        self.F, self.D, self.U = F, D, np.linalg.qr(rng.standard_normal((d, k)))[0]
        self.W = F + D * trained * rng.standard_normal((m, d))

    @property
    def parts(self) -> tuple:
        given = (self.W, self.F if self.F.any() else None, self.D if (self.D != 1).any() else None, self.U)
        return tuple(None if x is None else torch.from_numpy(x) for x in given)

    def cost(self, W: np.ndarray, U: np.ndarray, order: np.ndarray | None = None) -> float:
        """sum_i c(i, order(i))^2 on the inputs spanned by U, the targets being the functions W U of the rows."""
        order = np.arange(len(W)) if order is None else order
        total = 0.0
        for f, d, target in zip(self.F, self.D, W[order], strict=True):
            S, b = U.T @ np.diag(d**2) @ U, U.T @ (target - f)
            total += b @ np.linalg.solve(S, b)
        return total

    def deviation(self, U: np.ndarray) -> float:
        return max(np.linalg.norm(U.T @ np.diag(d**2) @ U - self.mu * np.eye(U.shape[1]), 2) for d in self.D)


@pytest.mark.parametrize("scheme", ["w_asymmetric", "syre", "sparse", "residual", "standard"])
@pytest.mark.parametrize("k", [3, 8])
def test_every_row_is_its_definition_with_explicit_permutation_matrices(scheme: str, k: int) -> None:
    layer = Layer(scheme, m=9, d=40, k=k, seed=0, sigma_F=2.0, trained=0.1)
    table = sensitivity_table(*layer.parts, layer.mu, 3, "seed")
    assert list(table.columns) == COLUMNS
    assert table["side"].tolist() == ["output"] * 6 + ["input"] * 6
    assert table["permutation"].tolist() == (["transposition"] * 3 + ["random"] * 3) * 2
    assert table["draw"].tolist() == [0, 1, 2] * 4
    W, F, U, mu = layer.W, layer.F, layer.U, layer.mu
    before, R = layer.cost(W, U), (W - F) @ U
    of_neurons, of_inputs = _draw(9, 3, "seed", "output").numpy(), _draw(40, 3, "seed", "input").numpy()
    for index, row in table.iterrows():
        if row["side"] == "output":
            order = of_neurons[index]
            P = np.eye(9)[order]
            delta, trainable = (P - np.eye(9)) @ F @ U, (np.eye(9) - np.diag(np.diag(P))) @ R
            cost, eps = layer.cost(W, U, order) - before, layer.deviation(U)
        else:
            P = np.eye(40)[of_inputs[index - 6]]
            delta, trainable = F @ (P - np.eye(40)) @ U, R
            cost = layer.cost(W @ P.T, P @ U) - before
            eps = max(layer.deviation(U), layer.deviation(P @ U))
        assert row["cost"] == pytest.approx(cost, rel=1e-9, abs=1e-9 * before)
        assert row["eps"] == pytest.approx(eps, abs=1e-13)
        assert row["leading"] == pytest.approx(np.linalg.norm(delta) ** 2 / mu)
        if np.linalg.norm(delta) > 0:
            rho = np.linalg.norm(trainable) / np.linalg.norm(delta)
            assert row["rho"] == pytest.approx(rho)
            tail = eps / (mu - eps) * (1 + 2 * rho + 2 * rho**2)
            assert row["bound"] == pytest.approx(2 * rho + tail) or (eps >= mu and np.isnan(row["bound"]))
        else:
            assert np.isinf(row["rho"]) and np.isnan(row["bound"])
            assert row["assumption"].startswith(f"{'delta' if F.any() else 'F'} = 0: no leading term")


@given(
    scheme=st.sampled_from(["w_asymmetric", "syre", "residual"]),
    m=st.integers(2, 12),
    d=st.integers(16, 80),
    k=st.integers(1, 4),
    sigma_F=st.floats(0.05, 50),
    trained=st.floats(0.001, 1),
    seed=st.integers(0, 2**31),
)
def test_the_bounds_are_never_violated(
    scheme: str, m: int, d: int, k: int, sigma_F: float, trained: float, seed: int
) -> None:
    layer = Layer(scheme, m, d, k, seed, sigma_F, trained)
    table = sensitivity_table(*layer.parts, layer.mu, 2, seed)
    table = table[table["bound"].notna()]
    excess = (table["cost"] / table["leading"] - 1).abs() - table["bound"]
    assert (excess <= 1e-7 * (1 + table["bound"])).all()


def test_the_bound_is_reached_by_two_antipodal_centres_that_training_drew_closer() -> None:
    F = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    table = sensitivity_table(F / 2, F, None, torch.eye(2), 1.0, 2, "seed")
    swaps = table[table["side"] == "output"]
    np.testing.assert_allclose(swaps["cost"] / swaps["leading"] - 1, -0.5)
    np.testing.assert_allclose(swaps["bound"], 0.5)
    assert (table["assumption"] == "").all()
    overshot = sensitivity_table(-2 * F, F, None, torch.eye(2), 1.0, 2, "seed")
    overshot = overshot[overshot["side"] == "output"]
    np.testing.assert_allclose(overshot["cost"] / overshot["leading"] - 1, -overshot["bound"])
    assert (overshot["assumption"] == "rho = 1.5 > 1").all()


def test_violated_assumptions_are_named() -> None:
    small = sensitivity_table(*(layer := Layer("w_asymmetric", 8, 64, 2, 1, 0.01, 1.0)).parts, layer.mu, 2, "s")
    assert small["assumption"].str.match(r"rho = [\d.e+]+ > 1").all()
    assert (small["rho"] > 1).all() and small["bound"].notna().all()
    coherent = Layer("w_asymmetric", 8, 16, 8, 1, 100.0, 0.1)
    masked = sensitivity_table(*coherent.parts, coherent.mu, 2, "s")
    assert masked["assumption"].str.match(r"eps = [\d.]+ > mu_D / 2 = 0.438").all()
    with_F_zero = [x.clone() if x is not None else None for x in coherent.parts]
    with_F_zero[1] = torch.zeros_like(with_F_zero[0])
    with_F_zero[0] = with_F_zero[2]
    zero = sensitivity_table(*with_F_zero, coherent.mu, 2, "s")
    assert zero["assumption"].str.startswith("F = 0: no leading term; eps").all()
    assert not zero["leading"].any() and zero["bound"].isna().all() and np.isinf(zero["rho"]).all()


def test_swaps_that_move_no_centre_say_so() -> None:
    U = torch.zeros(6, 1, dtype=torch.float64)
    U[:, 0] = torch.tensor([1.0, 1e-17, -2e-17, 3e-17, 0.0, 1e-18])
    F = torch.randn(1, 6, generator=torch.Generator().manual_seed(0)).repeat(5, 1)
    table = sensitivity_table(F + 1, F, None, U, 1.0, 8, "seed")
    output = table[table["side"] == "output"]
    assert (output["assumption"] == "delta = 0: no leading term").all()
    swaps = table[(table["side"] == "input") & (table["permutation"] == "transposition")]
    of_inputs = _draw(6, 8, "seed", "input")
    blind = np.array([int(tau[0]) == 0 for tau in of_inputs[:8]])
    assert 0 < blind.sum() < 8
    assert ((swaps["assumption"] == "delta = 0: no leading term").to_numpy() == blind).all()


def test_a_function_out_of_reach_costs_infinitely_much_and_has_no_bound() -> None:
    D = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
    F = 1 - D
    U = torch.eye(3, dtype=torch.float64)[:, :2]
    table = sensitivity_table(F + D, F, D, U, 2 / 3, 4, "seed")
    output = table[table["side"] == "output"]
    assert not table["cost"].isna().any()
    assert table["bound"].isna().all()
    assert output["assumption"].str.contains("eps = 0.667 > mu_D / 2").all()
    far = sensitivity_table(F + 2 * D, F, D, U, 2 / 3, 4, "seed")
    assert np.isinf(far["cost"]).any() and not far["cost"].isna().any()


def test_permutations_move_something_and_are_those_of_their_seed() -> None:
    drawn = _draw(2, 20, "seed")
    assert (drawn == torch.tensor([1, 0])).all()
    assert torch.equal(_draw(9, 3, "seed"), _draw(9, 3, "seed"))
    assert not torch.equal(_draw(9, 3, "seed"), _draw(9, 3, "other"))
    assert ((_draw(9, 50, "seed")[:50] != torch.arange(9)).sum(dim=1) == 2).all()
    with pytest.raises(UserError, match="nothing to permute"):
        sensitivity_table(torch.ones(1, 3), None, None, torch.eye(3), 1.0, 1, "seed")


@pytest.mark.parametrize("threads", [1, 3])
def test_the_number_of_threads_changes_nothing(threads: int) -> None:
    layer = Layer("w_asymmetric", 12, 40, 4, 3, 1.0, 0.1)
    permutations = _draw(40, 3, "threads")
    expected, before = input_sensitivities(*layer.parts, permutations, layer.mu), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = input_sensitivities(*layer.parts, permutations, layer.mu)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found.costs, expected.costs)
    torch.testing.assert_close(found.deviations, expected.deviations, rtol=1e-13, atol=0)
