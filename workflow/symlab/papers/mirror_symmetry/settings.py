"""Settings of the paper's experiments, every key under ``mirror_symmetry`` of a study; free of torch."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field

from symlab.networks import VGG, ResNet18, ResNet20, ViT
from symlab.settings import Amount, Distinct, Fraction, NotNegative, Positive, ProperFraction, Settings, Several, Share
from symlab.study.experiment import Point, PointSettings

Optimizer = Literal["Adam", "gradient descent"]
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)
ADAM, DESCENT = OPTIMIZERS
LABELS = "y = Ax", "y = x"
"""Targets of two linear layers (Fig. 8)."""
FACTORS, ISTA, FISTA = "factors", "ISTA", "FISTA"
UNEQUAL, EQUAL, DRAWN = "unequal", "equal", "random"
"""How factors of a lasso start: with one magnitude for all w and u = v / w, on mirrors |u| = |w|, or drawn each."""


class Lines(PointSettings):
    """Gradient descent from points on mirrors of two losses in the plane, and from beside them (Fig. 5)."""

    revision: ClassVar = 2
    counts: ClassVar = {"steps": "steps"}
    lr: Amount = Field(0.05, description="Rate.")
    steps: Positive = Field(1000, description="Steps.")
    offset: Amount = Field(1e-6, description="How far beside a mirror the controls start.")
    optimizer_steps: int = Field(3000, ge=200, description="Steps of the optimizers that start on mirrors.")


class Mirrors(Settings):
    """Theorem 1 and its corollary at trained networks, for pairs of neurons drawn from each traced group."""

    models: Positive = Field(1, description="Networks of each block of seeds.")
    groups: Positive = Field(3, description="Groups of neurons at most, drawn from all.")
    pairs: Positive = Field(1, description="Pairs of neurons of each group.")
    samples: Positive = Field(64, description="Training samples that losses are means over.")
    batch_size: Positive = Field(32, description="Samples of each step.")
    steps: Positive = Field(50, description="SGD steps from the mirror and from beside it.")
    lr: Amount = Field(0.1, description="Rate of these steps.")
    weight_decay: NotNegative = Field(1e-3, description="Their decay, twice the paper's gamma.")
    offset: Amount = Field(1e-9, description="How far beside the mirror controls start, over the parameters' norm.")


class SmallNetworks(PointSettings):
    """Tanh networks, whose mirrors are known in closed form: their Hessian, and when 0 is stable (Fig. 2, Eq. 2)."""

    by: ClassVar = {"seed": "seeds"}
    d: Annotated[int, Field(ge=3)] = Field(8, description="Neurons of the tanh network.")
    samples: Positive = Field(400, description="Samples of its data.")
    start: Amount = Field(0.3, description="Norm of its initial parameters.")
    gamma_over_critical: Annotated[list[Amount], Field(min_length=5)] = Field(
        [0.8, 0.85, 0.9, 0.92, 0.94, 0.96, 0.98, 1.02, 1.05, 1.1], description="Decays in units of the critical one."
    )
    steps: Positive = Field(8000, description="Steps of gradient descent at each decay.")
    lr: Amount = Field(0.1, description="Their rate.")
    seeds: Several = Field(5, description="Draws of data and start.")

    def scale(self) -> dict[str, int]:
        return {f"draws of {self.samples} samples": self.seeds}


class Homogeneity(Settings):
    """How alike neurons of the last hidden layer are at the end of training (Figs. 3 right and 6)."""

    samples: Annotated[int, Field(ge=10)] = Field(2000, description="Test samples of the correlations.")
    correlated: ProperFraction = Field(0.95, description="Correlation from which neurons are one.")
    close: ProperFraction = Field(0.05, description="Distance over the sum of norms below which neurons are merged.")
    curvatures: int = Field(
        40, ge=0, description="Pairs, half of them the closest, whose curvature is measured; 0: none."
    )


class Magnitudes(Settings):
    """How many parameters are nearly 0, and what setting them to 0 costs (Fig. 7)."""

    thresholds: list[Amount] = Field(
        [1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8], min_length=1, description="Magnitudes below which parameters are counted."
    )
    pruned: Annotated[list[ProperFraction], Field(min_length=1)] = Field(
        [0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99], description="Shares of parameters set to 0, the smallest ones."
    )


class Factorization(PointSettings):
    """Two linear layers with weight decay, from none to so much that all is lost (Fig. 8)."""

    by: ClassVar = {"seed": "seeds"}
    counts: ClassVar = {"units a layer": "d", "steps": "steps", "seeds": "seeds"}
    gammas: Annotated[list[NotNegative], Field(min_length=2)] = Field(
        [0.0, 0.01, 0.03, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0], description="Strengths of the decay, γ(|W|² + |U|²)."
    )
    d: Several = Field(50, description="Inputs, hidden units and outputs.")
    n: Positive = Field(200, description="Samples.")
    lr: Amount = Field(0.01, description="Rate.")
    steps: Annotated[int, Field(ge=8)] = Field(6000, description="Full-batch steps.")
    seeds: Positive = Field(3, description="Draws of samples, targets and initial weights.")


class Plasticity(PointSettings):
    """A linear regressor and reparametrized ones that learn tasks one after the other (Fig. 4)."""

    counts: ClassVar = {"tasks": "tasks", "steps a task": "steps", "seeds": "seeds"}
    tasks: Several = Field(10, description="Tasks.")
    steps: Positive = Field(25000, description="Steps on each task.")
    d: Positive = Field(100, description="Inputs.")
    n: Positive = Field(100, description="Samples of a task.")
    batch: Positive = Field(16, description="Samples of a step, drawn with replacement.")
    label_noise: NotNegative = Field(1.0, description="Standard deviation of the labels' noise.")
    lr: Amount = Field(0.01, description="Rate of Adam.")
    sgd_lr: Annotated[list[Amount], Field(min_length=1)] = Field([0.02, 0.05, 0.1], description="Rates of SGD.")
    noise: Annotated[list[Amount], Field(min_length=1)] = Field(
        [1e-16, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2], description="Variances of the noise added to gradients."
    )
    bias: Amount = Field(1e-4, description="Variance of the fixed biases.")
    decay: Amount = Field(1e-3, description="γ of the variants with weight decay.")
    seeds: Positive = Field(3, description="Draws of tasks, batches and initial weights.")


class NetworkTasks(PointSettings):
    """Networks of one hidden layer that learn one labelling of images after the other, with and without products."""

    by: ClassVar = {"seed": "seeds"}
    counts: ClassVar = {"images": "samples", "labellings": "tasks", "seeds": "seeds"}
    width: Positive = Field(64, description="Hidden neurons.")
    samples: Positive = Field(600, description="Images.")
    tasks: Several = Field(10, description="Labellings: permutations of the classes.")
    steps: Positive = Field(1000, description="Steps on each.")
    batch: Positive = Field(32, description="Samples of a step, drawn with replacement.")
    lr: Amount = Field(1e-3, description="Rate of Adam without momentum.")
    noise: Amount = Field(1e-8, description="Variance of the noise added to gradients.")
    bias: Amount = Field(1e-4, description="Variance of the fixed biases.")
    decay: Amount = Field(1e-3, description="γ of the variants with weight decay.")
    seeds: Positive = Field(3, description="Draws of labellings, batches and initial weights.")


class Attention(PointSettings):
    """Self-attention layers that learn a regression in context, with weight decay (Figs. 9, 10)."""

    by: ClassVar = {"layers": "layers", "optimizer": "optimizers"}
    counts: ClassVar = {"data points": "N", "rows": "T", "features": "d", "steps": "steps", "seeds": "seeds"}
    optimizers: Annotated[Distinct[Optimizer], Field(min_length=1)] = Field(
        list(OPTIMIZERS), description="Gradient descent, the theory's, needs smaller rates the larger the data."
    )
    layers: Annotated[list[Literal[1, 2]], Field(min_length=1)] = Field([1, 2], description="Numbers of layers.")
    N: Positive = Field(100, description="Data points.")
    T: Several = Field(10, description="Rows of a data point, the last of which is the query.")
    d: Positive = Field(20, description="Features; a token has one entry more.")
    decays: list[NotNegative] = Field(
        [0.003, 0.01, 0.03, 0.1, 0.3, 1.0], min_length=2, description="PyTorch's weight decays, 2γ."
    )
    adam_lr: Amount = Field(4e-3, description="Rate of Adam.")
    descent_lr: Amount = Field(0.005, description="Rate of gradient descent.")
    steps: Positive = Field(2000, description="Full-batch steps of Adam.")
    descent_steps: Positive = Field(8000, description="Full-batch steps of gradient descent.")
    every: Positive = Field(50, description="Steps of Adam between two measurements.")
    seeds: Positive = Field(3, description="Draws of data and initial weights.")


Rates = Annotated[Distinct[Amount], Field(min_length=1)]
Problem = Literal["lasso", "group lasso", "nuclear norm", "equal pairs", "columns of a matrix", "query and key"]


class Solvers(PointSettings):
    """Products of factors with weight decay against solvers of the convex problems that they stand for (Sec. 2.6)."""

    by: ClassVar = {"problem": "problems"}
    counts: ClassVar = {"coefficients": "d", "steps": "steps", "seeds": "seeds"}
    problems: Distinct[Problem] = Field(
        list(get_args(Problem)[:5]),
        min_length=1,
        description="What vanishes: entries, groups of 5, a rank, pairs' differences, directions, the rank of QᵀK.",
    )
    d: Annotated[int, Field(ge=10, multiple_of=5)] = Field(50, description="Coefficients of the lasso, in groups of 5.")
    n: Positive = Field(100, description="Samples.")
    side: Annotated[int, Field(ge=4)] = Field(20, description="Inputs and outputs of the matrix problem.")
    label_noise: NotNegative = Field(0.5, description="Standard deviation of the labels' noise.")
    strengths: Annotated[list[Fraction], Field(min_length=1)] = Field(
        [0.03, 0.1, 0.3], description="Penalties in units of the least that makes the minimum 0."
    )
    rate: Fraction = Field(0.1, description="Rate of factors in units of that of ISTA, 1/L.")
    steps: Annotated[int, Field(ge=100)] = Field(20000, description="Steps of every method.")
    per_decade: Positive = Field(12, description="Measurements in each tenfold of steps.")
    seeds: Positive = Field(5, description="Draws of samples, truths and starts.")


Structure = Literal["entries", "neurons", "blocks of 4 x 4", "pairs of neurons", "cosines from a file", "rank of QᵀK"]
STRUCTURES = ENTRIES, ROWS, BLOCKS, PAIRS, COSINES, RANK = get_args(Structure)
PROXIMAL, PRUNED = "proximal SGD", "magnitude pruning"
BLOCK = 4
"""Outputs and inputs of a block of weights."""


class SparseNetworks(PointSettings):
    """Networks that are drawn to be sparse, by factors with decay, proximal SGD and pruning (Sec. 2.6)."""

    by: ClassVar = {"structure": "structures", "seed": "seeds"}
    counts: ClassVar = {"steps": "steps", "strengths": "strengths", "seeds": "seeds"}
    structures: Distinct[Structure] = Field(
        list(STRUCTURES), min_length=1, description="What is to vanish: of the first layer, or of an attention head."
    )
    width: int = Field(64, ge=BLOCK, multiple_of=BLOCK, description="Hidden neurons.")
    steps: Several = Field(4000, description="Steps of every method.")
    batch: Positive = Field(64, description="Samples of a step, drawn with replacement.")
    lr: Amount = Field(0.1, description="Rate of SGD.")
    strengths: Rates = Field([3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3], description="Penalties λ on the sum of sizes.")
    shares: Distinct[Share] = Field(
        [0.0, 0.5, 0.75, 0.9, 0.95, 0.98], min_length=2, description="Shares that are set to 0, the smallest ones."
    )
    seeds: Positive = Field(3, description="Draws of batches and initial weights.")
    repeats: Positive = Field(1, description="Runs of each, on the same batches, from starts one rounding apart.")

    def misfit_with(self, source: Any) -> str | None:
        misfit = super().misfit_with(source)
        if misfit is None and (source.inputs % BLOCK or math.isqrt(source.inputs) ** 2 != source.inputs):
            return f"it reads square images and blocks of {BLOCK} inputs, but samples have {source.inputs} inputs"
        return misfit


ManySteps = Annotated[int, Field(ge=1000, multiple_of=1000)]


class Sparsity(PointSettings):
    """Online SGD of a regression with products u w for coefficients, and of a plain one (Fig. 3 left)."""

    revision: ClassVar = 3
    by: ClassVar = {"sigma": "sigma", "batch": "batch"}
    counts: ClassVar = {"inputs": "d", "rates": "lr", "seeds": "seeds", "steps": "steps"}
    d: Several = Field(200, description="Inputs; each true coefficient is 1/d.")
    sigma: Rates = Field([2.0, 1.0], description="Standard deviations of the labels' noise.")
    batch: Distinct[Positive | None] = Field(
        [1], min_length=1, description="Samples of each step; null for the gradient of the expected loss."
    )
    lr: Distinct[Amount] = Field(
        [*[round(5e-4 + place * 4.3e-3 / 13, 6) for place in range(14)], 6e-3, 1e-2], min_length=2, description="Rates."
    )
    in_critical_rates: bool = Field(False, description="Whether rates are multiples of the critical one.")
    plain: bool = Field(True, description="Whether to train the plain regression too.")
    seeds: Positive = Field(3, description="Draws of the start and of the samples.")
    steps: ManySteps = Field(100_000, description="Steps, a multiple of 1,000.")
    per_decade: Positive = Field(10, description="Measurements for each factor of ten in the steps.")

    def points(self, datasets: Sequence[str] = ()) -> list[Point]:
        # The expected gradient is taken at the rates of the largest batch.
        largest = max(filter(None, self.batch), default=1)
        return [{**point, "rates_of": point["batch"] or largest} for point in super().points(datasets)]


class AdamSparsity(PointSettings):
    """The same regression of products under Adam, with and without momentum: how sparse it gets at which error."""

    by: ClassVar = {"seed": "seeds"}
    counts: ClassVar = {"rates of Adam": "lr", "steps of Adam": "steps"}
    d: Several = Field(200, description="Inputs; each true coefficient is 1/d.")
    sigma: Amount = Field(2.0, description="Standard deviation of the labels' noise.")
    beta1: Distinct[Share] = Field([0.0, 0.9], min_length=1, description="Decay of the mean gradient; 0: no momentum.")
    beta2: ProperFraction = Field(0.999, description="Decay of the mean squared gradient.")
    lr: Rates = Field([1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2], description="Rates.")
    seeds: Positive = Field(3, description="Draws of the start and of the samples.")
    steps: ManySteps = Field(100_000, description="Steps, a multiple of 1,000.")


class Edges(PointSettings):
    """SGD of one product u w from right beside its mirrors, over rates and batch sizes: where it collapses (Thm. 5)."""

    by: ClassVar = {"batch": "batch"}
    counts: ClassVar = {"runs of one product": "runs", "steps of one product": "steps"}
    slope: Amount = Field(0.1, description="The true coefficient.")
    sigma: Amount = Field(1.0, description="Standard deviation of the labels' noise.")
    batch: Distinct[Positive] = Field([1, 2, 4, 8, 16, 64], min_length=1, description="Samples of each step.")
    lr: Rates = Field([round(0.02 * 10 ** (place / 12), 5) for place in range(37)], description="Rates.")
    start: Amount = Field(1e-8, description="Standard deviation of u and w at the start.")
    runs: Positive = Field(200, description="Runs of each cell.")
    steps: Positive = Field(20_000, description="Steps.")
    draws: Positive = Field(400_000, description="Draws for the expected logarithm of a step's factor.")


VANILLA, RESIDUAL, SKIP = "vanilla", "residual", "skip"
"""What multiplies the input: W U, (I + W)(I + U), W U + V."""


class OnlineRank(PointSettings):
    """Online SGD of a product of two matrices on noisy copies of the input, with two ways around it (Fig. 3 mid)."""

    by: ClassVar = {"seed": "seeds"}
    counts: ClassVar = {"inputs": "d", "seeds": "seeds", "steps": "steps"}
    d: Several = Field(50, description="Inputs, hidden neurons and outputs.")
    lr: Rates = Field([2e-3, 5e-3, 9e-3], description="Rates.")
    mu: Distinct[Annotated[float, Field(ge=0, le=1)]] = Field(
        [0.0, 0.02, 0.05, 0.1, 0.3], min_length=1, description="Signal in the labels mu x + (1 - mu) noise."
    )
    seeds: Positive = Field(3, description="Draws of the start and of the samples.")
    steps: ManySteps = Field(60_000, description="Steps, a multiple of 1,000.")
    exponent_steps: ManySteps = Field(40_000, description="Steps over which Lyapunov exponents are averaged.")


class Memory(PointSettings):
    """Memory and time of a training step, of a network as it is and with products for parameters (Fig. 7, App. B.4)."""

    by: ClassVar = {"batch": "batch"}
    network: Annotated[ResNet20 | ResNet18 | VGG | ViT, Field(discriminator="name")] = Field(
        ResNet18(name="resnet18"), description="The network, for colour images."
    )
    side: Positive = Field(32, description="Pixels of each side of an image.")
    batch: Distinct[Positive] = Field([1, 128], min_length=1, description="Batch sizes.")
    steps: Annotated[int, Field(ge=2)] = Field(6, description="Steps of each kind of network that are timed, in turn.")

    def modules(self) -> list[str]:
        return [self.network.module]
