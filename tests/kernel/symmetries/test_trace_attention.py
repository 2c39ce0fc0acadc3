"""Heads of attention and what is within them, of every kind that torch has."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from .nets import found


class Heads(nn.Module):
    """Attention with 4 heads of queries and 2 of keys and values, around a function of all three."""

    def __init__(self, function, **parts):
        super().__init__()
        self.q, self.k, self.v, self.last = nn.Linear(4, 12), nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(12, 2)
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (-1, 3)).transpose(1, 2) for part in (self.q, self.k, self.v))
        return self.last(self.function(self, q, k, v).transpose(1, 2).flatten(2))


GROUPED = {"q": (2,), "q:1": (2, 2), "q:2": (2, 3), "v:1": (2, 3)}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), GROUPED),
        (lambda m, q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=m.bias, enable_gqa=True), GROUPED),
        (
            lambda m, q, k, v: (q @ k.repeat_interleave(2, 1).mT + m.bias).softmax(-1) @ v.repeat_interleave(2, 1),
            GROUPED,
        ),
        (
            lambda m, q, k, v: (m.talk(q @ k.repeat_interleave(2, 1).mT)).softmax(-1) @ v.repeat(1, 2, 1, 1),
            {"q": (2,), "v": (2,), "q:1": (2, 2), "talk": (2, 2), "q:2": (2, 3), "v:1": (2, 3)},
        ),
        (
            lambda m, q, k, v: torch.einsum("bhqg,bgqd->bhqd", torch.einsum("bhqd,bgqd->bhqg", q, k).tanh(), v),
            {"q": (4,), "q:1": (3,), "k": (2,), "v:1": (3,)},
        ),
    ],
)
def test_kinds_of_attention(function, expected):
    module = Heads(function, bias=nn.Parameter(torch.zeros(4, 5, 5)), talk=nn.Conv2d(4, 4, 1))
    assert found(module, torch.randn(3, 5, 4, dtype=torch.float64)) == expected
