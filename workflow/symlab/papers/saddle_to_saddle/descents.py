"""Descents from near the origin, and what the weights are at given drops of the loss."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from symlab.measures.job import Job
from symlab.papers.saddle_to_saddle.chain import Origin, draw_weights, origin_of, run_layers
from symlab.papers.saddle_to_saddle.localized_loss import (
    escape_of,
    first_direction,
    layer_ratios,
    speed_budget,
    squared_singular_values,
    to_sphere,
)
from symlab.papers.saddle_to_saddle.settings import LEFT, Descents
from symlab.seeds import torch_generator
from symlab.training.fastest_neuron import fastest_neuron
from symlab.training.flow import Place, follow_flow, norm_of

SINGULAR = 10
"""Singular values that are kept, as many as the paper shows."""
STRIDE, WINDOW = 1.05, 5
"""Beyond it weights are kept whenever s has grown so, and the loss is flattest where it falls least in so many."""
NEXT = ("next_speed", "gained_speed", "cosine", "second_gained")
LOOK, FLAT = 10, 1e-7
"""SGD looks at the loss on all samples every so many steps while it has dropped by less than this, then at each."""


def descend_from_origin(
    settings: Descents, job: Job, dataset: str, L: int, std: float, activation: str, rule: str, h: float, seed: int
) -> dict[str, pd.DataFrame]:
    """Follow one network from its initial weights until the loss has dropped by the last of ``drops``.

    The room's card says what its tables hold; rows of layers and spectra are in float32.
    """
    dtype = getattr(torch, settings.precision)
    origin = origin_of(job.datasets[dataset], settings.pool, settings.samples, activation == "identity", dtype)
    sizes = [len(origin.X), *[settings.width] * (L - 1), len(origin.target)]
    start = draw_weights(sizes, std, torch_generator("origin", job.study, dataset, L, seed), dtype)
    if rule == "flow":
        way = follow_flow(start, origin.slope, h, power=L - 2, heun=settings.heun, rate=settings.rate)
    else:
        batches = torch_generator("batches", job.study, dataset, L, seed)
        batch_size = settings.batch_size if rule == "sgd" else origin.X.shape[1]
        way = follow_sgd(start, origin, settings.lr, L - 2, batch_size, batches)
    key = {"dataset": dataset, "L": L, "width": settings.width, "std": std, "activation": activation, "rule": rule}
    key |= {"h": h, "ends": max(settings.drops), "seed": seed}
    speed, v = fastest_neuron(origin.X, origin.G, origin.linear)
    tables: dict[str, list[dict[str, Any]]] = {"events": [], "layers": [], "course": [], "spectra": []}
    waiting = [0.0, *sorted(settings.drops)]
    passed: list[Place] = []
    for number, place in enumerate(way):
        now = {**key, "gradients": place.gradients, "s": place.clock, "drop": place.seen}
        while waiting and place.seen >= (waiting[0] or -math.inf):
            event = {"event": waiting.pop(0)}
            tables["events"].append({**now, **event, "one_neuron": speed, **measure_whole(place, origin, v)})
            tables["layers"] += [{**key, **event, **layer} for layer in measure_layers(place, origin, start)]
        over = not waiting or place.gradients >= settings.gradients
        if number % settings.every == 0 or over:
            tables["course"].append({**now, "norm": norm_of(place.W), "slope": place.slope})
            tables["spectra"] += [{**now, **row} for row in spectra(place.W)] if seed == 0 else []
        if place.seen > LEFT and (not passed or place.clock > STRIDE * passed[-1].clock):
            passed.append(place)
        if over:
            break
    after = next_escape(place, passed, origin) if max(settings.drops) > LEFT and passed else {}
    next_row = {**now, "left": int(not waiting), **after}
    found = {name: pd.DataFrame(rows) for name, rows in tables.items()}
    found["next"] = pd.DataFrame([next_row]).reindex(columns=[*now, "left", *NEXT])
    for name in ("layers", "spectra"):
        measured = found[name].columns.difference([*now, "event", "layer"])
        found[name] = found[name].astype(dict.fromkeys(measured, "float32"))
    return {f"escape_{name}.csv": rows for name, rows in found.items()}


@torch.no_grad()
def follow_sgd(
    start: Sequence[Tensor], origin: Origin, lr: float, power: int, batch_size: int, batches: torch.Generator
) -> Iterator[Place]:
    """The places of theta <- theta - lr / |theta|^power g at which the loss on all samples is looked at.

    The gradient g is that of a batch; batches go through the samples in an order that is drawn anew for each pass.
    """
    W, moved = list(start), [torch.zeros_like(W_l) for W_l in start]
    n, steps, drop = origin.X.shape[1], 0, 0.0
    while True:
        for rows in torch.randperm(n, generator=batches).split(batch_size):
            if steps % LOOK == 0 or drop > FLAT:
                drop = origin.drop(run_layers(W, origin.X, origin.linear)[0][-1])
                yield Place(W, moved, lr * steps, steps, math.nan, drop)
            gradient, _ = origin.slope(W, rows)
            rate = lr / norm_of(W) ** power
            moved = [m - rate * g for m, g in zip(moved, gradient, strict=True)]
            W = [W_0 + m for W_0, m in zip(start, moved, strict=True)]
            steps += 1


def measure_whole(place: Place, origin: Origin, v: Tensor) -> dict[str, float]:
    """What the weights theta are from the origin's point of view.

    Returns:
        ``norm``; ``speed`` and ``residual``, which is 0 along an escape direction; ``cosine`` of the first layer's
        first input direction to v, the fastest neuron's; ``lost_output`` of the speed budget.
    """
    W, X, G = _double(place.W), origin.X.double(), origin.G.double()
    speed, residual = map(float, escape_of(W, X, G, origin.linear))
    # Nothing leaves where the localized loss is not negative.
    found = {"norm": norm_of(W), "speed": speed, "residual": residual if speed > 0 else math.nan}
    found["cosine"] = abs(float(first_direction(W[0]) @ v.double()))
    if not origin.linear:
        found["lost_output"] = float(speed_budget(to_sphere(W), X, G)["output", len(W) + 1])
    return found


def measure_layers(place: Place, origin: Origin, start: Sequence[Tensor]) -> list[dict[str, float]]:
    """What each layer is, the inputs' as layer 0.

    Returns:
        Of W_l ``second``, its second singular value over the first; of W_l - W_l(0) A (``A_change``); B of Z_l^s and D;
        ``one_sign``, the share of the square of W_l's first right singular vector that entries of one sign have;
        ``strong``, |W_(l+1)^T W_(l+1) - W_l W_l^T| over |W_l W_l^T|, and ``drift``, by how much the diagonal of that
        difference has changed, over |theta|^2 / L; the terms of the speed budget, ``lost_norms``, ``lost_rank``,
        ``lost_cut`` and ``lost_alignment``.
    """
    W, X, G = _double(place.W), origin.X.double(), origin.G.double()
    ratios, L = layer_ratios(W, X, origin.linear), len(W)
    rows: list[dict[str, float]] = [{"layer": layer} for layer in range(L + 1)]
    for W_l, dW_l, row in zip(W, _double(place.moved), rows[1:], strict=True):
        values, change = squared_singular_values(W_l), squared_singular_values(dW_l)
        row["second"] = float((values[1] / values[0]).sqrt())
        row["A_change"] = float(change[1:].sum() / change.sum())
        v = first_direction(W_l)
        row["one_sign"] = max(float(part.square().sum()) for part in (v.clamp_min(0), v.clamp_max(0)))
    for layer in range(1, L):
        before, now = (_imbalance(each[layer - 1], each[layer]) for each in (_double(start), W))
        rows[layer]["strong"] = float(now.norm() / (W[layer - 1] @ W[layer - 1].mT).norm())
        rows[layer]["drift"] = float((now - before).diagonal().norm()) * L / norm_of(W) ** 2
    for layer in range(L):
        rows[layer]["B"] = float(ratios["B"][layer])
        rows[layer + 1] |= {"D": float(ratios["D"][layer])} if layer < L - 1 else {}
    if not origin.linear:
        for (term, layer), lost in speed_budget(to_sphere(W), X, G).items():
            if term != "output":
                rows[layer][f"lost_{term}"] = float(lost)
    return rows


def _imbalance(W_l: Tensor, above: Tensor) -> Tensor:
    return above.mT @ above - W_l @ W_l.mT


def spectra(W: Sequence[Tensor]) -> list[dict[str, float]]:
    """The largest singular values of every layer."""
    values = [squared_singular_values(W_l)[:SINGULAR].sqrt().tolist() for W_l in _double(W)]
    return [
        {"layer": layer, **{f"s{place}": value for place, value in enumerate(each, start=1)}}
        for layer, each in enumerate(values, start=1)
    ]


def next_escape(place: Place, passed: Sequence[Place], origin: Origin) -> dict[str, float]:
    """What new neurons would do at the second plateau, and what the weights have done since.

    There the cost's gradient by the outputs is another G, and neurons of small weights beside the network leave it as
    they leave the origin. The plateau is where the loss is flattest over log s among the places passed.

    Returns:
        ``next_speed``, of one new neuron; ``gained_speed``, of the direction of what the weights have gained, in the
        localized loss of the new G; ``cosine`` of its first layer to the neuron's; ``second_gained``, its second over
        its first singular value, of the layer where that is largest.
    """
    drops = [each.seen for each in passed]
    falls = [abs(after - before) for before, after in zip(drops, drops[WINDOW:], strict=False)]
    lowest = passed[falls.index(min(falls)) if falls else 0]
    X, W = origin.X.double(), _double(lowest.W)
    G = origin.by_outputs(run_layers(W, X, origin.linear)[0][-1])
    speed, v = fastest_neuron(X, G, origin.linear)
    gained = [after - before for after, before in zip(_double(place.W), W, strict=True)]
    if not any(dW_l.any() for dW_l in gained):
        return {"next_speed": speed}
    values = [squared_singular_values(dW_l).sqrt() for dW_l in gained]
    return {
        "next_speed": speed,
        "gained_speed": float(escape_of(gained, X, G, origin.linear).speed),
        "cosine": abs(float(first_direction(gained[0]) @ v)),
        "second_gained": max(float(of_layer[1] / of_layer[0]) for of_layer in values),
    }


def _double(W: Sequence[Tensor]) -> list[Tensor]:
    return [W_l.double() for W_l in W]
