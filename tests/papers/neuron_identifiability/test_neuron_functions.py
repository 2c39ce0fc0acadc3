import numpy as np
import pytest
import torch
from torch import nn

from symlab.errors import UserError
from symlab.identifiability.recording import layer_inputs
from symlab.networks import MLP, CoherenceStudent, build
from symlab.papers.neuron_identifiability.neuron_functions import NeuronFunctions, layer_functions
from symlab.papers.neuron_identifiability.ridge_problems import nonlinear


def a_network(norm: str = "batchnorm", activation: str = "gelu", widths: tuple[int, ...] = (8, 8)) -> nn.Module:
    """Small, with random weights and, where there are any, random batch norm parameters and statistics."""
    torch.manual_seed(0)
    module = build(MLP(name="mlp", widths=list(widths), norm=norm, activation=activation), 6, 3)
    for child in module.modules():
        if isinstance(child, nn.BatchNorm1d):
            for tensor in (child.weight.data, child.bias.data, child.running_mean):
                tensor.normal_()
            child.running_var.uniform_(0.5, 2)
    return module.train()


def trained_values(functions: NeuronFunctions, X: torch.Tensor) -> torch.Tensor:
    z = functions.alpha * (X.double() @ functions.W_eff.T) + functions.shift
    return nonlinear(functions.nonlinearity, z)


@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("norm", ["batchnorm", "none"])
def test_the_functions_are_what_the_network_computes(norm: str, activation: str) -> None:
    module, X = a_network(norm, activation), torch.randn(2500, 6, generator=torch.Generator().manual_seed(1))
    state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    read = layer_inputs(module, state, X)
    assert module.training
    assert list(read) == ["linears.0", "linears.1", "linears.2"]
    assert torch.equal(read["linears.0"], X)
    for layer in range(2):
        functions = layer_functions(module, state, f"linears.{layer}", None, None)
        computed = trained_values(functions, read[f"linears.{layer}"])
        torch.testing.assert_close(computed, read[f"linears.{layer + 1}"].double(), rtol=1e-5, atol=1e-5)
    readout = layer_functions(module, state, "linears.2", None, None)
    assert readout.nonlinearity == "identity"
    with torch.no_grad():
        logits = module.eval()(X)
    torch.testing.assert_close(trained_values(readout, read["linears.2"]), logits.double(), rtol=1e-5, atol=1e-5)
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, state[name])


def test_a_coherence_student_has_functions_without_a_norm() -> None:
    module = build(CoherenceStudent(name="coherence_student", width=5), 6, 1)
    functions = layer_functions(module, module.state_dict(), "linears.0", None, None)
    X = torch.randn(20, 6)
    with torch.no_grad():
        output = module(X)[:, 0]
    torch.testing.assert_close(trained_values(functions, X).sum(dim=1), output.double(), rtol=1e-5, atol=1e-6)


def test_own_weights_undo_the_parametrization() -> None:
    module = a_network()
    state = module.state_dict()
    F, W = torch.randn(8, 6), torch.randn(8, 6)
    D = 1 + torch.rand(8, 6)
    D[2, 3] = D[5] = 0
    state["linears.0.weight"] = F + D * W
    functions = layer_functions(module, state, "linears.0", F, D)
    expected = torch.where(D == 0, 0.0, W)
    np.testing.assert_allclose(functions.own_weights, expected, atol=1e-6)
    plain = layer_functions(module, state, "linears.0", None, None)
    torch.testing.assert_close(plain.own_weights, state["linears.0.weight"].double())


@pytest.mark.parametrize(
    ("network", "sentence"),
    [({"norm": "layernorm"}, "network.norm: batchnorm"), ({"activation": "sigma"}, "set network.activation")],
)
def test_neurons_without_a_function_of_their_own_are_told(network: dict[str, str], sentence: str) -> None:
    module = a_network(**network)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=sentence):
        layer_functions(module, module.state_dict(), "linears.0", None, None)


def test_diverged_weights_are_told() -> None:
    module = a_network()
    state = module.state_dict()
    state["linears.0.weight"] = torch.full((8, 6), torch.nan)
    with pytest.raises(UserError, match="diverged"):
        layer_functions(module, state, "linears.0", None, None)
