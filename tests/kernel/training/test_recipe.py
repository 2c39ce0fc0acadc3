"""Every kind of update against a plain loop with torch.optim and autograd, one by one and stacked, also resumed."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import nn

from symlab.errors import UserError
from symlab.networks import MLP, Lecun, build
from symlab.networks.initialise import sample_parameters
from symlab.schemes import SCHEMES as ALL
from symlab.schemes import Constrained, Hadamard, Residual, Standard
from symlab.schemes.fixed_parts import effective
from symlab.seeds import torch_generator
from symlab.settings import choose
from symlab.training import stack_size
from symlab.training.objective import Replica
from symlab.training.on_samples import TrainingData
from symlab.training.optimizer import Optimizer
from symlab.training.replicas import Run, train_block
from symlab.training.resume import Checkpoints
from symlab.training.settings import Recipe

KEY = ("study", "variant")
SCHEMES = (
    {"name": "standard"},
    {"name": "w_asymmetric", "sigma_F": 1.0, "fixed_fraction": 0.25},
    {"name": "syre", "sigma_F": 1.0, "epsilon": 0.01},
    {"name": "sparse", "density": 0.5},
    {"name": "residual"},
)
DEEP = MLP(name="mlp", widths=[16, 16, 16], norm="none", activation="relu")
SGD = {"optimizer": "sgd", "momentum": 0, "weight_decay": 0, "lr": 0.05}
RECIPES = {
    "adam": {"optimizer": "adam", "weight_decay": 0.1},
    "adam without momentum": {"optimizer": "adam", "betas": [0, 0.99], "weight_decay": 0.1},
    "adamw with other moments": {"betas": [0.5, 0.9], "eps": 1e-3, "weight_decay": 0.5},
    "sgd with momentum": {"optimizer": "sgd", "momentum": 0.8, "weight_decay": 0.1, "lr": 0.05},
    "biases without decay": {"decay_bias": False, "weight_decay": 5.0, "lr": 0.02},
    "penalties": {**SGD, "penalties": {"linears.1.*": 0.3, "linears.*.weight": 0.1}},
    "proximal": {**SGD, "momentum": 0.8, "l1": 0.05},
    "proximal, biases left alone": {**SGD, "weight_decay": 0.1, "l1": 0.2, "decay_bias": False},
    "full batch": {"batch_size": None, "lr": 0.01},
    "float64": {"precision": "float64", "lr": 0.01},
    "all at once": {**SGD, "penalties": {"*": 0.1}, "batch_size": None, "precision": "float64"},
}


def make_data(n=90, seed=1):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 12, generator=generator)
    y = x[:, :5].argmax(dim=1)
    return TrainingData(x, y, x[:20], y[:20], "classification")


def make_run(changes, objective=None, network=DEEP, scheme=None):
    recipe = Recipe(**{"epochs": 3, "batch_size": 32, **changes})
    make = lambda: build(network, 12, 5)  # noqa: E731
    scheme = scheme or Standard(name="standard")
    return Run(make, objective or make_data(), scheme, Lecun(name="lecun"), recipe, (0, recipe.epochs), KEY)


@pytest.fixture
def train(monkeypatch):
    def train(run, stacked, replicas=((0, 3), (0, 2)), checkpoints=None):
        monkeypatch.setattr(stack_size, "stacks_on_cpu", lambda module, shapes: stacked)
        return train_block(run, [Replica(*replica) for replica in replicas], checkpoints=checkpoints)

    return train


def start_of(run, seed):
    parameters = sample_parameters(run.build(), run.init, torch_generator(*KEY, "init", 0, seed))
    dtype = torch.float64 if run.recipe.precision == "float64" else torch.float32
    return {name: value.to(dtype).requires_grad_() for name, value in parameters.items()}


def plain_steps(run, theta, seed, compose=lambda theta: theta):
    """Train ``theta`` by the book; yields the loss before each step and theta after it."""
    recipe, data = run.recipe, run.objective
    module, values = run.build(), list(theta.values())
    x, y = (data.x_train.double() if recipe.precision == "float64" else data.x_train), data.y_train
    options = {"lr": recipe.lr, "weight_decay": recipe.weight_decay}
    vectors = {"params": [v for v in values if v.dim() < 2], "weight_decay": recipe.decay_bias * recipe.weight_decay}
    groups = [{"params": [v for v in values if v.dim() > 1]}, vectors]
    if recipe.optimizer == "sgd":
        optimizer = torch.optim.SGD(groups, momentum=recipe.momentum, **options)
    else:
        kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[recipe.optimizer]
        optimizer = kind(groups, betas=tuple(recipe.betas), eps=recipe.eps, **options)
    for epoch in range(1, recipe.epochs + 1):
        rows = torch.arange(data.n)
        if recipe.batch_size:
            rows = torch.randperm(data.n, generator=torch_generator(*KEY, "order", 0, seed, epoch))
        for batch in rows.split(recipe.batch_size or data.n):
            optimizer.zero_grad()
            outputs = torch.func.functional_call(module.to(x.dtype), compose(theta), (x[batch],))
            loss = nn.functional.cross_entropy(outputs, y[batch])
            penalised = loss
            for name, tensor in theta.items():
                if recipe.penalties == {"*": 0.1}:
                    strength = 0.1
                elif recipe.penalties:
                    strength = 0.3 if name.startswith("linears.1.") else 0.1 if name.endswith("weight") else 0
                else:
                    continue
                penalised = penalised + strength / 2 * tensor.square().sum()
            penalised.backward()
            optimizer.step()
            for tensor in values:
                if recipe.l1 and (recipe.decay_bias or tensor.dim() > 1):
                    shrunk = nn.functional.softshrink(tensor.data, recipe.lr * recipe.l1 / (1 - recipe.momentum))
                    tensor.data.copy_(shrunk)
            yield loss.item(), theta


def test_proximal_steps_with_momentum_end_at_the_lasso_minimum():
    theta = torch.tensor([0.0, 1.0, -1.0])
    recipe = Recipe(optimizer="sgd", lr=0.1, momentum=0.9, weight_decay=0, l1=0.25, epochs=1)
    optimizer = Optimizer(recipe, {"theta": theta}, ["theta"], R=1)
    for _ in range(500):
        theta.grad = theta - torch.tensor([0.2, 1.0, -0.5])
        optimizer.step(recipe.lr)
    assert theta.tolist() == pytest.approx([0, 0.75, -0.25], abs=1e-6)
    assert theta[0] == 0


@pytest.mark.parametrize("changes", [{"optimizer": "adamw"}, {"momentum": 1}])
def test_soft_thresholds_need_steps_that_have_them(changes):
    """Those of momentum 1 would be infinite."""
    with pytest.raises(ValidationError, match="l1 goes with"):
        Recipe(**{"optimizer": "sgd", "lr": 0.1, "l1": 0.25, "epochs": 1} | changes)


@pytest.mark.parametrize("changes", RECIPES.values(), ids=RECIPES)
def test_the_engine_takes_the_steps_of_a_plain_loop(train, changes, stacked):
    run = make_run(changes)
    block = train(run, stacked)
    for place, seed in enumerate((3, 2)):
        *_, (_, theta) = plain_steps(run, start_of(run, seed), seed)
        exact = run.recipe.precision == "float64"
        for name, tensor in theta.items():
            found = block.snapshots[3][name][place]
            assert found.dtype == tensor.dtype
            tolerances = {"rtol": 1e-9, "atol": 1e-12} if exact else {"rtol": 1e-3, "atol": 2e-5}
            torch.testing.assert_close(found, tensor.detach(), **tolerances)
            assert (found - block.snapshots[0][name][place]).abs().max() > 1e-4


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme["name"])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_of_a_scheme_the_weights_that_are_seen_take_the_steps_of_a_plain_loop(train, scheme, optimizer, stacked):
    """W is what is trained, and F + D * W what the network computes with; W starts as if nothing were fixed."""
    network = MLP(name="mlp", widths=[16, 16])
    run = make_run(
        {"optimizer": optimizer, "lr": 0.01, "weight_decay": 0.01}, network=network, scheme=choose(ALL, scheme)
    )
    block = train(run, stacked)

    def compose(W):
        return {name: effective(tensor, *block.fixed[0].get(name, (None, None))) for name, tensor in W.items()}

    start = start_of(run, 3)
    before = {name: tensor.detach().clone() for name, tensor in compose(start).items()}
    *_, (_, W) = plain_steps(run, start, 3, compose)
    for name, tensor in compose(W).items():
        torch.testing.assert_close(block.snapshots[0][name][0], before[name], rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(block.snapshots[3][name][0], tensor.detach(), rtol=1e-3, atol=2e-5)
    assert (block.snapshots[3]["linears.1.weight"] - block.snapshots[0]["linears.1.weight"]).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["adam without momentum", "all at once", "sgd with momentum"])
def test_a_seed_has_the_same_bits_in_any_company_and_when_resumed(train, tmp_path, name, stacked):
    run = make_run(RECIPES[name])
    block = train(run, stacked, [(0, seed) for seed in range(5)])
    stop = []

    def report(line):
        stop.append(line)
        if len(stop) == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(run, stacked, checkpoints=Checkpoints(tmp_path / "checkpoint", {}, 0, report))
    resumed = train(run, stacked, checkpoints=Checkpoints(tmp_path / "checkpoint", {}, 60, stop.append))
    assert any("going on" in line for line in stop)
    for parameter, tensor in resumed.snapshots[3].items():
        assert torch.equal(tensor, block.snapshots[3][parameter][[3, 2]])


def test_products_are_trained_by_both_factors(train, stacked):
    run = make_run({**SGD, "weight_decay": 0.05, "momentum": 0.5}, scheme=Hadamard(name="hadamard"))
    block = train(run, stacked)
    for place, seed in enumerate((3, 2)):
        factors = {}
        for name, value in start_of(run, seed).items():
            w = 1.25 * value.detach().square().mean().sqrt().sqrt() * torch.ones_like(value)
            factors |= {f"{name}/u": (value.detach() / w).requires_grad_(), f"{name}/w": w.requires_grad_()}

        def compose(factors):
            return {name[:-2]: factors[name] * factors[name[:-1] + "w"] for name in factors if name.endswith("/u")}

        *_, (_, factors) = plain_steps(run, factors, seed, compose)
        for name, tensor in compose(factors).items():
            torch.testing.assert_close(block.snapshots[3][name][place], tensor.detach(), rtol=1e-3, atol=2e-5)


def test_products_change_signs_unless_they_start_on_the_mirror(train, stacked):
    flips = {}
    for begin in ("off_mirror", "on_mirror"):
        scheme = Hadamard(name="hadamard", start=begin)
        network = DEEP.model_copy(update={"bias": False})
        recipe = {**SGD, "lr": 0.3, "epochs": 60, "precision": "float64"}
        block = train(make_run(recipe, scheme=scheme, network=network), stacked)
        before, after = (torch.cat([t.flatten() for t in block.snapshots[epoch].values()]) for epoch in (0, 60))
        flips[begin] = (before.sign() * after.sign() < 0).float().mean().item()
    assert flips["on_mirror"] == 0 and flips["off_mirror"] > 0.01


MIRRORS = {
    "linears.0.weight": {"P": "blocks", "block": [4, 3]},
    "linears.0.bias": {"P": "identity"},
    "linears.1.weight": {"P": "pairs", "pairs": [[0, 9], [4, 3]], "axis": 1, "together": True},
    "linears.2.*": {"P": "pairs", "pairs": [[1, 15]]},
    "linears.3.weight": {"P": "matrix", "axis": 1},
}


@pytest.fixture
def columns(tmp_path):
    """Three orthonormal columns of 16 entries, and their file."""
    found = np.linalg.qr(np.random.default_rng(0).normal(size=(16, 3)))[0]
    np.save(tmp_path / "O.npy", found)
    return found, str(tmp_path / "O.npy")


@pytest.mark.parametrize("mirror", ["identity", "rows", "columns", "pairs", MIRRORS])
def test_constrained_weights_start_as_drawn_and_are_trained_alike_in_company_and_alone(train, mirror, columns):
    if isinstance(mirror, str):
        scheme = Constrained(name="dcs", mirror=mirror)
    else:
        of_file = {"linears.3.weight": {**mirror["linears.3.weight"], "file": columns[1]}}
        scheme = Constrained(name="dcs", mirrors={**mirror, **of_file})
    run = make_run({**SGD, "weight_decay": 0.05}, scheme=scheme)
    alone, together = (train(run, stacked).snapshots for stacked in (False, True))
    drawn = train(make_run(SGD), False).snapshots[0]
    for name, tensor in drawn.items():
        torch.testing.assert_close(alone[0][name], tensor, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(alone[3][name], together[3][name], rtol=1e-3, atol=2e-5)
        assert not torch.allclose(alone[3][name], tensor, atol=1e-3)
    # The same bits in any company.
    other = train(run, True, replicas=((0, 2),)).snapshots[3]
    assert all(torch.equal(tensor[0], together[3][name][1]) for name, tensor in other.items())


def test_the_identity_as_a_mirror_is_spred_bit_for_bit(train, stacked):
    recipe = {**SGD, "momentum": 0.9, "weight_decay": 0.05}
    schemes = (
        Hadamard(name="hadamard", biases=False),
        Constrained(name="dcs", mirror="identity"),
        Constrained(name="dcs", mirrors={"linears.*.weight": {"P": "identity"}}, decay_rest=False),
    )
    spred, *others = (train(make_run(recipe, scheme=scheme), stacked).snapshots[3] for scheme in schemes)
    for other in others:
        assert all(torch.equal(tensor, other[name]) for name, tensor in spred.items())


def test_decay_draws_to_a_mirror_what_the_labels_do_not_hold_off_it(train, stacked):
    """Labels tell of the first five inputs alone: of all inputs' weights those of the others vanish."""
    network = MLP(name="mlp", widths=[16], norm="none", activation="relu", bias=False)
    recipe = {**SGD, "lr": 0.2, "momentum": 0.9, "weight_decay": 0.06, "batch_size": None, "epochs": 400}
    scheme = Constrained(name="dcs", mirrors={"linears.0.weight": {"P": "columns"}})
    run = make_run({**recipe, "precision": "float64"}, make_data(400), network=network, scheme=scheme)
    sizes = train(run, stacked).snapshots[400]["linears.0.weight"].norm(dim=1)
    assert (sizes[:, :5] > 0.1).all() and (sizes[:, 5:] < 1e-6).all()


