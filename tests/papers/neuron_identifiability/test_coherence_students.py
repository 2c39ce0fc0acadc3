"""The coherence students against plain training with autograd, and what is kept of a stopped run."""

import numpy as np
import pytest
import torch

from symlab.data import Coherence
from symlab.data.coherence import load
from symlab.errors import Interrupted
from symlab.measures.job import Job
from symlab.networks import CoherenceStudent, Normal, build
from symlab.networks.initialise import sample_parameters
from symlab.papers.neuron_identifiability import coherence
from symlab.papers.neuron_identifiability.settings import CoherenceStudents
from symlab.seeds import torch_generator
from symlab.training import resume
from symlab.training.objective import Replica
from symlab.training.replicas import train_block

KEY = ("study", "sparse_random_frame_t3")


def settings(**changes):
    few = {"n_train": 40, "n_test": 64, "width": 16, "epochs": 3, "batch_size": 16, "seeds": 4, "mask_seeds": 2}
    return CoherenceStudents(**{"embedding": ["random_frame"], "t": [3], **few, **changes})


def dataset(given):
    source = Coherence(source="coherence", embedding="random_frame", t=3, n_train=given.n_train, n_test=given.n_test)
    return load(source, None)


def plain_student(given, data, mask_seed, seed):
    """W and b of one student by torch.optim and autograd, on batches in the engine's order."""
    student = build(CoherenceStudent(name="coherence_student", width=given.width), given.d, 1)
    generator = torch_generator(*KEY, "init", mask_seed, seed)
    start = sample_parameters(student, Normal(name="normal", std=given.std), generator)
    W, b = (start[name].requires_grad_() for name in (coherence.WEIGHT, coherence.BIAS))
    masks = torch_generator(KEY[0], "mask", mask_seed, "fixed", coherence.WEIGHT)
    D = (torch.rand(given.width, given.d, generator=masks) < given.density).float()
    groups = [{"params": [W], "weight_decay": given.weight_decay}, {"params": [b], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=given.lr)
    x, y = (torch.from_numpy(array) for array in data.split("train"))
    for epoch in range(1, given.epochs + 1):
        order = torch.randperm(len(x), generator=torch_generator(*KEY, "order", mask_seed, seed, epoch))
        for rows in order.split(given.batch_size):
            optimizer.zero_grad()
            outputs = torch.relu(x[rows] @ (D * W).T + b).sum(dim=1)
            (outputs - y[rows]).square().mean().backward()
            optimizer.step()
    return (D * W).detach(), b.detach()


def test_students_and_barriers_are_those_of_plain_training(experiment):
    given = settings()
    data = dataset(given)
    table = experiment("coherence", given)["coherence_barriers.csv"]
    assert list(table.columns) == ["mask_seed", "pair", "embedding", "t", "barrier_mid"]
    x, y = (torch.from_numpy(array) for array in data.split("test"))
    rows = iter(table.itertuples())
    for mask_seed in (0, 1):
        for pair in (0, 1):
            A, B = (plain_student(given, data, mask_seed, seed) for seed in (2 * pair, 2 * pair + 1))
            middle = [(a + b) / 2 for a, b in zip(A, B, strict=True)]
            at_A, at_B, at_middle = (
                (torch.relu(x @ W.T + b).sum(dim=1) - y).square().mean().item() for W, b in (A, B, middle)
            )
            row = next(rows)
            assert (row.mask_seed, row.pair, row.embedding, row.t) == (mask_seed, pair, "random_frame", 3)
            assert row.barrier_mid == pytest.approx(at_middle - (at_A + at_B) / 2, rel=1e-3, abs=1e-5)


def test_a_student_has_the_same_bits_in_any_company():
    given = settings(width=32)
    run = coherence.student_run(given, dataset(given), KEY)
    whole = train_block(run, [Replica(0, seed) for seed in range(13)])
    for company in ([3], [3, 8], [9, 3, 1]):
        block = train_block(run, [Replica(0, seed) for seed in company])
        for name, tensor in block.snapshots[3].items():
            assert torch.equal(tensor[company.index(3)], whole.snapshots[3][name][3])


def test_a_stopped_run_goes_on_within_the_point_with_the_same_rows(tmp_path, monkeypatch, experiment):
    given = settings(t=[1, 3])
    whole = experiment("coherence", given)["coherence_barriers.csv"]
    steps = []
    after_step = resume.Checkpoints.after_step

    def stopping(self, *arguments):
        steps.append(self.path)
        if len(steps) == 14:
            self._stop(15, None)
        after_step(self, *arguments)

    monkeypatch.setattr(resume.Checkpoints, "after_step", stopping)
    job = Job("study", folder=tmp_path)
    with pytest.raises(Interrupted):
        experiment("coherence", given, job)
    assert steps[0] != steps[-1]
    table = experiment("coherence", given, job)["coherence_barriers.csv"]
    # 9 steps a point; the first one is not made again, and nothing of the second.
    assert len(steps) == 18
    assert table.equals(whole)
    more = experiment("coherence", settings(t=[1, 2, 3]), job)["coherence_barriers.csv"]
    assert len(steps) == 27 and np.array_equal(
        more[more["t"] == 3]["barrier_mid"], table[table["t"] == 3]["barrier_mid"]
    )


@pytest.mark.parametrize("changes", [{"t": [11]}, {"seeds": 3}, {"t": [1, 1]}])
def test_what_cannot_be_is_refused(changes):
    with pytest.raises(ValueError):
        settings(**changes)
