"""How alike neurons of the last hidden layer are: correlations of what they compute, distances of their weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call, vmap

from symlab.alignment.forward import batch_rows, outputs
from symlab.errors import UserError
from symlab.identifiability.recording import linear_maps
from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.settings import Homogeneity
from symlab.seeds import numpy_rng
from symlab.symmetries.mirrors import State, hessian_times, inner, unit
from symlab.training.models import Models, move
from symlab.training.settings import Recipe
from symlab.training.stacks import losses

if TYPE_CHECKING:
    from symlab.data.dataset import Dataset

DEAD = 1e-12
"""Variance of a neuron over the samples up to which it is dead: the mirror theta_a = 0."""
AT_ONCE = 10
"""Pairs whose curvatures are taken in one pass; each has a copy of what the last hidden layer gives."""


def measure_homogeneity(models: Models, data: Dataset, settings: Homogeneity, job: Job) -> dict[str, Any]:
    """Neurons of the last hidden layer at the end of training.

    Returns:
        ``homogeneity.csv``: a row a network and ``kind`` (pre, post activation): shares of the pairs of live neurons
        whose correlation is above ``correlated`` (``positive``) and below its negative (``negative``), and ``close``,
        whose weights are merged; ``participation``, (sum of eigenvalues)^2 / sum of squares of the correlation matrix;
        ``dead`` and ``live`` neurons.
        ``neuron_correlations.parquet``: of the block's first network the matrix of live neurons, in the order of its
        leading eigenvector: ``kind``, ``i``, ``j``, ``correlation``.
        ``neuron_pairs.csv``: a row a pair of live neurons: its ``distance`` and ``curvature``, n^T H n + the decay of
        theta at the pair's mean in the direction n in which they differ.
    """
    x = torch.from_numpy(data.split("test")[0][: settings.samples]).to(job.device)
    module = models.module().to(job.device)
    if len(linear_maps(module)) < 2:
        raise UserError(
            f"homogeneity looks at the last hidden layer, but network {models.header['network']['name']} has no linear "
            "map before its readout; give resnet18 network.head, or leave homogeneity out of this study."
        )
    decay = Recipe(**models.header["recipe"]).weight_decay
    rows, matrices, pairs = [], [], []
    for position, replica in enumerate(models.replicas):
        state = move(models.state(models.epochs[-1], position), job.device)
        which = {"mask_seed": replica.mask_seed, "seed": replica.seed, "weight_decay": decay}
        theta = neuron_weights(module, state)
        distance = weight_distances(theta)
        for kind, values in activations(module, state, x).items():
            live = values.var(dim=0) > DEAD
            C = torch.corrcoef(values[:, live].T) if int(live.sum()) > 1 else values.new_ones(1, 1)
            found = describe(C, distance[live][:, live], settings)
            rows.append({**which, "kind": kind, "dead": int((~live).sum()), "live": int(live.sum()), **found})
            if position == 0:
                matrices.append(_sorted(C).assign(kind=kind, weight_decay=decay))
        if settings.curvatures and models.header["scheme"]["name"] == "standard":
            pairs.append(_curvatures(module, state, data, distance, settings, job, which))
    return {
        "homogeneity.csv": pd.DataFrame(rows),
        "neuron_correlations.parquet": pd.concat(matrices, ignore_index=True),
        "neuron_pairs.csv": pd.concat(pairs, ignore_index=True) if pairs else pd.DataFrame(columns=PAIRS),
    }


PAIRS = ["mask_seed", "seed", "weight_decay", "a", "b", "distance", "curvature"]


def activations(module: nn.Module, state: State, x: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, "n m"]]:
    """What the last hidden layer's linear map gives (pre), and what the readout takes (post), in double precision."""
    *_, hidden, readout = (module.get_submodule(name) for name in linear_maps(module))
    found: dict[str, list[Tensor]] = {"pre": [], "post": []}
    hooks = [
        hidden.register_forward_hook(lambda _, inputs, output: found["pre"].append(output.double())),
        readout.register_forward_pre_hook(lambda _, inputs: found["post"].append(inputs[0].double())),
    ]
    try:
        for batch in x.split(batch_rows(x)):
            outputs(module, state, batch)
    finally:
        for hook in hooks:
            hook.remove()
    return {kind: torch.cat(parts) for kind, parts in found.items()}


def neuron_weights(module: nn.Module, state: State) -> Float[Tensor, "m p"]:
    """Incoming weights, bias and outgoing weights of each neuron of the last hidden layer, a row each."""
    *_, hidden, readout = linear_maps(module)
    parts = [state[f"{hidden}.weight"], state[f"{readout}.weight"].T]
    if f"{hidden}.bias" in state:
        parts.append(state[f"{hidden}.bias"][:, None])
    return torch.cat(parts, dim=1).double()


