"""The mean of networks in one order as a network, and what it is worth."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from symlab.alignment.averaging import average
from symlab.alignment.forward import batch_rows, outputs
from symlab.batches import Inputs, parts_of, prediction
from symlab.connectivity.combine import Averaging, combine
from symlab.connectivity.least_squares import least_squares
from symlab.connectivity.norm_statistics import running_statistics
from symlab.connectivity.objective import IGNORED, Task, losses, losses_of_units, right
from symlab.connectivity.repair import folded, with_goal_statistics
from symlab.errors import UserError
from symlab.products import fast_products

CONSTANT = "constant"


@fast_products()
def average_network(
    module: nn.Module,
    states: Sequence[Mapping[str, Tensor]],
    x: Float[Tensor, "n ..."] | Inputs | None,
    weights: Sequence[float] | None = None,
    repair: bool = False,
) -> dict[str, Tensor]:
    """The network of the mean weights, with batch norm statistics of its own on x, and REPAIR written into its weights.

    Raises:
        UserError: it has batch norms, or REPAIR is asked for, and there are no inputs; no layer can be rescaled.
    """
    if repair:
        if x is None:
            raise UserError("REPAIR needs inputs to measure channel statistics on: give them as data.")
        rescaling, ends = with_goal_statistics(module, states, x, foldable=True)
        goal = average(ends, weights)
        mean = folded({**goal, **running_statistics(rescaling, goal, x)})
    else:
        mean = average(states, weights)
    return {**mean, **running_statistics(module, mean, x)}


@fast_products()
def combined_network(
    module: nn.Module,
    states: Sequence[Mapping[str, Tensor]],
    x: Float[Tensor, "n ..."] | Inputs | None,
    how: Averaging,
    base: Mapping[str, Tensor] | None = None,
    rows: int | None = None,
) -> dict[str, Tensor]:
    """The network that several, in one order, become by a rule, with batch norm statistics of its own on x.

    Raises:
        UserError: there are no inputs where the rule, or batch norms, need some.
    """
    if how.repair:
        return average_network(module, states, x, how.weights, True)
    if how.rule == "least-squares":
        if x is None:
            raise UserError("least squares need inputs to compare what layers compute: give them as data.")
        state = least_squares(module, states, x, how.weights, rows)
    else:
        state = combine(states, how, base, {name for name, _ in module.named_parameters(remove_duplicate=False)})
    return {**state, **running_statistics(module, state, x)}


@fast_products()
def scores(
    module: nn.Module,
    states: Mapping[str, Mapping[str, Tensor]],
    x: Float[Tensor, "n ..."] | Inputs,
    y: Tensor,
    task: Task,
    ensembles: Mapping[str, Mapping[str, float]],
    rows: int | None = None,
    parents: Sequence[str] = (),
) -> pd.DataFrame:
    """Mean loss and accuracy of some networks, of ensembles of them, and of the best constant.

    Args:
        states: networks by name.
        task: see ``objective.losses``.
        ensembles: by their names, by networks' names the weights with which outputs (logits) are averaged.
        rows: inputs in one forward pass; by default ``forward.batch_rows``.
        parents: names of networks whose mean every network is compared with.

    Returns:
        One row a network, the last ones "ensemble" and "constant" (the classes' frequencies, of several labels with a
        logit each those of each label, unless they go along tokens; the mean target; or of a metric the first network's
        mean output): ``network``, ``loss``, ``loss_error``, ``accuracy`` (a fraction; NaN without labels and where the
        loss is no number), ``accuracy_error``; with parents ``loss_difference`` and ``accuracy_difference``, from their
        mean, and errors of these. Errors are standard errors over samples, all labels of which count as one unit; those
        of differences are of each sample's difference.
    """
    lost: dict[str, list[Tensor]] = {name: [] for name in (*states, *ensembles)}
    correct: dict[str, list[Tensor]] = {name: [] for name in lost}
    rows = rows or batch_rows(x)
    units: list[Tensor] = []
    apart = False
    means: list[tuple[float, Any]] = []
    for x_batch, y_batch in zip(x.split(rows), y.split(rows), strict=True):
        given = {name: outputs(module, state, x_batch) for name, state in states.items()}
        given |= {name: _averaged(given, members) for name, members in ensembles.items()}
        for name, output in given.items():
            compared = output if callable(task) else prediction(output)
            values, of_batch = losses_of_units(compared, y_batch, task)
            lost[name].append(values.double().cpu())
            if task == "classification":
                correct[name].append(right(compared, y_batch).double().cpu())
                apart = compared.shape == y_batch.shape and y.dim() == 2 and not _of_tokens(x_batch, y_batch)
        units.append(of_batch)
        if callable(task):
            means.append((len(x_batch) / len(x), tree_map(_mean_row, given[next(iter(states))])))
    measured = {name: {"loss": torch.cat(parts)} for name, parts in lost.items()}
    for name, of in measured.items():
        counts = correct[name] and math.isfinite(float(of["loss"].mean()))
        of["accuracy"] = torch.cat(correct[name]) if counts else torch.full_like(of["loss"], math.nan)
    measured[CONSTANT] = _of_constant(y, task, means, apart)
    for what in ("loss", "accuracy") if parents else ():
        mean = torch.stack([measured[name][what] for name in parents]).mean(0)
        for of in measured.values():
            of[f"{what}_difference"] = of[what] - mean
    sizes = torch.cat(units)
    return pd.DataFrame([{"network": name, **_means(of, sizes)} for name, of in measured.items()])


def _of_tokens(x: Tensor | Inputs, y: Shaped[Tensor, "n k"]) -> bool:
    """Whether inputs are series [n, k, ...], or texts as numbers [n, k], that the k labels of a sample can go along."""
    series = (part for part in parts_of(x) if part.dim() == 3 or (part.dim() == 2 and not part.is_floating_point()))
    return any(part.shape[:2] == y.shape for part in series)


def _averaged(given: Mapping[str, Any], members: Mapping[str, float]) -> Any:
    """The mean output of an ensemble's networks, which count by its weights."""
    total = sum(members.values())
    return _combined([given[name] for name in members], [w / total for w in members.values()])


