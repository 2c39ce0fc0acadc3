"""symlab measures what the parameter symmetries of neural networks do: alignment, averaging, identifiability.

For networks of your own (torch is imported with the first of these that is used):

- ``trace(module, example)``: which axes of which weights permute together (a ``Traced``);
- ``align(module, A, B, data)``: network B with its neurons in the order of A's (an ``Aligned``);
- ``merge(module, states, data)``: several networks in one order, averaged (a ``Merged``);
- ``diagnose(module, A, B, data)``: which neurons have the same place in both, and what swaps cost (a ``Diagnosis``);
- ``escape(module, data)``: how and when a network leaves the saddle at the origin (an ``Escape``);
- ``mirrors(module, weights, data, training=SGD(lr))``: which neurons SGD will merge (a ``Mirrors``);
- ``collapse(module, data)``: how far a classifier is from neural collapse, by layer (a ``Collapse``);
- ``UserError``: what they raise where something does not fit, a sentence on what to do.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from symlab.errors import UserError

if TYPE_CHECKING:
    from symlab.own.align import align
    from symlab.own.aligned import Aligned
    from symlab.own.collapse import Collapse, collapse
    from symlab.own.diagnose import Diagnosis, diagnose
    from symlab.own.escape import Escape, escape
    from symlab.own.merge import Merged, merge
    from symlab.own.mirrors import SGD, Mirrors, mirrors
    from symlab.own.trace import trace
    from symlab.symmetries.trace import Traced

__version__ = "0.2.0"
__all__ = [
    "SGD",
    "Aligned",
    "Collapse",
    "Diagnosis",
    "Escape",
    "Merged",
    "Mirrors",
    "Traced",
    "UserError",
    "__version__",
    "align",
    "collapse",
    "diagnose",
    "escape",
    "merge",
    "mirrors",
    "trace",
]

_HOMES = {
    "Aligned": "symlab.own.aligned",
    "Collapse": "symlab.own.collapse",
    "Diagnosis": "symlab.own.diagnose",
    "Escape": "symlab.own.escape",
    "Merged": "symlab.own.merge",
    "Mirrors": "symlab.own.mirrors",
    "SGD": "symlab.own.mirrors",
    "Traced": "symlab.symmetries.trace",
    "align": "symlab.own.align",
    "collapse": "symlab.own.collapse",
    "diagnose": "symlab.own.diagnose",
    "escape": "symlab.own.escape",
    "merge": "symlab.own.merge",
    "mirrors": "symlab.own.mirrors",
    "trace": "symlab.own.trace",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
