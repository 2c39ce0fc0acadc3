"""What a training job writes is read back: states in float32 whatever they were trained in, fixed parts, pairs."""

import torch

from symlab.networks import MLP, Lecun, build
from symlab.schemes import WAsymmetric
from symlab.training.models import Pair, open_models, save_models
from symlab.training.objective import Replica
from symlab.training.replicas import Run, train_block
from symlab.training.settings import Recipe


def test_float64_networks_are_read_as_the_modules_that_measures_use(tmp_path, images):
    network = MLP(name="mlp", widths=[16], bias=False, residual=True)
    run = Run(
        lambda: build(network, 144, 16),
        images,
        WAsymmetric(name="w_asymmetric", sigma_F=1.0, n_fixed=3),
        Lecun(name="lecun"),
        Recipe(epochs=1, precision="float64"),
        [0, 1],
        ("study", "variant"),
    )
    block = train_block(run, [Replica(0, 0), Replica(0, 1)])
    assert block.snapshots[1]["linears.0.weight"].dtype == torch.float64
    save_models(tmp_path / "models", block, {"network": network.spec(), "n_inputs": 144, "n_outputs": 16})
    models = open_models(tmp_path / "models")
    state = models.state(1, 1)
    torch.testing.assert_close(state["linears.0.weight"].double(), block.snapshots[1]["linears.0.weight"][1])
    outputs = torch.func.functional_call(models.module(), state, (images.x_val,))
    assert outputs.dtype == torch.float32 and outputs.shape == (20, 16)
    F, D = models.fixed(0)["linears.0.weight"]
    assert torch.equal(state["linears.0.weight"][D == 0], F[D == 0])
    assert models.pairs() == [Pair(0, 0, 0, 1)] and models.epochs == [0, 1]