@pytest.mark.parametrize("decay_rest", [True, False])
def test_decay_of_the_factors_takes_a_weight_to_the_mirror_of_a_matrix(train, stacked, columns, decay_rest):
    """Without data in a direction nothing but decay moves it: O^T theta falls by the square of what the rest does."""
    off, file = columns
    data = make_data()
    silent = TrainingData(0 * data.x_train, data.y_train, 0 * data.x_val, data.y_val, "classification")
    network = MLP(name="mlp", widths=[16], norm="none", activation="relu", bias=False)
    recipe = {**SGD, "lr": 0.5, "weight_decay": 0.1, "batch_size": None, "epochs": 40, "precision": "float64"}
    mirrors = {"linears.0.weight": {"P": "matrix", "file": file, "axis": 0}}
    scheme = Constrained(name="dcs", mirrors=mirrors, decay_rest=decay_rest)
    block = train(make_run(recipe, silent, network=network, scheme=scheme), stacked)
    before, after = (block.snapshots[epoch]["linears.0.weight"].numpy() for epoch in (0, 40))
    rest = before - off @ (off.T @ before)
    kept = (1 - 0.05) ** 40 if decay_rest else 1
    np.testing.assert_allclose(after - off @ (off.T @ after), kept * rest, rtol=1e-6, atol=1e-12)
    # Both factors fall by as much as the rest, so their product by its square.
    np.testing.assert_allclose(off.T @ after, (1 - 0.05) ** 80 * (off.T @ before), rtol=1e-9, atol=1e-12)
    assert np.abs(off.T @ before).max() > 0.1


