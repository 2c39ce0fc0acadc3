"""The coherence experiment (Appendix F.5): students with masks alone, on data along subspaces of chosen coherence."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

# What the recipe names: the digest of this module's code shall count it.
import symlab.training.updates  # noqa: F401
from symlab.data import Coherence
from symlab.data.coherence import load
from symlab.data.dataset import Dataset
from symlab.measures.job import Job
from symlab.networks import Normal
from symlab.networks.coherence_student import CoherenceStudent
from symlab.papers.neuron_identifiability.settings import CoherenceStudents
from symlab.products import fast_products
from symlab.schemes import Sparse
from symlab.schemes.fixed_parts import State
from symlab.training.objective import Replica, Replicas, Stack
from symlab.training.on_samples import TrainingData
from symlab.training.optimizer import Optimizer
from symlab.training.replicas import Run, train_block
from symlab.training.settings import Recipe

# Of ten replicas instead a student takes an eighth longer, of two twice as long: each step calls forty operations.
STACK = 20
# Replicas whose neurons fit into a core's cache; an even number, whose products round alike.
IN_CACHE = 4
WEIGHT, BIAS = "linears.0.weight", "linears.0.bias"


def train_coherence_students(settings: CoherenceStudents, job: Job, embedding: Any, t: int) -> dict[str, pd.DataFrame]:
    """Train the students of one embedding and t; a row a pair, with ``barrier_mid`` of its test loss."""
    source = Coherence(
        source="coherence", embedding=embedding, t=t, d=settings.d, n_train=settings.n_train, n_test=settings.n_test
    )
    dataset = load(source, None)
    run = student_run(settings, dataset, (job.study, f"sparse_{embedding}_t{t}"))
    replicas = [Replica(mask, seed) for mask in range(settings.mask_seeds) for seed in range(settings.seeds)]
    state = train_block(run, replicas, checkpoints=job.checkpoints).snapshots[settings.epochs]
    x, y = (torch.from_numpy(array) for array in dataset.split("test"))
    pairs = product(range(settings.mask_seeds), range(settings.seeds // 2))
    rows = pd.DataFrame(pairs, columns=["mask_seed", "pair"]).assign(embedding=embedding, t=t)
    barriers = midpoint_barriers(state[WEIGHT], state[BIAS], x, y).numpy()
    return {"coherence_barriers.csv": rows.assign(barrier_mid=barriers)}


def student_run(settings: CoherenceStudents, dataset: Dataset, key: tuple[str, str]) -> Run:
    """What the students of one point are trained on, and how."""
    x_train, y_train, x_val, y_val = (torch.from_numpy(a) for name in ("train", "val") for a in dataset.split(name))
    recipe = Recipe(
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        decay_bias=False,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
    )
    return Run(
        lambda: CoherenceStudent(settings.d, settings.width),
        SumsOfReluData(x_train, y_train, x_val, y_val, task="regression"),
        Sparse(name="sparse", density=settings.density),
        Normal(name="normal", std=settings.std),
        recipe,
        [settings.epochs],
        key,
    )


@fast_products()
def midpoint_barriers(
    W: Float[Tensor, "r m d"], b: Float[Tensor, "r m"], x: Float[Tensor, "n d"], y: Float[Tensor, " n"]
) -> Float64[Tensor, " p"]:
    """Mean squared error of f(x) = sum_i relu(w_i x + b_i) midway between networks 2p and 2p + 1 less their mean."""
    losses = torch.empty(len(W) // 2, 3, dtype=torch.float64)
    for pair in range(len(losses)):
        # What neurons read is linear in the weights: two products serve the middle too.
        A, B = (torch.addmm(b[r], x, W[r].T) for r in (2 * pair, 2 * pair + 1))
        for index, read in enumerate((torch.lerp(A, B, 0.5), A, B)):
            losses[pair, index] = (torch.relu(read).sum(dim=1) - y).square().mean(dtype=torch.float64)
    return losses[:, 0] - losses[:, 1:].mean(dim=1)


@dataclass(frozen=True)
class SumsOfReluData(TrainingData):
    """The squared error of f(x) = sum_i relu(w_i x + b_i) on samples; its gradient is written by hand.

    Three passes over what the neurons compute are left, while it is in the cache; autograd and torch's elementwise
    operations took two thirds of the time.
    """

    def prepared(self, recipe: Recipe, device: torch.device, key: tuple[str, str]) -> "SumsOfReluData":
        """The same samples with a column of ones, which the biases are the weights of; on the CPU."""
        data = super().prepared(recipe, torch.device("cpu"), key)
        ones = torch.ones_like(data.x_train[:, :1])
        return replace(self, x_train=torch.cat([data.x_train, ones], dim=1), y_train=data.y_train)

    def stack_size(
        self, make: Callable[[int], Stack], module: nn.Module, recipe: Recipe, replicas: int
    ) -> tuple[int, str | None]:
        """A few, whatever the number of replicas."""
        return STACK, None

    def stack(self, replicas: Replicas) -> "SumsOfRelu":  # type: ignore[override]
        return SumsOfRelu(replicas, self)


class SumsOfRelu:
    """Students of one hidden layer with masks D, all of their steps without autograd and in place."""

    def __init__(self, replicas: Replicas, data: SumsOfReluData):
        self.data, self.R, self.trained = data, len(replicas.members), replicas.W
        self.D: Tensor = replicas.fixed[WEIGHT][1]  # type: ignore[assignment]
        self.optimizer = Optimizer(replicas.recipe, self.trained, replicas.fixed, self.R)
        m, d = self.trained[WEIGHT].shape[1:]
        # Weights with the bias as their last column. Their gradient is transposed: that product is a third faster.
        self.weights = torch.empty(self.R, m, d + 1)
        self.gradient = torch.empty(self.R, d + 1, m)
        self.neurons: dict[tuple[int, int], Tensor] = {}
        self.hits = torch.zeros(self.R, dtype=torch.int64)
        self._compose()

    def _compose(self) -> None:
        """Write D * W and the biases into ``weights``."""
        torch.mul(self.D, self.trained[WEIGHT], out=self.weights[:, :, :-1])
        self.weights[:, :, -1] = self.trained[BIAS]

    def _neurons(self, R: int, samples: int) -> Tensor:
        """Room for what the neurons of so many replicas hold; the same at every step."""
        if (R, samples) not in self.neurons:
            self.neurons[R, samples] = self.weights.new_empty(R, samples, self.weights.shape[1])
        return self.neurons[R, samples]

    @torch.no_grad()
    def step(self, lr: float | Tensor, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        rows = inputs[0]
        samples = rows.shape[1]
        # Selecting takes a quarter of the time of indexing.
        x = self.data.x_train.index_select(0, rows.reshape(-1)).unflatten(0, rows.shape)
        y = self.data.y_train[rows]
        errors = torch.empty_like(y)
        parts = (tensor.split(IN_CACHE) for tensor in (x, y, errors, self.weights, self.gradient))
        for x_part, y_part, error, W, dW in zip(*parts, strict=True):
            # [r, b, m]: what the neurons read, then what they give, then where they are active.
            neurons = torch.bmm(x_part, W.mT, out=self._neurons(len(W), samples)).clamp_min_(0)
            torch.sum(neurons, dim=-1, out=error).sub_(y_part)
            torch.bmm(x_part.mul_(error.unsqueeze(-1)).mT, neurons.sign_(), out=dW)
        self.gradient.mul_(2 / samples)
        loss = errors.square_().mean(dim=-1)
        # Chain rule: dL/dW = D * dL/d(D * W).
        self.trained[WEIGHT].grad = self.gradient[:, :-1].mT.contiguous().mul_(self.D)
        self.trained[BIAS].grad = self.gradient[:, -1].contiguous()
        self.optimizer.step(lr)
        self._compose()
        return loss, self.hits

    @torch.no_grad()
    def state(self) -> State:
        parts = {WEIGHT: self.weights[:, :, :-1], BIAS: self.weights[:, :, -1]}
        return {name: part.clone(memory_format=torch.contiguous_format) for name, part in parts.items()}

    def live(self) -> State:
        # The composed weights too: a step begins with them.
        return {**self.trained, "composed": self.weights, **self.optimizer.live()}
