"""Students trained by the replica engine: the same as a plain loop, alone or in company, whole or resumed."""

import itertools
import signal
from types import SimpleNamespace

import pytest
import torch

from symlab.errors import Interrupted, UserError
from symlab.papers.permutation_invariance.population import Population
from symlab.papers.permutation_invariance.population_loss import (
    batch_loss_and_gradient,
    loss_and_gradient,
    population_loss,
)
from symlab.papers.permutation_invariance.settings import Widths
from symlab.papers.permutation_invariance.student_points import STEPS_PER_EPOCH, Point
from symlab.papers.permutation_invariance.student_training import Student, on_sphere, train_students
from symlab.seeds import torch_generator
from symlab.training.resume import Checkpoints
from symlab.training.settings import Recipe

KEY = ("study", "widths")
GRID = Widths(M=3, d=4, m=5, runs=4, steps=3000, stop_below=1e-6)
POINT = Point(M=3, d=4, m=5, lr=0.8, init_std=0.05)


def plainly(point, seed, grid):
    """One student by an ordinary loop, from the same first weights; online it looks at its loss once an epoch."""
    of_point = KEY[0], f"{KEY[1]}/{point.name}"
    generator = torch_generator(*of_point, "init", 0, seed)
    W = torch.empty(point.m, point.d, dtype=torch.float64).normal_(0, point.init_std, generator=generator)
    for step in range(grid.steps):
        loss, gradient = loss_and_gradient(W, point.M)
        epoch, number = divmod(step, STEPS_PER_EPOCH)
        if loss < grid.stop_below and (number == 0 or not grid.batch):
            return W, step
        if grid.batch and number == 0:
            generator = torch_generator(*of_point, "inputs", 0, seed, epoch + 1)
            x = on_sphere(grid.batch, point.d, STEPS_PER_EPOCH, generator)
        if grid.batch:
            _, gradient = batch_loss_and_gradient(W, x[number], point.M)
        W = W - point.lr * gradient
    return W, grid.steps


# Losses of batches of four are often below what the whole loss stops at.
ONLINE = GRID.model_copy(update={"batch": 4, "stop_below": 1e-3})


@pytest.mark.parametrize(("grid", "seeds"), [(GRID, range(4)), (ONLINE, range(2))], ids=["descent", "online"])
def test_a_stack_of_students_takes_the_steps_of_a_plain_loop(grid, seeds):
    trained = train_students(POINT, seeds, grid, KEY)
    assert trained["W"].dtype == torch.float64 and trained["W"].shape == (len(seeds), 5, 4)
    for seed in seeds:
        W, steps = plainly(POINT, seed, grid)
        assert 0 < steps < grid.steps and trained["steps"][seed] == steps
        torch.testing.assert_close(trained["W"][seed], W, rtol=0, atol=1e-10 if grid.batch else 1e-12)
    assert (population_loss(trained["W"], POINT.M) < grid.stop_below).all()


def test_what_is_told_of_a_student_that_stops_is_the_loss_at_which_it_does():
    """Of half a square: a step halves the weight and quarters the loss, 0.08 of the one and 8 of the other."""
    halving = Population(lambda W: (W.square().sum(dim=(1, 2)) / 2, W), steps=10, stop_below=0.03, stop_above=10)
    stack = halving.stack(SimpleNamespace(W={"W": torch.tensor([[[0.4]], [[4.0]]])}))
    loss, _ = stack.step(0.5, torch.zeros(2, 10))
    torch.testing.assert_close(loss, torch.tensor([0.08 / 4, 8 / 4**5]).double())
    assert stack.steps.tolist() == [1, 5]


def test_a_student_depends_on_its_own_seed_alone():
    together = train_students(POINT, range(6), GRID, KEY)
    for seed in (0, 3, 5):
        alone = train_students(POINT, [seed], GRID, KEY)
        assert torch.equal(alone["W"][0], together["W"][seed]) and alone["steps"][0] == together["steps"][seed]


def test_a_run_that_diverges_keeps_finite_weights_and_leaves_the_others_alone():
    wild = Point(M=3, d=4, m=5, lr=30.0, init_std=0.05)
    trained = train_students(wild, range(4), GRID, KEY)
    assert trained["W"].isfinite().all()
    # It ends where a loss is a million times that without neurons, and not where numbers end.
    times = population_loss(trained["W"], 3) / population_loss(torch.zeros(1, 4, dtype=torch.float64), 3)
    assert (times > 1e6).all() and (times < 1e12).all()
    assert (trained["steps"] < GRID.steps).all()


def test_the_students_function_has_the_loss_that_the_formula_gives():
    generator = torch.Generator().manual_seed(0)
    student = Student(d=4, m=5).requires_grad_(False)
    x = on_sphere(1, 4, 400_000, generator)[:, 0]
    squares = (student(x)[:, 0] - x[:, :3].relu().sum(dim=1)).square()
    expected = float(population_loss(student.linear.weight, 3))
    assert abs(squares.mean().item() - expected) < 4 * squares.std().item() / 400_000**0.5


def test_inputs_lie_on_the_sphere_and_have_covariance_identity_over_d():
    x = on_sphere(16, 5, 5000, torch.Generator().manual_seed(1)).reshape(-1, 5)
    torch.testing.assert_close(x.norm(dim=1), torch.ones(len(x), dtype=torch.float64))
    torch.testing.assert_close(x.T @ x / len(x), torch.eye(5, dtype=torch.float64) / 5, rtol=0, atol=3e-3)


@pytest.mark.parametrize("stopped_at", [1, 4])
def test_training_that_is_stopped_goes_on_with_the_same_bits(tmp_path, monkeypatch, stopped_at):
    whole = train_students(POINT, range(4), GRID, KEY)
    path, clock = tmp_path / "unfinished.safetensors", itertools.count()

    def stop_at(checkpoints):
        after_step = checkpoints.after_step

        def counted(*args):
            if next(clock) == stopped_at:
                checkpoints.stopped_by = signal.SIGTERM
            return after_step(*args)

        monkeypatch.setattr(checkpoints, "after_step", counted)

    with Checkpoints(path, {"spec": 1}, 10, print) as checkpoints, pytest.raises(Interrupted):
        stop_at(checkpoints)
        train_students(POINT, range(4), GRID, KEY, checkpoints=checkpoints)
    assert path.exists()
    with Checkpoints(path, {"spec": 1}, 10, print) as checkpoints:
        resumed = train_students(POINT, range(4), GRID, KEY, checkpoints=checkpoints)
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)


@pytest.mark.parametrize("changes", [{"momentum": 0.9}, {"weight_decay": 0.1}, {"batch_size": 4}, {"l1": 0.1}])
def test_a_population_s_loss_is_descended_by_plain_steps_alone(changes):
    plain = {"optimizer": "sgd", "momentum": 0, "weight_decay": 0, "lr": 0.05, "epochs": 1, "batch_size": 5}
    population = Population(None, steps=5, stop_below=0, stop_above=1)
    assert population.prepared(Recipe(**plain), None, ("study", "variant")) is population
    with pytest.raises(UserError, match=r"study study, variant variant: .* plain steps"):
        population.prepared(Recipe(**plain | changes), None, ("study", "variant"))
