"""Relaxed (ridge) realization costs of trained neurons' functions, and the swap costs they give (Def. E.3, Eq. 14).

They are measured on the networks at the end of training.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from symlab.data.dataset import Dataset
from symlab.errors import UserError
from symlab.identifiability.recording import hidden_layers, layer_inputs
from symlab.measures.job import Job
from symlab.papers.neuron_identifiability.neuron_functions import NeuronFunctions, layer_functions
from symlab.papers.neuron_identifiability.ridge_problems import (
    Moments,
    RidgeProblems,
    input_moments,
    nonlinear,
    preconditioner,
    surrogate,
    times_derivative,
)
from symlab.papers.neuron_identifiability.ridge_solvers import Preconditioner, lbfgs
from symlab.papers.neuron_identifiability.settings import Ridge
from symlab.training.models import Models, move
from symlab.words import counted

# Problems solved at once. Their arrays [problems, n] should stay in the cache, their matrix products should be large.
CHUNK = 128
FACTOR_BYTES = 2**28

# L-BFGS stops where a further step promises to lower J by less than about half this share of it: that is above the
# rounding of J in float32, and it left costs within 2e-6 of those at a tenth of it (MNIST and mixture networks).
TOLERANCE = 1e-6
ROUGH_TOLERANCE = 1e-3
BETA_DETOUR = 10.0


def measure_ridge_costs(models: Models, data: Dataset, settings: Ridge, job: Job) -> dict[str, Any]:
    """Swap costs of every hidden layer's neurons at every beta.

    ``reported`` marks the rows of the beta that figures and claims are about: only there are all pairs of the first
    neurons swapped.
    """
    x = torch.from_numpy(data.split("train")[0][: settings.samples]).to(job.device)
    module = models.module().to(job.device)
    swaps = []
    for position, replica in list(enumerate(models.replicas))[: settings.models]:
        state = move(models.state(models.epochs[-1], position), job.device)
        inputs = layer_inputs(module, state, x)
        for layer, name in hidden_layers(module).items():
            functions = layer_functions(module, state, name, *models.fixed(replica.mask_seed)[f"{name}.weight"])
            for beta in settings.beta:
                reported = beta == settings.reported
                pairs = choose_pairs(len(functions.W_eff), settings.block if reported else 0)
                i, j = pairs.numpy().astype("int32").T
                Delta = ridge_swap_costs(functions, inputs[name], pairs, beta).cpu().numpy()
                which = {"mask_seed": replica.mask_seed, "seed": replica.seed, "layer": layer, "beta": beta}
                swaps.append(pd.DataFrame({**which, "reported": reported, "i": i, "j": j, "swap_cost": Delta}))
                job.report(
                    ", ".join(f"{key} {value}" for key, value in which.items()) + f": {counted(len(pairs), 'swaps')}"
                )
    return {"ridge_swap_costs.parquet": pd.concat(swaps, ignore_index=True)}


def choose_pairs(m: int, block: int) -> Int[Tensor, "p 2"]:
    """The disjoint consecutive pairs of m neurons and all pairs of the first ``block``, sorted, each once."""
    i = np.arange(0, m - 1, 2)
    consecutive = np.stack([i, i + 1])
    pairs = np.concatenate([consecutive, np.stack(np.triu_indices(min(block, m), 1))], axis=1)
    return torch.from_numpy(np.unique(pairs, axis=1).T.copy())


def ridge_costs(
    functions: NeuronFunctions,
    X: Float[Tensor, "n d"],
    realizers: Int[Tensor, " p"],
    targets: Int[Tensor, " p"],
    beta: float,
) -> Float[Tensor, " p"]:
    """c_beta(i, j)^2 = min_w (1/beta) mean_x (h_j(x) - h_i(w; x))^2 + |w|^2 for pairs (i, j) (Def. E.3).

    Args:
        functions: the layer; h_j is neuron j as trained, h_i(w; .) neuron i with weights f_i + d_i * w.
        X: the layer's inputs, on its device. Minima are searched in their precision, and evaluated in float64.
        realizers, targets: i and j of each pair.

    Of the minima that L-BFGS finds from three starts the lowest is taken, so that no cost exceeds the bound of Thm. E.4
    (the minimum of ``surrogate``) or, for i = j, |w_i|^2, up to rounding. Float64, in units of squared weight norm. The
    objective is not convex. Of a ReLU layer with few samples a pair may end in another minimum when it is solved beside
    other pairs, with other threads or in another precision; of GELU layers the costs agree to about 1e-5.

    Raises:
        UserError: the inputs are not finite.
    """
    if not bool(torch.isfinite(X).all()):
        raise UserError("The inputs of a layer are not finite; its network has diverged, train it again.")
    i, j = realizers.to(X.device), targets.to(X.device)
    neurons, position = torch.unique(j, return_inverse=True)
    Y = _preactivations(functions, X, neurons)
    H = nonlinear(functions.nonlinearity, Y)
    moments = input_moments(X, times_derivative(functions.nonlinearity, torch.ones_like(Y), Y))
    order = torch.argsort(i, stable=True)
    chunks = (order[rows] for rows in _chunks(i[order], X.shape[1]))
    batches = (Batch(functions, X, H[position[at]], moments, i[at], j[at]) for at in chunks)
    return torch.cat([_lowest_cost(batch, beta) for batch in batches])[torch.argsort(order)]


def ridge_swap_costs(
    functions: NeuronFunctions, X: Float[Tensor, "n d"], pairs: Int[Tensor, "p 2"], beta: float
) -> Float[Tensor, " p"]:
    """c(i,j)^2 + c(j,i)^2 - c(i,i)^2 - c(j,j)^2 of pairs (Eq. 14 with Def. E.3).

    Each cost is computed once however many pairs need it, in the order of (realizer, target). A swap cost may be
    negative; it is always finite. Float64, in units of squared weight norm.
    """
    m = len(functions.W_eff)
    i, j = pairs.to(X.device).unbind(dim=1)
    keys, position = torch.unique(torch.stack([i * m + j, j * m + i, i * m + i, j * m + j]), return_inverse=True)
    there, back, own_i, own_j = ridge_costs(functions, X, keys // m, keys % m, beta)[position]
    return (there + back) - (own_i + own_j)


def _preactivations(layer: NeuronFunctions, X: Tensor, neurons: Int[Tensor, " t"]) -> Float[Tensor, "t n"]:
    """Of the neurons as trained, in the precision of X."""
    linear = (layer.alpha[:, None] * layer.W_eff)[neurons].to(X.dtype)
    return torch.addmm(layer.shift[neurons, None].to(X.dtype), linear, X.T)


def _chunks(realizers: Int[Tensor, " p"], d: int) -> Iterator[slice]:
    """Pieces of the sorted ``realizers``, at most ``CHUNK`` long and of so few neurons that their factors fit."""
    most = max(1, FACTOR_BYTES // (8 * d * d))
    place = torch.unique_consecutive(realizers, return_inverse=True)[1].contiguous()
    start = 0
    while start < len(place):
        end = min(start + CHUNK, int(torch.searchsorted(place, place[start] + most)))
        yield slice(start, end)
        start = end


class Batch(NamedTuple):
    """Pairs (i, j) of a layer that are solved together, sorted by i; H [p, n] are the values of h_j."""

    layer: NeuronFunctions
    X: Float[Tensor, "n d"]
    H: Float[Tensor, "p n"]
    moments: Moments
    i: Int[Tensor, " p"]
    j: Int[Tensor, " p"]

    def problems(self, beta: float) -> RidgeProblems:
        """Def. E.3's objectives of the pairs."""
        layer, dtype = self.layer, self.X.dtype
        return RidgeProblems(
            X=self.X,
            base=(layer.alpha[:, None] * layer.F)[self.i].to(dtype),
            scale=(layer.alpha[:, None] * layer.D)[self.i].to(dtype),
            shift=layer.shift[self.i].to(dtype),
            H=self.H,
            factor=1 / (beta * len(self.X)),
            nonlinearity=layer.nonlinearity,
        )

    def in_float64(self) -> "Batch":
        """The same pairs, inputs and values in float64."""
        X = self.X.double()
        return self._replace(X=X, H=nonlinear(self.layer.nonlinearity, _preactivations(self.layer, X, self.j)))

    def own_weights(self) -> Float[Tensor, "p d"]:
        """The trained weights of each pair's realizer."""
        return self.layer.own_weights[self.i].to(self.X.dtype)

    def quadratics(self, beta: float) -> tuple[Float[Tensor, "p d"], Preconditioner]:
        """The minimiser of each pair's surrogate, float64, and the inverse of the curvature."""
        lowest, _ = surrogate(self.layer, self.moments.plain, self.i, self.j, beta)
        return lowest, preconditioner(self.layer, self.moments.curvature, self.i, beta, self.X.dtype)


