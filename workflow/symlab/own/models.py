"""Networks and data, in whatever form, checked to fit together: how every command and function starts."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor, nn
from tqdm import tqdm

from symlab.alignment.forward import batch_rows, outputs
from symlab.alignment.permute import check_alignment, differences
from symlab.batches import Inputs, in_precision, leaves, parts_of, prediction
from symlab.connectivity.objective import Metric, Task, check_task
from symlab.device import resolve_device
from symlab.errors import UserError
from symlab.own.data import Data, read_data
from symlab.own.modules import bare, foreign, imported, load_module, quiet, with_plain_call
from symlab.own.network import Network, State, as_in_memory, device_of, prepare
from symlab.own.targets import as_compared, check_targets, task_of
from symlab.own.weights import Weights, weights_of
from symlab.symmetries.trace import Traced, trace

# A batch of logits of this many numbers takes 64 MB; a language model reaches that with few sequences.
LARGEST_OUTPUT = 2**24
CHECKED_SAMPLES = 256
Scored = tuple[Tensor | Inputs, Tensor]


@dataclass(frozen=True)
class Models:
    """Networks of one architecture and data, ready to compute.

    Attributes:
        network: the module, whose forward takes the inputs one after another, and what its weights are called.
        files: the networks' weights as they were given.
        states: the same by the module's names, in one precision, on the device.
        x: inputs on the device, several as ``Inputs``; None without data.
        y: targets, or None.
        task: what outputs and targets are compared by.
        rows: samples to pass through the network at a time.
        remarks: sentences for the user: what was renamed, left out, or is missing.
        test: inputs and targets on which averages are scored in place of x and y, if they were given.
    """

    network: Network
    files: tuple[Weights, ...]
    states: tuple[State, ...]
    x: Shaped[Tensor, "n ..."] | Inputs | None
    y: Shaped[Tensor, "n ..."] | None
    task: Task
    rows: int
    remarks: tuple[str, ...]
    test: Scored | None = None

    @property
    def module(self) -> nn.Module:
        """The network's module; its own weights do not count."""
        return self.network.module

    @property
    def name(self) -> str:
        """The module's class."""
        return type(self.network.module).__name__

    @property
    def scored(self) -> Scored | None:
        """Inputs and targets that averages are scored on: the test data, or else the data; None without targets."""
        return self.test or (None if self.y is None else (self.inputs(), self.y))

    def inputs(self) -> Tensor | Inputs:
        """The inputs.

        Raises:
            UserError: no data were given.
        """
        if self.x is None:
            raise UserError("this needs inputs to compute the network at: give them as data.")
        return self.x


def load_models(
    module: nn.Module | str,
    weights: Mapping[str, Any],
    data: Any = None,
    *,
    scored_on: Any = None,
    task: str | None = None,
    metric: Metric | str | None = None,
    samples: int | None = None,
    batch_size: int | None = None,
    seed: int = 0,
    device: str | None = None,
    folder: str | Path | None = None,
) -> Models:
    """Read networks and data, and check that they fit together.

    Args:
        module: the networks' module, of which a copy is used, or ``pkg.module:function`` that builds it.
        weights: by what messages call them, each a state dict, a module, or the path of a file or folder; if there are
            none, or they are None, the module's own.
        data: as ``read_data`` takes them; None where nothing has to be computed.
        scored_on: further data, with targets, on which averages are scored.
        task: "classification" or "regression"; by default what the targets' type says.
        metric: in their place a function of outputs and targets, lower is better, or ``pkg.module:function``.
        samples, seed: as many random samples of the data are used, and of the test data.
        batch_size: samples at a time; by default by their size.
        device: "cpu", "cuda" or "auto"; by default where the module is.
        folder: where the config.json of a class of transformers lies; by default beside the first weights.

    Raises:
        UserError: something does not fit, or the network depends on more than its weights.
    """
    check_counts(samples=samples, batch_size=batch_size)
    built, files = _built(module, weights, folder)
    if scored_on is not None and data is None:
        raise UserError("test is given without data: these match the networks, the test data score their averages.")
    given = None if data is None else read_data(data, built, samples, seed)
    held = None if scored_on is None else read_data(scored_on, built, samples, seed, "--test")
    built = with_plain_call(built, None if given is None else given.names)
    where = str(device_of(built)) if device is None else resolve_device(device, torch.get_num_threads())
    network = prepare(built, files, where)
    states = tuple(network.state(each.tensors) for each in files)
    chosen = _chosen(task, metric)
    if given is None:
        return Models(
            network, tuple(files), states, None, None, chosen or "classification", batch_size or 1, network.remarks
        )
    ready, output, chosen = _checked_data(given, network, states, chosen, where)
    remarks, rows, scored = [*network.remarks, *ready.remarks], _rows(ready.x, output), None
    if held is not None:
        held, output, chosen = _checked_data(_as_named(held, given.names), network, states[:1], chosen, where)
        if held.y is None:
            raise UserError(f"{held.name} holds no targets y, but averages are scored on it.")
        remarks += [each for each in held.remarks if each not in remarks]
        # Their texts or images may be larger.
        rows, scored = min(rows, _rows(held.x, output)), (held.x, held.y)
    chosen, rows = chosen or "classification", batch_size or rows
    return Models(network, tuple(files), states, ready.x, ready.y, chosen, rows, tuple(remarks), scored)