@pytest.mark.parametrize("together", [False, True], ids=["lasso", "group lasso"])
def test_decay_of_the_factors_is_the_penalty_of_the_mirrors_own_coordinates(train, stacked, tmp_path, together):
    """Whitened inputs: z = O^T theta is shrunk by half of the decay, entry by entry or as a whole; the rest is not."""
    rng = np.random.default_rng(0)
    x = np.linalg.qr(rng.normal(size=(60, 12)))[0] * np.sqrt(60)
    off = np.linalg.qr(rng.normal(size=(12, 4)))[0]
    theta, z = rng.normal(size=12), np.array([0.1, 0.2, 1.0, -1.0])
    theta += off @ (z - off.T @ theta)
    np.save(tmp_path / "O.npy", off)
    none = torch.zeros(0, 12)
    data = TrainingData(torch.tensor(x).float(), torch.tensor(x @ theta).float(), none, none[:, 0], "regression")
    mirrors = {"0.weight": {"P": "matrix", "file": str(tmp_path / "O.npy"), "axis": 1, "together": together}}
    recipe = {**SGD, "lr": 0.1, "weight_decay": 0.8, "batch_size": None, "epochs": 400, "precision": "float64"}
    run = make_run(recipe, data, scheme=Constrained(name="dcs", mirrors=mirrors, decay_rest=False))
    run = replace(run, build=lambda: nn.Sequential(nn.Linear(12, 1, bias=False)))
    found = train(run, stacked).snapshots[400]["0.weight"].numpy()[:, 0]
    shrunk = z * max(0, 1 - 0.4 / np.linalg.norm(z)) if together else np.sign(z) * np.maximum(np.abs(z) - 0.4, 0)
    for each in found:
        np.testing.assert_allclose(each, theta + off @ (shrunk - z), atol=1e-5)


