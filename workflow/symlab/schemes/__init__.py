"""How the weights that a network sees come about from trained tensors, by the names used in a config.

The Snakefile reads this registry on every start, so what draws the fixed tensors is named and not imported.
"""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from symlab.settings import Fraction, NotNegative, Positive, Settings, Share

Count = Annotated[int, Field(ge=0)]


class Scheme(Settings):
    """A scheme's keys."""

    name: str
    draw: ClassVar[str]
    """Where F and D of W_eff = F + D * W are drawn, as ``module:function`` of (scheme, shapes, seed)."""
    parametrise: ClassVar[str] = "symlab.schemes.parametrisation:affine"
    """How parameters come about from trained tensors, as ``module:function`` of (scheme, parameters, F and D, stacked)
    giving a ``schemes.parametrisation.Parametrisation`` for each parameter that is not simply trained."""
    moments_known: ClassVar[bool] = True
    """Whether the theorems' bounds know the moments of its D."""

    def columns(self) -> dict[str, Any]:
        return {"scheme": self.name, "sigma_F": getattr(self, "sigma_F", None), "fixed_fraction": None}

    def files(self) -> list[str]:
        """The user's files that it reads, whose content counts as its keys do."""
        return []


class Standard(Scheme):
    """F = 0, D = 1: nothing is fixed."""

    name: Literal["standard"]
    draw: ClassVar[str] = "symlab.schemes.fixed_parts:standard"


class WAsymmetric(Scheme):
    """F = M * B, D = 1 - M: some weights of every neuron are fixed at random values (W-asymmetry)."""

    name: Literal["w_asymmetric"]
    sigma_F: NotNegative = Field(description="Standard deviation of the fixed weights.")
    n_fixed: Count | list[Count] | dict[str, Count] | None = Field(
        None,
        description="Fixed weights in each neuron's row (of a convolution: for each input channel). One number, one "
        "for each linear map and convolution, or a mapping from patterns on their paths in the network to numbers.",
    )
    fixed_fraction: Share | list[Share] | dict[str, Share] | None = Field(
        None,
        description="Instead of n_fixed: fraction of the fan-in (of a convolution: of the weights of an input "
        "channel), given in the same ways.",
    )
    draw: ClassVar[str] = "symlab.schemes.fixed_parts:w_asymmetric"

    @model_validator(mode="after")
    def _one_amount(self) -> Self:
        if (self.n_fixed is None) == (self.fixed_fraction is None):
            raise ValueError("it needs exactly one of n_fixed and fixed_fraction")
        return self

    def columns(self) -> dict[str, Any]:
        fraction: Any = self.fixed_fraction
        if isinstance(fraction, dict):
            fraction = next(iter(fraction.values()))
        return {**super().columns(), "fixed_fraction": fraction[0] if isinstance(fraction, list) else fraction}


class WAsymmetricHeads(WAsymmetric):
    """W-asymmetry with masks shared within attention heads (ours)."""

    name: Literal["w_asymmetric_heads"]  # type: ignore[assignment]
    heads: Positive = Field(description="Attention heads of the network.")
    draw: ClassVar[str] = "symlab.schemes.head_masks:w_asymmetric_heads"
    moments_known: ClassVar[bool] = False


class Syre(Scheme):
    """F ~ N(0, sigma_F^2), D ~ Unif(1 - epsilon, 1 + epsilon)^(-1/2)."""

    name: Literal["syre"]
    sigma_F: NotNegative = Field(description="Standard deviation of the fixed weights.")
    epsilon: Share = Field(0.01, description="Half width of the distribution of D^-2.")
    draw: ClassVar[str] = "symlab.schemes.fixed_parts:syre"


class Sparse(Scheme):
    """F = 0, D ~ Bernoulli(density)."""

    name: Literal["sparse"]
    density: Fraction = Field(description="Share of the weights that are trained.")
    draw: ClassVar[str] = "symlab.schemes.fixed_parts:sparse"


class Residual(Scheme):
    """F = I on square linear maps, D = 1."""

    name: Literal["residual"]
    draw: ClassVar[str] = "symlab.schemes.fixed_parts:residual"


class Hadamard(Scheme):
    """theta = u * w with u and w trained; decay of both acts on theta as an L1 penalty."""

    name: Literal["hadamard"]
    biases: bool = Field(True, description="Whether biases and norm parameters are products too.")
    start: Literal["off_mirror", "on_mirror", "independent"] = Field(
        "off_mirror",
        description="on_mirror: |u| = |w|, from where no sign can ever change; independent: both factors are drawn.",
    )
    draw: ClassVar[str] = "symlab.schemes.fixed_parts:standard"
    parametrise: ClassVar[str] = "symlab.schemes.hadamard:products"
    moments_known: ClassVar[bool] = False


