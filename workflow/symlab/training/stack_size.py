"""How many replicas train together: on a CPU by a rule, on a GPU what its memory holds, measured on a stack of two.

The number depends on the network, the recipe and the device, never on how many replicas are asked for.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from symlab.device import is_accelerator
from symlab.schemes.fixed_parts import Shapes, weight_shapes
from symlab.training.cuda_graph import WARM_UP, captured_on_gpu
from symlab.training.optimizer import VECTOR
from symlab.training.settings import Recipe

if TYPE_CHECKING:
    from symlab.training.stacks import OneByOne, Together, TrainingData

EVALUATION_BATCH = 2048
# A step of a small network is bound by call overhead, which a stack shares. The rule is drawn from measurements and not
# measured in each job: a stack rounds otherwise than a single network does, so a choice by the clock would change a
# seed's bits from run to run. CPU ms a step and replica, one by one and in stacks of 2, 4, 8 (all stacks have equal
# bits; benchmarks/training.py): 32-32 of 3,500 parameters 0.74, 1.26, 0.69, 0.46; the gmm MLP 64-64-64 of
# 13,000 1.56, 2.40, 1.27, 1.01; the digits MLP 128-128-128 of 43,000 2.25, 2.42, 1.74, 1.24; 256-256-256 of 150,000
# 3.21, 4.20, 3.30, 3.43.
STACK_BELOW_PARAMETERS = 100_000
CPU_STACK = 10
LARGEST = 64
SHARE_OF_FREE_MEMORY = 0.8
TIMED_STEPS = 10
TIMED_STACK = 8


def choose_stack_size(
    make: Callable[[int], Any], module: nn.Module, data: TrainingData, recipe: Recipe
) -> tuple[int, str | None]:
    """How many replicas train together on the device of ``data``, and what the log is told of it.

    Args:
        make: sets up a stack of so many networks.
        module: one of them.
    """
    shapes = weight_shapes(module)
    if not is_accelerator(data.device):
        return (CPU_STACK if stacks_on_cpu(module, shapes) else 1), None
    size = measured_stack_size(
        lambda R: Trial(make(R), R, data, recipe), may_be_slower=_convolves(shapes), device=data.device
    )
    return size, f"stacks of up to {size} on the GPU"


def stacks_on_cpu(module: nn.Module, shapes: Shapes) -> bool:
    """Whether a stacked step is faster and rounds as every other stack does.

    Layers whose width is no multiple of a vector register leave a remainder in it, which CPU kernels round differently;
    where in a stack that happens depends on the other replicas, so such networks run one by one. A stack's
    grouped convolutions are slower than plain ones: two ResNet20 of width 1 took 1.7 times as long.
    """
    widths = [shape[0] for shape in shapes.values()]
    hidden = widths[:-1] or widths
    small = sum(parameter.numel() for parameter in module.parameters()) < STACK_BELOW_PARAMETERS
    return small and not _convolves(shapes) and all(width % VECTOR == 0 for width in hidden)


def _convolves(shapes: Shapes) -> bool:
    return any(len(shape) == 4 for shape in shapes.values())


def fitting(free: int, of_two: int) -> int:
    """Replicas that fit into 80 % of ``free`` bytes if two take ``of_two``: an even number up to 64, or 1."""
    size = min(LARGEST, int(SHARE_OF_FREE_MEMORY * free * 2 / max(1, of_two)))
    return max(1, size - size % 2)


class Trial:
    """A stack of R networks on which everything that training does is tried, at a learning rate of 0."""

    def __init__(self, stack: OneByOne | Together, R: int, data: TrainingData, recipe: Recipe):
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

    def seconds_per_step(self) -> float:
        """Of steps with full batches, after one of everything."""
        gpu = torch.get_device_module(self.data.device)
        self.everything()
        gpu.synchronize(self.data.device)
        began = time.perf_counter()
        for _ in range(TIMED_STEPS):
            self.step()
        gpu.synchronize(self.data.device)
        return (time.perf_counter() - began) / TIMED_STEPS


def measured_stack_size(trial: Callable[[int], Trial], may_be_slower: bool, device: torch.device) -> int:
    """Replicas to train together on a GPU.

    Args:
        trial: sets up so many networks; 1 makes the single network, trained as such.
        may_be_slower: whether to time a stack against single networks. Convolutions of a stack become one grouped
            convolution, which can be slower than several plain ones.
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
        size = fitting(free, gpu.max_memory_reserved(device) - before)
    if size > 1 and may_be_slower:
        timed = min(size, TIMED_STACK)
        _free_unused(device)
        together = trial(timed).seconds_per_step() / timed
        _free_unused(device)
        if trial(1).seconds_per_step() <= together:
            size = 1
    # What ran out of memory too: its network and graph would hold on to what the single one needs.
    _free_unused(device)
    return size


def _free_unused(device: torch.device) -> None:
    gc.collect()
    torch.get_device_module(device).empty_cache()
