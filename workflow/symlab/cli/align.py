"""``symlab align``: match two trained networks, verify the match, and walk the line between them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save_file
from torch import Tensor
from tqdm import tqdm

from symlab import __version__
from symlab.alignment.forward import batch_rows, outputs
from symlab.alignment.matching import Permutations, match_all, objectives
from symlab.alignment.moments import record_pair_moments
from symlab.alignment.permute import check_alignment, permute
from symlab.alignment.weight_matching import weight_matching
from symlab.artifacts import write_table, write_tensors, write_text
from symlab.cli.figure import path_figure
from symlab.cli.inputs import Data, Weights, foreign, load_module, read_data, read_weights
from symlab.cli.network import Network, prepare
from symlab.cli.summary import summary
from symlab.cli.trace import trace_quietly
from symlab.connectivity.barrier import barriers
from symlab.connectivity.path import curve
from symlab.device import resolve_device
from symlab.errors import UserError
from symlab.plotting.style import Style, apply_style, save
from symlab.seeds import numpy_rng
from symlab.symmetries.symmetry_spec import SymmetrySpec
from symlab.symmetries.trace import Traced

RESULTS = (
    "permuted.safetensors",
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
LOSSES = {"classification": "cross-entropy", "regression": "squared error"}


@dataclass(frozen=True)
class Options:
    """What ``symlab align --help`` lists, by the same names."""

    A: str
    B: str
    model: str
    data: str
    out: str
    method: str
    restarts: int
    task: str
    lambdas: int
    repair: bool
    samples: int | None
    batch_size: int | None
    seed: int
    device: str
    overwrite: bool


@dataclass(frozen=True)
class Pair:
    """Two networks and the data, ready to compute; ``rows`` samples at a time."""

    network: Network
    state_A: dict[str, Tensor]
    state_B: dict[str, Tensor]
    x: Tensor
    y: Tensor | None
    rows: int


def align(options: Options) -> None:
    """Align B to A as ``symlab align --help`` says; print a summary.

    Raises:
        UserError: something in the options or files is wrong; nothing is written then.
    """
    _check_options(options)
    weights_A, weights_B = read_weights(options.A), read_weights(options.B)
    pair = _prepare_pair(options, weights_A, weights_B)
    network = pair.network
    traced = trace_quietly(network.module, pair.x[: pair.rows])
    spec = traced.spec
    if not spec.groups:
        reasons = " ".join(spec.unsupported)
        raise UserError(
            f"no neurons of {type(network.module).__name__} can be renumbered without changing its function. {reasons}"
        )
    correlations = _correlations(traced, pair)
    permutations = _match(options, spec, correlations, pair)
    matching = _matching(correlations, permutations, spec, options.seed)
    permuted = permute(weights_B.tensors, _of_file(spec, network, weights_B), permutations)
    aligned = network.state(permuted)
    check_alignment(network.module, pair.state_B, aligned, pair.x[: min(pair.rows, CHECKED_SAMPLES)])
    path = _path(options, pair, {False: pair.state_B, True: aligned})
    of_path = None if path is None else barriers(path, ["aligned"])

    folder = Path(options.out)
    with _all_or_nothing(folder) as staged:
        tensors = {name: tensor.contiguous() for name, tensor in permuted.items()}
        save_file(tensors, staged / "permuted.safetensors", metadata=weights_B.metadata or None)
        _write_permutations(options, permutations, staged / "permutations.safetensors")
        write_text(staged / "spec.json", _as_json(spec))
        run = {"symlab": __version__, "torch": torch.__version__, **asdict(options)}
        write_text(staged / "run.json", json.dumps(run, indent=1) + "\n")
        write_table(staged / "matching.csv", matching)
        if path is not None and of_path is not None:
            write_table(staged / "curve.csv", path)
            write_table(staged / "barriers.csv", of_path)
            _draw(path, LOSSES[options.task], staged)
    names = (Path(options.A).name, Path(options.B).name)
    name = type(network.module).__name__
    print(summary(names, name, spec, matching, of_path, len(pair.x), options.method, options.repair))
    print(f"\nWritten to {folder}: {', '.join(name for name in RESULTS if (folder / name).exists())}")


def _check_options(options: Options) -> None:
    if not 3 <= options.lambdas <= MOST_POINTS or options.lambdas % 2 == 0:
        raise UserError(
            f"--lambdas is {options.lambdas}; it must be an odd number from 3 to {MOST_POINTS}, so that the middle is "
            "on it."
        )
    least = {"--restarts": options.restarts, "--samples": options.samples, "--batch-size": options.batch_size}
    for name, value in least.items():
        if value is not None and value < 1:
            raise UserError(f"{name} is {value}; it must be at least 1.")
    folder = Path(options.out)
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise UserError(f"--out is {folder}, but {nearest} is no folder that you may write to; name another one.")
    existing = [name for name in RESULTS if os.path.lexists(folder / name)]
    if existing and not options.overwrite:
        raise UserError(
            f"--out is {folder}, where {existing[0]} lies already; name another folder, or say --overwrite to replace "
            "the results in it."
        )


def _prepare_pair(options: Options, weights_A: Weights, weights_B: Weights) -> Pair:
    given = _sampled(read_data(options.data, options.task), options.samples, options.seed)
    device = resolve_device(options.device, torch.get_num_threads())
    network = prepare(load_module(options.model), weights_A, weights_B, device)
    x, y = given.x.to(device), None if given.y is None else given.y.to(device)
    state_A, state_B = network.state(weights_A.tensors), network.state(weights_B.tensors)
    output = _output(network, state_A, x[:2])
    if y is not None:
        _check_targets(y, output, options.task, options.data)
    rows = options.batch_size or max(1, min(batch_rows(x), LARGEST_OUTPUT // output[0].numel()))
    return Pair(network, state_A, state_B, x, y, rows)


def _match(options: Options, spec: SymmetrySpec, correlations: dict[str, np.ndarray], pair: Pair) -> Permutations:
    if options.method == "activation":
        return match_all(correlations, spec.groups)
    of_state = replace(spec, axes={name: spec.axes[name] for name in pair.network.names})
    rng = numpy_rng("align", options.seed, "restarts")
    return weight_matching(of_state, pair.state_A, pair.state_B, rng, options.restarts).permutations


def _write_permutations(options: Options, permutations: Permutations, path: Path) -> None:
    header = {"method": options.method, "seed": options.seed}
    header |= {"A_sha256": _sha256(options.A), "B_sha256": _sha256(options.B)}
    write_tensors(path, {group: pi.astype(np.int64) for group, pi in permutations.items()}, "permutations", header)


@contextmanager
def _all_or_nothing(folder: Path) -> Iterator[Path]:
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
        for name in RESULTS:
            if (staged / name).exists():
                os.replace(staged / name, folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"the results cannot be written to {folder} ({error}); choose another --out.") from None
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def _sampled(data: Data, samples: int | None, seed: int) -> Data:
    """The data, or as many random samples of it, in their order."""
    if samples is None or samples >= len(data.x):
        return data
    rows = np.sort(numpy_rng("align", seed, "samples").permutation(len(data.x))[:samples])
    chosen = torch.from_numpy(rows)
    return Data(data.x[chosen], None if data.y is None else data.y[chosen])


def _output(network: Network, state: dict[str, Tensor], x: Tensor) -> Tensor:
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


def _check_targets(y: Tensor, output: Tensor, task: str, data: str) -> None:
    if task == "regression":
        if output[0].numel() != 1:
            raise UserError(
                f"--task regression needs a network with one output a sample, not {tuple(output.shape[1:])}."
            )
    elif output.dim() != 2:
        raise UserError(
            f"class labels need a network with logits of shape (n, classes), not {('n', *output.shape[1:])}; "
            f"let --model build a module that gives those, or leave y out of {data} to get the match without a curve."
        )
    elif int(y.max()) >= output.shape[1]:
        raise UserError(
            f"y in {data} holds the label {int(y.max())}, but the network has {output.shape[1]} outputs: labels are "
            f"counted from 0 to {output.shape[1] - 1} (or say --task regression)."
        )


def _correlations(traced: Traced, pair: Pair) -> dict[str, np.ndarray]:
    """Correlations of both networks' neurons over all of x, by group."""
    batches = tqdm(pair.x.split(pair.rows), desc="comparing neurons", unit="batch", leave=False, disable=None)
    state_A, state_B = pair.network.by_all_names(pair.state_A), pair.network.by_all_names(pair.state_B)
    moments = record_pair_moments(traced, {0: state_A}, {0: state_B}, batches)[0]
    return {group: moment.correlation() for group, moment in moments.items()}


