"""The replica engine: trains many networks of one variant, each from its own generators, as one stacked set of tensors.

A replica's result depends on (study, variant, mask seed, seed) alone. Wide networks on the CPU run one replica after
another on one thread, because there a batched matrix product gains nothing over the plain one; small networks and GPUs
run a whole stack in each step, on a GPU as large as its memory allows. The choice depends on the network and the
device, never on how many replicas are asked for, so that on a CPU a seed gives the same bits alone and in a block (on a
GPU, the same up to rounding).

Training is an objective (what is descended: ``TrainingData``, ``Population``), a scheme (what the weights are composed
of), and an update and a schedule (``recipe``). The loop knows none of them by kind.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice

import pandas as pd
import torch
from torch import Tensor, nn

from symlab.device import is_accelerator
from symlab.errors import UserError
from symlab.networks import Init
from symlab.networks.initialise import sample_parameters
from symlab.products import fast_products
from symlab.schemes import Scheme
from symlab.schemes.fixed_parts import FixedParts, State, sample_buffers, sample_fixed_parts, weight_shapes
from symlab.seeds import torch_generator
from symlab.training.cuda_graph import captured_on_gpu
from symlab.training.objective import Objective, Replica, Replicas, Stack, accuracies
from symlab.training.polish import Polisher
from symlab.training.precision import arithmetic
from symlab.training.resume import Checkpoints, Progress, restore
from symlab.training.schedule import learning_rate
from symlab.training.settings import Recipe
from symlab.training.stack_size import goes_side_by_side

HISTORY = ["mask_seed", "seed", "epoch", "train_loss", "train_accuracy", "val_loss", "val_accuracy", "time_s"]


@dataclass(frozen=True)
class Run:
    """All that decides the networks of a variant, seeds apart.

    build: makes the module; its own parameters are overwritten.
    objective: what is descended, e.g. ``TrainingData``.
    snapshots: epochs whose effective states are kept; 0 is the initialisation.
    key: (study, variant), which every random generator is derived from, so that adding variants changes nothing. The
        mask generator leaves the variant out: a sweep over sigma_F shares masks and scaled values.
    device: of training; some objectives stay on the CPU.
    start: weights to begin from instead of random ones, [seeds, ...] each.
    """

    build: Callable[[], nn.Module]
    objective: Objective
    scheme: Scheme
    init: Init
    recipe: Recipe
    snapshots: Sequence[int]
    key: tuple[str, str]
    device: str = "cpu"
    start: State | None = None

    @property
    def name(self) -> str:
        """Of the variant, in log lines."""
        return f"{self.key[0]}/{self.key[1]}"


@dataclass(frozen=True)
class TrainedBlock:
    """Effective states at the snapshot epochs (stacked, on the CPU), fixed parts, history, and where L-BFGS ended."""

    replicas: tuple[Replica, ...]
    snapshots: dict[int, State]
    fixed: dict[int, FixedParts]
    history: pd.DataFrame
    polished: pd.DataFrame


def train_block(
    run: Run,
    replicas: Sequence[Replica],
    report: Callable[[str], None] = lambda line: None,
    checkpoints: Checkpoints | None = None,
) -> TrainedBlock:
    """Train every replica and keep its effective state at the epochs in ``run.snapshots``.

    Args:
        report: receives one line an epoch.
        checkpoints: where progress is kept, and whence training goes on if it was left; None keeps nothing.

    Returns:
        Stacked states in the order of ``replicas``, F and D for each mask seed, and a history with one row for each
        replica and epoch: training loss and accuracy averaged over the epoch's batches as they were trained on,
        validation loss and accuracy after the epoch, and ``time_s``, the epoch's seconds divided by the stack's size.
        ``polished`` has a row for each replica, if L-BFGS ended training, with what ``Polisher.end`` gives.

    Raises:
        UserError: a replica's loss stopped being finite (names study, variant, seed and epoch), or the recipe asks for
            what the objective or the device do not allow.
        Interrupted: a signal asked to stop, and a checkpoint was written.
    """
    device = torch.device(run.device)
    with fast_products(), arithmetic(run.recipe.precision, device), checkpoints or nullcontext():
        objective = run.objective.prepared(run.recipe, device, run.key)
        return _Training(run, objective, tuple(replicas), report, checkpoints).block()


class _Training:
    """A block in training: what its stacks have in common."""

    def __init__(
        self,
        run: Run,
        objective: Objective,
        replicas: tuple[Replica, ...],
        report: Callable[[str], None],
        checkpoints: Checkpoints | None,
    ):
        self.run, self.objective, self.replicas = run, objective, replicas
        self.report, self.checkpoints = report, checkpoints
        self.steps_per_epoch = -(-objective.n // (run.recipe.batch_size or objective.n))
        probe = run.build()
        objective.check(probe, run.recipe, run.key)
        shapes = weight_shapes(probe)
        self.beside = goes_side_by_side(probe, run.recipe, objective.device)
        mask_seeds = sorted({replica.mask_seed for replica in replicas})
        self.fixed = {seed: sample_fixed_parts(run.scheme, shapes, run.key[0], "mask", seed) for seed in mask_seeds}
        left = checkpoints.load(objective.device) if checkpoints is not None else None
        self.live: State | None = None
        self.polisher: Polisher | None = None
        if left is None:
            self.progress = Progress(self._stack_size(probe), tuple(run.snapshots))
        else:
            self.progress, self.live = left

    def _stack_size(self, probe: nn.Module) -> int:
        def make(R: int) -> Stack:
            return self._stack([self.replicas[0]] * R)

        size, told = self.objective.stack_size(make, probe, self.run.recipe, len(self.replicas))
        if told:
            self.report(f"{self.run.name}: {told}")
        return size

    def _stack(self, members: Sequence[Replica]) -> Stack:
        """Networks as they are before the first step."""
        run, (study, variant) = self.run, self.run.key
        module = run.build()
        generators = [torch_generator(study, variant, "init", r.mask_seed, r.seed) for r in members]
        if run.start is None:
            W = _stacked([sample_parameters(module, run.init, generator) for generator in generators])
        else:
            places, dtype = [r.seed for r in members], torch.float64 if run.recipe.precision == "float64" else None
            W = {name: run.start[name][places].to(dtype or torch.float32) for name, _ in module.named_parameters()}
        plain = {name: buffer.detach().cpu() for name, buffer in module.named_buffers()}
        buffers = _stacked([{**plain, **sample_buffers(module, study, "mask", r.mask_seed)} for r in members])
        fixed = _stacked_parts([self.fixed[r.mask_seed] for r in members])
        return self.objective.stack(Replicas(members, module.train(), W, buffers, fixed, run.scheme, run.recipe))

    def block(self) -> TrainedBlock:
        """Train stack after stack."""
        progress, size = self.progress, self.progress.size
        for start in range(progress.start, len(self.replicas), size):
            members = list(self.replicas[start : start + size])
            kept = len(members)
            # Kernels that reduce over a stack of odd size end on a half-filled vector register, which rounds
            # differently: an odd stack gets a copy of its first member, so that a seed's bits do not depend on its
            # company. Networks side by side have no kernels in common.
            members += members[: kept % 2 if size > 1 and not self.beside else 0]
            stack = self._stack(members)
            if self.live is not None:
                self._go_on(stack, members)
            self._train(stack, members, kept, last_stack=start + size >= len(self.replicas))
            # The memory of one stack is free before the next one is made.
            del stack
        merged = {
            epoch: {name: torch.cat([s[name] for s in parts]) for name in parts[0]}
            for epoch, parts in progress.snapshots.items()
        }
        history = pd.DataFrame(progress.history, columns=HISTORY)
        history = history.sort_values(["mask_seed", "seed", "epoch"], ignore_index=True)
        polished = pd.DataFrame(progress.polished or {"mask_seed": [], "seed": []})
        return TrainedBlock(self.replicas, merged, self.fixed, history, polished)

    def _go_on(self, stack: Stack, members: Sequence[Replica]) -> None:
        """Put what a checkpoint holds into a stack."""
        assert self.live is not None
        if self.progress.polishes:
            self.polisher = self._polisher(stack, members)
            self.polisher.restore(self.live)
        else:
            restore(stack.live(), self.live)
        self.live = None

    def _polisher(self, stack: Stack, members: Sequence[Replica]) -> Polisher:
        assert self.run.recipe.polish is not None
        batch = next(iter(self.objective.batches(members, None, self.run.key, self.run.recipe.epochs)))
        return Polisher(stack, batch, self.run.recipe.polish)

    def _polish(self, stack: Stack, members: Sequence[Replica], kept: int, last_stack: bool) -> None:
        """Minimise what the last step of the last epoch leaves."""
        progress = self.progress
        if self.polisher is None:
            self.polisher, progress.polishes = self._polisher(stack, members), True
        while not self.polisher.ended:
            self.polisher.iterate()
            if self.checkpoints is not None:
                last = last_stack and self.polisher.ended
                self.checkpoints.after_step(progress, progress.seconds, self.polisher.live, last)
        ended = {name: values.tolist() for name, values in self.polisher.end().items()}
        for r, replica in enumerate(members[:kept]):
            of_replica = {"mask_seed": replica.mask_seed, "seed": replica.seed}
            progress.polished.append(of_replica | {name: values[r] for name, values in ended.items()})
        self.polisher, progress.polishes = None, False

    def _train(self, stack: Stack, members: Sequence[Replica], kept: int, last_stack: bool) -> None:
        run, progress, device = self.run, self.progress, self.objective.device
        take_step = captured_on_gpu(stack.step, device)
        begins = progress.loss is None
        if progress.loss is None or progress.hits is None:
            progress.loss = torch.zeros(len(members), dtype=torch.float64, device=device)
            progress.hits = torch.zeros(len(members), dtype=torch.int64, device=device)
        if run.recipe.epochs == 0:
            self._polish(stack, members, kept, last_stack)
        if (begins or run.recipe.epochs == 0) and 0 in progress.snapshots:
            progress.snapshots[0].append(_kept(stack, kept))
        while (epoch := progress.epoch) <= run.recipe.epochs:
            began = time.perf_counter() - progress.seconds
            batches = self.objective.batches(members, run.recipe.batch_size, run.key, epoch)
            for batch in islice(batches, progress.batch, None):
                step = (epoch - 1) * self.steps_per_epoch + progress.batch
                rate = learning_rate(run.recipe, step, self.steps_per_epoch)
                loss, correct = take_step(rate, *batch)
                progress.loss += loss * batch[0].shape[1]
                progress.hits += correct
                progress.batch += 1
                if self.checkpoints is not None:
                    ends = epoch == run.recipe.epochs and progress.batch == self.steps_per_epoch
                    last = last_stack and ends and run.recipe.polish is None
                    self.checkpoints.after_step(progress, time.perf_counter() - began, stack.live, last)
            if run.recipe.polish is not None and epoch == run.recipe.epochs:
                self._polish(stack, members, kept, last_stack)
            if is_accelerator(device):
                torch.get_device_module(device).synchronize(device)
            self._end_epoch(stack, members, kept, (time.perf_counter() - began) / len(members))
        progress.next_stack()

    def _end_epoch(self, stack: Stack, members: Sequence[Replica], kept: int, time_s: float) -> None:
        progress, epoch, key = self.progress, self.progress.epoch, self.run.key
        assert progress.loss is not None and progress.hits is not None
        val_loss, val_accuracy = self.objective.validate(stack, len(members))
        # The training loss is taken before each step; the last step shows in the validation loss or in the weights.
        checked = progress.loss + progress.loss.new_tensor(val_loss) if self.objective.validates else progress.loss
        _check_finite(checked, members, key, epoch)
        if epoch in progress.snapshots:
            progress.snapshots[epoch].append(_kept(stack, kept))
            _check_finite(_sizes(progress.snapshots[epoch][-1]), members[:kept], key, epoch)
        n = self.objective.n
        train_accuracy = accuracies(self.objective.task, progress.hits, n)
        for r, replica in enumerate(members[:kept]):
            trained = progress.loss[r].item() / n, train_accuracy[r]
            row = (replica.mask_seed, replica.seed, epoch, *trained, val_loss[r], val_accuracy[r], time_s)
            progress.history.append(dict(zip(HISTORY, row, strict=True)))
        self.report(
            f"{self.run.name} seeds {members[0].seed}..{members[-1].seed} epoch {epoch}/{self.run.recipe.epochs}: "
            f"train loss {progress.loss.mean().item() / n:.4f}, {time_s * len(members):.2f} s"
        )
        progress.next_epoch()


def _sizes(state: State) -> Tensor:
    """One number for each replica that is finite only if its whole state is."""
    return torch.stack([tensor.reshape(len(tensor), -1).double().abs().sum(dim=1) for tensor in state.values()]).sum(
        dim=0
    )


def _kept(stack: Stack, kept: int) -> State:
    return {name: tensor[:kept] for name, tensor in stack.state().items()}


def _check_finite(total_loss: Tensor, members: Sequence[Replica], key: tuple[str, str], epoch: int) -> None:
    for replica, finite in zip(members, total_loss.isfinite().tolist(), strict=True):
        if not finite:
            raise UserError(
                f"Training diverged: study {key[0]}, variant {key[1]}, mask seed {replica.mask_seed}, "
                f"seed {replica.seed} has a loss or weights that are not finite in epoch {epoch}. "
                "Lower recipe.lr or choose another initialisation."
            )


def _stacked(states: list[State]) -> State:
    return {name: torch.stack([state[name] for state in states]) for name in states[0]}


def _stacked_parts(parts: list[FixedParts]) -> FixedParts:
    def joined(tensors: list[Tensor | None]) -> Tensor | None:
        return None if tensors[0] is None else torch.stack(tensors)  # type: ignore[arg-type]

    return {
        name: (joined([part[name][0] for part in parts]), joined([part[name][1] for part in parts]))
        for name in parts[0]
    }
