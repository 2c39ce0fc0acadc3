"""``symlab align``: match two trained networks, verify the match, and walk the line between them."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from tqdm import tqdm

from symlab import __version__
from symlab.alignment.activation_matching import activation_matching
from symlab.alignment.forward import batch_rows, outputs
from symlab.alignment.matching import Permutations, objectives
from symlab.alignment.moments import record_pair_moments
from symlab.alignment.permute import check_alignment, differences, permute
from symlab.alignment.weight_matching import weight_matching
from symlab.artifacts import write_table, write_tensors, write_text
from symlab.cli.figure import path_figure
from symlab.cli.inputs import Data, Weights, foreign, load_module, read_data, read_weights
from symlab.cli.network import Network, State, as_in_memory, prepare
from symlab.cli.summary import summary
from symlab.cli.trace import trace_quietly
from symlab.connectivity.barrier import barriers
from symlab.connectivity.path import curve
from symlab.device import resolve_device
from symlab.errors import UserError
from symlab.plotting.style import Style, apply_style, save
from symlab.products import products_by
from symlab.seeds import numpy_rng
from symlab.symmetries.symmetry_spec import SymmetrySpec, shape
from symlab.symmetries.trace import Traced

RESULTS = (
    "permuted.safetensors",
    "permuted",
    "permutations.safetensors",
    "spec.json",
    "matching.csv",
    "curve.csv",
    "barriers.csv",
    "run.json",
    "curve.png",
    "curve.pdf",
)
CHECKED_SAMPLES = 256
RANDOM_PERMUTATIONS = 16
# A batch of logits of this many numbers takes 64 MB; a language model reaches that with few sequences.
LARGEST_OUTPUT = 2**24
# Points of the line that are computed in one pass: a step of the progress bar.
POINTS_AT_ONCE = 5
MOST_POINTS = 10_001
# Moments of activations take 8 d^2 bytes a group of d neurons; where all take more, there are several passes.
MOMENTS_AT_ONCE = 2**31
Worth = dict[str, dict[str, float]]
# What tells libraries of models how a folder's network is built.
CONFIG = "config.json"
LOSSES = {"classification": "cross-entropy", "regression": "squared error"}


@dataclass(frozen=True)
class Shared:
    """Options of every command that takes trained networks, by the names that its ``--help`` lists."""

    model: str
    data: str
    out: str
    method: str
    restarts: int
    task: str
    repair: bool
    samples: int | None
    batch_size: int | None
    seed: int
    device: str
    overwrite: bool


@dataclass(frozen=True)
class Options(Shared):
    """What ``symlab align --help`` lists, by the same names."""

    A: str
    B: str
    lambdas: int


@dataclass(frozen=True)
class Loaded:
    """Networks and the data, ready to compute; ``rows`` samples at a time."""

    files: tuple[Weights, ...]
    network: Network
    states: tuple[State, ...]
    x: Tensor
    y: Tensor | None
    rows: int


def align(options: Options) -> None:
    """Align B to A as ``symlab align --help`` says; print a summary.

    Raises:
        UserError: something in the options or files is wrong; nothing is written then.
    """
    if not 3 <= options.lambdas <= MOST_POINTS or options.lambdas % 2 == 0:
        raise UserError(
            f"--lambdas is {options.lambdas}; it must be an odd number from 3 to {MOST_POINTS}, so that the middle is "
            "on it."
        )
    check_options(options, RESULTS)
    pair = load(options, [options.A, options.B])
    network, state_B, weights_B = pair.network, pair.states[1], pair.files[1]
    traced = traced_symmetries(pair)
    spec = traced.spec
    permutations, worth, remarks = _match(options, traced, pair)
    matching = _matching(worth, spec)
    permuted = permute(weights_B.tensors, spec_of_file(spec, network, weights_B), permutations)
    aligned = network.state(permuted)
    check_alignment(network.module, state_B, aligned, pair.x[: min(pair.rows, CHECKED_SAMPLES)])
    path = _path(options, pair, {False: state_B, True: aligned})
    of_path = None if path is None else barriers(path, ["aligned"])

    folder = Path(options.out)
    with all_or_nothing(folder, RESULTS) as staged:
        _write_permuted(permuted, weights_B, staged)
        header = {"method": options.method, "seed": options.seed}
        header |= {f"{name}_sha256": sha256(weights) for name, weights in zip("AB", pair.files, strict=True)}
        numbers = {group: pi.astype(np.int64) for group, pi in permutations.items()}
        write_tensors(staged / "permutations.safetensors", numbers, "permutations", header)
        write_text(staged / "spec.json", spec_as_json(spec))
        run = {"symlab": __version__, "torch": torch.__version__, "products": products_by(), **asdict(options)}
        write_text(staged / "run.json", json.dumps(run, indent=1) + "\n")
        write_table(staged / "matching.csv", matching)
        if path is not None and of_path is not None:
            write_table(staged / "curve.csv", path)
            write_table(staged / "barriers.csv", of_path)
            _draw(path, LOSSES[options.task], staged)
    names = (Path(options.A).name, Path(options.B).name)
    name = type(network.module).__name__
    remarks = [*network.remarks, *remarks]
    print(summary(names, name, spec, matching, remarks, of_path, len(pair.x), options.method, options.repair))
    print(f"\nWritten to {folder}: {', '.join(name for name in RESULTS if (folder / name).exists())}")


def check_options(options: Shared, results: Sequence[str]) -> None:
    """Check numbers and the folder, before anything is read.

    Raises:
        UserError: a number is too small, or the folder cannot take the ``results``.
    """
    least = {"--restarts": options.restarts, "--samples": options.samples, "--batch-size": options.batch_size}
    for name, value in least.items():
        if value is not None and value < 1:
            raise UserError(f"{name} is {value}; it must be at least 1.")
    folder = Path(options.out)
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise UserError(f"--out is {folder}, but {nearest} is no folder that you may write to; name another one.")
    existing = [name for name in results if os.path.lexists(folder / name)]
    if existing and not options.overwrite:
        raise UserError(
            f"--out is {folder}, where {existing[0]} lies already; name another folder, or say --overwrite to replace "
            "the results in it."
        )


def load(options: Shared, paths: Sequence[str]) -> Loaded:
    """Networks from files or folders and the data that the options name, on the device, checked to fit together.

    Raises:
        UserError: they do not, or the network depends on more than its weights.
    """
    files = [read_weights(path) for path in paths]
    module = load_module(options.model, paths[0])
    files = [as_in_memory(weights, module) for weights in files]
    given = _sampled(read_data(options.data, options.task, options.samples), options.samples, options.seed)
    device = resolve_device(options.device, torch.get_num_threads())
    network = prepare(module, files, device)
    x, y = given.x.to(device), None if given.y is None else given.y.to(device)
    states = tuple(network.state(weights.tensors) for weights in files)
    # Copied before its first forward pass: it has seen no weights but the second network's when it is asked. Its own
    # parameters are no part of that, and need no copy.
    with foreign(f"copying {type(network.module).__name__}"):
        fresh = copy.deepcopy(network.module, {id(parameter): parameter for parameter in network.module.parameters()})
    output = _output(network, states[0], x[:2])
    _check_state_alone_counts(network.module, fresh, states[1], x[:2])
    if y is not None:
        _check_targets(y, output, options.task, options.data)
    rows = options.batch_size or max(1, min(batch_rows(x), LARGEST_OUTPUT // output[0].numel()))
    return Loaded(tuple(files), network, states, x, y, rows)


def traced_symmetries(loaded: Loaded) -> Traced:
    """The network traced.

    Raises:
        UserError: it cannot be traced, or has no symmetries.
    """
    traced = trace_quietly(loaded.network.module, loaded.x[: loaded.rows])
    if not traced.spec.free:
        name, reasons = type(loaded.network.module).__name__, " ".join(traced.spec.unsupported)
        raise UserError(f"no neurons of {name} can be renumbered without changing its function. {reasons}")
    return traced


def _match(options: Options, traced: Traced, pair: Loaded) -> tuple[Permutations, Worth, list[str]]:
    """Permutations, what they are worth in correlations of activations, and what else is to be said."""
    spec, network = traced.spec, pair.network
    shown = partial(tqdm, desc="comparing neurons", unit="batch", leave=False, disable=None)
    rng = numpy_rng("align", options.seed, "restarts")
    if options.method == "activation":
        state_A, state_B = (network.by_all_names(state.converted()) for state in pair.states)
        found = activation_matching(traced, [state_A], state_B, pair.x, pair.rows, rng, shown)
        remarks = remarks_on(found.by_weights, found.in_place)
        return found.permutations, _worth(found.correlations, found.permutations, spec, options.seed), remarks
    of_state = replace(spec, axes={name: spec.axes[name] for name in network.names})
    A, B = (state.stored for state in pair.states)
    matched = weight_matching(of_state, A, B, rng, options.restarts)
    permutations = matched.permutations
    remarks = [
        f"Similarity of weights (their inner product over their norms): {matched.histories[0][0]:.4f} as they are, "
        f"{matched.similarity:.4f} permuted. A higher one is not always a lower barrier."
    ]
    state_A, state_B = map(network.by_all_names, pair.states)
    worth: Worth = {}
    for groups in _portions(spec):
        batches = shown(pair.x.split(pair.rows))
        moments = record_pair_moments(traced, {0: state_A}, {0: state_B}, batches, groups)[0]
        correlations = {group: moments.pop(group).correlation() for group in list(moments)}
        worth |= _worth(correlations, permutations, spec, options.seed)
    return permutations, worth, remarks


def _portions(spec: SymmetrySpec) -> list[list[str]]:
    """Groups with activations of their own, as many at once as ``MOMENTS_AT_ONCE`` allows, but one at least."""
    portions: list[list[str]] = []
    room = 0
    for group in spec.points:
        needed = 8 * math.prod(shape(group, spec.groups)) ** 2
        if needed > room:
            portions.append([])
            room = MOMENTS_AT_ONCE
        portions[-1].append(group)
        room -= needed
    return portions


def remarks_on(by_weights: Collection[str], in_place: Collection[str]) -> list[str]:
    """Sentences on the groups that were not matched by activations."""
    kinds = {
        "Matched by weights, for no activation on these data tells their neurons apart": by_weights,
        "Left in place, for their best match correlates no more than chance gives": in_place,
    }
    return [f"{what}: {', '.join(groups)}." for what, groups in kinds.items() if groups]


@contextmanager
def all_or_nothing(folder: Path, results: Sequence[str]) -> Iterator[Path]:
    """A folder to write results to; they get to ``folder`` when all are written, and vanish otherwise.

    Results of an earlier run are replaced, those that this run does not have are removed; other files stay.
    """
    existed = folder.is_dir()
    name = f".{folder.name}.{os.getpid()}"
    staged = folder / name if existed else folder.with_name(name)
    try:
        staged.mkdir(parents=True)
        yield staged
        if not existed:
            staged.rename(folder)
            return
        for name in results:
            _replace(folder / name, staged / name)
    except OSError as error:
        raise UserError(f"the results cannot be written to {folder} ({error}); choose another --out.") from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _replace(old: Path, new: Path) -> None:
    """Put a result, or none, in the place of an earlier run's; files in a folder that symlab did not write stay."""
    if old.is_dir():
        for file in (*old.glob("*.safetensors*"), old / CONFIG):
            file.unlink(missing_ok=True)
        if not any(old.iterdir()):
            old.rmdir()
    if new.is_dir():
        old.mkdir(exist_ok=True)
        for file in new.iterdir():
            os.replace(file, old / file.name)
    elif new.exists():
        os.replace(new, old)
    elif not old.is_dir():
        old.unlink(missing_ok=True)


