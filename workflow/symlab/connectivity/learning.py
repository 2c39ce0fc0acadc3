"""Alignment learned from a loss: descent over the maps that change nothing, until the midpoint of two networks is best.

Closed forms bring what two networks compute together, which need not make the mean of their weights good. Here the maps
of one network move along their groups, by matrix exponentials, down the loss of the midpoint on labelled data (as Theus
et al. 2025 do for one class of networks). That fits parameters to labels: what it gains says something of the second
network only beyond what the same descent gains with an untrained one in its place.
"""

from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor, nn
from tqdm import tqdm

from symlab.alignment.averaging import average
from symlab.alignment.forward import call, outputs
from symlab.batches import Inputs, prediction
from symlab.connectivity.objective import Task, losses
from symlab.symmetries.actions import Action, Matrices, act, exponential

# Adam's rate falls from this to 0 along a quarter of a cosine; it changes entries of infinitesimal maps.
RATE = 0.03
ROWS = 128
# How often the loss on all data is taken, by which the best maps are kept.
LOOKS = 10

State = Mapping[str, Tensor]


def learned_maps(
    module: nn.Module,
    names: Collection[str],
    reference: State,
    state: State,
    actions: Sequence[Action],
    x: Tensor | Inputs,
    y: Tensor,
    task: Task,
    steps: int,
    scales: bool = True,
    seed: int = 0,
) -> dict[int, Matrices]:
    """Maps of a network, by the number of the action, after which its midpoint with another has the least loss found.

    The loss on all of (x, y) is taken ``LOOKS`` times, and first without maps: it never rises.

    Args:
        module: in evaluation mode, without batch norms; its own weights do not count.
        names: what a state to compute with holds.
        reference, state: both networks by all names, which ``actions`` go by.
        x, y, task: data and what outputs and targets are compared by, see ``objective.losses``.
        steps: of Adam, each on ``ROWS`` samples.
        scales: whether maps change lengths too, or only rotate.
        seed: of the samples of each step.
    """
    points = [torch.zeros(*action.size, action.size[-1], dtype=torch.float64, requires_grad=True) for action in actions]
    optimiser = torch.optim.Adam(points, RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    generator = torch.Generator().manual_seed(seed)

    def maps() -> dict[int, Matrices]:
        return {n: exponential(action, X, scales) for n, (action, X) in enumerate(zip(actions, points, strict=True))}

    def midpoint() -> dict[str, Tensor]:
        mean = average([reference, moved(state, actions, maps())])
        return {name: mean[name] for name in names}

    def loss(output: object, rows: Tensor | slice) -> Tensor:
        return losses(output if callable(task) else prediction(output), y[rows], task)  # type: ignore[arg-type]

    def on_all_data() -> float:
        with torch.no_grad():
            mean = midpoint()
            return float(torch.cat([loss(outputs(module, mean, x[rows]), rows) for rows in batches]).mean())

    batches = torch.arange(len(x)).split(8 * ROWS)
    best, kept = on_all_data(), {}
    for step in tqdm(range(1, steps + 1), desc="learning maps", leave=False, disable=None):
        rows = torch.randint(len(x), (min(ROWS, len(x)),), generator=generator)
        optimiser.zero_grad()
        loss(call(module, midpoint(), x[rows]), rows).mean().backward()
        optimiser.step()
        schedule.step()
        if step % max(1, steps // LOOKS) == 0 and (value := on_all_data()) < best:
            best, kept = value, {n: M.detach() for n, M in maps().items()}
    return kept


def moved(state: State, actions: Sequence[Action], maps: Mapping[int, Matrices]) -> dict[str, Tensor]:
    """The same network in the bases of some maps, by the number of the action."""
    result = dict(state)
    for n, M in maps.items():
        result = act(result, actions[n], M)
    return result
