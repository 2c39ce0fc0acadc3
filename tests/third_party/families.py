"""Networks of other libraries by name, see building.py, and states and inputs of them."""

import warnings

import pytest
import torch
from families_of_images import IMAGES
from families_of_others import OTHERS
from families_of_texts import TEXTS

FAMILIES = TEXTS | IMAGES | OTHERS


def in_an_ordinary_state(module, generator):
    """The library's initial weights, but vectors and what begins constant are drawn at random too."""
    state = {}
    for name, tensor in module.state_dict().items():
        if not tensor.is_floating_point() or tensor.isinf().any():
            state[name] = tensor.clone()
        elif name.endswith("running_var"):
            state[name] = 0.5 + torch.rand(tensor.shape, generator=generator)
        elif tensor.dim() < 2 or tensor.numel() == 1 or tensor.std() == 0:
            state[name] = tensor + 0.3 * torch.randn(tensor.shape, generator=generator)
        else:
            state[name] = tensor.clone()
    return state


def start(library):
    """Where a library is not installed its tests are left out; where it is, its advice is."""
    if library != "symlab":
        pytest.importorskip(library, reason=f"the extra 'models' is not installed ({library})")
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    return torch.Generator().manual_seed(0)


def drawn(name, build=None):
    """A family's network, or that of ``build``, an ordinary state of it, 64 inputs, and what drew these."""
    family = FAMILIES[name]
    generator = start(family.library)
    module, x = (build or family.build)().eval().requires_grad_(False), family.inputs()
    draw = torch.randn if x.is_floating_point() else lambda shape, **options: torch.randint(3, 64, shape, **options)
    x = draw((64, *x.shape[1:]), generator=generator)
    return module, in_an_ordinary_state(module, generator), x, generator
