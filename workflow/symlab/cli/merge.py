"""``symlab merge``: bring trained networks to one order, average them, and score what comes out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from tqdm import tqdm

from symlab import __version__
from symlab.alignment.align import CHECKED_SAMPLES
from symlab.alignment.permute import check_alignment
from symlab.alignment.universe import Universe, match_to_universe
from symlab.artifacts import write_table, write_tensors, write_text
from symlab.cli.align import (
    Shared,
    all_or_nothing,
    check_options,
    load,
    remarks_on,
    sha256,
    spec_as_json,
    traced_symmetries,
)
from symlab.cli.inputs import Weights, foreign
from symlab.cli.network import Network
from symlab.cli.summary import merge_summary
from symlab.connectivity.merge import average_network, check_weights, scores
from symlab.errors import UserError
from symlab.products import products_by
from symlab.seeds import numpy_rng

RESULTS = ("merged.safetensors", "permutations.safetensors", "spec.json", "scores.csv", "run.json")


@dataclass(frozen=True)
class Options(Shared):
    """What ``symlab merge --help`` lists, by the same names."""

    networks: list[str]
    weights: str | None


def merge(options: Options) -> None:
    """Merge networks as ``symlab merge --help`` says; print a summary.

    Raises:
        UserError: something in the options or files is wrong; nothing is written then.
    """
    weights = _checked(options)
    loaded = load(options, options.networks)
    files = loaded.files
    network, module, x = loaded.network, loaded.network.module, loaded.x
    traced = traced_symmetries(loaded)
    states = [network.by_all_names(state.converted()) for state in loaded.states]
    shown = partial(tqdm, desc="comparing neurons", unit="batch", leave=False, disable=None)
    compared = x if options.method == "activation" else None
    rng = numpy_rng("merge", options.seed, "restarts")
    universe = match_to_universe(traced, states, rng, compared, loaded.rows, options.restarts, shown)
    for state, permuted in zip(states, universe.permuted, strict=True):
        check_alignment(module, state, permuted, x[: min(loaded.rows, CHECKED_SAMPLES)])
    with foreign("computing the averaged network"):
        averages = {
            kind: _as_file(files[0], network, average_network(module, of, x, weights, options.repair))
            for kind, of in {"plain average": states, "merged": universe.permuted}.items()
        }
    table = None
    if loaded.y is not None:
        known = dict(zip(options.networks, loaded.states, strict=True))
        known |= {kind: network.state(tensors) for kind, tensors in averages.items()}
        ensemble = dict(zip(options.networks, weights or [1.0] * len(files), strict=True))
        table = scores(module, known, x, loaded.y, options.task, ensemble, loaded.rows)

    folder = Path(options.out)
    with all_or_nothing(folder, RESULTS) as staged:
        save_file(averages["merged"], staged / "merged.safetensors", metadata=files[0].metadata or None)
        _write_permutations(options, files, universe, staged / "permutations.safetensors")
        write_text(staged / "spec.json", spec_as_json(traced.spec))
        run = {"symlab": __version__, "torch": torch.__version__, "products": products_by(), **asdict(options)}
        write_text(staged / "run.json", json.dumps(run, indent=1) + "\n")
        if table is not None:
            write_table(staged / "scores.csv", table)
    print(
        merge_summary(
            type(module).__name__,
            traced.spec,
            universe,
            [*network.remarks, *remarks_on(*(_named(of, options) for of in (universe.by_weights, universe.in_place)))],
            table,
            len(x),
            options.method,
        )
    )
    print(f"\nWritten to {folder}: {', '.join(name for name in RESULTS if (folder / name).exists())}")


def _checked(options: Options) -> list[float] | None:
    """The weights as numbers, after a check of all options."""
    check_options(options, RESULTS)
    if len(options.networks) < 2:
        raise UserError("one network cannot be merged: name at least two files.")
    if twice := [path for path in options.networks if options.networks.count(path) > 1]:
        raise UserError(f"{twice[0]} is named twice; give a network more weight with --weights.")
    if options.weights is None:
        return None
    try:
        weights = [float(weight) for weight in options.weights.split(",")]
    except ValueError:
        raise UserError(
            f"--weights is {options.weights!r}; it must be numbers with commas between, like 2,1,1."
        ) from None
    check_weights(weights, len(options.networks))
    return weights


def _named(groups: Mapping[str, Sequence[int]], options: Options) -> list[str]:
    """Groups with the files of the networks that they are named for."""
    return [f"{group} ({', '.join(options.networks[n] for n in networks)})" for group, networks in groups.items()]


def _as_file(file: Weights, network: Network, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """A state with the names and types of a file; constants that states do not hold are the file's."""
    return {
        name: state.get(network.twins[name], tensor).to("cpu", tensor.dtype, copy=True).contiguous()
        for name, tensor in file.tensors.items()
    }


def _write_permutations(options: Options, files: Sequence[Weights], universe: Universe, path: Path) -> None:
    header = {"method": options.method, "seed": options.seed, "sha256": [*map(sha256, files)]}
    stacked = {
        group: np.stack([of_network[group] for of_network in universe.permutations]).astype(np.int64)
        for group in universe.permutations[0]
    }
    write_tensors(path, stacked, "permutations", header)
