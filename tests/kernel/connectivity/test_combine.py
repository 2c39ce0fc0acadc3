"""Ways of making one network of several: against the papers' formulas, and answers that are known beforehand."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from symlab import UserError, merge
from symlab.alignment.forward import outputs
from symlab.connectivity.combine import Averaging, combine
from symlab.connectivity.least_squares import least_squares, unfitted

SHAPES = {"trunk.weight": (7, 5), "trunk.bias": (7,), "head.weight": (3, 7)}


def drawn(seed, scale=1.0):
    rng = np.random.default_rng(seed)
    return {name: torch.tensor(scale * rng.normal(size=shape), dtype=torch.float32) for name, shape in SHAPES.items()}


def flat(state):
    return np.concatenate([state[name].double().numpy().ravel() for name in SHAPES])


@pytest.mark.parametrize("density", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("weights", [None, (1.0, 3.0, 0.5)])
def test_ties_is_what_the_paper_writes(density, weights):
    """Algorithm 1 of Yadav et al. 2023, entry by entry in Python."""
    base, states = drawn(9), [drawn(seed) for seed in range(3)]
    vectors = [flat(state) - flat(base) for state in states]
    kept = round(density * len(vectors[0]))
    expected = []
    trimmed = []
    for vector in vectors:
        largest = set(sorted(range(len(vector)), key=lambda at, v=vector: -abs(v[at]))[:kept])
        trimmed.append([value if at in largest else 0.0 for at, value in enumerate(vector)])
    for entries in zip(*trimmed, strict=True):
        voted = list(zip(entries, weights or (1.0,) * 3, strict=True))
        total = sum(entry * weight for entry, weight in voted)
        agreeing = [(entry, weight) for entry, weight in voted if entry * total > 0]
        mean = sum(e * w for e, w in agreeing) / sum(w for _, w in agreeing) if agreeing else 0.0
        expected.append(0.7 * mean)
    # A buffer, which changes more than all parameters, takes no part in it; of counters the first one's is kept.
    with_buffer = [
        {"norm.steps": torch.tensor(7 + n)} | state | {"norm.running_mean": torch.full((99,), 9.0 + n)}
        for n, state in enumerate(states)
    ]
    how = Averaging("ties", weights, density=density, scale=0.7)
    found = combine(with_buffer, how, base | {"norm.running_mean": torch.zeros(99)}, SHAPES)
    np.testing.assert_allclose(flat(found), flat(base) + expected, atol=1e-6)
    assert int(found["norm.steps"]) == 7


def test_slerp_keeps_to_the_arc():
    a, b = drawn(0), drawn(1)
    b = {name: tensor * (a[name].norm() / tensor.norm()) for name, tensor in b.items()}
    for weights, expected in (((1, 0), a), ((0, 1), b)):
        for name, tensor in combine([a, b], Averaging("slerp", weights)).items():
            torch.testing.assert_close(tensor, expected[name], atol=1e-6, rtol=1e-6)
    middle, third = (combine([a, b], Averaging("slerp", weights)) for weights in ((1, 1), (2, 1)))
    for name, tensor in middle.items():
        # Halfway all three have one length, and both halves of the angle are alike.
        torch.testing.assert_close(tensor.norm(), a[name].norm(), rtol=1e-5, atol=0)
        angles = [
            float(torch.arccos((x * y).sum() / x.norm() / y.norm()))
            for x, y in ((a[name], tensor), (tensor, b[name]), (a[name], third[name]), (third[name], b[name]))
        ]
        assert angles[0] == pytest.approx(angles[1], rel=1e-4)
        assert 2 * angles[2] == pytest.approx(angles[3], rel=1e-4)
    parallel = combine([a, {name: 3 * tensor for name, tensor in a.items()}], Averaging("slerp"))
    torch.testing.assert_close(parallel["trunk.bias"], 2 * a["trunk.bias"])


def test_what_was_learned_since_a_base_is_scaled_and_layers_have_weights_of_their_own():
    base, states = drawn(9), [drawn(0), drawn(1)]
    found = combine(states, Averaging(weights=(3, 1), scale=2.0), base)
    for name, tensor in found.items():
        a, b = (state[name] for state in states)
        torch.testing.assert_close(tensor, base[name] + 1.5 * (a - base[name]) + 0.5 * (b - base[name]))
    layered = combine(states, Averaging(layers={"trunk": (1, 0), "trunk.bias": (0, 1)}))
    assert torch.equal(layered["trunk.weight"], states[0]["trunk.weight"])
    assert torch.equal(layered["trunk.bias"], states[1]["trunk.bias"])
    torch.testing.assert_close(layered["head.weight"], (states[0]["head.weight"] + states[1]["head.weight"]) / 2)


def test_buffers_are_averaged_whatever_the_rule():
    states = [drawn(0), drawn(1)]
    found = combine(states, Averaging("slerp"), parameters={"trunk.weight"})
    torch.testing.assert_close(found["trunk.bias"], (states[0]["trunk.bias"] + states[1]["trunk.bias"]) / 2)


class Maps(nn.Module):
    """Linear maps and convolutions of every kind that is fitted, one after another without anything between."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 6, 3, padding="same", padding_mode="circular")
        self.second = nn.Conv2d(6, 4, 3, stride=2, padding=(1, 0), bias=False)
        self.third = nn.Conv1d(4, 5, 3, padding=1)
        self.last = nn.Linear(5, 3)

    def forward(self, x):
        z = self.second(self.first(x)).flatten(2)
        return self.last(self.third(z).mean(-1))


