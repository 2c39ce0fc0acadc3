"""Networks of two linear maps, a check that permutations found keep a function, and entries of tensors by neuron."""

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

from symlab.alignment.permute import permute
from symlab.symmetries.symmetry_spec import blocks, random_permutations, shape
from symlab.symmetries.trace import trace


class Net(nn.Module):
    """Two linear maps around a function."""

    def __init__(self, function, n_in=4, n_hidden=6, n_enters=None, **parts):
        super().__init__()
        self.first, self.last = nn.Linear(n_in, n_hidden), nn.Linear(n_enters or n_hidden, 3)
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.last(self.function(self, self.first(x)))


def random_state(module, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype).abs() + 0.1
        if "running" in name
        else torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in module.state_dict().items()
    }


def check(module, x, *seeds):
    """The spec of a network, after checking that its permutations keep the function at the weights of each seed."""
    module = module.double().eval()
    spec = trace(module, x).spec
    for seed in seeds or (0,):
        state = random_state(module, seed)
        permuted = permute(state, spec, random_permutations(spec, np.random.default_rng(seed)))
        with torch.no_grad():
            before, after = (functional_call(module, tensors, (x,)) for tensors in (state, permuted))
        assert float((after - before).abs().max()) <= 1e-11 * float(before.abs().max())
    return spec


def sizes(spec):
    return {name: shape(name, spec.groups) for name in spec.free}


def found(module, x, *seeds):
    """The free groups of a network whose operations are all known, after checking that they keep the function."""
    spec = check(module, x, *seeds)
    assert spec.unsupported == ()
    return sizes(spec)


X = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def columns(tensor, axes, group, groups):
    """A tensor's entries by neuron of a group, for each block in which it occurs: everything else becomes rows."""
    wanted = (*groups[group].within, group)
    found = []
    for block in blocks(tensor, axes, groups):
        names = [name for name, _ in block.labels]
        if group in names:
            last = [names.index(name) for name in wanted]
            rest = [dim for dim in range(len(names)) if dim not in last]
            found.append(block.tensor.permute(*rest, *last).reshape(-1, np.prod(shape(group, groups))))
    return found