def test_zeros_become_products_that_can_move(train):
    network = MLP(name="mlp", widths=[16])
    block = train(make_run({**SGD, "epochs": 5}, network=network, scheme=Hadamard(name="hadamard")), False)
    assert (block.snapshots[0]["norms.0.bias"] == 0).all() and (block.snapshots[5]["norms.0.bias"] != 0).all()


def test_identity_plus_w_without_biases(train, stacked):
    network = DEEP.model_copy(update={"bias": False})
    run = make_run({**SGD, "penalties": {"linears.*.weight": 0.1}}, network=network, scheme=Residual(name="residual"))
    block = train(run, stacked)
    assert list(block.snapshots[3]) == [f"linears.{layer}.weight" for layer in range(4)]
    eye = {name: torch.eye(16) if tensor.shape[1:] == (16, 16) else 0 for name, tensor in block.snapshots[3].items()}
    theta = start_of(run, 3)

    def compose(theta):
        return {name: eye[name] + tensor for name, tensor in theta.items()}

    run_of_plain = make_run({**SGD, "penalties": {"*": 0.1}}, network=network)
    *_, (_, theta) = plain_steps(run_of_plain, theta, 3, compose)
    for name, tensor in compose(theta).items():
        torch.testing.assert_close(block.snapshots[3][name][0], tensor.detach(), rtol=1e-3, atol=2e-5)


def test_patterns_of_penalties_match_parameters(train):
    with pytest.raises(UserError, match=r"recipe.penalties has the pattern 'linear\.\*', which matches no parameter"):
        train(make_run({"penalties": {"linear.*": 0.1}}), False)


def test_new_keys_leave_a_recipe_s_spec_as_it_was():
    assert Recipe(epochs=2, lr=0.1).spec() == {"epochs": 2, "lr": 0.1}


def test_residual_layers_add_their_input_where_widths_agree():
    network = MLP(name="mlp", widths=[6, 6, 8, 8], norm="none", activation="relu", residual=True)
    module = build(network, 6, 3)
    assert not network.chain_of_linear_maps and DEEP.chain_of_linear_maps
    x = torch.randn(7, 6, generator=torch.Generator().manual_seed(0))
    maps = list(module.linears)
    expected = torch.relu(maps[0](x))
    expected = expected + torch.relu(maps[1](expected))
    expected = torch.relu(maps[2](expected))
    expected = expected + torch.relu(maps[3](expected))
    torch.testing.assert_close(module(x), maps[4](expected))
