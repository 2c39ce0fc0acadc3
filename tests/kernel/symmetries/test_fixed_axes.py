"""Axes whose indices stay in place, and what has a permutation of its own for each of them."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from symlab.alignment.activation_matching import activation_matching
from symlab.alignment.matching import match_all
from symlab.alignment.permute import permute
from symlab.alignment.weight_matching import weight_matching
from symlab.symmetries.symmetry_spec import Group, SymmetrySpec, random_permutations
from symlab.symmetries.trace import trace

from .nets import Net

HEADS, DIMENSIONS = 3, 4
SLOPES = torch.tensor([0.5, 0.25, 0.125], dtype=torch.float64)[:, None]
MIXING = torch.arange(9, dtype=torch.float64).reshape(3, 3).sin()
X = torch.randn(5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


class Heads(nn.Module):
    """A linear map to heads x dimensions, heads told apart by constants, a function, and a linear map of all."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.first, self.last = nn.Linear(6, HEADS * DIMENSIONS), nn.Linear(HEADS * DIMENSIONS, 2)

    def forward(self, x):
        v = self.first(x).view(-1, HEADS, DIMENSIONS) * SLOPES
        return self.last(self.function(v.tanh()).reshape(len(x), -1))


def traced(function):
    torch.manual_seed(0)
    module = Heads(function).double().eval().requires_grad_(False)
    return module, trace(module, X).spec


def worst_change(module, spec, seed=0):
    state = dict(module.state_dict())
    moved = permute(state, spec, random_permutations(spec, np.random.default_rng(seed)))
    return float((functional_call(module, moved, (X,)) - module(X)).abs().max())


@pytest.mark.parametrize(
    "function",
    [lambda v: v, lambda v: v * v.amax(-1, keepdim=True), lambda v: (v + SLOPES.flip(0)).relu()],
    ids=["nothing", "maximum within heads", "more constants"],
)
def test_dimensions_move_head_by_head(function):
    module, spec = traced(function)
    (heads,) = set(spec.groups) - set(spec.free)
    assert spec.groups[heads] == Group(HEADS, (), fixed=True)
    assert [spec.groups[name] for name in spec.free] == [Group(DIMENSIONS, (heads,))]
    assert worst_change(module, spec) <= 1e-12
    assert SymmetrySpec.from_json(spec.to_json()).groups == spec.groups


@pytest.mark.parametrize(
    "function",
    [
        lambda v: v + v.roll(1, 1),
        lambda v: v.cumsum(1),
        lambda v: v + v.cumsum(1),
        lambda v: v + v.flip(1),
        lambda v: v.softmax(1),
        lambda v: v - v.mean(1, keepdim=True),
        lambda v: v + torch.einsum("gh,bhd->bgd", MIXING, v),
        lambda v: torch.cat([v[:, 1:], v[:, :1]], 1) * v,
        lambda v: v + v[:, [2, 0, 1]],
        lambda v: v.sort(1).values + v,
        lambda v: v * v[:, 0].repeat(1, HEADS).view(-1, HEADS, DIMENSIONS),
    ],
    ids=["roll", "cumsum", "cumsum added", "flip", "softmax", "mean", "mixing", "cat", "index", "sort", "repeat"],
)
def test_dimensions_of_heads_that_meet_move_alike(function):
    module, spec = traced(function)
    assert all(not spec.groups[name].within for name in spec.free)
    assert worst_change(module, spec) <= 1e-12


