"""Networks minimised to collapse with the kernel's loop: Adam, then L-BFGS; deeper ones from shallower."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import nn

from symlab.artifacts import Tensors
from symlab.measures.job import Job
from symlab.networks import TorchDefault
from symlab.papers.neural_collapse.growth import grow, pad
from symlab.papers.neural_collapse.networks import Margins, Tokens, build_network, penalties_by_path, with_zeros
from symlab.papers.neural_collapse.samples import Samples, samples_of
from symlab.papers.neural_collapse.settings import Runs, penalties_of
from symlab.schemes import Standard
from symlab.schemes.fixed_parts import State
from symlab.training.objective import Replica
from symlab.training.on_samples import TrainingData
from symlab.training.replicas import Run, train_block
from symlab.training.settings import Constant, Cosine, Polish, Recipe

CALM = 1e-3
"""Tolerance of networks whose loss is told."""
OBJECTIVES = {
    "cross_entropy": (TrainingData, "classification"),
    "squared_error": (TrainingData, "one_hot"),
    "margins": (Margins, "margins"),
}
BATCH, MOMENTUM = 32, 0.9
"""Of the controls by minibatches."""
SHARES = (1 / 2, 1 / 8, 1 / 32, 1 / 128, 1 / 512)
"""What the second of two blocks has of the branch that they were: tried of each network when it grows."""
YOUNG = 1 / 4
"""Share of the effort after which the better of two starts goes on, and of which a deeper network's other start is.

Chosen after pilots of RN1 on digits: from shallow networks minimised to the end deep ones end 12 to 15 % higher, since
the new halves of few large branches stay next to nothing; from young ones shallow networks end 1 to 2 % higher.
"""
SINGLE = 19 / 20
"""Share of the iterations in float32; at 3/4 losses end the same. Where rounding hides gains float64 begins earlier."""
LOWER = 0.05
"""Share by which networks that began on whitened images have to be lower than those on plain ones to be taken.

Plain ones keep more branches of two layers, which cost up to 3 % at the first depth and pay at others; under squared
error they end 10 % higher.
"""


@dataclass(frozen=True)
class Descent:
    """How networks are trained: what is descended, by which networks, for how long, from where.

    build: makes a network; penalties: of its hidden weights and of its last layer.
    tolerance: it ends where the gradient's norm is at most so many times the loss.
    single: the share of L-BFGS' iterations in float32, before those in float64.
    """

    build: Callable[[], nn.Module]
    data: TrainingData
    penalties: tuple[float, float]
    key: tuple[str, str]
    steps: int
    iterations: int
    lr: float
    seeds: int
    start: State | None = None
    tolerance: float = CALM
    single: float = 0

    def recipe(self) -> Recipe:
        """Adam on all samples with a cosine to 0, then L-BFGS."""
        return Recipe(
            optimizer="adam",
            lr=self.lr,
            weight_decay=0,
            penalties=penalties_by_path(self.build(), *self.penalties),
            epochs=self.steps,
            batch_size=None,
            schedule=Cosine(name="cosine"),
            precision="float32" if self.steps or self.single else "float64",
            polish=Polish(iterations=self.iterations, gradient=self.tolerance, single=self.single),
        )

    def run(self, job: Job, recipe: Recipe | None = None, checkpoints: bool = False) -> tuple[State, Tensors]:
        """States [seeds, ...] at the end, in float64, and where they are: ``objective``, ``gradient`` over it, costs.

        Args:
            recipe: another than ``recipe()``.
            checkpoints: whether the job's are this run's.
        """
        recipe = recipe or self.recipe()
        members = [Replica(0, seed) for seed in range(self.seeds)]
        scheme, init = Standard(name="standard"), TorchDefault(name="torch")
        run = Run(self.build, self.data, scheme, init, recipe, [recipe.epochs], self.key, job.device, start=self.start)
        told = _every(job, max(recipe.epochs // 5, 1))
        block = train_block(run, members, told, job.checkpoints if checkpoints else None)
        state = {name: tensor.double() for name, tensor in block.snapshots[recipe.epochs].items()}
        ended = block.polished.sort_values("seed").drop(columns=["mask_seed", "seed"])
        return state, {name: values.to_numpy(float) for name, values in ended.items()}


def _every(job: Job, epochs: int) -> Any:
    """Passes on one in so many of the lines of training: with full batches every step is an epoch."""
    told = count()
    return lambda line: job.report(line) if next(told) % epochs == 0 else None


def objective_on(grid: Runs, samples: Samples, plain: bool = False) -> TrainingData:
    """What a grid's networks descend, on whitened or on ``plain`` inputs."""
    kind, task = (Tokens, "tokens") if grid.every_token else OBJECTIVES[grid.loss]
    x = samples.x if samples.plain is None or not plain else samples.plain
    return kind(x, samples.y, x[:0], samples.y[:0], task)


