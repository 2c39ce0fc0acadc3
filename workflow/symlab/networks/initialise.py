"""Initial values of the trainable tensors W and biases (main paper, Appendix F; the choice is a key of the variant)."""

import math

import torch
from torch import nn

from symlab.networks import Init, Normal
from symlab.schemes.fixed_parts import State


def sample_parameters(module: nn.Module, init: Init, generator: torch.Generator) -> State:
    """Trainable tensors of one replica: W of every linear map and convolution and its bias are drawn.

    ``init.name``: ``lecun`` draws W from N(0, 1/d_in) and biases from Unif(+-1/sqrt(d_in)); ``torch`` draws both from
    Unif(+-1/sqrt(d_in)), PyTorch's default; ``kaiming`` draws W from N(0, 2/d_in) (He et al. 2015) and ``normal`` from
    N(0, init.std^2), and both set biases to 0. d_in is the number of weights of one output: the fan-in, or
    in / groups * kh * kw of a convolution.

    A module that holds parameters of another kind draws them in a method ``sample_own_parameters(generator)``, which
    returns them by name; what is drawn nowhere (norms) keeps the value that the module was built with.
    """
    state = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    for name, child in module.named_modules():
        if hasattr(child, "sample_own_parameters"):
            own = child.sample_own_parameters(generator)
            state |= {f"{name}.{parameter}".lstrip("."): value for parameter, value in own.items()}
        if not isinstance(child, nn.Linear | nn.Conv2d):
            continue
        weight = state[f"{name}.weight"]
        bound = 1 / math.sqrt(weight[0].numel())
        if init.name == "torch":
            weight.uniform_(-bound, bound, generator=generator)
        else:
            std = init.std if isinstance(init, Normal) else math.sqrt(2) * bound if init.name == "kaiming" else bound
            weight.normal_(0, std, generator=generator)
        if child.bias is not None:
            bias = state[f"{name}.bias"]
            if init.name in ("normal", "kaiming"):
                bias.zero_()
            else:
                bias.uniform_(-bound, bound, generator=generator)
    return state
