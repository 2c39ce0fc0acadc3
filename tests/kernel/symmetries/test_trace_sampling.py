"""Sampling at learned points, parameters that meet before any input does, and axes that one option alone kept."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from symlab.symmetries.trace import trace

from .nets import found

GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.randn(2, 3, 5, 5, dtype=torch.float64, generator=GENERATOR)
ROWS = torch.randn(3, 4, dtype=torch.float64, generator=GENERATOR)


class Deformable(nn.Module):
    """Attention of every pixel to a few points of the image, which each head shifts and weighs as it likes."""

    HEADS, POINTS, DIMENSIONS = 2, 4, 3

    def __init__(self):
        super().__init__()
        self.enter = nn.Conv2d(3, 8, 1)
        self.shifts = nn.Linear(8, self.HEADS * self.POINTS * 2)
        self.weights = nn.Linear(8, self.HEADS * self.POINTS)
        self.values, self.last = nn.Linear(8, self.HEADS * self.DIMENSIONS), nn.Linear(self.HEADS * self.DIMENSIONS, 2)

    def forward(self, x):
        h = self.enter(x)
        batch, _, height, width = h.shape
        tokens = h.flatten(2).transpose(1, 2)
        images = self.values(tokens).transpose(1, 2).reshape(batch * self.HEADS, self.DIMENSIONS, height, width)
        points = self.shifts(tokens).view(batch, -1, self.HEADS, self.POINTS, 2).transpose(1, 2).flatten(0, 1).tanh()
        weights = self.weights(tokens).view(batch, -1, self.HEADS, self.POINTS).softmax(-1)
        weights = weights.transpose(1, 2).reshape(batch * self.HEADS, 1, -1, self.POINTS)
        sampled = (F.grid_sample(images, points, align_corners=False) * weights).sum(-1)
        return self.last(sampled.view(batch, self.HEADS * self.DIMENSIONS, -1).transpose(1, 2))


def test_heads_that_sample_an_image_and_their_points():
    assert found(Deformable(), IMAGES) == {"enter": (8,), "values": (2,), "values:1": (2, 3), "shifts:1": (2, 4)}


class Spatial(nn.Module):
    """A spatial transformer: an affine map that a branch of the network finds is applied to the channels."""

    def __init__(self):
        super().__init__()
        self.enter, self.hidden, self.last = nn.Conv2d(3, 6, 3), nn.Linear(6, 5), nn.Linear(6, 2)
        self.matrix = nn.Linear(5, 6)

    def forward(self, x):
        h = self.enter(x)
        matrices = self.matrix(self.hidden(h.mean((2, 3))).tanh()).tanh().view(-1, 2, 3)
        grid = F.affine_grid(matrices, list(h.shape), align_corners=False)
        return self.last(F.grid_sample(h, grid, align_corners=False).relu().mean((2, 3)))


def test_channels_of_an_image_that_is_moved():
    assert found(Spatial(), IMAGES) == {"enter": (6,), "hidden": (5,)}


class Parts(nn.Module):
    """A function of parameters and an input, and a linear map of it."""

    def __init__(self, function, n_enters, **shapes):
        super().__init__()
        self.function, self.last = function, nn.Linear(n_enters, 2)
        for name, sizes in shapes.items():
            setattr(self, name, nn.Parameter(torch.zeros(sizes)))

    def forward(self, x):
        return self.last(self.function(self, x))


@pytest.mark.parametrize(
    ("function", "n_enters", "shapes", "expected"),
    [
        (
            lambda m, x: (x @ (m.down @ m.up).T).tanh(),
            6,
            {"down": (6, 3), "up": (3, 4)},
            {"down": (6,), "down:1": (3,)},
        ),
        (
            lambda m, x: (x @ (m.whole + m.down @ m.up).T).tanh(),
            6,
            {"whole": (6, 4), "down": (6, 3), "up": (3, 4)},
            {"down": (6,), "down:1": (3,)},
        ),
        # Learned queries have an axis that is only ever the input of a linear map.
        (
            lambda m, x: (x @ F.linear(m.queries, m.map).T).softmax(-1),
            6,
            {"queries": (6, 5), "map": (4, 5)},
            {"queries": (6,), "queries:1": (5,)},
        ),
        (
            lambda m, x: torch.einsum("bi,hr,hro,ri->bho", x, m.heads, m.rest, m.down).flatten(1),
            6,
            {"heads": (2, 5), "rest": (2, 5, 3), "down": (5, 4)},
            {"heads": (2,), "heads:1": (5,), "rest:1": (2, 3)},
        ),
        (
            lambda m, x: (x @ (m.down[:, :3] @ m.up[:3]).T + x @ (m.down[:, 3:] @ m.up[3:]).T).tanh(),
            6,
            {"down": (6, 7), "up": (7, 4)},
            {"down": (6,), "down:1": (3,), "down:2": (4,)},
        ),
        (
            lambda m, x: torch.cat([(x @ (half @ m.up).T).tanh() for half in m.down.chunk(2)], 1),
            6,
            {"down": (6, 5), "up": (5, 4)},
            {"down": (3,), "down:1": (3,), "down:2": (5,)},
        ),
    ],
    ids=["low rank", "an adapter", "queries", "three at once", "columns apart", "rows apart"],
)
def test_axes_that_parameters_share_before_any_input_are_groups(function, n_enters, shapes, expected):
    assert found(Parts(function, n_enters, **shapes), ROWS) == expected


def test_a_weights_inputs_alone_are_no_group():
    """Where the input is a constant nothing tells the weight's inputs apart."""
    assert found(Parts(lambda m, x: x @ F.linear(torch.ones(6, 5, dtype=x.dtype), m.map).T, 6, map=(4, 5)), ROWS) == {}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"kernel_size": (3, 1), "padding": (1, 0)}, {"first": (2,), "first:1": (2, 3)}),
        ({"kernel_size": (3, 1), "padding": "same"}, {"first": (2,), "first:1": (2, 3)}),
        ({"kernel_size": (1, 1), "padding": (1, 0), "stride": (2, 1)}, {"first": (2,), "first:1": (2, 3)}),
        ({"kernel_size": (1, 3), "padding": (0, 1)}, {"first": (2,)}),
    ],
)
def test_a_convolution_over_tokens_leaves_the_dimensions_of_heads(options, expected):
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(5, 6)
            self.over_tokens, self.last = nn.Conv2d(2, 2, groups=2, bias=False, **options), nn.LazyLinear(2)

        def forward(self, x):
            heads = self.first(x).view(len(x), -1, 2, 3).transpose(1, 2)
            return self.last(self.over_tokens(heads).transpose(1, 2).flatten(2).tanh())

    x = torch.randn(2, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    module = Network().double()
    module(x)
    assert found(module, x) == expected


@pytest.mark.parametrize("options", [{"dim": 1, "keepdim": True}, {"ord": 1, "dim": 1, "keepdim": True}, {}])
def test_norms_do_not_tell_entries_apart(options):
    module = Parts(lambda m, x: F.linear(x, m.map) / torch.linalg.norm(F.linear(x, m.map), **options), 6, map=(6, 4))
    assert found(module, ROWS) == {"map": (6,)}


def test_what_random_numbers_keep_in_place_is_told():
    class Hashed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 6), nn.Linear(5, 2)

        def forward(self, x):
            return self.last((self.first(x) @ torch.randn(6, 5)).relu())

    traced = trace(Hashed(), ROWS.float())
    assert not traced.spec.free
    assert traced.kept_by_constants() == (("first.weight", 0), ("first.bias", 0))


