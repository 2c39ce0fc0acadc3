"""Which library multiplies float32 matrices on the CPU: torch's own, or oneDNN where torch's takes its slower path.

Torch multiplies by MKL, which on AMD's processors uses AVX2 alone. oneDNN, which torch's convolutions run on, uses
AVX-512 on all. On a Zen 5, whose vector units are as wide, its products take half the time; on a Zen 4, whose units are
half as wide, there is nothing to gain in training (docs/explanation/performance.md). Results differ by rounding.
"""

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from symlab.device import processor, processor_family
from symlab.errors import UserError

VARIABLE = "SYMLAB_PRODUCTS"
"""Environment variable that chooses the library: ``onednn`` or ``torch``."""
SLOW_IN_TORCH, ZEN_5 = "AuthenticAMD AVX512", 26

# By shapes and never by the clock, so that bits do not change from run to run. A call of oneDNN takes 12 microseconds
# longer than one of MKL, its first of a shape a millisecond; 2^22 multiplications take MKL 90 microseconds.
FEWEST_MULTIPLICATIONS, SMALLEST_SIDE = 2**22, 32
# A first factor whose rows are not contiguous is copied, which takes as long as some hundred columns' products.
FEWEST_COLUMNS_FOR_A_COPY = 256

_lock = threading.Lock()
_entered = 0
_replaced = ExitStack()


def products_by() -> str:
    """``onednn`` or ``torch``: what multiplies large float32 matrices within ``fast_products`` on a CPU.

    Raises:
        UserError: ``SYMLAB_PRODUCTS`` names another library, or one that this torch does not offer.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked not in ("", "onednn", "torch"):
        raise UserError(f"{VARIABLE} is {asked!r}; it must be onednn or torch, or not be set.")
    if asked == "onednn" and not _offered():
        raise UserError(f"{VARIABLE} is onednn, but torch {torch.__version__} does not offer its products; unset it.")
    slow = processor() == SLOW_IN_TORCH and (processor_family() or 0) >= ZEN_5
    return asked or ("onednn" if slow and _offered() else "torch")


@contextmanager
def fast_products() -> Iterator[None]:
    """Within it, large products of float32 matrices on the CPU are computed by ``products_by()``; also a decorator.

    Torch's kernels of mm, addmm, bmm and baddbmm are replaced, on which linear maps, matmul, einsum, their gradients
    and their vmapped forms all stand, whoever wrote the network; other types, devices and shapes go on to torch's. It
    holds for all threads of the process.
    """
    global _entered
    if products_by() == "torch":
        yield
        return
    with _lock:
        if _entered == 0:
            _replace()
        _entered += 1
    try:
        yield
    finally:
        with _lock:
            _entered -= 1
            if _entered == 0:
                _replaced.close()


@cache
def _offered() -> bool:
    """Whether this torch has what is needed in the form in which it is used: the operator is private to torch."""
    try:
        one = torch.ones(1, 1)
        return bool(_linear(one, one, one[0]) == 2) and len(_torchs_kernels()) == len(KERNELS)
    except (AttributeError, RuntimeError, TypeError, NotImplementedError):
        return False


@cache
def _torchs_kernels() -> dict[str, Any]:
    return {name: torch.library.get_kernel(f"aten::{name}", "CPU") for name in KERNELS}


def _replace() -> None:
    library = _replaced.enter_context(torch.library._scoped_library("aten", "IMPL"))
    with warnings.catch_warnings():
        # Torch warns of what is meant here.
        warnings.filterwarnings("ignore", message="(?s).*Overriding a previously registered kernel")
        for name, kernel in KERNELS.items():
            torchs = _torchs_kernels()[name].call_boxed
            library.impl(name, partial(kernel, torchs), "CPU", with_keyset=True)


def _pays(a: Float[Tensor, "*r n k"], b: Float[Tensor, "*r k m"]) -> bool:
    """Whether oneDNN multiplies a and b, or each of a stack."""
    m = b.shape[-1]
    # Most products are small: this one comparison is all that they pay.
    if a.numel() * m < FEWEST_MULTIPLICATIONS or a.dtype != torch.float32:
        return False
    n, k = a.shape[-2:]
    columns = SMALLEST_SIDE if a.stride(-1) == 1 else FEWEST_COLUMNS_FOR_A_COPY
    return min(n, k) >= SMALLEST_SIDE and m >= columns and n * k * m >= FEWEST_MULTIPLICATIONS


def _linear(x: Float[Tensor, "n k"], W: Float[Tensor, "m k"], bias: Float[Tensor, " m"] | None = None) -> Tensor:
    # The operator copies x more slowly, and takes a thousand times as long for a W that is a part of a larger matrix.
    dense = W if W.is_contiguous() or W.t().is_contiguous() else W.contiguous()
    return torch.ops.mkldnn._linear_pointwise.default(x.contiguous(), dense, bias, "none", [], "")


def _mm(torchs: Callable[..., Tensor], keys: Any, a: Tensor, b: Tensor) -> Tensor:
    return _linear(a, b.t()) if _pays(a, b) else torchs(keys, a, b)


def _addmm(
    torchs: Callable[..., Tensor], keys: Any, added: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    if added.dim() == 1 and beta == alpha == 1 and len(added) == b.shape[1] and _pays(a, b):
        return _linear(a, b.t(), added)
    return torchs(keys, added, a, b, beta=beta, alpha=alpha)


def _bmm(torchs: Callable[..., Tensor], keys: Any, a: Tensor, b: Tensor) -> Tensor:
    return _stacked(a, b, a.new_empty(len(a), a.shape[1], b.shape[2])) if _pays(a, b) else torchs(keys, a, b)


def _bmm_out(torchs: Callable[..., Tensor], keys: Any, a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
    return _stacked(a, b, out) if _pays(a, b) else torchs(keys, a, b, out=out)


def _baddbmm(
    torchs: Callable[..., Tensor], keys: Any, added: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    if beta == alpha == 1 and _pays(a, b):
        return _stacked(a, b, a.new_empty(len(a), a.shape[1], b.shape[2])).add_(added)
    return torchs(keys, added, a, b, beta=beta, alpha=alpha)


def _stacked(a: Float[Tensor, "r n k"], b: Float[Tensor, "r k m"], out: Float[Tensor, "r n m"]) -> Tensor:
    """The products one after the other: a replica's does not depend on its company."""
    for one_a, one_b, one_out in zip(a, b, out, strict=True):
        one_out.copy_(_linear(one_a, one_b.t()))
    return out


KERNELS: dict[str, Callable[..., Tensor]] = {
    "mm": _mm,
    "addmm": _addmm,
    "bmm": _bmm,
    "bmm.out": _bmm_out,
    "baddbmm": _baddbmm,
}
