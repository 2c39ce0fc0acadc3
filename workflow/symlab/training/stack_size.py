"""How many replicas train together, and how: on a CPU by a rule, on a GPU what its memory holds, measured with two.

The number depends on the network, the recipe, the number of samples and the device, never on how many replicas are
asked for.
"""

import gc
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from symlab.device import is_accelerator
from symlab.schemes.fixed_parts import Shapes, weight_shapes
from symlab.training.cuda_graph import WARM_UP, captured_on_gpu
from symlab.training.optimizer import VECTOR
from symlab.training.samples import Samples
from symlab.training.settings import Recipe
from symlab.training.stacks import OneByOne, SideBySide, Together

EVALUATION_BATCH = 2048
# A step of a small network is bound by call overhead, which a stack shares. The rule is drawn from measurements and not
# measured in each job: a stack rounds otherwise than a single network does, so a choice by the clock would change a
# seed's bits from run to run. CPU ms a step and replica, one by one and in stacks of 2, 4, 8 (all stacks have equal
# bits; benchmarks/training.py): 32-32 of 3,500 parameters 0.74, 1.26, 0.69, 0.46; the gmm MLP 64-64-64 of
# 13,000 1.56, 2.40, 1.27, 1.01; the digits MLP 128-128-128 of 43,000 2.25, 2.42, 1.74, 1.24; 256-256-256 of 150,000
# 3.21, 4.20, 3.30, 3.43.
STACK_BELOW_PARAMETERS = 100_000
CPU_STACK = 10
# A full batch of many samples keeps the products busy, and what a stack of it leaves behind is more than a cache holds;
# L-BFGS moreover evaluates a stack until the last of its networks has found a step. CPU ms an iteration of it and
# network of width 64, in a stack of six and alone, float64, and the same in float32: residual networks of 2, 5 and 13
# layers on 300 samples 2.3, 2.8 (1.4, 1.9), 3.6, 5.0 (1.9, 3.6), 7.3, 9.0 (4.2, 5.8); of 8 layers on 1000 samples 12.9,
# 13.6, and in another measurement 18.4, 11.7; a transformer of 3 blocks on 300 images of 4 patches 30, 17 (17, 11)
# (benchmarks/papers.py: full_batches).
LARGEST_FULL_BATCH = 2**15
"""Numbers of the widest layer on all samples, of all their tokens."""
LARGEST = 64
# More side by side gain nothing: on an H200 a network's step (ResNet20 of width 1, bfloat16) took 3.4 ms alone, 1.77 as
# one of 6 and 1.76 as one of 16.
LARGEST_SIDE_BY_SIDE = 8
SHARE_OF_FREE_MEMORY = 0.8


def choose_stack_size(
    make: Callable[[int], Any], module: nn.Module, data: Samples, recipe: Recipe
) -> tuple[int, str | None]:
    """How many replicas train together on the device of ``data``, and what the log is told of it.

    Args:
        make: sets up a stack of so many networks.
        module: one of them.
    """
    shapes = weight_shapes(module)
    if not is_accelerator(data.device):
        full = data.n * _widest(module, data.x_train) if recipe.batch_size is None else 0
        return (CPU_STACK if full < LARGEST_FULL_BATCH and stacks_on_cpu(module, shapes) else 1), None
    beside = goes_side_by_side(module, recipe, data.device)
    largest = LARGEST_SIDE_BY_SIDE if beside else LARGEST
    size = measured_stack_size(lambda R: Trial(make(R), R, data, recipe), largest, data.device)
    return size, f"up to {size} {'side by side' if beside else 'in a stack'} on the GPU"


def goes_side_by_side(module: nn.Module, recipe: Recipe, device: torch.device) -> bool:
    """Whether several replicas are modules of their own; L-BFGS needs all of them in one set of tensors."""
    return is_accelerator(device) and recipe.polish is None and _convolves(weight_shapes(module))


