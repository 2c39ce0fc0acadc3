"""A user's module: found by name, taken out of its wrappers, and called with its inputs one after another."""

import importlib
import inspect
import io
import logging
import os
import site
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from functools import reduce
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from symlab.batches import prediction
from symlab.errors import UserError

OTHERS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@contextmanager
def foreign(doing: str) -> Iterator[None]:
    """Run code that a user wrote; whatever it raises becomes a sentence with its place.

    Raises:
        UserError: the code raised something.
    """
    try:
        yield
    except UserError:
        raise
    # The code is not symlab's, so no list of exceptions covers what it may raise; SystemExit would end symlab silently.
    except (Exception, SystemExit) as error:
        libraries = (*site.getsitepackages(), sysconfig.get_path("stdlib"), str(Path(__file__).parents[1]), "<")
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if not frame.filename.startswith(libraries)]
        place = f" (line {own[-1].lineno} of {own[-1].filename})" if own else ""
        message = " ".join(str(error).split())[:400]
        raise UserError(f"{doing} failed with {type(error).__name__}: {message}{place}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """Run what libraries do without what they say about their inner workings."""
    logging.disable(logging.ERROR)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)


def some(names: Sequence[str], most: int) -> str:
    """The first of some names, and how many more there are; "none"."""
    shown = ", ".join(map(repr, names[:most])) or "none"
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def load_module(factory: str, folder: str | Path | None = None) -> nn.Module:
    """The network that ``pkg.module:function`` builds; modules of the current folder can be imported too.

    A class of transformers, ``transformers:AutoModelForCausalLM``, is built from the config.json in ``folder``, with
    random weights.

    Raises:
        UserError: there is no such function, it raises, or it returns no nn.Module.
    """
    library = factory.partition(":")[0] == "transformers"
    if library:
        # Read when the library is imported: nothing is ever downloaded.
        os.environ["HF_HUB_OFFLINE"] = "1"
    build = imported(factory, "--model", "a function in it that builds the network, like my_package.networks:build")
    with foreign(f"building {factory}" if library else f"calling {factory}() without arguments"):
        network = _from_config(build, factory, folder) if library else build()
    if not isinstance(network, nn.Module):
        raise UserError(f"{factory}() returned a {type(network).__name__}; it must return a torch nn.Module.")
    return network


def imported(name: str, option: str, what: str) -> Any:
    """What ``pkg.module:path`` names, of the current folder too.

    Raises:
        UserError: there is no such thing, or importing its module fails.
    """
    module_name, colon, path = name.partition(":")
    if not (colon and module_name and path):
        raise UserError(f"{option} is {name!r}; it must name a module and {what}.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    with foreign(f"importing {module_name} (from {option}, looked for in {os.getcwd()} and PYTHONPATH)"):
        module = importlib.import_module(module_name)
    try:
        return reduce(getattr, path.split("."), module)
    except AttributeError:
        raise UserError(f"{option} names {path!r}, but {module_name} has no such function.") from None


def _from_config(build: Any, factory: str, folder: str | Path | None) -> nn.Module:
    """A model of transformers as the config.json in a folder describes it; code beside it is not run."""
    path = None if folder is None else Path(folder) / "config.json"
    if path is None or not path.is_file():
        given = "there is none" if path is None else f"{path} is none"
        raise UserError(
            f"{factory} is built from the config.json of a model's folder, and {given}: give A and B as folders that "
            "hold a config.json beside the weights (--folder for symlab trace), or let --model name a function of "
            "yours that builds the network."
        )
    of_class = getattr(build, "config_class", None)
    reader = of_class or importlib.import_module("transformers").AutoConfig
    only_local: dict[str, Any] = {"local_files_only": True} | ({} if of_class else {"trust_remote_code": False})
    config = reader.from_pretrained(path.parent, **only_local)
    return build(config) if of_class else build.from_config(config, trust_remote_code=False)


def is_of_transformers(module: nn.Module) -> bool:
    """Whether a module is a model of transformers, which need not be installed."""
    return any(
        base.__name__ == "PreTrainedModel" and base.__module__.startswith("transformers") for base in type(module).mro()
    )


def bare(module: Any) -> nn.Module:
    """A module without what runs it on several devices, compiles it, or averages its weights over steps.

    Raises:
        UserError: it is no module.
    """
    if isinstance(module, str):
        module = load_module(module)
    if not isinstance(module, nn.Module):
        raise UserError(
            f"the network is given as a {type(module).__name__}; it must be an nn.Module (align and merge take the "
            "module first, then the networks' weights, then data)."
        )
    while (inner := getattr(module, "_orig_mod", None) or _wrapped(module)) is not None:
        module = inner
    if isinstance(module, torch.jit.ScriptModule):
        raise UserError(
            "the network is compiled by torch.jit, which hides its operations: give the module it was made of."
        )
    return module


def _wrapped(module: nn.Module) -> nn.Module | None:
    kinds = nn.DataParallel | nn.parallel.DistributedDataParallel | AveragedModel
    return module.module if isinstance(module, kinds) else None


def names_of_inputs(module: nn.Module) -> tuple[list[str], bool]:
    """Names of the inputs that a module takes, in order, and whether it takes any others."""
    parameters = inspect.signature(module.forward).parameters.values()
    return [p.name for p in parameters if p.kind not in OTHERS], any(p.kind in OTHERS for p in parameters)


def needed_inputs(module: nn.Module) -> list[str]:
    """Names of the inputs that a module cannot do without."""
    parameters = inspect.signature(module.forward).parameters.values()
    return [p.name for p in parameters if p.kind not in OTHERS and p.default is p.empty]


def wants_names(module: nn.Module) -> bool:
    """Whether a module takes its first input by its name alone."""
    first = next(iter(inspect.signature(module.forward).parameters.values()), None)
    return first is not None and first.kind == first.KEYWORD_ONLY


def with_plain_call(module: nn.Module, names: Sequence[str] | None) -> nn.Module:
    """Let a module take inputs one after another that it knows by ``names``, and a model of transformers give logits.

    The module itself is changed, but not its parameters' names. A model of transformers returns its logits (or else
    its first output), without caches.
    """
    kind: Any = type(module)
    of_library = is_of_transformers(module)
    if names is None and not of_library:
        return module
    if of_library and getattr(module.config, "use_cache", False):
        module.config.use_cache = False  # type: ignore[union-attr]

    def forward(self: nn.Module, *inputs: Tensor) -> Any:
        output = (
            kind.forward(self, *inputs)
            if names is None
            else kind.forward(self, **dict(zip(names, inputs, strict=True)))
        )
        return prediction(output) if of_library else output

    module.__class__ = type(kind.__name__, (kind,), {"forward": forward, "__module__": kind.__module__})
    return module
