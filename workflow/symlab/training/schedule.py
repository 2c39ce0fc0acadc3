"""The course of the learning rate: ``recipe.schedule``."""

import math

from symlab.training.settings import Constant, Exponential, Recipe, Warmup


def learning_rate(recipe: Recipe, step: int, steps_per_epoch: int) -> float:
    """The learning rate of a step (counted from 0), constant within the step.

    ``recipe.schedule.name``: ``constant``; ``cosine`` (to 0 at the last step, after an optional linear warm-up);
    ``warmup`` (linear over ``warmup_epochs``, then constant); ``exponential`` (lr * gamma^epoch for ``growth_epochs``
    epochs, then constant: the paper's ResNet recipe is lr 1e-4, gamma 1.259, 20 epochs).
    """
    schedule, lr = recipe.schedule, recipe.lr
    if isinstance(schedule, Constant):
        return lr
    if isinstance(schedule, Exponential):
        return lr * schedule.gamma ** min(step // steps_per_epoch, schedule.growth_epochs)
    warmup = round(schedule.warmup_epochs * steps_per_epoch)
    if step < warmup:
        return lr * (step + 1) / warmup
    if isinstance(schedule, Warmup):
        return lr
    total = recipe.epochs * steps_per_epoch
    return lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))
