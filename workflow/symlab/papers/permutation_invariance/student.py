"""The student: a two-layer ReLU network whose output weights are all one."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Student(nn.Module):
    """f_W(x) = sum_i relu(w_i . x), in float64; the rows of ``linear.weight`` [m, d] are its neurons (Section 2)."""

    def __init__(self, d: int, m: int):
        super().__init__()
        self.linear = nn.Linear(d, m, bias=False, dtype=torch.float64)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n 1"]:
        return torch.relu(self.linear(x)).sum(dim=-1, keepdim=True)
