"""What theory says in numbers on losses in closed form: Theorem 1, Equations 2 and 6, and tanh networks under decay."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import torch
from scipy.optimize import bisect
from torch import Tensor
from torch.func import grad, hessian

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.mirror_forms import (
    basis,
    equal_rows,
    flat,
    hessian_times,
    rescaling,
    rotation,
    sign_flip,
    unflat,
)
from symlab.papers.mirror_symmetry.settings import SmallNetworks
from symlab.seeds import torch_generator
from symlab.symmetries.mirrors import Mirror, State, inner, norm, random_state, unit

INPUTS, NEURONS, FEW, POINTS = 3, 6, 4, 5
"""Of the network whose Hessian is shown; neurons and points of Theorem 1's losses."""
PRECISE = {"xtol": 1e-14, "rtol": 1e-14}
Loss = Callable[[State], Tensor]
Row = tuple[str, str, int, float, float]


def measure_small_networks(settings: SmallNetworks, job: Job, seed: int) -> dict[str, pd.DataFrame]:
    """Descents of one draw at every decay; with the first draw, the Hessian of a network. In double precision."""
    shown = {"mirror_hessian.csv": _hessian(job), "mirror_theorem.csv": theorem_1_in_numbers(job)} if seed == 0 else {}
    return {"mirror_decay.csv": _decays(settings, seed, job), **shown}


def _decays(settings: SmallNetworks, seed: int, job: Job) -> pd.DataFrame:
    generator = torch_generator(job.study, "tanh", seed)
    x = torch.randn(settings.samples, generator=generator, dtype=torch.float64)
    y = x + 0.5 * torch.randn(settings.samples, generator=generator, dtype=torch.float64)
    ratios = torch.tensor(settings.gamma_over_critical, dtype=torch.float64)[:, None]
    gamma = ratios * (x * y).mean().abs() / 2
    theta = torch.randn(1, 2 * settings.d, generator=generator, dtype=torch.float64)
    theta = (settings.start * theta / theta.norm()).expand(len(ratios), -1)
    u, w = (part.clone() for part in theta.split(settings.d, dim=1))
    for _ in range(settings.steps):
        # [decays, neurons, samples]
        a = torch.tanh(w[:, :, None] * x)
        r = ((u[:, :, None] * a).sum(dim=1, keepdim=True) - y) / settings.samples
        du, dw = (r * a).sum(dim=2), u * (r * (1 - a * a) * x).sum(dim=2)
        u, w = (at - settings.lr * (g + 2 * gamma * at) for at, g in ((u, du), (w, dw)))
    norms = torch.cat([u, w], dim=1).norm(dim=1)
    return pd.DataFrame({"seed": seed, "gamma_over_critical": settings.gamma_over_critical, "norm": norms.numpy()})


def _hessian(job: Job) -> pd.DataFrame:
    generator = torch_generator(job.study, "hessian")
    x, y = (torch.randn(*size, generator=generator, dtype=torch.float64) for size in ((50, INPUTS), (50,)))
    like = {"u": torch.zeros(NEURONS, dtype=torch.float64), "w": torch.zeros(NEURONS, INPUTS, dtype=torch.float64)}

    def loss(state: State) -> Tensor:
        return (torch.tanh(x @ state["w"].T) @ state["u"] - y).square().mean()

    state = random_state(like, generator)
    for mirror in MIRRORS.values():
        state = mirror.on(state)
    # Descents stay on the mirrors: what is shown is a Hessian late in training, not at a drawn point.
    for _ in range(200):
        gradient = grad(loss)(state)
        state = {name: value - 0.1 * gradient[name] for name, value in state.items()}

    def at(vector: Tensor) -> Tensor:
        return loss(unflat(vector, like))

    H = torch.func.jacrev(grad(at))(flat(state))
    columns, blocks = _mirror_basis(like)
    values = (columns.T @ H @ columns).numpy()
    i, j = (index.ravel() for index in np.indices(values.shape))
    return pd.DataFrame({"basis": "mirrors", "block": np.array(blocks)[i], "i": i, "j": j, "value": values.ravel()})