def _sampled(data: Data, samples: int | None, seed: int) -> Data:
    """The data, or as many random samples of it, in their order."""
    if samples is None or samples >= len(data.x):
        return data
    rows = np.sort(numpy_rng("align", seed, "samples").permutation(len(data.x))[:samples])
    chosen = torch.from_numpy(rows)
    return Data(data.x[chosen], None if data.y is None else data.y[chosen])


def _output(network: Network, state: State, x: Tensor) -> Tensor:
    """The network's output on a few samples, which shows whether it takes x at all."""
    kind = "integers (tokens)" if not x.is_floating_point() else "real numbers"
    with foreign(f"calling {type(network.module).__name__} with x of shape {('n', *x.shape[1:])}, {kind},"):
        output: Any = outputs(network.module, state, x)
    if not isinstance(output, Tensor) or output.dim() < 1 or len(output) != len(x):
        what = (
            f"a tensor of shape {tuple(output.shape)}" if isinstance(output, Tensor) else f"a {type(output).__name__}"
        )
        raise UserError(
            f"{type(network.module).__name__} returned {what} for {len(x)} samples; it must return one tensor with a "
            "row a sample: let --model build a module that picks it."
        )
    return output


def _check_state_alone_counts(module: nn.Module, fresh: nn.Module, state_B: State, x: Tensor) -> None:
    """Check that the module, evaluated at A before, gives at B what a copy gives that was never evaluated at A."""
    name = type(module).__name__
    with foreign(f"calling {name} with B's weights"):
        scale, difference, allowed = differences(outputs(fresh, state_B, x), outputs(module, state_B, x))
    # A NaN on either side is no difference of the module's: the match says what to do about those.
    if difference > allowed:
        raise UserError(
            f"{name} keeps something that it computed from the weights of an earlier forward pass, or draws random "
            f"numbers: with B's weights its outputs, of size {scale:.3g}, differ by {difference:.3g} from those of a "
            "copy that has seen no others, so its loss on a line of weights would be wrong. Let --model build it with "
            "such a cache switched off."
        )


