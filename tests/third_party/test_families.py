"""Networks of other libraries: what the tracer finds in them, and that it keeps the function: orders, signs, maps.

They need the optional extra ``models``: pip install "symlab[models]". SYMLAB_FAMILIES=FILE appends the rows of the
table in docs/reference/symmetries.md to FILE.
"""

import os
from pathlib import Path

import families
import numpy as np
import pytest
import torch
from torch.func import functional_call

from symlab.alignment.permute import permute
from symlab.alignment.signs import signs_of
from symlab.own.models import trace_quietly
from symlab.symmetries.actions import act, actions_of, fold, random_element
from symlab.symmetries.signs import apply_flips, random_signs
from symlab.symmetries.symmetry_spec import Concat, Product, random_permutations

pytestmark = pytest.mark.slow


def factors(axis, free):
    """Groups in an axis that may be renumbered, each as often as it occurs."""
    if isinstance(axis, Product | Concat):
        return sum(factors(part, free) for part in axis.parts)
    return int(axis in free)


def random_state(module, generator):
    def drawn(name, tensor):
        if not tensor.is_floating_point():
            return tensor
        values = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        return (
            values.abs() + 0.5
            if "running_var" in name
            else values / max(tensor.shape[-1] if tensor.dim() else 1, 1) ** 0.5
        )

    state, seen = {}, {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        state[name] = seen.setdefault(id(tensor), drawn(name, tensor))
    return state


def in_float64(call):
    """Run what a network casts to float32 in float64 too."""
    original = torch.Tensor.to, torch.Tensor.float, torch.Tensor.type
    functions = {name: getattr(torch.nn.functional, name) for name in ("softmax", "grouped_mm")}

    def to(self, *args, **kwargs):
        wide = lambda x: torch.float64 if x in (torch.float32, torch.float) else x  # noqa: E731
        args = tuple(wide(a) if isinstance(a, torch.dtype) else a for a in args)
        return original[0](self, *args, **{k: wide(v) if isinstance(v, torch.dtype) else v for k, v in kwargs.items()})

    def grouped(rows, matrices, *, offs):
        # torch's own takes no float64.
        parts = rows.tensor_split(offs.long()[:-1].tolist())
        return torch.cat([part @ matrix for part, matrix in zip(parts, matrices, strict=True)])

    torch.nn.functional.grouped_mm = grouped
    torch.nn.functional.softmax = lambda *a, dtype=None, **k: functions["softmax"](*a, **k)
    torch.Tensor.to, torch.Tensor.float = to, lambda self, *a, **k: original[0](self, torch.float64)
    torch.Tensor.type = lambda self, kind: self if kind == torch.float32 else original[2](self, kind)
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            return call()
    finally:
        torch.set_default_dtype(torch.float32)
        for function, of_torch in functions.items():
            setattr(torch.nn.functional, function, of_torch)
        torch.Tensor.to, torch.Tensor.float, torch.Tensor.type = original


@pytest.mark.parametrize("name", families.FAMILIES)
def test_what_is_found_is_what_was_counted_and_keeps_the_function(name):
    family = families.FAMILIES[name]
    families.start(family.library)
    module, x = family.build().eval().requires_grad_(False), family.inputs()
    traced = trace_quietly(module, x)
    spec = traced.spec
    found = sum(factors(axis, spec.free) for axes in spec.axes.values() if len(axes) > 1 for axis in axes)
    module = module.double()
    state = random_state(module, torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    like = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in state.items()}
    flips = signs_of(module.float(), traced, x[:2], like)
    actions = actions_of(module, traced, x[:2], like)
    x, module = x.double() if x.is_floating_point() else x, module.double()
    worst = dict.fromkeys(("permuted", "signed", "mapped"), 0.0)
    for rng in map(np.random.default_rng, range(2)):
        permuted = permute(state, spec, random_permutations(spec, rng))
        signed = apply_flips(permuted, spec, flips, random_signs(spec, flips, rng))
        mapped = signed
        for action in actions:
            mapped = act(fold(mapped, action), action, random_element(action, generator))
        before, *after = (
            in_float64(lambda s=s: functional_call(module, s, (x,), tie_weights=False))
            for s in (state, permuted, signed, mapped)
        )
        for kind, output in zip(worst, after, strict=True):
            # Python's max would take no NaN for the worst.
            worst[kind] = float(np.maximum(worst[kind], (output - before).abs().max() / before.abs().max()))
    if path := os.environ.get("SYMLAB_FAMILIES"):
        counted = f"{found} of {family.matrix_axes}"
        changes = (f"{change:.0e}" for change in worst.values())
        row = (name, family.library, len(spec.free), counted, len(flips), len(actions), *changes)
        with Path(path).open("a") as file:
            file.write(f"| {' | '.join(map(str, row))} |\n")
    # Not max, which loses a NaN.
    assert all(change < 1e-10 for change in worst.values()), worst
    assert found == family.matrix_axes - family.lost, spec.unsupported
