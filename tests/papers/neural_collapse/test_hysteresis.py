"""Raising the penalty of living branches: every penalty goes on from the same networks."""

import numpy as np
import pytest
from pydantic import ValidationError

from symlab.data import Digits, load
from symlab.measures.job import Job
from symlab.papers.neural_collapse.hysteresis import raise_penalty
from symlab.papers.neural_collapse.settings import Hysteresis


def test_all_penalties_go_on_from_the_networks_of_the_least():
    settings = Hysteresis(per_class=3, hidden_penalty=[0.001, 0.01, 0.1], L=[2, 3], lr=1e-9, steps=2, width=8)
    job = Job("s", datasets={"digits": load(Digits(source="digits"), None)})
    table = raise_penalty(settings, job)["critical_hysteresis.csv"]
    assert table.groupby("L").size().to_dict() == {2: 6, 3: 6}
    # Steps this small leave weights as they were drawn: torch's, of variance 1 / (3 d).
    weights = table.pivot(index=["L", "seed"], columns="hidden_penalty", values="weights")
    np.testing.assert_allclose(weights.std(axis=1) / weights.mean(axis=1), 0, atol=1e-5)
    np.testing.assert_allclose(weights.to_numpy().mean(), 2 * 8 / 3, rtol=0.2)


def test_penalties_rise():
    with pytest.raises(ValidationError, match="rise"):
        Hysteresis(per_class=3, hidden_penalty=[0.1, 0.01])