def largest_queries(h):
    """The queries with the largest entries, head by head, as sparse attention picks them."""
    rows = torch.arange(len(h))[:, None]
    return rows, h.abs().amax(-1).topk(2)[1]


def picked(h):
    return h[largest_queries(h)]


def written(h):
    rows, places = largest_queries(h)
    whole = h.mean(1, keepdim=True).expand(h.shape).clone()
    whole[rows, places] = h[rows, places].tanh()
    return whole.sum(1, keepdim=True)


@pytest.mark.parametrize("function", [picked, written])
def test_rows_that_are_indexed_by_their_own_numbers_move_as_they_are(function):
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(5, 6), nn.Linear(6, 2)

        def forward(self, x):
            heads = self.first(x).view(len(x), -1, 2, 3).transpose(1, 2).flatten(0, 1)
            return self.last(function(heads).view(len(x), 2, -1, 3).transpose(1, 2).flatten(2))

    x = torch.randn(3, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert found(Network(), x) == {"first": (2,), "first:1": (2, 3)}


@pytest.mark.parametrize(
    ("function", "n_enters"),
    [
        (lambda m, x: F.linear(x, m.map).view(-1, 3, 3)[:, torch.arange(3), torch.arange(3)], 3),
        (lambda m, x: F.linear(x, m.map).view(-1, 3, 3)[:, torch.arange(3), torch.tensor([1, 2, 0])], 3),
        (lambda m, x: F.linear(x, m.map).view(-1, 3, 3)[:, torch.arange(3)[:, None], torch.arange(3)].flatten(1), 9),
        (lambda m, x: F.linear(x, m.map)[:, torch.arange(9)[None, :]].flatten(1), 9),
        (lambda m, x: F.linear(x, m.map)[:, torch.arange(9).flip(0)], 9),
        (lambda m, x: F.linear(x, m.map) * torch.arange(9), 9),
    ],
    ids=["a diagonal", "another order", "all", "a row more", "backwards", "as numbers"],
)
def test_other_uses_of_an_axis_own_numbers_keep_the_function(function, n_enters):
    found(Parts(function, n_enters, map=(9, 4)), ROWS)
