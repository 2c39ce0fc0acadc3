"""Weights, targets and data in the forms of other tools: averaged models, Lightning, pandas, one logit a label."""

import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.distributions import Normal
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim.swa_utils import AveragedModel

from symlab import UserError, align, collapse, merge, trace
from symlab.batches import leaves, prediction
from symlab.own.data import read_data
from symlab.own.learning import untrained_weights
from symlab.own.report import coverage

N = 60


def build(classes=3):
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, classes))


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(N, 6, generator=generator), torch.arange(N) % 3


@pytest.fixture(scope="module")
def pair():
    """A network, and itself with its neurons in another order."""
    torch.manual_seed(0)
    A, B = build(), build()
    order = torch.randperm(8)
    with torch.no_grad():
        B[0].weight.copy_(A[0].weight[order])
        B[0].bias.copy_(A[0].bias[order])
        B[2].weight.copy_(A[2].weight[:, order])
        B[2].bias.copy_(A[2].bias)
    return A, B


def undone(found, A):
    return all(torch.equal(value, found.permuted[name]) for name, value in A.state_dict().items())


def test_averaged_models_are_modules_and_states(pair, data):
    A, B = pair
    averaged = AveragedModel(B)
    told = align(A, A, averaged.state_dict(), data)
    assert {name.removeprefix("module.") for name in told.permuted} == A.state_dict().keys()
    assert "stands beside 'module.' was left out: 'n_averaged'" in str(told)
    assert undone(align(averaged, A, averaged, data), A)


def test_what_a_checkpoint_holds_beside_the_network_is_left_out(pair, data, tmp_path):
    A, B = pair
    inside = {f"model.{name}": value for name, value in B.state_dict().items()}
    torch.save({"state_dict": inside | {"loss.weight": torch.ones(3)}, "epoch": 1}, tmp_path / "B.ckpt")
    found = align(A, A, tmp_path / "B.ckpt", data)
    assert torch.equal(found.permuted["model.0.weight"], A.state_dict()["0.weight"])
    assert set(found.permuted) == set(inside)
    assert "was left out: 'loss.weight'" in str(found) and "under 'state_dict' were taken" in str(found)
    del inside["model.0.bias"]
    with pytest.raises(UserError, match=r"it lacks .*'0\.bias'"):
        align(A, A, inside | {"loss": torch.ones(1)}, data)


def test_of_several_parts_the_one_of_the_modules_shapes_is_taken_and_equals_are_refused(pair, data):
    A, B = pair
    plain, wide = B.state_dict(), nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3)).state_dict()
    student, teacher = ({f"{part}.{name}": value for name, value in of.items()} for part, of in
                        (("student", wide), ("teacher", plain)))  # fmt: skip
    found = align(A, A, student | teacher, data)
    assert torch.equal(found.permuted["teacher.0.weight"], A.state_dict()["0.weight"])
    twice = {f"{part}.{name}": value for part in ("student", "teacher") for name, value in plain.items()}
    with pytest.raises(UserError, match=r"2 networks that fit the module, under 'student\.', 'teacher\.'"):
        align(A, A, twice, data)


def test_tables_of_pandas_are_arrays_and_doubles_stay_doubles(pair, data):
    (A, B), (x, y) = pair, data
    table = pd.DataFrame(x.numpy(), columns=list("abcdef"))
    assert undone(align(A, A, B, table), A)
    found = align(A, A, B, (table, pd.Series(y.numpy())))
    pd.testing.assert_frame_equal(found.scores, align(A, A, B, data).scores, atol=1e-6)
    for kind in ("<f8", ">f8"):
        assert torch.equal(read_data(np.full((2, 6), 0.1, kind), A).x, torch.full((2, 6), 0.1, dtype=torch.float64))


@dataclass
class Output:
    hidden: torch.Tensor
    others: list[torch.Tensor]


def test_tensors_of_dataclasses_are_found_in_order():
    one, two, three = torch.arange(3.0).unbind()
    assert leaves((Output(two, [three]), one)) == [two, three, one] and prediction(Output(two, [three])) is two
    with pytest.raises(ValueError, match="a dict holds no tensor"):
        prediction({"name": "none"})


class PreTrainedModel(nn.Module):
    """As transformers has them."""

    __module__ = "transformers.modeling_utils"


class Texts(PreTrainedModel):
    def __init__(self, config):
        super().__init__()
        self.config, self.words = config, nn.Embedding(9, 4)

    def forward(self, input_ids, attention_mask=None):
        return self.words(input_ids).mean(1)