def weight_distances(theta: Float[Tensor, "m p"]) -> Float[Tensor, "m m"]:
    """|theta_a - theta_b| / (|theta_a| + |theta_b|): 0 for merged neurons, 1 / sqrt(2) for unrelated ones."""
    norms = theta.norm(dim=1)
    return torch.cdist(theta, theta, compute_mode="donot_use_mm_for_euclid_dist") / (
        norms[:, None] + norms[None, :]
    ).clamp(min=1e-300)


def describe(C: Float[Tensor, "m m"], distance: Float[Tensor, "m m"], settings: Homogeneity) -> dict[str, float]:
    """Shares of pairs that correlate, that correlate negatively and whose weights are close, and participation."""
    a, b = torch.triu_indices(len(C), len(C), offset=1)
    values = torch.linalg.eigvalsh(C)
    if not len(a):
        return {"positive": 0.0, "negative": 0.0, "close": 0.0, "participation": 1.0}
    return {
        "positive": float((C[a, b] > settings.correlated).double().mean()),
        "negative": float((C[a, b] < -settings.correlated).double().mean()),
        "close": float((distance[a, b] < settings.close).double().mean()),
        "participation": float(values.sum() ** 2 / values.square().sum()),
    }


def _sorted(C: Float[Tensor, "m m"]) -> pd.DataFrame:
    order = torch.linalg.eigh(C).eigenvectors[:, -1].argsort()
    C = C[order][:, order].cpu()
    i, j = (index.ravel().astype("int16") for index in np.indices(C.shape))
    return pd.DataFrame({"i": i, "j": j, "correlation": C.numpy().ravel().astype("float32")})


def _curvatures(
    module: nn.Module,
    state: State,
    data: Dataset,
    distance: Float[Tensor, "m m"],
    settings: Homogeneity,
    job: Job,
    which: dict[str, float],
) -> pd.DataFrame:
    """The closest pairs and as many drawn from the others, on the training samples."""
    x, y = (torch.from_numpy(part[: settings.samples]).to(job.device) for part in data.split("train"))
    *_, hidden, readout = linear_maps(module)
    module, x = module.double(), x.double()
    state = {name: value.double() for name, value in state.items()}
    own = {name: state[name] for name in (f"{hidden}.weight", f"{hidden}.bias", f"{readout}.weight") if name in state}

    def loss(at: State) -> Tensor:
        return losses(data.task, functional_call(module, {**state, **at}, (x,)), y)

    a, b = torch.triu_indices(len(distance), len(distance), offset=1)
    order = distance[a, b].argsort().cpu().numpy()
    half = min(settings.curvatures // 2, len(order) // 2)
    drawn = numpy_rng(job.study, job.variant, "curvatures", int(which["mask_seed"]), int(which["seed"]))
    pairs = [*order[:half], *drawn.choice(order[half:], half, replace=False)]
    across = vmap(lambda mean, n: inner(n, hessian_times(loss, mean, n)))
    rows = []
    for start in range(0, len(pairs), AT_ONCE):
        chosen = [(int(a[pair]), int(b[pair])) for pair in pairs[start : start + AT_ONCE]]
        means, directions = zip(*(_averaged(own, readout, i, j) for i, j in chosen), strict=True)
        # The layers before are the same for all pairs, so that vmap runs them once.
        mean, n = ({name: torch.stack([one[name] for one in each]) for name in own} for each in (means, directions))
        for (i, j), curvature in zip(chosen, across(mean, n).tolist(), strict=True):
            row = {"a": i, "b": j, "distance": float(distance[i, j]), "curvature": curvature + which["weight_decay"]}
            rows.append({**which, **row})
    module.float()
    return pd.DataFrame(rows, columns=PAIRS)


def _averaged(own: State, readout: str, i: int, j: int) -> tuple[State, State]:
    """The point where two neurons have the mean of their parameters, and the unit direction in which they differ."""
    mean, n = {}, {}
    for name, value in own.items():
        rows = value.T if name == f"{readout}.weight" else value
        at, off = rows.clone(), torch.zeros_like(rows)
        at[[i, j]] = (rows[i] + rows[j]) / 2
        off[i], off[j] = rows[i] - rows[j], rows[j] - rows[i]
        mean[name], n[name] = (part.T if name == f"{readout}.weight" else part for part in (at, off))
    return mean, unit(n)
