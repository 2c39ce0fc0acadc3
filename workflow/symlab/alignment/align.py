"""Aligning one network to another, as a function: ``from symlab import align``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from jaxtyping import Float, Int
from torch import Tensor, nn

from symlab.alignment.activation_matching import activation_matching
from symlab.alignment.forward import batch_rows
from symlab.alignment.matching import Permutations
from symlab.alignment.permute import check_alignment, permute
from symlab.alignment.universe import METHODS, one_name_each
from symlab.alignment.weight_matching import weight_matching
from symlab.errors import UserError
from symlab.products import fast_products
from symlab.seeds import numpy_rng
from symlab.symmetries.trace import Traced, trace

CHECKED_SAMPLES = 256


class Aligned(NamedTuple):
    """Network B renumbered, and how.

    Attributes:
        permutations: by group of neurons, [size] or [*sizes of the groups it lies within, size]: which neuron of B
            stands at each position.
        permuted: B's state with its neurons in A's order, by B's names.
    """

    permutations: Permutations
    permuted: dict[str, Tensor]


@fast_products()
def align(
    module: nn.Module,
    A: Mapping[str, Tensor],
    B: Mapping[str, Tensor],
    data: Float[Tensor, "n ..."] | Int[Tensor, "n ..."] | None = None,
    method: str = "activation",
    *,
    restarts: int = 3,
    seed: int = 0,
    traced: Traced | None = None,
) -> Aligned:
    """Renumber the neurons of network B so that they play the roles of network A's.

    Args:
        module: a network of the states' architecture, type and device; its own weights do not matter.
        A, B: ``module.state_dict()`` of both networks.
        data: inputs. Of the method "weight" two do, for tracing alone; None if ``traced`` is given.
        method: compare neurons by their "activation" on the data, or by their "weight".
        restarts: starts of the method "weight", of which the best is kept, see ``weight_matching``.
        seed: of the order of steps and starts.
        traced: ``trace(module, data)``, if it is known already.

    Raises:
        UserError: the states do not fit the module, the module cannot be traced, or an argument is missing or wrong.
    """
    traced = symmetries(module, data, method, traced)
    states = [complete(module, state, name) for name, state in (("A", A), ("B", B))]
    rng = numpy_rng("align", seed, "restarts")
    if method == "activation" and data is not None:
        permutations = activation_matching(traced, states[:1], states[1], data, batch_rows(data), rng).permutations
    else:
        spec = one_name_each(traced.spec, states[0])
        known_A, known_B = ({name: state[name] for name in spec.axes} for state in states)
        permutations = weight_matching(spec, known_A, known_B, rng, restarts).permutations
    permuted = permute(states[1], traced.spec, permutations)
    if data is not None:
        check_alignment(module, states[1], permuted, data[:CHECKED_SAMPLES])
    return Aligned(permutations, permuted)


def symmetries(module: nn.Module, data: Tensor | None, method: str, traced: Traced | None) -> Traced:
    """The network traced, unless it is already, after a check of what is given.

    Raises:
        UserError: there is no such method, or the data that it or the tracer needs are missing.
    """
    if method not in METHODS:
        raise UserError(f"method is {method!r}; it must be activation or weight.")
    if data is None and (traced is None or method == "activation"):
        why = "activations are compared on inputs" if method == "activation" else "a network is traced at inputs"
        raise UserError(f"{why}: give them as data (or the method 'weight' and traced = trace(module, example)).")
    if data is not None and (data.dim() == 0 or len(data) == 0):
        raise UserError(f"data has shape {tuple(data.shape)}; it must be [n, ...] with at least one sample.")
    return trace(module, data[:2]) if traced is None else traced  # type: ignore[index]


def complete(module: nn.Module, state: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """A state after a check that its entries and shapes are the module's.

    Raises:
        UserError: they are not, or some weight is no finite number.
    """
    own = module.state_dict()
    if wrong := sorted(own.keys() ^ state.keys()):
        side = "lacks" if wrong[0] in own else "holds, beside the module's entries,"
        raise UserError(f"{name} {side} {wrong[0]!r}; it must be the state_dict() of a {type(module).__name__}.")
    for entry, tensor in state.items():
        if tensor.shape != own[entry].shape:
            raise UserError(
                f"{entry!r} has shape {tuple(tensor.shape)} in {name}, but {tuple(own[entry].shape)} in the module."
            )
        if tensor.isnan().any():
            raise UserError(f"{entry!r} in {name} has entries that are NaN: did the training diverge?")
    return {entry: tensor.detach() for entry, tensor in state.items()}
