"""Measures of trained networks on planted ones: merged and dead neurons, vanished parameters, what pruning costs."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from symlab.alignment.signs import signs_of
from symlab.measures.job import Job
from symlab.networks import ViT, build
from symlab.networks.mlp import MLP
from symlab.papers.mirror_symmetry.deep import homogeneity
from symlab.papers.mirror_symmetry.deep.homogeneity import across_pair, measure_homogeneity, neuron_weights
from symlab.papers.mirror_symmetry.deep.magnitudes import measure_magnitudes, quantiles
from symlab.papers.mirror_symmetry.deep.memory import saved_bytes
from symlab.papers.mirror_symmetry.deep.network_mirrors import Point, _mirrors, measure_mirrors, rotations_within
from symlab.papers.mirror_symmetry.settings import Homogeneity, Magnitudes, Memory, Mirrors
from symlab.symmetries.mirrors import Mirror, norm, random_state, relative_distances, unit
from symlab.symmetries.trace import trace
from symlab.training.models import Models

SHAPES = {name: t.double() for name, t in MLP(5, [6, 8], 3, "none", "relu").state_dict().items()}
NETWORK = {"name": "mlp", "widths": [6, 8], "norm": "none", "activation": "relu"}


def planted():
    """Neurons 0 = 1, 2 = -3 as functions before the activation, 4 dead; two parameters of 1e-7."""
    torch.manual_seed(0)
    state = {name: t.clone() for name, t in MLP(5, [6, 8], 3, "none", "relu").state_dict().items()}
    W, b, out = state["linears.1.weight"], state["linears.1.bias"], state["linears.2.weight"]
    W[1], b[1], out[:, 1] = W[0], b[0], out[:, 0]
    W[3], b[3] = -W[2], -b[2]
    W[4], b[4] = 0, -1
    state["linears.0.bias"][:2] = 1e-7
    return state


@pytest.fixture(scope="module")
def models():
    tensors = {f"7/{name}": t[None] for name, t in planted().items()}
    header = {"network": NETWORK, "n_inputs": 5, "n_outputs": 3, "replicas": [[0, 0]], "epochs": [7]}
    header |= {"recipe": {"epochs": 7, "weight_decay": 0.002}, "scheme": {"name": "standard"}}
    return Models(tensors, header)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    splits = {
        name: (rng.normal(shift, size=(n, 5)).astype("float32"), rng.integers(3, size=n))
        for shift, (name, n) in enumerate({"test": 300, "train": 200, "val": 90}.items())
    }
    return SimpleNamespace(split=splits.__getitem__, task="classification")


def drawn(seed):
    return random_state(SHAPES, torch.Generator().manual_seed(seed))


@pytest.fixture
def point():
    """The loss of a network of relu at 40 samples, and the mirror of its first two neurons."""
    torch.manual_seed(0)
    module = MLP(5, [6, 8], 3, "none", "relu").double()
    x, y = torch.randn(40, 5, dtype=torch.float64), torch.randint(3, (40,))
    order = [1, 0, *range(2, 6)]

    def swapped(state):
        turned = {name: state[f"linears.0.{name}"][order] for name in ("weight", "bias")}
        onward = state["linears.1.weight"][:, order]
        return {**state, **{f"linears.0.{k}": v for k, v in turned.items()}, "linears.1.weight": onward}

    mirror, settings = Mirror("0 = 1", swapped), Mirrors()
    return Point(module, x, y, "classification", mirror, settings, torch.Generator(), {})


def test_merged_opposite_and_dead_neurons_are_told_apart(models, data):
    found = measure_homogeneity(models, data, Homogeneity(samples=300, curvatures=6), Job("s", "v"))
    rows = found["homogeneity.csv"].set_index("kind")
    # A constant before the activation, 0 after it.
    assert rows["dead"].tolist() == [1, 1] and rows["live"].tolist() == [7, 7]
    assert rows["positive"].tolist() == pytest.approx([1 / 21, 1 / 21])
    assert rows.loc["pre", "negative"] == pytest.approx(1 / 21) and rows.loc["post", "negative"] == 0
    assert rows["close"].tolist() == pytest.approx([1 / 21, 1 / 21])
    pre = found["neuron_correlations.parquet"].query("kind == 'pre' and i < j")["correlation"]
    assert len(pre) == 21 and (pre > 0.95).sum() == (pre < -0.95).sum() == 1
    assert rows["weight_decay"].tolist() == [0.002, 0.002]


def test_curvature_across_a_pair_is_that_of_the_loss_along_it(models, data):
    pairs = measure_homogeneity(models, data, Homogeneity(samples=300, curvatures=6), Job("s", "v"))["neuron_pairs.csv"]
    pair = pairs[(pairs["distance"] > 0.1)].iloc[0]
    state = {name: t.double() for name, t in planted().items()}
    own = {name: state[name] for name in ("linears.1.weight", "linears.1.bias", "linears.2.weight")}
    mirror = across_pair("linears.2", int(pair["a"]), int(pair["b"]))
    mean, n = mirror.on(own), unit(mirror.off(own))
    module = MLP(5, [6, 8], 3, "none", "relu").double()
    x, y = (torch.from_numpy(part) for part in data.split("train"))

    def loss(s):
        moved = {name: mean[name] + s * n[name] for name in mean}
        outputs = torch.func.functional_call(module, {**state, **moved}, (x.double(),))
        each = torch.nn.functional.cross_entropy(outputs, y, reduction="none")
        return each[:192].view(3, 64).mean(1)

    s = 1e-4
    h = ((loss(s) - 2 * loss(0) + loss(-s)) / s**2).numpy() + 0.002
    assert pair["curvature"] == pytest.approx(h.mean(), rel=1e-3, abs=1e-6)
    # The recipe's rate is 0.001, its batches are of 64, and momentum is for sgd.
    assert pair["exponent"] == pytest.approx(np.mean(np.log(np.abs(1 - 0.001 * h))), rel=1e-3, abs=1e-9)


def test_curvatures_of_several_pairs_are_those_of_each_and_take_one_pass(models, data, monkeypatch):
    settings = Homogeneity(samples=300, curvatures=20)
    passes = []
    forward = MLP.forward
    monkeypatch.setattr(MLP, "forward", lambda module, x: passes.append(len(x)) or forward(module, x))
    monkeypatch.setattr(homogeneity, "AT_ONCE", 8)
    pairs = measure_homogeneity(models, data, settings, Job("s", "v"))["neuron_pairs.csv"]
    # One for the activations of test samples, and three whole batches of training samples for each of 8, 8 and 4 pairs.
    assert len(pairs) == 20 and passes == [300, *[64] * 9]
    monkeypatch.setattr(homogeneity, "AT_ONCE", 1)
    alone = measure_homogeneity(models, data, settings, Job("s", "v"))["neuron_pairs.csv"]
    np.testing.assert_allclose(pairs["curvature"], alone["curvature"], rtol=1e-9, atol=1e-12)


def test_pairs_are_followed_from_the_last_snapshot_to_the_end(models, data):
    early = planted()
    W = early["linears.1.weight"]
    W[1, 0] += 0.1
    W[5] = W[6] + 0.01
    both = Models(
        models.tensors | {f"3/{name}": t[None] for name, t in early.items()}, models.header | {"epochs": [0, 3, 7]}
    )
    both.tensors.update({f"0/{name}": 3 * t[None] for name, t in early.items()})
    pairs = measure_homogeneity(both, data, Homogeneity(samples=300, curvatures=56), Job("s", "v"))["neuron_pairs.csv"]
    assert set(pairs["epoch"]) == {3} and pairs["near"].sum() == 14
    assert pairs[pairs["near"]]["distance"].max() <= pairs[~pairs["near"]]["distance"].min()
    of_pair = pairs.set_index(["a", "b"])
    # One pair has merged since, exactly.
    assert of_pair.loc[(0, 1), "merged"] and of_pair.loc[(0, 1), "change"] == -np.inf
    rows = [
        torch.hstack([s["linears.1.weight"], s["linears.1.bias"][:, None], s["linears.2.weight"].T]).double()
        for s in (early, planted())
    ]
    before, after = (float((of[5] - of[6]).norm()) for of in rows)
    assert of_pair.loc[(5, 6), "change"] == pytest.approx(np.log(after / before), rel=1e-5)
    assert not of_pair.loc[(5, 6), "merged"]
    # Who was one before has no change, and none is known of a network that diverged on its way.
    both.tensors["3/linears.1.weight"] = planted()["linears.1.weight"][None]
    again = measure_homogeneity(both, data, Homogeneity(samples=300, curvatures=56), Job("s", "v"))["neuron_pairs.csv"]
    assert again.set_index(["a", "b"])["change"].isna()[(0, 1)] and again["change"].notna().any()
    both.tensors["7/linears.1.weight"] = np.nan * both.tensors["7/linears.1.weight"]
    diverged = measure_homogeneity(both, data, Homogeneity(samples=300, curvatures=56), Job("s", "v"))
    assert diverged["neuron_pairs.csv"]["change"].isna().all() and not diverged["neuron_pairs.csv"]["merged"].any()


def test_distances_of_weights_are_those_of_all_that_a_neuron_has(models):
    state = planted()
    theta = neuron_weights(MLP(5, [6, 8], 3, "none", "relu"), state)
    assert theta.shape == (8, 6 + 1 + 3)
    d = relative_distances(theta)
    assert d[0, 1] == 0
    a, b = theta[2], theta[5]
    assert float(d[2, 5]) == pytest.approx(float((a - b).norm() / (a.norm() + b.norm())))


def test_vanished_parameters_are_counted_and_pruned(models, data):
    found = measure_magnitudes(models, data, Magnitudes(thresholds=[1e-6, 1e9], pruned=[0.5]), Job("s", "v"))
    total = sum(t.numel() for t in planted().values())
    counted = found["magnitudes.csv"].set_index("threshold")["share"]
    # Two biases and the six incoming weights of the dead neuron.
    assert counted[1e-6] == pytest.approx(8 / total) and counted[1e9] == 1
    pruned = found["pruned.csv"]
    whole, without = pruned.iloc[0]["accuracy"], pruned[pruned["threshold"] == 1e-6]["accuracy"].iloc[0]
    assert abs(whole - without) < 0.4
    _, y = data.split("test")
    # All set to 0: every logit is 0, and the first class is told.
    assert pruned[pruned["threshold"] == 1e9]["accuracy"].iloc[0] == pytest.approx(100 * np.mean(y == 0))


def test_magnitudes_are_counted_at_each_snapshot_and_pruned_at_the_last_on_test_data(models, data):
    early = {name: 2 * t for name, t in planted().items()}
    both = Models(
        models.tensors | {f"3/{name}": t[None] for name, t in early.items()}, models.header | {"epochs": [3, 7]}
    )
    found = measure_magnitudes(both, data, Magnitudes(thresholds=[0.2], pruned=[0.4]), Job("s", "v"))
    counted = found["magnitudes.csv"].set_index("epoch")["share"]
    x, y = map(torch.from_numpy, data.split("test"))

    def accuracy(cut):
        """Of the network by its layers, parameters below the cut set to 0."""
        state = {name: torch.where(t.abs() < cut, 0, t) for name, t in planted().items()}
        h = x
        for layer in range(3):
            h = h @ state[f"linears.{layer}.weight"].T + state[f"linears.{layer}.bias"]
            h = h.relu() if layer < 2 else h
        return 100 * float((h.argmax(1) == y).double().mean())

    for epoch, state in ((3, early), (7, planted())):
        sizes = torch.cat([t.abs().flatten() for t in state.values()])
        assert counted[epoch] == pytest.approx(float((sizes < 0.2).double().mean()))
    pruned = found["pruned.csv"].set_index("share")["accuracy"]
    whole, part, below = (accuracy(cut) for cut in (0, float(sizes.sort().values[int(0.4 * len(sizes))]), 0.2))
    assert pruned.to_numpy() == pytest.approx([whole, part, below])
    assert len({whole, part, below}) == 3


def test_quantiles_of_more_sizes_than_torch_takes():
    few = torch.randn(101, generator=torch.Generator().manual_seed(0)).abs()
    shares = [0.1, 0.333, 0.5, 0.99]
    assert quantiles(few, shares) == pytest.approx(few.double().quantile(torch.tensor(shares).double()).tolist())
    # Sizes 0, 1, ..., 16, a million of each, and at a third of n - 1 nothing to interpolate.
    many = torch.arange(17_000_000).remainder(17).float()
    assert len(many) > 2**24 and quantiles(many, [0, 1 / 3, 0.5, 1]) == [0, 5, 8, 16]
    # Halfway between the last of a million 0s and the first 1.
    assert quantiles(many.clamp(max=1), [(1e6 - 0.5) / (17e6 - 1)]) == pytest.approx([0.5], abs=1e-6)


def test_mirrors_of_a_network_hold_what_theorem_1_says(models, data):
    settings = Mirrors(samples=32, batch_size=16, steps=4, groups=2, pairs=1)
    rows = measure_mirrors(models, data, settings, Job("s", "v"))["network_mirrors.csv"]
    of = rows.groupby("quantity")
    assert set(of.groups) == {"gradient", "hessian", "second_order", "left", "growth"}
    assert (of["on"].max()[["gradient", "hessian", "left"]] < 1e-12).all()
    assert (of["off"].max()[["gradient", "hessian"]] > 1e-3).all()
    growth = rows[rows["quantity"] == "growth"]
    assert growth["on"].to_numpy() == pytest.approx(growth["off"].to_numpy(), abs=1e-4)


def test_gradients_and_hessians_are_those_of_autograd(point):
    """Of two batches the larger part across the mirror; of H the image of a direction within it."""
    at = drawn(0)
    names, values = zip(*at.items(), strict=True)

    def of_batch(*given, rows=slice(None)):
        return point.loss(dict(zip(names, given, strict=True)), rows)

    def part_across(found):
        found = dict(zip(names, found, strict=True))
        return norm(point.mirror.off(found)) / norm(found)

    leaves = [value.clone().requires_grad_() for value in values]
    batches = slice(32), slice(32, None)
    parts = [part_across(torch.autograd.grad(of_batch(*leaves, rows=rows), leaves)) for rows in batches]
    assert point._gradient(at) == pytest.approx(max(parts)) and min(parts) < 0.99 * max(parts)
    within = point.mirror.on(random_state(at, torch.Generator().manual_seed(3)))
    point.generator.manual_seed(3)
    product = torch.autograd.functional.hvp(of_batch, values, tuple(within[name] for name in names))[1]
    assert point._hessian(at) == pytest.approx(part_across(product))


def test_the_second_order_is_all_across_a_mirror_and_not_along_it(point):
    """Within a mirror a first order is left, the larger the smaller the step; across it not even beside H n = 0."""
    state, direction, mirror = drawn(0), drawn(1), point.mirror
    at, n, m = mirror.on(state), unit(mirror.off(direction)), unit(mirror.on(direction))
    along = [point.beyond_second_order(at, m, step)[0] for step in (1e-6, 1e-5)]
    assert point.beyond_second_order(at, n)[0] < 1e-5 and along[0] > 100
    assert along[0] / along[1] == pytest.approx(10, rel=0.05)


def test_descents_are_torch_s_from_the_mirror_and_from_beside_it(point):
    at, n, settings = point.mirror.on(drawn(0)), unit(point.mirror.off(drawn(1))), point.settings
    (on, beside), growth, predicted = point._descend(at, n)
    size = settings.offset * norm(at)
    point.module.load_state_dict({name: value + size * n[name] for name, value in at.items()})
    sgd = torch.optim.SGD(point.module.parameters(), settings.lr, weight_decay=settings.weight_decay)
    for step in range(settings.steps):
        rows = (slice(32), slice(32, None))[step % 2]
        sgd.zero_grad()
        torch.nn.functional.cross_entropy(point.module(point.x[rows]), point.y[rows]).backward()
        sgd.step()
    state = point.module.state_dict()
    parts = state["linears.0.weight"], state["linears.0.bias"][:, None], state["linears.1.weight"].T
    first, second = torch.hstack(parts)[:2]
    apart = float((first - second).norm()) / 2**0.5
    assert growth == pytest.approx(np.log(apart / size), abs=1e-5) and predicted == pytest.approx(growth, abs=1e-4)
    assert beside == pytest.approx(apart / norm(state), rel=1e-5) and on < 1e-15


def test_samples_with_a_kink_in_the_step_are_left_out_of_the_second_order(point):
    """For one sample the first neuron's input passes 0 halfway through the step: its loss has no second order."""
    at, n = point.mirror.on(drawn(0)), unit(point.mirror.off(drawn(1)))
    moved = {name: value + 1e-5 * norm(at) * n[name] for name, value in at.items()}
    before, after = ((point.x @ s["linears.0.weight"].T + s["linears.0.bias"])[:, 0] for s in (at, moved))
    middle = before.argsort()[len(before) // 2]
    at["linears.0.bias"][:2] -= (before + after)[middle] / 2
    assert point.beyond_second_order(at, n) == (pytest.approx(0, abs=1e-5), len(point.x) - 1)
    object.__setattr__(point, "_sides", lambda at: torch.ones(len(point.x), 1, dtype=torch.bool))
    assert point.beyond_second_order(at, n)[0] > 1e-3
    object.__setattr__(point, "_sides", lambda at: torch.rand(len(point.x), 1))
    assert point.beyond_second_order(at, n) == (pytest.approx(np.nan, nan_ok=True), 0)


def test_bytes_are_those_of_a_linear_chain_by_hand(experiment):
    network = {"name": "vgg", "width": 1, "depth": 8}
    settings = Memory(network=network, side=32, batch=[2])
    rows = experiment("mirror_symmetry.memory", settings, Job("s"))["mirror_memory.csv"].set_index("scheme")
    numbers = sum(parameter.numel() for parameter in build(settings.network, 3072, 10).parameters())
    plain, products = rows.loc["standard"], rows.loc["hadamard"]
    assert plain[["parameters", "gradients", "momentum"]].tolist() == [4 * numbers] * 3
    assert products[["parameters", "gradients", "momentum"]].tolist() == [8 * numbers] * 3
    assert products["activations"] - plain["activations"] == 4 * numbers
    times = experiment("mirror_symmetry.memory", settings, Job("s"))["mirror_step_times.csv"]
    assert len(times) == 2 * settings.steps and (times["seconds"] > 0).all()
    assert times.groupby("scheme")["turn"].apply(list).map(lambda of: of == [1, 2, 3, 4, 5, 6]).all()
    # A linear map saves its input, of one colour image 3072 numbers; cross-entropy the log-probabilities and targets.
    linear = torch.nn.Linear(3072, 10)
    assert saved_bytes(linear, 2, 32) == 4 * 2 * 3072 + 4 * 2 * 10 + 8 * 2 + 4


def test_rotations_within_a_head_are_mirrors_of_a_vision_transformer():
    """The same function on both sides, for each of the two pairs of maps, and both of its maps are turned."""
    network = build(ViT(name="vit", patch=2, dim=8, depth=2, heads=2, channels=1), 16, 3).double().eval()
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(parameter.numel()))
    state = {name: parameter.detach() for name, parameter in network.named_parameters()}
    traced = trace(network, x[:2])
    rotations = rotations_within(network, x, traced)
    found = list(_mirrors(SimpleNamespace(free=[]), rotations, [], Mirrors(), np.random.default_rng(0)))
    assert [place["group"] for _, place in found] == [
        f"blocks.{block}.attention: {maps}" for block in (0, 1) for maps in ("query, key", "value, output")
    ]
    # The reflections by hand: I - 2 n n^T on rows 4 h to 4 h + 4 of three maps, and columns of the fourth.
    rng, by_hand = np.random.default_rng(0), []
    for block in (0, 1):
        head, n = int(rng.integers(2)), torch.from_numpy(rng.normal(size=4))
        assert [place["a"] for _, place in found[2 * block : 2 * block + 2]] == [head, head]
        R = torch.eye(8, dtype=torch.float64)
        rows = slice(4 * head, 4 * head + 4)
        R[rows, rows] -= 2 * torch.outer(n, n) / n.square().sum()
        by_hand += [{}, {}]
        for part, of_pair in zip(("query", "key", "value"), (-2, -2, -1), strict=True):
            for kind in ("weight", "bias"):
                name = f"blocks.{block}.attention.{part}.{kind}"
                by_hand[of_pair][name] = R @ state[name]
        output = f"blocks.{block}.attention.output.weight"
        by_hand[-1][output] = state[output] @ R
    for (mirror, _), expected in zip(found, by_hand, strict=True):
        torch.testing.assert_close(mirror.reflect(state), state | expected)
    # A rescaling that takes both signs: of a norm's gain and bias with what reads them, or of a head's maps.
    flips = signs_of(network, traced, x[:2], network.state_dict())
    free = SimpleNamespace(free=[], groups=traced.spec.groups, axes=traced.spec.axes)
    rescalings = list(_mirrors(free, [], flips, Mirrors(groups=40), np.random.default_rng(0)))
    assert len(rescalings) == len(flips) > 2
    for mirror, place in rescalings:
        assert place["mirror"] == "rescaling"
        turned, on = mirror.reflect(state), mirror.on(state)
        torch.testing.assert_close(*(torch.func.functional_call(network, each, (x,)) for each in (state, turned)))
        changed = {name for name in state if not torch.equal(state[name], turned[name])}
        assert changed == set(place["group"].partition(": ")[2].split(", "))
        # What is turned round is 0 on the mirror, and nothing else is touched.
        for name in changed:
            assert torch.equal(on[name], torch.where(turned[name] == state[name], state[name], 0))
    for mirror, _ in found:
        turned = mirror.reflect(state)
        both = [torch.func.functional_call(network, each, (x,)) for each in (state, turned)]
        torch.testing.assert_close(*both)
        assert sum(not torch.equal(state[name], turned[name]) for name in state) in (3, 4)
        torch.testing.assert_close(mirror.reflect(turned), state)