def _lowest_cost(batch: Batch, beta: float) -> Float[Tensor, " p"]:
    """The lowest of three minima: below the own weights, and below the rough minima at a smaller and a larger beta.

    All three are found roughly, and only each pair's lowest in full.
    """
    problems = batch.problems(beta)
    lowest_quadratic, precondition = batch.quadratics(beta)
    surrogate_start = lowest_quadratic.to(batch.X.dtype)
    from_below = _rough_minimum(batch, beta / BETA_DETOUR)
    from_above = _rough_minimum(batch, beta * BETA_DETOUR)
    # Starting no higher than at the surrogate's minimum keeps the cost below the bound of Thm. E.4.
    higher = _values(problems, surrogate_start) < _values(problems, from_below)
    from_below[higher] = surrogate_start[higher]
    starts = (batch.own_weights(), from_below, from_above)
    candidates = [lbfgs(problems, start, precondition, ROUGH_TOLERANCE) for start in starts]
    w = lbfgs(problems, _lowest(problems, candidates), precondition, TOLERANCE)
    # Where residuals are small, float32 sees their rounding: a start may prove lower than what was found from it.
    batch = batch.in_float64()
    exact = batch.problems(beta)
    return _values(exact, _lowest(exact, [w.double(), lowest_quadratic, batch.own_weights()]))


def _rough_minimum(batch: Batch, beta: float) -> Float[Tensor, "p d"]:
    """Of the objective with another beta, from its surrogate's minimiser."""
    start, precondition = batch.quadratics(beta)
    return lbfgs(batch.problems(beta), start.to(batch.X.dtype), precondition, ROUGH_TOLERANCE)


def _lowest(problems: RidgeProblems, candidates: list[Float[Tensor, "p d"]]) -> Float[Tensor, "p d"]:
    """Of each pair the candidate with the lowest objective."""
    best = torch.stack([_values(problems, w) for w in candidates]).argmin(dim=0)
    return torch.stack(candidates)[best, torch.arange(len(best), device=best.device)]


def _values(problems: RidgeProblems, w: Tensor) -> Float[Tensor, " p"]:
    return problems.value(problems.residuals(problems.preactivations(w)), w)
