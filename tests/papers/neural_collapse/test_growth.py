"""Growing by splitting: what it halves, and that training goes on as the kernel's loop would."""

import numpy as np
import pytest
import torch
from torch.func import functional_call

from symlab.data import Digits, load
from symlab.measures.job import Job
from symlab.networks import TorchDefault
from symlab.networks.layernorm_resnet import LayerNormResNet
from symlab.papers.neural_collapse.growth import draw_networks, split_blocks, train_on
from symlab.papers.neural_collapse.resnet_stack import ResNetData
from symlab.papers.neural_collapse.settings import Growth
from symlab.schemes import Standard
from symlab.training.objective import Replica
from symlab.training.replicas import Run, train_block
from symlab.training.settings import Cosine, Recipe

X = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))
Y = torch.arange(12) % 3


def squares(state):
    return sum(tensor.square().sum().item() for name, tensor in state.items() if "blocks" in name and "weight" in name)


@pytest.mark.parametrize(("layers", "left"), [(1, 1 / 2), (2, 1)])
def test_a_split_of_small_blocks_leaves_the_function_and_the_penalty_or_half_of_it(layers, left):
    network, deeper = (LayerNormResNet(5, 3, 8, depth, layers).double() for depth in (3, 5))
    state = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
    twice = split_blocks(state)
    np.testing.assert_allclose(squares(twice), squares(state) * left, rtol=1e-12)
    # Two halves follow a block's flow: what they miss is of second order in the branch, which of two layers has the
    # last one as a factor.
    missed = []
    for scale in (1e-2, 1e-3):
        last = [f"blocks.{block}.{layers - 1}." for block in range(2)]
        small = {n: scale * tensor if n[: len(last[0])] in last else tensor for n, tensor in state.items()}
        before = functional_call(network, small, (X.double(),))
        missed.append((functional_call(deeper, split_blocks(small), (X.double(),)) - before).abs().max().item())
    assert 50 < missed[0] / missed[1] < 200


def test_training_on_from_given_weights_is_the_kernel_s():
    recipe = Recipe(
        optimizer="adam", lr=0.01, weight_decay=0, epochs=5, batch_size=None, schedule=Cosine(name="cosine")
    )
    data = ResNetData(X, Y, X[:0], Y[:0], "classification")
    members = [Replica(0, 0), Replica(0, 1)]
    run = Run(lambda: LayerNormResNet(5, 3, 8, 3), data, Standard(name="standard"), TorchDefault(name="torch"), recipe,
              [0, 5], ("s", "v"))  # fmt: skip
    block = train_block(run, members)
    ended = train_on(LayerNormResNet(5, 3, 8, 3), block.snapshots[0], members, data, recipe)
    for name, tensor in ended.items():
        assert torch.equal(tensor, block.snapshots[5][name])


def test_training_on_leaves_the_given_weights_as_they_are():
    recipe = Recipe(optimizer="adam", lr=0.01, weight_decay=0, epochs=5, batch_size=None)
    data = ResNetData(X, Y, X[:0], Y[:0], "classification")
    network = LayerNormResNet(5, 3, 8, 3)
    given = draw_networks(network, [torch.Generator().manual_seed(seed) for seed in range(2)])
    before = {name: tensor.clone() for name, tensor in given.items()}
    ended = train_on(network, given, [Replica(0, 0), Replica(0, 1)], data, recipe)
    for name, tensor in given.items():
        assert torch.equal(tensor, before[name]) and not tensor.requires_grad
        assert (ended[name] - before[name]).abs().max() > 1e-3


def test_the_table_holds_every_depth_before_and_after_training(experiment):
    digits = load(Digits(source="digits"), None)
    settings = Growth(doublings=2, per_class=6, steps=20, seeds=2)
    table = experiment("neural_collapse.growth", [settings], Job("s", datasets={"digits": digits}))[
        "collapse_growth.csv"
    ]
    assert table.groupby(["L", "moment"], sort=False).size().to_dict() == {
        **{(2, "trained"): 2, (3, "split"): 2, (3, "trained"): 2},
        **{(5, "split"): 2, (5, "trained"): 2},
    }
    before = table[(table["L"] == 2) & (table["moment"] == "trained")]["hidden"].to_numpy()
    after = table[(table["L"] == 3) & (table["moment"] == "split")]["hidden"].to_numpy()
    np.testing.assert_allclose(after, before / 2, rtol=1e-5)
