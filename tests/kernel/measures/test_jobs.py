"""What each measure's job hands to the formulas: split, snapshot, layer and side of the pair, against plain code.

Two seeds of one mask with batch norm; the splits differ in size, mean and covariance, the snapshots in everything.
"""

from itertools import combinations
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch import nn

from symlab.connectivity.path import curve
from symlab.data import Digits, load
from symlab.data.dataset import save
from symlab.measures import symmetries
from symlab.measures.identify import measure_swap_costs
from symlab.measures.interpolate import walk_paths
from symlab.measures.job import Job
from symlab.measures.match import match_pairs
from symlab.measures.moments import correlate_activations
from symlab.measures.rows import rows_at_once
from symlab.measures.settings import Identification, Interpolation, Matching
from symlab.networks import NETWORKS, build
from symlab.settings import choose
from symlab.symmetries.stored_forward import NotStorable, store
from symlab.symmetries.trace import trace

from .conftest import EPOCHS, NETWORK, SIZES

JOB = Job("study", "variant", "0")


def loaded(state):
    module = build(NETWORK, 4, 3)
    module.load_state_dict(state)
    return module.eval()


def values(state, x):
    """What the layers of a network read and give: inputs, both hidden layers after the activation, and outputs."""
    module, found = loaded(state), [torch.as_tensor(x)]
    with torch.no_grad():
        for linear, norm in zip(module.linears, module.norms, strict=False):
            found.append(torch.relu(norm(linear(found[-1]))))
        return [value.double().numpy() for value in (*found, module.linears[2](found[-1]))]


def correlations(models, data, epoch, split="train"):
    """Of the neurons of seed 4 (rows) with those of seed 5 (columns), of both hidden layers."""
    x, _ = data.split(split)
    (_, *hidden_A, _), (_, *hidden_B, _) = (values(models.state(epoch, position), x) for position in (0, 1))
    found = {}
    for layer, (a, b) in enumerate(zip(hidden_A, hidden_B, strict=True), start=1):
        with np.errstate(invalid="ignore"):
            S = np.corrcoef(a.T, b.T)[: a.shape[1], a.shape[1] :]
        found[f"hidden{layer}"] = np.nan_to_num(S)
    return found


@pytest.mark.parametrize(
    ("network", "device", "entries", "rows"),
    [("mlp", "cuda", 784, 8192), ("mlp", "cpu", 784, 1024), ("resnet20", "cuda", 3072, 1024)],
)
def test_only_multilayer_perceptrons_on_a_gpu_take_more_rows_than_other_networks(network, device, entries, rows):
    models = SimpleNamespace(header={"network": {"name": network}})
    assert rows_at_once(models, torch.zeros(2, entries), device) == rows


@pytest.fixture(scope="module")
def moments(models, data):
    return correlate_activations(models, data, Matching(), JOB)["moments.safetensors"]


def test_moments_correlate_the_neurons_of_a_with_those_of_b_on_the_training_data(models, data, moments):
    found, header = moments
    assert header["samples"] == SIZES["train"]
    assert found.keys() == {f"{epoch}/7.2/hidden{layer}" for epoch in EPOCHS for layer in (1, 2)}
    for epoch in EPOCHS:
        for group, S in correlations(models, data, epoch).items():
            np.testing.assert_allclose(found[f"{epoch}/7.2/{group}"], S, atol=1e-5)


def test_moments_of_fewer_samples_are_those_of_the_first(models, data):
    found, header = correlate_activations(models, data, Matching(samples=40), JOB)["moments.safetensors"]
    few = SimpleNamespace(split=lambda name: tuple(array[:40] for array in data.split(name)))
    assert header["samples"] == 40
    for group, S in correlations(models, few, EPOCHS[-1]).items():
        np.testing.assert_allclose(found[f"{EPOCHS[-1]}/7.2/{group}"], S, atol=1e-5)


@pytest.fixture(scope="module")
def matched(models, data, moments):
    settings = Matching(method=["weight", "activation"], restarts=20, n_random=3)
    return match_pairs(models, data, settings, Job("study", "variant", "0", inputs={"moments.safetensors": moments}))


