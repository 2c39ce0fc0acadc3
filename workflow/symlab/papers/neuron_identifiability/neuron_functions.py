"""The functions h_i(w; x) that a layer's neurons compute, norm and nonlinearity included (Def. E.3, Appendix F.7)."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from symlab.errors import UserError

NONLINEARITIES: dict[type[nn.Module], str] = {nn.GELU: "gelu", nn.ReLU: "relu", nn.Identity: "identity"}


@dataclass(frozen=True)
class NeuronFunctions:
    """h_i(w; x) = phi(alpha_i ((f_i + d_i * w) . x + b_i) + kappa_i) of the m neurons of one layer, with d inputs each.

    W_eff = F + D * W, F, D: [m, d]. alpha, kappa: scale and shift [m] of the frozen batch norm; 1 and 0 without one.
    bias: the layer's own b [m], which stays as trained (ours: Def. E.3 has none). nonlinearity: phi, "gelu", "relu" or
    "identity". All float64.
    """

    W_eff: Float[Tensor, "m d"]
    F: Float[Tensor, "m d"]
    D: Float[Tensor, "m d"]
    alpha: Float[Tensor, " m"]
    kappa: Float[Tensor, " m"]
    bias: Float[Tensor, " m"]
    nonlinearity: str

    @property
    def shift(self) -> Float[Tensor, " m"]:
        """alpha_i b_i + kappa_i, the preactivation at x = 0 without weights."""
        return self.alpha * self.bias + self.kappa

    @property
    def own_weights(self) -> Float[Tensor, "m d"]:
        """The trained w_i = (W_eff_i - f_i) / d_i, and 0 where d_i = 0: such an entry reaches no input."""
        return torch.where(self.D == 0, 0.0, (self.W_eff - self.F) / self.D)


def layer_functions(
    module: nn.Module,
    state: Mapping[str, Tensor],
    layer_name: str,
    F: Float[Tensor, "m d"] | None,
    D: Float[Tensor, "m d"] | None,
) -> NeuronFunctions:
    """The trained functions of the neurons of the linear map ``layer_name`` ("linears.0", ...) of ``module``.

    The map's norm and activation are ``norms.0`` and ``activations.0``, with the map's own number; a map that has
    neither, such as a readout, is followed by the identity. ``None`` stands for F = 0 and for D = 1.

    Raises:
        UserError: the norm or the activation does not act on each neuron by itself, or the weights are not finite.
    """
    W_eff = state[f"{layer_name}.weight"].double()
    if not bool(torch.isfinite(W_eff).all()):
        raise UserError(
            f"The effective weights of {layer_name} are not finite; its network has diverged, train it again."
        )
    modules, bias = dict(module.named_modules()), state.get(f"{layer_name}.bias")
    norm, activation = (layer_name.replace("linears.", f"{kind}.") for kind in ("norms", "activations"))
    alpha, kappa = _frozen_norm(modules.get(norm), state, norm, len(W_eff))
    return NeuronFunctions(
        W_eff=W_eff,
        F=torch.zeros_like(W_eff) if F is None else F.to(W_eff),
        D=torch.ones_like(W_eff) if D is None else D.to(W_eff),
        alpha=alpha.to(W_eff),
        kappa=kappa.to(W_eff),
        bias=W_eff.new_zeros(len(W_eff)) if bias is None else bias.double(),
        nonlinearity=_nonlinearity(modules.get(activation, nn.Identity()), activation),
    )


def _frozen_norm(norm: nn.Module | None, state: Mapping[str, Tensor], name: str, m: int) -> tuple[Tensor, Tensor]:
    """alpha and kappa of the norm of this name that follows, at its evaluation statistics."""
    if norm is None or isinstance(norm, nn.Identity):
        return torch.ones(m), torch.zeros(m)
    if not isinstance(norm, nn.BatchNorm1d) or norm.running_mean is None:
        raise UserError(
            f"{name} is a {type(norm).__name__}, which mixes the neurons of a layer, so a neuron has no function of "
            "its own and no ridge cost; train the study's networks with network.norm: batchnorm (or none)."
        )
    mean, variance = (state[f"{name}.running_{moment}"].double() for moment in ("mean", "var"))
    weight, bias = (state[f"{name}.{part}"].double() if norm.affine else None for part in ("weight", "bias"))
    alpha = (variance + norm.eps).rsqrt() * (1.0 if weight is None else weight)
    return alpha, (0.0 if bias is None else bias) - mean * alpha


def _nonlinearity(activation: nn.Module, name: str) -> str:
    """The name of the activation of this module."""
    exact = not isinstance(activation, nn.GELU) or activation.approximate == "none"
    if type(activation) not in NONLINEARITIES or not exact:
        raise UserError(
            f"{name} is {activation}; ridge costs know the elementwise gelu and relu (and no activation): set "
            "network.activation to one of them."
        )
    return NONLINEARITIES[type(activation)]
