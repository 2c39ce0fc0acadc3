"""A pretended GPU: torch's Python backend, whose tensors compute on the CPU but keep to the rules of a GPU's.

They refuse to meet a CPU tensor, and a graph records operations, refuses what a CUDA capture forbids, and replays them
on the same memory. Rounding is the CPU's, so that results equal the CPU's where the code does the same.

``run`` sees every operation after autograd and autocast: arguments are unwrapped, the CPU computes, results are
wrapped. Torch cannot forget a backend; the fixture ``device`` makes this one available for the time of a test module.
"""

from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _DummyPrivateUse1Hook, _setup_privateuseone_for_python_backend

NAME, CPU, GB = "pretended", torch.device("cpu"), 2**30
aten = torch.ops.aten
# Copies may take tensors of both kinds, and indices may be on the CPU.
COPIES, INDEXED = (aten.copy_, aten._to_copy), (aten.index, aten.index_put_, aten._index_put_impl_)
# Operations whose result the CPU waits for, or whose size depends on values.
WAITING = (aten._local_scalar_dense, aten.is_nonzero, aten.equal, aten.nonzero, aten.masked_select, aten._unique2)
AUTOCAST, REGISTERED = "AutocastPrivateUse1", []
# Torch's own, which read memory directly.
TOLIST, NEW_TENSOR = torch.Tensor.tolist, torch.Tensor.new_tensor


class OnDevice(torch.Tensor):
    """A tensor of the device; ``held`` is the CPU tensor with its values."""

    @staticmethod
    def __new__(cls, held):
        layout = {"strides": held.stride(), "storage_offset": held.storage_offset(), "layout": held.layout}
        return cls._make_wrapper_subclass(cls, held.size(), dtype=held.dtype, device=f"{NAME}:0", **layout)

    def __init__(self, held):
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return run(function, args, kwargs or {})


class Everything(TorchDispatchMode):
    """Shows ``run`` those operations too that have no tensor of the device yet, such as ``zeros(device=...)``."""

    # Else torch imports its compiler, for seconds, to keep it from compiling this.
    _should_skip_dynamo = classmethod(lambda cls: False)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return run(function, args, kwargs or {})


class Graph:
    """What a capture recorded. Recording computes already, so the first replay has nothing left to do."""

    recording = None

    def __init__(self):
        self.calls, self.computed = [], True

    def replay(self):
        if not self.computed:
            with torch._C._DisableTorchDispatch():
                for function, args, kwargs, results in self.calls:
                    # Views and what was computed in place are there already.
                    known = {None, *map(memory, tree_leaves((args, kwargs)))}
                    for place, value in zip(tree_leaves(results), tree_leaves(function(*args, **kwargs)), strict=True):
                        if memory(place) not in known:
                            place.copy_(value)
        self.computed = False


def memory(value):
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None


@contextmanager
def captured(graph, stream=None):
    Graph.recording = graph
    try:
        yield
    finally:
        Graph.recording = None


def run(function, args, kwargs):
    """What an operation gives; refused is what a GPU would refuse."""
    kind, here = function.overloadpacket, [each for each in tree_leaves((args, kwargs)) if isinstance(each, OnDevice)]
    bound = (args[0], args[2:]) if kind in INDEXED else () if kind in COPIES else (args, kwargs)
    # As on a GPU, numbers on the CPU (without axes) may be operands.
    if here and any(each.dim() for each in on_the_cpu(bound)):
        raise RuntimeError(f"Expected all tensors to be on the same device, but {function} has some on the CPU.")
    wanted = kwargs.get("device") is not None and torch.device(kwargs["device"]).type == NAME
    if here and "_fused_" in kind.__name__:
        refuse_unlike_layouts(kind, args)
    moved = {"device": CPU} if kwargs.get("device") is not None else {}
    recorded = Graph.recording if here or wanted else None
    if recorded:
        refuse_waiting(function, args, kwargs, leaves=bool(moved) and not wanted)
    given = tree_map(lambda each: plain(each, recorded), (args, kwargs | moved))
    results = function(*given[0], **given[1])
    if recorded:
        recorded.calls.append((function, *given, results))
    if kind is aten.copy_:
        return args[0]
    if not (wanted if moved else here):
        return results
    # In-place operations return their argument itself.
    known = {id(each.held): each for each in here}
    return tree_map(lambda each: wrapped(each, known), results)


def refuse_unlike_layouts(kind, args):
    """A fused update on a GPU wants parameters, gradients and what it remembers to lie alike in memory."""
    for alike in zip(*(each for each in args if isinstance(each, list) and len(each) == len(args[0])), strict=True):
        layouts = {each.stride() for each in alike if each.dim()}
        if len(layouts) > 1:
            raise RuntimeError(f"Expected check_fast_path_restrictions to be true: {kind} has layouts {layouts}.")


