"""How alike neurons of the last hidden layer are: correlations of what they compute, distances of their weights."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from scipy.cluster.hierarchy import leaves_list, linkage
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import linear

from symlab.errors import UserError
from symlab.identifiability.recording import layer_inputs, linear_maps
from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.deep.trained_with import momentum_of, trained_with
from symlab.papers.mirror_symmetry.mirror_forms import hessian_times
from symlab.papers.mirror_symmetry.settings import Homogeneity
from symlab.seeds import numpy_rng
from symlab.symmetries.mirrors import Mirror, State, inner, relative_distances, unit
from symlab.training.models import Models, move
from symlab.training.samples import losses
from symlab.training.settings import Recipe

if TYPE_CHECKING:
    from symlab.data.dataset import Dataset

DEAD = 1e-12
"""Variance of a neuron over the samples up to which it is dead: the mirror theta_a = 0."""
EXACT: dict[str, Any] = {"compute_mode": "donot_use_mm_for_euclid_dist"}
AT_ONCE = 10
"""Pairs whose curvatures are taken in one pass; each has a copy of what the last hidden layer gives."""


def measure_homogeneity(models: Models, data: Dataset, settings: Homogeneity, job: Job) -> dict[str, Any]:
    """Neurons of the last hidden layer at the end of training."""
    x = torch.from_numpy(data.split("test")[0][: settings.samples]).to(job.device)
    module = models.module().to(job.device)
    if len(linear_maps(module)) < 2:
        raise UserError(
            f"homogeneity looks at the last hidden layer, but network {models.header['network']['name']} has no linear "
            "map before its readout; give resnet18 network.head, or leave homogeneity out of this study."
        )
    trained = trained_with(models, len(data.split("train")[0]))
    rows, matrices, pairs = [], [], []
    for position, replica in enumerate(models.replicas):
        which = {"mask_seed": replica.mask_seed, "seed": replica.seed, **trained}
        for epoch in sorted({0, models.epochs[-1]} & {*models.epochs}):
            state = move(models.state(epoch, position), job.device)
            distance = relative_distances(neuron_weights(module, state))
            for kind, values in activations(module, state, x).items():
                live = values.var(dim=0) > DEAD
                C = torch.corrcoef(values[:, live].T) if int(live.sum()) > 1 else values.new_ones(1, 1)
                found = describe(C, distance[live][:, live], settings)
                count = {"epoch": epoch, "kind": kind, "dead": int((~live).sum()), "live": int(live.sum())}
                rows.append({**which, **count, **found})
                if position == 0 and epoch == models.epochs[-1]:
                    matrices.append(_clustered(C).assign(kind=kind, **trained))
        if settings.curvatures and models.header["scheme"]["name"] == "standard":
            pairs.append(_curvatures(module, models, position, data, settings, job, which))
    return {
        "homogeneity.csv": pd.DataFrame(rows),
        "neuron_correlations.parquet": pd.concat(matrices, ignore_index=True),
        "neuron_pairs.csv": pd.concat(pairs, ignore_index=True) if pairs else pd.DataFrame(columns=PAIRS),
    }


PAIRS = ["mask_seed", "seed", "weight_decay", "budget", "epoch", "a", "b", "near", "distance", "change", "merged"]
PAIRS += ["curvature", "exponent"]


def activations(module: nn.Module, state: State, x: Float[Tensor, "n d"]) -> dict[str, Float[Tensor, "n m"]]:
    """What the last hidden layer's linear map gives (pre), and what the readout takes (post), in double precision."""
    *_, hidden, readout = linear_maps(module)
    read = layer_inputs(module, state, x)
    pre = linear(read[hidden], state[f"{hidden}.weight"], state.get(f"{hidden}.bias"))
    return {"pre": pre.double(), "post": read[readout].double()}


def neuron_weights(module: nn.Module, state: State) -> Float[Tensor, "m p"]:
    """Incoming weights, bias and outgoing weights of each neuron of the last hidden layer, a row each."""
    *_, hidden, readout = linear_maps(module)
    parts = [state[f"{hidden}.weight"], state[f"{readout}.weight"].T]
    if f"{hidden}.bias" in state:
        parts.append(state[f"{hidden}.bias"][:, None])
    return torch.cat(parts, dim=1).double()


def describe(C: Float[Tensor, "m m"], distance: Float[Tensor, "m m"], settings: Homogeneity) -> dict[str, float]:
    """Shares of pairs that correlate, that correlate negatively and whose weights are close."""
    a, b = torch.triu_indices(len(C), len(C), offset=1)
    if not len(a):
        return {**dict.fromkeys(("positive", "negative", "close", "merged"), 0.0), "closest": float("nan")}
    close = distance[a, b] < settings.close
    return {
        "positive": float((C[a, b] > settings.correlated).double().mean()),
        "negative": float((C[a, b] < -settings.correlated).double().mean()),
        "close": float(close.double().mean()),
        "merged": int(close.sum()),
        "closest": float(distance[a, b].min()),
    }


