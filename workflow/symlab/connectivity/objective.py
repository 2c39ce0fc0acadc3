"""What a network is scored by: cross-entropy of labels, squared error of real targets, or a function of the user's."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn import functional

from symlab.errors import UserError

# A target that counts neither in the loss nor in the accuracy, as in torch.
IGNORED = -100

Metric = Callable[[Tensor, Tensor], Tensor]
Task = str | Metric
"""``classification``, ``regression``, or a function of outputs and targets whose values, of each sample or in the mean
over the batch, are the better the lower they are."""


def check_task(task: Task) -> None:
    """Check that a task is one.

    Raises:
        UserError: it is not.
    """
    if not callable(task) and task not in ("classification", "regression"):
        raise UserError(f"task is {task!r}; it must be classification or regression.")


def by_class(output: Float[Tensor, "n ..."], y: Shaped[Tensor, "n ..."]) -> Float[Tensor, "n ... c"]:
    """Logits with the classes last; images have them second, as torch's own losses want it.

    One logit z a label stands for 0 and z, whose softmax is the sigmoid of z.

    Raises:
        UserError: there is not a vector of logits for each label.
    """
    if output.shape == y.shape or output.shape == (*y.shape, 1):
        z = output.reshape(y.shape)
        return torch.stack([torch.zeros_like(z), z], -1)
    if output.shape[:-1] == y.shape:
        return output
    if output.dim() == y.dim() + 1 and (*output.shape[:1], *output.shape[2:]) == y.shape:
        return by_class(output.movedim(1, -1), y)
    raise UserError(
        f"labels of shape {('n', *y.shape[1:])} need logits of shape {('n', *y.shape[1:], 'classes')}, or of the "
        f"labels' own where each is 0 or 1, not {('n', *output.shape[1:])}."
    )


def losses(output: Float[Tensor, "n ..."], y: Shaped[Tensor, "n ..."], task: Task) -> Float[Tensor, " k"]:
    """The loss of each sample; of labels at every token or pixel that of each label that counts.

    A metric that gives one number for the batch counts as that for each sample.

    Raises:
        UserError: outputs and targets do not fit together.
    """
    if callable(task):
        return _metric_values(output, y, task).expand(len(y))
    if task == "classification":
        flat = y.flatten()
        values = functional.cross_entropy(
            by_class(output, y).flatten(0, -2), flat, reduction="none", ignore_index=IGNORED
        )
        return values[flat != IGNORED]
    return (_like(output, y) - y).square().flatten(1).mean(1) if y.dim() > 1 else (_like(output, y) - y).square()


def losses_of_units(
    output: Float[Tensor, "n ..."], y: Shaped[Tensor, "n ..."], task: Task
) -> tuple[Float[Tensor, " k"], Int[Tensor, " units"]]:
    """``losses``, and how many of them, in order, belong to each unit that was drawn by itself.

    A unit is a sample, with all of its labels; where a metric gives one number for the batch it is the batch.
    """
    if callable(task):
        values = _metric_values(output, y, task)
        return values.expand(len(y)), torch.ones(len(y)).long() if values.dim() else torch.tensor([len(y)])
    labels = y != IGNORED if task == "classification" else torch.ones(len(y), 1)
    return losses(output, y, task), labels.reshape(len(y), -1).sum(1).long().cpu()


def _metric_values(output: Tensor, y: Tensor, metric: Metric) -> Tensor:
    """What a metric gives: a number for each sample, or one for the batch."""
    value = torch.as_tensor(metric(output, y)).to(y.device).double()
    if value.dim() and value.shape[:1] != y.shape[:1]:
        raise UserError(
            f"the metric gave a tensor of shape {tuple(value.shape)} for {len(y)} samples; it must give a number "
            "for each, or one for all."
        )
    return value.flatten(1).mean(1) if value.dim() > 1 else value


def summed_loss(output: Float[Tensor, "n ..."], y: Shaped[Tensor, "n ..."], task: Task) -> Float[Tensor, ""]:
    """The sum of ``losses``."""
    if task == "classification":
        flat = by_class(output, y).flatten(0, -2)
        return functional.cross_entropy(flat, y.flatten(), reduction="sum", ignore_index=IGNORED)
    if task == "regression" and y.dim() == 1:
        return functional.mse_loss(_like(output, y), y, reduction="sum")
    return losses(output, y, task).sum()


def right(output: Float[Tensor, "n ..."], y: Shaped[Tensor, "n ..."]) -> Bool[Tensor, " k"]:
    """Whether each label that counts is the class of the largest logit."""
    flat = y.flatten()
    return (by_class(output, y).argmax(dim=-1).flatten() == flat)[flat != IGNORED]


def counted(y: Shaped[Tensor, "n ..."], task: Task) -> int:
    """How many losses there are."""
    return int((y != IGNORED).sum()) if task == "classification" else len(y)


def _like(output: Tensor, y: Tensor) -> Tensor:
    """Real outputs in the targets' shape, which may lack or have a last axis of one entry."""
    if output.numel() != y.numel():
        raise UserError(
            f"real targets of shape {('n', *y.shape[1:])} need a network with as many outputs, not "
            f"{('n', *output.shape[1:])}; labels of classes must be integers."
        )
    return output.reshape(y.shape)
