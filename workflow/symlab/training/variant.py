"""Training one block of a variant's replicas from its spec: what a training job does."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from symlab.data.dataset import Dataset
from symlab.networks import INITS, NETWORKS, build
from symlab.schemes import SCHEMES
from symlab.settings import choose
from symlab.training.augmentation import black_values
from symlab.training.objective import Replica
from symlab.training.on_samples import TrainingData
from symlab.training.replicas import Run, TrainedBlock, train_block
from symlab.training.resume import Checkpoints
from symlab.training.settings import Recipe
from symlab.words import counted


def train_variant(
    spec: Mapping[str, Any],
    dataset: Dataset,
    device: str,
    report: Callable[[str], None],
    checkpoints: Checkpoints | None = None,
) -> tuple[TrainedBlock, dict[str, Any]]:
    """Train the replicas of a spec (``Study.training_spec``); the block, and the header of its artifact."""
    network = choose(NETWORKS, spec["network"])
    x_train, y_train, x_val, y_val = (torch.from_numpy(a) for name in ("train", "val") for a in dataset.split(name))
    black = () if dataset.image is None else black_values(dataset.mean, dataset.std, dataset.image[0])
    data = TrainingData(x_train, y_train, x_val, y_val, task=dataset.task, image=dataset.image, black=black)
    replicas = [Replica(*replica) for replica in spec["replicas"]]
    report(f"training {counted(len(replicas), 'replicas')} on {device}, torch {torch.__version__}")
    run = Run(
        build=lambda: build(network, dataset.n_inputs, dataset.n_outputs),
        objective=data,
        scheme=choose(SCHEMES, spec["scheme"]),
        init=choose(INITS, spec["init"]),
        recipe=Recipe.from_spec(spec["recipe"]),
        snapshots=spec["epochs"],
        key=(spec["study"], spec["variant"]),
        device=device,
    )
    block = train_block(run, replicas, report, checkpoints)
    named = {name: spec[name] for name in ("study", "variant", "network", "init", "scheme", "recipe")}
    return block, {**named, "n_inputs": dataset.n_inputs, "n_outputs": dataset.n_outputs}