@pytest.mark.parametrize(
    ("function", "kept"),
    [
        (lambda h: h + torch.arange(4.0).sin(), [("first.weight", 0), ("first.bias", 0), ("last.weight", 1)]),
        (
            lambda h: h.view(-1, 2, 2) * torch.tensor([[2.0], [3.0]]),
            [("first.weight", 0), ("first.bias", 0), ("last.weight", 1)],
        ),
        (lambda h: 2 * h + torch.full((4,), 0.5), []),
        (lambda h: h[:, torch.tensor([1, 0, 3, 2])], []),
        (lambda h: h.roll(1, 1), []),
        (lambda h: torch.where(h.sum(1, keepdim=True) > 0, h, torch.zeros(4)), []),
        (lambda h: torch.arange(3.0)[:, None] * h[:, None], []),
    ],
    ids=["sinusoids", "slopes", "one number", "positions", "an operation", "a mask", "beside"],
)
def test_what_constants_alone_keep_in_place_is_told(function, kept):
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(6, 4), nn.Linear(4, 2)

        def forward(self, x):
            return self.last(function(self.first(x)).reshape(len(x), -1, 4))

    assert list(trace(Network(), X.float()).kept_by_constants()) == kept


def test_what_nothing_reads_stays_in_place_and_is_told_apart_from_what_an_operation_mixes():
    class Sums(nn.Module):
        def forward(self, h):
            return h.cumsum(1)

    module = Net(lambda net, h: net.mixer[0](h), mixer=nn.Sequential(Sums()), spare=nn.Linear(2, 5))
    spec = trace(module, torch.randn(3, 4)).spec
    kept = {"cumsum in 'mixer.0'": {("first.weight", 0), ("first.bias", 0), ("last.weight", 1)},
            "no operation that reads it": {("spare.weight", 0), ("spare.weight", 1), ("spare.bias", 0)}}  # fmt: skip
    assert {operation: set(axes) for operation, axes in spec.mixed.items()} == kept


