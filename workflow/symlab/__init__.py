"""symlab measures what the parameter symmetries of neural networks do: alignment, averaging, identifiability.

For networks of your own (torch is imported with the first of these that is used):

- ``trace(module, example)``: which axes of which weights permute together;
- ``align(module, A, B, data)``: network B with its neurons in the order of A's;
- ``merge(module, states, data)``: several networks in one order, averaged.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symlab.alignment.align import align
    from symlab.connectivity.merge import merge
    from symlab.symmetries.trace import trace

__version__ = "0.1.0"
__all__ = ["__version__", "align", "merge", "trace"]

_HOMES = {"align": "symlab.alignment.align", "merge": "symlab.connectivity.merge", "trace": "symlab.symmetries.trace"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