def _check_targets(y: Tensor, output: Tensor, task: str, data: str) -> None:
    if task == "regression":
        if output[0].numel() != 1:
            raise UserError(
                f"--task regression needs a network with one output a sample, not {tuple(output.shape[1:])}."
            )
    elif output.shape[1:-1] != y.shape[1:]:
        of_y = f"y in {data} has shape {('n', *y.shape[1:])}"
        raise UserError(
            f"{of_y}, which needs a network with logits of shape {('n', *y.shape[1:], 'classes')}, not "
            f"{('n', *output.shape[1:])}; let --model build a module that gives those, or leave y out to get the match "
            "without a curve."
        )
    elif int(y.max()) >= output.shape[-1]:
        raise UserError(
            f"y in {data} holds the label {int(y.max())}, but the network has {output.shape[-1]} outputs: labels are "
            f"counted from 0 to {output.shape[-1] - 1} (or say --task regression)."
        )


def _worth(correlations: dict[str, np.ndarray], permutations: Permutations, spec: SymmetrySpec, seed: int) -> Worth:
    rng = numpy_rng("align", seed, "random")
    return objectives(correlations, permutations, spec.groups, RANDOM_PERMUTATIONS, rng)


def _matching(found: Worth, spec: SymmetrySpec) -> pd.DataFrame:
    """A row a group and kind of permutation: the mean correlation of activations of the neurons it puts together.

    Groups that are matched through the groups within them have no activations of their own: NaN.
    """
    return pd.DataFrame(
        {
            "group": group,
            "size": spec.groups[group].size,
            "permutation": permutation,
            "objective": found.get(group, {}).get(value, np.nan),
        }
        for group in spec.free
        for permutation, value in (("match", "optimal"), ("identity", "identity"), ("random", "random"))
    )


