"""L-BFGS against scipy's, and as the end of training: lower, the same in company and after an interruption."""

import os
import signal
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from scipy.optimize import rosen, rosen_der
from torch import nn

from symlab.errors import Interrupted, UserError
from symlab.networks import TorchDefault
from symlab.schemes import SCHEMES, Standard
from symlab.settings import choose
from symlab.training.lbfgs import LBFGS
from symlab.training.objective import Replica
from symlab.training.on_samples import TrainingData
from symlab.training.polish import Polisher
from symlab.training.replicas import Run, train_block
from symlab.training.resume import Checkpoints
from symlab.training.settings import Polish, Recipe

X = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long() + (X[:, 1] > 0).long()
PENALTY = 0.01


def build():
    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3))


def trained(seeds, polish=None, checkpoints=None, start=None, scheme=None, epochs=5, held_out=0, **changes):
    recipe = Recipe(optimizer="adam", lr=0.01, weight_decay=0, penalties={"*weight": PENALTY}, batch_size=None,
                    epochs=epochs, polish=polish, **changes)  # fmt: skip
    data = TrainingData(X, Y, X[:held_out], Y[:held_out], "classification")
    run = Run(build, data, scheme or Standard(name="standard"),
              TorchDefault(name="torch"), recipe, [epochs], ("s", "v"), start=start)  # fmt: skip
    return train_block(run, [Replica(0, seed) for seed in seeds], checkpoints=checkpoints)


def objective(state, seed):
    module = build().double()
    module.load_state_dict({name: tensor[seed].double() for name, tensor in state.items()})
    penalty = sum(p.square().sum() for name, p in module.named_parameters() if name.endswith("weight"))
    return nn.functional.cross_entropy(module(X.double()), Y) + PENALTY / 2 * penalty, module


def test_separate_problems_end_where_each_does():
    """Valleys of Rosenbrock's function from two starts, and one problem that is solved at once."""

    def evaluate(theta):
        values, slopes = zip(*((rosen(row), rosen_der(row)) for row in theta.numpy()), strict=True)
        return torch.tensor(np.array(values)) + 1, torch.tensor(np.array(slopes))

    theta = torch.tensor([[-1.2, 1.0, 0.5], [2.0, -1.0, 1.5], [1.0, 1.0, 1.0]]).double()
    together = LBFGS(evaluate, theta, memory=10, tolerance=1e-8)
    assert together.solved.tolist() == [False, False, True]
    while not together.solved.all():
        together.iterate()
    torch.testing.assert_close(together.theta, torch.ones(3, 3).double(), rtol=0, atol=1e-6)
    assert int(together.iterations.max()) < 100 and together.iterations.tolist()[2] == 0
    for row in range(2):
        alone = LBFGS(evaluate, theta[row : row + 1], memory=10, tolerance=1e-8)
        while not alone.solved.all():
            alone.iterate()
        torch.testing.assert_close(alone.theta[0], together.theta[row], rtol=1e-12, atol=1e-12)
        assert (alone.iterations, alone.evaluations) == (together.iterations[row], together.evaluations[row])


def two_loops(found, row):
    """Nocedal's (1980), of one problem, over the pairs that are kept, the newest first."""
    memory, count = found.memory, int(found.iterations[row])
    places = [place % memory for place in reversed(range(max(count - memory, 0), count))]
    pairs = [(found.pairs[row, p], found.pairs[row, memory + p]) for p in places if found.useful[row, p]]
    q, shares = found.gradient[row].clone(), []
    for step, change in pairs:
        shares.append((step @ q) / (step @ change))
        q -= shares[-1] * change
    q *= found.scale[row]
    for (step, change), share in reversed(list(zip(pairs, shares, strict=True))):
        q += (share - (change @ q) / (step @ change)) * step
    return -q


def test_a_pair_without_curvature_is_of_no_use():
    """On a plane every step falls and no gradient changes: the next direction is that of steepest descent."""
    theta = torch.zeros(1, 3).double()
    found = LBFGS(lambda at: (at.sum(dim=1), torch.ones_like(at)), theta, memory=4, tolerance=0)
    found.iterate()
    assert float(found.value) < 0 and not found.useful.any()
    torch.testing.assert_close(found._direction(), torch.full((1, 3), -(3**-0.5)).double())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("p", [32, 4810])