def _built(
    module: nn.Module | str, weights: Mapping[str, Any], folder: str | Path | None
) -> tuple[nn.Module, list[Weights]]:
    """The networks' module, as one of our own, and the weights of each, by the names that it has in memory.

    Raises:
        UserError: one is named twice, or something cannot be read.
    """
    files = [weights_of(given, name) for name, given in weights.items() if given is not None]
    paths = [each.path for each in files]
    if twice := [path for path in paths if paths.count(path) > 1]:
        raise UserError(
            f"{twice[0]} is named twice; name each network once (in a merge, weights tell how much it counts)."
        )
    beside = folder or (files[0].path if files else None)
    built = bare(load_module(module, beside)) if isinstance(module, str) else copied(bare(module))
    return built, [as_in_memory(each, built) for each in files] or [weights_of(built, "the module")]


def _chosen(task: str | None, metric: Metric | str | None) -> Task | None:
    """What compares outputs with targets, as far as it was said."""
    if isinstance(metric, str):
        metric = imported(metric, "--metric", "a function in it of outputs and targets")
    chosen: Task | None = metric or task
    if chosen is not None:
        check_task(chosen)
    return chosen


def check_counts(**counts: int | None) -> None:
    """Check that what is counted, and given, is there at all.

    Raises:
        UserError: a count is below 1.
    """
    for name, count in counts.items():
        if count is not None and count < 1:
            raise UserError(f"{name} is {count}; it must be at least 1.")


def traced_symmetries(models: Models, traced: Traced | None = None) -> Traced:
    """The network traced, if it is not yet; its spec without constants that are no part of the networks' states.

    Raises:
        UserError: it cannot be traced, or has no symmetries.
    """
    traced = traced or trace_quietly(models.module, models.inputs()[: models.rows])
    if not traced.spec.free:
        told = f"no neurons of {models.name} can be renumbered without changing its function."
        if (returned := traced.returned()) > 1:
            told += (
                f" All {returned} tensors that it returns have to stay as they are: if hidden features are among them, "
                "give a network that returns its outputs alone."
            )
        raise UserError(" ".join([told, *traced.spec.unsupported]))
    axes = {name: axes for name, axes in traced.spec.axes.items() if name in models.network.all_names}
    return replace(traced, spec=replace(traced.spec, axes=axes))


def checked(
    models: Models, traced: Traced, pairs: Iterable[tuple[Mapping[str, Tensor], Mapping[str, Tensor]]]
) -> list[str]:
    """Sentences on networks that are, as far as the data show, the same in another order or basis; none without data.

    Raises:
        AlignmentError: one is not.
    """
    if models.x is None:
        return []
    x = models.x[: min(models.rows, CHECKED_SAMPLES)]
    return sorted({check_alignment(models.module, *pair, x, traced.jumps()) for pair in pairs} - {""})


def shown(batches: Any) -> Any:
    """The batches of a pass over the data, with a progress bar."""
    return tqdm(batches, desc="comparing neurons", unit="batch", leave=False, disable=None)


def trace_quietly(module: nn.Module, x: Tensor | Inputs | tuple[Tensor, ...]) -> Traced:
    """The network's graph and symmetries, without what torch.export says about its inner workings."""
    with quiet():
        return trace(module, x)


def copied(module: nn.Module) -> nn.Module:
    """A copy of a user's module, which stays as it is."""
    # A weight that a norm's hook computed is no leaf, which cannot be copied.
    derived = {
        id(value): value.detach()
        for part in module.modules()
        for value in vars(part).values()
        if isinstance(value, Tensor)
    }
    with foreign(f"copying {type(module).__name__}"):
        return copy.deepcopy(module, derived)


