"""Signs of neurons: which are free, that they are found and matched, and that no others are."""

import functools

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from symlab import align, merge, trace
from symlab.alignment import signs
from symlab.alignment.activation_matching import ActivationMatching
from symlab.alignment.permute import permute
from symlab.alignment.signs import signs_of
from symlab.symmetries.signs import _alike, _rounding, apply_flips, nullspace, random_signs, with_columns_alone
from symlab.symmetries.symmetry_spec import random_permutations


def mlp(activation):
    return nn.Sequential(nn.Linear(6, 8), activation, nn.Linear(8, 5), activation, nn.Linear(5, 3))


class Gated(nn.Module):
    """A residual stream normalised by its mean square with gains, and a gated layer, its two maps in one matrix."""

    def __init__(self, activation=functional.silu, mean=False, in_turns=False, in_rows=False):
        super().__init__()
        self.activation, self.mean, self.in_turns, self.in_rows = activation, mean, in_turns, in_rows
        self.first, self.both = nn.Linear(6, 8), nn.Linear(8, 24, bias=False)
        self.down, self.head = nn.Linear(12, 8, bias=False), nn.Linear(8, 3)
        self.gain1, self.gain2 = nn.Parameter(torch.ones(8)), nn.Parameter(torch.ones(8))

    def normed(self, x, gain):
        x = x - x.mean(-1, keepdim=True) if self.mean else x
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * (gain.view(1, 8) if self.in_rows else gain)

    def forward(self, x):
        x = self.first(x)
        both = self.both(self.normed(x, self.gain1))
        gate, up = (both[..., ::2], both[..., 1::2]) if self.in_turns else both.chunk(2, dim=-1)
        return self.head(self.normed(x + self.down(self.activation(gate) * up), self.gain2))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm, self.head = nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.norm(self.stem(x))).mean((2, 3)))


class Excited(nn.Module):
    """Blocks whose norms make values small, where hard-swish is all but odd, and an excitation by a few ReLUs."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(1 if n == 0 else 6, 6, 3, padding=1) for n in range(6))
        self.norms = nn.ModuleList(nn.BatchNorm2d(6) for _ in range(6))
        self.reduce, self.expand, self.head = nn.Linear(6, 2), nn.Linear(2, 6), nn.Linear(6, 3)
        for norm in self.norms:
            nn.init.constant_(norm.weight, 0.05)

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = functional.hardswish(norm(conv(x)))
        scale = functional.hardsigmoid(self.expand(functional.relu(self.reduce(x.mean((2, 3))))))
        return self.head((x * scale[..., None, None]).mean((2, 3)))


class Heads(nn.Module):
    """Attention without positions: signs of each dimension within each head are free, of queries with keys."""

    def __init__(self, masked=False, packed=False, written=False):
        super().__init__()
        self.masked, self.packed, self.written = masked, packed, written
        self.first, self.out, self.head = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        if packed:
            self.qkv = nn.Linear(8, 24)
        else:
            self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        x = self.first(x)
        of_heads = self.qkv(x).chunk(3, -1) if self.packed else (of(x) for of in (self.q, self.k, self.v))
        q, k, v = (each.unflatten(-1, (2, 4)).transpose(1, 2) for each in of_heads)
        if self.written:
            # In parts, into memory that holds anything, as keys of DeepSeek-V3 are.
            rest = k
            k = rest.new_empty(*rest.shape[:-1], 6)
            k[..., :4], k[..., 4:] = rest, rest.square().mean(-1, keepdim=True)
            q = functional.pad(q, (0, 2), value=0.5)
        scores = q @ k.mT / 2
        if self.masked:
            # Not infinite, as in many networks of transformers.
            later = torch.full((5, 5), torch.finfo(torch.float32).min).triu(1)
            scores = torch.tanh(scores) + later
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return self.head(torch.relu(x + self.out(mixed))).mean(1)


class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(6, 4, bias=False), nn.Linear(4, 5, bias=False), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(torch.relu(self.b(self.a(x))))


class Sines(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(6, 8), nn.Linear(8, 3))

    def forward(self, x):
        return self[1](torch.sin(self[0](x)))


class Waves(nn.Module):
    """Sines of many frequencies, each of all neurons, side by side or, by way of that, summed up."""

    def __init__(self, n, summed=False):
        super().__init__()
        self.n, self.summed = n, summed
        self.first, self.head = nn.Linear(6, 8), nn.Linear(8 if summed else 8 * n, 3)

    def forward(self, x):
        x = self.first(x)
        waves = torch.cat([torch.sin((1 + n / 9) * x) for n in range(self.n)], 1)
        return self.head(waves.view(-1, self.n, 8).sum(1) if self.summed else waves)


class Counted(nn.Linear):
    """The sum of its neurons, thrice."""

    def __init__(self):
        super().__init__(6, 8)

    def forward(self, x):
        return torch.tanh(super().forward(x)) @ torch.ones(8, 3, dtype=x.dtype)


class Beside(nn.Module):
    """Numbers of neurons and numbers of samples in one tensor."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        return self.head(hidden) + torch.cat([hidden.sum(0), x.sum(1)]).square().sum()


