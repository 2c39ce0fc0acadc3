"""Which modules of a network are its layers: those that lie one after another on the way from inputs to outputs."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from fnmatch import fnmatch
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.utils._pytree import tree_map

from symlab.alignment.forward import call
from symlab.batches import Inputs, leaves, parts_of, prediction
from symlab.errors import UserError
from symlab.own.models import Models
from symlab.own.modules import foreign, some

DROPOUTS = nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d | nn.AlphaDropout | nn.FeatureAlphaDropout


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
    """Names of the modules that lie one after another on the way from inputs to outputs, in the order of their calls.

    The network is taken apart: sequences, modules that are one of a kind, and what holds ``readout``, where all of the
    way leads through them, not a shortcut or a branch. The layers are the entries of sequences and lists of modules
    among the parts; without such entries the parts that all of the way leads through, or else any of it. Where
    derivatives tell of no way, as behind a part without gradients, all count as on it.
    """
    modules = dict(models.module.named_modules())
    given, end = _computed(models)
    reached = _before(end)
    kinds = {name: type(modules[name]) for name, nodes in given.items() if end is None or nodes & reached}
    holders = {name: modules[name.rpartition(".")[0]] for name in kinds}
    above = {name: [name[: dot.start()] for dot in re.finditer(r"\.", name)] for name in kinds}
    counts = Counter(kinds.values())

    @cache
    def alone(name: str) -> bool:
        return all(node.next_functions for node in _before(end, given[name]))

    @cache
    def apart(name: str) -> bool:
        # A list is never called; other modules give their tensors in forms of their own.
        if name not in kinds:
            return True
        alike = [one for one, kind in kinds.items() if kind is kinds[name] and holders[one] is holders[name]]
        return (kinds[name] is nn.Sequential or counts[kinds[name]] == 1) and all(map(alone, alike))

    parts = [name for name in kinds if all(map(apart, above[name])) and not f"{readout}.".startswith(f"{name}.")]
    entries = [name for name in parts if isinstance(holders[name], nn.Sequential | nn.ModuleList)]
    layers = entries or list(filter(alone, parts)) or parts
    return [name for name in layers if not any(name in above[one] for one in layers)]


def _computed(models: Models) -> tuple[dict[str, set[Node]], Node | None]:
    """Autograd's nodes of what each module gives, in the order of their (last) calls, and that of the outputs.

    The graph begins at the real inputs and at what embeddings give, and has the ways that have a derivative.
    """

    def begun(x: Any) -> Any:
        # A copy, for leaves must not be changed in place.
        return x.detach().requires_grad_().clone() if isinstance(x, Tensor) and x.is_floating_point() else x

    def own(x: Any) -> Any:
        # A view that is changed in place is computed anew in the graph; a copy stays in it.
        return x.clone() if isinstance(x, Tensor) and x.grad_fn else x

    def see(name: str, part: nn.Module, _inputs: Any, output: Any) -> Any:
        output = tree_map(begun if isinstance(part, nn.Embedding | nn.EmbeddingBag) else own, output)
        given.pop(name, None)
        given[name] = {tensor.grad_fn for tensor in leaves(output) if tensor.grad_fn}
        return output

    module, x = models.module, models.inputs()[:2]
    given: dict[str, set[Node]] = {}
    with ExitStack() as stack, foreign(f"computing {models.name}"), torch.enable_grad():
        for name, part in module.named_modules():
            # What torch makes weights with is no layer, nor is what does nothing in evaluation.
            if name and "parametrizations" not in name and not isinstance(part, DROPOUTS | nn.Identity):
                stack.callback(part.register_forward_hook(partial(see, name)).remove)
        output = prediction(call(module, models.states[0], Inputs(tuple(map(begun, parts_of(x))))))
    return given, output.grad_fn


def _before(end: Node | None, without: Collection[Node] = ()) -> set[Node]:
    """The nodes that lead to one, it too, by ways without others; those that the graph begins with have none before."""
    found: set[Node] = set()
    nodes = [end]
    while nodes:
        node = nodes.pop()
        if node and node not in found and node not in without:
            found.add(node)
            nodes += [before for before, _ in node.next_functions]
    return found
