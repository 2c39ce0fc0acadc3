"""Tail energies, what neurons do beyond the subspace, and relaxed costs against minimisation by hand."""

import numpy as np
import pytest
import torch

from symlab.identifiability.subspace import Covariance, principal_subspace
from symlab.papers.neuron_identifiability.tail_energy import (
    realize,
    relaxed_costs,
    second_moment,
    tail_energy,
    tail_energy_table,
)


@pytest.fixture
def layer():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(500, 6, generator=generator, dtype=torch.float64) * torch.tensor([3, 2, 0.3, 0.2, 0.1, 0.1]) + 0.5
    inputs = Covariance()
    inputs.update(x[:200])
    inputs.update(x[200:])
    W, F = (torch.randn(4, 6, generator=generator, dtype=torch.float64) for _ in "WF")
    D = (torch.rand(4, 6, generator=generator) > 0.2).double()
    D[:, :3] = 1
    return x, inputs, F + D * W, F, D, principal_subspace(inputs.covariance(), 0.9).U


def test_the_second_moment_and_what_the_subspace_leaves_are_those_of_the_samples(layer):
    x, inputs, _, _, _, U = layer
    torch.testing.assert_close(second_moment(inputs), x.T @ x / len(x))
    rest = x - x @ U @ U.T
    assert tail_energy(second_moment(inputs), U) == pytest.approx(float(rest.square().sum(dim=1).mean()))


def test_a_neuron_realizes_another_on_the_subspace_with_the_smallest_weights(layer):
    _, _, W_eff, F, D, U = layer
    hard, u = realize(W_eff, F, D, U)
    for i in range(4):
        for j in range(4):
            reach = (U.T * D[i]).numpy()
            w = np.linalg.lstsq(reach, (U.T @ (W_eff[j] - F[i])).numpy(), rcond=None)[0]
            assert float(hard[i, j]) == pytest.approx(w @ w)
            np.testing.assert_allclose(u[i, j].numpy(), (F[i] + D[i] * torch.from_numpy(w)).numpy(), atol=1e-10)


def test_a_neuron_whose_mask_hides_the_subspace_realizes_nothing_but_itself(layer):
    _, _, W_eff, F, D, U = layer
    D[1] = 0
    W_eff[1] = F[1]
    hard, u = realize(W_eff, F, D, U)
    assert hard[1].isnan().tolist() == [True, False, True, True]
    assert u[1, 0].isnan().all()


@pytest.mark.parametrize("beta", [0.01, 1.0])
def test_a_relaxed_cost_is_the_least_of_its_objective(layer, beta):
    x, inputs, W_eff, F, D, _ = layer
    costs = relaxed_costs(W_eff, F, D, second_moment(inputs), beta)
    for i, j in ((0, 0), (0, 1), (3, 2)):
        # Ridge regression as least squares: sqrt(1 / (n beta)) times the residuals, and w itself.
        scale = 1 / np.sqrt(len(x) * beta)
        design = np.vstack([scale * (x * D[i]).numpy(), np.eye(6)])
        target = np.concatenate([scale * (x @ (W_eff[j] - F[i])).numpy(), np.zeros(6)])
        residual = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
        assert float(costs[i, j]) == pytest.approx(residual @ residual)


def test_without_a_tail_relaxed_costs_tend_to_the_hard_ones(layer):
    _, _, W_eff, F, D, U = layer
    Sigma = U @ U.T
    row = tail_energy_table(W_eff, F, D, U, Sigma, [1e-9], 4).iloc[0]
    assert row["tail"] == pytest.approx(0, abs=1e-12)
    assert row["relaxed"] == pytest.approx(row["hard"], rel=1e-6)


def test_shares_of_the_bounds_are_the_largest_of_all_pairs(layer):
    x, inputs, W_eff, F, D, U = layer
    beta = 0.1
    row = tail_energy_table(W_eff, F, D, U, second_moment(inputs), [beta], 4).iloc[0]
    hard, u = realize(W_eff, F, D, U)
    costs = relaxed_costs(W_eff, F, D, second_moment(inputs), beta)
    error, cost = [], []
    for i in range(4):
        for j in range(4):
            room = 2 * float(W_eff[j] @ W_eff[j] + u[i, j] @ u[i, j]) * row["tail"]
            error.append(float((x @ (W_eff[j] - u[i, j])).square().mean()) / room)
            cost.append(float(costs[i, j]) / (float(hard[i, j]) + room / beta))
    assert row["error_share"] == pytest.approx(max(error))
    assert row["cost_share"] == pytest.approx(max(cost))
    assert max(error) <= 1
    assert max(cost) <= 1


def test_where_no_neuron_can_realize_another_the_row_says_so(layer):
    _, inputs, _, F, _, U = layer
    rows = tail_energy_table(F, F, torch.zeros(4, 6), U, second_moment(inputs), [0.1], 4)
    assert rows["assumption"].tolist() == ["no neuron can realize another on the subspace"]
