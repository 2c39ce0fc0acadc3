"""Symmetry specs written by hand, so that tests do not rest on the tracer, and random states of them."""

import math
from itertools import permutations, product

import numpy as np
import torch
from hypothesis import strategies as st

from symlab.symmetries.symmetry_spec import Group, Product, SymmetrySpec, shape

PERCEPTRON = SymmetrySpec(
    {
        "0.weight": ("a", None),
        "0.bias": ("a",),
        "1.weight": ("a",),
        "1.bias": ("a",),
        "1.running_mean": ("a",),
        "1.running_var": ("a",),
        "1.num_batches_tracked": (),
        "2.weight": ("b", "a"),
        "2.bias": ("b",),
        "4.weight": (None, "b"),
        "4.bias": (None,),
    },
    {"a": Group(4), "b": Group(3)},
)
ATTENTION = SymmetrySpec(
    {
        "query": (Product(("h", "qk")), "s"),
        "key": (Product(("h", "qk")), "s"),
        "value": (Product(("h", "v")), "s"),
        "output": ("s", Product(("h", "v"))),
        "embedding": (None, "s"),
    },
    {"s": Group(4), "h": Group(2), "qk": Group(2, ("h",)), "v": Group(3, ("h",))},
)
GROUPED = SymmetrySpec(
    {
        "0.weight": (Product(("g", "i")), None, None, None),
        "0.bias": (Product(("g", "i")),),
        "2.weight": (Product(("g", "o")), "i", None, None),
        "2.bias": (Product(("g", "o")),),
        "5.weight": (None, Product(("g", "o"))),
        "5.bias": (None,),
    },
    {"g": Group(3), "i": Group(2, ("g",)), "o": Group(3, ("g",))},
)
TWO_AXES = SymmetrySpec({"C": ("a", "a"), "W": ("a", None)}, {"a": Group(6)})
# What each of many examples is drawn from.
ANY = {"spec": st.sampled_from([PERCEPTRON, ATTENTION, GROUPED, TWO_AXES]), "seed": st.integers(0, 1000)}


def choices(groups, names):
    """All permutations of some groups, one row for each neuron of the groups that contain a group."""
    single = []
    for name in names:
        *outer, size = shape(name, groups)
        every = product(permutations(range(size)), repeat=math.prod(outer))
        single.append([np.array(choice).reshape(*outer, size) for choice in every])
    for choice in product(*single):
        yield dict(zip(names, choice, strict=True))


def random_state(spec, seed, like=None):
    generator = torch.Generator().manual_seed(seed)
    if like is not None:
        shapes = {name: tensor.shape for name, tensor in like.items()}
    else:
        sizes = {name: group.size for name, group in spec.groups.items()} | {None: 5}
        shapes = {
            name: tuple(
                int(np.prod([sizes[part] for part in axis.parts])) if isinstance(axis, Product) else sizes[axis]
                for axis in axes
            )
            for name, axes in spec.axes.items()
        }
    return {
        name: torch.randn(shape, generator=generator)
        if not name.endswith(("running_var", "tracked"))
        else torch.ones(shape)
        for name, shape in shapes.items()
    }


def inner(A, B, leave_out=("running_mean", "running_var", "num_batches_tracked")):
    return sum(
        float((A[name].double() * B[name].double()).sum()) for name in A if name.rpartition(".")[2] not in leave_out
    )


def norm(A):
    return inner(A, A) ** 0.5
