"""Raising the penalty of living branches: every penalty goes on from the same networks."""

import pandas as pd
import pytest
from pydantic import ValidationError

from symlab.data import Digits, load
from symlab.measures.job import Job
from symlab.papers.neural_collapse.settings import Hysteresis


def test_all_penalties_go_on_from_the_networks_of_the_least(experiment):
    def table(*hidden_penalty):
        settings = Hysteresis(per_class=3, hidden_penalty=list(hidden_penalty), L=[2, 3], lr=0.01, steps=20, width=8)
        job = Job("s", datasets={"digits": load(Digits(source="digits"), None)})
        return experiment("neural_collapse.hysteresis", settings, job)["critical_hysteresis.csv"].set_index(
            ["L", "seed", "hidden_penalty"]
        )

    three, two = table(0.001, 0.01, 0.1), table(0.001, 0.1)
    assert three.groupby("L").size().to_dict() == {2: 6, 3: 6}
    # What is trained at a penalty in between leaves no trace in what is trained at the last.
    pd.testing.assert_frame_equal(three.drop(0.01, level="hidden_penalty"), two)


def test_penalties_rise():
    with pytest.raises(ValidationError, match="rise"):
        Hysteresis(per_class=3, hidden_penalty=[0.1, 0.01])
