"""Loss, accuracy and chord deviation along the straight line between two networks."""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import torch
import torch.nn.functional as functional
from jaxtyping import Float
from torch import Tensor, nn

from symlab.alignment.forward import batch_rows, outputs, watching
from symlab.batches import Inputs, prediction
from symlab.connectivity.norm_statistics import running_statistics
from symlab.connectivity.objective import Task, check_task, counted, right, summed_loss
from symlab.connectivity.repair import with_goal_statistics
from symlab.errors import UserError
from symlab.products import fast_products


def interpolate(state_A: Mapping[str, Tensor], state_B: Mapping[str, Tensor], lam: float) -> dict[str, Tensor]:
    """W(lambda) = (1 - lambda) W_A + lambda W_B, exactly W_A at 0 and W_B at 1 (of finite weights).

    Integer entries, which are counters, are A's.

    Raises:
        UserError: the states have different entries or shapes.
    """
    if {name: tensor.shape for name, tensor in state_A.items()} != {
        name: tensor.shape for name, tensor in state_B.items()
    }:
        raise UserError("two networks of different shapes cannot be interpolated: compare models of one variant.")
    return {name: torch.lerp(a, state_B[name], lam) if a.is_floating_point() else a for name, a in state_A.items()}


@fast_products()
def curve(
    module: nn.Module,
    state_A: Mapping[str, Tensor],
    state_B: Mapping[str, Tensor],
    lambdas: Sequence[float],
    x: Float[Tensor, "n d"] | Inputs,
    y: Tensor,
    task: Task,
    batch_size: int | None = None,
    statistics_x: Float[Tensor, "t d"] | Inputs | None = None,
    repair: bool = False,
) -> pd.DataFrame:
    """Mean loss, accuracy and chord deviation over (x, y) at every lambda, in one pass over the data.

    The layers that read the input are linear in lambda, so they are computed for A and B alone and interpolated, which
    takes a third off the time of 25 lambdas of the MNIST MLP.

    Args:
        module: a network of the states' shape; its own state is not used.
        lambdas: positions on the path, 0 at A and 1 at B.
        task: "classification" (cross-entropy, integer y [n], or y [n, tokens] of logits at every token, where -100 is
            ignored), "regression" (squared error, y as the outputs), or a function, see ``objective.losses``.
        batch_size: inputs in one forward pass; by default ``forward.batch_rows``.
        statistics_x: training inputs, needed by networks with batch norm, and for ``repair``: running statistics are
            estimated anew at every lambda, ends included; interpolated ones are not the interpolated network's.
        repair: rescale every channel to the statistics interpolated from the ends (REPAIR, Jordan et al. 2023).

    Returns:
        One row a lambda: ``lambda``, ``loss``, ``accuracy`` (a fraction; NaN for regression) and ``chord``, the norm
        |xi_f(lambda)|_L2 of the outputs' deviation from the chord between A's and B's outputs (main paper, Eq. 33;
        NaN unless the lambdas hold both ends).

    Raises:
        UserError: states, data and task do not fit together.
    """
    _check(x, y, task, statistics_x, repair)
    if repair and statistics_x is not None:
        module, (state_A, state_B) = with_goal_statistics(module, [state_A, state_B], statistics_x)
    statistics = [running_statistics(module, interpolate(state_A, state_B, lam), statistics_x) for lam in lambdas]
    names = _input_layers(module, state_A, x[:1])
    at_lambda: dict[str, Tensor] = {}
    module = _with_known_layers(module, names, at_lambda)
    rows = batch_size or batch_rows(x)
    loss, correct, squares = torch.zeros(3, len(lambdas), dtype=torch.float64, device=x.device)
    has_ends = 0.0 in lambdas and 1.0 in lambdas
    for x_batch, y_batch in zip(x.split(rows), y.split(rows), strict=True):
        ends = {name: (_linear(state_A, name, x_batch), _linear(state_B, name, x_batch)) for name in names}
        on_path = {}
        for index, lam in enumerate(lambdas):
            for name, (at_A, at_B) in ends.items():
                at_lambda[name] = torch.lerp(at_A, at_B, lam)
            # States are made batch by batch, not kept: 3 % of the time, and memory for one state, not for all lambdas.
            given = outputs(module, {**interpolate(state_A, state_B, lam), **statistics[index]}, x_batch)
            out = on_path[lam] = prediction(given)
            loss[index] += summed_loss(given if callable(task) else out, y_batch, task)
            if task == "classification":
                correct[index] += right(out, y_batch).sum()
        if has_ends:
            squares += _off_chord(on_path, lambdas)
    return _table(lambdas, counted(y, task), loss, correct, squares / len(x) if has_ends else None, task)


def _off_chord(on_path: Mapping[float, Tensor], lambdas: Sequence[float]) -> Float[Tensor, " lambdas"]:
    """At every lambda |xi_f(lambda)|^2, summed over inputs."""
    A, B = on_path[0.0], on_path[1.0]
    return torch.stack([(on_path[lam] - torch.lerp(A, B, lam)).square().sum() for lam in lambdas])


def _with_known_layers(module: nn.Module, names: Sequence[str], known: dict[str, Tensor]) -> nn.Module:
    """A copy of the network, some of whose layers return what is ``known`` at the time."""
    module = copy.deepcopy(module)
    for name in names:
        # The layer stays where it is, so that a network may use its weight elsewhere too.
        layer: Any = module.get_submodule(name)
        layer.forward = lambda _x, name=name: known[name]
    return module


def _check(x: Tensor | Inputs, y: Tensor, task: Task, statistics_x: Tensor | Inputs | None, repair: bool) -> None:
    check_task(task)
    if len(x) != len(y) or len(x) == 0:
        raise UserError(f"a curve needs as many targets as inputs, at least one; got {len(y)} and {len(x)}.")
    if repair and statistics_x is None:
        raise UserError("REPAIR needs training inputs at every point of a path: pass them as statistics_x.")


def _table(
    lambdas: Sequence[float], n: int, loss: Tensor, correct: Tensor, squares: Tensor | None, task: Task
) -> pd.DataFrame:
    """Means over n targets of what was summed at every lambda; mean ``squares``, None where there is no chord."""
    table = pd.DataFrame({"lambda": lambdas, "loss": (loss / n).tolist(), "accuracy": (correct / n).tolist()})
    # A network without finite outputs has no accuracy; argmax would credit it with class 0.
    accuracy = table["accuracy"].where(table["loss"].notna() & (task == "classification"))
    return table.assign(accuracy=accuracy, chord=math.nan if squares is None else squares.sqrt().tolist())


def _linear(state: Mapping[str, Tensor], name: str, x: Float[Tensor, "n d"]) -> Float[Tensor, "n m"]:
    return functional.linear(x, state[f"{name}.weight"], state.get(f"{name}.bias"))


def _input_layers(module: nn.Module, state: Mapping[str, Tensor], x: Tensor | Inputs) -> list[str]:
    """The linear layers that run once, on x itself: each output depends on that layer alone, linearly."""
    inputs: dict[str, list[Tensor]] = {}
    linear = [name for name, submodule in module.named_modules() if name and type(submodule) is nn.Linear]
    with watching(module, linear, lambda name, given, _: inputs.setdefault(name, []).append(given[0])):
        outputs(module, state, x)
    return [name for name, seen in inputs.items() if len(seen) == 1 and seen[0] is x]
