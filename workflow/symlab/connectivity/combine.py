"""Ways of making one network of several in one order: means, arcs, what each has learned since a common start."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

import torch
from torch import Tensor

from symlab.alignment.averaging import weighted
from symlab.errors import UserError

RULES = ("mean", "slerp", "ties", "least-squares")
# Of directions closer than this, in radians, the arc is the line to float32's precision.
SMALLEST_ANGLE = 1e-4


@dataclass(frozen=True)
class Averaging:
    """How networks in one order become one.

    Attributes:
        rule: "mean"; "slerp", on the arc between two networks, tensor by tensor; "ties", the mean of the largest
            entries of what each has learned since ``base`` whose signs agree (Yadav et al. 2023); "least-squares", the
            layers that give the mean of the networks' outputs for the mean of their inputs (PLeaS, Nasery et al. 2024).
        weights: of each network, of any sum, which they are divided by; default equal.
        layers: in their place, for all parameters whose names are a key or lie below it (the longest such key counts).
        scale: by which what was learned since ``base`` is multiplied.
        density: share of the entries of what a network has learned that "ties" keeps.
        until: path of a submodule: only what its output is computed from is averaged; the rest each network keeps.
        repair: rescale the channels of layers with a bias to the networks' mean statistics (Jordan et al. 2023).
    """

    rule: str = "mean"
    weights: Sequence[float] | None = None
    layers: Mapping[str, Sequence[float]] = field(default_factory=dict)
    scale: float = 1.0
    density: float = 0.2
    until: str | None = None
    repair: bool = False

    def weights_of(self, name: str, n: int) -> Sequence[float]:
        """The weights of n networks at a parameter."""
        keys = [key for key in self.layers if name == key or name.startswith(f"{key}.")]
        return self.layers[max(keys, key=len)] if keys else [1.0] * n if self.weights is None else self.weights

    def check(self, n: int, based: bool) -> None:
        """Check that n networks can be averaged so, with a common start or without.

        Raises:
            UserError: they cannot.
        """
        if self.rule not in RULES:
            raise UserError(f"the average is {self.rule!r}; it must be one of {', '.join(RULES)}.")
        if n < 2 - based:
            raise UserError(f"merging takes at least two networks, or one and a base; got {n}.")
        for weights in (self.weights, *self.layers.values()):
            check_weights(weights, n)
        negative = any(weight < 0 for weights in (self.weights or (), *self.layers.values()) for weight in weights)
        partial = self.until is not None or bool(self.layers)
        for wrong, sentence in (
            (
                self.rule == "slerp" and (n != 2 or based),
                "slerp is the arc between two networks, which knows no base: give two networks, and no base.",
            ),
            (
                self.rule == "ties" and not based,
                "ties averages what networks have learned since a common start: give it as base.",
            ),
            (self.rule == "ties" and negative, "with ties networks vote by their weights: none may be negative."),
            (
                self.rule == "least-squares" and (based or bool(self.layers)),
                "least squares fit layers to what all networks compute: leave out the base and weights of layers.",
            ),
            (
                self.scale != 1 and not based,
                "a scale multiplies what networks have learned since a common start: give that as base.",
            ),
            (
                self.repair and (based or partial or self.rule != "mean"),
                "REPAIR takes the plain mean of whole networks: leave it out, or the other ways to average.",
            ),
        ):
            if wrong:
                raise UserError(sentence)
        if not math.isfinite(self.scale):
            raise UserError(f"the scale is {self.scale}; it must be a finite number.")
        if not 0 < self.density <= 1:
            raise UserError(f"the density is {self.density:g}; it must be a share above 0 and up to 1.")


def check_weights(weights: Sequence[float] | None, n: int) -> None:
    """Check that there is a weight for each of n networks, or none at all; they may be negative, but not add up to 0.

    Raises:
        UserError: there is not.
    """
    if weights is None:
        return
    if len(weights) != n:
        raise UserError(f"there are {len(weights)} weights for {n} networks; give one a network.")
    if not all(map(math.isfinite, weights)) or abs(sum(weights)) < 1e-6 * sum(map(abs, weights)) or not any(weights):
        listed = ", ".join(f"{weight:g}" for weight in weights)
        raise UserError(
            f"the weights are {listed}; they must be finite, and their sum, which they are divided by, not 0."
        )


def check_layers(layers: Collection[str], names: Collection[str]) -> None:
    """Check that there are parameters below each of the paths.

    Raises:
        UserError: there are none below one.
    """
    known = {name[:end] for name in names for end in (*(n for n, c in enumerate(name) if c == "."), len(name))}
    for layer in layers:
        if layer not in known:
            nearest = get_close_matches(layer, known, 1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"it begins with {sorted(known)[0]!r}."
            raise UserError(f"the module has no layer or parameter {layer!r} to give weights to; {hint}")


def combine(
    states: Sequence[Mapping[str, Tensor]],
    how: Averaging,
    base: Mapping[str, Tensor] | None = None,
    parameters: Collection[str] | None = None,
) -> dict[str, Tensor]:
    """One state of several in one order, computed in float64, in the first one's types.

    Args:
        base: what they were trained from, in their order; the result is the base and ``how.scale`` times what they have
            learned since.
        parameters: names of what is no buffer, by default all: buffers are averaged, whatever the rule.

    Returns:
        By name; integer entries, which are counters, are the first state's.
    """
    least = _thresholds(states, base, how.density, parameters) if how.rule == "ties" and base is not None else []
    result = {}
    for name, first in states[0].items():
        result[name] = first
        if not first.is_floating_point():
            continue
        weights = how.weights_of(name, len(states))
        parts = [state[name].double() for state in states]
        rule = how.rule if parameters is None or name in parameters else "mean"
        if rule == "slerp":
            value = _on_arc(parts[0], parts[1], weights[1] / sum(weights))
        elif base is None:
            value = weighted(parts, weights)
        else:
            start = base[name].double()
            learned = [part - start for part in parts]
            mean = _elected(learned, weights, least) if rule == "ties" else weighted(learned, weights)
            value = start + how.scale * mean
        result[name] = value.to(first.dtype)
    return result


def _on_arc(a: Tensor, b: Tensor, lam: float) -> Tensor:
    """The point at lam of the arc from a to b (Shoemake 1985); of the line where both are parallel."""
    norms = float(a.norm() * b.norm())
    cosine = max(-1.0, min(1.0, float((a * b).sum()) / norms)) if norms else 1.0
    angle = math.acos(cosine)
    if math.sin(angle) < SMALLEST_ANGLE:
        return (1 - lam) * a + lam * b
    return (math.sin((1 - lam) * angle) * a + math.sin(lam * angle) * b) / math.sin(angle)


def _thresholds(
    states: Sequence[Mapping[str, Tensor]],
    base: Mapping[str, Tensor],
    density: float,
    parameters: Collection[str] | None,
) -> list[float]:
    """Of what each network has learned, over all its parameters, the size of the smallest entry that is kept."""
    names = [name for name, tensor in base.items() if tensor.is_floating_point()]
    names = [name for name in names if parameters is None or name in parameters]
    least = []
    for state in states:
        sizes = torch.cat([(state[name].double() - base[name].double()).abs().flatten() for name in names])
        kept = max(1, round(density * len(sizes)))
        least.append(float(sizes.kthvalue(len(sizes) - kept + 1).values))
    return least


def _elected(learned: Sequence[Tensor], weights: Sequence[float], least: Sequence[float]) -> Tensor:
    """The mean, entry by entry, over the networks whose entry is large enough and has the sign of their sum."""
    entries = torch.stack([torch.where(part.abs() >= t, part, 0.0) for part, t in zip(learned, least, strict=True)])
    shares = torch.tensor(weights, dtype=entries.dtype, device=entries.device)
    shares = shares.reshape(-1, *(1 for _ in entries.shape[1:]))
    sign = (shares * entries).sum(0).sign()
    agree = shares * ((entries.sign() == sign) & (entries != 0))
    return (agree * entries).sum(0) / agree.sum(0).clamp_min(torch.finfo(entries.dtype).tiny)
