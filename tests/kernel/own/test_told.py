"""What is printed or written are the numbers of the tables, each where its name is."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import torch

from symlab import SGD, align, collapse, diagnose, merge, mirrors
from symlab.cli import main
from symlab.cli.texts import results_of
from symlab.own.collapse import BOUNDED, Collapse
from symlab.own.diagnose import Diagnosis
from symlab.own.mirrors import Mirrors

from .nets import Net, X, Y, drawn


def cells(text):
    return [line.split() for line in text.splitlines()]


def shown(row, *names, digits=4):
    return " ± ".join(f"{round(row[name], digits) + 0.0:.{digits}f}" for name in names if pd.notna(row[name])).split()


def file(path):
    return SimpleNamespace(path=Path(path))


def test_an_alignment_prints_its_scores_barriers_and_correlations():
    aligned = align(drawn(Net, 2), drawn(Net, 0), drawn(Net, 1), (X, Y))
    barrier = aligned.barrier(3).set_index("aligned").sort_index()
    for repair in (False, True):
        told = aligned.summary(barrier.reset_index(), repair)
        assert ("with REPAIR" in told) == repair
    lines = cells(told)
    for _, row in aligned.scores.iterrows():
        numbers = [*shown(row, "loss", "loss_error"), *shown(row, "accuracy", "accuracy_error")]
        assert [*row["network"].split(), *numbers] in lines
    assert ["loss", "barrier", *(f"{each:.4f}" for each in barrier["barrier_max"])] in lines
    drops = [word for _, row in barrier.iterrows() for word in (*shown(row, "drop_max_pp", digits=2), "pp")]
    assert ["accuracy", "drop", *drops] in lines
    found = aligned.matching.set_index("permutation")
    numbers = [
        word for kind in ("match", "identity", "random") for word in shown(found.loc[kind], "objective", digits=3)
    ]
    assert ["hidden", "12", *numbers] in lines and len(set(numbers)) == 3


def test_every_function_says_what_was_done_to_weights_and_how_targets_are_compared():
    module, y = drawn(Net, 2), (Y[:, None] == torch.arange(4)).float()
    A, B = ({f"model.{name}": tensor for name, tensor in drawn(Net, seed).state_dict().items()} for seed in (0, 1))
    found = {
        "align": align(module, A, B, (X, y)),
        "merge": merge(module, [A, B], (X, y)),
        "diagnose": diagnose(module, A, B, (X, y)),
        "mirrors": mirrors(module, A, (X, y), training=SGD(0.1, batch=20), pairs=1, steps=1),
        "collapse": collapse(module, (X, Y), weights=A),
    }
    for name, each in found.items():
        assert "'model.'" in str(each), name
        assert name == "collapse" or "by squared error" in str(each), name


def test_a_merge_that_has_not_settled_says_so_and_in_how_many_sweeps():
    merged = merge(drawn(Net, 2), [drawn(Net, 0), drawn(Net, 1)], (X, Y))
    told = [str(replace(merged, universe=replace(merged.universe, sweeps=7, settled=each))) for each in (True, False)]
    assert all(
        "2 networks merged (Net): 1 group of neurons, matched by activations in 7 sweeps" in each for each in told
    )
    assert ["still moved in the last sweep" in each for each in told] == [False, True]


def test_mirrors_tell_the_closest_pair_and_how_many_merge_and_vanish():
    pairs = pd.DataFrame({"group": "g", "a": [0, 1, 2], "b": [3, 4, 5], "distance": [0.3, 0.125, 0.2], "error": 0.1})
    pairs = pairs.assign(exponent=[-1.0, 1.0, -1.0], merges=[True, False, True], steps=[10.0, 1234.0, 20.0])
    zeros = pd.DataFrame({"group": "g", "turns": ["u", "u", "w"], "exponent": 1.0, "error": 0.1})
    found = Mirrors(pairs, zeros.assign(vanishes=[False, True, False]), SGD(0.1), "Net")
    assert str(found).splitlines()[1:] == [
        "g: 2 of 3 closest pairs are drawn together; the closest, 1 and 4, is 0.125 apart, which doubles in "
        "1,234 steps.",
        "g: 1 of 2 smallest neurons is drawn to 0, in u.",
        "g: 0 of 1 smallest neuron is drawn to 0, in w.",
    ]
    turned = replace(found, pairs=pairs.assign(merges=~pairs["merges"]))
    assert "1 of 3 closest" in str(turned) and "which halves in 1,234 steps" in str(turned)


def test_a_diagnosis_tells_means_of_correlations_and_medians_of_costs():
    neurons = pd.DataFrame({"group": "g", "itself": [True, True, False], "correlation": [0.9, 0.8, 0.4]})
    neurons = neurons.assign(own_correlation=[0.9, 0.8, 0.1], cheapest=[2.0, 4.0, 0.5])
    models = SimpleNamespace(files=[file("a/one.pt"), file("b/two.pt")], name="Net")
    found = Diagnosis(neurons, SimpleNamespace(models=models, remarks=("said",)))
    assert str(found).splitlines() == [
        "Neurons of one.pt whose place in two.pt is their own (Net):",
        "g: 1 of 3 neurons are not identifiable; correlation with the partner 0.70, with the neuron of the same number "
        "0.60; median cost of the cheapest swap: 0.5 against 3 (those that moved against those that did not).",
        "said",
    ]


def test_collapse_tells_each_metric_by_its_name():
    metrics = {"loss": 0.11, "accuracy": 0.225, "NC1": 3.3, "NC1_row": 1.2, "NC1_null": 2.1, "NC2A": 0.44, "NC2B": 0.55}
    metrics |= {"NC3": 0.66, "NC3_centred": 0.88}
    parts = pd.DataFrame([{"part": "train", "samples": 1200, "classes": 5, "imbalance": 2.5, **metrics}])
    parts = pd.concat([parts, parts.assign(part="test", NC3=0.77)])
    layers = pd.DataFrame([{"part": "train", "layer": "0", "NC1": 8.8}])
    bounds = {name: 10.0 + at for at, name in enumerate(BOUNDED)}
    told = str(Collapse("Net", "head", layers, parts, bounds, 0.07, ("said",)))
    for words in (
        "Net: features are what 'head' reads.\ntrain: 1,200 samples of 5 classes, the largest of which has 2.5 times",
        "cross-entropy 0.11, accuracy 22.5%. NC1 is 3.3 (1.2 of it in the row space of the readout, 2.1 beyond)",
        "the readout's NC2 0.44 from a simplex and 0.55 from orthogonal rows; NC3 0.66.\ntest: ",
        "7.0% over the least",
        *(
            f"{name} up to {10 + at} ({parts[column].iloc[0]:.3g} here)"
            for at, (name, column) in enumerate(BOUNDED.items())
        ),
        "train     0  8.8",
    ):
        assert words in told
    assert "NC3 0.77." in told and told.endswith("\nsaid")


def test_the_command_writes_the_mirrors_that_the_function_gives(tmp_path, monkeypatch, capsys):
    (tmp_path / "net.py").write_text(
        "import torch\nfrom torch import nn\ndef build():\n    torch.manual_seed(0)\n"
        "    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))\n"
    )
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    np.savez("data.npz", x=x, y=np.sin(x[:, :1]))
    rule = "--lr 0.1 --weight-decay 0.02 --momentum 0.5 --batch 32 --pairs 3 --steps 20 --out out"
    main(["mirrors", "net:build", "--data", "data.npz", *rule.split()])
    assert "weight_decay=0.02, momentum=0.5, batch=32):\n0: " in (out := capsys.readouterr().out) and "3 closest" in out
    found = mirrors("net:build", None, "data.npz", training=SGD(0.1, 0.02, 0.5, 32), pairs=3, steps=20)
    for name in ("pairs", "zeros"):
        written = pd.read_csv(f"out/{name}.csv", dtype={"group": str})
        pd.testing.assert_frame_equal(written, getattr(found, name), check_dtype=False)
    assert len(found.pairs) == 3 and (found.pairs["a"] < found.pairs["b"]).all()
    assert len(found.zeros) == 3 and found.zeros["size"].is_monotonic_increasing
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(results_of("mirrors"))