def minimise_depth(
    grid: Runs, job: Job, dataset: str, L: int, after: int, before: Mapping[str, Any] | None = None
) -> Tensors:
    """Networks of one depth, from random weights or grown from those of the depth before, and the reference.

    Returns:
        ``state/<parameter>`` [seeds + 1, ...] in float64, the reference's last; of grown ones ``young/<parameter>``
        [seeds, ...], which deeper ones may begin with too. ``objective`` (loss and penalties), the norm of its
        ``gradient`` over it, ``work`` (gradients times depth), the objective ``without`` branches.

    Raises:
        UserError: samples or patches do not fit the data set.
    """
    samples = samples_of(grid, job.datasets[dataset])
    build, blocks = partial(build_network, grid, samples, L), L if grid.transformer else L - 1
    name = "_".join(map(str, (dataset, grid.network, grid.pre_norm, grid.loss, grid.by_depth, L)))
    earlier, younger = ({} if before is None else states_of(before, of) for of in ("state", "young"))
    steps = 0 if earlier else grid.steps
    iterations = max((1 if after else grid.first) * grid.effort // L, 1) if grid.grown else grid.effort
    penalties = penalties_of(grid.penalty, grid.by_depth, L)
    lineages = Descent(
        build, objective_on(grid, samples), penalties, (job.study, name), steps, iterations, grid.lr, grid.seeds
    )
    if grid.optimizer != "lbfgs":
        return _controls(grid, job, lineages)
    ripe = {n: t[: grid.seeds] for n, t in earlier.items()}
    starts = [grown_well(lineages, each, blocks) for each in (younger, ripe) if each]
    whitening, begun = None if starts else samples.whitening, np.full(grid.seeds, steps)
    if whitening is not None:
        plain = replace(lineages, data=objective_on(grid, samples, plain=True), iterations=1)
        (on_plain, spent), (on_whitened, more) = plain.run(job), replace(lineages, iterations=1).run(job)
        starts = [whitening.carried(on_plain), on_whitened]
        begun = 2 * steps + spent["evaluations"] + more["evaluations"]
    state, left, chosen, found = of_starts(job, lineages, starts, LOWER if whitening else 0, checkpoints=True)
    young = {n: t[chosen] if whitening else t[: grid.seeds] for n, t in left.items()}
    work = L * (begun + found["evaluations"]) + (0 if before is None else before["work"][: grid.seeds])
    if grid.reference:
        others = []
        if earlier:
            best = {n: t[grid.seeds :] for n, t in earlier.items()}
            others = [pad(best, blocks), grown_well(lineages, best, blocks)]
        elif whitening is not None:
            whitened = {n: t[grid.seeds :] for n, t in left.items()}
            others = [_best_of(whitened, objectives(lineages, whitened))]
        longer = replace(lineages, steps=0, seeds=1, iterations=int(grid.reference * iterations))
        best, _, _, more = of_starts(job, longer, [_best_of(state, found["objective"]), *others])
        state = {n: torch.cat([state[n], best[n]]) for n in state}
        work = np.append(work, work.max() + L * more["evaluations"])
        found = {n: np.append(found[n], more[n]) for n in found}
    same = before is not None and grid.by_depth != "uniform"
    bare = before["without"] if same else np.array([_without_branches(grid, job, lineages, samples)])  # type: ignore[index]
    kept = {**_kept("state", state), **_kept("young", young if grid.grown else {})}
    return {**kept, **{n: found[n] for n in ("objective", "gradient")}, "work": work, "without": bare}


def _kept(of: str, state: State) -> Tensors:
    return {f"{of}/{name}": tensor.numpy() for name, tensor in state.items()}


def states_of(found: Mapping[str, Any], of: str) -> State:
    """What was kept of networks, by parameter."""
    return {n.removeprefix(f"{of}/"): torch.from_numpy(a) for n, a in found.items() if n.startswith(f"{of}/")}


def _best_of(state: State, found: Float[np.ndarray, " seeds"]) -> State:
    """The network of the least objective, [1, ...]."""
    seed = int(np.argmin(found))
    return {name: tensor[seed : seed + 1] for name, tensor in state.items()}


def of_starts(
    job: Job, descent: Descent, starts: Sequence[State], lower: float = 0, checkpoints: bool = False
) -> tuple[State, State, Int[np.ndarray, " seeds"], Tensors]:
    """Networks minimised from the start that has led lowest after ``YOUNG`` of the effort, each by itself.

    Args:
        starts: none for random weights.
        lower: the share by which others have to be lower than the first.
        checkpoints: whether the job's are for these networks; up to ``YOUNG`` of the effort they have their own file.

    Returns:
        States at the end; those of all starts after ``YOUNG`` of the effort, [starts * seeds, ...]; which of these went
        on; what ``Descent.run`` gives, with the evaluations of all starts.
    """
    begun, first = descent, max(int(YOUNG * descent.iterations), 1)
    if starts:
        together = {name: torch.cat([start[name] for start in starts]) for name in starts[0]}
        begun = replace(descent, start=together, steps=0, seeds=descent.seeds * len(starts))
    of_first = replace(job, checkpoints=job.checkpoints and job.checkpoints.beside("young"))
    left, found = replace(begun, iterations=first, single=1).run(of_first, checkpoints=checkpoints)
    by_start = {name: values.reshape(-1, descent.seeds) for name, values in found.items()}
    handicap = np.where(np.arange(len(by_start["objective"])) > 0, 1 + lower, 1)[:, None]
    chosen = (handicap * by_start["objective"]).argmin(axis=0) * descent.seeds + np.arange(descent.seeds)
    start = {name: tensor[chosen] for name, tensor in left.items()}
    left_over, single = max(descent.iterations - first, 1), (SINGLE - YOUNG) / (1 - YOUNG)
    rest = replace(descent, start=start, steps=0, iterations=left_over, single=single)
    state, ended = rest.run(job, checkpoints=checkpoints)
    spent = ended["evaluations"] + by_start["evaluations"].sum(axis=0)
    return state, left, chosen, ended | {"evaluations": spent}


def grown_well(descent: Descent, state: State, blocks: int) -> State:
    """Of each network the deeper one, of splits into unequal and equal shares, that starts well.

    That is the one of the largest share whose objective is no higher than with blocks of zeros, or the one of the
    least: the larger the share, the farther the new block is from zeros, where it would stay.
    """
    ways = [grow(state, blocks, share) for share in SHARES]
    found, zeros = np.array([objectives(descent, way) for way in ways]), objectives(descent, grow(state, blocks, 0))
    best = np.where((found <= zeros).any(axis=0), np.argmax(found <= zeros, axis=0), np.argmin(found, axis=0))
    return {name: torch.stack([ways[way][name][seed] for seed, way in enumerate(best)]) for name in ways[0]}


def objectives(descent: Descent, state: State) -> Float[np.ndarray, " seeds"]:
    """Loss and penalties of each network of a state [seeds, ...]."""
    data, each = descent.data.widened(), networks_of(descent.build, state)
    return np.array([sum(losses_of(network, data, descent.penalties).values()) for network in each])


def networks_of(build: Callable[[], nn.Module], state: State) -> Iterator[nn.Module]:
    """Each network of a state [seeds, ...] in float64: one module, whose weights change."""
    network = build().double().requires_grad_(False)
    for values in zip(*state.values(), strict=True):
        network.load_state_dict(dict(zip(state, values, strict=True)))
        yield network


def losses_of(network: Any, data: TrainingData, penalties: tuple[float, float]) -> dict[str, float]:
    """The ``fit`` of a network, and its penalties of ``hidden`` weights and of the ``last`` layer."""
    fit, (hidden, last) = data.losses(network(data.x_train), data.y_train), penalties
    blocks = [t.square().sum() for n, t in network.named_parameters() if n.startswith("blocks.") and "bias" not in n]
    W = network.readout.weight
    return {"fit": float(fit), "hidden": float(hidden / 2 * sum(blocks)), "last": float(last / 2 * W.square().sum())}


def _without_branches(grid: Runs, job: Job, descent: Descent, samples: Samples) -> float:
    """The least objective that is found with hidden weights of 0 and free biases in one block.

    Every deeper network contains it: blocks of zeros pass on what they read.
    """
    one_block = partial(build_network, grid, samples, 1 if grid.transformer else 2)
    key = (job.study, f"{descent.key[1]}_without")
    bare = replace(descent, build=lambda: with_zeros(one_block()), key=key, start=None, seeds=1, single=SINGLE)
    return float(replace(bare, steps=grid.steps, iterations=grid.effort // 4).run(job)[1]["objective"][0])


def _controls(grid: Runs, job: Job, descent: Descent) -> Tensors:
    """The same networks by minibatches, as they are trained in practice."""
    adamw = grid.optimizer == "adamw"
    recipe = Recipe(
        optimizer="adamw" if adamw else "sgd",
        lr=grid.lr,
        momentum=MOMENTUM,
        weight_decay=grid.penalty if adamw else 0,
        penalties={} if adamw else penalties_by_path(descent.build(), *descent.penalties),
        epochs=grid.steps,
        batch_size=BATCH,
        schedule=Cosine(name="cosine") if adamw else Constant(name="constant"),
    )
    state, _ = descent.run(job, recipe, checkpoints=True)
    nan = np.full(grid.seeds, np.nan)
    undefined = dict.fromkeys(("gradient", "work"), nan)
    return {**_kept("state", state), **undefined, "objective": objectives(descent, state), "without": nan[:1]}