def _mirror_basis(like: State) -> tuple[Tensor, list[str]]:
    """Columns of every mirror's O, then of the directions within all of them, and the block of each column."""
    offs = {name: basis(mirror, like)[0] for name, mirror in MIRRORS.items()}
    inside = torch.cat(list(offs.values()), dim=1)
    rest = torch.linalg.svd(inside, full_matrices=True).U[:, inside.shape[1] :]
    names = [name for name, off in offs.items() for _ in range(off.shape[1])]
    return torch.cat([inside, rest], dim=1), [*names, *["within"] * rest.shape[1]]


def _flipped(neuron: int) -> Mirror:
    signs = torch.ones(NEURONS, dtype=torch.float64)
    signs[neuron] = -1
    return Mirror(f"{neuron} = 0", lambda state: {"u": state["u"] * signs, "w": state["w"] * signs[:, None]})


MIRRORS = {"neurons 1 = 2": equal_rows(0, 1), "neurons 3 = 4": equal_rows(2, 3), "neuron 5 = 0": _flipped(4)}
"""Mirrors of the tanh network: two of permutations, and one of the sign that a neuron's weights share."""


def theorem_1_in_numbers(job: Job) -> pd.DataFrame:
    """A row a number: ``part``, ``case``, ``point``, what is ``measured`` and what is ``predicted``.

    - gamma_0: the decay at which a point and its projection on a mirror have the same loss, by bisection, and
      (l(projection) - l) / |O^T theta|^2 (Eq. 31);
    - gamma_1: the decay from which the minimum of 1 + cos(k s) + gamma s^2 is at the mirror s = 0, and
      -lambda_min / 2 = k^2 / 2 (Theorem 1, part 4, whose factor the paper has wrong);
    - eq_2: the Hessian of a tanh network at 0, for one sample: its distance from Eq. 2's blocks over the largest entry;
    - eq_6: (l(z) - l(0)) / z, z = s^2, next to a mirror across it, and n^T H n / 2;
    - eq_6_without: the power of z with which the same quotient diverges beside no mirror, and -1/2;
    - no_reflection: the least gradient across any line through 0, for a loss without reflection, and 0 (footnote 3).
    """
    rows = []
    for part in (_gamma_0, _gamma_1, _equation_2, _equation_6, _no_reflection):
        rows += list(part(torch_generator(job.study, "theorem 1", part.__name__)))
    return pd.DataFrame(rows, columns=["part", "case", "point", "measured", "predicted"])


def mirrors_of_losses(generator: torch.Generator) -> Iterator[tuple[str, Mirror, State, Loss]]:
    """Losses with each kind of mirror: its name, itself, a state's shapes and the loss."""
    x, y = (torch.randn(20, size, generator=generator, dtype=torch.float64) for size in (INPUTS, INPUTS))
    n = torch.randn(FEW, generator=generator, dtype=torch.float64)
    zero = torch.zeros(FEW, INPUTS, dtype=torch.float64)

    def tanh(state: State) -> Tensor:
        return (torch.tanh(x @ state["w"].T) @ state["u"] - y).square().mean()

    def linear(state: State) -> Tensor:
        return (x @ state["w"].T @ state["u"] - y).square().mean()

    def product(state: State) -> Tensor:
        return (x @ (state["u"] * state["w"]).T - y[:, :1]).square().mean()

    turned = rotation("w", n / n.norm())
    both = Mirror(
        "rotation", lambda state: turned.reflect({"w": state["w"], "u": turned.reflect({"w": state["u"]})["w"]})
    )
    yield "equal neurons", equal_rows(0, 1), {"u": zero, "w": zero}, tanh
    yield "sign of all neurons", sign_flip("u", "w"), {"u": zero, "w": zero}, tanh
    yield "rotation", both, {"u": zero, "w": zero}, linear
    yield "rescaling", rescaling("u", "w", entry=1), {"u": zero, "w": zero}, product