def on_the_cpu(arguments):
    return [
        each for each in tree_leaves(arguments) if isinstance(each, torch.Tensor) and not isinstance(each, OnDevice)
    ]


def plain(value, recorded):
    """An argument for the CPU. A graph keeps a number from the CPU as it was: operations there are not recorded."""
    if isinstance(value, OnDevice):
        return value.held
    return value.clone() if recorded and isinstance(value, torch.Tensor) else value


def wrapped(value, known):
    fresh = isinstance(value, torch.Tensor) and id(value) not in known
    return OnDevice(value) if fresh else known.get(id(value), value)


def refuse_waiting(function, args, kwargs, leaves):
    kind = function.overloadpacket
    enters = kind in COPIES + INDEXED and on_the_cpu((args, kwargs))
    by_mask = kind in INDEXED and any(each is not None and each.dtype == torch.bool for each in args[1])
    if kind in WAITING or leaves or enters or by_mask:
        raise RuntimeError(f"operation not permitted when stream is capturing: {function}")


class Stream:
    """What a GPU's stream has waited for."""

    def __init__(self):
        self.waited = []

    def wait_stream(self, other):
        self.waited.append(other)


Stream.current = Stream()


@contextmanager
def entered(stream):
    before, Stream.current = Stream.current, stream
    try:
        yield
    finally:
        Stream.current = before


def backend():
    """What ``torch.get_device_module`` gives: torch.cuda's functions, as far as they are called."""
    module = SimpleNamespace(available=False, CUDAGraph=Graph, graph=captured, Stream=lambda device: Stream())
    module.is_available = module.is_initialized = lambda: module.available
    module._is_in_bad_fork, module.manual_seed_all = lambda: False, lambda seed: None
    module.device_count, module.current_device = lambda: int(module.available), lambda: 0
    module.get_amp_supported_dtype, module.get_device_name = lambda: [torch.bfloat16], lambda device: f"a {NAME} GPU"
    module.current_stream, module.stream = lambda: Stream.current, entered
    module.synchronize = module.reset_peak_memory_stats = module.empty_cache = lambda device=None: None
    # Two networks take 16 of 40 GB: four fit into 80 %.
    module.mem_get_info, module.memory_reserved = lambda device: (40 * GB, 80 * GB), lambda device: 0
    module.max_memory_reserved = lambda device: 16 * GB
    return module


class Hook(_DummyPrivateUse1Hook):
    def is_available(self):
        return getattr(torch, NAME).available


def register():
    """Tell torch of the device. Within autocast products take numbers of the lower precision, as torch.cuda's do."""
    _setup_privateuseone_for_python_backend(NAME, backend(), Hook())
    REGISTERED.append(torch.library.Library("_", "IMPL"))
    REGISTERED[-1].fallback(torch.library.fallthrough_kernel, AUTOCAST)
    REGISTERED.append(torch.library.Library("aten", "IMPL"))
    for name in ("linear", "conv2d", "mm", "addmm", "bmm", "baddbmm", "matmul"):
        REGISTERED[-1].impl(name, partial(in_lower_precision, getattr(aten, name).default), AUTOCAST)


def in_lower_precision(function, *args, **kwargs):
    lower = torch.get_autocast_dtype(NAME)
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, AUTOCAST))):
        return function(*(each.to(lower) if isinstance(each, torch.Tensor) else each for each in args), **kwargs)


@pytest.fixture(scope="module")
def device():
    """The name of the pretended GPU."""
    if not hasattr(torch, NAME):
        register()

    def new_tensor(self, data, *, dtype=None, device=None, **options):
        if isinstance(self, OnDevice):
            return torch.tensor(data, dtype=dtype or self.dtype, **options).to(device or self.device)
        return NEW_TENSOR(self, data, dtype=dtype, device=device, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(getattr(torch, NAME), "available", True)
        patch.setattr(torch.Tensor, "tolist", lambda self: TOLIST(self.held if type(self) is OnDevice else self))
        patch.setattr(torch.Tensor, "new_tensor", new_tensor)
        # Tensors of Python's numbers are made on the CPU and copied.
        torch._C._set_only_lift_cpu_tensors(True)
        # Modules take new parameters when they are moved: those that they have would keep what they hold.
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        # Backward passes in this thread: how many threads torch's engine has was decided before.
        with torch.autograd.set_multithreading_enabled(False), Everything():
            yield NAME
        torch._C._set_only_lift_cpu_tensors(False)
        torch.__future__.set_overwrite_module_params_on_conversion(False)
