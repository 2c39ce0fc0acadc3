"""Settings of the paper's measures and experiments; every key of a study that switches one on."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from symlab.schemes import Scheme
from symlab.settings import Amount, Distinct, Fraction, Listed, NotNegative, Positive, ProperFraction, Settings, Several
from symlab.study.experiment import PointSettings


class Theory(Settings):
    """The theorems' bounds against what they bound, measured on the trained networks."""

    explained_variance: Fraction = Field(0.9, description="Explained variance that defines the input subspaces.")
    delta: ProperFraction = Field(0.05, description="Probability with which the bounds on random matrices may fail.")
    permutations: Positive = Field(
        20, description="Transpositions and random permutations drawn on each side of each layer."
    )
    samples: Several = Field(2000, description="Training samples on which chord deviations are measured.")
    models: Annotated[int, Field(ge=2, multiple_of=2)] = Field(
        2, description="Networks of each job that are looked at; consecutive ones form the pairs of Theorem 5.1."
    )
    beta: Listed[Amount] = Field(
        [0.001, 0.01, 0.1, 1.0],
        description="Weights of the norm against the error in the relaxed costs of Corollary E.6.",
    )
    realizers: Annotated[int, Field(ge=2)] = Field(
        32, description="Neurons of each layer, its first, that do one another's functions in Appendix E."
    )

    def misfit(self, *with_what: Any) -> str | None:
        scheme = next(each for each in with_what if isinstance(each, Scheme))
        return None if scheme.moments_known else f"the moments of D under scheme.name = {scheme.name} are not known"


class Ridge(Settings):
    """Realization and swap costs by ridge regression beside those of identification, which they are compared with.

    For networks with batch norm or none.
    """

    beta: Listed[Amount] = Field([0.001, 0.01, 0.1, 1.0], description="Weights of the norm against the error.")
    reported: Amount = Field(
        0.01, description="The beta whose costs are computed for all pairs of the first neurons, and that figures show."
    )
    samples: Several = Field(6000, description="Costs are fitted on the first that many training samples.")
    block: Annotated[int, Field(ge=3)] = Field(
        128,
        description="Neurons of each layer whose pairs are all swapped at the reported beta; otherwise only "
        "consecutive pairs are.",
    )
    models: Positive = Field(1, description="Networks of each job whose costs are computed.")

    def misfit(self, *with_what: Any) -> str | None:
        # Costs by ridge regression are of neurons that are functions of their own pre-activation alone.
        for network in with_what:
            for key, joint in (("norm", "layernorm"), ("activation", "sigma")):
                if getattr(network, key, None) == joint:
                    return f"with network.{key} = {joint} a neuron's output depends on the other neurons too"
        return None

    @model_validator(mode="after")
    def _reported_is_solved(self) -> Self:
        if self.reported not in self.beta:
            raise ValueError(f"reported = {self.reported:g} is not among beta = {self.beta}; report one of them")
        return self


class NeuronPlaces(Settings):
    """What becomes of each neuron in another training: whether it is matched to itself, and what its swaps cost.

    Needs matching.
    """

    explained_variance: Fraction = Field(0.9, description="Explained variance that defines the input subspaces.")


class CentreGaps(PointSettings):
    """Gaps of randomly drawn centres on the data sets' true subspaces (gmm, coherence and mnist_coherence)."""

    by: ClassVar = {"fixed_fraction": "fixed_fraction", "m": "widths"}
    widths: Distinct[Several] = Field(
        [16, 32, 64, 128, 256, 512, 1024, 2048], min_length=2, description="Neurons m of the layer."
    )
    draws: Positive = Field(12, description="Draws of F at every width.")
    sigma_F: Amount = Field(1.0, description="Standard deviation of the fixed weights.")
    fixed_fraction: Listed[Fraction] = Field([0.125, 1.0], description="Shares of the weights that are fixed.")

    def misfit_with(self, source: Any) -> str | None:
        return None if source.subspace else "it needs a known subspace of the inputs, which these samples have not"


class Hardness(PointSettings):
    """What random, fixed first weights can do of a single neuron on Gaussian inputs (Theorem C.10)."""

    by: ClassVar = {"d": "d", "m": "widths"}
    counts: ClassVar = {"draws of random features": "draws"}
    d: Listed[Annotated[int, Field(gt=40)]] = Field(
        [50, 100, 200], description="Input dimensions, above 40 as in the theorem."
    )
    widths: Listed[Positive] = Field([64, 128, 256, 512, 1024, 2048], description="Neurons m with random weights.")
    draws: Positive = Field(4, description="Draws of the random weights at every d and m.")
    biases: Listed[Annotated[float, Field(ge=-6, le=6)]] = Field(
        [-2.0, -1.0, 0.0, 1.0, 2.0],
        description="Biases of the neuron to be done, in standard deviations of its pre-activation.",
    )


class CoherenceStudents(PointSettings):
    """Students with random masks and nothing fixed, on data whose two latents are spread over t inputs each (Fig. 6).

    Every combination of an embedding and a t is a point: ``seeds`` students for each of ``mask_seeds`` masks, whose
    consecutive seeds form the pairs that are averaged.
    """

    by: ClassVar = {"embedding": "embedding", "t": "t"}
    embedding: Listed[Literal["exact_copy", "random_frame"]] = Field(
        description="Ways of placing the latents in the input space."
    )
    t: Listed[Positive] = Field(description="Inputs over which each latent is spread; the coherence is 1/t.")
    d: Positive = Field(20, description="Inputs, at least 2 t.")
    n_train: Positive = Field(1024, description="Training samples.")
    n_test: Positive = Field(2048, description="Test samples.")
    width: Positive = Field(128, description="Hidden neurons.")
    density: Fraction = Field(0.15, description="Share of the weights that are trained; the others are 0.")
    std: Amount = Field(0.05, description="Standard deviation of the initial weights.")
    lr: Amount = Field(0.01, description="Learning rate of AdamW.")
    weight_decay: NotNegative = Field(0.01, description="Decay of weights; biases have none.")
    epochs: Positive = Field(100, description="Passes over the training data.")
    batch_size: Positive = Field(512, description="Samples of each step.")
    seeds: Annotated[int, Field(ge=2, multiple_of=2)] = Field(20, description="Students of each mask.")
    mask_seeds: Positive = Field(5, description="Masks.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if max(self.t) > self.d // 2:
            raise ValueError(f"t is at most d / 2 = {self.d // 2}")
        return self

    def scale(self) -> dict[str, int]:
        return {"pairs of students": self.seeds // 2 * self.mask_seeds}