def _gamma_0(generator: torch.Generator) -> Iterator[Row]:
    for name, mirror, like, loss in mirrors_of_losses(generator):
        for point in range(POINTS):
            state = random_state(like, generator)
            nearest = mirror.on(state)

            def gain(gamma: float, state: State = state, nearest: State = nearest, loss: Loss = loss) -> float:
                ends = [float(loss(at)) + gamma * norm(at) ** 2 for at in (state, nearest)]
                return ends[1] - ends[0]

            predicted = float(loss(nearest) - loss(state)) / mirror.order_parameter(state) ** 2
            yield "gamma_0", name, point, float(bisect(gain, -1e4, 1e4, **PRECISE)), predicted


def _gamma_1(generator: torch.Generator) -> Iterator[Row]:
    s = np.concatenate([[0.0], np.geomspace(1e-3, 10, 4000)])
    for k in (1.0, 2.0, 3.0):

        def off(gamma: float, k: float = k) -> float:
            return float(np.argmin(1 + np.cos(k * s) + gamma * s**2) > 0) - 0.5

        yield "gamma_1", f"k = {k:g}", 0, float(bisect(off, 0, 100, **PRECISE)), k**2 / 2


def _equation_2(generator: torch.Generator) -> Iterator[Row]:
    like = {"u": torch.zeros(FEW, dtype=torch.float64), "w": torch.zeros(FEW, dtype=torch.float64)}
    for point in range(POINTS):
        x, y = torch.randn(2, generator=generator, dtype=torch.float64)

        def loss(vector: Tensor, x: Tensor = x, y: Tensor = y) -> Tensor:
            at = unflat(vector, like)
            return (at["u"] @ torch.tanh(at["w"] * x) - y).square() / 2

        H = hessian(loss)(flat(like))
        expected = torch.kron(torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64), torch.eye(FEW)) * -x * y
        yield "eq_2", "a sample", point, float((H - expected).abs().max() / expected.abs().max()), 0.0


def _equation_6(generator: torch.Generator) -> Iterator[Row]:
    for name, mirror, like, loss in mirrors_of_losses(generator):
        for point in range(POINTS):
            drawn = random_state(like, generator)
            state, n = mirror.on(drawn), unit(mirror.off(random_state(like, generator)))

            def quotient(z: float, at: State, n: State = n, loss: Loss = loss) -> float:
                moved = {key: value + math.sqrt(z) * n[key] for key, value in at.items()}
                return float(loss(moved) - loss(at)) / z

            curvature = float(inner(n, hessian_times(loss, state, n))) / 2
            yield "eq_6", name, point, quotient(1e-6, state), curvature
            slope = math.log10(abs(quotient(1e-6, drawn) / quotient(1e-10, drawn))) / 4
            yield "eq_6_without", name, point, slope, -0.5


def _no_reflection(generator: torch.Generator) -> Iterator[Row]:
    """A loss of w's direction alone, as it is under every positive scale of w: where it holds descent on a line."""
    shift = torch.rand((), generator=generator, dtype=torch.float64)

    def loss(w: Tensor, odd: float) -> Tensor:
        angle = torch.atan2(w[1], w[0])
        return torch.cos(angle) + odd * torch.sin(2 * angle + shift)

    for name, odd in (("no line is a mirror", 0.7), ("one line is", 0.0)):
        pulls = []
        for angle in torch.arange(0, math.pi, math.pi / 60, dtype=torch.float64):
            along = torch.stack([torch.cos(angle), torch.sin(angle)])
            # Gradients are across the line; descent stays on it where they are 0 on both of its sides of 0.
            pulls.append(max(float(grad(loss)(side * along, odd).norm()) for side in (1, -1)))
        yield "no_reflection", name, 0, min(pulls), 0.0
