"""Tables of networks minimised to collapse: what each is like, how far over the least known loss, and on what."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional

from symlab.measures.collapse import collapse_metrics
from symlab.measures.job import Job
from symlab.papers.neural_collapse.evidence import INPUTS, SETTING
from symlab.papers.neural_collapse.made_data import free_optimum, least_free_loss
from symlab.papers.neural_collapse.networks import build_network, margin_loss
from symlab.papers.neural_collapse.samples import Samples, rank_with_constant, samples_of, within_over_between
from symlab.papers.neural_collapse.settings import Runs, penalties_of
from symlab.papers.neural_collapse.trained_runs import losses_of, networks_of, objective_on, states_of
from symlab.seeds import torch_generator
from symlab.study.points import Result

FREE_ITERATIONS, FREE_STARTS = 2000, 2
UNDEFINED = ("NC2A", "NC2B", "NC3", "NC3_centred", "NC2A_centred", "NC1_row", "NC1_null")
"""Metrics that no simplex bounds where labels are mixed."""


def tabulate_runs(results: Sequence[Result], grids: Sequence[Runs], job: Job) -> dict[str, pd.DataFrame]:
    """Rows of all networks, of their layers, of the best of each depth, and of the samples, as the card tells them."""
    runs, layers, samples, free = [], [], [], {}
    drawn: tuple[Any, ...] = ()
    for each in results:
        grid, name = each.settings, each.point["dataset"]
        if (grid, name) != drawn:  # All depths of a grid have the same.
            drawn, read = (grid, name), samples_of(grid, job.datasets[name])
            samples.append(_describe_samples(grid, read, name))
        key = _describe(grid, each.point, read)
        of_free = tuple(key[name] for name in (*INPUTS, "loss", "output_bias", "last_penalty", "width"))
        if of_free not in free:
            free[of_free] = least_free(grid, read, key["last_penalty"])
        networks, of_layers = _measured(each, read, job, key | {"free": free[of_free]})
        runs += networks
        layers += of_layers
    table = pd.DataFrame(runs)
    optima = least_known(table)
    return {
        "collapse_runs.csv": gaps_over(table, optima),
        "collapse_layers.csv": pd.DataFrame(layers),
        "collapse_optima.csv": optima,
        "collapse_samples.csv": pd.DataFrame(samples).drop_duplicates(ignore_index=True),
    }


def least_known(runs: pd.DataFrame) -> pd.DataFrame:
    """The least loss that is known of each setting and depth, and what gave it.

    A deeper network contains a shallower one with blocks of zeros, and that without branches, at a penalty that is no
    higher: so the least cannot rise with depth.
    """
    rows = []
    for keys, of_setting in runs[runs["optimizer"] == "lbfgs"].groupby(SETTING, sort=False):
        before = math.inf
        for L, of_depth in of_setting.groupby("L"):
            at = of_depth["total"].idxmin()
            reference, grown = of_depth.loc[at, ["reference", "grown"]]
            by = "reference" if reference else "grown" if grown else "from scratch"
            found = {by: of_depth["total"].min(), "without branches": of_depth["without"].min(), "depth before": before}
            by, before = min(found.items(), key=lambda item: math.inf if math.isnan(item[1]) else item[1])
            rows.append({**dict(zip(SETTING, keys, strict=True)), "L": L, "least": before, "by": by}
                        | {name: of_depth[name].min() for name in ("free", "without")})  # fmt: skip
    return pd.DataFrame(rows)


def gaps_over(runs: pd.DataFrame, optima: pd.DataFrame) -> pd.DataFrame:
    """The table of runs with the ``gap`` of each loss over the least that is known."""
    best = optima.set_index([*SETTING, "L"])["least"]
    least = best.reindex(pd.MultiIndex.from_frame(runs[[*SETTING, "L"]])).to_numpy()
    return runs.assign(gap=runs["total"] / least - 1)


def least_free(grid: Runs, samples: Samples, penalty: float) -> float:
    """The least loss of free features: in closed form, or the best of a few random starts."""
    if not grid.every_token and grid.loss != "margins":
        return least_free_loss(grid.loss, grid.width, samples.classes, penalty, grid.has_bias)
    y, loss = torch.arange(samples.classes), margin_loss
    if grid.every_token:
        labels, shares = mixed_labels(samples)[1:]
        y = torch.arange(len(labels))

        def loss(outputs: Tensor, y: Tensor) -> Tensor:
            return -(shares[:, None] * labels * outputs.log_softmax(dim=1)).sum()

    generator = torch_generator("free features", grid.loss)
    arguments = (y, samples.classes, grid.width, penalty, loss, grid.has_bias, FREE_ITERATIONS, generator)
    return min(free_optimum(*arguments)[0] for _ in range(FREE_STARTS))


def mixed_labels(samples: Samples) -> tuple[Tensor, Tensor, Tensor]:
    """Of texts by token: places of distinct contexts among all tokens and the kind of each, kinds' labels and shares.

    Contexts of one kind have the same mix of next words; a share counts their tokens.

    Returns:
        [contexts, 2] (place, kind), [kinds, k], [kinds].
    """
    contexts = pd.Series([tuple(words[: at + 1]) for words in samples.x.tolist() for at in range(len(words))])
    following = functional.one_hot(samples.y.flatten(), samples.classes).double()
    counts = torch.zeros(contexts.nunique(), samples.classes).double()
    counts.index_add_(0, torch.from_numpy(contexts.factorize()[0]), following)
    kinds, mixes = pd.Series([tuple(mix) for mix in (counts / counts.sum(1, keepdim=True)).tolist()]).factorize()
    places, of_kind = torch.tensor(contexts.drop_duplicates().index.to_numpy()), torch.from_numpy(kinds)
    shares = torch.zeros(len(mixes)).double().index_add_(0, of_kind, counts.sum(1))
    return torch.stack([places, of_kind], 1), torch.tensor(list(mixes)).double(), shares / shares.sum()


def _describe(grid: Runs, point: dict[str, Any], samples: Samples) -> dict[str, Any]:
    hidden, last = penalties_of(grid.penalty, grid.by_depth, point["L"])
    names = ("network", "pre_norm", "loss", "by_depth", "every_token", "penalty", "width", "pool", "grown", "optimizer")
    named = {"dataset": point["dataset"], **{name: getattr(grid, name) for name in names}, "patch": grid.patch or 0}
    N = len(mixed_labels(samples)[0]) if grid.every_token else len(samples.y)
    sizes = {"output_bias": grid.has_bias, "N": N, "classes": samples.classes, "L": point["L"]}
    return {**named, **sizes, "hidden_penalty": hidden, "last_penalty": last}


def _describe_samples(grid: Runs, samples: Samples, name: str) -> dict[str, Any]:
    x, N = samples.x, len(samples.y)
    if grid.every_token:
        N, rank = len(mixed_labels(samples)[0]), len(torch.unique(x)) + x.shape[1] - 1
    elif grid.transformer and samples.image is None:
        rank = len(torch.unique(x[:, -1]))
    else:
        if samples.image is not None and grid.patch is not None:
            side = math.isqrt(x.shape[1] // samples.image[0])
            x = x.unflatten(1, (samples.image[0], side, side))[:, :, -grid.patch :, -grid.patch :].flatten(1)
        rank = rank_with_constant(x)
    key = {"dataset": name, "pool": grid.pool, "patch": grid.patch or 0, "every_token": grid.every_token}
    return {**key, "N": N, "rank": rank}


def _measured(result: Result, samples: Samples, job: Job, key: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Rows of a point's networks, and of their layers."""
    grid, found = result.settings, result.found
    build, networks, layers = partial(build_network, grid, samples, result.point["L"]), list[Any](), list[Any]()
    for member, network in enumerate(networks_of(build, states_of(found, "state"))):
        reference, total = member == grid.seeds, float(found["objective"][member])
        row = {**key, "reference": reference, "seed": -1 if reference else member, "total": total}
        row |= {name: float(found[name][member]) for name in ("gradient", "work")}
        metrics, of_layers = _metrics(grid, network.to(job.device), samples, job.device)
        networks.append(row | {"without": float(found["without"][0])} | metrics)
        told = {name: row[name] for name in (*SETTING, "grown", "optimizer", "reference", "seed", "L")}
        layers += [told | {"layer": layer, "NC1": NC1} for layer, NC1 in enumerate(of_layers, 1)]
    return networks, layers


