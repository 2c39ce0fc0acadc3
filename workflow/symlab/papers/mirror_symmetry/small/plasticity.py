"""Regressors that learn one task after the other, and how many of their parameters have died (Fig. 4)."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.adam import Adam
from symlab.papers.mirror_symmetry.settings import Plasticity
from symlab.seeds import numpy_rng

VANILLA, SKIP, HADAMARD, KEPT = "vanilla", "skip", "Hadamard", "one Adam for all tasks"
BIAS, DECAY, SYRE, NOISE, SGD = "bias", "decay", "bias and decay", "noise", "SGD"
BETA_2 = 0.999
DEAD = 1e-6
"""At most so large is the gradient of what counts as dead."""
CHUNK = 1000
"""Steps whose batches and noise are drawn at once."""


def list_variants(settings: Plasticity) -> pd.DataFrame:
    """A row a regressor; those with decay, with noise and of SGD stand together, as ``Learner`` needs."""
    rows = [(name, 0.0, settings.lr) for name in (VANILLA, SKIP, HADAMARD, KEPT, BIAS, DECAY, SYRE)]
    rows += [(NOISE, variance, settings.lr) for variance in settings.noise] + [(SGD, 0.0, lr) for lr in settings.sgd_lr]
    return pd.DataFrame(rows, columns=["variant", "noise", "lr"])


class Learner:
    """All variants and seeds as one array of parameters [u w v, seeds, variants, d], in double precision.

    Variants of a seed share tasks, batches, initial weights and, up to its variance, noise.
    """

    def __init__(self, settings: Plasticity, study: str) -> None:
        self.variants = list_variants(settings)
        names = list(self.variants["variant"])
        self.n_adam = names.index(SGD)
        self.noisy = slice(names.index(NOISE), self.n_adam)
        self.decayed = slice(names.index(DECAY), names.index(SYRE) + 1)
        self.fresh = np.array([name != KEPT for name in names[: self.n_adam]])
        self.gamma, self.batch = settings.decay, settings.batch
        self.std = np.sqrt(self.variants["noise"].to_numpy()[self.noisy])[:, None]
        self.lr = self.variants["lr"].to_numpy()[:, None]
        # Of theta = u * w + v vanilla regressors have v alone, and a skip all three.
        products = [name != VANILLA for name in names]
        self.has = np.array([products, products, np.isin(names, [VANILLA, SKIP])], dtype=float)[:, None, :, None]

        def drawn(what: str) -> np.ndarray:
            streams = [numpy_rng(study, "plasticity", what, seed) for seed in range(settings.seeds)]
            return np.stack([each.normal(size=(3, settings.d)) for each in streams], axis=1)[:, :, None]

        self.values = drawn("start") / settings.d**0.5 * self.has
        # A skip starts as the product that it is added to.
        self.values[2, :, names.index(SKIP)] = 0.0
        biased = np.isin(names, [BIAS, SYRE]).astype(float)[:, None]
        self.bias = drawn("bias") * settings.bias**0.5 * biased * self.has
        self.adam = Adam(self.values[:, :, : self.n_adam], None, BETA_2)

    def theta(self) -> Float[np.ndarray, "seeds variants d"]:
        """The coefficients of every regressor."""
        u, w, v = self.values + self.bias
        return u * w + v

    def gradient(
        self, x: Float[np.ndarray, "seeds n d"], y: Float[np.ndarray, "seeds n"]
    ) -> Float[np.ndarray, "3 seeds variants d"]:
        """Of the mean squared error on some samples, with respect to u, w and v (0 for those that a variant lacks)."""
        u, w, v = self.values + self.bias
        pull = ((u * w + v) @ x.swapaxes(1, 2) - y[:, None]) @ x
        pull *= 2 / x.shape[1]
        found = np.empty_like(self.values)
        np.multiply(w, pull, out=found[0])
        np.multiply(u, pull, out=found[1])
        np.multiply(pull, self.has[2], out=found[2])
        return found

    def losses(self, x: Float[np.ndarray, "seeds n d"], y: Float[np.ndarray, "seeds n"]) -> np.ndarray:
        """Mean squared error on all samples of a task [seeds, variants]."""
        return np.square(self.theta() @ x.swapaxes(1, 2) - y[:, None]).mean(2)

    def step(self, x: np.ndarray, y: np.ndarray, z: Float[np.ndarray, "3 seeds 1 d"]) -> None:
        """One step of Adam without momentum, or of SGD, on a batch, with standard normal ``z`` for the noise."""
        found = self.gradient(x, y)
        found[:, :, self.noisy] += self.std * z * self.has[:, :, self.noisy]
        found[:, :, self.decayed] += 2 * self.gamma * self.values[:, :, self.decayed]
        self.adam.direct(found[:, :, : self.n_adam])
        found *= self.lr
        self.values -= found


def draw_tasks(
    settings: Plasticity, study: str
) -> tuple[Float[np.ndarray, "tasks seeds n d"], Float[np.ndarray, "tasks seeds n"]]:
    """x ~ N(0, I) and y, the mean of its entries with noise, new for each task and seed."""
    streams = [numpy_rng(study, "plasticity", "tasks", seed) for seed in range(settings.seeds)]
    x, noise = (
        np.stack([each.normal(size=(settings.tasks, settings.n, *last)) for each in streams], axis=1)
        for last in ((settings.d,), ())
    )
    return x, x.mean(3) + settings.label_noise * noise


def learn_tasks(settings: Plasticity, job: Job) -> dict[str, pd.DataFrame]:
    """Train every variant on one task after the other, and count dead parameters whenever a new task arrives.

    Dead is a parameter whose full gradient on the new task's samples, without noise and decay, is at most ``DEAD``.
    """
    learner = Learner(settings, job.study)
    keys, has = learner.variants, learner.has > 0
    losses, dead, of_seed = [], [], np.arange(settings.seeds)[:, None]
    before = np.zeros(learner.values.shape, dtype=bool)
    for task, (x, y) in enumerate(zip(*draw_tasks(settings, job.study), strict=True), 1):
        now = (np.abs(learner.gradient(x, y)) <= DEAD) & has
        counts = {"dead": now, "kept": now & before, "before": before}
        columns = {name: each.sum((0, 3)) for name, each in counts.items()}
        columns["parameters"] = np.broadcast_to(has, now.shape).sum((0, 3))
        dead.append(_rows(keys, columns).assign(task=task, threshold=DEAD))
        before = now
        # A new Adam for each variant but the one that keeps its own.
        learner.adam.restart(learner.fresh)
        for batch, z in _draw_steps(settings, job.study, task):
            learner.step(x[of_seed, batch], y[of_seed, batch], z)
        losses.append(_rows(keys, {"loss": learner.losses(x, y)}).assign(task=task))
        job.report(f"task {task}")
    tables = {"mirror_plasticity.csv": losses, "mirror_dead.csv": dead}
    return {name: pd.concat(each, ignore_index=True) for name, each in tables.items()}


def _rows(keys: pd.DataFrame, columns: dict[str, Float[np.ndarray, "seeds variants"]]) -> pd.DataFrame:
    """A row a seed and variant."""
    of_seed = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return pd.concat([keys.assign(seed=seed, **values) for seed, values in enumerate(of_seed)])


def _draw_steps(
    settings: Plasticity, study: str, task: int
) -> Iterator[tuple[Int[np.ndarray, "seeds batch"], np.ndarray]]:
    """Rows of the batch and standard normal values for the noise of every step of a task."""
    drawn = [numpy_rng(study, "plasticity", "steps", seed, task) for seed in range(settings.seeds)]
    for first in range(0, settings.steps, CHUNK):
        steps = min(CHUNK, settings.steps - first)
        rows = np.stack([each.integers(settings.n, size=(steps, settings.batch)) for each in drawn], 1)
        z = np.stack([each.normal(size=(steps, 3, settings.d)) for each in drawn], 2)
        yield from zip(rows, z[:, :, :, None], strict=True)
