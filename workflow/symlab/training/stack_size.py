"""How many replicas train together on a GPU: what its memory holds, measured on a stack of two.

The number depends on the network, the recipe and the GPU, never on how many replicas are asked for.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import torch

from symlab.training.cuda_graph import WARM_UP, captured_on_gpu
from symlab.training.stacks import EVALUATION_BATCH, Stack, TrainingData

LARGEST = 64
SHARE_OF_FREE_MEMORY = 0.8
TIMED_STEPS = 10
TIMED_STACK = 8


def fitting(free: int, of_two: int) -> int:
    """Replicas that fit into 80 % of ``free`` bytes if two take ``of_two``: an even number up to 64, or 1."""
    size = min(LARGEST, int(SHARE_OF_FREE_MEMORY * free * 2 / max(1, of_two)))
    return max(1, size - size % 2)


class Trial:
    """A stack of R networks on which everything that training does is tried, at a learning rate of 0."""

    def __init__(self, stack: Stack, R: int, data: TrainingData, batch_size: int, augmented: bool):
        self.stack, self.data = stack, data
        self.take_step = captured_on_gpu(stack.step, data.x_train.device)
        batch = torch.arange(min(batch_size, len(data.x_train)), device=data.x_train.device).expand(R, -1)
        self.batch = [batch, torch.zeros_like(batch)] if augmented else [batch]

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
        device = self.data.x_train.device
        self.everything()
        torch.cuda.synchronize(device)
        began = time.perf_counter()
        for _ in range(TIMED_STEPS):
            self.step()
        torch.cuda.synchronize(device)
        return (time.perf_counter() - began) / TIMED_STEPS


def measured_stack_size(trial: Callable[[int], Trial], may_be_slower: bool, device: torch.device) -> int:
    """Replicas to train together on a GPU.

    Args:
        trial: sets up so many networks; 1 makes the single network, trained as such.
        may_be_slower: whether to time a stack against single networks. Convolutions of a stack become one grouped
            convolution, which can be slower than several plain ones.
    """
    _free_unused()
    free, _ = torch.cuda.mem_get_info(device)
    before = torch.cuda.memory_reserved(device)
    torch.cuda.reset_peak_memory_stats(device)
    try:
        trial(2).everything()
    except torch.cuda.OutOfMemoryError:
        return 1
    # Reserved, not allocated: a CUDA graph keeps the memory of its intermediates between steps.
    size = fitting(free, torch.cuda.max_memory_reserved(device) - before)
    if size > 1 and may_be_slower:
        timed = min(size, TIMED_STACK)
        _free_unused()
        together = trial(timed).seconds_per_step() / timed
        _free_unused()
        if trial(1).seconds_per_step() <= together:
            size = 1
    _free_unused()
    return size


def _free_unused() -> None:
    gc.collect()
    torch.cuda.empty_cache()