def test_matching_by_activations_is_the_best_assignment_at_each_snapshot(models, data, matched):
    permutations, _ = matched["permutations.safetensors"]
    table = matched["matching.csv"].set_index(["epoch", "point", "permutation"])["objective"]
    for epoch in EPOCHS:
        for group, S in correlations(models, data, epoch).items():
            _, pi = linear_sum_assignment(-S)
            found = permutations[f"activation/{epoch}/7.2/{group}"]
            assert S[range(len(S)), found].sum() == pytest.approx(S[range(len(S)), pi].sum())
            assert table[epoch, group, "optimal"] == pytest.approx(S[range(len(S)), pi].mean(), abs=1e-5)
            assert table[epoch, group, "identity"] == pytest.approx(np.diag(S).mean(), abs=1e-5)
            by_weight = permutations[f"weight/{epoch}/7.2/{group}"]
            assert table[epoch, group, "weight"] == pytest.approx(S[range(len(S)), by_weight].mean(), abs=1e-5)


def renumbered(state, pi_1, pi_2):
    """Position i of a hidden layer holds neuron pi[i]."""
    moved = dict(state)
    for layer, pi in enumerate((pi_1, pi_2)):
        for name in state:
            if name.startswith((f"linears.{layer}.", f"norms.{layer}.")) and state[name].dim():
                moved[name] = moved[name][pi]
        moved[f"linears.{layer + 1}.weight"] = moved[f"linears.{layer + 1}.weight"][:, pi]
    return moved


def test_matching_by_weights_is_of_b_to_a_and_no_swap_does_better(models, matched):
    permutations, header = matched["permutations.safetensors"]
    assert header["methods"] == ["weight", "activation"]
    for epoch in EPOCHS:
        A, B = (models.state(epoch, position) for position in (0, 1))
        pi = [permutations[f"weight/{epoch}/7.2/hidden{layer}"] for layer in (1, 2)]

        def agreement(pi_1, pi_2, A=A, B=B):
            moved = renumbered(B, torch.as_tensor(pi_1), torch.as_tensor(pi_2))
            return sum(float((A[name] * moved[name]).sum()) for name in A if "running" not in name and A[name].dim())

        best = agreement(*pi)
        for layer, d in enumerate((5, 6)):
            for i, j in combinations(range(d), 2):
                swapped = [each.copy() for each in pi]
                swapped[layer][[i, j]] = swapped[layer][[j, i]]
                assert agreement(*swapped) < best


@pytest.mark.parametrize("samples", [None, 40])
def test_paths_are_walked_at_the_end_of_training_with_batch_norm_statistics_of_the_training_data(
    models, data, matched, samples
):
    """Of every split; aligned ones lead to the renumbered B."""
    inputs = {"permutations.safetensors": matched["permutations.safetensors"]}
    settings = Interpolation(lambdas=3, samples=samples, splits=["test", "train"])
    found = walk_paths(models, data, settings, Job("study", "variant", "0", inputs=inputs))["curves.csv"]
    assert len(found) == 3 * 2 * 3 and (found["mask_seed"] == 7).all() and (found["pair"] == 2).all()
    assert (found["aligned"] == (found["matching"] != "none")).all()
    A, B = (models.state(EPOCHS[-1], position) for position in (0, 1))
    for (matching, split, lam), row in found.set_index(["matching", "split", "lambda"]).iterrows():
        end = B
        if matching != "none":
            pi = [inputs["permutations.safetensors"][0][f"{matching}/3/7.2/hidden{layer}"] for layer in (1, 2)]
            end = renumbered(B, *map(torch.as_tensor, pi))
        module = loaded({name: torch.lerp(a, end[name], lam) if a.is_floating_point() else a for name, a in A.items()})
        for norm in module.norms:
            norm.momentum = 1.0
        with torch.no_grad():
            # The running statistics become those of the only batch.
            module.train()(torch.from_numpy(data.split("train")[0][:samples]))
            x, y = (torch.from_numpy(part[:samples]) for part in data.split(split))
            logits = module.eval()(x)
        assert row["loss"] == pytest.approx(float(nn.functional.cross_entropy(logits, y)), rel=1e-4)
        assert row["accuracy"] == pytest.approx(float((logits.argmax(1) == y).double().mean()))


def test_paths_with_repair_are_those_of_rescaled_networks(models, data):
    settings = Interpolation(lambdas=3, splits=["test"], repair=True)
    found = walk_paths(models, data, settings, JOB)["curves.csv"]
    (x, y), (train, _) = (map(torch.from_numpy, data.split(split)) for split in ("test", "train"))
    A, B = (models.state(EPOCHS[-1], position) for position in (0, 1))
    repaired, plain = (
        curve(models.module(), A, B, [0.0, 0.5, 1.0], x, y, "classification", statistics_x=train, repair=repair)
        for repair in (True, False)
    )
    np.testing.assert_allclose(found["loss"], repaired["loss"], rtol=1e-6)
    assert abs(plain["loss"][1] / found["loss"][1] - 1) > 1e-3


