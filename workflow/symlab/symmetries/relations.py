"""What the operations of a forward pass leave free of a group of neurons: linear relations between powers of a map.

See ``actions``. To first order an operation agrees with powers c of its inputs and its result if sum_i c_i Df[X x_i] =
c_f X f, which is found by evaluating it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, fx

from symlab.symmetries.evaluated import Evaluated, Occurrence, between, evaluate, read_by, unknowns_of, unmasked
from symlab.symmetries.symmetry_spec import Block, Group, blocks, neurons_last

# Central differences in float64: their step, and what of an operation's result a relation may miss.
STEP, MISSED = 1e-4, 1e-5
# Operations between what is mapped and what is asked: more are not followed.
MOST_HIDDEN = 12

Matrices = Float[Tensor, "*within d d"]
Powers = Mapping[str, Mapping[Occurrence, float]]
"""For each entry of the state the places where a map acts, and to which power: 1, or -1 for its transposed inverse."""


@dataclass(frozen=True)
class Kind:
    """A kind of infinitesimal maps of d neurons: one drawn from noise, and the dimension of all of them."""

    draw: Callable[[Tensor], Tensor]
    dimension: Callable[[int], int]


def _skew(noise: Tensor) -> Tensor:
    return noise - noise.mT


def _fixing_ones(noise: Tensor) -> Tensor:
    d = noise.shape[-1]
    centre = torch.eye(d, dtype=noise.dtype) - 1 / d
    return centre @ _skew(noise) @ centre


KINDS = {
    "scales": Kind(lambda noise: torch.diag_embed(noise.diagonal(dim1=-2, dim2=-1)), lambda d: d),
    "skew": Kind(_skew, lambda d: d * (d - 1) // 2),
    "skew fixing ones": Kind(_fixing_ones, lambda d: (d - 1) * (d - 2) // 2),
    "symmetric": Kind(lambda noise: noise + noise.mT, lambda d: d * (d + 1) // 2),
    # 1 a', of the mean that a norm takes off.
    "means": Kind(lambda noise: noise[..., :1, :].expand_as(noise), lambda d: d),
    "scale": Kind(lambda noise: torch.eye(noise.shape[-1], dtype=noise.dtype).expand_as(noise), lambda d: 1),
}


def drawn(kind: str, size: Sequence[int], generator: torch.Generator) -> Matrices:
    """A random infinitesimal map for each neuron of the outer groups, that changes a vector by its own size."""
    noise = torch.randn(*size, size[-1], generator=generator, dtype=torch.float64)
    X = KINDS[kind].draw(noise)
    return X / (X.square().sum((-2, -1), keepdim=True) / size[-1]).sqrt()


def map_block(block: Block, dim: int, groups: Mapping[str, Group], M: Matrices) -> None:
    """Multiply a block along a dimension by a matrix for each neuron of the groups that contain it."""
    view = neurons_last(block, dim, groups)
    # A copy, for gradients with respect to M are computed from what the tensor held.
    rows = view.reshape(-1, *M.shape[:-1]).clone()
    view.copy_(torch.einsum("r...d,...ed->r...e", rows, M.to(rows)).reshape(view.shape))


def _pins(relation: Float[np.ndarray, "rank k"], n_own: int) -> bool:
    """Whether a relation leaves no power but 0 to an operation's result."""
    k = relation.shape[1]
    free = np.eye(k) - relation.T @ relation
    return bool(np.abs(free[k - n_own :]).max() < MISSED)


