"""``symlab merge``: ``symlab.merge`` from files to files."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from symlab.alignment.universe import Universe
from symlab.artifacts import write_table, write_tensors, write_text
from symlab.cli.files import check_folder, computing, sha256, spec_as_json, written
from symlab.cli.texts import results_of
from symlab.errors import UserError
from symlab.own.merge import merge as merge_networks
from symlab.own.weights import Weights

RESULTS = results_of("merge")


def merge(options: Namespace) -> None:
    """Merge networks as ``symlab merge --help`` says; print a summary.

    Raises:
        UserError: something in the options or files is wrong; nothing is written then.
    """
    check_folder(options, RESULTS)
    matched = {name: getattr(options, name) for name in ("method", "group", "restarts", "base", "test")}
    given = _averaging(options) | matched | computing(options)
    merged = merge_networks(options.model, options.networks, options.data, **given)
    with written(options, RESULTS, str(merged)) as staged:
        merged.save(staged / ("merged" if options.until is not None else "merged.safetensors"))
        _write_permutations(options, merged.models.files, merged.universe, staged / "permutations.safetensors")
        write_text(staged / "spec.json", spec_as_json(merged.spec))
        if merged.scores is not None:
            write_table(staged / "scores.csv", merged.scores)


def _averaging(options: Namespace) -> dict[str, Any]:
    """How the networks are averaged, as ``symlab.merge`` takes it."""
    layers = {}
    for given in options.layer:
        name, sign, weights = given.partition("=")
        if not (name and sign):
            raise UserError(f"--layer is {given!r}; it must be a layer and its weights, like blocks.0=2,1.")
        layers[name] = _numbers(weights, "--layer")
    weights = None if options.weights is None else _numbers(options.weights, "--weights")
    names = ("average", "scale", "density", "until", "repair")
    return {"weights": weights, "layers": layers} | {name: getattr(options, name) for name in names}


def _numbers(given: str, option: str) -> list[float]:
    try:
        return [float(number) for number in given.split(",")]
    except ValueError:
        raise UserError(f"{option} is {given!r}; it must be numbers with commas between, like 2,1,1.") from None


def _write_permutations(options: Namespace, files: Sequence[Weights], universe: Universe, path: Path) -> None:
    header = {"method": options.method, "seed": options.seed, "sha256": [*map(sha256, files)]}
    stacked = {
        group: np.stack([of_network[group] for of_network in universe.permutations]).astype(np.int64)
        for group in universe.permutations[0]
    }
    write_tensors(path, stacked, "permutations", header)