def test_a_problem_has_the_same_bits_at_every_place_among_others(dtype, p):
    """While the memory fills and when it is full, in stacks as training makes them: even ones, of two at least."""
    curvature = torch.linspace(0.1, 10, p).to(dtype)

    def evaluate(theta):
        # By products and sums: of functions the last few numbers of a tensor are rounded otherwise.
        cubed = theta * theta * theta
        return (curvature * (theta / 2 + cubed / 4) * theta).sum(dim=1), curvature * (theta + cubed)

    theta = torch.randn(10, p, generator=torch.Generator().manual_seed(0)).to(dtype)
    together = LBFGS(evaluate, theta, memory=20, tolerance=0)
    alone = [LBFGS(evaluate, each.repeat(2, 1), memory=20, tolerance=0) for each in theta]
    for _ in range(24):
        for problem in (together, *alone):
            problem.iterate()
    assert torch.equal(together.theta, torch.stack([problem.theta[0] for problem in alone]))


@pytest.mark.parametrize("iterations", [0, 1, 3, 4, 9])
def test_directions_are_those_of_two_loops_over_the_pairs_that_are_kept(iterations):
    """Of each problem those of its own iterations: one has fewer."""
    curvature = torch.linspace(0.1, 10, 30).double()

    def evaluate(theta):
        return (curvature * theta.cosh()).sum(dim=1), curvature * theta.sinh()

    theta = torch.randn(2, 30, generator=torch.Generator().manual_seed(0)).double()
    found = LBFGS(evaluate, theta, memory=4, tolerance=1e-12)
    for iteration in range(iterations):
        found.stuck[1] = iteration in (2, 5)
        found.iterate()
        if iteration == 7:  # One forgets what it has, the other one pair.
            found.useful[0], found.useful[1, 2] = False, False
    for row, direction in enumerate(found._direction()):
        torch.testing.assert_close(direction, two_loops(found, row), rtol=1e-9, atol=1e-12)


def test_an_uphill_direction_is_left_for_steepest_descent():
    def evaluate(theta):
        return theta.square().sum(dim=1) / 2, theta

    found = LBFGS(evaluate, torch.tensor([[3.0, 4.0]] * 2).double(), memory=4, tolerance=0)
    found.scale[0] *= -1
    found.iterate()
    assert float(found.value[0]) < 12.5 and torch.equal(*found.theta)


def test_where_no_step_falls_it_ends():
    found = LBFGS(lambda theta: (theta.new_ones(1), torch.ones_like(theta)), torch.zeros(1, 2).double(), 5, 1e-8)
    for _ in range(3):
        found.iterate()
    assert found.solved.all() and not found.theta.any()


@pytest.mark.parametrize(
    ("function", "start", "end"),
    [(lambda x: x - x.log(), 0.05, 1), (lambda x: 1 + x.square() / 2, 1e-5, 0)],
    ids=["not finite below 0", "a hundred thousandth of a first step"],
)
def test_it_passes_over_values_that_are_not_finite_and_takes_steps_as_short_as_they_must_be(function, start, end):
    def evaluate(theta):
        theta = theta.detach().requires_grad_()
        value = function(theta[:, 0])
        return value.detach(), torch.autograd.grad(value.sum(), theta)[0]

    found = LBFGS(evaluate, torch.tensor([[start]]).double(), 5, 1e-10)
    for _ in range(30):
        found.iterate()
    torch.testing.assert_close(found.theta, torch.full((1, 1), end).double(), rtol=0, atol=1e-8)