@torch.no_grad()
def test_least_squares_undo_any_invertible_map_of_features():
    """Each layer's outputs in B are mixed by an invertible map that the next layer takes back: one function."""
    torch.manual_seed(0)
    A, x = Maps().double(), torch.randn(200, 2, 6, 6, dtype=torch.float64)
    # One of the features varies a thousandth as much as the others, and counts as much.
    A.second.weight[0] /= 1000
    A.third.weight[:, 0] *= 1000
    B = {name: tensor.clone() for name, tensor in A.state_dict().items()}
    names = ["first", "second", "third", "last"]
    for before, after in pairwise(names):
        size = len(B[f"{before}.weight"])
        mixing = torch.eye(size) + 0.6 * torch.randn(size, size).double()
        B[f"{before}.weight"] = torch.einsum("ij,j...->i...", mixing, B[f"{before}.weight"])
        if f"{before}.bias" in B:
            B[f"{before}.bias"] = mixing @ B[f"{before}.bias"]
        B[f"{after}.weight"] = torch.einsum("oi...,ij->oj...", B[f"{after}.weight"], mixing.inverse())
    expected = outputs(A, A.state_dict(), x)
    torch.testing.assert_close(outputs(A, B, x), expected, atol=1e-9, rtol=1e-9)
    merged = least_squares(A, [A.state_dict(), B], x, rows=64)
    torch.testing.assert_close(outputs(A, merged, x), expected, atol=1e-8, rtol=1e-8)
    mean = combine([A.state_dict(), B], Averaging())
    assert (outputs(A, mean, x) - expected).abs().max() > 0.01 * expected.abs().max()


@torch.no_grad()
def test_least_squares_of_one_network_twice_leave_it_as_it_is_and_dead_inputs_their_mean():
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(6, 9), nn.ReLU(inplace=True), nn.Linear(9, 4))
    x = torch.randn(300, 6)
    x[:, 2] = 0
    state = module.state_dict()
    merged = least_squares(module, [state, state], x, weights=(3, -1))
    for name, tensor in state.items():
        torch.testing.assert_close(merged[name], tensor, atol=1e-4, rtol=1e-4)
    other = {name: tensor + 0.1 for name, tensor in state.items()}
    merged = least_squares(module, [state, other], x)
    torch.testing.assert_close(merged["0.weight"][:, 2], state["0.weight"][:, 2] + 0.05)


def test_layers_that_are_not_fitted_are_named():
    module = nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.Flatten(), nn.Linear(4, 4), nn.Linear(4, 4))
    module[3].weight = module[2].weight
    assert unfitted(module, module.state_dict()) == ["0.weight", "2.weight"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"average": "median"}, "one of mean"),
        ({"average": "slerp"}, "two networks"),
        ({"average": "ties"}, "give it as base"),
        ({"average": "ties", "base": True, "weights": (1, 2, -1)}, "negative"),
        ({"average": "ties", "base": True, "density": 0.0}, "density"),
        ({"average": "least-squares", "layers": {"0": (1, 1, 1)}}, "weights of layers"),
        ({"scale": 2.0}, "give that as base"),
        ({"scale": float("nan"), "base": True}, "finite"),
        ({"repair": True, "until": "0"}, "REPAIR"),
        ({"layers": {"hidden": (1, 1, 1)}}, "no layer or parameter 'hidden'"),
        ({"layers": {"0": (1, 1)}}, "2 weights for 3"),
        ({"until": "7"}, "computes nothing in a submodule '7'"),
    ],
)
def test_what_does_not_go_together_is_told(options, words):
    build = lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))  # noqa: E731
    options = options | ({"base": build()} if options.get("base") else {})
    with pytest.raises(UserError, match=words):
        merge(build(), [build() for _ in range(3)], torch.randn(20, 4), **options)
