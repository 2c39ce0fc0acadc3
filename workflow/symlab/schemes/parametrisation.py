"""How one weight comes about from what is trained: composed forwards, its gradient pulled back.

A scheme whose weights are not F + D * W names a function like ``affine`` in its settings (``Scheme.parametrise``).
"""

from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Protocol

import torch
from torch import Tensor

from symlab.schemes import Scheme
from symlab.schemes.fixed_parts import FixedParts, State, effective

# Stands between a parameter's name and that of one of the tensors it is composed of.
OF = "/"
# The suffix of a trained tensor that weight decay leaves alone.
UNDECAYED = "undecayed"


class Parametrisation(Protocol):
    """One parameter as a function of trained tensors of any shape, all with a replica axis or none."""

    suffixes: tuple[str, ...]
    """What tells its trained tensors apart; one empty suffix where there is only W."""

    def start(self, value: Tensor) -> list[Tensor]:
        """The trained tensors at an initial ``value`` of W; called before all else, with the device and type of all.

        Raises:
            UserError: W has a shape that does not fit.
        """

    def compose(self, *trained: Tensor) -> Tensor:
        """The parameter, for autograd."""

    def compose_into(self, target: Tensor, *trained: Tensor) -> None:
        """The parameter, written into ``target``."""
        target.copy_(self.compose(*trained))

    def pull_back(self, gradient: Tensor, *trained: Tensor) -> list[Tensor]:
        """Gradients of the trained tensors from the parameter's; may overwrite it."""

    def pinned(self) -> tuple[Tensor | None, Tensor] | None:
        """F and the mask D where the parameter is W itself but for fixed entries; None if W differs from it."""
        return None


class Affine(Parametrisation):
    """W_eff = F + D * W; None stands for F = 0 and for D = 1."""

    suffixes = ("",)

    def __init__(self, F: Tensor | None, D: Tensor | None):
        self.F, self.D = F, D

    def start(self, value: Tensor) -> list[Tensor]:
        return [value]

    def compose(self, *trained: Tensor) -> Tensor:
        return effective(trained[0], self.F, self.D)

    def compose_into(self, target: Tensor, *trained: Tensor) -> None:
        if self.F is None:
            torch.mul(self.D, trained[0], out=target)  # type: ignore[arg-type]
        elif self.D is None:
            torch.add(self.F, trained[0], out=target)
        else:
            torch.addcmul(self.F, self.D, trained[0], out=target)

    def pull_back(self, gradient: Tensor, *trained: Tensor) -> list[Tensor]:
        # Chain rule: dL/dW = D * dL/dW_eff.
        return [gradient if self.D is None else gradient.mul_(self.D)]

    def pinned(self) -> tuple[Tensor | None, Tensor] | None:
        F, D = self.F, self.D
        if D is None or not bool(((D == 0) | (D == 1)).all()) or (F is not None and bool((F * D != 0).any())):
            return None
        return F, D


def affine(scheme: Scheme, parameters: Sequence[str], fixed: FixedParts, stacked: bool) -> dict[str, Affine]:
    """F + D * W of every weight with an F or a D; other parameters are W."""
    return {name: Affine(*parts) for name, parts in fixed.items() if parts != (None, None)}


def parametrise(
    scheme: Scheme, parameters: Sequence[str], fixed: FixedParts, stacked: bool
) -> dict[str, Parametrisation]:
    """The parametrisation of every parameter that is not simply W.

    Args:
        parameters: names of all parameters of the module.
        fixed: F and D of all weights of linear maps and convolutions.
        stacked: whether tensors have a leading replica axis.
    """
    return resolve_name(scheme.parametrise)(scheme, parameters, fixed, stacked)


def parameter_of(trained: str) -> str:
    """The parameter that a trained tensor belongs to, by their names."""
    return trained.partition(OF)[0]


def is_decayed(trained: str) -> bool:
    """Whether weight decay may act on a trained tensor, by its name."""
    return not trained.endswith(OF + UNDECAYED)


def names_of(parameter: str, parametrisation: Parametrisation) -> list[str]:
    """Names of a parameter's trained tensors."""
    return [f"{parameter}{OF}{suffix}" if suffix else parameter for suffix in parametrisation.suffixes]


def start(W: State, parametrisations: dict[str, Parametrisation]) -> State:
    """Trained tensors from the initial values of all parameters, in their order."""
    found: State = {}
    for name, value in W.items():
        if name in parametrisations:
            found |= zip(names_of(name, parametrisations[name]), parametrisations[name].start(value), strict=True)
        else:
            found[name] = value
    return found
