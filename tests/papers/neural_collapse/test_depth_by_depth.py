"""The experiment end to end: depths that begin with the one before, what is kept on the way, and its tables."""

import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from symlab.data import Digits, load
from symlab.errors import Interrupted, UserError
from symlab.measures.job import Job
from symlab.papers.neural_collapse import run_tables
from symlab.papers.neural_collapse.networks import build_network
from symlab.papers.neural_collapse.samples import samples_of
from symlab.papers.neural_collapse.settings import Runs
from symlab.papers.neural_collapse.trained_runs import Descent, minimise_depth, objectives
from symlab.study.points import Result
from symlab.training.resume import Checkpoints


@pytest.fixture(scope="module")
def tables(experiment):
    digits = load(Digits(source="digits"), None)
    shared = {"steps": 10, "seeds": 2, "per_class": 6, "effort": 24, "width": 16}
    grids = [
        Runs(network="rn1", L=[2, 4], **shared),
        Runs(network="rn1", L=[4], grown=False, reference=0, **shared),
        Runs(network="rn2", L=[2], loss="squared_error", **shared),
        Runs(network="t11", L=[1], patch=4, **shared),
        Runs(network="rn1", L=[2], grown=False, optimizer="adamw", **{**shared, "steps": 3}),
    ]
    return experiment("neural_collapse.runs", grids, Job("s", datasets={"digits": digits}))


def test_the_tables_hold_every_network_and_a_reference_of_each_depth(tables):
    runs, layers = tables["collapse_runs.csv"], tables["collapse_layers.csv"]
    grown = runs[runs["grown"]]
    every = [("rn1", 2), ("rn1", 4), ("rn2", 2), ("t11", 1)]
    assert grown.groupby(["network", "L"]).size().to_dict() == dict.fromkeys(every, 3)
    np.testing.assert_allclose(runs["total"], runs["fit"] + runs["hidden"] + runs["last"], rtol=1e-9)
    by = ["network", "grown", "optimizer", "L"]
    best = runs[~runs["reference"]].groupby(by)["total"].min()
    references = runs[runs["reference"]].set_index(by)["total"]
    assert (references <= best[references.index]).all()
    # The least known is that of everything that was tried, and falls with depth; none is below it.
    optima = tables["collapse_optima.csv"].set_index(["network", "L"])["least"]
    assert optima["rn1", 4] <= optima["rn1", 2]
    assert (runs.loc[runs["optimizer"] == "lbfgs", "gap"] >= -1e-12).all()
    assert (grown["total"] > grown["free"]).all() and (grown["without"] > grown["free"]).all()
    # The last layer of the second table is what the first one measures; a transformer's embedding is a layer more.
    last = layers[layers["layer"] == layers.groupby(by)["layer"].transform("max")]
    merged = runs.merge(last, on=[*by, "seed"], suffixes=("", "_layer"))
    assert len(merged) == len(runs)
    np.testing.assert_allclose(merged["NC1"], merged["NC1_layer"], rtol=1e-12)
    assert set(tables["collapse_samples.csv"]["N"]) == {60}
    # Grown networks have spent what the depth before did, too.
    work = grown[(grown["network"] == "rn1") & ~grown["reference"]].groupby("L")["work"].mean()
    assert work[4] > work[2] + 24


