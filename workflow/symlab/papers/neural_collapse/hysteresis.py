"""Networks whose branches live, trained on at larger penalties: where they die, beside those from random weights."""

from __future__ import annotations

import pandas as pd
import torch

from symlab.data.samples import pooled_samples
from symlab.measures.job import Job
from symlab.networks.layernorm_resnet import LayerNormResNet
from symlab.papers.neural_collapse.growth import draw_networks, train_on
from symlab.papers.neural_collapse.resnet_stack import ResNetData
from symlab.papers.neural_collapse.settings import Hysteresis
from symlab.papers.neural_collapse.trained_runs import CollapseProbe, penalised_descent
from symlab.seeds import torch_generator
from symlab.training.objective import Replica


def raise_penalty(settings: Hysteresis, job: Job, dataset: str, L: int) -> dict[str, pd.DataFrame]:
    """Train L-RN2 at the least hidden penalty, and on from there at each of the others.

    Returns:
        ``critical_hysteresis.csv``: a row a network and penalty: ``weights``, the squared norm of a block's weights at
        the end, NC1, the ``total`` loss and ``accuracy``.
    """
    source = job.datasets[dataset]
    members, place = [Replica(0, seed) for seed in range(settings.seeds)], torch.device(job.device)
    x, y = pooled_samples(source, settings.pool, per_class=settings.per_class)
    data = ResNetData(x.to(place), y.to(place), x[:0], y[:0], "classification")
    network = LayerNormResNet(x.shape[1], source.n_classes, settings.width, L, 2)
    generators = [torch_generator(job.study, "hysteresis", dataset, L, seed) for seed in range(settings.seeds)]
    alive, tables = draw_networks(network, generators), []
    for step, hidden in enumerate(settings.hidden_penalty):
        recipe = penalised_descent(network, hidden, settings.last_penalty, settings.lr, settings.steps)
        state = train_on(network, alive, members, data, recipe)
        alive = state if step == 0 else alive
        measured = CollapseProbe(network, x, y, "classification", hidden, settings.last_penalty)(state)
        total = measured["fit"] + measured["hidden"] + measured["last"]
        weights = 2 * measured["hidden"] / hidden / (L - 1)
        key = {"dataset": dataset, "last_penalty": settings.last_penalty, "L": L, "hidden_penalty": hidden}
        columns = {"weights": weights, "total": total, "NC1": measured["NC1"], "accuracy": measured["accuracy"]}
        numbers = {name: values.tolist() for name, values in columns.items()}
        tables.append(pd.DataFrame({**key, "seed": range(settings.seeds), **numbers}))
        job.report(f"{dataset}, L = {L}, penalty {hidden:g}: squared weights of a block {weights.tolist()}")
    return {"critical_hysteresis.csv": pd.concat(tables, ignore_index=True)}
