"""How the weights that a network sees come about from trained tensors, by the names used in a config.

The Snakefile reads this registry on every start, so what draws the fixed tensors is named and not imported.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from symlab.settings import Positive, Settings

Scale = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]


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


class Standard(Scheme):
    """F = 0, D = 1: nothing is fixed."""

    name: Literal["standard"]
    draw: ClassVar[str] = "symlab.schemes.fixed_parts:standard"


class WAsymmetric(Scheme):
    """F = M * B, D = 1 - M: some weights of every neuron are fixed at random values (W-asymmetry)."""

    name: Literal["w_asymmetric"]
    sigma_F: Scale = Field(description="Standard deviation of the fixed weights.")
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
    sigma_F: Scale = Field(description="Standard deviation of the fixed weights.")
    epsilon: Share = Field(0.01, description="Half width of the distribution of D^-2.")
    draw: ClassVar[str] = "symlab.schemes.fixed_parts:syre"


class Sparse(Scheme):
    """F = 0, D ~ Bernoulli(density)."""

    name: Literal["sparse"]
    density: Annotated[float, Field(gt=0, le=1)] = Field(description="Share of the weights that are trained.")
    draw: ClassVar[str] = "symlab.schemes.fixed_parts:sparse"


class Residual(Scheme):
    """F = I on square linear maps, D = 1."""

    name: Literal["residual"]
    draw: ClassVar[str] = "symlab.schemes.fixed_parts:residual"


class Hadamard(Scheme):
    """theta = u * w with u and w trained; decay of both acts on theta as an L1 penalty."""

    name: Literal["hadamard"]
    biases: bool = Field(True, description="Whether biases and norm parameters are products too.")
    start: Literal["off_mirror", "on_mirror"] = Field(
        "off_mirror", description="on_mirror: |u| = |w|, from where no sign can ever change."
    )
    draw: ClassVar[str] = "symlab.schemes.fixed_parts:standard"
    parametrise: ClassVar[str] = "symlab.schemes.hadamard:products"
    moments_known: ClassVar[bool] = False


SCHEMES: tuple[type[Scheme], ...] = (Standard, WAsymmetric, WAsymmetricHeads, Syre, Sparse, Residual, Hadamard)
