"""Mirrors: reflections that leave losses as they are, and Theorem 1 on them, by independent computations."""

import math

import pytest
import torch
from torch.func import functional_call, grad, jacrev

from symlab.networks import NETWORKS, build
from symlab.papers.mirror_symmetry.mirror_forms import (
    basis,
    flat,
    hessian_times,
    rescaling,
    rotation,
    sign_flip,
    unflat,
)
from symlab.settings import choose
from symlab.symmetries.mirrors import inner, neurons, norm, random_state, unit
from symlab.symmetries.trace import trace


def drawn(**shapes):
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}


X = drawn(x=(40, 5))["x"]
Y = torch.arange(40) % 3


def product_loss(state):
    return (X @ (state["u"] * state["w"]) - Y).square().mean()


def rotated_loss(state):
    return (state["W"].T @ state["W"] - torch.ones(5, dtype=torch.float64)).square().sum()


def sines(state):
    return (torch.tanh(X @ state["w"]) * state["u"] - Y).square().mean()


N = unit(drawn(n=(4,)))["n"]
VECTORS = {"u": (5,), "w": (5,)}
CASES = [
    (product_loss, rescaling("u", "w", entry=2), VECTORS, 1),
    (product_loss, sign_flip("u", "w"), VECTORS, 10),
    (rotated_loss, rotation("W", N), {"W": (4, 5)}, 5),
    (sines, sign_flip("u", "w"), {"u": (), "w": (5,)}, 6),
]
IDS = [mirror.name for _, mirror, _, _ in CASES]


def hessian_blocks(loss, state, mirror):
    """O^T H O, O^T H O_perp and O_perp^T H O_perp of the whole Hessian."""
    off, on = basis(mirror, state)
    H = jacrev(grad(lambda vector: loss(unflat(vector, state))))(flat(state))
    return off.T @ H @ off, off.T @ H @ on, on.T @ H @ on


@pytest.mark.parametrize(("loss", "mirror", "shapes", "k"), CASES, ids=IDS)
def test_reflections_leave_the_loss_and_split_gradient_and_hessian(loss, mirror, shapes, k):
    state = drawn(**shapes)
    turned = mirror.reflect(state)
    assert loss(turned) == pytest.approx(float(loss(state)), rel=1e-12)
    assert norm(turned) == pytest.approx(norm(state))
    assert all(
        torch.equal(t, state[name]) or torch.allclose(t, state[name]) for name, t in mirror.reflect(turned).items()
    )

    off = basis(mirror, state)[0]
    assert off.shape[1] == k
    assert mirror.order_parameter(state) == pytest.approx(float((off.T @ flat(state)).norm()))
    at = mirror.on(state)
    assert mirror.order_parameter(at) < 1e-14
    # Theorem 1, parts 1 and 2, and that both fail beside the mirror.
    gradient = grad(loss)(at)
    assert norm(mirror.off(gradient)) <= 1e-13 * max(norm(gradient), 1)
    inside, across, rest = hessian_blocks(loss, at, mirror)
    scale = torch.cat([inside.flatten(), rest.flatten()]).norm()
    assert across.norm() <= 1e-12 * scale
    if rest.numel():
        assert hessian_blocks(loss, state, mirror)[1].norm() > 1e-3 * scale


