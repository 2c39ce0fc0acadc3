"""Arithmetic of a training step: ``recipe.precision``."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from symlab.device import is_accelerator
from symlab.errors import UserError


@contextmanager
def arithmetic(precision: str, device: torch.device) -> Iterator[None]:
    """Within it, float32 products on a GPU use TF32 only if ``precision`` is ``tf32``; afterwards torch is as before.

    Torch allows TF32 in convolutions unless told otherwise, so ``float32`` has to forbid it.

    Raises:
        UserError: tf32 on a device that has none.
    """
    if not is_accelerator(device):
        if precision == "tf32":
            raise UserError(
                "recipe.precision is tf32, which only GPUs compute, but the device is the CPU; "
                "set recipe.precision to float32 or bf16, or run on a GPU."
            )
        yield
        return
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark
    matmul.allow_tf32 = cudnn.allow_tf32 = precision == "tf32"
    # All full batches have one shape: looking for its fastest convolution pays.
    cudnn.benchmark = True
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = before


def forward_pass(precision: str, device: torch.device) -> AbstractContextManager:
    """The context of a forward pass: autocast to bfloat16 for ``bf16``; weights and what updates them stay float32.

    The cache of cast weights is off: each is used once a step, and one kept beyond a CUDA graph's end would be stale.
    """
    if precision != "bf16":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)
