"""A training step as a CUDA graph: the GPU is told once what to do, instead of kernel by kernel in every step."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from symlab.device import is_accelerator

# Eager calls before the recording, in which cuDNN chooses algorithms and libraries allocate; torch's own utility has 3.
WARM_UP = 3

Outputs = tuple[Tensor, Tensor]
Work = Callable[[], Outputs]


class Recorder(Protocol):
    """Runs work eagerly in a way that prepares its recording, and records it."""

    def warm_up(self, work: Work) -> Outputs:
        """Run ``work``."""

    def record(self, work: Work) -> tuple[Callable[[], None], Outputs]:
        """Record ``work`` without running it: what runs it, and the tensors that then hold its outputs."""


class CudaRecorder:
    """Records CUDA graphs on a stream of its own."""

    def __init__(self, device: torch.device):
        self.gpu = torch.get_device_module(device)
        self.stream = self.gpu.Stream(device)

    def warm_up(self, work: Work) -> Outputs:
        # Capturing is not allowed on the default stream, and what libraries set up for a stream they set up here.
        self.stream.wait_stream(self.gpu.current_stream())
        with self.gpu.stream(self.stream):
            outputs = work()
        self.gpu.current_stream().wait_stream(self.stream)
        return outputs

    def record(self, work: Work) -> tuple[Callable[[], None], Outputs]:
        graph = self.gpu.CUDAGraph()
        with self.gpu.graph(graph, stream=self.stream):
            outputs = work()
        return graph.replay, outputs


def captured_on_gpu(step: Callable[..., Outputs], device: torch.device) -> Callable[..., Outputs]:
    """The step itself on the CPU; on a GPU one that replays a graph of it."""
    return CapturedStep(step, CudaRecorder(device), device) if is_accelerator(device) else step


class CapturedStep:
    """Takes a step through a graph where its inputs have the largest shapes so far, and eagerly elsewhere.

    The first ``WARM_UP`` calls are eager, but steps like any other. Graph and eager calls may alternate because a step
    leaves nothing behind that the next one needs but tensors updated in place: gradients are created and dropped within
    it. ``step`` must not wait for the GPU. Outputs of a call hold until the next one.

    Args:
        step: takes tensors on the device and numbers; numbers reach it as scalar tensors where it is recorded.
        device: where the scalar tensors lie.
    """

    def __init__(self, step: Callable[..., Outputs], recorder: Recorder, device: torch.device):
        self.step, self.recorder, self.device = step, recorder, device
        self.inputs: list[Tensor] | None = None
        self.calls = 0
        self.replay: Callable[[], None] | None = None

    def __call__(self, *inputs: Tensor | float) -> Outputs:
        # Training that is taken up again may begin with an epoch's smaller last batch.
        if self.inputs is None or (self.replay is None and _larger(inputs, self.inputs)):
            self.inputs, self.calls = [self._buffer(value) for value in inputs], 0
        if any(isinstance(v, Tensor) and v.shape != b.shape for v, b in zip(inputs, self.inputs, strict=True)):
            return self.step(*inputs)
        for buffer, value in zip(self.inputs, inputs, strict=True):
            if isinstance(value, Tensor):
                buffer.copy_(value)
            else:
                buffer.fill_(value)
        if self.calls < WARM_UP:
            self.calls += 1
            return self.recorder.warm_up(self._work)
        if self.replay is None:
            self.replay, self.outputs = self.recorder.record(self._work)
        self.replay()
        return self.outputs

    def _buffer(self, value: Tensor | float) -> Tensor:
        if isinstance(value, Tensor):
            return torch.empty_like(value, memory_format=torch.contiguous_format)
        return torch.zeros((), device=self.device)

    def _work(self) -> Outputs:
        assert self.inputs is not None
        return self.step(*self.inputs)


def _larger(inputs: Sequence[Tensor | float], held: Sequence[Tensor]) -> bool:
    return any(isinstance(v, Tensor) and v.numel() > b.numel() for v, b in zip(inputs, held, strict=True))
