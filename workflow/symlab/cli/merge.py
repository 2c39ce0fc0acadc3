"""``symlab merge``: ``symlab.merge`` from files to files."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from symlab.alignment.universe import Universe
from symlab.artifacts import write_table, write_tensors, write_text
from symlab.cli.files import all_or_nothing, check_folder, models_of, run_as_json, sha256, spec_as_json
from symlab.connectivity.merge import check_weights
from symlab.errors import UserError
from symlab.own.merge import merge_models
from symlab.own.weights import Weights

RESULTS = ("merged.safetensors", "permutations.safetensors", "spec.json", "scores.csv", "run.json")


def merge(options: Namespace) -> None:
    """Merge networks as ``symlab merge --help`` says; print a summary.

    Raises:
        UserError: something in the options or files is wrong; nothing is written then.
    """
    check_folder(options, RESULTS)
    weights = _weights(options)
    models = models_of(options, options.networks)
    merged = merge_models(
        models, options.method, weights, options.repair, options.restarts, options.seed, group=options.group
    )
    told = str(merged)

    folder = Path(options.out)
    with all_or_nothing(folder, RESULTS) as staged:
        merged.save(staged / "merged.safetensors")
        _write_permutations(options, models.files, merged.universe, staged / "permutations.safetensors")
        write_text(staged / "spec.json", spec_as_json(merged.spec))
        write_text(staged / "run.json", run_as_json(options))
        if merged.scores is not None:
            write_table(staged / "scores.csv", merged.scores)
    print(told)
    print(f"\nWritten to {folder}: {', '.join(name for name in RESULTS if (folder / name).exists())}")


def _weights(options: Namespace) -> list[float] | None:
    """The networks' weights in the average, after a check that there are several networks, each once."""
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


def _write_permutations(options: Namespace, files: Sequence[Weights], universe: Universe, path: Path) -> None:
    header = {"method": options.method, "seed": options.seed, "sha256": [*map(sha256, files)]}
    stacked = {
        group: np.stack([of_network[group] for of_network in universe.permutations]).astype(np.int64)
        for group in universe.permutations[0]
    }
    write_tensors(path, stacked, "permutations", header)
