"""Proofs that a move of a network's weights changes nothing: at random weights, in float64, where outputs see it."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from symlab.batches import Inputs
from symlab.symmetries.evaluated import Evaluated
from symlab.symmetries.propagation import constant_value
from symlab.symmetries.trace import Traced
from symlab.symmetries.values import Value

# What a symmetry may change in an output of size 1.
PROVEN = 1e-10
# How much longer matrices make vectors. A softmax all but one-hot, or all but flat, tells nothing of its scores.
GAINS = (1.0, 0.4)
# Of a batch norm.
VARIANCE = 0.01
# Of a neuron that lies in two tensors every second half holds both or neither, and outputs do not see it.
HALVES = 8

State = Mapping[str, Tensor]


def general_passes(
    module: nn.Module,
    traced: Traced,
    x: Tensor | Inputs,
    like: State,
    seed: int = 0,
    of_constant: Callable[[Tensor], Value] = constant_value,
    gains: Sequence[float] = GAINS,
) -> list[Evaluated]:
    """Forward passes of a few inputs in float64 at states in general position, large and small.

    Args:
        module: the network that was traced.
        like: a state of it, by all names, near which the states are drawn.
        of_constant: as of ``Propagation``.
        gains: how large each state is, see ``general_position``.
    """
    first, *others = (general_position(module, like, seed + n, gain) for n, gain in enumerate(gains))
    forward = traced.evaluated(first, x, of_constant)
    with torch.no_grad():
        return [forward, *map(forward.at, others)]


def general_position(module: nn.Module, like: State, seed: int = 0, gain: float = 1.0) -> dict[str, Tensor]:
    """A state like another, but with no entry 0 or alike, and matrices that make vectors ``gain`` times as long.

    Variances stay positive, and tied weights tied.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn: dict[tuple[int, torch.Size], Tensor] = {}
    state = {}
    for name, own in module.state_dict(keep_vars=True).items():
        key = (own.untyped_storage()._cdata, own.shape)
        if key not in drawn:
            value = like[name].detach().cpu()
            if value.is_floating_point() and value.isfinite().all():
                factors = 0.5 + torch.rand(value.shape, generator=generator)
                rest = 0.3 * torch.randn(value.shape, generator=generator)
                value = torch.where(value == 0, rest, value * factors)
                if value.dim() > 1 and value.numel() > 1:
                    value = gain * value / (value.std() * (value.numel() / len(value)) ** 0.5 + 1e-12)
                value = value.to(like[name].dtype)
            drawn[key] = value.to(own.device)
        state[name] = drawn[key]
    for name, part in module.named_modules(remove_duplicate=False):
        if isinstance(getattr(part, "running_var", None), Tensor):
            # So small that a norm's eps, which keeps variances from being scaled, is seen; outputs stay as large: where
            # every norm makes them smaller, what lies above is 0 and tells nothing.
            weight, variance = (f"{name}.{each}".lstrip(".") for each in ("weight", "running_var"))
            state[variance] = VARIANCE * state[variance] / state[variance].mean()
            if weight in state:
                state[weight] = (VARIANCE / state[weight].square().mean()) ** 0.5 * state[weight]
    return state


def proven(
    passes: Sequence[Evaluated], move: Callable[[State], State], prepare: Callable[[State], State] = lambda state: state
) -> float | None:
    """The most that a move changes in an output of size 1; None if that is more than rounding, or not to be seen.

    What outputs do not see, even where random halves of the entries are moved, proves nothing.

    Args:
        passes: as ``general_passes`` gives them.
        move, prepare: make of a state, by first names, one with the same function: ``move`` of what ``prepare`` gives.
    """
    changes, seen, generator = list[float](), False, torch.Generator().manual_seed(0)
    with torch.no_grad():
        for forward in passes:
            start = prepare(forward.state)
            end = move(start)
            changes.append(forward.change(end))
            if not changes[-1] < PROVEN:
                return None
            for _ in range(0 if seen else HALVES):
                half = {
                    name: torch.where(torch.rand(own.shape, generator=generator).to(own.device) < 0.5, tensor, own)
                    for name, tensor in end.items()
                    if tensor is not (own := start[name])
                }
                if seen := forward.change({**start, **half}) > PROVEN:
                    break
    return max(changes) if seen else None
