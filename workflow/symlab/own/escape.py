"""How and when a network leaves the saddle at the origin, as a function: ``from symlab import escape``."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.func import functional_call

from symlab.batches import in_precision, parts_of
from symlab.connectivity.objective import counted as scored
from symlab.connectivity.objective import summed_loss
from symlab.errors import UserError
from symlab.own.models import Models, load_models
from symlab.own.modules import foreign
from symlab.own.network import State
from symlab.products import fast_products
from symlab.training.fastest_neuron import fastest_neuron
from symlab.training.flow import Place, follow_flow, norm_of
from symlab.words import counted

Row = tuple[float, float, float]
SAME = 1e-6
"""Relative difference up to which scaled weights give scaled outputs."""


@dataclass(frozen=True)
class Escape:
    """How a network's weights leave the origin along gradient flow; printed, in sentences.

    Attributes:
        name: the network's.
        degree: L, by which outputs scale: with |theta|^L.
        one_neuron: speed of the fastest neuron of the whole input, at which a fully connected network of any depth can
            leave; NaN where inputs are several, or no real numbers.
        speed, residual: of the weights' direction when the loss has dropped: -L0 on the sphere of squared norm L, and
            |grad L0(rho) + s rho| / (s sqrt(L)), which is 0 along an escape direction.
        layers: a row a weight of two axes and more: ``weight``, ``second``, its second singular value over the first
            when the loss has dropped (all axes but the first as one), and that of its change, ``second_change``.
        course: along the way ``drop`` (1 - loss / loss at outputs 0), ``time`` of the flow, ``norm`` of all weights.
        gradients: number of gradients computed.
        remarks: sentences on what was renamed, left out or is missing.
    """

    name: str
    degree: int
    one_neuron: float
    speed: float
    residual: float
    layers: pd.DataFrame
    course: pd.DataFrame
    gradients: int
    remarks: tuple[str, ...] = ()

    def steps(self, lr: float, power: float = 0.0, momentum: float = 0.0) -> float:
        """Forecast of the steps that SGD takes to the last ``drop``, at a rate of lr / |theta|^power.

        It is that of gradient flow on all samples: batches and long steps may add to it.

        Raises:
            UserError: there is no such rate or momentum.
        """
        refuse_rate(lr, momentum)
        return float(np.trapezoid(self.course["norm"] ** power, self.course["time"])) * (1 - momentum) / lr

    def __str__(self) -> str:
        drop, rank = self.course["drop"].iloc[-1], self.layers["second"].max()
        # Of tokens there is no such neuron.
        one = (
            "" if math.isnan(self.one_neuron) else f"; one neuron of the whole input has {self.one_neuron:.4g} at most"
        )
        lines = [
            f"{self.name}: outputs are of degree {self.degree} in the weights. Until the loss has dropped by "
            f"{drop:.2g} of its value at the origin, gradient flow takes a time of {self.course['time'].iloc[-1]:.4g} "
            f"({counted(self.gradients, 'gradients')} here).",
            f"There the weights point along a direction of speed {self.speed:.4g}, {self.residual:.2g} of its length "
            f"from an escape direction{one}.",
            f"The second singular value of a layer is at most {rank:.2g} of its first:",
        ]
        rows = self.layers.to_string(index=False, float_format="{:.3g}".format).splitlines()
        return "\n".join([*lines, *(f"  {row}" for row in rows)])


def refuse_rate(lr: float, momentum: float) -> None:
    """Raise UserError if SGD takes no such rate or momentum."""
    if not (lr > 0 and 0 <= momentum < 1):
        raise UserError(f"lr is {lr} and momentum {momentum}; lr must be above 0, momentum from 0 to below 1.")


@fast_products()
def escape(
    module: nn.Module | str,
    data: Any,
    *,
    weights: Any = None,
    drop: float = 0.01,
    h: float = 0.03,
    gradients: int = 5000,
    **options: Any,
) -> Escape:
    """Follow a network from its initial weights until it has left the origin (Bantzis, Simon, Jacot 2025).

    Args:
        module: a positively homogeneous network with its initial weights (linear maps and convolutions without biases,
            relu, max and mean pooling), or ``pkg.module:function`` that builds it.
        data: inputs and targets, as ``symlab.align`` takes them. The loss is the mean cross-entropy of labels, or the
            mean squared error of real targets, as torch computes them.
        weights: initial weights, in any form that ``symlab.align`` takes; by default the module's own.
        drop: of the loss as a share of that at outputs 0, at which the network has left.
        h: length of a step along the flow as a share of |theta|.
        gradients: largest number of gradients to compute.
        options: ``task``, ``samples``, ``batch_size``, ``seed`` and ``device``, as of ``symlab.align``.

    Raises:
        UserError: something does not fit, the network is not positively homogeneous, or does not leave.
    """
    models = load_models(module, {"the weights": weights}, data, **options)
    if not (0 < drop < 1 and 0 < h < 1 and gradients > 0):
        raise UserError(f"drop is {drop}, h {h} and gradients {gradients}: from 0 to 1, from 0 to 1, and above 0.")
    problem = _Problem(models)
    start = [models.states[0][name].double() for name in problem.names]
    L = problem.degree(start)
    place, rows = _followed(problem, models.name, start, drop, h, gradients)
    rho = [W * math.sqrt(L) / norm_of(place.W) for W in place.W]
    gradient = problem.localized_gradient(rho)
    speed = -sum(float((g * W).sum()) for g, W in zip(gradient, rho, strict=True)) / L
    beside = norm_of([g + speed * W for g, W in zip(gradient, rho, strict=True)])
    layers = [
        {"weight": name, "second": _second(W), "second_change": _second(moved)}
        for name, W, moved in zip(problem.names, place.W, place.moved, strict=True)
        if W.dim() > 1
    ]
    return Escape(
        models.name, L, problem.one_neuron(), speed, beside / (abs(speed) * math.sqrt(L)),
        pd.DataFrame(layers), pd.DataFrame(rows, columns=["drop", "time", "norm"]), place.gradients, models.remarks,
    )  # fmt: skip


class _Problem:
    """The loss of a network on all samples, in float64."""

    def __init__(self, models: Models):
        if models.y is None or callable(models.task):
            raise UserError("the loss is needed that training descends: give targets y, and no metric of your own.")
        self.module, self.models, self.y = models.module.double().eval(), models, models.y
        self.names = [name for name, each in self.module.named_parameters() if each.is_floating_point()]
        state = State(models.states[0].stored, torch.float64)
        self.rest = {name: state[name] for name in state if name not in self.names}
        self.x = in_precision(models.inputs(), torch.float64)
        with torch.no_grad():
            zero = torch.zeros_like(self._outputs([models.states[0][n].double() for n in self.names], slice(0, 2)))
        if models.task == "classification" and (zero.dim() != 2 or zero.shape[1] < 2):
            raise UserError(f"outputs of shape {tuple(zero.shape)} are not the logits [n, classes] that this needs.")
        self.classes = zero.shape[1:]
        self.at_origin = self._losses(zero.new_zeros(len(self.y), *self.classes), slice(None)).item()
        if not self.at_origin > 0:
            raise UserError("all targets y are 0, as the outputs at the origin are: the loss has nowhere to drop.")

    def slope(self, W: Sequence[Tensor]) -> tuple[list[Tensor], float]:
        """Gradient of the loss, and its drop as a share of the loss at outputs 0."""
        gradient, total = self._gradient(W, self._losses)
        return gradient, 1 - total / self.at_origin

    def localized_gradient(self, W: Sequence[Tensor]) -> list[Tensor]:
        """Gradient of L0 = Tr[G^T Y]."""
        G = self.G()
        return self._gradient(W, lambda outputs, rows: (G[rows] * outputs).sum())[0]

    def G(self) -> Tensor:
        """The loss's gradient by the outputs at 0 [n, ...]."""
        zero = torch.zeros(len(self.y), *self.classes, dtype=torch.float64, device=self.y.device, requires_grad=True)
        with torch.enable_grad():
            return torch.autograd.grad(self._losses(zero, slice(None)), zero)[0]

    def one_neuron(self) -> float:
        """Speed of the fastest neuron of the whole input; NaN of other inputs than real numbers."""
        if not (isinstance(self.x, Tensor) and self.x.is_floating_point()):
            return math.nan
        return fastest_neuron(self.x.flatten(1).T, self.G().flatten(1).T)[0]

    def degree(self, W: Sequence[Tensor]) -> int:
        """L of outputs that scale with the L-th power of all parameters, biases that are 0 now among them.

        Raises:
            UserError: they do not.
        """
        # What is 0 at first (biases) is not when it is trained.
        drawn = torch.Generator().manual_seed(0)
        size = norm_of(W) / math.sqrt(sum(W_l.numel() for W_l in W))
        moved = [W_l + size * torch.randn(W_l.shape, generator=drawn, dtype=W_l.dtype).to(W_l) for W_l in W]
        rows = slice(0, min(self.models.rows, 32))
        with torch.no_grad():
            once, twice = (self._outputs([factor * W_l for W_l in moved], rows) for factor in (1, 2))
        power = math.log2(float(twice.norm() / once.norm())) if once.any() and twice.any() else math.nan
        L = round(power) if math.isfinite(power) else 0
        if L < 2 or float((twice - 2**L * once).norm() / twice.norm()) > SAME:
            told = "outputs of 0" if math.isnan(power) else f"2^{power:.3g} times the outputs, or not so everywhere"
            raise UserError(
                f"{self.models.name} is not positively homogeneous of degree 2 or more: twice all its parameters give "
                f"{told}. Biases, norms and activations other than relu break it; there is then no such saddle at 0."
            )
        return L

    def _outputs(self, W: Sequence[Tensor], rows: slice) -> Tensor:
        state = {**self.rest, **dict(zip(self.names, W, strict=True))}
        with foreign(f"computing {self.models.name}"):
            outputs = functional_call(self.module, state, parts_of(self.x[rows]))
        if not isinstance(outputs, Tensor):
            raise UserError(f"{self.models.name} returns a {type(outputs).__name__}; this needs one tensor of outputs.")
        return outputs

    def _losses(self, outputs: Tensor, rows: slice) -> Tensor:
        """The share of some samples in the mean loss."""
        return summed_loss(outputs, self.y[rows], self.models.task) / scored(self.y, self.models.task)

    def _gradient(self, W: Sequence[Tensor], of: Callable[[Tensor, slice], Tensor]) -> tuple[list[Tensor], float]:
        """Gradient and value of a sum over all samples, by what some rows' outputs add to it."""
        leaves, total = [W_l.detach().requires_grad_() for W_l in W], 0.0
        gradient = [torch.zeros_like(W_l) for W_l in W]
        for start in range(0, len(self.y), self.models.rows):
            rows = slice(start, start + self.models.rows)
            with torch.enable_grad():
                loss = of(self._outputs(leaves, rows), rows)
                found = torch.autograd.grad(loss, leaves, allow_unused=True)
            gradient = [a if b is None else a + b for a, b in zip(gradient, found, strict=True)]
            total += loss.item()
        return gradient, total


