"""The update of a training recipe, with what is done to gradients before it and to weights after it."""

from collections.abc import Collection
from fnmatch import fnmatchcase
from pkgutil import resolve_name

import torch
from torch import Tensor

from symlab.device import is_accelerator
from symlab.errors import UserError
from symlab.schemes.parametrisation import is_decayed, parameter_of
from symlab.training.settings import UPDATES, Recipe

# float32 lanes of the widest CPU vector register (AVX-512).
VECTOR = 16


class Optimizer:
    """Moves trained tensors, of one replica each or of ``R`` stacked ones (leading axis), along their ``grad``.

    The updates are elementwise, so a step on stacked tensors equals separate steps. Biases and norm parameters
    (everything whose parameter is not in ``weights``) are decayed only where ``recipe.decay_bias`` says so.

    Raises:
        UserError: a pattern of ``recipe.penalties`` matches no parameter.
    """

    def __init__(self, recipe: Recipe, trained: dict[str, Tensor], weights: Collection[str], R: int):
        self.recipe, self.R = recipe, R
        self.trained = list(trained.values())
        self.penalties = _penalties(recipe, trained)
        self.shrunk: list[Tensor] = []
        groups: dict[tuple[float, bool], list[Tensor]] = {}
        for name, tensor in trained.items():
            decays = is_decayed(name) and (recipe.decay_bias or parameter_of(name) in weights)
            decay = recipe.weight_decay if decays else 0.0
            if recipe.l1 and decays:
                self.shrunk.append(tensor)
            # The fused CPU kernel rounds the last elements that fill no vector register differently; with several
            # replicas in one tensor a seed's bits would depend on its place: such tensors (a few biases) are not fused.
            fused = is_accelerator(tensor.device) or R == 1 or (tensor.numel() // R) % VECTOR == 0
            groups.setdefault((decay, fused), []).append(tensor)
        update = resolve_name(UPDATES[recipe.optimizer])
        self.updates = [update(recipe, tensors, *group) for group, tensors in groups.items()]

    @torch.no_grad()
    def step(self, lr: float | Tensor) -> None:
        """Move every tensor along its ``grad``; in a CUDA graph ``lr`` is a scalar tensor on the GPU."""
        self.add_penalties()
        for update in self.updates:
            update.step([tensor.grad for tensor in update.tensors], lr)
        if self.shrunk:
            by = lr * self.recipe.l1 / (1 - self.recipe.momentum)
        for tensor in self.shrunk:
            tensor.sub_(tensor.clamp(-by, by))  # type: ignore[arg-type]

    @torch.no_grad()
    def add_penalties(self) -> None:
        """Add to each ``grad`` that of the penalties."""
        for tensor, strength in self.penalties:
            tensor.grad.add_(tensor, alpha=strength)  # type: ignore[union-attr]

    def live(self) -> dict[str, Tensor]:
        """Momenta and step counts, themselves and not copies, by names that do not depend on the process."""
        return {
            f"optimizer/{number}/{k}/{i}": tensor
            for number, update in enumerate(self.updates)
            for k, tensors in enumerate(update.state())
            for i, tensor in enumerate(tensors)
        }


def _penalties(recipe: Recipe, trained: dict[str, Tensor]) -> list[tuple[Tensor, float]]:
    paths = [parameter_of(name) for name in trained]
    for pattern in recipe.penalties:
        if not any(fnmatchcase(path, pattern) for path in paths):
            raise UserError(
                f"recipe.penalties has the pattern {pattern!r}, which matches no parameter of the network "
                f"({', '.join(dict.fromkeys(paths))})."
            )
    found = []
    for path, tensor in zip(paths, trained.values(), strict=True):
        fitting = [strength for pattern, strength in recipe.penalties.items() if fnmatchcase(path, pattern)]
        if fitting:
            found.append((tensor, fitting[0]))
    return found
