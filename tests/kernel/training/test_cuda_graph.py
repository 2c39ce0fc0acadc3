"""What a captured step does around its graph, with a stand-in for the graph that runs on the CPU."""

import pytest
import torch

from symlab.training import replicas as engine
from symlab.training.cuda_graph import WARM_UP, CapturedStep
from symlab.training.optimizer import Optimizer
from symlab.training.settings import Recipe

CPU = torch.device("cpu")


class FakeRecorder:
    """Like a CUDA graph: records without running, replays into the same output tensors, from the same inputs."""

    def __init__(self):
        self.log = []

    def warm_up(self, work):
        self.log.append("warm up")
        return work()

    def record(self, work):
        self.log.append("record")
        outputs = []

        def replay():
            self.log.append("replay")
            results = work()
            if not outputs[0]:
                outputs[0] += [torch.empty_like(result) for result in results]
            for held, result in zip(outputs[0], results, strict=True):
                held.copy_(result)

        outputs.append([])
        return replay, outputs[0]


def test_order_of_warm_up_recording_replay_and_eager_calls():
    recorder, eager = FakeRecorder(), []

    def step(lr, x):
        eager.append(tuple(x.shape))
        return x * lr, x.sum()

    captured = CapturedStep(step, recorder, CPU)
    for number, n in enumerate([4, 4, 3, 4, 4, 3, 4]):
        x = torch.arange(float(n)) + number
        scaled, total = captured(number / 2, x)
        torch.testing.assert_close(scaled, x * (number / 2))
        assert total == x.sum()
    assert recorder.log == ["warm up"] * WARM_UP + ["record", "replay", "replay"]
    assert eager == [(4,), (4,), (3,), (4,), (4,), (3,), (4,)]


def test_training_that_goes_on_with_a_smaller_last_batch_records_the_full_one():
    recorder = FakeRecorder()
    captured = CapturedStep(lambda lr, x: (x * lr, x.sum()), recorder, CPU)
    for n in [3, 4, 4, 4, 4, 3, 4]:
        x = torch.arange(float(n))
        scaled, total = captured(2.0, x)
        assert torch.equal(scaled, 2 * x) and total == x.sum()
    assert recorder.log == ["warm up"] * (1 + WARM_UP) + ["record", "replay", "replay"]


def test_inputs_reach_the_graph_at_fixed_places():
    seen = []

    def step(lr, x):
        seen.append((lr.data_ptr(), x.data_ptr()))
        return lr, x

    captured = CapturedStep(step, FakeRecorder(), CPU)
    for number in range(6):
        captured(0.1 * number, torch.full((3,), float(number)))
    assert len(set(seen)) == 1


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_replayed_and_eager_steps_alternate_without_changing_the_training(
    monkeypatch, train, conv_net, images, stacked, optimizer
):
    options = {"scheme": {"name": "syre", "sigma_F": 1.0, "epsilon": 0.01}, "augment": {"flip": True, "crop": 1}}

    def run():
        return train(conv_net, images, [(0, 0), (0, 1)], optimizer=optimizer, **options)

    plain, recorder = run(), FakeRecorder()
    monkeypatch.setattr(engine, "captured_on_gpu", lambda step, device: CapturedStep(step, recorder, device))
    captured = run()
    assert recorder.log.count("replay") == (1 if stacked else 2) * (2 * 4 - WARM_UP)
    for name, tensor in plain.snapshots[2].items():
        torch.testing.assert_close(captured.snapshots[2][name], tensor, rtol=1e-5, atol=1e-6)
    columns = ["train_loss", "train_accuracy", "val_loss"]
    torch.testing.assert_close(*(torch.tensor(b.history[columns].values) for b in (plain, captured)), rtol=1e-5, atol=0)


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_learning_rate_may_be_a_tensor(recipe, optimizer):
    results = []
    for rates in ([0.1, 0.05, 0.2], [torch.tensor(0.1), torch.tensor(0.05), torch.tensor(0.2)]):
        W = torch.linspace(-1, 1, 32).requires_grad_()
        moves = Optimizer(Recipe(**recipe, optimizer=optimizer), {"W": W}, ["W"], R=1)
        for lr in rates:
            W.grad = W.detach().cos()
            moves.step(lr)
        results.append(W.detach())
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-7)