class Recurrent(nn.Module):
    """Texts read by a recurrent layer, or by one of its cells, step by step."""

    def __init__(self, kind, **options):
        super().__init__()
        self.over, self.head = kind(6, 5, **options), nn.Linear(5 * (1 + options.get("bidirectional", False)), 3)

    def forward(self, x):
        if isinstance(self.over, nn.RNNBase):
            return self.head(self.over(x)[0][:, 1])
        state = None
        for step in x.unbind(1):
            state = self.over(step, state)
        return self.head(state[0])


# What each network's free signs turn, by hand; weights alone.
GATED = [
    {"both.weight", "down.weight"},
    {"gain1", "both.weight"},
    {"gain2", "head.weight"},
    {"first.weight", "down.weight", "both.weight", "head.weight"},
]
FREE = {
    "tanh": (lambda: mlp(nn.Tanh()), [{"0.weight", "2.weight"}, {"2.weight", "4.weight"}]),
    "sine": (Sines, [{"0.weight", "1.weight"}]),
    "relu": (lambda: mlp(nn.ReLU()), []),
    "gelu": (lambda: mlp(nn.GELU()), []),
    "gated": (Gated, GATED),
    # Gates and values stand in turns, as in GPT-OSS.
    "gated, in turns": (lambda: Gated(in_turns=True), GATED),
    "gated, gains in rows": (lambda: Gated(in_rows=True), GATED),
    "gated by an odd function": (lambda: Gated(torch.tanh), None),
    "normalised by mean and deviation": (lambda: Gated(mean=True), GATED[:3]),
    "batch norm": (Images, [{"stem.weight", "norm.weight"}, {"norm.weight", "head.weight"}]),
    "excited": (Excited, [{f"convs.{n}.weight", f"norms.{n}.weight"} for n in range(6)]),
    "factors": (Factors, [{"a.weight", "b.weight"}]),
    "heads": (Heads, [{"q.weight", "k.weight"}, {"v.weight", "out.weight"}] * 2),
    # Queries and keys, in one matrix, are turned round together: neither alone is a part of the state.
    "heads, packed": (lambda: Heads(packed=True), [{"qkv.weight"}, {"qkv.weight", "out.weight"}] * 2),
    "heads, written": (lambda: Heads(written=True), [{"q.weight", "k.weight"}, {"v.weight", "out.weight"}] * 2),
    # Of h = o tanh(c), c' = f c + i g, and of h' = (1 - z) n + z h: the candidate's row, and all that reads h.
    "LSTM": (
        lambda: Recurrent(nn.LSTM, batch_first=True, bidirectional=True),
        [
            {"over.weight_ih_l0", "over.weight_hh_l0", "head.weight"},
            {"over.weight_ih_l0_reverse", "over.weight_hh_l0_reverse", "head.weight"},
        ],
    ),
    "GRU": (
        lambda: Recurrent(nn.GRU, batch_first=True),
        [{"over.weight_ih_l0", "over.weight_hh_l0", "head.weight"}],
    ),
    "RNN of relus": (lambda: Recurrent(nn.RNN, batch_first=True, nonlinearity="relu"), []),
    "LSTM's cell": (lambda: Recurrent(nn.LSTMCell), [{"over.weight_ih", "over.weight_hh", "head.weight"}]),
    "heads, masked": (lambda: Heads(True), [{"q.weight", "k.weight"}, {"v.weight", "out.weight"}] * 2),
    "beside samples": (Beside, [{"first.weight", "head.weight"}]),
    "counted": (Counted, []),
    # Free, but an operation that reads a group in 34 places, or has 64 with those of its result, is not asked.
    "17 waves": (lambda: Waves(17), []),
    "32 waves, summed": (lambda: Waves(32, summed=True), []),
    "8 waves": (lambda: Waves(8), [{"first.weight", "head.weight"}]),
}