@pytest.mark.parametrize("single", [0, 0.5])
@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
def test_training_ends_at_a_minimum_of_loss_and_penalties(seeds, single):
    block = trained(seeds, Polish(iterations=500, gradient=1e-6, single=single))
    rows = block.polished.set_index("seed")
    for place, seed in enumerate(seeds):
        value, module = objective(block.snapshots[5], place)
        gradients = torch.autograd.grad(value, list(module.parameters()))
        assert torch.stack([g.norm() for g in gradients]).norm() < 2e-6 * value
        assert rows.loc[seed, "objective"] == pytest.approx(value.item(), rel=1e-12)
        assert rows.loc[seed, "gradient"] < 1e-6 and rows.loc[seed, "evaluations"] >= rows.loc[seed, "iterations"]
    assert block.snapshots[5]["0.weight"].dtype == torch.float64


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
def test_so_many_iterations_are_in_float32_and_what_is_told_of_the_end_is_in_float64(seeds, monkeypatch):
    seen, evaluate = [], Polisher._evaluate
    monkeypatch.setattr(Polisher, "_evaluate", lambda self, at: seen.append(at.dtype) or evaluate(self, at))
    for single, last in ((0.25, 15), (1.0, 0)):
        seen.clear()
        block = trained(seeds, Polish(iterations=20, gradient=1e-12, single=single))
        # First all in float32, and at least one more than its iterations; then the rest.
        narrow = seen.count(torch.float32)
        assert seen == [torch.float32] * narrow + [torch.float64] * (len(seen) - narrow)
        assert narrow > 20 - last and len(seen) - narrow > last
        assert block.snapshots[5]["0.weight"].dtype == torch.float64
        for place, found in enumerate(block.polished.itertuples()):
            value, module = objective(block.snapshots[5], place)
            gradients = torch.autograd.grad(value, list(module.parameters()))
            steepness = torch.stack([g.norm() for g in gradients]).norm() / value.detach()
            assert found.objective == pytest.approx(value.item(), rel=1e-12)
            assert found.gradient == pytest.approx(steepness.item(), rel=1e-6)


def test_float64_begins_for_each_network_where_float32_finds_no_step(monkeypatch):
    """Long before the share of the iterations that may be in float32; alone and in company with the same bits."""
    begun, widen = [], LBFGS.widen
    monkeypatch.setattr(LBFGS, "widen", lambda self: begun.append(self.iterations.tolist()) or widen(self))
    polish = Polish(iterations=400, gradient=1e-9, single=0.9)
    block = trained((0, 1), polish)
    in_single = begun[0]
    assert max(in_single) < 200 and len(set(in_single)) > 1
    assert (block.polished["iterations"] > in_single).all() and (block.polished["gradient"] < 1e-6).all()
    for place, seed in enumerate(block.polished["seed"]):
        alone = trained((seed,), polish)
        assert begun[-1][0] == in_single[place]
        assert alone.polished.iloc[0].equals(block.polished.iloc[place])
        for name, tensor in alone.snapshots[5].items():
            assert torch.equal(tensor[0], block.snapshots[5][name][place])


@pytest.mark.parametrize("gradient", [1e-3, 1e6])
def test_what_is_solved_in_float32_is_told_in_float64(gradient):
    """After some iterations or none."""
    block = trained((0, 2), Polish(iterations=400, gradient=gradient, single=0.5))
    assert (block.polished["iterations"] < 200).all() and block.polished["fall"].isna().all()
    assert block.snapshots[5]["0.weight"].dtype == torch.float64


def test_a_solved_problem_stays_as_it_is_while_others_go_on():
    curvature = torch.linspace(0.1, 10, 30).double()

    def evaluate(theta):
        return (curvature * theta.cosh()).sum(dim=1), curvature * theta.sinh()

    found = LBFGS(evaluate, torch.stack([torch.ones(30), torch.full((30,), 5)]).double(), memory=4, tolerance=1e-2)
    while not found.solved[0]:
        found.iterate()
    before, direction = {name: tensor[0].clone() for name, tensor in found.live().items()}, found._direction()[0]
    assert not found.solved[1] and found.useful[0].all()
    for _ in range(6):
        found.iterate()
    assert all(torch.equal(tensor[0], before[name]) for name, tensor in found.live().items())
    assert torch.equal(found._direction()[0], direction)


@pytest.mark.parametrize(("dtype", "kept"), [(torch.float32, 4), (torch.float64, 0)])
def test_without_a_step_pairs_are_kept_for_float64_or_steepest_descent_is_tried(dtype, kept):
    curvature, walled = torch.linspace(0.1, 10, 30).to(dtype), []

    def evaluate(theta):
        value = (curvature * theta.cosh()).sum(dim=1)
        return torch.where(torch.tensor(bool(walled)), torch.inf, value), curvature * theta.sinh()

    found = LBFGS(evaluate, torch.ones(1, 30, dtype=dtype), memory=5, tolerance=0)
    for _ in range(6):
        found.iterate()
    walled.append(True)
    found.iterate()
    assert found.useful.sum() == kept and found.stuck.item() == (kept > 0)
    found.iterate()
    assert found.stuck.item()