@pytest.mark.parametrize(
    ("loss", "mirror", "shapes"), [(a, b, c) for a, b, c, _ in CASES if b.name != "u = w = 0"], ids=[IDS[0], IDS[2]]
)
def test_the_mirror_wins_above_the_decay_of_theorem_1(loss, mirror, shapes):
    """Part 3: the projection is better from gamma_0 = (l(on) - l) / |P theta|^2 on, found here by bisection."""
    state = drawn(**shapes)
    at = mirror.on(state)

    def wins(gamma):
        return loss(at) + gamma * norm(at) ** 2 < loss(state) + gamma * norm(state) ** 2

    low, high = -1e4, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if wins(middle) else (middle, high)
    expected = float(loss(at) - loss(state)) / mirror.order_parameter(state) ** 2
    assert high == pytest.approx(expected, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("k", [1.0, 2.0])
def test_the_minimum_leaves_the_mirror_where_decay_equals_half_the_curvature(k):
    """Part 4 with l = 1 + cos(k s), of curvature -k^2 and more: gamma_1 = k^2 / 2, not k^2 as in the paper."""
    s = torch.linspace(-4, 4, 80001, dtype=torch.float64)

    def best(gamma):
        return abs(float(s[(1 + torch.cos(k * s) + gamma * s**2).argmin()]))

    assert best(0.51 * k**2) < 1e-9
    assert best(0.49 * k**2) > 0.05


@pytest.mark.parametrize(
    "network",
    [
        {"name": "mlp", "widths": [6, 5]},
        {"name": "resnet20", "channels": 1},
        {"name": "vit", "patch": 4, "dim": 8, "depth": 1, "heads": 2, "channels": 1},
    ],
    ids=lambda network: network["name"],
)
def test_any_two_neurons_of_a_traced_group_have_a_mirror(network):
    torch.manual_seed(0)
    module = build(choose(NETWORKS, network), 64, 3).double().eval()
    x = torch.randn(12, 64, dtype=torch.float64)
    spec = trace(module, x[:2]).spec
    state = {name: t + 0.1 * torch.randn_like(t) for name, t in module.state_dict().items() if t.is_floating_point()}

    def loss(state):
        return torch.nn.functional.cross_entropy(functional_call(module, state, (x,)), Y[:12])

    for group, described in list(spec.groups.items())[:4]:
        mirror = neurons(spec, group, 0, described.size - 1)
        assert float(loss(mirror.reflect(state))) == pytest.approx(float(loss(state)), rel=1e-9)
        at = mirror.on(state)
        gradient = grad(loss)(at)
        assert norm(mirror.off(gradient)) < 1e-11 * norm(gradient)
        assert norm(mirror.off(grad(loss)(state))) > 1e-6 * norm(gradient)
        v = mirror.on(random_state(state, torch.Generator().manual_seed(1)))
        Hv = hessian_times(loss, at, v)
        assert norm(mirror.off(Hv)) < 1e-10 * norm(Hv)


def test_gradients_of_samples_leave_as_many_directions_silent_as_neurons_are_merged_or_dead():
    """The Fisher matrix at a point on k mirrors has rank lower by the columns of their O (end of Section 2.3)."""
    module = build(choose(NETWORKS, {"name": "mlp", "widths": [6], "norm": "none"}), 5, 1).double()
    x = torch.randn(200, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    spec = trace(module, x[:2]).spec
    state = {name: t.detach().clone() for name, t in module.state_dict().items()}

    def rank(at):
        def one(state, sample):
            return functional_call(module, state, (sample[None],)).square().sum()

        rows = torch.stack([flat(grad(one)(at, sample)) for sample in x])
        return int(torch.linalg.matrix_rank(rows.T @ rows / len(x), rtol=1e-10))

    of_one_neuron = 5 + 1 + 1
    whole = rank(state)
    once = neurons(spec, "hidden1", 0, 1).on(state)
    assert rank(once) == whole - of_one_neuron
    twice = neurons(spec, "hidden1", 2, 3).on(once)
    assert rank(twice) == whole - 2 * of_one_neuron
    # A GELU neuron with weights 0 computes 0 and passes nothing back to them but for its outgoing weight at 0.
    dead = {name: t.clone() for name, t in twice.items()}
    dead["linears.0.weight"][4], dead["linears.0.bias"][4], dead["linears.1.weight"][:, 4] = 0, 0, 0
    assert rank(dead) == whole - 3 * of_one_neuron


def test_products_with_the_hessian_are_those_of_the_matrix():
    state = drawn(**VECTORS)
    v = random_state(state, torch.Generator().manual_seed(0))
    H = torch.autograd.functional.hessian(lambda vector: product_loss(unflat(vector, state)), flat(state))
    assert torch.allclose(flat(hessian_times(product_loss, state, v)), H @ flat(v))
    assert float(inner(v, v)) == pytest.approx(norm(v) ** 2)
    assert math.isclose(norm(unit(v)), 1)
