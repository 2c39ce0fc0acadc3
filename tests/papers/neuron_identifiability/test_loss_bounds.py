import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn.functional import cross_entropy

from symlab.measures.job import Job
from symlab.papers.neuron_identifiability.tables import bound_losses

LAMBDAS = np.linspace(0, 1, 9)


def loss_bounds(curves):
    return bound_losses({"curves.csv": curves}, Job("study"))


def table(loss, chord, lambdas=LAMBDAS, **columns):
    return pd.DataFrame({"lambda": lambdas, "loss": loss, "accuracy": 0.5, "chord": chord, **columns})


def curve_of_logits(seed, size):
    """Losses and chords of logits that bend by ``size`` on the path between two random ends."""
    rng = np.random.default_rng(seed)
    y = torch.from_numpy(rng.integers(0, 4, 30))
    A, B, bend = (torch.from_numpy(scale * rng.standard_normal((30, 4))) for scale in (3.0, 3.0, size))
    losses, chords = [], []
    for lam in LAMBDAS:
        xi = lam * (1 - lam) * bend
        losses.append(float(cross_entropy((1 - lam) * A + lam * B + xi, y)))
        chords.append(float(xi.square().sum(dim=1).mean().sqrt()))
    return table(losses, chords, pair=seed)


@pytest.mark.parametrize("size", [0.0, 0.1, 3.0, 100.0])
def test_the_bound_holds_for_logits(size):
    curves = pd.concat([curve_of_logits(seed, size) for seed in range(10)])
    found = loss_bounds(curves)
    assert (found["excess_max"] <= 1e-12).all()


def test_one_sample_reaches_the_bound():
    # Far on the wrong side the loss is linear, with slope sqrt(2) along e_1 - e_0, in which these logits bend.
    bend = np.array([-1.0, 1.0])
    logits = np.array([[-40.0, 40.0] + 4 * lam * (1 - lam) * bend for lam in LAMBDAS])
    losses = [float(cross_entropy(torch.from_numpy(z)[None], torch.tensor([0]))) for z in logits]
    chords = np.linalg.norm(logits - [-40.0, 40.0], axis=1)
    row = loss_bounds(table(losses, chords, pair=0)).iloc[0]
    assert row["gap_mid"] == pytest.approx(2.0) == pytest.approx(row["bound_mid"])
    assert row["excess_max"] == pytest.approx(0, abs=1e-12)


def test_a_violation_and_a_curve_below_the_line_are_told_apart():
    gap = 4 * LAMBDAS * (1 - LAMBDAS)
    curves = pd.concat([table(gap + LAMBDAS, 0.1 * gap, pair=0), table(-gap, gap, pair=1)]).sample(
        frac=1, random_state=0
    )
    found = loss_bounds(curves).set_index("pair")
    bound = 0.1 * np.sqrt(2)
    assert found.loc[0].tolist() == [*map(pytest.approx, [1.0, bound, 1 - bound]), ""]
    # The middle has a gap and a bound of its own, also where no network is worse than the line.
    assert found.loc[1, ["gap_mid", "bound_mid"]].tolist() == [-1.0, pytest.approx(np.sqrt(2))]
    # The largest excess is at the points next to the ends.
    assert found.loc[1, "excess_max"] == pytest.approx(-(1 + np.sqrt(2)) * gap[1])


def test_the_excess_is_relative_to_a_bound_above_1_at_the_same_place():
    loss, chord = np.zeros(9), np.full(9, 100.0)
    loss[1], loss[4], chord[1] = 0.5, 1.0, 0.0
    row = loss_bounds(table(loss, chord, pair=0)).iloc[0]
    # At the largest gap the bound is 141; next to the start there is none, and the gap is all excess.
    assert row["excess_max"] == 0.5
    chord[1] = 1e-3
    loss[1] = np.sqrt(2) * 100
    row = loss_bounds(table(loss, np.where(chord > 1, 50.0, 50.0), pair=0)).iloc[0]
    assert row["excess_max"] == pytest.approx(1.0)


def test_the_squared_loss_has_no_bound():
    row = loss_bounds(table(LAMBDAS**2, LAMBDAS, pair=0).assign(accuracy=np.nan)).iloc[0]
    assert np.isnan(row["bound_mid"]) and np.isnan(row["excess_max"])
    assert row["assumption"] == "the squared loss is not Lipschitz"


def test_curves_are_grouped_by_the_given_columns():
    curves = pd.concat(
        table(LAMBDAS * 0, LAMBDAS * 0, pair=pair, aligned=aligned) for pair in (0, 1) for aligned in (True, False)
    )
    found = loss_bounds(curves)
    assert found.columns.tolist() == ["pair", "aligned", "gap_mid", "bound_mid", "excess_max", "assumption"]
    assert len(found) == 4 and not found["gap_mid"].any()