class Mirror(Settings):
    """What of one parameter theta decay draws to 0: O^T theta, of a mirror with orthonormal columns O and P = O O^T."""

    P: Literal["identity", "rows", "columns", "blocks", "pairs", "matrix"] = Field(
        description="identity: every entry (spred). rows, columns, blocks: all that leads to an output, that comes "
        "from an input, or a block of both vanishes as a whole. pairs: differences of neurons, which merge. matrix: P "
        "or its columns O from a file."
    )
    block: Annotated[list[Positive], Field(min_length=2, max_length=2)] | None = Field(
        None, description="blocks: outputs and inputs of each."
    )
    pairs: list[Annotated[list[Count], Field(min_length=2, max_length=2)]] | None = Field(
        None, min_length=1, description="pairs: places of the two neurons of each; null pairs 2i and 2i + 1."
    )
    axis: Count | None = Field(
        None,
        description="pairs: axis that the neurons are on, 0 (outputs) if null. matrix: axis that it acts along; null "
        "for all entries in one row, the last axis fastest.",
    )
    file: str | None = Field(
        None,
        description="matrix: a .npy file, or .safetensors with one tensor or those of parameters by their paths, from "
        "the folder that Snakemake is called in. "
        "Either O [entries, k] with orthonormal columns or, if it is diagonal or together is true, P.",
    )
    together: bool = Field(
        False,
        description="pairs, matrix: one factor for the whole difference, or all of O^T theta (a group lasso), instead "
        "of one for each entry (a lasso).",
    )

    @model_validator(mode="after")
    def _keys_of_its_kind(self) -> Self:
        own = {"blocks": {"block"}, "pairs": {"pairs", "axis", "together"}, "matrix": {"file", "axis", "together"}}
        for key in sorted({"block", "pairs", "axis", "file", "together"} - own.get(self.P, set())):
            if key in self.model_fields_set:
                raise ValueError(f"a mirror of kind {self.P} takes no {key}")
        for kind, key in (("blocks", "block"), ("matrix", "file")):
            if kind == self.P and getattr(self, key) is None:
                raise ValueError(f"a mirror of kind {kind} needs {key}")
        neurons = [neuron for pair in self.pairs or [] for neuron in pair]
        if len(set(neurons)) < len(neurons):
            raise ValueError("a neuron stands in two pairs, or twice in one")
        if self.file is not None and not Path(self.file).is_file():
            raise ValueError(f"there is no file {self.file}")
        return self


class Constrained(Scheme):
    """A mirror added to the weights' parametrisation, to which decay draws them (DCS); ``hadamard`` is one."""

    name: Literal["dcs"]
    mirror: Literal["identity", "rows", "columns", "pairs"] | None = Field(
        None,
        description="Of every weight of a linear map or convolution. identity: theta = u w entry by entry (spred). "
        "rows: theta = s w with one s for each neuron's incoming weights, whose decay is a group lasso: whole neurons "
        "vanish (it starts with |s| = |w|, which P: rows of mirrors does not); columns: the same for what reads an "
        "input. pairs: the difference of neurons 2i and 2i + 1 is a product entry by entry: they merge.",
    )
    mirrors: dict[str, Mirror] = Field(
        {},
        description="Instead of mirror: patterns on parameters' paths to the mirror of each; of several patterns the "
        "first counts, and parameters without one are simply trained. Biases decay where recipe.decay_bias says so.",
    )
    decay_rest: bool = Field(
        True, description="Whether decay acts on (I - P) theta too; in the paper's Eq. 7 it acts on the factors alone."
    )
    draw: ClassVar[str] = "symlab.schemes.fixed_parts:standard"
    parametrise: ClassVar[str] = "symlab.schemes.constrained:constrain"
    moments_known: ClassVar[bool] = False

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.mirror is None) == (not self.mirrors):
            raise ValueError("it needs exactly one of mirror and mirrors")
        return self

    def files(self) -> list[str]:
        return list(dict.fromkeys(mirror.file for mirror in self.mirrors.values() if mirror.file is not None))


SCHEMES: tuple[type[Scheme], ...] = (
    *(Standard, WAsymmetric, WAsymmetricHeads, Syre, Sparse, Residual, Hadamard, Constrained),
)
