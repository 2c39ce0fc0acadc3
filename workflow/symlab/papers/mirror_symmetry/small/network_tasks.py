"""Networks that learn one labelling of images after the other, with and without rescaling symmetry (Fig. 4 beyond)."""

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from symlab.measures.job import Job
from symlab.papers.mirror_symmetry.settings import NetworkTasks
from symlab.papers.mirror_symmetry.small.plasticity import BETA_2, BIAS, DECAY, HADAMARD, NOISE, SKIP, SYRE, VANILLA
from symlab.schemes.hadamard import Product
from symlab.seeds import numpy_rng, torch_generator
from symlab.training import updates
from symlab.training.settings import Recipe

VARIANTS = VANILLA, HADAMARD, NOISE, BIAS, DECAY, SYRE, SKIP
RECIPE = Recipe(epochs=1, lr=1.0, optimizer="adam", betas=[0.0, BETA_2])
DEAD = 1e-6
"""At most so large is the gradient of a dead parameter."""


class Networks:
    """One hidden layer of relu for each variant, stacked: parameters [u w v, variants, ...], theta = u * w + v."""

    def __init__(self, settings: NetworkTasks, inputs: int, classes: int, generator: torch.Generator) -> None:
        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator)

        def rows(*names: str) -> Tensor:
            return torch.tensor([name in names for name in VARIANTS]).float()

        width = settings.width
        start = [normal(width, inputs), normal(width), normal(classes, width), normal(classes)]
        fans = inputs, inputs, width, width
        products = rows(*(name for name in VARIANTS if name != VANILLA))
        self.has = torch.stack([products, products, rows(VANILLA, SKIP)])
        self.parameters, self.bias = [], []
        for value, fan_in in zip(start, fans, strict=True):
            # All variants start as the same function: a skip as the product alone.
            theta = value / fan_in**0.5
            u, w = Product(on_mirror=False, stacked=False).start(theta)
            each = torch.stack([torch.stack([part] * len(VARIANTS)) for part in (u, w, theta)])
            each[2, VARIANTS.index(SKIP)] = 0
            self.parameters.append((each * self.shaped(self.has, each)).requires_grad_())
            drawn = settings.bias**0.5 * normal(2, 1, *value.shape).expand(2, len(VARIANTS), *value.shape)
            zero = torch.zeros(1, *drawn.shape[1:])
            self.bias.append(torch.cat([drawn * rows(BIAS, SYRE).view(1, -1, *[1] * value.dim()), zero]))
        self.settings = settings

    @staticmethod
    def shaped(of_variants: Tensor, like: Tensor) -> Tensor:
        """Numbers of each [u w v, variant], to be multiplied with a parameter."""
        return of_variants.view(*of_variants.shape, *[1] * (like.dim() - 2))

    def logits(self, x: Tensor) -> Tensor:
        """What each variant gives for the same inputs [variants, n, classes]."""
        W, b, V, c = ((u * w + v) for u, w, v in ((p + q) for p, q in zip(self.parameters, self.bias, strict=True)))
        hidden = (x @ W.mT + b[:, None]).relu()
        return hidden @ V.mT + c[:, None]

    def losses(self, x: Tensor, y: Tensor) -> Tensor:
        """Mean cross-entropy of each variant."""
        logits = self.logits(x)
        each = cross_entropy(logits.flatten(0, 1), y.repeat(len(VARIANTS)), reduction="none")
        return each.view(len(VARIANTS), -1).mean(1)

    def gradients(self, x: Tensor, y: Tensor) -> list[Tensor]:
        """Of each variant's loss, 0 for what a variant lacks."""
        found = list(torch.autograd.grad(self.losses(x, y).sum(), self.parameters))
        for each in found:
            # The first, the plain one, has v alone; the last, a skip, has all.
            each[:2, 0] = each[2, 1:-1] = 0
        return found

    def dead(self, x: Tensor, y: Tensor) -> Tensor:
        """Share of each variant's parameters whose gradient is at most ``DEAD``."""
        sizes = [each.abs() for each in self.gradients(x, y)]
        has = [self.shaped(self.has, each).expand_as(each) for each in sizes]
        dead = torch.stack([((each <= DEAD) * of).flatten(2).sum((0, 2)) for each, of in zip(sizes, has, strict=True)])
        return dead.sum(0) / torch.stack([of.flatten(2).sum((0, 2)) for of in has]).sum(0)

    def learn(self, x: Tensor, y: Tensor, rows: np.ndarray, generator: torch.Generator) -> None:
        """A task: a new Adam without momentum takes a step for each batch of rows."""
        adam = updates.Adam(RECIPE, self.parameters, 0.0, fused=False)
        for batch in torch.from_numpy(rows):
            gradients = self.gradients(x[batch], y[batch])
            with torch.no_grad():
                for each, parameter in zip(gradients, self.parameters, strict=True):
                    noisy = each[:2, VARIANTS.index(NOISE)]
                    noisy += self.settings.noise**0.5 * torch.randn(noisy.shape, generator=generator)
                    for decayed in (VARIANTS.index(DECAY), VARIANTS.index(SYRE)):
                        each[:, decayed] += 2 * self.settings.decay * parameter[:, decayed]
                adam.step(gradients, self.settings.lr)


def learn_labellings(settings: NetworkTasks, job: Job, dataset: str, seed: int) -> dict[str, pd.DataFrame]:
    """Each task permutes the classes of the same images; all variants of a seed see the same batches."""
    data = job.datasets[dataset]
    images, labels = (torch.from_numpy(part[: settings.samples]) for part in data.split("train"))
    classes = int(labels.max()) + 1
    networks = Networks(settings, images.shape[1], classes, torch_generator(job.study, "network tasks", "start", seed))
    drawn = numpy_rng(job.study, "network tasks", "tasks", seed)
    noise = torch_generator(job.study, "network tasks", "noise", seed)
    tables = []
    for task in range(1, settings.tasks + 1):
        y = torch.from_numpy(drawn.permutation(classes))[labels]
        dead = networks.dead(images, y)
        rows = drawn.integers(len(images), size=(settings.steps, settings.batch))
        networks.learn(images, y, rows, noise)
        with torch.no_grad():
            loss = networks.losses(images, y)
            right = (networks.logits(images).argmax(-1) == y).double().mean(1)
        found = {"dead": dead.numpy(), "loss": loss.numpy(), "accuracy": right.numpy()}
        tables.append(pd.DataFrame({"variant": VARIANTS, "dataset": dataset, "seed": seed, "task": task, **found}))
    return {"mirror_network_tasks.csv": pd.concat(tables, ignore_index=True)}