def _followed(
    problem: _Problem, name: str, start: list[Tensor], drop: float, h: float, gradients: int
) -> tuple[Place, list[Row]]:
    """Where the flow's loss has dropped so far, and the way there.

    Raises:
        UserError: there is no gradient, or it has not within so many gradients.
    """
    rows: list[Row] = []
    place = None
    try:
        for place in follow_flow(start, problem.slope, h):
            rows.append((place.seen, place.clock, norm_of(place.W)))
            if place.seen >= drop or place.gradients >= gradients:
                break
    except FloatingPointError:
        raise UserError(f"{name} has no gradient at its weights: no output depends on them, or all are 0.") from None
    assert place is not None
    if place.seen < drop:
        raise UserError(
            f"{name} has not left the origin within {gradients} gradients: its loss has dropped by {place.seen:.3g} "
            f"and not by {drop:g}. Allow more of them, or ask for a smaller drop."
        )
    return place, [*rows[:-1], _reached(drop, *rows[-2:])]


def _reached(drop: float, *last: Row) -> Row:
    """Where between the last two places the loss had dropped so far, by the logarithm of the drop."""
    (before, start, small), (after, end, large) = last[0], last[-1]
    done = math.log(drop / before) / math.log(after / before) if 0 < before < after else 1.0
    return drop if done < 1 else after, start + done * (end - start), small + done * (large - small)


def _second(W: Tensor) -> float:
    values = torch.linalg.svdvals(W.flatten(1))
    return float(values[1] / values[0]) if len(values) > 1 else 0.0