@pytest.fixture
def filled_memory():
    """Memory that nothing was written to holds NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def drawn(name, seed=0):
    torch.manual_seed(seed)
    module = FREE[name][0]().eval().requires_grad_(False)
    for entry, tensor in module.state_dict().items():
        if tensor.is_floating_point() and tensor.dim() < 2:
            tensor.add_(0.5 * torch.rand_like(tensor) if "var" in entry else 0.3 * torch.randn_like(tensor))
    shape = {Images: (60, 1, 5, 5), Excited: (60, 1, 5, 5), Heads: (100, 5, 6), Recurrent: (100, 3, 6)}.get(
        type(module), (400, 6)
    )
    return module, torch.randn(shape)


@functools.cache
def free_signs(name):
    """A network's trace and signs, found once for all tests."""
    module, x = drawn(name)
    traced = trace(module, x[:4])
    return traced, signs_of(module, traced, x[:4], module.state_dict())


@pytest.mark.parametrize("name", FREE)
def test_free_signs_are_found_and_change_nothing_in_float64(name, filled_memory):
    module, x = drawn(name)
    traced, flips = free_signs(name)
    expected = FREE[name][1]
    if expected is not None:
        weights = [{n for n in flip.turned if n.startswith("gain") or "weight" in n} for flip in flips]
        assert len(flips) == len(expected)
        # Any basis of the same signs will do: each of mine is a product of those found.
        for each in expected:
            combinations = [set()]
            for other in weights:
                combinations += [one ^ other for one in combinations]
            assert each in combinations, (each, weights)
    module = module.double()
    state = module.state_dict()
    signs = random_signs(traced.spec, flips, np.random.default_rng(1))
    turned = apply_flips(state, traced.spec, flips, signs)
    before = module(x.double())
    assert bool(flips) == any(not torch.equal(turned[entry], state[entry]) for entry in state)
    module.load_state_dict(turned)
    torch.testing.assert_close(module(x.double()), before, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("name", [name for name, (_, free) in FREE.items() if free != []])
def test_planted_signs_and_permutations_are_undone(name):
    module, x = drawn(name)
    traced, flips = free_signs(name)
    A = {entry: tensor.clone() for entry, tensor in module.state_dict().items()}
    rng = np.random.default_rng(0)
    B = permute(A, traced.spec, random_permutations(traced.spec, rng))
    B = apply_flips(B, traced.spec, flips, random_signs(traced.spec, flips, rng))
    signed, plain = (align(module, A, B, x, group=group, traced=traced) for group in ("signed", "permutation"))
    assert all(torch.equal(signed.permuted[entry], tensor) for entry, tensor in A.items())
    assert not all(torch.equal(plain.permuted[entry], tensor) for entry, tensor in A.items())


@pytest.mark.parametrize("name", ["gated", "gated, gains in rows"])
def test_gains_are_known_by_what_they_multiply(name):
    assert sorted(flip.gain[0] for flip in free_signs(name)[1] if flip.gain) == ["gain1", "gain2"]


def test_signs_of_gains_are_settled_before_the_order_of_a_stream():
    """A stream between a norm's centred values has no signs: networks that differ are ordered as without signs."""
    module, x = drawn("normalised by mean and deviation")
    traced = trace(module, x[:4])
    torch.manual_seed(1)
    A, other = (
        {entry: tensor + torch.randn_like(tensor) for entry, tensor in module.state_dict().items()} for _ in "AB"
    )
    A, other = ({**state, **{name: state[name].abs() for name in ("gain1", "gain2")}} for state in (A, other))
    gains = [flip for flip in signs_of(module, traced, x[:4], A) if flip.gain]
    assert sorted(flip.gain[0] for flip in gains) == ["gain1", "gain2"]
    planted = apply_flips(other, traced.spec, gains, random_signs(traced.spec, gains, np.random.default_rng(0)))
    assert (planted["gain1"] < 0).any() and (planted["gain2"] < 0).any()
    signed, plain = (
        align(module, A, B, x, group=group, traced=traced) for group, B in (("signed", planted), ("permutation", other))
    )
    (stream,) = {flip.group for flip in gains}
    np.testing.assert_array_equal(signed.permutations[stream], plain.permutations[stream])
    for entry in ("gain1", "gain2", "head.weight"):
        torch.testing.assert_close(signed.permuted[entry], plain.permuted[entry])


def test_what_weights_decide_once_signs_are_known_is_renumbered_last(monkeypatch):
    module, x = drawn("heads")
    traced, _ = free_signs("heads")
    A, spec, rng = module.state_dict(), traced.spec, np.random.default_rng(0)
    orders = [random_permutations(spec, rng) for _ in range(2)]
    given = (ActivationMatching(order, {}, tuple(spec.groups), ()) for order in orders)
    monkeypatch.setattr(signs, "activation_matching", lambda *_, **__: next(given))
    found = signs.signed_matching(traced, A, A, x, 50, [], rng).matching.permutations
    expected = permute(permute(A, spec, orders[0]), spec, orders[1])
    assert all(torch.equal(tensor, expected[entry]) for entry, tensor in permute(A, spec, found).items())


def test_columns_that_one_vector_alone_has():
    vectors = [0b1101, 0b0111, 0b1010]
    found, alone = with_columns_alone(vectors, [0, 2, 3])
    span = {0}
    for vector in vectors:
        span |= {vector ^ each for each in span}
    spanned = {0}
    for vector in found:
        spanned |= {vector ^ each for each in spanned}
    assert spanned == span
    assert sorted(alone.values()) == [0, 3]
    for own, column in alone.items():
        assert [n for n, vector in enumerate(found) if (vector >> column) & 1] == [own]


def test_three_networks_merge_up_to_their_signs():
    module, x = drawn("tanh")
    traced, flips = free_signs("tanh")
    A = dict(module.state_dict())
    copies = []
    for seed in (1, 2):
        rng = np.random.default_rng(seed)
        moved = permute(A, traced.spec, random_permutations(traced.spec, rng))
        copies.append(apply_flips(moved, traced.spec, flips, random_signs(traced.spec, flips, rng)))
    merged = merge(module, [A, *copies], x, group="signed")
    for entry, tensor in A.items():
        torch.testing.assert_close(merged.state[entry], tensor)
    for copy, pi in zip(copies, merged.universe.permutations[1:], strict=True):
        assert torch.equal(copy["0.weight"][torch.as_tensor(pi["0"])].abs(), A["0.weight"].abs())


def test_orders_from_before_and_after_the_signs_are_one_after_the_other(monkeypatch):
    module, x = drawn("tanh")
    spec, A, rng = free_signs("tanh")[0].spec, module.state_dict(), np.random.default_rng(0)
    copy, before = permute(A, spec, random_permutations(spec, rng)), random_permutations(spec, rng)
    found = signs.SignedMatching(ActivationMatching(before, {}, (), ()), {})
    monkeypatch.setattr("symlab.own.merge.signed_matching", lambda *_: found)
    whole = merge(module, [A, copy], x, group="signed").universe.permutations[1]
    assert all(torch.equal(tensor, A[entry]) for entry, tensor in permute(copy, spec, whole).items())


def test_a_nullspace_over_two_elements_by_hand():
    # Of x0 + x1 = 0 and x1 + x2 + x3 = 0.
    rows = {0b0011, 0b1110}
    basis = nullspace(rows, 4)
    assert len(basis) == 2
    spanned = {0, *basis, basis[0] ^ basis[1]}
    assert spanned == {v for v in range(16) if all((v & row).bit_count() % 2 == 0 for row in rows)}
    assert nullspace([], 2) == [1, 2]


def test_rounding_beside_larger_outputs_is_no_difference():
    expected = torch.tensor([1, 0, -torch.inf, torch.finfo(torch.float64).min], dtype=torch.float64)
    for moved, alike in ((1e-14, True), (1e-3, False)):
        assert _alike(expected + torch.tensor([0, moved, 0, 0]), expected, _rounding(expected)) == alike