def test_pairs_are_kept_where_float64_begins_and_what_was_stuck_tries_again():
    curvature = torch.linspace(0.1, 10, 30)

    def evaluate(theta):
        return (curvature * theta.cosh()).sum(dim=1), curvature * theta.sinh()

    found = LBFGS(evaluate, torch.ones(2, 30), memory=4, tolerance=0)
    for _ in range(6):
        found.iterate()
    pairs, found.stuck[1] = found.pairs.clone(), True
    found.widen()
    assert torch.equal(found.pairs, pairs.double()) and not found.stuck.any()
    assert {t.dtype for t in found.live().values() if t.is_floating_point()} == {torch.float64}
    along = (found.pairs @ found.gradient[:, :, None])[:, :, 0]
    torch.testing.assert_close(found.along, along, rtol=1e-12, atol=1e-12)
    for row, direction in enumerate(found._direction()):
        torch.testing.assert_close(direction, two_loops(found, row), rtol=1e-4, atol=1e-6)


def test_what_the_last_tenth_of_the_iterations_gains_is_told():
    polish = Polish(iterations=20, gradient=1e-12)
    whole = trained((0,), polish).polished
    before = trained((0,), polish.model_copy(update={"iterations": 18})).polished
    expected = before["objective"] / whole["objective"] - 1
    assert whole["fall"].tolist() == pytest.approx(expected.tolist(), rel=1e-9) and (expected > 0).all()
    assert trained((0,), Polish(iterations=5)).polished["fall"].isna().all()


@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_held_out_samples_are_evaluated_in_float64(seeds):
    block = trained(seeds, Polish(iterations=3), held_out=7)
    assert block.history.val_loss.notna().all()


def test_it_may_be_all_of_training_and_begin_at_given_weights():
    begun = trained((0, 1)).snapshots[5]
    block = trained((1,), Polish(iterations=3), start=begun, epochs=0, precision="float64")
    assert block.history.empty
    assert objective(block.snapshots[0], 0)[0] < objective(begun, 1)[0]


@pytest.mark.parametrize("single", [0, 0.1, 0.5])
def test_a_killed_polish_goes_on_with_the_same_bits(tmp_path, single):
    """Killed at iteration 10: of those in float64, in float64 after four in float32, in float32."""
    polish = Polish(iterations=40, gradient=1e-12, single=single)
    whole = trained((0, 1), polish)
    checkpoints = partial(Checkpoints, tmp_path / "kept.safetensors", {}, 60.0, lambda line: None)
    stopping, calls = checkpoints(), []
    after_step = stopping.after_step

    def stop_within(progress, *arguments):
        calls.append(progress.polishes)
        if sum(calls) == 10:
            os.kill(os.getpid(), signal.SIGTERM)
        after_step(progress, *arguments)

    stopping.after_step = stop_within
    with pytest.raises(Interrupted):
        trained((0, 1), polish, stopping)
    rest = trained((0, 1), polish, checkpoints())
    for name, tensor in whole.snapshots[5].items():
        assert torch.equal(rest.snapshots[5][name], tensor)


def test_what_cannot_be_minimised_is_refused(monkeypatch):
    for changes in ({"batch_size": 4}, {"weight_decay": 0.1, "batch_size": None}):
        with pytest.raises(ValidationError, match="polish minimises one loss"):
            Recipe(**{"epochs": 1, "weight_decay": 0, "batch_size": None, "polish": {}} | changes)
    with pytest.raises(ValidationError, match="without polish"):
        Recipe(epochs=0)
    with pytest.raises(UserError, match="does not go with SimpleNamespace"):
        Polisher(SimpleNamespace(), (), Polish())
    monkeypatch.setattr(LBFGS, "iterate", lambda self: pytest.fail("It was refused too late."))
    for single in (0, 0.5):
        with pytest.raises(UserError, match="scheme standard"):
            trained((0, 1), Polish(single=single), scheme=choose(SCHEMES, {"name": "hadamard"}))
