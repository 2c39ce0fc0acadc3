"""``symlab trace``: the permutation symmetries of a network, printed."""

from __future__ import annotations

import io
import logging
from contextlib import redirect_stderr

from torch import Tensor, nn

from symlab.cli.inputs import load_module, read_data
from symlab.symmetries.propagation import listed
from symlab.symmetries.symmetry_spec import groups_of, shape
from symlab.symmetries.trace import Traced, trace


def print_symmetries(model: str, data: str, folder: str | None) -> None:
    """Print the groups of the network that ``model`` builds, traced at the inputs x in the file ``data``.

    A class of transformers is built from the config.json in ``folder``.

    Raises:
        UserError: there is no such network or file, or the network cannot be traced.
    """
    module = load_module(model, folder).requires_grad_(False).float()
    traced = trace_quietly(module, read_data(data).x[:2])
    spec = traced.spec
    print(f"{type(module).__name__}: {len(spec.free)} group(s) of neurons")
    for group in spec.groups:
        acted = [name for name, axes in spec.axes.items() if any(group in groups_of(axis) for axis in axes)]
        stays = ", in place" if spec.groups[group].fixed else ""
        print(f"  {group} ({' x '.join(map(str, shape(group, spec.groups)))}{stays}): {', '.join(acted)}")
    for sentence in spec.unsupported:
        print(f"Not understood: {sentence}")
    if kept := traced.kept_by_constants():
        kinds = "sinusoids, rotary embeddings, biases of heads, random numbers"
        print(f"Constants ({kinds}) alone keep in place, all or in part: {listed(kept)}.")


def trace_quietly(module: nn.Module, x: Tensor) -> Traced:
    """The network's graph and symmetries, without what torch.export says about its inner workings."""
    logging.disable(logging.ERROR)
    try:
        with redirect_stderr(io.StringIO()):
            return trace(module, x)
    finally:
        logging.disable(logging.NOTSET)