def _write_permuted(permuted: dict[str, Tensor], B: Weights, folder: Path) -> None:
    """A file; or a folder of shards with the names, list and config of B's, as libraries of models read them."""
    if B.index is None:
        shards = {folder / "permuted.safetensors": list(permuted)}
    else:
        (folder / "permuted").mkdir()
        shards = {folder / "permuted" / file.name: names for file, names in B.shards.items()}
        for beside in (B.index, B.index.with_name(CONFIG)):
            if beside.is_file():
                shutil.copyfile(beside, folder / "permuted" / beside.name)
    for file, names in tqdm(shards.items(), desc="writing", unit="file", leave=False, disable=None):
        save_file({name: permuted[name].contiguous() for name in names}, file, metadata=B.metadata or None)


def spec_of_file(spec: SymmetrySpec, network: Network, weights: Weights) -> SymmetrySpec:
    """The spec for the names of a file, where a tied weight may have another name or several."""
    axes_of = {network.twins.get(name, name): axes for name, axes in spec.axes.items()}
    axes = {name: axes_of.get(network.twins[name], (None,) * tensor.dim()) for name, tensor in weights.tensors.items()}
    return SymmetrySpec(axes, spec.groups)


def _path(options: Options, pair: Loaded, ends: dict[bool, State]) -> pd.DataFrame | None:
    """Loss and accuracy from A to each end: ``aligned``, ``lambda``, ``loss``, ``accuracy``; None without targets."""
    if pair.y is None:
        return None
    lambdas = np.linspace(0, 1, options.lambdas).tolist()
    parts = [lambdas[start : start + POINTS_AT_ONCE] for start in range(0, len(lambdas), POINTS_AT_ONCE)]
    steps = [(aligned, part) for aligned in ends for part in parts]
    measured = partial(
        curve, x=pair.x, y=pair.y, task=options.task, batch_size=pair.rows, statistics_x=pair.x, repair=options.repair
    )
    tables = []
    for aligned, part in tqdm(steps, desc="walking from A to B", leave=False, disable=None):
        with foreign("computing the network on the line from A to B"):
            table = measured(pair.network.module, pair.states[0], ends[aligned], part)
        tables.append(table.assign(aligned=aligned))
    return pd.concat(tables, ignore_index=True)[["aligned", "lambda", "loss", "accuracy"]]


def sha256(weights: Weights) -> str:
    """Of the file; of several the sums of all, in the order of their names."""
    sums = []
    for path in weights.files:
        with path.open("rb") as file:
            sums.append(hashlib.file_digest(file, "sha256").hexdigest())
    return " ".join(sums)


def spec_as_json(spec: SymmetrySpec) -> str:
    """The spec with where activations are recorded and what stays in place: a line a group, tensor or sentence."""
    described = spec.to_json()
    for group, points in spec.points.items():
        described["groups"][group]["recorded_at"] = list(
            dict.fromkeys(point.place or "the network itself" for point in points)
        )
    lines = {
        key: ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in entries.items())
        for key, entries in described.items()
    }
    unsupported = json.dumps(list(spec.unsupported), indent=2)
    groups, axes = ("{\n" + lines[key] + "\n }" for key in ("groups", "axes"))
    return f'{{\n "groups": {groups},\n "axes": {axes},\n "unsupported": {unsupported}\n}}\n'


def _draw(path: pd.DataFrame, loss: str, folder: Path) -> None:
    style = Style()
    with apply_style(style):
        save(path_figure(path, loss, style), folder / "curve.pdf", folder / "curve.png", dpi=style.dpi)
