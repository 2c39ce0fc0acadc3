"""Appendix C's inputs, and that networks read them as they are given."""

import numpy as np
import pytest
import torch

from symlab.measures.job import Job
from symlab.papers.neural_collapse.made_data import PLACEMENTS, isometry, perturb_classes
from symlab.papers.neural_collapse.settings import PerturbedClasses
from symlab.seeds import torch_generator

Y = torch.arange(3).repeat_interleave(4)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_perturbation_lies_where_it_should_and_moves_no_class(placement):
    E = perturb_classes(Y, 3, 0.1, placement, torch.Generator().manual_seed(0)) - torch.eye(6)[Y]
    inside, outside = E[:, :3], E[:, 3:]
    shown, none = (inside, outside) if placement == PLACEMENTS[0] else (outside, inside)
    assert none.abs().max() < 1e-7
    torch.testing.assert_close(shown.square().sum(), torch.tensor(12 * 0.1**2))
    torch.testing.assert_close(E.view(3, 4, 6).mean(dim=1), torch.zeros(3, 6), atol=1e-7, rtol=0)


def test_an_isometry_that_layernorm_only_scales():
    W = isometry(6, 16)
    torch.testing.assert_close(W.T @ W, torch.eye(6), atol=1e-6, rtol=0)
    torch.testing.assert_close(W.sum(0), torch.zeros(6), atol=1e-6, rtol=0)


def test_every_network_reads_its_own_inputs(experiment):
    settings = PerturbedClasses(eps=[0.1, 0.4], L=[2], steps=20, iterations=20, seeds=1)
    table = experiment("neural_collapse.perturbed_classes", settings, Job("s"))["perturbed_classes.csv"]
    assert len(table) == 4 * 2 * 2 and not table.isna().any().any()
    assert (table["total"] <= table["without"] * 1.001).all()
    # NC1 of points on a sphere: of norm 1 + |E|^2 where E is across, and to first order for small E within.
    across = table[(table["placement"] == PLACEMENTS[1]) & (table["eps"] == 0.1)]
    np.testing.assert_allclose(across["NC1_in"], 0.1**2 / (2 / 3), rtol=0.02)
    assert table["NC1_in"].nunique() == 4
    # The loss without branches is the least one of any readout: (1 / 2N) |Y - P Y|^2 of ridge's P, by another route.
    row = table[(table["scheme"] == "rn2 split") & (table["eps"] == 0.4)].iloc[0]
    x = perturb_classes(Y, 3, 0.4, row["placement"], torch_generator("s", row["placement"], "0.4", 0)).double().numpy()
    X, one_hot = 4 * x / np.linalg.norm(x, axis=1, keepdims=True), np.eye(3)[Y]
    kernel = X @ X.T + 12 * 0.005 * np.eye(12)
    np.testing.assert_allclose(
        row["without"], 0.005 / 2 * np.sum(one_hot * np.linalg.solve(kernel, one_hot)), rtol=1e-4
    )