def test_networks_begin_on_plain_and_on_whitened_inputs_and_deeper_ones_with_young_and_with_minimised_ones(monkeypatch):
    run, begun, spent = Descent.run, [], []

    def watched(self, *arguments, **more):
        begun.append(self)
        state, found = run(self, *arguments, **more)
        spent.append(found["evaluations"])
        return state, found

    monkeypatch.setattr(Descent, "run", watched)
    grid = Runs(network="rn1", L=[2, 4], per_class=3, steps=2, seeds=2, effort=16, reference=1, width=8)
    digits = load(Digits(source="digits"), None)
    job = Job("s", datasets={"digits": digits})
    samples = samples_of(grid, digits)
    first = minimise_depth(grid, job, "digits", 2, 0)
    plain, whitened, quarter, rest, reference, *_ = begun
    # All gradients are told, times the depth: two steps of Adam and some of L-BFGS from each start, and the rest.
    gradients = 2 * 2 + spent[0] + spent[1] + spent[2].reshape(2, 2).sum(axis=0) + spent[3]
    assert first["work"][:2].tolist() == (2 * gradients).tolist()
    # Float32 up to 19 of 20 parts of the effort: all of the first quarter, and 14 of the 15 that are left.
    assert (quarter.iterations, rest.iterations) == (4, 12)
    assert (quarter.single, rest.single) == (1, pytest.approx(14 / 15))
    assert torch.equal(plain.data.x_train, samples.plain) and plain.start is None and plain.steps == 2
    assert torch.equal(quarter.data.x_train, samples.x) and quarter.steps == 0
    assert whitened.start is None and whitened.steps == 2 and torch.equal(whitened.data.x_train, samples.x)
    by_hand = [objectives(each, run(each, job)[0]) for each in (plain, whitened)]
    assert objectives(quarter, quarter.start) == pytest.approx(np.concatenate(by_hand), rel=1e-5)
    assert reference.seeds == 2  # the best network, and the best of those that began whitened
    # Deeper ones may begin with the young ones that went on: whitened ones where these are lower by a twentieth.
    young = {n.removeprefix("young/"): torch.from_numpy(a) for n, a in first.items() if n.startswith("young/")}
    of_plain, of_whitened = run(quarter, job)[1]["objective"].reshape(2, 2)
    better = np.where(1.05 * of_whitened < of_plain, of_whitened, of_plain)
    assert (better == of_whitened).any() and objectives(quarter, young) == pytest.approx(better, rel=1e-9)
    begun.clear()
    minimise_depth(grid, job, "digits", 4, 2, first)
    lineages, _, reference, _ = begun
    assert (lineages.seeds, reference.seeds) == (4, 3)
    # Young ones first, then those of the depth before; of the reference the best, zeros behind the one before, growth.
    for names, places in (("young", slice(0, 2)), ("state", slice(2, 4))):
        W = torch.from_numpy(first[f"{names}/embedding.weight"])[:2]
        torch.testing.assert_close(lineages.start["embedding.weight"][places], W)
    for place in (1, 2):
        before = torch.from_numpy(first["state/embedding.weight"])[2]
        torch.testing.assert_close(reference.start["embedding.weight"][place], before)
    assert not reference.start["blocks.2.0.weight"][1].any() and reference.start["blocks.2.0.weight"][2].any()


@pytest.mark.parametrize(("grown", "iterations"), [(True, [16, 4]), (False, [16, 16])])
def test_depths_from_scratch_have_as_many_iterations_each_and_grown_ones_as_much_work(monkeypatch, grown, iterations):
    run, begun = Descent.run, []
    monkeypatch.setattr(Descent, "run", lambda self, *a, **more: begun.append(self) or run(self, *a, **more))
    grid = Runs(network="rn1", L=[2, 4], per_class=3, steps=2, seeds=1, effort=16, reference=0, width=8, grown=grown)
    job = Job("s", datasets={"digits": load(Digits(source="digits"), None)})
    before, found = None, []
    for point in grid.points(["digits"]):
        begun.clear()
        before = minimise_depth(grid, job, before=before if grown else None, **point)
        found.append(sum(each.iterations for each in begun if each.start is not None and each.steps == 0))
    assert found == iterations


def test_the_reference_goes_on_from_no_checkpoint_of_the_lineages(tmp_path):
    grid = Runs(network="rn1", L=[2], per_class=3, steps=2, seeds=2, effort=16, reference=1, width=8)
    job = Job("s", datasets={"digits": load(Digits(source="digits"), None)})
    kept = replace(job, checkpoints=Checkpoints(tmp_path / "checkpoint", {"key": 0}, 0.0, lambda line: None))
    once, again = (minimise_depth(grid, each, "digits", 2, 0) for each in (job, kept))
    assert (tmp_path / "checkpoint").exists()
    for name, values in once.items():
        np.testing.assert_array_equal(again[name], values, err_msg=name)


