"""Aligning one network to another, as a function: ``from symlab import align``."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from torch import nn

from symlab.alignment.activation_matching import activation_matching, groups_meet
from symlab.alignment.averaging import in_type
from symlab.alignment.matching import Permutations, joint, objectives
from symlab.alignment.moments import record_pair_moments
from symlab.alignment.permute import permute
from symlab.alignment.signs import Signs, signed_matching, signs_of
from symlab.alignment.universe import METHODS
from symlab.alignment.weight_matching import weight_matching
from symlab.errors import UserError
from symlab.own.aligned import Aligned
from symlab.own.learning import UNTRAINED, check_learning, untrained_weights
from symlab.own.learning import learn as learned_alignment
from symlab.own.maps import free_maps
from symlab.own.models import Models, check_counts, checked, load_models, shown, traced_symmetries
from symlab.own.network import Network
from symlab.own.weights import Weights
from symlab.products import fast_products
from symlab.seeds import numpy_rng
from symlab.symmetries.signs import Flip, apply_flips
from symlab.symmetries.symmetry_spec import SymmetrySpec, shape
from symlab.symmetries.trace import Traced

CONTINUOUS = ("orthogonal", "full")
GROUPS = ("permutation", "signed", *CONTINUOUS)
RANDOM_PERMUTATIONS = 16
# Moments of activations take 8 d^2 bytes a group of d neurons; where all take more, there are several passes.
MOMENTS_AT_ONCE = 2**31
Worth = dict[str, dict[str, float]]


@fast_products()
def align(
    module: nn.Module | str,
    A: Any,
    B: Any,
    data: Any = None,
    method: str = "activation",
    *,
    group: str = "permutation",
    test: Any = None,
    learn: int = 0,
    untrained: Any = None,
    restarts: int = 3,
    seed: int = 0,
    traced: Traced | None = None,
    **options: Any,
) -> Aligned:
    """Renumber the neurons of network B so that they play the roles of network A's.

    Args:
        module: a network of the architecture, which stays as it is; its own weights do not matter.
        A, B: both networks' weights: state dicts, modules, or paths of files or folders.
        data: inputs, and targets for curves and scores: a tensor or array x; tuples (x, y); dictionaries of the
            module's inputs by name, with "labels"; files; or an iterable of such batches, as a ``DataLoader``. The
            method "weight" needs no more than two inputs, for tracing; none if ``traced`` is given.
        method: compare neurons by their "activation" on the data, or by their "weight".
        group: "permutation", or "signed": where the network leaves signs of neurons free (behind odd functions, in
            gated layers and streams normalised by their mean square) these are matched too, by activations;
            "orthogonal": also rotations of streams and within heads; "full": all that ``symlab trace`` names, scales
            and invertible maps too. With these A changes too, in its weights but not in its function (``reference``).
        test: data that scores and curves are measured on, with targets; by default those that the networks are matched
            on. Batch norm statistics are those of the data.
        learn: with the groups "orthogonal" and "full", so many steps of descent over the maps, from the closed form
            down the loss of the midpoint on targets, with the same of an untrained network as a control (``learned``).
        untrained: that network, as A and B; by default the module with weights drawn anew.
        restarts: starts of the method "weight", of which the best is kept, see ``weight_matching``.
        seed: of the order of steps and starts.
        traced: ``trace(module, data)``, if it is known already.
        options: ``task``, ``metric``, ``samples``, ``batch_size``, ``device`` as of ``symlab.own.models.load_models``.

    Raises:
        UserError: the weights do not fit the module, the module cannot be traced, or an argument is missing or wrong.
    """
    check_method(method, data, traced)
    check_group(group, method, learn)
    check_counts(restarts=restarts)
    weights = {"A": A, "B": B}
    if learn:
        folder = A if isinstance(A, str | Path) else None
        weights[UNTRAINED] = untrained_weights(module, folder, seed) if untrained is None else untrained
    models = load_models(module, weights, data, scored_on=test, seed=seed, **options)
    return align_models(models, method, restarts, seed, traced, group, learn)


@fast_products()
def align_models(
    models: Models,
    method: str = "activation",
    restarts: int = 3,
    seed: int = 0,
    traced: Traced | None = None,
    group: str = "permutation",
    learn: int = 0,
) -> Aligned:
    """As ``align``, of two networks that are loaded; a third one, untrained, if alignment is learned."""
    traced = traced_symmetries(models, traced)
    network, spec = models.network, traced.spec
    if group in CONTINUOUS:
        return _by_maps(models, traced, method, restarts, seed, group, learn)
    flips = []
    if group == "signed":
        flips = signs_of(models.module, traced, models.inputs()[:2], network.by_all_names(models.states[0]), seed)
    matched = _by_weights if method == "weight" else partial(_by_activations, flips=flips)
    permutations, worth, remarks, signs = matched(models, traced, restarts, seed)
    B = models.files[1]
    of_file = spec_of_file(spec, network, B)
    permuted = permute(B.tensors, of_file, permutations)
    permuted = apply_flips(permuted, of_file, [_of_file(flip, network, B) for flip in flips], signs)
    table = _matching(worth, spec)
    remarks = [*models.remarks, *remarks, *checked(models, traced, [(models.states[1], network.state(permuted))])]
    return Aligned(permutations, permuted, table, tuple(remarks), spec, method, models, tuple(flips), signs)


def _by_maps(models: Models, traced: Traced, method: str, restarts: int, seed: int, group: str, learn: int) -> Aligned:
    """Two networks brought to one basis: both change, A by folding its gains (and balancing) alone."""
    network = models.network
    A, B, *control = (network.by_all_names(state.converted()) for state in models.states)
    models = replace(models, files=models.files[:2], states=models.states[:2])
    maps = free_maps(models, traced, [A, B], group, method, seed)
    if learn:
        check_learning(models, maps, *control)
    reference = maps.prepared(A)
    rng = numpy_rng("align", seed, "restarts")
    found, *of_control = (
        maps.align(models, traced, [reference], maps.prepared(state), method, restarts, rng) for state in (B, *control)
    )
    learned = None
    if learn:
        found, learned = learned_alignment(models, maps, reference, [found, *of_control], learn, seed)
    made = [
        network.as_given(in_type(state, network.dtype), file.tensors)
        for state, file in zip((reference, found.state), models.files, strict=True)
    ]
    remarks_on_check = checked(models, traced, zip(models.states, map(network.state, made), strict=True))
    matching = found.matching
    worth = {} if matching is None else _worth(matching.correlations, matching.permutations, traced.spec, seed)
    remarks = [] if matching is None else remarks_on(matching.by_weights, matching.in_place)
    remarks = [*models.remarks, *maps.remarks, *remarks, *remarks_on_check]
    transforms = {f"{n}.{maps.actions[n].group}": M.numpy() for n, M in found.maps.items()}
    return Aligned(
        found.permutations,
        made[1],
        _matching(worth, traced.spec),
        tuple(remarks),
        traced.spec,
        method,
        models,
        maps.flips,
        found.signs,
        made[0],
        transforms,
        learned,
    )


def check_method(method: str, data: Any, traced: Traced | None) -> None:
    """Check that there is such a method, and the data that it or the tracer needs.

    Raises:
        UserError: there are not.
    """
    if method not in METHODS:
        raise UserError(f"method is {method!r}; it must be activation or weight.")
    if data is None and (traced is None or method == "activation"):
        why = "activations are compared on inputs" if method == "activation" else "a network is traced at inputs"
        raise UserError(f"{why}: give them as data (or the method 'weight' and traced = trace(module, example)).")


def check_group(group: str, method: str, learn: int = 0) -> None:
    """Check that there is such a group, that the method can match it, and that descent has maps to move if it is asked.

    Raises:
        UserError: there is not, or it cannot, or has not.
    """
    if learn < 0 or (learn and group not in CONTINUOUS):
        raise UserError(
            f"learn is {learn} with the group {group}; it must be a number of steps, and the group orthogonal or full: "
            "permutations and signs do not move by descent."
        )
    if group not in GROUPS or (group == "signed" and method != "activation"):
        raise UserError(
            f"group is {group!r} by {method}s; it must be permutation, orthogonal or full, or signed with activation."
        )


def _by_activations(
    models: Models, traced: Traced, restarts: int, seed: int, flips: Sequence[Flip]
) -> tuple[Permutations, Worth, list[str], Signs]:
    """Permutations, what they are worth in correlations of activations, what else is to be said, and signs."""
    A, B = (models.network.by_all_names(state.converted()) for state in models.states)
    rng = numpy_rng("align", seed, "restarts")
    signs: Signs = {}
    if flips:
        signed = signed_matching(traced, A, B, models.inputs(), models.rows, flips, rng, shown)
        found, signs = signed.matching, signed.signs
    else:
        found = activation_matching(traced, [A], B, models.inputs(), models.rows, rng, shown)
    worth = _worth(found.correlations, found.permutations, traced.spec, seed)
    return found.permutations, worth, remarks_on(found.by_weights, found.in_place), signs


def _by_weights(
    models: Models, traced: Traced, restarts: int, seed: int
) -> tuple[Permutations, Worth, list[str], Signs]:
    spec, network = traced.spec, models.network
    once = replace(spec, axes={name: spec.axes[name] for name in network.names})
    rng = numpy_rng("align", seed, "restarts")
    A, B = models.states
    matched = weight_matching(once, A.stored, B.stored, rng, restarts)
    remarks = [
        f"Similarity of weights (their inner product over their norms): {matched.histories[0][0]:.4f} as they are, "
        f"{matched.similarity:.4f} permuted. A higher one is not always a lower barrier."
    ]
    worth: Worth = {}
    if models.x is not None:
        for groups in _portions(spec):
            worth |= _worth(
                correlations(models, traced, matched.permutations, groups), matched.permutations, spec, seed
            )
    return matched.permutations, worth, remarks, {}


def correlations(
    models: Models, traced: Traced, permutations: Permutations, groups: Sequence[str]
) -> dict[str, Float[np.ndarray, "d d"]]:
    """S of groups in the orders of both networks, where activations are indexed by others too these renumbered."""
    spec = traced.spec
    A, B = map(models.network.by_all_names, models.states)
    known_B = permute(B, spec, permutations) if groups_meet(spec) else B
    moments = record_pair_moments(traced, {0: A}, {0: known_B}, shown(models.inputs().split(models.rows)), groups)[0]
    # Of neurons within experts whose activations tell no expert nothing is recorded.
    found = {group: own.correlation() for group in list(moments) if (own := moments.pop(group)).n}
    if known_B is B:
        return found
    return {group: S[:, np.argsort(joint(group, permutations, spec.groups))] for group, S in found.items()}


def _of_file(flip: Flip, network: Network, weights: Weights) -> Flip:
    """A flip for the names of a file, where a tied weight may have another name or several."""
    by_twin = {network.twins.get(name, name): where for name, where in flip.turned.items()}
    turned = {name: by_twin[network.twins[name]] for name in weights.tensors if network.twins[name] in by_twin}
    return replace(flip, turned=turned)


def _portions(spec: SymmetrySpec) -> list[list[str]]:
    """Groups with activations of their own, as many at once as ``MOMENTS_AT_ONCE`` allows, but one at least."""
    portions: list[list[str]] = []
    room = 0
    for group in spec.points:
        needed = 8 * math.prod(shape(group, spec.groups)) ** 2
        if needed > room:
            portions.append([])
            room = MOMENTS_AT_ONCE
        portions[-1].append(group)
        room -= needed
    return portions


def remarks_on(by_weights: Any, in_place: Any) -> list[str]:
    """Sentences on the groups that were not matched by activations."""
    kinds = {
        "Matched by weights, for no activation on these data tells their neurons apart": by_weights,
        "Left in place, for their best match correlates no more than chance gives": in_place,
    }
    return [f"{what}: {', '.join(groups)}." for what, groups in kinds.items() if groups]


def _worth(correlations: dict[str, np.ndarray], permutations: Permutations, spec: SymmetrySpec, seed: int) -> Worth:
    rng = numpy_rng("align", seed, "random")
    return objectives(correlations, permutations, spec.groups, RANDOM_PERMUTATIONS, rng)


def _matching(found: Worth, spec: SymmetrySpec) -> pd.DataFrame:
    """A row a group and kind of permutation: the mean correlation of activations of the neurons it puts together.

    Groups that are matched through the groups within them have no activations of their own: NaN.
    """
    return pd.DataFrame(
        {
            "group": group,
            "size": spec.groups[group].size,
            "permutation": permutation,
            "objective": found.get(group, {}).get(value, np.nan),
        }
        for group in spec.free
        for permutation, value in (("match", "optimal"), ("identity", "identity"), ("random", "random"))
    )


def spec_of_file(spec: SymmetrySpec, network: Network, weights: Weights) -> SymmetrySpec:
    """The spec for the names of a file, where a tied weight may have another name or several."""
    axes_of = {network.twins.get(name, name): axes for name, axes in spec.axes.items()}
    axes = {name: axes_of.get(network.twins[name], (None,) * tensor.dim()) for name, tensor in weights.tensors.items()}
    return SymmetrySpec(axes, spec.groups)
