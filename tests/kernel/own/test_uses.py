"""Networks, weights and data as people have them: a planted renumbering is undone in each of these uses."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from symlab import SGD, UserError, align, collapse, diagnose, merge, mirrors, trace
from symlab.cli import main
from symlab.own.data import read_data
from symlab.own.models import load_models
from symlab.own.weights import weights_of

from .nets import (
    MASK,
    TEXTS,
    Hooked,
    Images,
    Listing,
    Masked,
    N,
    Naming,
    Net,
    Normed,
    Parity,
    Sparse,
    X,
    Y,
    drawn,
    renumbered,
    texts,
)


def compiled(network):
    return torch.compile(network, backend="eager")


def misses(output, y):
    return (output.argmax(-1) != y).float()


# The network, what becomes of the module and of both states, the data, and options.
USES = {
    "a tensor": (Net, None, None, X, {}),
    "an array": (Net, None, None, X.numpy(), {}),
    "arrays (x, y)": (Net, None, None, (X.numpy(), Y.numpy()), {}),
    "a DataLoader": (Net, None, None, DataLoader(TensorDataset(X, Y), 40), {}),
    "a data set of samples": (Net, None, None, TensorDataset(X, Y), {}),
    "x by its name": (Net, None, None, {"x": X, "y": Y}, {}),
    "texts with masks": (Masked, None, None, texts, {}),
    "two inputs": (Naming, None, None, (X[:, :2], X[:, 2:]), {}),
    "two inputs and targets": (Naming, None, None, ((X[:, :2], X[:, 2:]), Y), {}),
    "inputs by name": (Naming, None, None, {"right": X[:, 2:], "left": X[:, :2], "label": Y}, {}),
    "lists as outputs": (Listing, None, None, (X, Y), {}),
    "images as targets": (Images, None, None, (X, torch.randn(N, 2, 2)), {}),
    "a metric": (Net, None, None, (X, Y), {"metric": misses}),
    "on several devices": (Net, nn.DataParallel, lambda s: {f"module.{k}": t for k, t in s.items()}, (X, Y), {}),
    "compiled": (Net, compiled, lambda s: {f"_orig_mod.{k}": t for k, t in s.items()}, (X, Y), {}),
    "compiled, plain weights": (Net, compiled, None, (X, Y), {}),
    "bfloat16": (Net, None, lambda s: {k: t.bfloat16() for k, t in s.items()}, (X, Y), {}),
    "float16": (Net, nn.Module.half, lambda s: {k: t.half() for k, t in s.items()}, (X, Y), {}),
    "float64": (Net, nn.Module.double, lambda s: {k: t.double() for k, t in s.items()}, (X.double(), Y), {}),
    "rounding": (Parity, None, None, (X, torch.zeros(N, 4)), {}),
    "the largest": (Sparse, None, None, (X, Y), {}),
    "batch norms": (Normed, None, None, (X, Y), {}),
    "a norm of weights": (Hooked, None, None, (X, Y), {}),
}


@pytest.mark.parametrize("use", USES)
def test_a_planted_renumbering_is_undone(use):
    kind, of_module, of_state, data, options = USES[use]
    network = drawn(kind, 0)
    A, B = ((of_state or dict)(state) for state in (network.state_dict(), renumbered(network)))
    module = (of_module or (lambda same: same))(drawn(kind, 5))
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    # Values of the metric are no differentiable loss; weights alone would do as well.
    aligned = align(module, A, B, data, **options)
    assert aligned.permuted.keys() == B.keys() and aligned.models.name == kind.__name__
    for name, tensor in A.items():
        assert aligned.permuted[name].dtype == tensor.dtype and torch.equal(aligned.permuted[name], tensor), name
    after = module.state_dict()
    assert all(
        torch.equal(after[name], tensor) and after[name].dtype == tensor.dtype for name, tensor in before.items()
    )
    if aligned.scores is None:
        assert "no targets" in str(aligned)
    else:
        by = aligned.scores.set_index("network")["loss"]
        assert by["midpoint with B aligned"] == pytest.approx(by["A"], rel=2e-2, abs=1e-6)
        assert "Verdict" in str(aligned)
    if "metric" in options:
        assert by["A"] == pytest.approx(float(misses(network.eval()(X), Y).mean()))


def test_weights_are_modules_files_and_checkpoints(tmp_path):
    network = drawn(Net, 0)
    other = drawn(Net, 1)
    other.load_state_dict(renumbered(network))
    state = other.state_dict()
    contents = {
        "plain.pt": state,
        "torch.pt": {"model_state_dict": state, "epoch": 3, "optimizer": {"state": {}}},
        "lightning.ckpt": {"state_dict": {f"net.{k}": t for k, t in state.items()}, "hyper_parameters": {"lr": 0.1}},
        "pytorch_model.bin": {"ours": state},
    }
    for name, content in contents.items():
        torch.save(content, tmp_path / name)
    (tmp_path / "folder").mkdir()
    torch.save(state, tmp_path / "folder" / "pytorch_model.bin")
    for beside in ("optimizer.pt", "training_args.bin"):
        torch.save({"lr": 1.0}, tmp_path / "folder" / beside)
    for given in (other, state, *(tmp_path / name for name in (*contents, "folder"))):
        aligned = align(drawn(Net, 2), network, given, X)
        assert all(
            torch.equal(tensor, network.state_dict()[name.removeprefix("net.")])
            for name, tensor in aligned.permuted.items()
        )
    assert any("'model_state_dict'" in remark for remark in weights_of(tmp_path / "torch.pt", "A").remarks)
    aligned.save(tmp_path / "saved.safetensors")
    assert torch.equal(weights_of(tmp_path / "saved.safetensors", "").tensors["hidden.bias"], network.hidden.bias)


def test_a_wrong_renumbering_of_a_network_that_rounds_is_refused():
    from symlab.alignment.permute import AlignmentError, check_alignment

    network = drawn(Parity, 0)
    jumps = trace(network, X).jumps()
    assert {"round", "remainder"} <= {*jumps}
    right = renumbered(network)
    assert "of 96 samples change" in check_alignment(network, network.state_dict(), right, X, jumps)
    wrong = right | {"hidden.bias": network.hidden.bias.detach()}
    for names in (jumps, ()):
        with pytest.raises(AlignmentError):
            check_alignment(network, network.state_dict(), wrong, X, names)
    with pytest.raises(AlignmentError):
        check_alignment(network, network.state_dict(), right, X)


def test_the_midpoint_has_batch_norm_statistics_of_its_own():
    A, B = drawn(Normed, 0), drawn(Normed, 1)
    aligned = align(drawn(Normed, 2), A, B, (X, Y))
    middle = aligned.interpolate(0.5)
    z = X @ middle["hidden.weight"].T + middle["hidden.bias"]
    torch.testing.assert_close(middle["norm.running_mean"], z.mean(0), atol=1e-4, rtol=1e-4)
    assert torch.equal(aligned.interpolate(0)["norm.running_mean"], A.norm.running_mean)
    near_A = aligned.interpolate(0.25)["head.weight"]
    torch.testing.assert_close(near_A, 0.75 * A.head.weight + 0.25 * aligned.permuted["head.weight"])
    barrier = aligned.barrier(3).set_index("aligned")
    curve = aligned.curve(3)
    loss = curve[curve["aligned"]].set_index("lambda")["loss"]
    assert barrier.loc[True, "barrier_mid"] == pytest.approx(loss[0.5] - (loss[0] + loss[1]) / 2, rel=1e-4)
    # In several passes.
    np.testing.assert_allclose(aligned.curve(11)["lambda"], np.tile(np.linspace(0, 1, 11), 2))
    with pytest.raises(UserError, match="odd"):
        aligned.curve(4)


def test_weights_may_be_negative_as_of_task_vectors():
    networks = [drawn(Net, seed) for seed in range(3)]
    merged = merge(drawn(Net, 4), networks, (X, Y), weights=[2, -1, 0])
    first, second, _ = merged.universe.permuted
    for name, tensor in merged.state.items():
        torch.testing.assert_close(tensor, 2 * first[name] - second[name])
    assert merged.plain.keys() == merged.state.keys()


def test_averages_are_scored_on_test_data_and_made_on_the_others():
    A, B = drawn(Normed, 0), drawn(Normed, 1)
    x, y = torch.randn(30, 6, generator=torch.Generator().manual_seed(9)) + 1, torch.arange(30) % 3
    aligned, alone = (align(drawn(Normed, 2), A, B, (X, Y), test=test) for test in ((x, y), None))
    merged = merge(drawn(Normed, 2), [A, B], (X, Y), test=(x, y))
    assert all(torch.equal(tensor, alone.permuted[name]) for name, tensor in aligned.permuted.items())
    # Batch norm statistics are those of the data.
    middle = aligned.interpolate(0.5)
    assert all(torch.equal(tensor, alone.interpolate(0.5)[name]) for name, tensor in middle.items())
    network = drawn(Normed, 3)
    for name, state in (("A", A.state_dict()), ("midpoint with B aligned", middle)):
        network.load_state_dict(state)
        with torch.no_grad():
            by_hand = float(nn.functional.cross_entropy(network.eval()(x), y))
        assert aligned.scores.set_index("network").loc[name, "loss"] == pytest.approx(by_hand, rel=1e-5)
    # The last one's, too.
    curve = aligned.curve(3)
    assert curve[curve["aligned"]]["loss"].iloc[1] == pytest.approx(by_hand, rel=1e-4)
    network.load_state_dict(merged.state)
    with torch.no_grad():
        right = float((network.eval()(x).argmax(1) == y).float().mean())
    assert merged.scores.set_index("network").loc["merged", "accuracy"] == pytest.approx(right)
    assert "over 30 test samples" in str(aligned) and "over 30 test samples" in str(merged)
    assert "over 96 samples" in str(alone)


def test_test_data_have_the_inputs_of_the_data():
    names = {"left": X[:, :2], "right": X[:, 2:], "label": Y}
    given = [drawn(Naming, 5), drawn(Naming, 0), drawn(Naming, 1), names]
    other_order = {"right": X[:, 2:], "label": Y, "left": X[:, :2]}
    expected, found = (align(*given, test=test).scores for test in (names, other_order))
    assert found.equals(expected)
    # Without targets of its own the data match, and the test data alone score.
    assert align(*given[:3], {name: names[name] for name in ("left", "right")}, test=names).scores.equals(expected)
    for test, words in (
        ((X, Y), "test holds the inputs x, but the data hold left, right"),
        ({"left": X[:, :2], "right": X[:, 2:]}, "test holds no targets y"),
        (names | {"label": Y + 9}, "y in test holds the label 12, but the network's outputs tell 4 classes"),
        ("test.csv", "--test is test.csv"),
    ):
        with pytest.raises(UserError, match=words):
            align(*given, test=test)
    traced = trace(given[0], (X[:, :2], X[:, 2:]))
    with pytest.raises(UserError, match="test is given without data"):
        align(*given[:3], method="weight", traced=traced, test=names)


def test_texts_in_batches_of_several_lengths_are_padded():
    module = drawn(Masked, 0)
    data = read_data(texts, module)
    assert data.names == ("input_ids", "attention_mask")
    assert data.x.parts[0].shape == (N, 5) and torch.equal(data.x.parts[1], MASK)
    assert any("of_the_loader" in remark for remark in data.remarks)
    with pytest.raises(UserError, match="NaN"):
        read_data({"input_ids": TEXTS, "attention_mask": MASK * torch.nan}, module)


def test_starts_are_as_many_as_were_asked(monkeypatch):
    asked, A, B = [], drawn(Net, 0), drawn(Net, 1)

    def matching(*given, **named):
        asked.append([each for each in (*given, *named.values()) if type(each) is int])
        raise UserError("enough")

    for place in ("align.weight_matching", "merge.match_to_universe", "maps.map_by_weights"):
        monkeypatch.setattr(f"symlab.own.{place}", matching)
    for group in ("permutation", "full"):
        for call, given in ((align, (A, B)), (merge, ([A, B],))):
            with pytest.raises(UserError, match="enough"):
                call(A, *given, X, "weight", group=group, restarts=7)
    assert len(asked) == 4 and all(7 in each for each in asked)


def test_no_command_gives_help(capsys):
    main([])
    assert "symlab align A.safetensors B.safetensors" in capsys.readouterr().out


class Latents(nn.Module):
    """Latents that read the inputs, as many as ``len(x)`` says."""

    def __init__(self):
        super().__init__()
        self.latents, self.first, self.head = nn.Parameter(torch.randn(3, 8)), nn.Linear(5, 8), nn.Linear(8, 4)
        self.cross = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        latents, h = self.latents.expand(len(x), -1, -1), self.first(x)
        return self.head((latents + self.cross(latents, h, h, need_weights=False)[0]).mean(1))


def test_a_network_that_asks_how_many_samples_there_are_has_maps_and_mirrors():
    """Signs and maps are asked of two samples, the graph is that of the whole batch."""
    A, B, data = drawn(Latents, 0), drawn(Latents, 1), (torch.randn(24, 6, 5), torch.arange(24) % 4)
    assert "Mapped by invertible maps" in str(align(A, A, B, data, group="full"))
    found = mirrors(A, None, data, training=SGD(0.1, batch=20), pairs=1, steps=1)
    assert {"first", "latents"} <= {*found.pairs["group"]} and len(found.zeros)


def test_mirrors_are_of_a_metric_of_all_outputs_too():
    """Of half the second of two outputs, which is the first: as the squared error of a network of one output."""
    y, training = torch.randn(N, 4), SGD(0.1, batch=20)

    def of_second(given, y):
        return (given[1]["again"][0] / 2 - y).square().mean(1)

    listing, plain = (
        mirrors(drawn(kind, 0), None, (X, y), training=training, pairs=2, steps=4, **options).pairs
        for kind, options in ((Listing, {"metric": of_second}), (Net, {"task": "regression"}))
    )
    pd.testing.assert_frame_equal(listing, plain)


class Flowing(nn.Module):
    """Two steps of Euler's method, of a field that knows the time."""

    def __init__(self):
        super().__init__()
        self.first, self.field, self.head = nn.Linear(4, 6), nn.Linear(7, 6), nn.Linear(6, 2)

    def forward(self, x):
        h = self.first(x)
        for time in (0.0, 0.5):
            h = h + torch.tanh(self.field(torch.cat([h, torch.ones_like(h[:, :1]) * time], 1))) / 2
        return self.head(h)


