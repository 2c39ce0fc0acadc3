"""What Theorem 1 says of gradients, Hessians and training, measured on mirrors of trained networks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.func import functional_call, grad
from torch.utils._python_dispatch import TorchDispatchMode

from symlab.alignment.signs import signs_of
from symlab.measures.job import Job
from symlab.measures.symmetries import symmetries_of
from symlab.papers.mirror_symmetry.mirror_forms import turned
from symlab.papers.mirror_symmetry.settings import Mirrors
from symlab.seeds import numpy_rng, torch_generator
from symlab.symmetries.actions import actions_of
from symlab.symmetries.mirrors import Mirror, State, inner, neurons, norm, random_state, slopes, unit, vanishing
from symlab.symmetries.symmetry_spec import shape
from symlab.symmetries.trace import Traced, trace
from symlab.training.models import Models, move
from symlab.training.samples import losses
from symlab.words import counted

if TYPE_CHECKING:
    from symlab.data.dataset import Dataset
    from symlab.symmetries.actions import Action
    from symlab.symmetries.signs import Flip
    from symlab.symmetries.symmetry_spec import SymmetrySpec

STEP = 1e-5
"""How far Eq. 6 goes off the mirror, over the norm of the parameters."""


def measure_mirrors(models: Models, data: Dataset, settings: Mirrors, job: Job) -> dict[str, Any]:
    """Gradients, Hessians and SGD on mirrors of trained networks, and off them, in double precision.

    Returns:
        ``network_mirrors.csv``: a row a quantity: ``mask_seed``, ``seed``, ``mirror`` (neurons, rotation, rescaling),
        ``group``, ``a``, ``b`` (of a rotation the head, of a rescaling the neuron, and 0), ``quantity``, its value
        ``on`` the mirror, at the trained network's projection, and ``off`` it, at the network itself:

        - gradient: |P grad| / |grad|, the largest over batches (Theorem 1, part 1);
        - hessian: |P H m| / |H m| for a random m within the mirror (part 2);
        - second_order: |L(s) - L(0) - s^2 n^T H n / 2| over s^2 |H n| / 2 for a random n off the mirror (Eq. 6), in
          column ``off`` for an m within it; over the ``samples`` of whose relus no input changes its sign within the
          step, where the loss has two derivatives;
        - left: |P theta| / |theta| after SGD from the mirror, and from beside it (Corollary 1);
        - growth: ln of the growth of |P theta| from beside the mirror, and ``off`` as the Hessian along the path of the
          mirror's own descent predicts it.
    """
    x, y = (torch.from_numpy(part[: settings.samples]) for part in data.split("train"))
    x, y = x.to(job.device).double(), y.to(job.device)
    module = models.module().double().to(job.device)
    spec = symmetries_of(models, x.float(), job).spec
    traced = trace(module, x[:2])
    rotations = rotations_within(module, x, traced)
    flips = signs_of(module, traced, x[:2], module.state_dict())
    rows = []
    for position, replica in list(enumerate(models.replicas))[: settings.models]:
        state = move(models.state(models.epochs[-1], position), job.device)
        parameters = dict(module.named_parameters())
        buffers = {name: tensor for name, tensor in state.items() if name not in parameters}
        state = {name: state[name].double() for name in parameters}
        which = {"mask_seed": replica.mask_seed, "seed": replica.seed}
        drawn = numpy_rng(job.study, job.variant, "mirrors", replica.mask_seed, replica.seed)
        for mirror, place in _mirrors(spec, rotations, flips, settings, drawn):
            seed = (job.study, job.variant, "mirrors", replica.mask_seed, replica.seed, *place.values())
            # On the mirror running statistics of both neurons are alike too.
            fixed = {name: tensor.double() for name, tensor in buffers.items()}
            fixed = mirror.on(fixed) if place["mirror"] == "neurons" else fixed
            at = Point(module, x, y, data.task, mirror, settings, torch_generator(*seed), fixed)
            rows += [{**which, **place, **found} for found in at.rows(state)]
        job.report(f"mask {replica.mask_seed} seed {replica.seed}: {counted(len(rows), 'numbers')}")
    return {"network_mirrors.csv": pd.DataFrame(rows)}


def rotations_within(module: nn.Module, x: Tensor, traced: Traced) -> list[Action]:
    """The traced groups within others, as heads, whose rotations are all free: of queries and keys, of values."""
    if not any(group.within for group in traced.spec.groups.values()):
        return []
    found = actions_of(module, traced, x[:2], module.state_dict())
    return [action for action in found if len(action.size) > 1 and action.kind in ("orthogonal", "invertible")]


def _mirrors(
    spec: SymmetrySpec,
    rotations: Sequence[Action],
    flips: Sequence[Flip],
    settings: Mirrors,
    drawn: np.random.Generator,
) -> Iterator[tuple[Mirror, dict[str, Any]]]:
    """Pairs of neurons of traced groups; of each attention layer a rotation in a head, of Q, K and of V, O; and neurons
    of rescalings that take both signs (Theorem 2), as of a norm's gain with what reads it: both are 0 on the mirror.
    """
    for group in sorted(drawn.permutation(spec.free)[: settings.groups]):
        for _ in range(settings.pairs):
            a, b = map(int, sorted(drawn.choice(spec.groups[group].size, 2, replace=False)))
            yield neurons(spec, group, a, b), {"mirror": "neurons", "group": group, "a": a, "b": b}
    of_layers: dict[tuple[str, ...], list[Action]] = {}
    for action in rotations:
        of_layers.setdefault(action.spec.groups[action.group].within, []).append(action)
    for of_layer in of_layers.values():
        *heads, size = of_layer[0].size
        head = int(drawn.integers(math.prod(heads)))
        n = torch.from_numpy(drawn.normal(size=size))
        for action in of_layer:
            maps = dict.fromkeys(name.rpartition(".")[0] for name in action.powers)
            layer = next(iter(maps)).rpartition(".")[0]
            group = f"{layer}: {', '.join(name.rpartition('.')[2] for name in maps)}"
            yield turned(action, n / n.norm(), head), {"mirror": "rotation", "group": group, "a": head, "b": 0}
    for place in sorted(drawn.permutation(len(flips))[: settings.groups]):
        flip = flips[place]
        neuron = int(drawn.integers(math.prod(shape(flip.group, spec.groups))))
        named = {"mirror": "rescaling", "group": f"{flip.group}: {', '.join(flip.turned)}", "a": neuron, "b": 0}
        yield vanishing(spec, flip, neuron), named


@dataclass(frozen=True)
class Point:
    """A network's loss, a mirror of it, and a generator of directions."""

    module: nn.Module
    x: Tensor
    y: Tensor
    task: str
    mirror: Mirror
    settings: Mirrors
    generator: torch.Generator
    buffers: State

    def loss(self, state: State, rows: slice | Tensor = slice(None)) -> Tensor:
        """Mean loss over rows of the samples."""
        return losses(self.task, functional_call(self.module, {**self.buffers, **state}, (self.x[rows],)), self.y[rows])

    def rows(self, state: State) -> Iterator[dict[str, Any]]:
        """All quantities of ``measure_mirrors`` at a trained state."""
        places = {"on": self.mirror.on(state), "off": state}
        for quantity, measured in (("gradient", self._gradient), ("hessian", self._hessian)):
            yield {"quantity": quantity, **{place: measured(at) for place, at in places.items()}}
        n, m = (unit(part(random_state(state, self.generator))) for part in (self.mirror.off, self.mirror.on))
        (on, samples), (off, _) = (self.beyond_second_order(places["on"], direction) for direction in (n, m))
        yield {"quantity": "second_order", "on": on, "off": off, "samples": samples}
        left, growth, predicted = self._descend(places["on"], n)
        yield {"quantity": "left", "on": left[0], "off": left[1]}
        yield {"quantity": "growth", "on": growth, "off": predicted}

    def _batches(self) -> list[slice]:
        size = self.settings.batch_size
        return [slice(first, first + size) for first in range(0, len(self.x), size)]

    def _gradient(self, at: State) -> float:
        gradients = [grad(self.loss)(at, rows) for rows in self._batches()]
        return max(norm(self.mirror.off(g)) / norm(g) for g in gradients)

    def _hessian(self, at: State) -> float:
        _, product = slopes(self.loss, at, self.mirror.on(random_state(at, self.generator)))
        return norm(self.mirror.off(product)) / norm(product)

    def beyond_second_order(self, at: State, n: State, step: float = STEP) -> tuple[float, int]:
        """|L(s) - L(0) - s^2 n^T H n / 2| / (s^2 |H n| / 2), s = ``step`` |theta|, and of how many samples.

        Over |H n| and not n^T H n, since that is what a product's rounding is relative to.
        """
        s = step * norm(at)
        moved = {name: value + s * n[name] for name, value in at.items()}
        smooth = (self._sides(at) == self._sides(moved)).all(1)
        if not smooth.any():
            return math.nan, 0

        def loss(state: State) -> Tensor:
            return self.loss(state, smooth)

        _, product = slopes(loss, at, n)
        left = float(loss(moved) - loss(at)) / (s**2 / 2) - float(inner(n, product))
        # Across a pair of dead neurons both are 0.
        return abs(left) / max(norm(product), 1e-300), int(smooth.sum())

    def _sides(self, at: State) -> Bool[Tensor, "samples inputs"]:
        with torch.no_grad(), _Relus() as relus:
            functional_call(self.module, {**self.buffers, **at}, (self.x,))
        return torch.cat([torch.ones(len(self.x), 1, dtype=torch.bool, device=self.x.device), *relus.sides], 1)

    def _descend(self, start: State, n: State) -> tuple[tuple[float, float], float, float]:
        """SGD from the mirror, from beside it, and the tangent of the first: distances left, growth and prediction."""
        lr, decay = self.settings.lr, self.settings.weight_decay
        size = self.settings.offset * norm(start)
        on, v = dict(start), {name: size * value for name, value in n.items()}
        beside = {name: value + v[name] for name, value in start.items()}
        batches = self._batches()
        for step in range(self.settings.steps):
            rows = batches[step % len(batches)]

            def loss(state: State, rows: slice = rows) -> Tensor:
                return self.loss(state, rows)

            gradient, product = slopes(loss, on, v)
            v, on = _stepped(v, product, lr, decay), _stepped(on, gradient, lr, decay)
            beside = _stepped(beside, grad(loss)(beside), lr, decay)
        off = self.mirror.order_parameter
        growth, predicted = (math.log(last / size) for last in (off(beside), norm(self.mirror.off(v))))
        return (off(on) / norm(on), off(beside) / norm(beside)), growth, predicted


class _Relus(TorchDispatchMode):
    """Notes on which side of their kinks the inputs of relus lie, a row a sample."""

    def __init__(self) -> None:
        super().__init__()
        self.sides: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.relu.default:
            self.sides.append(args[0].flatten(1) > 0)
        return func(*args, **(kwargs or {}))


def _stepped(at: State, gradient: State, lr: float, decay: float) -> State:
    return {name: value - lr * (gradient[name] + decay * value) for name, value in at.items()}
