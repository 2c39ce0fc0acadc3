"""The measures of single layers, on the two networks of a hand-made block."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from symlab.identifiability.recording import layer_inputs
from symlab.measures.identify import measure_swap_costs
from symlab.measures.job import Job
from symlab.measures.settings import Identification
from symlab.networks import MLP, build
from symlab.papers.neuron_identifiability.chords import measure_chords
from symlab.papers.neuron_identifiability.neuron_functions import layer_functions
from symlab.papers.neuron_identifiability.neuron_places import measure_places
from symlab.papers.neuron_identifiability.ridge import choose_pairs, measure_ridge_costs, ridge_swap_costs
from symlab.papers.neuron_identifiability.settings import NeuronPlaces, Ridge, Theory
from symlab.papers.neuron_identifiability.theory import measure_theorems
from symlab.schemes import Syre
from symlab.schemes.fixed_parts import sample_fixed_parts, weight_shapes
from symlab.training.models import Models

SCHEME = Syre(name="syre", sigma_F=1.0)
LAYERS = (1, 2, 3)


@pytest.fixture(scope="module")
def block():
    """Two seeds of one mask, untrained, others as their earlier snapshot, 40 training inputs and other test inputs."""
    torch.manual_seed(0)
    network = MLP(name="mlp", widths=[6] * len(LAYERS), norm="batchnorm")
    parts = sample_fixed_parts(SCHEME, weight_shapes(build(network, 5, 3)), "mask")
    tensors = {}
    for epoch in (2, 0):
        states = [build(network, 5, 3).state_dict() for _ in range(2)]
        for state in states:
            for weight, (F, D) in parts.items():
                state[weight] = F + D * state[weight]
        tensors |= {f"{epoch}/{name}": torch.stack([state[name] for state in states]) for name in states[0]}
    for weight, (F, D) in parts.items():
        tensors |= {f"F/0/{weight}": F, f"D/0/{weight}": D}
    header = {"network": network.spec(), "scheme": SCHEME.spec(), "n_inputs": 5, "n_outputs": 3}
    models = Models(tensors, header | {"replicas": [(0, 0), (0, 1)], "epochs": [0, 2]})
    x, other = np.random.default_rng(0).standard_normal((2, 40, 5)).astype("float32")
    return models, SimpleNamespace(split={"train": (x, None), "test": (other + 1, None)}.__getitem__)


def test_theorems_are_measured_in_every_layer_and_depend_on_the_block_by_their_draws_alone(block):
    tables, other = (measure_theorems(*block, Theory(permutations=2), Job("study", "v", name)) for name in ("0", "1"))
    n_layers = 2 * len(LAYERS)
    assert {name: len(table) for name, table in tables.items()} == {
        "gram_deviation.csv": n_layers * 2,
        "sensitivity.csv": n_layers * 2 * 2 * 2,
        "network_gaps.csv": n_layers * 2,
        "tail_energy.csv": n_layers * 4,
    }
    # What the first layer reads is the data, which no mask of the network has a part in; fresh masks have it nowhere.
    deviations, gaps = tables["gram_deviation.csv"], tables["network_gaps.csv"].query("gap == 'out'")
    deep = deviations["layer"] > 1
    assert ((deviations["assumption"] != "") == (deep & (deviations["masks"] == "own"))).all() and not deep.all()
    assert (gaps["assumption"].str.contains("U depends on F") == (gaps["layer"] > 1)).all()
    pd.testing.assert_frame_equal(tables["network_gaps.csv"], other["network_gaps.csv"])
    assert not tables["sensitivity.csv"].equals(other["sensitivity.csv"])


def test_neurons_functions_are_told_on_the_plane_of_the_inputs(block):
    models, data = block
    table = measure_swap_costs(models, data, Identification(), Job("study", "v", "0"))["neurons.csv"]
    x = data.split("train")[0].astype(float)
    _, _, directions = np.linalg.svd(x - x.mean(0))
    plane = directions[:2].T
    F, D = (part.double().numpy() for part in models.fixed(0)["linears.0.weight"])
    assert table.groupby(["mask_seed", "seed"]).size().tolist() == [6, 6]
    for seed in (0, 1):
        rows = table[table["seed"] == seed]
        W = models.state(2, seed)["linears.0.weight"].double().numpy()
        # The direction of a principal axis is nobody's choice.
        signs = np.sign((rows["v_1"] * (F @ plane)[:, 0]).sum()), np.sign((rows["v_2"] * (F @ plane)[:, 1]).sum())
        for name, expected in (("v", F @ plane), ("a", W @ plane)):
            np.testing.assert_allclose(rows[[f"{name}_1", f"{name}_2"]], expected * signs, atol=1e-5)
        for i, (_, row) in enumerate(rows.iterrows()):
            S = plane.T @ np.diag(D[i] ** 2) @ plane
            found = (row["S_11"], row["S_12"] * signs[0] * signs[1], row["S_22"])
            np.testing.assert_allclose(found, (S[0, 0], S[0, 1], S[1, 1]), atol=1e-5)


def test_swaps_of_neurons_that_a_nonlinearity_mixes_have_no_cost(block):
    models, data = block
    network = MLP(name="mlp", widths=[6, 6], activation="sigma")
    state = build(network, 5, 3).state_dict()
    header = models.header | {"network": network.spec(), "replicas": [(0, 0)], "epochs": [2]}
    mixed = Models({f"2/{name}": tensor[None] for name, tensor in state.items()}, header)
    found = measure_swap_costs(mixed, data, Identification(), Job("study", "v", "0"))
    assert len(found["subspaces.csv"]) and found["swap_costs.parquet"].empty and found["neurons.csv"].empty
    # Joined to the rows of other networks, these parts change no type.
    plain = measure_swap_costs(models, data, Identification(), Job("study", "v", "0"))
    for name in ("swap_costs.parquet", "neurons.csv"):
        joined = pd.concat([found[name], plain[name]], ignore_index=True)
        pd.testing.assert_frame_equal(joined, plain[name])


def test_each_neuron_s_swaps_are_those_of_both_networks_and_its_partner_the_study_s_first(block):
    models, data = block
    rng = np.random.default_rng(2)
    groups = [f"hidden{layer}" for layer in LAYERS]
    S = {f"2/0.0/{group}": rng.uniform(-1, 1, (6, 6)).astype("float32") for group in groups}
    partners = {
        f"{method}/2/0.0/{group}": rng.permutation(6) for method in ("weight", "activation") for group in groups
    }
    assert models.pairs()[0].key == "0.0"
    inputs = {"moments.safetensors": (S, {}), "permutations.safetensors": (partners, {"methods": ["weight"]})}
    job = Job("study", "v", "0", inputs=inputs)
    table = measure_places(models, data, NeuronPlaces(explained_variance=0.7), job)["neuron_places.parquet"]
    costs = measure_swap_costs(models, data, Identification(explained_variance=0.7), job)["swap_costs.parquet"]
    assert len(table) == 6 * len(LAYERS)
    for layer in LAYERS:
        cost = np.full((6, 6), np.inf)
        of_layer = costs[costs["layer"] == layer].groupby(["i", "j"])["swap_cost"].mean()
        for (i, j), value in of_layer.items():
            cost[i, j] = cost[j, i] = value
        partner = partners[f"weight/2/0.0/hidden{layer}"]
        for row in table[table["layer"] == layer].itertuples():
            i, j = row.neuron, partner[row.neuron]
            assert row.cheapest == pytest.approx(cost[i].min()) and row.itself == (i == j)
            cheaper = sum(cost[i, other] < cost[i, j] for other in range(6) if other not in (i, j))
            assert row.cost_rank == pytest.approx(cheaper / 4) if i != j else np.isnan(row.cost_rank)
            assert row.correlation == pytest.approx(S[f"2/0.0/hidden{layer}"][i, j])
            assert row.own_correlation == pytest.approx(S[f"2/0.0/hidden{layer}"][i, i])


def test_chords_are_of_what_the_layer_reads_in_both_networks_at_the_end_of_training(block):
    """xi(lambda) of relu(W x), without bias and norm, on the inputs of A's layer and those of B's together."""
    models, data = block
    table = measure_chords(*block, Theory(samples=30), Job("study", "v", "0"))["chord_deviation.csv"]
    table = table[(table["inputs"] == "data") & (table["nonlinearity"] == "relu") & (table["scale"] == 1)]
    x = torch.from_numpy(data.split("train")[0][:30])
    states = [models.state(2, position) for position in (0, 1)]
    for layer in LAYERS:
        name = f"linears.{layer - 1}"
        X = torch.cat([layer_inputs(models.module(), state, x)[name] for state in states]).double()
        W_A, W_B = (state[f"{name}.weight"].double() for state in states)
        chords = []
        for lam in np.linspace(0, 1, 21):
            at_A, at_B, on_path = ((X @ W.T).relu() for W in (W_A, W_B, (1 - lam) * W_A + lam * W_B))
            xi = on_path - (1 - lam) * at_A - lam * at_B
            chords.append(float(xi.square().sum(1).mean().sqrt()))
        row = table[table["layer"] == layer].iloc[0]
        assert row["chord"] == pytest.approx(max(chords), rel=1e-6)
        F, _ = models.fixed(0)[f"{name}.weight"]
        Sigma = X.T @ X / len(X)
        squares = [torch.einsum("ij,jk,ik->i", V, Sigma, V) for V in (F.double(), W_A - F, W_B - F)]
        assert row["norm_F"] == pytest.approx(float(squares[0].sum().sqrt()), rel=1e-6)
        ratio = (torch.maximum(*squares[1:]) / squares[0]).max().sqrt()
        assert row["beta"] == pytest.approx(float(ratio), rel=1e-6)


def test_theorems_are_about_the_subspace_of_what_each_layer_reads_at_the_end_of_training(block):
    models, data = block
    tables = measure_theorems(*block, Theory(permutations=2, explained_variance=0.7), Job("study", "v", "0"))
    x = torch.from_numpy(data.split("train")[0])
    for seed in (0, 1):
        inputs = layer_inputs(models.module(), models.state(2, seed), x)
        for layer in LAYERS:
            read = inputs[f"linears.{layer - 1}"].double().numpy()
            _, sigma, directions = np.linalg.svd(read - read.mean(0), full_matrices=False)
            k = int(np.argmax(np.cumsum(sigma**2) >= 0.7 * (sigma**2).sum())) + 1
            for name in ("network_gaps.csv", "gram_deviation.csv"):
                rows = tables[name][(tables[name]["seed"] == seed) & (tables[name]["layer"] == layer)]
                assert set(rows["k_subspace"]) == {k}
                assert rows["nu"].to_numpy() == pytest.approx((directions[:k] ** 2).sum(0).max(), abs=1e-5)


def test_ridge_costs_say_which_beta_is_reported_and_swap_a_block_there(block):
    models, data = block
    chosen = Ridge(beta=[0.1, 1.0], reported=1.0, block=4, samples=30)
    costs = measure_ridge_costs(models, data, chosen, Job("study", "v", "0"))["ridge_swap_costs.parquet"]
    assert (costs["reported"] == (costs["beta"] == 1.0)).all()
    pairs = {key: [*zip(rows["i"], rows["j"], strict=True)] for key, rows in costs.groupby(["layer", "reported"])}
    consecutive, every = [(0, 1), (2, 3), (4, 5)], [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (4, 5)]
    assert pairs == {(layer, kind): every if kind else consecutive for layer in LAYERS for kind in (False, True)}
    module, state = models.module(), models.state(2, 0)
    functions = layer_functions(module, state, "linears.0", *models.fixed(0)["linears.0.weight"])
    inputs = layer_inputs(module, state, torch.from_numpy(data.split("train")[0][:30]))["linears.0"]
    Delta = ridge_swap_costs(functions, inputs, choose_pairs(6, 4), 1.0)
    np.testing.assert_array_equal(costs.loc[(costs["layer"] == 1) & costs["reported"], "swap_cost"], Delta.numpy())


def test_the_reported_beta_is_one_of_those_that_are_solved():
    with pytest.raises(ValueError, match="report one of them"):
        Ridge(beta=[0.1, 1.0])
