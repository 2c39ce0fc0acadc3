"""Targets: what compares them with a network's outputs, and whether they fit these."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from symlab.connectivity.objective import IGNORED, Task, by_class, losses
from symlab.errors import UserError
from symlab.own.modules import foreign

JUDGED_SAMPLES = 256


def task_of(
    y: Shaped[Tensor, "n ..."], output: Shaped[Tensor, "m ..."], outputs: Callable[[Tensor], Tensor], name: str
) -> tuple[str, str]:
    """What compares targets with outputs if nobody says it, and a sentence where that is not plain from their type.

    Integers are labels and real numbers are not, but for 0 and 1: so torch's own loss wants the labels of one logit
    each. They are labels if the outputs are no such numbers themselves: these explain some of the targets' variance,
    as those of a network that was trained by squared error do (logits that tell a chance truly never do), or all lie
    between 0 and 1, as a sigmoid's do.

    Args:
        output: the network's for the first samples.
        outputs: those for samples of some numbers.
        name: what messages call the data.
    """
    real = y.is_floating_point()
    plain = "regression" if real else "classification"
    if not (bool((y == 0).any()) and bool((y == 1).any()) and bool(((y == 0) | (y == 1)).all())):
        return plain, ""
    if output.numel() != y[: len(output)].numel() or not output.is_floating_point():
        return plain, ""
    rows = torch.linspace(0, len(y) - 1, min(len(y), JUDGED_SAMPLES)).long()
    truth = y[rows].double().cpu()
    numbers = outputs(rows).reshape(truth.shape).double().cpu()
    within = bool(((numbers >= 0) & (numbers <= 1)).all())
    if not real:
        told = f"The outputs for {name} lie between 0 and 1, as a sigmoid's do, but count as logits of the labels: "
        return plain, (told + "give the module without its sigmoid, or say --task regression.") * within
    told, one_hot = f"y in {name} holds 0 and 1 as real numbers: ", _one_hot(y)
    if one_hot is not None:
        return plain, told + f"compared with the outputs by squared error (as classes: y.argmax({one_hot}))."
    if within or bool((numbers - truth).square().mean() < truth.var(0, correction=0).mean()):
        return plain, told + "compared with the outputs by squared error (--task classification: a logit each)."
    return "classification", told + "taken as labels, each output as a logit (--task regression: squared error)."


def as_compared(y: Tensor, task: Task, name: str, dtype: torch.dtype) -> Tensor:
    """Targets of the type that the task compares.

    Raises:
        UserError: they are no labels, or not finite.
    """
    if y.is_floating_point() and not y.isfinite().all():
        raise UserError(f"y in {name} has entries that are NaN or infinite.")
    if callable(task):
        return y.to(dtype) if y.is_floating_point() else y
    if task == "regression":
        return y.to(dtype)
    if y.is_floating_point() and not torch.equal(y, y.round()):
        raise UserError(f"y in {name} holds real numbers that are no labels of classes; say --task regression.")
    y = y.long()
    counted = y[y != IGNORED]
    if not len(counted):
        raise UserError(f"y in {name} holds no label but {IGNORED}, which is ignored: there would be no loss.")
    if int(counted.min()) < 0:
        raise UserError(
            f"y in {name} holds the label {int(counted.min())}; labels are counted from 0 ({IGNORED}: ignored)."
        )
    return y


def check_targets(y: Tensor, output: Any, task: Task, name: str) -> None:
    """Check that targets can be compared with the network's outputs, before anything long is computed.

    Raises:
        UserError: they cannot.
    """
    what = f"comparing the outputs with y in {name}, of shape {('n', *y.shape[1:])},"
    with foreign(f"calling the metric for {what}" if callable(task) else what):
        if task == "classification":
            classes = by_class(output, y[:2]).shape[-1]
            if int(y.max()) >= classes:
                raise UserError(
                    f"y in {name} holds the label {int(y.max())}, but the network's outputs tell {classes} classes: "
                    f"labels are counted from 0 to {classes - 1} (or say --task regression)."
                )
            _check_classes(y, output, name)
        losses(output, y[:2], task)


def _one_hot(y: Shaped[Tensor, "n ..."]) -> int | None:
    """The axis along which each sample has one 1, if there is one."""
    axes = [axis for axis in sorted({1, y.dim() - 1}) if 0 < axis < y.dim() and y.shape[axis] > 1]
    return next((axis for axis in axes if bool((y.sum(axis) == 1).all())), None)


def _check_classes(y: Shaped[Tensor, "n ..."], output: Tensor, name: str) -> None:
    """Check that labels with a logit each are no classes one-hot, whose logits are a softmax's and not sigmoids'.

    Raises:
        UserError: along an axis of theirs each sample has one 1.
    """
    if output.shape[1:] == y.shape[1:] and int(y.min()) >= 0 and (axis := _one_hot(y)) is not None:
        raise UserError(
            f"y in {name}, of shape {('n', *y.shape[1:])}, is one-hot: give y.argmax({axis}), or, where each logit "
            "is a sigmoid's of its own, the loss as a metric."
        )