def _clustered(C: Float[Tensor, "m m"]) -> pd.DataFrame:
    """The matrix with like neurons beside each other: the leaves of an average linkage of 1 - correlation."""
    C = C.cpu()
    if len(C) > 2:
        apart = (1 - C).clamp(min=0).numpy()
        order = leaves_list(linkage(apart[np.triu_indices(len(C), 1)], "average"))
        C = C[order][:, order]
    i, j = (index.ravel().astype("int16") for index in np.indices(C.shape))
    return pd.DataFrame({"i": i, "j": j, "correlation": C.numpy().ravel().astype("float32")})


def _curvatures(
    module: nn.Module,
    models: Models,
    position: int,
    data: Dataset,
    settings: Homogeneity,
    job: Job,
    which: dict[str, Any],
) -> pd.DataFrame:
    """The closest pairs and as many drawn from the others, on the training samples; and how they went on from there.

    At the last snapshot before the end; at the end, where there is none but that of epoch 0.
    """
    recipe = Recipe(**models.header["recipe"])
    *_, epoch, last = [0, 0, *models.epochs]
    epoch = epoch or last
    state, end = (move(models.state(each, position), job.device) for each in (epoch, last))
    before, after = (neuron_weights(module, each) for each in (state, end))
    distance, later = relative_distances(before), relative_distances(after)
    # NaN where a network has diverged since, or a pair was one already.
    change = (torch.cdist(after, after, **EXACT) / torch.cdist(before, before, **EXACT)).log()
    x, y = (torch.from_numpy(part[: settings.samples]).to(job.device) for part in data.split("train"))
    *_, hidden, readout = linear_maps(module)
    module, x = module.double(), x.double()
    state = {name: value.double() for name, value in state.items()}
    own = {name: state[name] for name in (f"{hidden}.weight", f"{hidden}.bias", f"{readout}.weight") if name in state}

    def across(rows: Tensor, mean: State, n: State) -> Tensor:
        def loss(at: State) -> Tensor:
            return losses(data.task, functional_call(module, {**state, **at}, (x[rows],)), y[rows])

        return inner(n, hessian_times(loss, mean, n))

    a, b = torch.triu_indices(len(distance), len(distance), offset=1)
    order = distance[a, b].argsort().cpu().numpy()
    half = min(settings.curvatures // 2, len(order) // 2)
    drawn = numpy_rng(job.study, job.variant, "curvatures", which["mask_seed"], which["seed"])
    pairs = [*order[:half], *drawn.choice(order[half:], half, replace=False)]
    size = min(recipe.batch_size or len(x), len(x))
    batches = torch.arange(len(x))[: len(x) // size * size].split(size)
    rate = recipe.lr / (1 - momentum_of(recipe))
    rows = []
    near = {(int(a[pair]), int(b[pair])) for pair in order[:half]}
    for start in range(0, len(pairs), AT_ONCE):
        chosen = [(int(a[pair]), int(b[pair])) for pair in pairs[start : start + AT_ONCE]]
        mirrors = [across_pair(readout, i, j) for i, j in chosen]
        means, directions = [each.on(own) for each in mirrors], [unit(each.off(own)) for each in mirrors]
        # The layers before are the same for all pairs, so that vmap runs them once.
        mean, n = ({name: torch.stack([one[name] for one in each]) for name in own} for each in (means, directions))
        of_batches = torch.stack([vmap(partial(across, batch))(mean, n) for batch in batches]) + recipe.weight_decay
        exponents = (1 - rate * of_batches).abs().log().mean(0)
        for (i, j), curvature, exponent in zip(chosen, of_batches.mean(0).tolist(), exponents.tolist(), strict=True):
            row = {"epoch": epoch, "a": i, "b": j, "near": (i, j) in near, "distance": float(distance[i, j])}
            row |= {"change": float(change[i, j]), "merged": float(later[i, j]) < settings.close}
            rows.append({**which, **row, "curvature": curvature, "exponent": exponent})
    module.float()
    return pd.DataFrame(rows, columns=PAIRS)


def across_pair(readout: str, i: int, j: int) -> Mirror:
    """The mirror of two neurons of the last hidden layer, in their incoming and outgoing weights and biases."""

    def reflect(own: State) -> State:
        turned = {}
        for name, value in own.items():
            order = torch.arange(value.shape[neurons := int(name == f"{readout}.weight")], device=value.device)
            order[[i, j]] = order[[j, i]]
            turned[name] = value.index_select(neurons, order)
        return turned

    return Mirror(f"{i} = {j}", reflect)
