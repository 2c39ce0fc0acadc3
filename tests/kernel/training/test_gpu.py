"""The GPU path: CUDA graphs, reduced precision and stacks chosen by memory, each against the eager float32 path."""

import numpy as np
import pytest
import torch

from symlab.networks import NETWORKS, build
from symlab.settings import choose
from symlab.training import replicas as engine
from symlab.training import stack_size
from symlab.training.cuda_graph import CapturedStep
from symlab.training.objective import Replica
from symlab.training.on_samples import TrainingData

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

MLP = {"name": "mlp", "widths": [64, 64]}
RESNET = {"name": "resnet20"}
SCHEME = {"name": "w_asymmetric", "sigma_F": 1.0, "fixed_fraction": 0.25}
BOTH = pytest.mark.parametrize("network", [MLP, RESNET], ids=["mlp", "resnet20"])
SIZES = pytest.mark.parametrize("size", [1, 4], ids=["one by one", "together"])
REPLICAS = [(0, seed) for seed in range(4)]


@pytest.fixture
def data():
    """Ten batches of 16 and one of 8: two epochs are 20 full steps and two smaller ones in between."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(168, 3 * 8 * 8, generator=generator)
    y = x[:, :10].argmax(dim=1)
    return TrainingData(x, y, x[:32], y[:32], "classification", image=(3, 8, 8), black=(-1.0, 0.0, 1.0))


@pytest.fixture
def run(monkeypatch, train, data):
    def on_gpu(network, size, replicas=REPLICAS, captured=True, **options):
        monkeypatch.setattr(stack_size, "measured_stack_size", lambda *_, **__: size)
        if not captured:
            monkeypatch.setattr(engine, "captured_on_gpu", lambda step, device: step)
        options = {"scheme": SCHEME, "augment": {"flip": True, "crop": 1}, "device": "cuda", "lr": 1e-4} | options
        block = train(lambda: build(choose(NETWORKS, network), 192, 10), data, replicas, **options)
        monkeypatch.undo()
        return block

    return on_gpu


def relative_difference(a, b):
    """Largest ||a - b|| / ||b|| of a replica's whole state.

    Not of single tensors: AdamW takes full steps along gradients that are nothing but rounding.
    """
    a, b = (torch.cat([state[name].double().flatten(1) for name in sorted(state)], dim=1) for state in (a, b))
    return ((a - b).norm(dim=1) / b.norm(dim=1)).max().item()


@SIZES
def test_captured_steps_of_mirrors_equal_eager_ones(run, size, tmp_path):
    np.save(tmp_path / "O.npy", np.linalg.qr(np.random.default_rng(0).normal(size=(64, 4)))[0])
    mirrors = {
        "linears.0.*": {"P": "pairs", "pairs": [[0, 9], [4, 3]], "together": True},
        "linears.1.weight": {"P": "matrix", "file": str(tmp_path / "O.npy"), "axis": 1},
        "linears.2.weight": {"P": "blocks", "block": [5, 8]},
    }
    scheme = {"name": "dcs", "mirrors": mirrors}
    eager, captured = (run(MLP, size, captured=c, scheme=scheme, optimizer="sgd", augment=None) for c in (False, True))
    assert relative_difference(captured.snapshots[2], eager.snapshots[2]) < 1e-5


@BOTH
@SIZES
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_captured_steps_equal_eager_ones(run, network, size, optimizer):
    eager, captured = (run(network, size, captured=c, optimizer=optimizer) for c in (False, True))
    # The same kernels; the learning rate is rounded to float32 in a graph.
    assert relative_difference(captured.snapshots[2], eager.snapshots[2]) < 1e-5
    losses = (torch.tensor(block.history["train_loss"].values) for block in (captured, eager))
    torch.testing.assert_close(*losses, rtol=1e-5, atol=0)


@BOTH
@SIZES
@pytest.mark.parametrize(("precision", "tolerance"), [("tf32", 2e-3), ("bf16", 2e-2)])
def test_reduced_precision_stays_near_float32(run, network, size, precision, tolerance):
    exact, rounded = (run(network, size, precision=p) for p in ("float32", precision))
    for column in ("train_loss", "val_loss"):
        a, b = (torch.tensor(block.history[column].values) for block in (rounded, exact))
        torch.testing.assert_close(a, b, rtol=tolerance, atol=0)


@BOTH
def test_a_gpu_gives_what_the_cpu_gives_up_to_rounding(run, network):
    gpu, cpu = (run(network, 4, device=device) for device in ("cuda", "cpu"))
    assert torch.equal(gpu.snapshots[0]["readout.weight" if network is RESNET else "linears.0.weight"],
                       cpu.snapshots[0]["readout.weight" if network is RESNET else "linears.0.weight"])  # fmt: skip
    assert relative_difference(gpu.snapshots[2], cpu.snapshots[2]) < 1e-2


@BOTH
def test_seeds_alone_and_in_a_block_agree_up_to_rounding(run, network):
    block, alone = run(network, 4), run(network, 4, [(0, 2)])
    place = block.replicas.index(Replica(0, 2))
    of_block = {name: tensor[place : place + 1] for name, tensor in block.snapshots[2].items()}
    assert relative_difference(alone.snapshots[2], of_block) < 1e-3


@BOTH
def test_fixed_weights_never_move_on_a_gpu(run, network):
    block = run(network, 4)
    for name, (F, D) in block.fixed[0].items():
        for after in block.snapshots[2][name]:
            assert torch.equal(after[D == 0], F[D == 0])


def test_every_full_step_after_the_warm_up_is_a_replay(monkeypatch, run):
    replays = []
    call = CapturedStep.__call__

    def counting(self, *inputs):
        outputs = call(self, *inputs)
        replays.append(self.replay is not None)
        return outputs

    monkeypatch.setattr(CapturedStep, "__call__", counting)
    run(MLP, 4)
    assert sum(replays) == 22 - 3


@BOTH
def test_the_stack_size_depends_on_the_gpu_only(train, data, network):
    sizes = []
    measured = stack_size.measured_stack_size

    def keeping(*arguments, **options):
        sizes.append(measured(*arguments, **options))
        return sizes[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack_size, "measured_stack_size", keeping)
        for replicas in ([(0, 0)], REPLICAS):
            train(
                lambda: build(choose(NETWORKS, network), 192, 10),
                data,
                replicas,
                device="cuda",
                epochs=1,
                snapshots=(1,),
            )
    assert sizes[0] == sizes[1]
    assert all(size == 1 or size % 2 == 0 for size in sizes)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_equal_neurons_stay_equal_in_tf32(optimizer, monkeypatch):
    # Corollary 1 of Ziyin (2024) in TF32: products round the entries of equal rows alike, so that two neurons that
    # start equal are equal to the last bit after 200 steps; a third, 1e-3 beside them, is not.
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", True)
    generator = torch.Generator().manual_seed(0)
    drawn = {"w": (512, 784), "v": (512, 512), "u": (10, 512), "x": (64, 784)}
    w, v, u, x = (torch.randn(size, generator=generator).div(size[1] ** 0.5).cuda() for size in drawn.values())
    w[1], v[:, 1] = w[0], v[:, 0]
    w[2], v[:, 2] = w[0] + 1e-3, v[:, 0]
    start = w.clone()
    x, y = x * 28, torch.arange(64).cuda() % 10
    exact = (x.double() @ w.double().T - (x @ w.T).double()).abs().max()
    assert exact > 1e-4  # TF32 has 10 bits; float32 errs by less than 1e-5 here.
    weights = [weight.requires_grad_() for weight in (w, v, u)]
    steps = optimizer(weights, lr=1e-3)
    for _ in range(200):
        loss = torch.nn.functional.cross_entropy(((x @ w.T).tanh() @ v.T).tanh() @ u.T, y)
        steps.zero_grad()
        loss.backward()
        steps.step()
    assert (w - start).abs().max() > 1e-3
    assert torch.equal(w[0], w[1])
    assert torch.equal(v[:, 0], v[:, 1])
    assert not torch.equal(w[0] - w[2], start[0] - start[2])