def _matching(
    correlations: dict[str, np.ndarray], permutations: Permutations, spec: SymmetrySpec, seed: int
) -> pd.DataFrame:
    """A row a group and kind of permutation: the mean correlation of activations of the neurons it puts together.

    Groups that are matched through the groups within them have no activations of their own: NaN.
    """
    found = objectives(correlations, permutations, spec.groups, RANDOM_PERMUTATIONS, numpy_rng("align", seed, "random"))
    return pd.DataFrame(
        {
            "group": group,
            "size": described.size,
            "permutation": permutation,
            "objective": found.get(group, {}).get(value, np.nan),
        }
        for group, described in spec.groups.items()
        for permutation, value in (("match", "optimal"), ("identity", "identity"), ("random", "random"))
    )


def _of_file(spec: SymmetrySpec, network: Network, weights: Weights) -> SymmetrySpec:
    """The spec for the names of a file, where a tied weight may have another name or several."""
    axes_of = {network.twins.get(name, name): axes for name, axes in spec.axes.items()}
    axes = {name: axes_of.get(network.twins[name], (None,) * tensor.dim()) for name, tensor in weights.tensors.items()}
    return SymmetrySpec(axes, spec.groups)


def _path(options: Options, pair: Pair, ends: dict[bool, dict[str, Tensor]]) -> pd.DataFrame | None:
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
            table = measured(pair.network.module, pair.state_A, ends[aligned], part)
        tables.append(table.assign(aligned=aligned))
    return pd.concat(tables, ignore_index=True)[["aligned", "lambda", "loss", "accuracy"]]


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _as_json(spec: SymmetrySpec) -> str:
    """The spec with where activations are recorded and what was not understood: a line a group, tensor or sentence."""
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
        save(path_figure(path, loss, style), folder / "curve.pdf", folder / "curve.png", style.dpi)