@pytest.mark.parametrize(("token", "told"), [(0, 1), (3, 0)])
def test_that_padding_is_attended_to_is_told_where_there_is_some(token, told):
    texts = {"input_ids": torch.tensor([[1, 2], [4, token]])}
    assert len(read_data(texts, Texts(SimpleNamespace(pad_token_id=0))).remarks) == told


def test_a_class_of_transformers_is_built_anew_from_its_config():
    network = Texts(SimpleNamespace(pad_token_id=0))
    first, again, other = (untrained_weights(network, seed=seed)["words.weight"] for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert not torch.equal(first, network.words.weight)


def test_a_network_may_be_named_by_the_function_that_builds_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "networks_of_ours", SimpleNamespace(build=build))
    x = torch.zeros(2, 6)
    assert trace("networks_of_ours:build", x).spec == trace(build(), x).spec


def test_a_path_may_begin_at_home(pair, data, tmp_path, monkeypatch):
    A, B = pair
    monkeypatch.setenv("HOME", str(tmp_path))
    torch.save(B.state_dict(), tmp_path / "B.pt")
    np.savez(tmp_path / "data.npz", x=data[0].numpy())
    assert undone(align(A, A, Path("~/B.pt"), "~/data.npz"), A)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "B.pt").rename("~B.pt")
    assert undone(align(A, A, "~B.pt", "~/data.npz"), A)


@pytest.mark.parametrize("weights", [np.array([1, 2]), torch.tensor([1.0, 2.0])])
def test_weights_may_be_arrays_and_networks_come_one_by_one(pair, data, weights):
    A = pair[0]
    state = merge(A, (each for each in pair), data, weights=weights).state
    torch.testing.assert_close(state, dict(A.state_dict()))


def test_what_is_no_list_of_networks_is_told(pair, data):
    A, B = pair
    for given, kind in (({"a": A, "b": B}, "dict"), (A, "Sequential")):
        with pytest.raises(UserError, match=f"given as one {kind}; give a list"):
            merge(A, given, data)


def test_one_logit_a_label_is_scored_by_its_sigmoid(data):
    """Against torch's binary cross-entropy, for two classes and for several labels a sample."""
    x = data[0]
    for labels in (torch.arange(N) % 4 == 0, torch.stack([torch.arange(N) % k == 0 for k in (2, 3, 5)], 1)):
        torch.manual_seed(0)
        classes = labels[0].numel()
        A, B = build(classes), build(classes)
        of = align(A, A, B, (x, labels)).scores.set_index("network")
        logits = A(x).detach().reshape(labels.shape)
        loss = binary_cross_entropy_with_logits(logits, labels.float())
        assert of.loc["A", "loss"] == pytest.approx(float(loss), rel=1e-5)
        assert of.loc["A", "accuracy"] == pytest.approx(float(((logits > 0) == labels).float().mean()))
        p = labels.double().mean(0)
        entropy = -(p * p.log() + (1 - p) * (1 - p).log())
        assert of.loc["constant", "loss"] == pytest.approx(float(entropy.mean()))
        assert of.loc["constant", "accuracy"] == pytest.approx(float(torch.maximum(p, 1 - p).mean()))
    masks = torch.rand(N, 4, 4) < 0.3
    torch.manual_seed(0)
    B = nn.Sequential(nn.Conv2d(2, 5, 1), nn.ReLU(), nn.Conv2d(5, 1, 1))
    for labels in (masks, masks[:, None]):
        of = align(B, B, B.state_dict(), (torch.randn(N, 2, 4, 4), labels)).scores.set_index("network")
        p = float(masks.float().mean())
        assert of.loc["constant", "accuracy"] == pytest.approx(max(p, 1 - p))
    with pytest.raises(UserError, match=r"outputs tell 2 classes: labels are counted from 0 to 1"):
        align(build(1), build(1), build(1), data)


