"""Train the students of one grid: every combination of teacher, dimension, width and learning rate, from many seeds."""

from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch

from symlab.artifacts import write_tensors
from symlab.job import run
from symlab.papers.permutation_invariance.grid import points
from symlab.papers.permutation_invariance.training import kept_or_made, train_students


def main(snakemake, report):
    torch.set_num_threads(snakemake.threads)
    grid = snakemake.params.spec
    key = (grid["study"], grid["role"])
    # Not the whole grid: what was finished before a point is added is of use after.
    of_runs = {name: grid[name] for name in ("study", "role", "runs", "steps", "stop_below", "batch")}
    code = {"code": snakemake.params.library, "torch": torch.__version__}
    folder, minutes = Path(snakemake.params.checkpoints), snakemake.config["checkpoint_minutes"]
    tensors, trained_at = {}, []
    for point in points(grid):
        make = partial(train_students, point, range(grid["runs"]), grid, key)
        same = {"spec": {**of_runs, **asdict(point)}, **code}
        trained = kept_or_made(folder, point.name, same, make, minutes, report)
        tensors |= {f"{point.name}/{name}": tensor.numpy() for name, tensor in trained.items()}
        trained_at.append(asdict(point))
        report(f"{point.name}: {grid['runs']} students, {int(trained['steps'].max())} steps at most")
    write_tensors(snakemake.output.students, tensors, "students", {"points": trained_at, "grid": grid})


run(main, snakemake)
