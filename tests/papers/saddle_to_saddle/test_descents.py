"""Training from near the origin against plain loops, and what is read off its tables against planted courses."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from symlab.measures.job import Job
from symlab.papers.saddle_to_saddle.escapes import (
    escape_time,
    first_snapshot,
    paper_networks,
    plateaus,
    second_plateaus,
    slopes,
    standing_out,
)
from symlab.papers.saddle_to_saddle.first_escape import OriginProbe, descent_run, measured_steps
from symlab.papers.saddle_to_saddle.localized_loss import escape_speed, layer_ratios, speed_budget
from symlab.papers.saddle_to_saddle.relu_chain import MOVED, STACK
from symlab.papers.saddle_to_saddle.settings import Descents
from symlab.training.objective import Replica
from symlab.training.replicas import train_block

GRID = Descents(L=[4], width=7, std=[0.3], seeds=3, batch_size=8, steps=20, lr=0.5, measured=40, first_measured=4)


def samples(n=40, d=5, classes=3):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, d, generator=generator), torch.randint(classes, (n,), generator=generator)


def run_of(grid=GRID, L=4, activation="relu", n=40):
    x, y = samples(n)
    return x, y, descent_run(grid, x, y, 3, ("study", f"data_L{L}"), L, grid.std[0], activation)


@pytest.mark.parametrize("activation", ["relu", "identity"])
@pytest.mark.parametrize("L", [3, 5])
def test_training_is_the_plain_loop(L, activation):
    x, y, run = run_of(L=L, activation=activation)
    block = train_block(replace(run, snapshots=[0, 1, 2]), [Replica(0, seed) for seed in range(3)])
    names = [name for name in block.snapshots[0] if not name.startswith(MOVED)]
    objective = run.objective.prepared(run.recipe, torch.device("cpu"), run.key)
    for r in range(3):
        W = [block.snapshots[0][name][r].clone() for name in names]
        for epoch in (1, 2):
            for (rows,) in objective.batches([Replica(0, r)], 8, run.key, epoch):
                leaves = [W_l.clone().requires_grad_() for W_l in W]
                h = x[rows[0]]
                for leaf in leaves[:-1]:
                    h = h @ leaf.T if activation == "identity" else torch.relu(h @ leaf.T)
                torch.nn.functional.cross_entropy(h @ leaves[-1].T, y[rows[0]]).backward()
                norm = torch.cat([W_l.flatten() for W_l in W]).norm()
                W = [W_l - 0.5 / norm ** (L - 2) * leaf.grad for W_l, leaf in zip(W, leaves, strict=True)]
            for name, expected in zip(names, W, strict=True):
                torch.testing.assert_close(block.snapshots[epoch][name][r], expected, atol=2e-6, rtol=2e-5)


def test_a_seed_gives_the_same_bits_alone_and_among_others():
    _, _, run = run_of()
    run = replace(run, snapshots=[4])
    together = train_block(run, [Replica(0, seed) for seed in range(STACK + 2)]).snapshots[4]
    for seed in (0, 3, STACK + 1):
        alone = train_block(run, [Replica(0, seed)]).snapshots[4]
        assert all(torch.equal(alone[name][0], together[name][seed]) for name in alone)


def test_steps_that_float32_would_round_away_are_kept():
    """At 1e-9 of a weight an update changes no float32; apart from the weights it adds up as in float64."""
    x, y = samples()
    grid = GRID.model_copy(update={"std": [0.3], "lr": 1e-8, "steps": 500})
    run = descent_run(grid, x, y, 3, ("study", "tiny"), 4, 0.3, "relu")
    epochs = run.recipe.epochs
    block = train_block(replace(run, snapshots=[0, epochs]), [Replica(0, 0)])
    first = {name: tensor[0].double() for name, tensor in block.snapshots[0].items()}
    objective = run.objective.prepared(run.recipe, torch.device("cpu"), run.key)
    W = [first[name] for name in first if not name.startswith(MOVED)]
    start = [W_l.clone() for W_l in W]
    for epoch in range(1, epochs + 1):
        for (rows,) in objective.batches([Replica(0, 0)], 8, run.key, epoch):
            leaves = [W_l.clone().requires_grad_() for W_l in W]
            h = x[rows[0]].double()
            for leaf in leaves[:-1]:
                h = torch.relu(h @ leaf.T)
            torch.nn.functional.cross_entropy(h @ leaves[-1].T, y[rows[0]]).backward()
            norm = torch.cat([W_l.flatten() for W_l in W]).norm()
            W = [W_l - 1e-8 / norm**2 * leaf.grad for W_l, leaf in zip(W, leaves, strict=True)]
    for place, (name, W_l, W_0) in enumerate(zip(list(first)[: len(W)], W, start, strict=True)):
        change = W_l - W_0
        found = block.snapshots[epochs][f"{MOVED}{name}"][0].double()
        assert float((found - change).norm() / change.norm()) < 1e-4, place
        in_float32 = (W_0.float() + 0.002 * change.float() == W_0.float()).float().mean()
        assert in_float32 > 0.5


def test_the_probe_measures_what_autograd_and_the_formulas_say():
    x, y = samples()
    generator = torch.Generator().manual_seed(2)
    W = [torch.randn(2, out, into, generator=generator) for into, out in ((5, 7), (7, 7), (7, 3))]
    start = [0.1 * torch.randn(W_l.shape, generator=generator) for W_l in W]
    state = {f"linears.{i}.weight": W_l for i, W_l in enumerate(W)}
    state |= {f"{MOVED}linears.{i}.weight": W_l - W_0 for i, (W_l, W_0) in enumerate(zip(W, start, strict=True))}
    found = OriginProbe(x, y, 3, linear=False)(state)
    for r in range(2):
        leaves = [W_l[r].double().requires_grad_() for W_l in W]
        h = x.double()
        for leaf in leaves[:-1]:
            h = torch.relu(h @ leaf.T)
        loss = torch.nn.functional.cross_entropy(h @ leaves[-1].T, y)
        loss.backward()
        assert float(found["loss"][r]) == pytest.approx(loss.item())
        norm = torch.cat([leaf.grad.flatten() for leaf in leaves]).norm()
        assert float(found["gradient"][r]) == pytest.approx(norm.item())
        G = (1 / 3 - torch.nn.functional.one_hot(y, 3).double().T) / len(x)
        one = [W_l[r].double() for W_l in W]
        assert float(found["speed"][r]) == pytest.approx(float(escape_speed(one, x.double().T, G)))
        assert not abs(float(found["budget_missed"][r])) > 1e-10
        ratios = layer_ratios(one, x.double().T)
        assert float(found["layer0/B"][r]) == pytest.approx(float(ratios.B[0]))
        assert float(found["layer2/D"][r]) == pytest.approx(float(ratios.D[1]))
        budget = speed_budget(one, x.double().T, G)
        assert float(found["layer1/lost_cut"][r]) == pytest.approx(float(budget.cut[0]))
        assert float(found["layer0/lost_rank"][r]) == pytest.approx(float(budget.rank[0]))
        assert float(found["layer3/lost_alignment"][r]) == pytest.approx(float(budget.alignment[2]))
        s = np.linalg.svd((W[1][r] - start[1][r]).numpy(), compute_uv=False)
        assert float(found["layer2/A_change"][r]) == pytest.approx((s[1:] ** 2).sum() / (s**2).sum(), rel=1e-5)


def test_a_network_whose_weights_have_gone_to_infinity_is_missing_and_others_are_not():
    x, y = samples()
    generator = torch.Generator().manual_seed(2)
    W = [torch.randn(2, out, into, generator=generator) for into, out in ((5, 7), (7, 3))]
    state = {f"linears.{i}.weight": W_l for i, W_l in enumerate(W)}
    state |= {f"{MOVED}linears.{i}.weight": 0.1 * W_l for i, W_l in enumerate(W)}
    whole = OriginProbe(x, y, 3, linear=False)(state)
    state["linears.1.weight"] = W[1].index_fill(0, torch.tensor([1]), float("nan"))
    found = OriginProbe(x, y, 3, linear=False)(state)
    assert all(values[1].isnan() and torch.equal(values[0], whole[name][0]) for name, values in found.items())


def test_linear_networks_have_singular_values_and_nothing_that_is_relu_s():
    x, y, run = run_of(activation="identity")
    block = train_block(replace(run, snapshots=[1]), [Replica(0, 0)])
    found = OriginProbe(x, y, 3, linear=True)(block.snapshots[1])
    assert not found["layer2/s1"].isnan().any() and not found["layer2/A"].isnan().any()
    assert all(found[name].isnan().all() for name in ("speed", "residual", "layer2/B", "layer2/D", "layer2/lost_cut"))


def test_tables_have_a_row_for_each_moment_network_and_layer(experiment):
    from symlab.data import Digits
    from symlab.data.digits import load

    grid = GRID.model_copy(update={"samples": 100, "steps": 26, "pool": 2})
    tables = experiment(
        "saddle_escape.descents",
        [grid],
        Job("study", datasets={"digits": load(Digits(source="digits"), None)}),
    )
    course, layers = tables["escape_course.csv"], tables["escape_layers.csv"]
    moments = len(measured_steps(grid))
    assert len(course) == moments * 3 and len(layers) == moments * 3 * 5
    assert (course["s"] == 0.5 * course["step"]).all()
    np.testing.assert_allclose(course.loc[course["step"] == 0, "loss"], np.log(10), rtol=0.2)
    assert layers[layers["layer"] == 0][["s1", "A_change"]].isna().all().all()
    assert layers.loc[layers["layer"] == 4, ["B", "D"]].isna().all().all()


def planted(falls, last=6.0, per_decade=40):
    """A loss of 2.3 that falls by each (place in log10 s, depth) within a twentieth of a decade."""
    place = np.linspace(0, last, round(last * per_decade) + 1)
    loss = 2.3 - sum(depth / (1 + np.exp(-(place - at) / 0.02)) for at, depth in falls)
    table = pd.DataFrame({"step": 10.0**place, "s": 10.0**place, "loss": loss})
    return pd.concat([pd.DataFrame({"step": [0.0], "s": [0.0], "loss": [2.3]}), table], ignore_index=True)


def test_escapes_snapshots_and_plateaus_are_where_they_were_planted():
    course = planted([(2.0, 0.5), (4.0, 0.8)])
    assert np.log10(escape_time(course)) == pytest.approx(2.0, abs=0.06)
    assert 2.0 < np.log10(first_snapshot(course)) < 2.3
    found = np.log10(plateaus(course))
    assert len(found) == 3
    np.testing.assert_allclose(found[:, 0], [0, 2.1, 4.1], atol=0.1)
    np.testing.assert_allclose(found[:, 1], [1.9, 3.9, 6.0], atol=0.1)
    never = planted([])
    assert np.isnan(escape_time(never)) and np.isnan(first_snapshot(never))
    steep = slopes(course)
    assert np.log10(steep.idxmin()) == pytest.approx(4.0, abs=0.05)


def test_second_plateaus_are_measured_to_their_end_or_to_the_run_s():
    course = planted([(2.0, 0.5), (4.0, 1.0)]).assign(seed=0)
    whole = second_plateaus(course).loc[0]
    assert whole["left"] and whole["width"] == pytest.approx(1.8, abs=0.1)
    short = second_plateaus(course[course["s"] < 1e3]).loc[0]
    assert not short["left"] and short["width"] == pytest.approx(0.9, abs=0.1)
    alone = second_plateaus(planted([(2.0, 2.0)]).assign(seed=0)).loc[0]
    assert alone["left"] and alone["width"] == 0
    waiting = second_plateaus(course[course["s"] < 50]).loc[0]
    assert not waiting["left"] and waiting["width"] == 0


def test_values_stand_out_over_the_noise_of_their_own_layer():
    names = [f"s{i}" for i in range(1, 11)]
    rows = []
    for step, tall in ((0, ()), (10, (2.0,)), (100, (3.0, 1.31))):
        for layer, edge in ((1, 1.0), (2, 0.5)):
            values = [*tall, *[0.9] * (10 - len(tall))]
            rows.append({"step": step, "layer": layer, **dict(zip(names, edge * np.array(values), strict=True))})
    table = pd.DataFrame(rows)
    table.loc[table["step"] == 0, "s1"] = [1.0, 0.5]
    k = standing_out(table)
    assert k.loc[0].tolist() == [0, 0] and k.loc[10].tolist() == [1, 1] and k.loc[100].tolist() == [2, 2]


def test_the_paper_s_networks_are_relu_ones_of_the_largest_scale():
    table = pd.DataFrame(
        [
            {"dataset": "a", "L": L, "activation": activation, "std": std}
            for L in (4, 6)
            for activation in ("relu", "identity")
            for std in (0.01, 0.001)
        ]
    )
    chosen = paper_networks(table, 6)
    assert chosen[["L", "activation", "std"]].to_numpy().tolist() == [[6, "relu", 0.01]]
    assert paper_networks(table, 5).empty
