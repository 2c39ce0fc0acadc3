"""Bytes that a training step holds, for a network as it is and with every parameter a product (Appendix B.4)."""

from __future__ import annotations

import pandas as pd
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from symlab.measures.job import Job
from symlab.networks import build
from symlab.papers.mirror_symmetry.settings import Memory
from symlab.schemes import Hadamard, Scheme, Standard
from symlab.schemes.parametrisation import parametrise

SCHEMES: tuple[Scheme, ...] = (Standard(name="standard"), Hadamard(name="hadamard"))


def count_bytes(settings: Memory, job: Job, batch: int) -> dict[str, pd.DataFrame]:
    """What SGD with momentum holds at the end of a forward pass: counted, so that it is the same on any device."""
    rows = []
    module = build(settings.network, 3 * settings.side**2, 10).train()
    numbers = {name: parameter.numel() for name, parameter in module.named_parameters()}
    whole = 4 * sum(numbers.values())
    for scheme in SCHEMES:
        products = parametrise(scheme, list(numbers), dict.fromkeys(numbers, (None, None)), stacked=False)
        factors = 4 * sum(n * (len(products[name].suffixes) if name in products else 1) for name, n in numbers.items())
        held = {"parameters": factors, "gradients": factors, "momentum": factors}
        # The backward pass needs composed parameters as it needs activations.
        held["activations"] = saved_bytes(module, batch, settings.side) + (whole if products else 0)
        rows.append({"scheme": scheme.name, "batch": batch, **held})
    return {"mirror_memory.csv": pd.DataFrame(rows)}


def saved_bytes(module: nn.Module, batch: int, side: int) -> int:
    """Bytes of the tensors that a forward pass of a batch of colour images saves, its parameters apart."""
    own = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    found: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            found[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        outputs = module(torch.zeros(batch, 3 * side**2))
        loss = torch.nn.functional.cross_entropy(outputs, torch.zeros(batch, dtype=torch.long))
    del loss
    return sum(found.values())
