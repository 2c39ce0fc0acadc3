"""The values of the traced graph, operations without a rule, index sets, and networks put together at random."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from symlab.errors import UserError
from symlab.symmetries.dependence import nesting
from symlab.symmetries.index_sets import (
    IndexSet,
    Unsupported,
    atoms,
    concat,
    cut,
    fix,
    is_fixed,
    product,
    structure,
    unify,
)
from symlab.symmetries.rules.recorder import RULES
from symlab.symmetries.trace import trace
from symlab.symmetries.values import Value, free_dim, view

from .nets import Net, X, check, random_state, sizes


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_values_are_those_of_the_eager_forward_at_any_batch_size(batch):
    module = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(6, 3))
    traced = trace(module, torch.zeros(1, 4))
    assert module.training
    (point,) = traced.spec.points["0"]
    assert point.place == "2"
    state = random_state(module)
    x = torch.randn(batch, 4)
    module.load_state_dict(state)
    expected = module.eval()[:3](x)
    values = traced.values(state, x, [point.value])
    torch.testing.assert_close(values[point.value], expected)
    assert not values[point.value].requires_grad
    with pytest.raises(UserError, match="no value 'nothing'"):
        traced.values(state, x, ["nothing"])


def test_values_at_other_batch_sizes_when_the_forward_asks_for_it():
    module = Net(lambda m, h: F.relu(h) + torch.zeros(len(h), 6))
    traced = trace(module, torch.zeros(2, 4))
    assert traced.batch == 2
    state, x = random_state(module), torch.randn(5, 4)
    (point,) = traced.spec.points["first"]
    values = traced.values(state, x, [point.value])[point.value]
    torch.testing.assert_close(values, F.relu(x @ state["first.weight"].T + state["first.bias"]))


def test_values_where_of_a_view_the_shape_alone_is_read():
    module = Net(lambda m, h: torch.ones_like(h.reshape(h.shape[0], 2, 3)).sum(2).repeat_interleave(3, 1) * F.relu(h))
    traced, state, x = trace(module, torch.zeros(2, 4)), random_state(module), torch.randn(5, 4)
    (point,) = traced.spec.points["first"]
    found = traced.values(state, x, [point.value])[point.value]
    torch.testing.assert_close(found, 3 * F.relu(x @ state["first.weight"].T + state["first.bias"]))


def test_only_what_is_wanted_is_computed():
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 2))
    traced = trace(module, torch.zeros(2, 4))
    first_layer = {name: tensor for name, tensor in module.state_dict().items() if name.startswith("0")}
    (point,) = traced.spec.points["0"]
    assert traced.values(first_layer, torch.zeros(3, 4), [point.value])[point.value].shape == (3, 5)


def test_a_use_that_a_rule_does_not_cover_is_as_good_as_unknown():
    # A mask of one dimension, which torch broadcasts.
    module = Net(
        lambda m, h: F.scaled_dot_product_attention(*[h[:, None]] * 3, attn_mask=m.mask)[:, 0],
        mask=nn.Parameter(torch.zeros(1)),
    )
    spec = check(module, X)
    assert len(spec.unsupported) == 1 and "attention (its number of dimensions)" in spec.unsupported[0]
    assert spec.groups == {}


def test_a_fault_in_a_rule_is_not_taken_for_an_unknown_operation(monkeypatch):
    def faulty(recorder, arguments, shapes):
        return arguments["nothing of this name"]

    monkeypatch.setitem(RULES, "relu", faulty)
    with pytest.raises(KeyError):
        trace(Net(lambda m, h: F.relu(h)), X.float())


def test_products_and_concatenations_refine_each_other():
    whole = IndexSet(24)
    q, k, v = cut(whole, [8, 8, 8])
    heads, dims = IndexSet(2), IndexSet(4)
    unify(q, product([heads, dims]))
    unify(k, q)
    assert [part.size for part in structure(whole)[1]] == [8, 8, 8]
    assert atoms(whole) == [heads, dims, heads, dims, v.root()]
    unify(v, product([IndexSet(4), IndexSet(2)]))
    unify(v, q)
    assert not is_fixed(whole) and [atom.size for atom in atoms(v)] == [2, 2, 2]


def test_a_product_is_cut_along_its_slowest_factor():
    node = product([IndexSet(6), IndexSet(4)])
    unify(node, concat([IndexSet(8), IndexSet(16)]))
    assert [atom.size for atom in atoms(node)] == [2, 4, 4]
    assert not is_fixed(node)


def test_what_cannot_be_reconciled_is_fixed():
    for other in (product([IndexSet(3), IndexSet(2)]), concat([IndexSet(1), IndexSet(5)])):
        node = product([IndexSet(2), IndexSet(3)])
        unify(node, other)
        assert is_fixed(node) and is_fixed(other)
    free, fixed = product([IndexSet(2), IndexSet(3)]), IndexSet(6)
    fix(fixed)
    unify(free, fixed)
    assert is_fixed(free)


def test_what_is_within_another_is_within_all_that_this_is_in():
    a, e, b, c = (IndexSet(2) for _ in "aebc")
    assert nesting({b: {a}, c: {a, b}}, [a, b, c]) == {a: (), b: (a,), c: (a, b)}
    assert nesting({b: {a}, c: {b}}, [a, b, c]) == {a: (), b: (a,), c: ()}
    assert nesting({b: {a, e}, c: {a, b}}, [a, e, b, c]) == {a: (), e: (), b: (a, e), c: (a,)}
    # The outermost goes first, whatever the order in memory.
    assert nesting({e: {b, c}, c: {b}, b: {a}}, [e, a, b, c]) == {e: (), a: (), b: (a,), c: ()}


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (lambda: unify(IndexSet(2), IndexSet(3)), "axes of 2 and 3 entries"),
        (lambda: view(Value((free_dim(6),)), [2, 2]), "number of entries that changes"),
    ],
)
def test_other_numbers_of_entries_are_not_supported(pair, message):
    with pytest.raises(Unsupported, match=message):
        pair()


KINDS = ["linear", "norm", "group", "heads", "residual", "cat", "slice", "relu"]


class Stack(nn.Module):
    """Linear maps, norms, attention, splits and residuals on 12 features."""

    def __init__(self, kinds):
        super().__init__()
        self.kinds = kinds
        self.maps = nn.ModuleList(nn.Linear(12, 12) for _ in range(len(kinds) + 1))
        self.halves = nn.ModuleList(nn.Linear(12, 6) for _ in kinds)
        self.readout = nn.Linear(12, 2)

    def forward(self, x):
        x = self.maps[-1](x)
        for kind, linear, half in zip(self.kinds, self.maps, self.halves, strict=False):
            if kind == "linear":
                x = linear(torch.relu(x))
            elif kind == "norm":
                x = F.layer_norm(x, (12,))
            elif kind == "group":
                x = F.group_norm(x, 3)
            elif kind == "heads":
                q, k, v = linear(x).view(-1, 3, 2, 2).unbind(1)
                x = x + F.pad((torch.softmax(q @ k.mT, -1) @ v).flatten(1), (0, 8))
            elif kind == "residual":
                x = x + torch.tanh(linear(x))
            elif kind == "cat":
                x = torch.cat([half(x), half(torch.relu(x))], 1)
            elif kind == "slice":
                x = torch.cat([x[:, 4:].sigmoid(), x[:, :4]], 1)
            else:
                x = torch.relu(x)
        return self.readout(x)


@settings(max_examples=8)
@given(kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=6), seed=st.integers(0, 1000))
def test_random_compositions_keep_their_function(kinds, seed):
    spec = check(Stack(kinds), torch.randn(4, 12, dtype=torch.float64), seed)
    assert spec.unsupported == ()


@settings(max_examples=8)
@given(
    widths=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    groups=st.integers(1, 3),
    norm=st.sampled_from([nn.BatchNorm2d, nn.Identity, lambda n: nn.GroupNorm(n // 2 or 1, n)]),
    seed=st.integers(0, 1000),
)
def test_random_convolutional_nets_keep_their_function(widths, groups, norm, seed):
    sizes_of = [2, *(groups * 2 * width for width in widths)]
    parts = []
    for n, (n_in, n_out) in enumerate(pairwise(sizes_of)):
        parts += [nn.Conv2d(n_in, n_out, 3, padding=1, groups=groups if n else 1), norm(n_out), nn.ReLU()]
    module = nn.Sequential(*parts, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * sizes_of[-1], 2))
    spec = check(module, torch.randn(3, 2, 4, 4, dtype=torch.float64), seed)
    assert spec.unsupported == ()
    assert spec.groups


def test_several_inputs_of_different_batch_sizes():
    class Joined(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 3)

        def forward(self, *several):
            return self.last(torch.relu(self.first(torch.cat(several))))

    spec = trace(Joined(), tuple(torch.zeros(2 + n, 4) for n in range(6))).spec
    assert spec.unsupported == ()
    assert sizes(spec) == {"first": (6,)}
    with pytest.raises(UserError, match="more than 8 sizes that vary"):
        trace(Joined(), tuple(torch.zeros(2 + n, 4) for n in range(9)))