@pytest.mark.parametrize(("killed", "repeated"), [(5, 0), (40, 24)])
def test_a_killed_point_goes_on_within_its_first_quarter_and_after_it(tmp_path, monkeypatch, killed, repeated):
    grid = Runs(network="rn1", L=[2], per_class=3, steps=1, seeds=2, effort=24, reference=0, width=8)
    job = Job("s", datasets={"digits": load(Digits(source="digits"), None)})

    def minimised():
        kept = Checkpoints(tmp_path / "point_unfinished.safetensors", {"key": 0}, 60.0, lambda line: None)
        return minimise_depth(grid, replace(job, checkpoints=kept), "digits", 2, 0)

    after_step, steps = Checkpoints.after_step, []

    def stop_once(self, progress, *arguments):
        steps.append(progress.polishes)
        if len(steps) == killed:
            self._stop(signal.SIGTERM, None)
        after_step(self, progress, *arguments)

    whole = minimise_depth(grid, job, "digits", 2, 0)
    monkeypatch.setattr(Checkpoints, "after_step", stop_once)
    with pytest.raises(Interrupted):
        minimised()
    for name, values in minimised().items():
        np.testing.assert_array_equal(values, whole[name], err_msg=name)
    # Four take 6 iterations to the first quarter, which is not kept if it ends before a checkpoint is due; two 18 more.
    assert len(steps) == 60 + repeated


def test_samples_are_cut_once_for_all_depths_of_a_grid(experiment, monkeypatch):
    job = Job("s", datasets={"digits": load(Digits(source="digits"), None)})
    grid = Runs(network="rn1", L=[2, 3, 4], steps=2, seeds=1, per_class=3, effort=4, width=8, reference=0)
    plain = Runs(network="rn1", L=[2], steps=2, seeds=1, per_class=3, width=8, grown=False, optimizer="sgd")
    found = [minimise_depth(grid, job, "digits", 2, 0)]
    found += [minimise_depth(grid, job, "digits", L, L - 1, found[-1]) for L in (3, 4)]
    found += [minimise_depth(plain, job, "digits", 2, 0)]
    cut = []
    monkeypatch.setattr(run_tables, "samples_of", lambda *a: cut.append(a[0]) or samples_of(*a))
    points = [(grid, 2), (grid, 3), (grid, 4), (plain, 2)]
    results = [
        Result(0, each, {"dataset": "digits", "L": L, "after": 0}, of)
        for (each, L), of in zip(points, found, strict=True)
    ]
    rows = run_tables.tabulate_runs(results, [grid, plain], job)["collapse_runs.csv"]
    assert cut == [grid, plain] and set(rows["L"]) == {2, 3, 4}
    np.testing.assert_allclose(rows["total"], rows["fit"] + rows["hidden"] + rows["last"], rtol=1e-6)


def test_a_text_network_has_a_row_for_every_word():
    reviews = load(Digits(source="digits"), None)
    object.__setattr__(reviews, "image", None)
    grid = Runs(network="t11", per_class=3)
    module = build_network(grid, samples_of(grid, reviews), 2)
    assert len(module.embedding.weight) == int(reviews.x_train.max()) + 1


def test_a_run_takes_the_data_set_that_it_names(experiment):
    digits = load(Digits(source="digits"), None)
    other = replace(digits, x_train=digits.x_train[::-1].copy(), y_train=digits.y_train[::-1].copy())
    job = Job("s", datasets={"a": digits, "b": other})
    run = {"network": "rn1", "L": [2], "steps": 2, "seeds": 1, "per_class": 3, "effort": 4, "width": 8}
    grids = [Runs(**run, dataset="b"), Runs(**run, pre_norm=True)]
    tables = experiment("neural_collapse.runs", grids, job)
    runs = tables["collapse_runs.csv"]
    assert set(tables["collapse_samples.csv"]["dataset"]) == {"a", "b"}
    np.testing.assert_allclose(runs["total"], runs["fit"] + runs["hidden"] + runs["last"], rtol=1e-6)
    assert runs.groupby("pre_norm")["dataset"].unique().map(list).to_dict() == {False: ["b"], True: ["a", "b"]}
    with pytest.raises(UserError, match="names the data set 'c'"):
        experiment("neural_collapse.runs", [Runs(**run, dataset="c")], job)