@torch.no_grad()
def _metrics(grid: Runs, network: Any, samples: Samples, device: str) -> tuple[dict[str, float], list[float]]:
    """A network's losses and metrics in float64, and NC1 after every layer."""
    data = objective_on(grid, samples).widened()
    x, y = data.x_train.to(device), data.y_train.to(device)
    x_test, y_test = samples.x_test.double().to(device), samples.y_test.to(device)
    features, outputs, W = network.features(x), network(x), network.readout.weight
    K, nan = samples.classes, torch.tensor(math.nan)
    if grid.every_token:
        places, kinds = mixed_labels(samples)[0].to(device).unbind(1)
        NC1 = [within_over_between(layer[places], kinds, int(kinds.max()) + 1) for layer in features]
        found: dict[str, Any] = {"NC1": NC1[-1], **dict.fromkeys(UNDEFINED, nan)}
    else:
        NC1 = [within_over_between(layer, y, K) for layer in features]
        found = collapse_metrics(features[-1], W, y, shifts=grid.loss != "cross_entropy")
    penalties = penalties_of(grid.penalty, grid.by_depth, len(network.blocks) + (not grid.transformer))
    found |= losses_of(network, replace(data, x_train=x, y_train=y), penalties)
    found["NC1_test"] = nan if grid.every_token else within_over_between(network.features(x_test)[-1], y_test, K)
    found["accuracy"] = (outputs.argmax(dim=-1) == y).double().mean()
    found["accuracy_test"] = (network(x_test).argmax(dim=-1) == y_test).double().mean()
    return {name: float(value) for name, value in found.items()}, [float(value) for value in NC1]