class Relations:
    """What the operations of a forward pass leave free of one group.

    Attributes:
        columns: the unknown powers, by entry of the state (its first name) or operation, and occurrence.
        stored: those of the entries of the state.
    """

    def __init__(self, forward: Evaluated, group: str):
        self.forward, self.group, self.groups = forward, group, forward.spec.groups
        self.places, self.hidden, self.columns = unknowns_of(forward, group)
        self.stored = [place for place in self.columns if isinstance(place[0], str)]

    def of_state(self, row: Float[np.ndarray, " columns"]) -> Float[np.ndarray, " stored"]:
        """The powers at the entries of the state."""
        return row[[self.columns[place] for place in self.stored]]

    def powers(self, row: Float[np.ndarray, " columns"]) -> Powers:
        """The powers at the entries of the state that are not 0, by first names."""
        found: dict[str, dict[Occurrence, float]] = {}
        for name, occurrence in self.stored:
            if power := row[self.columns[name, occurrence]]:
                found.setdefault(name, {})[occurrence] = float(power)
        return found

    def solutions(self, X: Matrices, first: Sequence[Any] = ()) -> Float[np.ndarray, "n columns"]:
        """Independent powers with which exp(X) acts on all places, a row each, as simple as they can be.

        Args:
            first: places of which each row, as far as there are enough, has one alone.
        """
        if not self.stored:
            return np.zeros((0, len(self.columns)))
        constraints = [np.zeros(len(self.columns))]
        hidden, places = dict(self.hidden), dict(self.places)
        for node in self.forward.nodes:
            inputs = read_by(node, hidden, places)
            own = [(node, each) for each in places.get(node, ())]
            # What is hidden is asked when something known is made of it.
            if node in hidden or not (inputs or own) or not isinstance(self.forward.values[node], Tensor):
                continue
            through = between(node, hidden)
            relation = self._relation(node, inputs, own, through, X)
            if inputs and own and _pins(relation, len(own)):
                # As the squares in a norm: they are no map of the neurons, but what is made of them may be.
                if len(through) >= MOST_HIDDEN or any(user.op == "output" for user in node.users):
                    return np.zeros((0, len(self.columns)))
                hidden = {each: None for each in self.forward.nodes if each in hidden or each is node}
                del places[node]
                continue
            keys = [self.columns[self.forward.names.get(each, each), o] for each, o in (*inputs, *own)]
            for row in relation:
                constraint = np.zeros(len(self.columns))
                np.add.at(constraint, keys, row)
                constraints.append(constraint)
        for node in self.places.keys() - places.keys():
            constraints += [np.eye(len(self.columns))[self.columns[node, o]] for o in self.places[node]]
        order = [self.columns[place] for place in first]
        order += [n for n in range(len(self.columns)) if n not in order]
        _, sizes, right = np.linalg.svd(np.array(constraints)[:, order], full_matrices=True)
        found = np.zeros((len(order) - int((sizes > MISSED).sum()), len(order)))
        found[:, order] = reduced(right[len(order) - len(found) :])
        # What acts on no entry of the state acts on nothing.
        return found[np.abs(self.of_state(found.T).T).sum(1) > 0] if len(found) else found

    def readers(self, X: Matrices) -> set[tuple[Any, Occurrence]]:
        """The entries of the state that an operation contracts with a value: X on it undoes -X' on that."""
        found = set()
        for node in self.forward.nodes:
            inputs = read_by(node, self.hidden, self.places)
            entries = [n for n, (each, _) in enumerate(inputs) if each in self.forward.names]
            if not entries or len(inputs) < 2 or not isinstance(self.forward.values[node], Tensor):
                continue
            own = [(node, each) for each in self.places.get(node, ())]
            relation = self._relation(node, inputs, own, between(node, self.hidden), X)
            for at in entries:
                others = (relation[:, at] - relation[:, n] for n in range(len(inputs)) if n != at)
                if any(np.abs(each).max(initial=0) < 1e-4 for each in others):
                    found.add((self.forward.names[inputs[at][0]], inputs[at][1]))
        return found

    def _relation(
        self, node: fx.Node, inputs: Sequence[Any], own: Sequence[Any], through: Sequence[fx.Node], X: Matrices
    ) -> Float[np.ndarray, "rank k"]:
        """What the powers at an operation's inputs and at its result satisfy: rows, whose products with them are 0."""
        forward, result = self.forward, self.forward.values[node]
        columns = []
        for each, occurrence in inputs:
            pair = []
            for step in (STEP, -STEP):
                changed_values = dict(forward.values)
                # What compares, or counts, does not move by little.
                if forward.values[each].is_floating_point():
                    changed_values[each] = forward.values[each] + step * self._moved(each, occurrence, X)
                for inner in through:
                    changed_values[inner] = evaluate(inner, changed_values)
                pair.append(evaluate(node, changed_values).double())
            columns.append((pair[0] - pair[1]) / (2 * STEP))
        columns += [-self._moved(node, occurrence, X) for _, occurrence in own]
        D = torch.stack([each.double().nan_to_num(0, 0, 0).flatten() for each in columns], 1)
        _, sizes, right = np.linalg.svd(torch.linalg.qr(D, mode="r")[1].cpu().numpy())
        size = float(unmasked(result).norm())
        return right[: int((sizes > MISSED * size).sum())]

    def _moved(self, node: fx.Node, occurrence: Occurrence, X: Matrices) -> Tensor:
        """X of a value at one occurrence, 0 elsewhere."""
        value, axes = self.forward.values[node], self.forward.axes[node]
        assert axes is not None
        # Masked scores are infinite, or as good as that.
        value = unmasked(value) if value.is_floating_point() else torch.zeros_like(value, dtype=torch.float64)
        moved = torch.zeros_like(value)
        of_value, of_moved = (list(blocks(each, axes, self.groups))[occurrence[0]] for each in (value, moved))
        of_moved.tensor.copy_(of_value.tensor)
        map_block(of_moved, occurrence[1], self.groups, X)
        return moved


def reduced(rows: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
    """The reduced row echelon form of independent rows, rounded to halves."""
    rows, done = rows.copy(), 0
    for column in range(rows.shape[1]):
        if done == len(rows):
            break
        pivot = done + int(np.argmax(np.abs(rows[done:, column])))
        if abs(rows[pivot, column]) < 1e-3:
            continue
        rows[[done, pivot]] = rows[[pivot, done]]
        rows[done] /= rows[done, column]
        others = np.arange(len(rows)) != done
        rows[others] -= np.outer(rows[others, column], rows[done])
        done += 1
    return np.round(2 * rows) / 2 + 0.0
