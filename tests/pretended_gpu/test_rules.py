"""What the pretended GPU has to catch, so that tests on it mean something."""

import pytest
import torch

from symlab.training.cuda_graph import WARM_UP, captured_on_gpu


def captured_calls(step, device, inputs):
    """The outputs of a step on each of the inputs, the last ones replayed."""
    take = captured_on_gpu(step, torch.device(device))
    return [[output.cpu().clone() for output in take(0.1, x.to(device))] for x in inputs]


INPUTS = [torch.full((3,), float(number)) for number in range(WARM_UP + 3)]


def test_results_are_those_of_the_cpu_and_say_where_they_are(device):
    x = torch.arange(6.0).reshape(2, 3)
    there = x.to(device)
    assert there.device.type == device and (there @ there.T).device.type == device
    assert torch.equal((there @ there.T).cpu(), x @ x.T)
    there[:, 0].mul_(2)
    assert there.tolist() == [[0, 1, 2], [6, 4, 5]] and there.sum().item() == 18


def test_a_tensor_left_on_the_cpu_is_caught(device):
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device=device) + torch.ones(3)
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3)[torch.zeros(2, dtype=torch.int64, device=device)]
    with pytest.raises(RuntimeError):
        torch.ones(3, device=device).numpy()


@pytest.mark.parametrize(
    "waits",
    [
        lambda x: x.sum().item(),
        lambda x: x[x > 1],
        lambda x: x.nonzero(),
        lambda x: x.cpu(),
        lambda x: torch.ones(3).to(x.device),
        lambda x: torch.tensor([1.0, 2.0, 3.0], device=x.device),
    ],
    ids=["item", "mask", "nonzero", "to the CPU", "from the CPU", "from a list"],
)
def test_a_captured_step_that_waits_is_caught(device, waits):
    def step(lr, x):
        waits(x)
        return x * lr, x.sum()

    captured_calls(step, device, INPUTS[:WARM_UP])
    with pytest.raises(RuntimeError, match="capturing"):
        captured_calls(step, device, INPUTS)


def test_a_replay_reads_and_writes_the_memory_of_the_recording(device):
    total = torch.zeros(3, device=device)

    def step(lr, x):
        total.add_(x.view(1, 3)[0])
        return x * lr, total.sum()

    found = captured_calls(step, device, INPUTS)
    for number, (scaled, summed) in enumerate(found):
        assert torch.allclose(scaled, 0.1 * INPUTS[number])
        assert summed == 3 * sum(range(number + 1))


def test_what_a_step_counts_on_the_cpu_stands_still_in_a_replay(device):
    count = torch.zeros(())

    def step(lr, x):
        count.add_(1)
        return x * 0 + count, lr

    found = [outputs[0][0].item() for outputs in captured_calls(step, device, INPUTS)]
    assert found == [*range(1, WARM_UP + 2), WARM_UP + 1, WARM_UP + 1]


def test_a_stale_buffer_is_caught(device):
    kept = {}

    def step(lr, x):
        # What is kept is another tensor after each step: a replay goes on reading the recording's.
        kept["sum"] = kept["sum"] + x if "sum" in kept else x.clone()
        return kept["sum"], lr

    found = [outputs[0][0].item() for outputs in captured_calls(step, device, INPUTS)]
    right = [sum(range(number + 1)) for number in range(len(INPUTS))]
    assert found[: WARM_UP + 1] == right[: WARM_UP + 1]
    assert found[-1] != right[-1]
