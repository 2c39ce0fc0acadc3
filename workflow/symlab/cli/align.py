"""``symlab align``: ``symlab.align`` from files to files, and the line between both networks."""

import json
import shutil
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from safetensors.torch import save_file
from torch import Tensor
from tqdm import tqdm

from symlab.artifacts import write_table, write_tensors, write_text
from symlab.cli.files import CONFIG, check_folder, computing, sha256, spec_as_json, written
from symlab.cli.texts import results_of
from symlab.connectivity.barrier import barriers
from symlab.errors import UserError
from symlab.own.align import align as align_networks
from symlab.own.aligned import MOST_POINTS, Aligned
from symlab.own.weights import Weights, unshared
from symlab.plotting.style import COLUMN, PAGE, Look, Style, apply_style, handles, legend, palette, panels, save

RESULTS = results_of("align")
POSITION = r"position $\lambda$ (0: A, 1: B)"
LOSSES = {"classification": "cross-entropy", "regression": "squared error"}


def align(options: Namespace) -> None:
    """Align B to A as ``symlab align --help`` says; print a summary.

    Raises:
        UserError: something in the options or files is wrong; nothing is written then.
    """
    if not 3 <= options.lambdas <= MOST_POINTS or options.lambdas % 2 == 0:
        raise UserError(
            f"--lambdas is {options.lambdas}; it must be an odd number from 3 to {MOST_POINTS}, so that the middle is "
            "on it."
        )
    check_folder(options, RESULTS)
    if options.untrained and not options.learn:
        raise UserError("--untrained is given without --learn, whose control it is.")
    names = ("method", "group", "test", "learn", "untrained", "restarts")
    given = {name: getattr(options, name) for name in names} | computing(options)
    aligned = align_networks(options.model, options.A, options.B, options.data, **given)
    models = aligned.models
    path = None if models.scored is None else aligned.curve(options.lambdas, repair=options.repair)
    of_path = None if path is None else barriers(path, ["aligned"])
    told = aligned.summary(of_path, options.repair)

    with written(options, RESULTS, told) as staged:
        _write(options, aligned, staged)
        if path is not None and of_path is not None:
            write_table(staged / "curve.csv", path)
            write_table(staged / "barriers.csv", of_path)
            _draw(path, options.metric or LOSSES[str(models.task)], staged)


def _write(options: Namespace, aligned: Aligned, folder: Path) -> None:
    """What was found, without the line."""
    files = aligned.models.files
    _write_permuted(aligned.permuted, files[1], folder)
    header = {"method": options.method, "seed": options.seed}
    header |= {f"{name}_sha256": sha256(weights) for name, weights in zip("AB", files, strict=True)}
    numbers = {group: pi.astype(np.int64) for group, pi in aligned.permutations.items()}
    write_tensors(folder / "permutations.safetensors", numbers, "permutations", header)
    if aligned.signs:
        signs = {f"{n}.{aligned.flips[n].group}": of_flip.astype(np.int64) for n, of_flip in aligned.signs.items()}
        turned = {f"{n}.{flip.group}": sorted(flip.turned) for n, flip in enumerate(aligned.flips)}
        write_tensors(folder / "signs.safetensors", signs, "signs", header | {"turned": turned})
    if aligned.reference is not None:
        save_file(unshared(aligned.reference), folder / "reference.safetensors", metadata=files[0].metadata or None)
        write_tensors(folder / "transforms.safetensors", aligned.transforms, "transforms", header)
    if aligned.learned is not None:
        write_table(folder / "learned.csv", aligned.learned.scores)
    write_text(folder / "spec.json", spec_as_json(aligned.spec))
    write_table(folder / "matching.csv", aligned.matching)


def _write_permuted(permuted: dict[str, Tensor], B: Weights, folder: Path) -> None:
    """A file; or a folder of shards with the names, list and config of B's, as libraries of models read them."""
    if B.index is None:
        shards = {folder / "permuted.safetensors": list(permuted)}
    else:
        (folder / "permuted").mkdir()
        shards = {folder / "permuted" / file.name: names for file, names in B.shards.items()}
        # Without what stands beside the network, which no shard holds.
        listed = json.loads(B.index.read_text())
        listed["weight_map"] = {name: file for name, file in listed["weight_map"].items() if name in permuted}
        (folder / "permuted" / B.index.name).write_text(json.dumps(listed, indent=2))
        if (config := B.index.with_name(CONFIG)).is_file():
            shutil.copyfile(config, folder / "permuted" / CONFIG)
    for file, names in tqdm(shards.items(), desc="writing", unit="file", leave=False, disable=None):
        save_file(unshared({name: permuted[name] for name in names}), file, metadata=B.metadata or None)


def _draw(path: pd.DataFrame, loss: str, folder: Path) -> None:
    style = Style()
    with apply_style(style):
        save(path_figure(path, loss, style), folder / "curve.pdf", folder / "curve.png", dpi=style.dpi)


def path_figure(curves: pd.DataFrame, loss: str, style: Style) -> Figure:
    """Loss (and accuracy in percent, if there is one) against lambda, a line unaligned and one aligned.

    Args:
        curves: columns ``aligned``, ``lambda``, ``loss``, ``accuracy``.
        loss: the loss by name.
    """
    colors = palette(style)
    looks = {"B as it is": Look(colors[3], (0, (5, 2)), "o"), "B aligned to A": Look(colors[0], "-", "o")}
    measured = {loss: curves["loss"]}
    if curves["accuracy"].notna().any():
        measured["accuracy (%)"] = 100 * curves["accuracy"]
    figure, axes = panels(1, len(measured), COLUMN if len(measured) == 1 else PAGE, 2.6, sharey=False)
    for axis, (name, values) in zip(axes[0], measured.items(), strict=True):
        for aligned, look in zip((False, True), looks.values(), strict=True):
            line = curves["aligned"] == aligned
            axis.plot(curves.loc[line, "lambda"], values[line], color=look.color, linestyle=look.linestyle)
            ends = line & curves["lambda"].isin((0.0, 1.0))
            axis.plot(curves.loc[ends, "lambda"], values[ends], color=look.color, linestyle="", marker=look.marker)
        axis.set_xlabel(POSITION)
        axis.set_ylabel(name)
        axis.margins(x=0.03)
        axis.grid(axis="y", color="0.92", linewidth=0.7)
        axis.set_axisbelow(True)
    legend(figure, handles(looks, marker=False), "")
    return figure