@pytest.mark.parametrize(("shape", "axis"), [((N,), 1), ((N, 4), -1), ((N, 4, 5), 1)])
def test_one_hot_labels_are_refused_and_what_is_told_in_their_place_is_scored(shape, axis):
    """Of samples, tokens and pixels; one sample with none of the classes, and they are labels each by itself."""
    torch.manual_seed(0)
    images = nn.Sequential(nn.Conv2d(6, 5, 1), nn.Tanh(), nn.Conv2d(5, 3, 1))
    net = images if len(shape) == 3 else build()
    classes = torch.randint(3, shape)
    y = nn.functional.one_hot(classes, 3).movedim(-1, axis)
    x = torch.randn(*shape, 6).movedim(-1, axis)
    with pytest.raises(UserError, match=rf"is one-hot: give y\.argmax\({axis % y.dim()}\)"):
        align(net, net, net, (x, y))
    logits, targets = net(x).detach(), y.argmax(axis)
    of = merge(net, [net, net], (x, targets)).scores.set_index("network")
    loss = nn.functional.cross_entropy(logits.movedim(axis, 1), targets)
    assert of["loss"].iloc[0] == pytest.approx(float(loss), rel=1e-5)
    y[0] = 0
    of = merge(net, [net, net], (x, y)).scores.set_index("network")
    assert of["loss"].iloc[0] == pytest.approx(float(binary_cross_entropy_with_logits(logits, y.float())), rel=1e-5)


def test_what_needs_a_logit_a_class_says_so(data):
    binary = (data[0], data[1] % 2)
    with pytest.raises(UserError, match="has fewer rows than classes"):
        collapse(build(1), binary)
    several = torch.stack([torch.arange(N) % k == 0 for k in (2, 3, 5)], 1)
    with pytest.raises(UserError, match=r"need outputs of shape \('n', 3, 'classes'\), not \('n', 3\)"):
        collapse(build(3), (data[0], several))


class Flow(nn.Module):
    """Two coupling layers and the density of what they give."""

    def __init__(self):
        super().__init__()
        self.scale = nn.ModuleList([nn.Sequential(nn.Linear(4, 10), nn.Tanh(), nn.Linear(10, 4)) for _ in range(2)])
        self.register_buffer("mask", torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1]]))

    def forward(self, x):
        moved = 0
        for mask, scale in zip(self.mask, self.scale, strict=True):
            by = scale(x * mask) * (1 - mask)
            x, moved = x * by.exp(), moved + by.sum(1)
        return Normal(0, 1).log_prob(x).sum(1) + moved


def test_a_network_that_asks_a_distribution_is_traced(monkeypatch):
    # Compiling, as in a test before, turns it off for the whole process.
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)
    assert trace(Flow(), torch.randn(8, 4)).spec.free == ["scale.0.0", "scale.1.0"]
    assert torch.distributions.Distribution._validate_args


class Translator(nn.Module):
    """torch's own transformer, with a mask that it would look at."""

    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(9, 8), nn.Linear(8, 9)
        self.layers = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.head(self.layers(self.tokens(source), self.tokens(target), tgt_mask=mask))


def test_a_transformer_of_torch_with_a_causal_mask_is_traced():
    looks = nn.modules.transformer._detect_is_causal_mask
    spec = trace(Translator(), (torch.randint(9, (4, 5)), torch.randint(9, (4, 6)))).spec
    assert sorted(group.size for group in spec.groups.values()) == [2, 2, 2, 4, 4, 4, 4, 4, 4, 8, 16, 16]
    assert nn.modules.transformer._detect_is_causal_mask is looks


def test_kernels_of_convolutions_whose_weights_are_normed_are_no_axes_of_matrices():
    normed = nn.utils.parametrizations.weight_norm
    network = nn.Sequential(normed(nn.Conv1d(4, 6, 3)), nn.ReLU(), nn.Conv1d(6, 2, 3))
    spec = trace(network, torch.randn(2, 4, 9)).spec
    assert coverage(network, spec).startswith("3 of 5 axes of matrices are renumbered; these stay, as those of inputs")


