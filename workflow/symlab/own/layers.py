"""Which modules of a network are its layers: those that lie one after another on the way from inputs to outputs."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from fnmatch import fnmatch
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from symlab.alignment.forward import call
from symlab.batches import Inputs, parts_of, prediction
from symlab.errors import UserError
from symlab.own.models import Models
from symlab.own.modules import foreign, some

SEQUENCES = nn.Sequential | nn.ModuleList


def named_layers(module: nn.Module, patterns: Sequence[str]) -> list[str]:
    """Names of modules that fit one of the patterns.

    Raises:
        UserError: a pattern fits none.
    """
    names = [name for name, _ in module.named_modules() if name]
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in names):
            raise UserError(f"no module has the name {pattern!r}; there are {some(names, 6)}.")
    return [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]


def layers_on_the_way(models: Models, readout: str) -> list[str]:
    """Names of the modules that lie one after another on the way from inputs to outputs: the network's blocks.

    Without blocks they are the network's children that all of the way leads through, or else any of it, but what holds
    ``readout``. Where derivatives tell of no way, as behind a part without gradients, all count as on it.
    """
    told = _depends(models)
    leading = cache(lambda name: not told or _depends(models, on=name))
    alone = cache(lambda name: not told or (leading(name) and not _depends(models, past=name)))
    names = [name for name, _ in models.module.named_children() if not f"{readout}.".startswith(f"{name}.")]
    blocks = [name for name in _blocks(models.module, "", leading, alone) if name != readout]
    return blocks or list(filter(alone, names)) or list(filter(leading, names))


def _blocks(module: nn.Module, path: str, leading: Callable[[str], bool], alone: Callable[[str], bool]) -> list[str]:
    """Children of sequences and lists of modules; of a sequence's child that is one of a kind, its own blocks.

    A sequence of which no part has all of the way lead through it, as a shortcut or a head, holds no blocks. Several
    children of one kind, with parts, that all of the way leads through are blocks without a list.
    """
    # What torch makes weights with is no layer.
    children = [(name, child) for name, child in module.named_children() if name != "parametrizations"]
    parts = {f"{path}.{name}" if path else name: child for name, child in children}
    kinds = Counter(type(child) for child in parts.values())
    twins = [name for name, child in parts.items() if kinds[type(child)] > 1 and not isinstance(child, SEQUENCES)]
    if isinstance(module, nn.Sequential):
        taken = list(parts)
    elif isinstance(module, nn.ModuleList):
        taken = list(filter(leading, parts))
    elif sum(alone(name) for name in twins if [*parts[name].children()]) > 1:
        taken = list(filter(alone, parts))
    else:
        taken, twins = [], []
    found: list[str] = []
    for name, child in parts.items():
        inner = [f"{name}.{part}" for part, _ in child.named_children()]
        closed = name in twins or (isinstance(child, nn.Sequential) and not any(map(alone, inner)))
        within = [] if closed else _blocks(child, name, leading, alone)
        found += within or ([name] if name in taken else [])
    return found


def _depends(models: Models, on: str = "", past: str = "") -> bool:
    """Whether outputs depend on a module's outputs; without one on the inputs, past a module's outputs.

    Told by autograd, so by ways that have a derivative: inputs are the real ones and what embeddings give.
    """

    def begun(x: Any) -> Any:
        # A copy, for leaves must not be changed in place.
        return x.detach().requires_grad_().clone() if isinstance(x, Tensor) and x.is_floating_point() else x

    def ended(x: Any) -> Any:
        return x.detach() if isinstance(x, Tensor) else x

    module, x = models.module, models.inputs()[:2]
    embeddings = [name for name, part in module.named_modules() if isinstance(part, nn.Embedding | nn.EmbeddingBag)]
    changes = dict.fromkeys([on] if on else embeddings, begun) | ({past: ended} if past else {})
    parts = parts_of(x) if on else map(begun, parts_of(x))
    with ExitStack() as stack, foreign(f"computing {models.name}"), torch.enable_grad():
        for name, change in changes.items():
            hook = partial(lambda change, _module, _inputs, output: tree_map(change, output), change)
            stack.callback(module.get_submodule(name).register_forward_hook(hook).remove)
        return prediction(call(module, models.states[0], Inputs(tuple(parts)))).requires_grad
