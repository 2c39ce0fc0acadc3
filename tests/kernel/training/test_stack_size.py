"""How many replicas a GPU trains together; the GPU's memory is made up here."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from symlab.networks.causal_transformer import CausalTransformer
from symlab.networks.layernorm_resnet import LayerNormResNet
from symlab.schemes import Standard
from symlab.training import stack_size
from symlab.training.objective import Replica, Replicas
from symlab.training.settings import Recipe
from symlab.training.stack_size import LARGEST, Trial, fitting, measured_stack_size
from symlab.training.stacks import OneByOne

GB = 10**9
GPU = torch.device("cuda")


@given(st.integers(0, 200 * GB), st.integers(1, 300 * GB))
def test_the_stack_is_the_largest_even_one_that_fits(free, of_two):
    def fits(size):
        return size * of_two / 2 <= 0.8 * free

    size = fitting(free, of_two, LARGEST)
    assert size == 1 or (size % 2 == 0 and size <= LARGEST and fits(size))
    if size < LARGEST:
        assert not fits(size + 2 if size > 1 else 2)


class MadeUp:
    """A trial that takes memory by the numbers given."""

    def __init__(self, gpu, R):
        self.gpu, self.R = gpu, R

    def everything(self):
        if self.gpu.get("full"):
            raise torch.cuda.OutOfMemoryError("made up")
        self.gpu["peak"] = max(self.gpu["peak"], self.gpu["each"] * self.R)


@pytest.fixture
def gpu(monkeypatch):
    numbers = {"peak": 0, "each": 2 * GB}
    # Looking through all that the process of the tests holds takes half a second, and frees no made-up memory.
    monkeypatch.setattr(stack_size.gc, "collect", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (80 * GB, 140 * GB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 0)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda device: numbers["peak"])
    return numbers


@pytest.mark.parametrize(
    ("changes", "largest", "size"),
    [({}, LARGEST, 32), ({}, 8, 8), ({"each": 60 * GB}, LARGEST, 1), ({"full": True}, LARGEST, 1)],
)
def test_measured_size(gpu, changes, largest, size):
    gpu |= changes
    assert measured_stack_size(lambda R: MadeUp(gpu, R), largest, GPU) == size


@pytest.mark.parametrize(("convolves", "size"), [(True, 8), (False, LARGEST)])
def test_more_networks_stand_in_a_stack_than_side_by_side(gpu, monkeypatch, recipe, conv_net, convolves, size):
    gpu["each"] = 1
    monkeypatch.setattr(stack_size, "Trial", lambda stack, R, data, recipe: MadeUp(gpu, R))
    data = SimpleNamespace(device=GPU)
    module = conv_net() if convolves else nn.Linear(3, 3)
    found, told = stack_size.choose_stack_size(lambda R: None, module, data, Recipe(**recipe))
    assert found == size and ("side by side" in told) == convolves


@pytest.mark.parametrize(("patch", "n", "batch_size", "size"), [(None, 511, None, 10), (None, 512, None, 1),
                         (None, 512, 32, 10), (4, 127, None, 10), (4, 128, None, 1)])  # fmt: skip
def test_large_full_batches_are_computed_one_network_after_the_other(recipe, patch, n, batch_size, size):
    """All tokens count: of four there are four times as many numbers."""
    data = SimpleNamespace(device=torch.device("cpu"), n=n, x_train=torch.zeros(n, 64))
    module = LayerNormResNet(64, 10, 64, 2) if patch is None else CausalTransformer(64, 10, 64, 2, patch=patch)
    found, _ = stack_size.choose_stack_size(None, module, data, Recipe(**{**recipe, "batch_size": batch_size}))
    assert found == size


def test_what_ran_out_of_memory_is_freed_before_a_single_network_is_set_up(gpu, monkeypatch):
    log = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: log.append("freed"))
    assert measured_stack_size(lambda R: log.append("tried") or MadeUp(gpu | {"full": True}, R), LARGEST, GPU) == 1
    assert log == ["freed", "tried", "freed"]


def test_a_trial_takes_all_kinds_of_steps_and_moves_nothing(monkeypatch, recipe, conv_net, images):
    module = conv_net()
    W = {name: parameter.detach().clone()[None] for name, parameter in module.named_parameters()}
    recipe = Recipe(**recipe)
    stack = OneByOne(Replicas([Replica(0, 0)], module, W, {}, {}, Standard(name="standard"), recipe), images)
    seen = []

    def step(lr, *inputs):
        seen.append(tuple(inputs[0].shape))
        return OneByOne.step(stack, lr, *inputs)

    monkeypatch.setattr(stack, "step", step)
    Trial(stack, 1, images, recipe).everything()
    assert seen == [(1, 16)] * (stack_size.WARM_UP + 1) + [(1, 15)]
    for name, tensor in stack.state().items():
        assert torch.equal(tensor, W[name])


def test_looking_at_sizes_changes_no_mode_and_remembers_nothing():
    """A batch norm that is frozen stays so; the widest of the layers gives 7 numbers at each of 5 tokens."""
    module = nn.Sequential(nn.Linear(3, 7), nn.BatchNorm1d(5), nn.Linear(7, 2))
    module[1].eval()
    assert stack_size._widest(module, torch.randn(4, 5, 3)) == 5 * 7
    assert [child.training for child in module] == [True, False, True] and not module[1].running_mean.any()
