"""Linear maps of neurons that change nothing: which are free, by hand, and that no others are claimed."""

import functools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from symlab import SGD, align, merge, mirrors, trace
from symlab.alignment import rotations
from symlab.alignment.permute import permute
from symlab.alignment.weight_matching import weight_matching
from symlab.networks.vit import ViT
from symlab.seeds import numpy_rng, torch_generator
from symlab.symmetries.actions import act, actions_of, fold, random_element
from symlab.symmetries.completeness import dimensions_of
from symlab.symmetries.relations import reduced
from symlab.symmetries.signs import apply_flips
from symlab.symmetries.symmetry_spec import random_permutations

from .nets import Experts

STREAM = "orthogonal fixing ones"


class Norms(nn.Module):
    """Attention and a gated layer on a stream with norms before them, or after them."""

    def __init__(self, norm=nn.RMSNorm, after=False, tied=False, qk_norm=False):
        super().__init__()
        self.after, self.tied, self.qk_norm = after, tied, qk_norm
        self.embedding, self.head = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
        self.q, self.k, self.v, self.o = (nn.Linear(8, 8, bias=False) for _ in range(4))
        self.gate, self.up, self.down = nn.Linear(8, 5), nn.Linear(8, 5), nn.Linear(5, 8)
        self.norms = nn.ModuleList(norm(8) for _ in range(3))
        self.of_heads = nn.ModuleList(nn.RMSNorm(4) for _ in range(2))
        if tied:
            self.head.weight = self.embedding.weight

    def attention(self, x):
        q, k, v = (of(x).unflatten(-1, (2, 4)).transpose(1, 2) for of in (self.q, self.k, self.v))
        q, k = (norm(each) if self.qk_norm else each for norm, each in zip(self.of_heads, (q, k), strict=True))
        return self.o(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def mlp(self, x):
        return self.down(functional.silu(self.gate(x)) * self.up(x))

    def forward(self, x):
        x = self.embedding(x)
        for part, norm in zip((self.attention, self.mlp), self.norms[:2], strict=True):
            x = norm(x + part(x)) if self.after else x + part(norm(x))
        return self.head(x if self.after else self.norms[2](x))


class Packed(nn.Module):
    """Attention whose queries, keys and values are one matrix."""

    def __init__(self):
        super().__init__()
        self.first, self.qkv, self.out, self.head = nn.Linear(16, 8), nn.Linear(8, 24), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        x = self.first(x.unflatten(1, (4, 16)))
        q, k, v = (each.unflatten(-1, (2, 4)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return self.head(torch.relu(x + self.out(mixed))).mean(1)


class Normalised(nn.Module):
    """Weights that are normalised before they are used: their sizes are free, and nothing else is."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(64, 8, bias=False), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(torch.tanh(functional.linear(x, functional.normalize(self.first.weight, dim=1))))


class Unseen(nn.Module):
    """A hidden layer that outputs do not see: everything leaves them as they are, which proves nothing."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.head = nn.Linear(64, 8), nn.Linear(8, 3), nn.Linear(64, 3)

    def forward(self, x):
        return self.head(x) + 1e-30 * self.last(torch.relu(self.first(x)))


class Lora(nn.Module):
    """A linear map with a correction of low rank, as LoRA adds it."""

    def __init__(self):
        super().__init__()
        self.base, self.down, self.up = nn.Linear(64, 8), nn.Linear(64, 3, bias=False), nn.Linear(3, 8, bias=False)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(torch.relu(self.base(x) + self.up(self.down(x)) / 2))


class Pixels(nn.Module):
    """Four pixels, whose channels become those of one."""

    def __init__(self):
        super().__init__()
        self.pixel, self.merged = nn.Linear(16, 4), nn.Linear(16, 3)

    def forward(self, x):
        return self.merged(torch.cat(self.pixel(x.unflatten(1, (4, 16))).relu().unbind(1), -1))


class Rotary(nn.Module):
    """Heads that constants tell apart, in which positions turn queries and keys, two dimensions at a time."""

    def __init__(self):
        super().__init__()
        self.first, self.q, self.k, self.head = nn.Linear(16, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(16, 3)

    def forward(self, x):
        x = self.first(x.unflatten(1, (4, 16)))
        places = torch.arange(4).to(x)
        angles = places[:, None] * torch.tensor([1.0, 0.1]).to(x)
        turned = []
        for of in (self.q, self.k):
            a, b = of(x).unflatten(-1, (2, 4)).transpose(1, 2).chunk(2, -1)
            turned.append(torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1))
        apart = torch.tensor([0.5, 0.25]).to(x)[:, None, None] * (places[:, None] - places).abs()
        mixed = (turned[0] @ turned[1].mT - apart).softmax(-1) @ x[:, None]
        return self.head(mixed.transpose(1, 2).flatten(2)).mean(1)


def mlp(activation, *norms):
    return nn.Sequential(nn.Linear(64, 8), *norms, activation, nn.Linear(8, 5, bias=False), activation, nn.Linear(5, 3))


HEADS = {"q:1": "invertible", "v:1": "invertible"}
GATED = {"gate": "scaled"}
# By group the kind of each network's maps, by hand. Scales of a stream are those of gains that stay, as those of
# queries and keys where these are normalised.
KINDS = {
    "before, mean square": (Norms, {"embedding": "orthogonal", **HEADS, **GATED}),
    "before, mean and deviation": (lambda: Norms(nn.LayerNorm), {"embedding": STREAM, **HEADS, **GATED}),
    "after": (lambda: Norms(nn.LayerNorm, after=True), {"embedding": "scaled", **HEADS, **GATED}),
    "tied": (lambda: Norms(tied=True), {"embedding": "scaled", **HEADS, **GATED}),
    "queries and keys normalised": (
        lambda: Norms(qk_norm=True),
        {"embedding": "orthogonal", "q:1": "scaled", "v:1": "invertible", **GATED},
    ),
    "vit": (
        lambda: ViT(64, 10, 4, 8, 1, 2, 2, 1),
        {"stream": STREAM, "blocks.0.attention.query:1": "invertible", "blocks.0.attention.value:1": "invertible"},
    ),
    "packed": (Packed, {"first": "scaled", "qkv:1": "invertible", "qkv:2": "invertible"}),
    "tanh": (lambda: mlp(nn.Tanh()), {}),
    "relu": (lambda: mlp(nn.ReLU()), {"0": "scaled", "2": "scaled"}),
    "gelu": (lambda: mlp(nn.GELU()), {}),
    "lora": (Lora, {"base": "scaled", "down": "invertible"}),
    "pixels": (Pixels, {"pixel": "scaled"}),
    "nothing between": (
        lambda: nn.Sequential(*mlp(nn.ReLU())[:2], nn.Linear(8, 4, bias=False), nn.Linear(4, 8), *mlp(nn.ReLU())[1:]),
        {"0": "scaled", "2": "invertible", "3": "scaled", "5": "scaled"},
    ),
    "normalised": (Normalised, {"first": "scaled"}),
    "unseen": (Unseen, {}),
    # Its mean and gain follow a scale; its eps keeps the variance from it.
    "batch norm": (lambda: mlp(nn.Tanh(), nn.BatchNorm1d(8)), {"0": "scaled"}),
    "batch norm without eps": (lambda: mlp(nn.Tanh(), nn.BatchNorm1d(8, eps=0)), {"0": "scaled"}),
    "experts": (Experts, {"first": "invertible", "down": "invertible"}),
    "rotary": (Rotary, {"first": "invertible", "q:1": "planes"}),
}


def drawn(name, n=8):
    torch.manual_seed(0)
    module = KINDS[name][0]().eval().requires_grad_(False)
    for entry, tensor in module.state_dict().items():
        if tensor.is_floating_point() and tensor.dim() < 2:
            tensor.add_(0.3 * (torch.rand_like(tensor) if "var" in entry else torch.randn_like(tensor)))
    return module, torch.randint(11, (n, 6)) if isinstance(module, Norms) else torch.randn(n, 64)


@functools.cache
def free_maps(name):
    """A network's trace and maps, found once for all tests."""
    module, x = drawn(name, 200)
    traced = trace(module, x[:4])
    return traced, actions_of(module, traced, x[:4], module.state_dict())


@pytest.mark.parametrize("name", KINDS)
def test_maps_are_found_and_change_nothing_in_float64(name):
    module, x = drawn(name)
    _, actions = free_maps(name)
    expected = KINDS[name][1]
    assert {action.group: action.kind for action in actions} == expected
    module = module.double()
    x = x.double() if x.is_floating_point() else x
    before, state = module(x), {entry: tensor.clone() for entry, tensor in module.state_dict().items()}
    generator = torch.Generator().manual_seed(1)
    moved = state
    for action in actions:
        moved = fold(moved, action)
        moved = act(moved, action, random_element(action, generator))
        assert action.change < 1e-12
    assert bool(actions) == any(not torch.equal(moved[entry], tensor) for entry, tensor in state.items())
    module.load_state_dict(moved)
    torch.testing.assert_close(module(x), before, atol=1e-11, rtol=1e-11)


def test_an_echelon_form_by_hand():
    rows = reduced(torch.tensor([[2.0, 4.0, 2.0], [1.0, 2.0, 3.0]]).double().numpy())
    assert rows.tolist() == [[1, 2, 0], [0, 0, 1]]


# By hand, for d channels of a stream and d_h dimensions of a head: d (d - 1) / 2 rotations and a scale of all writers;
# those that fix ones, (d - 1) (d - 2) / 2, and means of writers and readers, 2 d; d_h^2; a scale a neuron.
DIMENSIONS = {
    "before, mean square": {"embedding": 29, "gate": 5, "q:1": 16, "v:1": 16},
    "before, mean and deviation": {"embedding": 37, "gate": 5, "q:1": 16, "v:1": 16},
    "tied": {"gate": 5, "q:1": 16, "v:1": 16},
    "nothing between": {"2": 16},
    "experts": {},
}


@pytest.mark.parametrize("name", DIMENSIONS)
def test_no_other_maps_are_free(name):
    module, x = drawn(name, 60)
    traced, actions = free_maps(name)
    found = dimensions_of(module, traced, x, module.state_dict(), actions)
    assert {group: each.measured for group, each in found.items()} == DIMENSIONS[name]
    assert {group: each.claimed for group, each in found.items()} == DIMENSIONS[name]


def planted(name, module, group, seed):
    """A network, and the same in another order and other bases."""
    traced, actions = free_maps(name)
    A = {
        entry: tensor.double() if tensor.is_floating_point() else tensor
        for entry, tensor in module.state_dict().items()
    }
    generator, rng = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    B = permute(A, traced.spec, random_permutations(traced.spec, rng))
    for action in actions:
        if group == "full":
            B = act(fold(B, action), action, random_element(action, generator))
        elif action.kind != "scaled":
            # The orthogonal factor of a map of the kind is one of the kind.
            U, _, V = torch.linalg.svd(random_element(action, generator))
            B = act(fold(B, action), action, U @ V)
    return A, B


# Scales of what a batch norm reads are not used, for averages estimate its statistics anew.
MAPPED = [name for name, (_, kinds) in KINDS.items() if kinds and not name.startswith("batch norm")]
# Networks that differ in what is more than a scale: others are matched by orthogonal maps as these, or by none.
ROTATED = ("before, mean square", "before, mean and deviation", "packed", "lora", "nothing between")


# No activation tells experts apart, and sweeps by weights end next to the bases of rotary heads.
NEAR = [("experts", "activation"), ("rotary", "weight")]


@pytest.mark.parametrize(
    ("name", "group", "method"),
    [(name, "full", method) for name in MAPPED for method in ("activation", "weight") if (name, method) not in NEAR]
    + [(name, "orthogonal", "activation") for name in ROTATED],
)
def test_planted_maps_and_permutations_are_undone(name, group, method):
    module, x = drawn(name, 200)
    A, B = planted(name, module, group, 3)
    traced, actions = free_maps(name)
    found = align(module.double(), A, B, x, method, group=group, traced=traced)
    assert found.reference is not None
    for entry, tensor in found.reference.items():
        torch.testing.assert_close(found.permuted[entry], tensor, atol=1e-8, rtol=1e-8)
    if group == "full":
        # What is told of the way there leads there: order first, then maps, then signs.
        state = permute(rotations.prepared(B, actions, True), traced.spec, found.permutations)
        by_group = {action.group: action for action in actions}
        for key, M in found.transforms.items():
            state = act(state, by_group[key.partition(".")[2]], torch.from_numpy(M))
        state = apply_flips(state, traced.spec, found.flips, found.signs)
        for entry, tensor in state.items():
            torch.testing.assert_close(found.permuted[entry], tensor, atol=1e-8, rtol=1e-8)
    if found.transforms and (group, method) == ("full", "weight"):
        plain = align(module, A, B, x, method, group="permutation", traced=traced)
        assert not all(torch.allclose(plain.permuted[entry], tensor, atol=1e-2) for entry, tensor in A.items())


def test_heads_that_constants_keep_in_place_are_brought_near_by_weights():
    module, x = drawn("rotary", 200)
    A, B = planted("rotary", module, "full", 3)
    found = align(module.double(), A, B, x, "weight", group="full", traced=free_maps("rotary")[0])
    for entry, tensor in found.reference.items():
        torch.testing.assert_close(found.permuted[entry], tensor, atol=1e-3, rtol=0)


def test_heads_are_compared_by_the_cosines_of_their_products():
    generator = torch.Generator().manual_seed(0)
    A, B = ({power: torch.randn(3, n, 4, generator=generator) for power, n in ((1.0, 5), (-1.0, 6))} for _ in "AB")
    a, b = ((side[1.0] @ side[-1.0].mT).flatten(1) for side in (A, B))
    expected = functional.cosine_similarity(a[:, None], b[None], dim=-1)
    torch.testing.assert_close(rotations._similarity(A, B, SimpleNamespace(planes=())), expected)


def test_sweeps_by_weights_end_where_they_come_no_closer(monkeypatch):
    module, x = drawn("vit", 200)
    A, _ = planted("vit", module, "full", 3)
    sweeps = []
    monkeypatch.setattr(rotations, "weight_matching", lambda *given: sweeps.append(1) or weight_matching(*given))
    align(module.double(), A, A, x, "weight", group="full", traced=free_maps("vit")[0])
    assert 1 <= len(sweeps) <= 2


def test_all_random_choices_follow_the_seed(monkeypatch):
    module, keys = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3)), []
    made = {"numpy_rng": numpy_rng, "torch_generator": torch_generator}
    for module_name in ("align.numpy_rng", "data.numpy_rng", "merge.numpy_rng", "mirrors.torch_generator"):
        make = made[module_name.partition(".")[2]]
        watched = lambda *key, make=make: keys.append(key) or make(*key)  # noqa: E731
        monkeypatch.setattr(f"symlab.own.{module_name}", watched)
    for group in ("permutation", "signed", "full"):
        for method in ("activation", "weight")[: 1 + (group != "signed")]:
            align(module, module, module.state_dict(), torch.randn(20, 4), method, group=group, seed=5)
    assert len(keys) >= 5
    x, y = torch.randn(20, 4), torch.arange(20) % 3
    merge(module, [module, module.state_dict()], x, "weight", seed=5)
    mirrors(module, None, (x, y), training=SGD(0.1, batch=5), pairs=1, steps=2, samples=10, seed=5)
    assert {key[0] for key in keys} == {"align", "merge", "mirrors"} and ("align", 5, "samples") in keys
    assert all(5 in key for key in keys)


def test_networks_merge_in_one_basis():
    module, x = drawn("vit", 200)
    A, B = planted("vit", module, "full", 3)
    _, C = planted("vit", module, "full", 4)
    merged = merge(module.double(), [A, B, C], x, group="full")
    module.load_state_dict(A)
    before = module(x.double())
    module.load_state_dict(merged.state)
    torch.testing.assert_close(module(x.double()), before, atol=1e-4, rtol=1e-4)
    first, *others = merged.universe.permuted
    for other in others:
        for entry, tensor in first.items():
            torch.testing.assert_close(other[entry], tensor, atol=1e-4, rtol=1e-4)


def test_ends_of_the_line_stay_as_they_are_where_batch_norms_are_estimated_anew():
    # Scales before the norm keep the function at the statistics of training alone; those behind it at any.
    networks = []
    for seed in range(2):
        torch.manual_seed(seed)
        hidden = (nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU())
        network = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), *hidden, nn.Linear(8, 3))
        for norm in (network[1], network[4]):
            norm.weight.data.uniform_(0.2, 3)
        networks.append(network)
    x, y = torch.randn(256, 6, generator=torch.Generator().manual_seed(2)), torch.arange(256) % 3
    for network in networks:
        for at in (1, 4):
            read = network.eval()[:at](x).detach()
            network[at].running_mean, network[at].running_var = read.mean(0), read.var(0)
    aligned = align(networks[0], *networks, (x, y), group="full")
    assert "Mapped by scales of each neuron: 0, 3." in str(aligned) and "batch norms read are left" in str(aligned)
    curve = aligned.curve(3).set_index(["lambda", "aligned"])["loss"]
    for end in (0, 1):
        assert curve[end, True] == pytest.approx(curve[end, False], rel=1e-4)


class Windowed(nn.Module):
    """Neurons that count between two bounds alone, as the bases of splines do."""

    def __init__(self):
        super().__init__()
        self.first, self.middle, self.head = nn.Linear(4, 6), nn.Linear(6, 5, bias=False), nn.Linear(5, 3)

    def forward(self, x):
        h = self.first(x)
        return self.head(self.middle(h * ((h > -1) & (h < 1))))


def test_neurons_that_are_compared_twice_have_no_maps_and_others_have():
    torch.manual_seed(0)
    A, B = Windowed(), Windowed()
    found = align(A, A, B, (torch.randn(40, 4), torch.arange(40) % 3), group="full")
    assert "Mapped by invertible maps: middle." in str(found)