def test_what_a_middle_axis_of_a_view_holds_moves_apart():
    """Query, key and value interleaved head by head: the value's dimensions are not those of the keys."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.fused, self.last = nn.Linear(6, HEADS * 3 * DIMENSIONS), nn.Linear(HEADS * DIMENSIONS, 2)

        def forward(self, x):
            fused = self.fused(x).view(-1, 1, HEADS, 3, DIMENSIONS)
            q, k, v = fused[..., 0, :], fused[..., 1, :], fused[..., 2, :]
            scores = torch.einsum("bqhd,bkhd->bhqk", q, k) + SLOPES[:, :, None]
            return self.last(torch.einsum("bhqk,bkhd->bqhd", scores.sigmoid(), v).reshape(len(x), -1))

    torch.manual_seed(0)
    module = Attention().double().eval().requires_grad_(False)
    spec = trace(module, X).spec
    (heads,) = set(spec.groups) - set(spec.free)
    assert [spec.groups[name] for name in spec.free] == [Group(DIMENSIONS, (heads,))] * 2
    assert worst_change(module, spec) <= 1e-12


def test_fixed_neurons_are_matched_to_themselves():
    rng = np.random.default_rng(0)
    groups = {"heads": Group(HEADS, fixed=True), "dims": Group(DIMENSIONS, ("heads",))}
    S = rng.random((HEADS * DIMENSIONS, HEADS * DIMENSIONS))
    # All other heads of B look more alike.
    for h in range(HEADS):
        S[h * DIMENSIONS : (h + 1) * DIMENSIONS, h * DIMENSIONS : (h + 1) * DIMENSIONS] -= 5
    planted = np.stack([rng.permutation(DIMENSIONS) for _ in range(HEADS)])
    for h, pi in enumerate(planted):
        S[h * DIMENSIONS + np.arange(DIMENSIONS), h * DIMENSIONS + pi] += 1
    found = match_all({"dims": S}, groups)
    assert found["heads"].tolist() == [0, 1, 2] and (found["dims"] == planted).all()


def test_weight_matching_undoes_what_was_planted_head_by_head():
    module, spec = traced(lambda v: v)
    state = dict(module.state_dict())
    planted = random_permutations(spec, np.random.default_rng(3))
    moved = permute(state, spec, planted)
    found = weight_matching(spec, state, moved, np.random.default_rng(0)).permutations
    back = permute(moved, spec, found)
    assert all(torch.equal(back[name], state[name]) for name in state)


@pytest.mark.parametrize("slopes", [SLOPES, torch.ones_like(SLOPES)], ids=["heads stay", "heads move"])
def test_activations_match_heads_that_are_folded_into_the_batch(slopes):
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(6, HEADS * DIMENSIONS) for _ in range(3))
            self.last = nn.Linear(HEADS * DIMENSIONS, 2)

        def forward(self, x):
            tokens = x.shape[1]
            q, k, v = (
                part(x).view(-1, tokens, HEADS, DIMENSIONS).transpose(1, 2).reshape(-1, tokens, DIMENSIONS)
                for part in (self.q, self.k, self.v)
            )
            scores = torch.bmm(q, k.mT).view(-1, HEADS, tokens, tokens) * slopes[:, :, None]
            mixed = torch.bmm(scores.softmax(-1).view(-1, tokens, tokens), v).view(-1, HEADS, tokens, DIMENSIONS)
            return self.last(mixed.transpose(1, 2).reshape(-1, tokens, HEADS * DIMENSIONS))

    torch.manual_seed(0)
    module = Attention().double().eval().requires_grad_(False)
    x = torch.randn(64, 5, 6, dtype=torch.float64)
    network = trace(module, x[:2])
    state = dict(module.state_dict())
    moved = permute(state, network.spec, random_permutations(network.spec, np.random.default_rng(3)))
    found = activation_matching(network, [state], moved, x, 16, np.random.default_rng(0)).permutations
    back = permute(moved, network.spec, found)
    assert all(torch.equal(back[name], state[name]) for name in state)


def scores(a, b):
    return torch.einsum("bhd,bgd->bhg", a, b).softmax(-1)


# Two values [batch, heads, dimensions] make one.
STEPS = [
    lambda a, b: a * SLOPES.flip(0) + b,
    lambda a, b: a.tanh() * b,
    lambda a, b: a + b.roll(1, 1),
    lambda a, b: a.sort(1).values * b,
    lambda a, b: a * b[:, :1],
    lambda a, b: a * b[:, 1].repeat(1, HEADS).view_as(a),
    lambda a, b: torch.cat([a[:, :1].exp(), b[:, 1:]], 1),
    lambda a, b: torch.stack([a[:, 2], b[:, 1], a[:, 0]], 1),
    lambda a, b: a.reshape(-1, DIMENSIONS, HEADS).softmax(-1).reshape(a.shape) + b,
    lambda a, b: (a.view(-1, HEADS, 2, 2) + b.view(-1, HEADS, 2, 2).sum(2, keepdim=True)).view_as(a),
    lambda a, b: torch.einsum("gh,bhd->bgd", MIXING, a) * b,
    lambda a, b: scores(a, b) @ b,
    lambda a, b: a * scores(b, b).diagonal(dim1=1, dim2=2)[..., None],
    lambda a, b: a.gather(2, b.argsort(2)),
    lambda a, b: a + torch.nn.functional.pad(b[:, 1:], (0, 0, 0, 1)),
    lambda a, b: torch.nn.functional.layer_norm(a, (DIMENSIONS,)) * b.mean(1, keepdim=True),
]


# The last three found that one head spread over all had passed for each head's own.
@pytest.mark.parametrize("seed", [0, 1, 2, 3, 27, 75, 79])
def test_random_programs_keep_their_function(seed):
    rng = np.random.default_rng(seed)
    program = [(STEPS[rng.integers(len(STEPS))], *rng.integers(0, 2, 2)) for _ in range(3)]

    def function(v):
        values = [v, v.sin()]
        for step, i, j in program:
            values = [step(values[i], values[j]), values[i]]
        return values[0]

    module, spec = traced(function)
    assert max(worst_change(module, spec, draw) for draw in range(3)) <= 1e-12
