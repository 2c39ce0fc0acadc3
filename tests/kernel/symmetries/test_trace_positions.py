"""What is picked by positions: experts, tables, bags."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from symlab.symmetries import propagation
from symlab.symmetries.rules.indexing import grouped_mm
from symlab.symmetries.rules.recorder import POINTING, RULES

from .nets import Net, X, check, found, sizes

TABLES = {"table": (6, 5), "matrix": (6, 6), "router": (4, 6), "up": (4, 5, 6), "down": (4, 6, 5), "bias": (4, 5)}


def batched_experts(module, h):
    """A mixture of experts as in transformers' "batched_mm": the two best of four, their weights picked."""
    weights, which = torch.topk((h @ module.router.T).softmax(-1), 2)
    ids = which.reshape(-1)
    x = h.repeat_interleave(2, 0).unsqueeze(-1)
    y = torch.relu(torch.bmm(module.up[ids], x).squeeze(-1) + module.bias[ids])
    y = torch.bmm(module.down[ids], y.unsqueeze(-1)).squeeze(-1) * weights.reshape(-1, 1)
    return y.view(len(h), 2, 6).sum(1)


def sorted_experts(module, h, moved=lambda rows: rows, told=lambda counts: counts.cumsum(0)):
    """The same as in "grouped_mm": tokens sorted by their experts, and put back, unless moved or told otherwise."""
    weights, which = torch.topk((h @ module.router.T).softmax(-1), 2)
    ids, order = torch.sort(which.reshape(-1))
    ends = told(torch.histc(ids.double(), bins=4, min=0, max=3)).to(torch.int32)
    y = torch.relu(grouped(moved(h[order // 2]), module.up.mT, ends) + module.bias[ids])
    y = grouped(y, module.down.mT, ends) * weights.reshape(-1)[order].unsqueeze(-1)
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order))
    return y[back].view(len(h), 2, 6).sum(1)


def counts(h):
    """How often each neuron is among the two largest of a row."""
    return torch.histc(torch.topk(h, 2)[1].reshape(-1).sort()[0].to(h), bins=6, min=0, max=5)


def rows(h, values, dtype):
    """A value for each row, written at its own position."""
    return torch.index_put(torch.zeros(h.shape[0], dtype=dtype), (torch.arange(h.shape[0]),), values)


def written_apart(module, h):
    result = torch.stack([h, h], 1)
    result[torch.arange(h.shape[0]), :, h.argmax(1)] = h.sum()
    return result


def stretches_of_a_sum(module, h):
    """torch's grouped product of two matrices, whose memory is in steps of 16 bytes."""
    x = h.repeat(1, 4).bfloat16()
    return h * torch._grouped_mm(x.T, x, offs=torch.tensor([1, 2], dtype=torch.int32)).sum().to(h)


@torch.library.custom_op("planted::grouped_mm", mutates_args=())
def grouped(rows: torch.Tensor, matrices: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """transformers' grouped_mm_fallback, under another name, for it may be imported beside these tests."""
    result, start = rows.new_zeros(len(rows), matrices.shape[2]), 0
    for matrix, end in zip(matrices, ends.tolist(), strict=True):
        result[start:end] = rows[start:end] @ matrix
        start = end
    return result


@grouped.register_fake
def _(rows, matrices, ends):
    return rows.new_empty(rows.shape[0], matrices.shape[2])


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setitem(RULES, "planted::grouped_mm", grouped_mm)
    monkeypatch.setattr(propagation, "POINTING", POINTING | {"planted::grouped_mm"})


H = {"first": (6,)}


@pytest.mark.parametrize(
    ("function", "n_enters", "expected"),
    [
        (lambda m, h: torch.topk(h, 3)[0], 3, H),
        (lambda m, h: h.sort(1)[0], 6, H),
        (lambda m, h: m.table[torch.topk(h, 2)[1]].sum(1), 5, H | {"table:1": (5,)}),
        (lambda m, h: m.table[h.argmax(1)], 5, H | {"table:1": (5,)}),
        (lambda m, h: m.table[h.max(1)[1]], 5, H | {"table:1": (5,)}),
        (lambda m, h: m.table[torch.cdist(h @ m.table, m.table).argmin(1)], 5, H | {"table": (5,)}),
        (lambda m, h: F.embedding(h.argmax(1), m.table), 5, H | {"table": (5,)}),
        (lambda m, h: m.table.index_select(0, h.argmax(1)), 5, H | {"table:1": (5,)}),
        (lambda m, h: F.one_hot(h.argmax(1), 6) * h, 6, H),
        (lambda m, h: F.one_hot(h.argmax(1), 6).to(h) @ m.table, 5, H | {"table": (5,)}),
        (lambda m, h: h.gather(1, torch.topk(h.sin(), 3)[1]), 3, H),
        (
            lambda m, h: h.view(-1, 2, 3).gather(1, torch.zeros_like(h[:, None, :3]).long()).flatten(1),
            3,
            {"first": (3,)},
        ),
        (lambda m, h: h * torch.zeros_like(h).scatter_(1, torch.topk(h.sin(), 3)[1], 1.0), 6, H),
        (lambda m, h: torch.zeros_like(h).scatter_add(1, torch.topk(h.sin(), 2)[1], torch.topk(h, 2)[0]), 6, H),
        (lambda m, h: torch.zeros_like(h).index_add(0, torch.arange(len(h)), h), 6, H),
        (lambda m, h: h.view(-1, 2, 3)[torch.arange(len(h)), (h.sum(1) > 0).long()], 3, {"first": (3,)}),
        (lambda m, h: h.view(-1, 2, 3)[:, [-1]].flatten(1), 3, {"first": (3,), "first:1": (3,)}),
        (lambda m, h: h.view(-1, 2, 3)[:, [1, 0]].flatten(1), 6, {"first": (3,)}),
        (
            lambda m, h: h.view(-1, 2, 3)[(h.sum(1, keepdim=True) > 0).expand(-1, 2) | True].view(len(h), -1, 3)[:, -1],
            3,
            {"first": (3,)},
        ),
        (lambda m, h: F.avg_pool2d(h.view(-1, 1, 2, 3), (2, 1)).flatten(1), 3, {"first": (3,)}),
        (lambda m, h: torch.meshgrid(torch.ones(1, dtype=h.dtype), h.sum(0), indexing="ij")[1] * h, 6, H),
        (lambda m, h: torch.meshgrid(h.sum(0), torch.ones(1, dtype=h.dtype), indexing="xy")[0] * h, 6, H),
        (lambda m, h: rows(h, h.sum(1), h.dtype)[:, None] * h, 6, H),
        # Fewer positions along another dimension than there are entries.
        (lambda m, h: h.view(-1, 2, 3).gather(2, torch.zeros_like(h[:, None, :2]).long()).flatten(1), 2, {}),
        (
            lambda m, h: h.view(-1, 3, 2).gather(2, (h @ m.matrix > 0).long()[:, :2, None]).flatten(1),
            2,
            {"matrix": (4,)},
        ),
        (lambda m, h: h * ((h.sum(1, keepdim=True) > 0) & (h > 0) | (h < -1)), 6, H),
        (lambda m, h: h.diff(dim=1), 5, {}),
        (lambda m, h: h[:, ::2] * h[:, 1::2].tanh(), 3, {"first": (3,)}),
        (lambda m, h: h[:, ::2] * h[:, :3], 3, {}),
        (batched_experts, 6, H | {"router": (4,), "up": (4, 5), "down": (6,)}),
        (sorted_experts, 6, H | {"router": (4,), "up": (4, 5), "down": (6,)}),
    ],
)
def test_what_is_picked_by_positions_may_be_renumbered(function, n_enters, expected):
    tables = {name: nn.Parameter(torch.zeros(size)) for name, size in TABLES.items()}
    assert found(Net(function, n_enters=n_enters, **tables).requires_grad_(False), X, 0, 1) == expected


@pytest.mark.parametrize(
    ("function", "n_enters", "expected"),
    [
        (lambda m, h: torch.topk(h, 2)[1] + 0 * h[:, :2], 2, {}),
        (lambda m, h: h.argmax(1, keepdim=True).clamp(max=3) * h, 6, {}),
        (lambda m, h: torch.topk(h, 3)[1].sort(1)[0] * 1.0, 3, {}),
        (lambda m, h: torch.topk(h, 2)[1].sum(1, keepdim=True) * h, 6, {}),
        (lambda m, h: F.one_hot(h.argmax(1), 7).to(h) @ torch.ones(7, 3, dtype=h.dtype), 3, {}),
        (lambda m, h: torch.histc(h.argmax(1).to(h), bins=6, min=0, max=5).cumsum(0) * h, 6, {}),
        (lambda m, h: m.matrix[h.argmax(1), torch.topk(h, 1)[1][:, 0] % 2] * h.sum(1), 3, {}),
        (lambda m, h: h.argmax(1, keepdim=True).cumsum(0) * h, 6, {}),
        (lambda m, h: torch.histc(h.sum(1), bins=6, min=-2, max=2) * h, 6, {}),
        (lambda m, h: torch.histc(counts(h).cumsum(0), bins=1, min=0, max=1) * h, 6, {}),
        (lambda m, h: rows(h, h.argmax(1), torch.long)[:, None] * h, 6, {}),
        (lambda m, h: counts(h).cumsum(0)[None] * h, 6, {}),
        (lambda m, h: h + m.matrix[torch.topk(h, 2)[1].reshape(-1).sort()[0]][: h.shape[0]], 6, {}),
        *(
            (lambda m, h, spoiled=spoiled: sorted_experts(m, h, **spoiled), 6, H | {"up": (5,), "down": (6,)})
            for spoiled in (
                {"moved": lambda rows: rows.roll(1, 0)},
                {"moved": lambda rows: torch.cat([rows[:1], rows[1:]])},
                {"moved": lambda rows: rows.view(-1, 2, 6).flatten(0, 1)},
                {"told": lambda counts: counts[:, None].cumsum(1)[:, 0]},
                {"told": lambda counts: torch.arange(1, 5)},
            )
        ),
    ],
)
def test_positions_that_are_used_as_numbers_stay(function, n_enters, expected):
    module = Net(
        lambda m, h: function(m, h).to(h).reshape(len(h), -1).expand(-1, n_enters),
        n_enters=n_enters,
        **{name: nn.Parameter(torch.zeros(size)) for name, size in TABLES.items()},
    )
    assert sizes(check(module.requires_grad_(False), X)) == expected


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda m, h: torch.zeros_like(h).scatter(1, torch.topk(h.sin(), 2)[1], h), "another size than the positions"),
        (lambda m, h: torch.topk(h, 6)[1].scatter(1, h[:, :1].long() * 0, 0) * h, "positions to be written over"),
        (lambda m, h: h.view(-1, 2, 3).diagonal(1, 1, 2), "main diagonal of squares"),
        (lambda m, h: h.repeat_interleave(torch.tensor([1, 2, 1, 1, 1, 1]), 1, output_size=7), "repeats that are no"),
        (lambda m, h: torch.topk(h, 3)[1].sort(1)[0] * 1.0, "positions of several dimensions"),
        (lambda m, h: h.view(-1, 2, 3)[:, torch.tensor([True, False]), torch.tensor([0])], "a mask beside other"),
        (lambda m, h: torch.index_put(h, (h < 0,), h.sum()), "index_put (a mask)"),
        (written_apart, "dimensions that are apart"),
        (lambda m, h: h.sum(0).gather(0, h.sum(0).argmax()) * h, "gather (its number of dimensions)"),
        (lambda m, h: torch.take_along_dim(h.sum(0), h.sum(0).argmax()[None]) * h, "take_along_dim (its number of"),
        (lambda m, h: torch.histc(h.argmax(1).to(h), bins=3, min=0, max=5).sum() * h, "not one for each position"),
        (lambda m, h: h[:, torch.repeat_interleave((h.sum(0) * 0 + 1).long(), output_size=6)], "no tensor as its"),
        (lambda m, h: h.sum(0).view(torch.float32)[:6] * h, "a number of entries that changes"),
        (lambda m, h: F.pad(h, (0, h.shape[0]))[:, :6], "pad (a length that depends"),
        (lambda m, h: torch.narrow(h, 1, torch.tensor(1), 2), "a start that depends"),
        (lambda m, h: torch.slice_scatter(torch.cat([h, h], 1), h, 1, 0, None, 2), "a step or a length that depends"),
        (lambda m, h: torch.einsum("bii->bi", h[:, :, None] * h[:, None]), "einsum (a diagonal)"),
        (lambda m, h: torch.frexp(h)[0], "frexp (its shape)"),
        (stretches_of_a_sum, "stretches of a sum"),
    ],
)
def test_forms_of_operations_without_a_rule_are_told_and_keep_their_axes(function, told):
    with torch.no_grad():
        n_enters = function(None, torch.randn(2, 6)).flatten(1).shape[1]
    spec = check(Net(lambda m, h: function(m, h).to(h).flatten(1), n_enters=n_enters), X)
    assert sizes(spec) == {} and any(told in sentence for sentence in spec.unsupported), spec.unsupported


