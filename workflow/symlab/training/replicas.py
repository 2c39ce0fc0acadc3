"""The replica engine: trains many networks of one variant, each from its own generators, as one stacked set of tensors.

A replica's result depends on (study, variant, mask seed, seed) alone. Wide networks on the CPU run one replica after
another on one thread, because there a batched matrix product gains nothing over the plain one; small networks and GPUs
run a whole stack in each step, on a GPU as large as its memory allows. The choice depends on the network and the
device, never on how many replicas are asked for, so that on a CPU a seed gives the same bits alone and in a block (on a
GPU, the same up to rounding).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor, nn

from symlab.errors import UserError
from symlab.networks import Init
from symlab.networks.initialise import sample_parameters
from symlab.schemes import Scheme
from symlab.schemes.fixed_parts import (
    FixedParts,
    Shapes,
    State,
    sample_buffers,
    sample_fixed_parts,
    weight_shapes,
)
from symlab.seeds import torch_generator
from symlab.training.augmentation import Augmentation
from symlab.training.cuda_graph import captured_on_gpu
from symlab.training.population import OnPopulation, Population
from symlab.training.precision import arithmetic
from symlab.training.recipe import VECTOR, learning_rate
from symlab.training.resume import Checkpoints, Progress, restore
from symlab.training.settings import Augment, Recipe
from symlab.training.stack_size import Trial, measured_stack_size
from symlab.training.stacks import EVALUATION_BATCH, OneByOne, Stack, Together, TrainingData

# A step of a small network is bound by call overhead, which a stack shares: 1.4 times as fast for the digits MLP of
# 43,000 parameters (tests/benchmarks/test_training.py). Where the gain ends on the way to 930,000 is not measured.
STACK_BELOW_PARAMETERS = 100_000
CPU_STACK = 10


@dataclass(frozen=True, order=True)
class Replica:
    """One network of a variant: F and D come from ``mask_seed``, init and data order from ``seed``."""

    mask_seed: int
    seed: int


@dataclass(frozen=True)
class TrainedBlock:
    """Effective states at the snapshot epochs (stacked over replicas, on the CPU), fixed parts, and the history."""

    replicas: tuple[Replica, ...]
    snapshots: dict[int, State]
    fixed: dict[int, FixedParts]
    history: pd.DataFrame


def train_block(
    build: Callable[[], nn.Module],
    data: TrainingData | Population,
    replicas: Sequence[Replica],
    scheme: Scheme,
    init: Init,
    recipe: Recipe,
    snapshots: Sequence[int],
    key: tuple[str, str],
    device: str = "cpu",
    report: Callable[[str], None] = lambda line: None,
    checkpoints: Checkpoints | None = None,
) -> TrainedBlock:
    """Train every replica and keep its effective state at the epochs in ``snapshots`` (0 is the initialisation).

    Args:
        build: makes the module; called for each stack, its own parameters are overwritten.
        data: samples, or a population whose loss needs none; the latter is descended on the CPU, whatever the device.
        key: (study, variant), which every random generator is derived from, so that adding variants changes nothing.
            The mask generator leaves the variant out: a sweep over sigma_F shares masks and scaled values.
        report: receives one line an epoch.
        checkpoints: where progress is kept, and whence training goes on if it was left; None keeps nothing.

    Returns:
        Stacked states in the order of ``replicas``, F and D for each mask seed, and a history with one row for each
        replica and epoch: training loss and accuracy averaged over the epoch's batches as they were trained on,
        validation loss and accuracy after the epoch, and ``time_s``, the epoch's seconds divided by the stack's size.

    Raises:
        UserError: a replica's loss stopped being finite (names study, variant, seed and epoch), or the recipe asks for
            what the data or the device do not allow.
        Interrupted: a signal asked to stop, and a checkpoint was written.
    """
    with arithmetic(recipe.precision, torch.device(device)):
        if isinstance(data, TrainingData):
            data = data.to(torch.device(device))
        return _train_block(build, data, replicas, scheme, init, recipe, snapshots, key, report, checkpoints)


def _train_block(
    build: Callable[[], nn.Module],
    data: TrainingData | Population,
    replicas: Sequence[Replica],
    scheme: Scheme,
    init: Init,
    recipe: Recipe,
    snapshots: Sequence[int],
    key: tuple[str, str],
    report: Callable[[str], None],
    checkpoints: Checkpoints | None,
) -> TrainedBlock:
    target = data.device
    augmentation = _augmentation(recipe.augment, data, key)
    probe = build()
    _check_batches(probe, data.n, recipe.batch_size, key)
    shapes = weight_shapes(probe)
    study, variant = key
    mask_seeds = sorted({replica.mask_seed for replica in replicas})
    fixed = {seed: sample_fixed_parts(scheme, shapes, study, "mask", seed) for seed in mask_seeds}

    def make(members: Sequence[Replica], together: bool) -> Stack:
        module = build()
        W = _stack(
            [
                sample_parameters(module, init, torch_generator(study, variant, "init", r.mask_seed, r.seed))
                for r in members
            ]
        )
        if isinstance(data, Population):
            return OnPopulation(data, W, recipe)
        plain_buffers = {name: buffer.detach().cpu() for name, buffer in module.named_buffers()}
        buffers = _stack([{**plain_buffers, **sample_buffers(module, study, "mask", r.mask_seed)} for r in members])
        parts = {name: _stack_parts([fixed[r.mask_seed][name] for r in members], target) for name in shapes}
        module = module.to(target).train()
        W, buffers = _move(W, target), _move(buffers, target)
        if together:
            return Together(module, W, buffers, parts, recipe, data, augmentation)
        single = {name: (None if F is None else F[0], None if D is None else D[0]) for name, (F, D) in parts.items()}
        return OneByOne(module, _first(W), _first(buffers), single, recipe, data, augmentation)

    left = checkpoints.load(target) if checkpoints is not None else None
    progress, live = left or (
        Progress(_stack_size(make, probe, shapes, replicas, data, recipe, key, report), tuple(snapshots)),
        None,
    )
    size = progress.size
    together = size > 1
    for start in range(progress.start, len(replicas), size):
        members = list(replicas[start : start + size])
        # Kernels that reduce over a stack of odd size end on a half-filled vector register, which rounds differently:
        # an odd stack gets a copy of its first member, so that a seed's bits do not depend on its company.
        padding = len(members) % 2 if together else 0
        members += members[:padding]
        kept = len(members) - padding
        stack = make(members, together)
        if live is not None:
            restore(stack.live(), live)
            live = None
        last = start + size >= len(replicas)
        _train_stack(stack, members, kept, data, recipe, augmentation, progress, key, report, checkpoints, last)
        # The memory of one stack is free before the next one is made.
        del stack
    merged = {
        epoch: {name: torch.cat([s[name] for s in parts]) for name in parts[0]}
        for epoch, parts in progress.snapshots.items()
    }
    history = pd.DataFrame(progress.history).sort_values(["mask_seed", "seed", "epoch"], ignore_index=True)
    return TrainedBlock(tuple(replicas), merged, fixed, history)


def _stack_size(
    make: Callable[[Sequence[Replica], bool], Stack],
    probe: nn.Module,
    shapes: Shapes,
    replicas: Sequence[Replica],
    data: TrainingData | Population,
    recipe: Recipe,
    key: tuple[str, str],
    report: Callable[[str], None],
) -> int:
    """How many replicas take a step together."""
    if isinstance(data, Population):
        return len(replicas)
    device = data.device
    if device.type != "cuda":
        return CPU_STACK if _stacks_on_cpu(probe, shapes) else 1

    def trial(R: int) -> Trial:
        stack = make([replicas[0]] * R, R > 1)
        return Trial(stack, R, data, recipe.batch_size, augmented=recipe.augment is not None)

    size = measured_stack_size(trial, may_be_slower=_convolves(shapes), device=device)
    report(f"{key[0]}/{key[1]}: stacks of up to {size} on the GPU")
    return size


def _stacks_on_cpu(module: nn.Module, shapes: Shapes) -> bool:
    """Whether a stacked step is faster and rounds as every other stack does.

    Layers whose width is no multiple of a vector register leave a remainder in it, which CPU kernels round differently;
    where in a stack that happens depends on the other replicas, so such networks run one by one. A stack's
    grouped convolutions are slower than plain ones: two ResNet20 of width 1 took 1.7 times as long.
    """
    widths = [shape[0] for shape in shapes.values()]
    hidden = widths[:-1] or widths
    small = sum(parameter.numel() for parameter in module.parameters()) < STACK_BELOW_PARAMETERS
    return small and not _convolves(shapes) and all(width % VECTOR == 0 for width in hidden)


def _convolves(shapes: Shapes) -> bool:
    return any(len(shape) == 4 for shape in shapes.values())


def _augmentation(
    augment: Augment | None, data: TrainingData | Population, key: tuple[str, str]
) -> Augmentation | None:
    if augment is None:
        return None
    if isinstance(data, Population) or data.image is None:
        raise UserError(
            f"study {key[0]}, variant {key[1]}: recipe.augment flips and crops images, but the data set's inputs are "
            "no images; set recipe.augment to null."
        )
    return Augmentation(data.image, data.black, augment.flip, augment.crop, data.device)


def _train_stack(
    stack: Stack,
    members: Sequence[Replica],
    kept: int,
    data: TrainingData | Population,
    recipe: Recipe,
    augmentation: Augmentation | None,
    progress: Progress,
    key: tuple[str, str],
    report: Callable[[str], None],
    checkpoints: Checkpoints | None,
    last_stack: bool,
) -> None:
    n, batch_size = data.n, recipe.batch_size
    steps_per_epoch = -(-n // batch_size)
    device = data.device
    take_step = captured_on_gpu(stack.step, device)
    snapshots = progress.snapshots
    if progress.loss is None or progress.hits is None:
        progress.loss = torch.zeros(len(members), dtype=torch.float64, device=device)
        progress.hits = torch.zeros(len(members), dtype=torch.int64, device=device)
        if 0 in snapshots:
            snapshots[0].append(_kept(stack, kept))
    while (epoch := progress.epoch) <= recipe.epochs:
        began = time.perf_counter() - progress.seconds
        batches = _batches(data, members, batch_size, augmentation, key, epoch)
        for batch in islice(batches, progress.batch, None):
            step = (epoch - 1) * steps_per_epoch + progress.batch
            loss, correct = take_step(learning_rate(recipe, step, steps_per_epoch), *batch)
            progress.loss += loss * batch[0].shape[1]
            progress.hits += correct
            progress.batch += 1
            if checkpoints is not None:
                last = last_stack and epoch == recipe.epochs and progress.batch == steps_per_epoch
                checkpoints.after_step(progress, time.perf_counter() - began, stack.live, last)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        time_s = (time.perf_counter() - began) / len(members)
        val_loss, val_accuracy = _validate(stack, data, len(members))
        # The training loss is taken before each step; the last step shows in the validation loss or in the weights.
        checked = progress.loss if data.n_val == 0 else progress.loss + progress.loss.new_tensor(val_loss)
        _check_finite(checked, members, key, epoch)
        if epoch in snapshots:
            snapshots[epoch].append(_kept(stack, kept))
            _check_finite(_sizes(snapshots[epoch][-1]), members[:kept], key, epoch)
        train_accuracy = _accuracy(data.task, progress.hits, n)
        for r, replica in enumerate(members[:kept]):
            progress.history.append(
                {
                    "mask_seed": replica.mask_seed,
                    "seed": replica.seed,
                    "epoch": epoch,
                    "train_loss": progress.loss[r].item() / n,
                    "train_accuracy": train_accuracy[r],
                    "val_loss": val_loss[r],
                    "val_accuracy": val_accuracy[r],
                    "time_s": time_s,
                }
            )
        report(
            f"{key[0]}/{key[1]} seeds {members[0].seed}..{members[-1].seed} epoch {epoch}/{recipe['epochs']}: "
            f"train loss {progress.loss.mean().item() / n:.4f}, {time_s * len(members):.2f} s"
        )
        progress.next_epoch()
    progress.next_stack()


def _sizes(state: State) -> Tensor:
    """One number for each replica that is finite only if its whole state is."""
    return torch.stack([tensor.reshape(len(tensor), -1).double().abs().sum(dim=1) for tensor in state.values()]).sum(
        dim=0
    )


def _kept(stack: Stack, kept: int) -> State:
    return {name: tensor[:kept] for name, tensor in stack.state().items()}


def _batches(
    data: TrainingData | Population,
    members: Sequence[Replica],
    batch_size: int,
    augmentation: Augmentation | None,
    key: tuple[str, str],
    epoch: int,
) -> Iterator[tuple[Tensor, ...]]:
    """What the steps of an epoch are given: [r, b] rows of the data and, augmented, views of them; or fresh inputs."""
    if isinstance(data, Population):
        drawn = [data.inputs(members, key, epoch)]
    else:
        orders = [torch_generator(*key, "order", r.mask_seed, r.seed, epoch) for r in members]
        drawn = [torch.stack([torch.randperm(data.n, generator=order) for order in orders]).to(data.device)]
    if augmentation is not None:
        views = [augmentation.draw(data.n, *key, "augment", r.mask_seed, r.seed, epoch) for r in members]
        drawn.append(torch.stack(views).to(data.device))
    return zip(*(tensor.split(batch_size, dim=1) for tensor in drawn), strict=True)


def _validate(stack: Stack, data: TrainingData | Population, R: int) -> tuple[list[float], list[float]]:
    n = data.n_val
    if isinstance(data, Population) or n == 0:
        return [float("nan")] * R, [float("nan")] * R
    total_loss = torch.zeros(R, dtype=torch.float64, device=data.x_val.device)
    total_hits = torch.zeros(R, dtype=torch.int64, device=data.x_val.device)
    for x, y in zip(data.x_val.split(EVALUATION_BATCH), data.y_val.split(EVALUATION_BATCH), strict=True):
        loss, correct = stack.evaluate(x, y)
        total_loss += loss
        total_hits += correct
    return (total_loss / n).tolist(), _accuracy(data.task, total_hits, n)


def _accuracy(task: str, correct: Int[Tensor, " r"], n: int) -> list[float]:
    return [float("nan")] * len(correct) if task == "regression" else (correct / n).tolist()


def _check_batches(module: nn.Module, n: int, batch_size: int, key: tuple[str, str]) -> None:
    normalises = any(isinstance(child, nn.modules.batchnorm._BatchNorm) for child in module.modules())
    if normalises and 1 in (n % batch_size, batch_size, n):
        raise UserError(
            f"study {key[0]}, variant {key[1]}: with {n} training samples and recipe.batch_size {batch_size} "
            "some batch holds one sample, which a batch norm cannot normalise; choose another batch size."
        )


def _check_finite(total_loss: Tensor, members: Sequence[Replica], key: tuple[str, str], epoch: int) -> None:
    for replica, finite in zip(members, total_loss.isfinite().tolist(), strict=True):
        if not finite:
            raise UserError(
                f"Training diverged: study {key[0]}, variant {key[1]}, mask seed {replica.mask_seed}, "
                f"seed {replica.seed} has a loss or weights that are not finite in epoch {epoch}. "
                "Lower recipe.lr or choose another initialisation."
            )


def _stack(states: list[State]) -> State:
    return {name: torch.stack([state[name] for state in states]) for name in states[0]}


def _stack_parts(
    parts: list[tuple[Tensor | None, Tensor | None]], device: torch.device
) -> tuple[Tensor | None, Tensor | None]:
    def joined(which: int) -> Tensor | None:
        tensors = [part[which] for part in parts]
        return None if tensors[0] is None else torch.stack(tensors).to(device)  # type: ignore[arg-type]

    return joined(0), joined(1)


def _move(state: State, device: torch.device) -> State:
    return {name: tensor.to(device) for name, tensor in state.items()}


def _first(state: State) -> State:
    return {name: tensor[0] for name, tensor in state.items()}