def test_a_column_of_which_only_the_shape_is_read_is_like_the_others():
    spec = trace(Flowing(), torch.randn(5, 4)).spec
    assert [spec.groups[group].size for group in spec.free] == [6]


class Pairs(Net):
    """Two inputs, one of which has the name that targets often have."""

    def forward(self, x, y):
        return self.core(x + y)


def test_an_input_may_be_called_as_targets_are():
    module, x, y = drawn(Pairs, 0), torch.randn(N, 6), torch.randn(N, 6)
    data = read_data({"x": x, "y": y, "labels": Y}, module)
    assert data.names == ("x", "y") and torch.equal(data.x.parts[1], y) and torch.equal(data.y, Y)
    assert align(module, module, drawn(Pairs, 1), {"x": x, "y": y, "labels": Y}).scores is not None
    alone = align(module, module, drawn(Pairs, 1), {"x": x, "y": y})
    assert alone.scores is None and "aligned to A (Pairs)" in str(alone)


class Positions(Net):
    """The class of each token of texts of eight at most, by the token and its place."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(20, 6), nn.Embedding(8, 6)

    def forward(self, x):
        return self.core(self.tokens(x) + self.places(torch.arange(x.shape[1])))


def test_texts_of_the_test_data_may_be_longer_than_those_that_match():
    module, A, B = (drawn(Positions, seed) for seed in (2, 0, 1))
    texts, labels = torch.randint(20, (96, 4)), torch.randint(4, (96, 4))
    longer = torch.randint(20, (10, 8)), torch.randint(4, (10, 8))
    aligned = align(module, A, B, (texts, labels), test=longer)
    with torch.no_grad():
        by_hand = float(nn.functional.cross_entropy(A(longer[0]).flatten(0, 1), longer[1].flatten()))
    for found in (aligned.scores, aligned.curve(3)):
        assert found["loss"].iloc[0] == pytest.approx(by_hand, rel=1e-5)
    with pytest.raises(UserError, match=r"calling Positions with x of shape \('n', 9\), .* of test failed"):
        align(module, A, B, (texts, labels), test=(torch.zeros(3, 9).long(), torch.zeros(3, 9).long()))


def test_fewer_samples_are_computed_at_a_time_where_those_of_the_test_data_are_larger():
    def data(tokens):
        return {"input_ids": torch.ones(8, tokens).long(), "attention_mask": torch.ones(8, tokens), "labels": Y[:8]}

    given = drawn(Masked, 0), {}, data(4)
    assert load_models(*given).rows == 1024 > load_models(*given, scored_on=data(4096)).rows
    assert load_models(*given, scored_on=data(4096), batch_size=50).rows == 50


def test_every_function_says_what_was_done_to_weights_and_how_targets_are_compared():
    module, y = drawn(Net, 2), (Y[:, None] == torch.arange(4)).float()
    A, B = ({f"model.{name}": tensor for name, tensor in drawn(Net, seed).state_dict().items()} for seed in (0, 1))
    found = {
        "align": align(module, A, B, (X, y)),
        "merge": merge(module, [A, B], (X, y)),
        "diagnose": diagnose(module, A, B, (X, y)),
        "mirrors": mirrors(module, A, (X, y), training=SGD(0.1, batch=20), pairs=1, steps=1),
        "collapse": collapse(module, (X, Y), weights=A),
    }
    told = ["Aligned(Net, 1 groups, method='activation')", "Merged(Net, 2 networks, method='activation')"]
    told += ["Diagnosis(Net, 12 neurons)", "Mirrors(Net, 1 pairs)", "Collapse(Net, 2 layers)"]
    assert [repr(each) for each in found.values()] == told
    for name, each in found.items():
        assert "'model.'" in str(each), name
        assert name == "collapse" or "by squared error" in str(each), name


def test_a_merge_that_has_not_settled_says_so():
    merged = merge(drawn(Net, 2), [drawn(Net, 0), drawn(Net, 1)], (X, Y))
    told = [str(replace(merged, universe=replace(merged.universe, settled=each))) for each in (True, False)]
    assert ["still moved in the last sweep" in each for each in told] == [False, True]


class Scaled(nn.Module):
    """Its second input may be left out; with it, neurons differ."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x, scale=None):
        h = torch.tanh(self.first(x))
        return self.second(h if scale is None else h * scale)


def test_a_tuple_to_trace_holds_inputs_and_no_targets():
    x = torch.ones(5, 6)
    assert trace(Scaled(), x).spec.free == ["first"]
    assert trace(Scaled(), (x, torch.ones(len(x), 8))).spec.free == []
