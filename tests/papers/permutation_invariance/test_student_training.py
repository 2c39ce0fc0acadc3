"""Students trained by the replica engine: the same as a plain loop, alone or in company, whole or resumed."""

import itertools
import signal

import pytest
import torch

from symlab.errors import Interrupted
from symlab.papers.permutation_invariance.population_loss import loss_and_gradient, population_loss
from symlab.papers.permutation_invariance.settings import Widths
from symlab.papers.permutation_invariance.student_points import Point
from symlab.papers.permutation_invariance.student_training import Student, on_sphere, train_students
from symlab.seeds import torch_generator
from symlab.training.resume import Checkpoints

KEY = ("study", "widths")
GRID = Widths(M=3, d=4, m=5, runs=4, steps=3000, stop_below=1e-6)
POINT = Point(M=3, d=4, m=5, lr=0.8, init_std=0.05)


def plainly(point, seed, grid):
    """One student by an ordinary loop, from the same first weights."""
    generator = torch_generator(KEY[0], f"{KEY[1]}/{point.name}", "init", 0, seed)
    W = torch.empty(point.m, point.d, dtype=torch.float64).normal_(0, point.init_std, generator=generator)
    for step in range(grid.steps):
        loss, gradient = loss_and_gradient(W, point.M)
        if loss < grid.stop_below:
            return W, step
        W = W - point.lr * gradient
    return W, grid.steps


def test_a_stack_of_students_takes_the_steps_of_a_plain_loop():
    trained = train_students(POINT, range(4), GRID, KEY)
    assert trained["W"].dtype == torch.float64 and trained["W"].shape == (4, 5, 4)
    for seed in range(4):
        W, steps = plainly(POINT, seed, GRID)
        assert steps < GRID.steps and trained["steps"][seed] == steps
        torch.testing.assert_close(trained["W"][seed], W, rtol=0, atol=1e-12)
    assert (population_loss(trained["W"], POINT.M) < GRID.stop_below).all()


def test_a_student_depends_on_its_own_seed_alone():
    together = train_students(POINT, range(6), GRID, KEY)
    for seed in (0, 3, 5):
        alone = train_students(POINT, [seed], GRID, KEY)
        assert torch.equal(alone["W"][0], together["W"][seed]) and alone["steps"][0] == together["steps"][seed]


def test_a_run_that_diverges_keeps_finite_weights_and_leaves_the_others_alone():
    wild = Point(M=3, d=4, m=5, lr=30.0, init_std=0.05)
    trained = train_students(wild, range(4), GRID, KEY)
    assert trained["W"].isfinite().all()
    loss = population_loss(trained["W"], 3)
    assert (loss > population_loss(torch.zeros(1, 4, dtype=torch.float64), 3)).all()
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


def test_online_sgd_comes_near_the_teacher_with_other_batches_for_every_seed():
    grid = Widths(M=3, d=4, m=5, runs=4, steps=2000, batch=16)
    trained = train_students(Point(M=3, d=4, m=5, lr=0.4, init_std=0.05), range(4), grid, KEY)
    loss = population_loss(trained["W"], 3)
    start = population_loss(torch.zeros(1, 4, dtype=torch.float64), 3)
    assert (loss < 1e-2 * start).all() and len(set(loss.tolist())) == 4
    again = train_students(Point(M=3, d=4, m=5, lr=0.4, init_std=0.05), [2], grid, KEY)
    torch.testing.assert_close(again["W"][0], trained["W"][2], rtol=0, atol=1e-10)


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