def subspace(x, share):
    """The principal directions [d, k] of rows x, the fewest that hold a share of the variance."""
    _, sigma, directions = np.linalg.svd(x - x.mean(0), full_matrices=False)
    held = np.cumsum(sigma**2) / (sigma**2).sum()
    k = int(np.argmax(held >= share)) + 1
    return directions[:k].T, held[k - 1]


def test_subspaces_are_of_the_training_data_at_every_snapshot_and_point(models, data):
    found = measure_swap_costs(models, data, Identification(explained_variance=0.8), JOB)["subspaces.csv"]
    table = found.set_index(["seed", "epoch", "point"])
    assert len(table) == 2 * 2 * 4
    for (seed, epoch, point), row in table.iterrows():
        at = ["input", "hidden1", "hidden2", "output"].index(point)
        x = values(models.state(epoch, seed - 4), data.split("train")[0])[at]
        U, held = subspace(x, 0.8)
        assert (row["d"], row["k_subspace"]) == U.shape
        assert row["explained"] == pytest.approx(held, abs=1e-6)
        assert row["nu"] == pytest.approx((U**2).sum(1).max(), abs=1e-5)
    first = measure_swap_costs(models, data, Identification(explained_variance=0.8, models=1), JOB)
    assert first["subspaces.csv"].equals(found[found["seed"] == 4])


def test_swap_costs_are_of_each_layers_own_inputs_at_the_end_of_training(models, data):
    """The least squares that one neuron needs to do what another does, on the subspace of what its layer reads."""
    found = measure_swap_costs(models, data, Identification(explained_variance=0.8), JOB)["swap_costs.parquet"]
    assert {*found["layer"]} == {1, 2}
    for seed in (4, 5):
        state = models.state(EPOCHS[-1], seed - 4)
        reads = values(state, data.split("train")[0])
        for layer in (1, 2):
            U, _ = subspace(reads[layer - 1], 0.8)
            W = state[f"linears.{layer - 1}.weight"].double().numpy()
            F, D = (part.double().numpy() for part in models.fixed(7)[f"linears.{layer - 1}.weight"])

            def cost(i, j, U=U, W=W, F=F, D=D):
                """|w|^2 of the least w with f_i + d_i * w equal to w_eff_j on the subspace."""
                return (np.linalg.lstsq(U.T * D[i], U.T @ (W[j] - F[i]), rcond=None)[0] ** 2).sum()

            rows = found[(found["seed"] == seed) & (found["layer"] == layer)]
            assert len(rows) == len(W) * (len(W) - 1) // 2
            expected = [
                cost(i, j) + cost(j, i) - cost(i, i) - cost(j, j) for i, j in zip(rows["i"], rows["j"], strict=True)
            ]
            np.testing.assert_allclose(rows["swap_cost"], expected, rtol=1e-3, atol=1e-3)


class Drawn(nn.Module):
    """Its operation between the linear maps is none that the tracer knows."""

    def __init__(self, n_inputs, n_outputs):
        super().__init__()
        self.first, self.last = nn.Linear(n_inputs, 5), nn.Linear(5, n_outputs)

    def forward(self, x):
        return self.last(torch.renorm(self.first(x), 2, 0, 1.0))


def test_a_network_is_traced_at_the_inputs_of_a_data_set_and_told_where_it_cannot_be_stored(tmp_path, monkeypatch):
    path, spec, told = tmp_path / "digits.safetensors", {"name": "mlp", "widths": [5]}, []
    save(path, load(Digits(source="digits"), None))
    traced = trace(build(choose(NETWORKS, spec), 64, 10), torch.zeros(2, 64))
    assert symmetries.trace_network(spec, path, told.append) == store(traced) and told == []
    monkeypatch.setattr(symmetries, "build", built := Mock(side_effect=lambda _, *sizes: Drawn(*sizes)))
    assert symmetries.trace_network(spec, path, told.append)["spec"]["groups"] == {}
    assert built.call_args.args[1:] == (64, 10)
    monkeypatch.setattr(symmetries, "store", raising := Mock(side_effect=NotStorable("of one size")))
    assert symmetries.trace_network(spec, path, told.append) is None and raising.called
    assert ["renorm" in line for line in told] == [True, True, False]
    assert told[-1] == "mlp is traced by each job: of one size"