def test_the_experts_of_two_routers_are_not_told_apart_by_one():
    """Hidden units that two routings bring together may be renumbered only alike for all experts."""

    def function(m, h):
        weights, which = torch.topk((h @ m.router.T).softmax(-1), 2)
        one, other = (torch.relu(torch.bmm(m.up[which[:, n]], h.unsqueeze(-1)).squeeze(-1)) for n in (0, 1))
        return (torch.bmm(m.down[which[:, 0]], (one * other).unsqueeze(-1)).squeeze(-1)) * weights[:, :1]

    parts = {name: nn.Parameter(torch.zeros(TABLES[name])) for name in ("router", "up", "down")}
    assert sizes(check(Net(function, n_enters=6, **parts), X)) == H | {"router": (4,), "up": (5,), "down": (6,)}


def test_a_table_of_positions_longer_than_the_sequence_keeps_its_rows_and_frees_its_columns():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places, self.last = nn.Embedding(9, 6), nn.Embedding(8, 6), nn.Linear(6, 2)

        def forward(self, x):
            return self.last((self.words(x) + self.places(torch.arange(x.shape[1]))).relu())

    spec = check(Positions(), torch.randint(0, 9, (3, 5), generator=torch.Generator().manual_seed(0)))
    assert spec.unsupported == ()
    assert spec.axes["places.weight"] == (None, "words") and spec.axes["words.weight"] == (None, "words")


class Bags(nn.Module):
    """Texts as the mean, sum or maximum of their words, and a residual layer on them."""

    def __init__(self, mode):
        super().__init__()
        self.words, self.hidden = nn.EmbeddingBag(7, 4, mode=mode), nn.Linear(4, 4)
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        x = self.words(x)
        return self.last(x + self.hidden(x).relu())


@pytest.mark.parametrize("mode", ["mean", "sum", "max"])
def test_bags_of_embeddings_keep_their_rows_in_place(mode):
    spec = check(Bags(mode), torch.randint(7, (5, 3)))
    (group,) = spec.groups
    assert spec.axes["words.weight"] == (None, group)
    assert spec.axes["hidden.weight"] == (group, group)