def stacks_on_cpu(module: nn.Module, shapes: Shapes) -> bool:
    """Whether a stacked step is faster and rounds as every other stack does.

    Layers whose width is no multiple of a vector register leave a remainder in it, which CPU kernels round differently;
    where in a stack that happens depends on the other replicas, so such networks run one by one. A stack's
    grouped convolutions are slower than plain ones: two ResNet20 of width 1 took 1.7 times as long.
    """
    small = sum(parameter.numel() for parameter in module.parameters()) < STACK_BELOW_PARAMETERS
    return small and not _convolves(shapes) and all(width % VECTOR == 0 for width in _hidden(shapes))


def _hidden(shapes: Shapes) -> list[int]:
    """Widths of the layers but the last, if there is more than one."""
    widths = [shape[0] for shape in shapes.values()]
    return widths[:-1] or widths


@torch.no_grad()
def _widest(module: nn.Module, x: Float[Tensor, "n i"]) -> int:
    """Numbers of a sample, all its tokens counted, that the widest layer with weights gives."""
    sizes: list[int] = []
    layers = [child for child in module.modules() if isinstance(child, nn.Linear | nn.Conv2d | nn.Embedding)]
    hooks = [layer.register_forward_hook(lambda *given: sizes.append(given[2].numel() // 2)) for layer in layers]
    modes, first = {child: child.training for child in module.modules()}, next(module.parameters())
    # Two, in evaluation: a norm over the batch would refuse one, and remember what it reads.
    module.eval()(x[:2].to(first) if x.is_floating_point() else x[:2])
    for child, training in modes.items():
        child.training = training
    for hook in hooks:
        hook.remove()
    return max(sizes, default=0)


def _convolves(shapes: Shapes) -> bool:
    return any(len(shape) == 4 for shape in shapes.values())


def fitting(free: int, of_two: int, largest: int) -> int:
    """Replicas that fit into 80 % of ``free`` bytes if two take ``of_two``: an even number up to ``largest``, or 1."""
    size = min(largest, int(SHARE_OF_FREE_MEMORY * free * 2 / max(1, of_two)))
    return max(1, size - size % 2)


class Trial:
    """A stack of R networks on which everything that training does is tried, at a learning rate of 0."""

    def __init__(self, stack: OneByOne | SideBySide | Together, R: int, data: Samples, recipe: Recipe):
        self.stack, self.data = stack, data
        self.take_step = captured_on_gpu(stack.step, data.device)
        batch = torch.arange(min(recipe.batch_size or data.n, data.n), device=data.device).expand(R, -1)
        self.batch = [batch] if recipe.augment is None else [batch, torch.zeros_like(batch)]

    def step(self, smaller: int = 0) -> None:
        """A step with a full batch, or one that lacks a few samples."""
        self.take_step(0.0, *(drawn[:, smaller:] for drawn in self.batch))

    def everything(self) -> None:
        """Steps up to the first captured one, a smaller batch and an evaluation."""
        for _ in range(WARM_UP + 1):
            self.step()
        if self.batch[0].shape[1] > 2:
            self.step(smaller=1)
        self.stack.evaluate(self.data.x_train[:EVALUATION_BATCH], self.data.y_train[:EVALUATION_BATCH])


def measured_stack_size(trial: Callable[[int], Trial], largest: int, device: torch.device) -> int:
    """Replicas to train together on a GPU, at most ``largest``.

    Args:
        trial: sets up so many networks; 1 makes the single network, trained as such.
    """
    gpu = torch.get_device_module(device)
    _free_unused(device)
    free, _ = gpu.mem_get_info(device)
    before = gpu.memory_reserved(device)
    gpu.reset_peak_memory_stats(device)
    try:
        trial(2).everything()
    except torch.OutOfMemoryError:
        size = 1
    else:
        # Reserved, not allocated: a CUDA graph keeps the memory of its intermediates between steps.
        size = fitting(free, gpu.max_memory_reserved(device) - before, largest)
    # What ran out of memory too: its network and graph would hold on to what the single one needs.
    _free_unused(device)
    return size


def _free_unused(device: torch.device) -> None:
    gc.collect()
    torch.get_device_module(device).empty_cache()