def _rows(x: Tensor | Inputs, output: Any) -> int:
    """How many inputs to pass through a network at a time, by their size and that of the output on a few of them."""
    most = max((leaf.numel() for leaf in leaves(output)), default=2) // len(x[:2])
    return max(1, min(batch_rows(x), LARGEST_OUTPUT // max(1, most)))


def _as_named(test: Data, names: tuple[str, ...] | None) -> Data:
    """Test data with their inputs in the order of the data's.

    Raises:
        UserError: they hold other inputs.
    """
    if sorted(test.names or ()) != sorted(names or ()):
        raise UserError(
            f"{test.name} holds the inputs {', '.join(test.names or ('x',))}, but the data hold "
            f"{', '.join(names or ('x',))}: both must hold the same."
        )
    if names is None or test.names is None or names == test.names:
        return test
    by_name = dict(zip(test.names, test.x.parts if isinstance(test.x, Inputs) else (test.x,), strict=True))
    return replace(test, x=Inputs(tuple(by_name[each] for each in names)), names=names)


def _checked_data(
    given: Data, network: Network, states: tuple[State, ...], task: Task | None, device: str
) -> tuple[Data, Any, Task | None]:
    """Data on the device, the network's output on a few samples, and what compares it with targets, if there are any.

    Raises:
        UserError: the network does not take the inputs, or the targets do not fit its outputs.
    """
    x, name = in_precision(given.x.to(device), network.dtype), given.name
    output = _checked_output(network, states, x, name)
    if given.y is None:
        return replace(given, x=x), output, task
    remarks = given.remarks
    if task is None:

        def outputs_at(rows: Tensor) -> Tensor:
            batches = x[rows.to(device)].split(_rows(x, output))
            return torch.cat([prediction(outputs(network.module, states[0], batch)) for batch in batches])

        task, told = task_of(given.y, prediction(output), outputs_at, name)
        remarks = (*remarks, told) if told else remarks
    y = as_compared(given.y, task, name, network.dtype).to(device)
    check_targets(y, output if callable(task) else prediction(output), task, name)
    return replace(given, x=x, y=y, remarks=remarks), output, task


def _checked_output(network: Network, states: tuple[State, ...], whole: Tensor | Inputs, source: str) -> Any:
    """The network's output on two samples, which shows whether it takes them, and that its weights alone count.

    Raises:
        UserError: it does not, or they do not.
    """
    name, x = type(network.module).__name__, whole[:2]
    # Copied before its first forward pass: it has seen no weights but the second network's when it is asked. Its own
    # parameters are no part of that, and need no copy.
    with foreign(f"copying {name}"):
        fresh = copy.deepcopy(network.module, {id(parameter): parameter for parameter in network.module.parameters()})
    try:
        with foreign(f"calling {name} with {_described(x)} of {source}"):
            output: Any = outputs(network.module, states[0], x)
    except UserError as error:
        raise UserError(f"{error}{_needs_all(network, states[0], whole)}") from None
    if not leaves(output):
        raise UserError(f"{name} returned a {type(output).__name__} without tensors for {len(x)} samples.")
    if len(states) < 2:
        return output
    with foreign(f"calling {name} with B's weights"):
        scale, difference, allowed = differences(outputs(fresh, states[1], x), outputs(network.module, states[1], x))
    # A NaN on either side is no difference of the module's: the match says what to do about those.
    if difference > allowed:
        raise UserError(
            f"{name} keeps something that it computed from the weights of an earlier forward pass, or draws random "
            f"numbers: with B's weights its outputs, of size {scale:.3g}, differ by {difference:.3g} from those of a "
            "copy that has seen no others, so its loss on a line of weights would be wrong. Build it with such a cache "
            "switched off."
        )
    return output


def _needs_all(network: Network, state: State, whole: Tensor | Inputs) -> str:
    """A sentence where a network that does not take two samples takes all together, as nodes of one graph."""
    if sum(part.numel() for part in parts_of(whole)) > LARGEST_OUTPUT:
        return ""
    try:
        with foreign(""):
            outputs(network.module, state, whole)
    except UserError:
        return ""
    return (
        ". It takes all of them together, but symlab computes with some samples at a time, which are the rows of every "
        "input: give whole graphs, say, as samples [graphs, nodes, ...]"
    )


def _described(x: Tensor | Inputs) -> str:
    def one(part: Tensor) -> str:
        kind = "real numbers" if part.is_floating_point() else "integers (tokens; pixels are to be real numbers)"
        return f"x of shape {('n', *part.shape[1:])}, {kind},"

    return " and ".join(map(one, x.parts if isinstance(x, Inputs) else (x,)))
