from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from symlab.errors import UserError
from symlab.symmetries.symmetry_spec import (
    Concat,
    Group,
    Product,
    SymmetrySpec,
    identity,
    inverse,
    length,
    permuted,
    random_permutations,
    shape,
    validate,
)

from .nets import columns

# Two heads with three query/key and two value dimensions each, packed; a stream of 5; a convolution in 2 groups.
GROUPS = {
    "stream": Group(5),
    "head": Group(2),
    "qk": Group(3, ("head",)),
    "v": Group(2, ("head",)),
    "half": Group(2),
    "in": Group(3, ("half",)),
    "out": Group(4, ("half",)),
    "deep": Group(2, ("half", "out")),
}
QK, V = Product(("head", "qk")), Product(("head", "v"))
AXES = {
    "qkv.weight": (Concat((QK, QK, V)), "stream"),
    "out.weight": ("stream", V),
    "first.weight": (Concat((2, "stream")), None),
    "conv.weight": (Product(("half", "out")), "in", None),
    "deep.weight": (Product(("half", "out", "deep")), Product((3, "stream"))),
    "count": (),
}
SHAPES = {
    "qkv.weight": (16, 5),
    "out.weight": (5, 4),
    "first.weight": (7, 2),
    "conv.weight": (8, 3, 2),
    "deep.weight": (16, 15),
    "count": (),
}
SPEC = SymmetrySpec(AXES, GROUPS)


def state():
    return {name: torch.arange(float(np.prod(size))).reshape(size) for name, size in SHAPES.items()}


def test_the_example_is_valid_and_survives_json():
    validate(SPEC, state())
    assert SymmetrySpec.from_json(SPEC.to_json()) == SPEC
    assert [length(axis, GROUPS) for axis in AXES["qkv.weight"]] == [16, 5]
    assert length(None, GROUPS) is None


def expected(name, tensor, pi):
    """The renumbered tensors, entry by entry."""
    new = np.empty_like(tensor)
    stream, head = pi["stream"], pi["head"]

    def attention_row(row):
        if row < 12:
            block, h, d = row // 6, row % 6 // 3, row % 3
            return block * 6 + head[h] * 3 + pi["qk"][h, d]
        h, d = (row - 12) // 2, row % 2
        return 12 + head[h] * 2 + pi["v"][h, d]

    for at in np.ndindex(tensor.shape):
        if name == "qkv.weight":
            source = (attention_row(at[0]), stream[at[1]])
        elif name == "out.weight":
            source = (stream[at[0]], attention_row(12 + at[1]) - 12)
        elif name == "first.weight":
            source = (at[0] if at[0] < 2 else 2 + stream[at[0] - 2], at[1])
        elif name == "conv.weight":
            half, out = divmod(at[0], 4)
            source = (pi["half"][half] * 4 + pi["out"][half, out], pi["in"][half, at[1]], at[2])
        elif name == "deep.weight":
            half, out, deep = at[0] // 8, at[0] // 2 % 4, at[0] % 2
            row = (pi["half"][half] * 4 + pi["out"][half, out]) * 2 + pi["deep"][half, out, deep]
            source = (row, at[1] // 5 * 5 + stream[at[1] % 5])
        else:
            source = at
        new[at] = tensor[source]
    return new


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_permuted_against_loops_and_inverse_undoes_it(seed):
    pi = random_permutations(SPEC, np.random.default_rng(seed))
    undo = inverse(pi, GROUPS)
    for name, tensor in state().items():
        new = permuted(tensor, AXES[name], pi, GROUPS)
        np.testing.assert_array_equal(new.numpy(), expected(name, tensor.numpy(), pi))
        assert torch.equal(permuted(new, AXES[name], undo, GROUPS), tensor)


def test_permutations_have_a_row_for_each_outer_neuron():
    pi = identity(SPEC)
    assert {name: of_group.shape for name, of_group in pi.items()} == {name: shape(name, GROUPS) for name in GROUPS}
    assert shape("deep", GROUPS) == (2, 4, 2)
    for name, tensor in state().items():
        assert torch.equal(permuted(tensor, AXES[name], pi, GROUPS), tensor)


def test_missing_groups_stay():
    tensor = state()["out.weight"]
    only_stream = permuted(tensor, AXES["out.weight"], {"stream": np.array([1, 0, 2, 3, 4])}, GROUPS)
    assert torch.equal(only_stream, tensor[[1, 0, 2, 3, 4]])


def test_columns_of_packed_attention():
    tensor = state()["qkv.weight"]
    query, key = columns(tensor, AXES["qkv.weight"], "qk", GROUPS)
    assert torch.equal(query, tensor[:6].T) and torch.equal(key, tensor[6:12].T)
    (value,) = columns(tensor, AXES["qkv.weight"], "v", GROUPS)
    assert torch.equal(value, tensor[12:].T)
    assert [tuple(c.shape) for c in columns(tensor, AXES["qkv.weight"], "stream", GROUPS)] == [(6, 5), (6, 5), (4, 5)]


def test_columns_of_a_group_whose_outer_group_is_on_another_axis():
    tensor = state()["conv.weight"]
    (found,) = columns(tensor, AXES["conv.weight"], "in", GROUPS)
    by_hand = tensor.reshape(2, 4, 3, 2).permute(1, 3, 0, 2).reshape(8, 6)
    assert torch.equal(found, by_hand)


def test_a_part_of_unknown_length_takes_what_is_left():
    value = torch.arange(40.0).reshape(5 * 2, 4)
    axes = (Product((None, "head")), Concat((1, "v", 1)))
    (found,) = columns(value, axes, "head", GROUPS)[1:2]
    assert torch.equal(found, value.reshape(5, 2, 4)[:, :, 1:3].permute(0, 2, 1).reshape(-1, 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": {**GROUPS, "stream": Group(6)}}, "axis 1 of 'qkv.weight' has 5 entries"),
        ({"axes": {}}, "says nothing of 'qkv.weight'"),
        ({"groups": {name: group for name, group in GROUPS.items() if name != "stream"}}, "unknown group 'stream'"),
        ({"groups": {**GROUPS, "stream": Group(5, ("nothing",))}}, "within 'nothing', which is no group"),
        ({"groups": {**GROUPS, "stream": Group(5, ("half",))}}, "acts on 'qkv.weight', but 'half'"),
        ({"axes": {**AXES, "extra": (None,)}}, "does not have"),
        ({"axes": {**AXES, "out.weight": ("stream",)}}, "gives 1 axes for 'out.weight'"),
    ],
)
def test_specs_that_do_not_fit_are_refused(change, message):
    with pytest.raises(UserError, match=message):
        validate(replace(SPEC, **change), state())