class Answers(nn.Sequential):
    """One output a sample: a function of its first entry, times a size, and a little of everything else."""

    def __init__(self, size, of_answer):
        super().__init__(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
        self.size, self.of_answer = size, of_answer

    def forward(self, x):
        return self.of_answer(self.size * x[:, :1] + 1e-3 * super().forward(x))


CHANCE = 0.3


@pytest.fixture(scope="module")
def answers():
    """Inputs whose first entry is the answer, 1 or -1, wrong in ``CHANCE`` of the samples, and the truth, 1 or 0."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(400, 6, generator=generator), (torch.arange(400) % 2).float()
    wrong = torch.rand(400, generator=generator) < CHANCE
    x[:, 0] = torch.where(wrong, 1 - 2 * y, 2 * y - 1)
    return x, y


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize(
    ("of_answer", "size", "task"),
    [
        # Calibrated logits, overconfident ones, ones of a coin, and ones all above 1.
        (lambda z: z, float(np.log((1 - CHANCE) / CHANCE)), "classification"),
        (lambda z: z, 6.0, "classification"),
        (lambda z: z, 0.0, "classification"),
        (lambda z: z + 9, 1.0, "classification"),
        # What least squares gives, and a sigmoid's chances, right and overconfident.
        (lambda z: 0.5 + z / 2, 1 - 2 * CHANCE, "regression"),
        (torch.sigmoid, float(np.log((1 - CHANCE) / CHANCE)), "regression"),
        (torch.sigmoid, 6.0, "regression"),
    ],
    ids=["logits", "loud logits", "a coin's logits", "high logits", "least squares", "chances", "loud chances"],
)
def test_zeros_and_ones_as_real_numbers_are_labels_of_logits_and_numbers_beside_numbers(
    answers, of_answer, size, task, column
):
    x, y = answers
    torch.manual_seed(0)
    A, B = (Answers(size, of_answer) for _ in "AB")
    traced = trace(A, x[:4])
    found = align(A, A, B, (x, y[:, None] if column else y), traced=traced)
    assert found.models.task == task
    assert ("taken as labels" in str(found)) == (task == "classification")
    assert ("by squared error (--task classification" in str(found)) == (task == "regression")
    # Also where the labels come one after another.
    order = y.argsort()
    assert align(A, A, B, (x[order], y[order]), traced=traced).models.task == task
    for asked in ("classification", "regression"):
        said = align(A, A, B, (x, y), task=asked, traced=traced)
        assert said.models.task == asked and "as real numbers" not in str(said)


def test_integer_labels_of_chances_and_one_hot_real_numbers_are_told(answers, data):
    x, y = answers
    for of_answer, chances in ((torch.sigmoid, True), (lambda z: z, False)):
        A = Answers(1.0, of_answer)
        assert ("give the module without its sigmoid" in str(align(A, A, A, (x, y.long())))) == chances
    A, one_hot = build(), torch.eye(3)[data[1]]
    for factor in (1, 2):
        told = str(align(A, A, A, (data[0], factor * one_hot)))
        # Of real numbers that are more than 0 and 1, be it one, nothing is to be said.
        assert ("as classes: y.argmax(1)" in told) == ("as real numbers" in told) == (factor == 1)
    A = Answers(6.0, lambda z: z)
    counts = torch.where(torch.arange(400) == 399, 3.0, y)
    assert align(A, A, A, (x, counts)).models.task == "regression"


class KeywordsAlone(nn.Module):
    """Takes its two inputs by name alone, and nothing beside them."""

    def __init__(self):
        super().__init__()
        self.net = build()

    def forward(self, *, signal, scale):
        return self.net(signal * scale)


class Keywords(KeywordsAlone):
    """And labels, as a Trainer gives them, for a loss of its own beside the logits."""

    def forward(self, *, signal, scale, labels=None):
        found = {"logits": self.net(signal * scale)}
        return found if labels is None else {"loss": found["logits"].sum(), **found}


class Anything(KeywordsAlone):
    """Takes whatever it is given by name."""

    def forward(self, **inputs):
        return super().forward(**inputs)


@pytest.mark.parametrize("kind", [KeywordsAlone, Keywords, Anything])
def test_inputs_that_go_by_name_alone_may_be_given_in_order_where_names_are_known(data, kind):
    x, y = data
    torch.manual_seed(0)
    A, B = kind(), kind()
    scale = 1 + torch.arange(N)[:, None] / N
    named = align(A, A, B, {"signal": x, "scale": scale, "labels": y})
    with torch.no_grad():
        right = (A.net(x * scale).argmax(1) == y).float().mean()
    assert named.scores.set_index("network").loc["A", "accuracy"] == pytest.approx(float(right))
    if kind is not Anything:
        for given in ((x, scale, y), [((x[:30], scale[:30]), y[:30]), ((x[30:], scale[30:]), y[30:])]):
            pd.testing.assert_frame_equal(align(A, A, B, given).scores, named.scores)
        assert trace(A, (x, scale)).spec.free == ["net.0"]


def test_a_column_of_ones_is_one_class_of_a_logit_each_and_no_one_hot(data):
    """Of one column, each sample's only label is a 1; argmax would call all of them 0."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    x, y = data[0], torch.ones(len(data[0]), 1, dtype=torch.int64)
    of = align(net, net, net, (x, y)).scores.set_index("network")
    expected = float(nn.functional.softplus(-net(x).detach()).mean())
    assert of["loss"].iloc[0] == pytest.approx(expected, rel=1e-5)