def _combined(given: Sequence[Any], weights: Sequence[float]) -> Any:
    """The weighted sum of outputs, tensor by tensor; what holds no real numbers is the first one's."""

    def combined(*outs: Any) -> Any:
        if not (isinstance(outs[0], Tensor) and outs[0].is_floating_point()):
            return outs[0]
        return torch.stack([w * out for w, out in zip(weights, outs, strict=True)]).sum(0)

    return tree_map(combined, *given)


def _mean_row(output: Any) -> Any:
    """The mean over a batch, as a batch of one."""
    batched = isinstance(output, Tensor) and output.dim() and output.is_floating_point()
    return output.mean(0, keepdim=True) if batched else output


def _of_constant(y: Tensor, task: Task, means: Sequence[tuple[float, Any]], apart: bool) -> dict[str, Tensor]:
    """Losses and hits of the constant that fits the targets best; ``apart`` if each label of a sample has a logit."""
    if apart:
        counted = y != IGNORED
        share = (y * counted).sum(0).double() / counted.sum(0)
        loss = -torch.where(y == 1, share, 1 - share)[counted].log()
        hits = ((y == 1) == (share > 0.5))[counted].double()
        return {"loss": loss.cpu(), "accuracy": hits.cpu()}
    if task == "classification":
        labels = y[y != IGNORED]
        share = torch.bincount(labels).double() / len(labels)
        found = {"loss": -share[labels].log(), "accuracy": (labels == share.argmax()).double()}
        return {what: values.cpu() for what, values in found.items()}
    if not callable(task):
        constant = y.mean(0, keepdim=True).expand_as(y)
    else:
        mean = _combined([of_batch for _, of_batch in means], [share for share, _ in means])
        constant = tree_map(
            lambda out: out.expand(len(y), *out.shape[1:]) if isinstance(out, Tensor) and out.dim() else out, mean
        )
    values = losses(constant, y, task).double().cpu()
    return {"loss": values, "accuracy": torch.full_like(values, math.nan)}


def _means(measured: Mapping[str, Float[Tensor, " k"]], units: Int[Tensor, " units"]) -> dict[str, float]:
    """The mean of each and its standard error, over units that hold so many values each (NaN of one unit).

    It is the error of a ratio of sums (Cochran 1977, 2.11), which with one value a unit is that of a mean.
    """
    units = units[units > 0]
    n = len(units)
    found: dict[str, float] = {}
    for name, values in measured.items():
        mean = values.mean()
        beside = values.new_zeros(n).index_add(0, torch.arange(n).repeat_interleave(units), values - mean)
        error = float(beside.norm()) / len(values) * math.sqrt(n / (n - 1)) if n > 1 else math.nan
        found |= {name: float(mean), f"{name}_error": error}
    return found
