"""Bytes and time of a training step, for a network as it is and with every parameter a product (Appendix B.4)."""

import time

import pandas as pd
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from symlab.measures.job import Job
from symlab.networks import build
from symlab.papers.mirror_symmetry.settings import Memory
from symlab.schemes import Hadamard, Scheme, Standard
from symlab.schemes.parametrisation import parametrise

SCHEMES: tuple[Scheme, ...] = (Standard(name="standard"), Hadamard(name="hadamard"))


def measure_costs(settings: Memory, job: Job, batch: int) -> dict[str, pd.DataFrame]:
    """What SGD with momentum holds at the end of a forward pass, counted and so the same on any device; its time."""
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
    return {"mirror_memory.csv": pd.DataFrame(rows), "mirror_step_times.csv": step_times(settings, batch)}


def step_times(settings: Memory, batch: int) -> pd.DataFrame:
    """CPU seconds of steps of torch's SGD on plain parameters and on products u w, one of each in turn.

    The first of either, in which memory is laid out, is left out. They differ from machine to machine.
    """
    x, y = torch.randn(batch, 3 * settings.side**2), torch.zeros(batch, dtype=torch.long)
    module = build(settings.network, x.shape[1], 10).train()
    plain = {name: value.detach().clone() for name, value in module.named_parameters()}
    trained: dict[str, dict[str, tuple[Tensor, ...]]] = {
        "standard": {name: (value,) for name, value in plain.items()},
        "hadamard": {name: (value.sign() * value.abs().sqrt(), value.abs().sqrt()) for name, value in plain.items()},
    }
    optimizers = {}
    for scheme, parts in trained.items():
        leaves = [part.requires_grad_() for of in parts.values() for part in of]
        optimizers[scheme] = torch.optim.SGD(leaves, lr=1e-3, momentum=0.9, weight_decay=5e-4)
    rows = []
    for turn in range(settings.steps + 1):
        for scheme, parts in trained.items():
            begun = time.process_time()
            optimizers[scheme].zero_grad()
            composed = {name: of[0] * of[1] if len(of) == 2 else of[0] for name, of in parts.items()}
            cross_entropy(functional_call(module, composed, (x,)), y).backward()
            optimizers[scheme].step()
            seconds = time.process_time() - begun
            rows.append({"scheme": scheme, "batch": batch, "turn": turn, "seconds": seconds})
    return pd.DataFrame(rows).query("turn > 0")


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
        loss = cross_entropy(outputs, torch.zeros(batch, dtype=torch.long))
    del loss
    return sum(found.values())
