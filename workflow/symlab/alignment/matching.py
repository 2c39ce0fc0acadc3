"""Activation matching: the renumbering of B's neurons under which they correlate best with A's.

Convention, here and wherever a permutation occurs: pi[i] is the index of the neuron of B that is placed at position i.
The permuted network has neuron pi[i] of B where A has neuron i; its weights are W_B[pi], its next layer W_B[:, pi].
A group within others has a permutation [*sizes of within, size] whose row h belongs to the outer neuron placed at h.
"""

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment

from symlab.errors import UserError
from symlab.symmetries.symmetry_spec import Group, SymmetrySpec, identity, random_permutations, shape

Permutations = dict[str, Int[np.ndarray, "*within d"]]


def match(S: Float[np.ndarray, "d d"]) -> Int[np.ndarray, " d"]:
    """The permutation pi that maximises sum_i S[i, pi(i)], by exact linear assignment (Section 5.1).

    Raises:
        UserError: S is not square or not finite.
    """
    if S.ndim != 2 or S.shape[0] != S.shape[1]:
        raise UserError(f"neurons are matched one to one, which needs a square matrix, not one of shape {S.shape}.")
    if not np.isfinite(S).all():
        raise UserError("the correlation matrix has entries that are not finite, so its neurons cannot be matched.")
    # With maximize=True scipy makes a copy of its own to turn the sign.
    _, pi = linear_sum_assignment(np.negative(S, dtype=np.float64))
    return pi


def match_all(correlations: Mapping[str, Float[np.ndarray, "d d"]], groups: Mapping[str, Group]) -> Permutations:
    """The permutations of all groups that maximise the sum over groups of <P, S>_F.

    A group with groups within it is matched together with them, exactly: neuron i of A and neuron j of B are worth
    S[i, j] plus what the best matchings of the groups within them are worth on the neurons inside i and j.

    Args:
        correlations: S of the groups that have any, of d = prod(sizes of within) * size neurons, the group's own index
            fastest. Groups without S are worth nothing by themselves; they stay in place where nothing within them is.

    Raises:
        UserError: S does not fit its group or is not finite, or a group lies within two that do not contain each other.
    """
    for name, S in correlations.items():
        d = math.prod(shape(name, groups))
        if S.shape != (d, d):
            raise UserError(f"the correlations of group {name!r} are of shape {S.shape}; it has {d} neurons.")
    permutations = identity(SymmetrySpec({}, dict(groups)))
    children = _children(groups)
    relevant = _relevant(correlations, children)
    for name, group in groups.items():
        if not group.within and name in relevant:
            _, found = _match_within(name, 0, 0, correlations, groups, children, relevant)
            for inner, pi in found.items():
                permutations[inner] = pi
    return permutations


def _children(groups: Mapping[str, Group]) -> dict[str, list[str]]:
    """The groups directly within each group."""
    children: dict[str, list[str]] = {name: [] for name in groups}
    for name, group in groups.items():
        if not group.within:
            continue
        parent = group.within[-1]
        if groups[parent].within != group.within[:-1]:
            raise UserError(
                f"group {name!r} lies within {', '.join(map(repr, group.within))}, which do not lie within each other: "
                "such groups cannot be matched. Leave its axes in place in the symmetry spec."
            )
        children[parent].append(name)
    return children


def _relevant(correlations: Mapping[str, np.ndarray], children: Mapping[str, list[str]]) -> set[str]:
    """Groups that have correlations, or have such groups within them."""

    def has(name: str) -> bool:
        return name in correlations or any(has(child) for child in children[name])

    return {name for name in children if has(name)}


def _match_within(
    name: str,
    at_A: int,
    at_B: int,
    correlations: Mapping[str, Float[np.ndarray, "d d"]],
    groups: Mapping[str, Group],
    children: Mapping[str, list[str]],
    relevant: set[str],
) -> tuple[float, Permutations]:
    """The best matching of a group, and all within it, inside one outer neuron of A and one of B.

    Args:
        at_A, at_B: the outer neurons, numbered through all groups that contain ``name`` (0 if there are none).

    Returns:
        What it is worth, and the permutations: of ``name`` [size], of a group within it [size, ..., its size].
    """
    size = groups[name].size
    rows, columns = (slice(at * size, (at + 1) * size) for at in (at_A, at_B))
    score = np.array(correlations[name][rows, columns]) if name in correlations else np.zeros((size, size))
    inside: dict[tuple[int, int], Permutations] = {}
    if any(child in relevant for child in children[name]):
        for i, j in [(i, i) for i in range(size)] if groups[name].fixed else np.ndindex(size, size):
            inside[i, j] = {}
            for child in children[name]:
                if child in relevant:
                    value, found = _match_within(
                        child, at_A * size + i, at_B * size + j, correlations, groups, children, relevant
                    )
                    score[i, j] += value
                    inside[i, j] |= found
    pi = np.arange(size) if groups[name].fixed else match(score)
    permutations = {name: pi}
    if inside:
        chosen = [inside[i, j] for i, j in enumerate(pi)]
        permutations |= {inner: np.stack([found[inner] for found in chosen]) for inner in chosen[0]}
    return float(score[np.arange(size), pi].sum()), permutations


def joint(
    group: str, permutations: Mapping[str, Int[np.ndarray, "*within d"]], groups: Mapping[str, Group]
) -> Int[np.ndarray, " n"]:
    """The permutation of all prod(sizes of within) * size neurons of a group, those that contain it moved too."""
    flat = np.zeros(1, dtype=np.int64)
    for name in (*groups[group].within, group):
        size = groups[name].size
        flat = (flat[:, None] * size + permutations[name].reshape(-1, size)).reshape(-1)
    return flat


def compose(
    first: Mapping[str, Int[np.ndarray, "*within d"]],
    then: Mapping[str, Int[np.ndarray, "*within d"]],
    groups: Mapping[str, Group],
) -> Permutations:
    """The permutations that have the effect of ``first``, and ``then`` on its result."""
    return {
        name: (joint(name, first, groups)[joint(name, then, groups)] % group.size).reshape(shape(name, groups))
        for name, group in groups.items()
    }


def objective(S: Float[np.ndarray, "d d"], pi: Int[np.ndarray, " d"]) -> float:
    """<P, S>_F / d: the mean correlation of the neurons that pi puts together."""
    return float(S[np.arange(len(S)), pi].mean())


def objectives(
    correlations: Mapping[str, Float[np.ndarray, "d d"]],
    optimal: Mapping[str, Int[np.ndarray, "*within d"]],
    groups: Mapping[str, Group],
    n_random: int,
    rng: np.random.Generator,
) -> dict[str, dict[str, float]]:
    """For each group with correlations, what three kinds of permutations are worth (Fig. 3).

    A group within others is judged by the permutation of all its neurons, the outer ones moved too.

    Args:
        optimal: what ``match_all`` found.

    Returns:
        By group, the objective of ``optimal``, of the identity, and its mean over ``n_random`` random permutations.
    """
    spec = SymmetrySpec({}, dict(groups))
    drawn = [random_permutations(spec, rng) for _ in range(n_random)]
    return {
        name: {
            "optimal": objective(S, joint(name, optimal, groups)),
            "identity": objective(S, np.arange(len(S))),
            "random": float(np.mean([objective(S, joint(name, random, groups)) for random in drawn])),
        }
        for name, S in correlations.items()
    }
