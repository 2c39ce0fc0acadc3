"""What a network's linear maps read: recorded as it is, or its covariances in one pass over the data."""

from collections.abc import Iterable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from symlab.alignment.forward import batch_rows, outputs, watching
from symlab.identifiability.subspace import Covariance
from symlab.products import fast_products


def linear_maps(module: nn.Module) -> list[str]:
    """Names of the module's linear maps in the order of their definition, which is that of the forward pass."""
    return [name for name, child in module.named_modules() if isinstance(child, nn.Linear)]


def hidden_layers(module: nn.Module) -> dict[int, str]:
    """Names of the linear maps of the hidden layers, by the layer's number from 1; of a single map, that one."""
    maps = linear_maps(module)
    return dict(enumerate(maps[:-1] or maps, start=1))


@fast_products()
def representation_covariances(
    module: nn.Module, state: Mapping[str, Tensor], batches: Iterable[Float[Tensor, "n d"]]
) -> dict[str, Covariance]:
    """Covariances of the hidden representations (``hidden1``: what the second linear map reads, ...) and of ``output``.

    The network's input is left out: it is the same for every state, so its covariance needs to be taken only once.
    """
    _, *readers = linear_maps(module)
    read, given = {name: Covariance() for name in readers}, Covariance()
    with watching(module, readers, lambda name, inputs, _: read[name].update(inputs[0])):
        for x in batches:
            given.update(outputs(module, state, x))
    return {f"hidden{layer}": read[name] for layer, name in enumerate(readers, start=1)} | {"output": given}


@fast_products()
def layer_inputs(
    module: nn.Module, state: Mapping[str, Tensor], x: Float[Tensor, "n d"]
) -> dict[str, Float[Tensor, "n d_in"]]:
    """What each linear map reads for the inputs ``x``, by the map's name, in evaluation mode.

    Memory is that of all layers' inputs together.
    """
    pieces: dict[str, list[Tensor]] = {name: [] for name in linear_maps(module)}
    with watching(module, pieces, lambda name, inputs, _: pieces[name].append(inputs[0])):
        for batch in x.split(batch_rows(x)):
            outputs(module, state, batch)
    return {name: torch.cat(parts) for name, parts in pieces.items()}
