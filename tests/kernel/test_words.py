"""Sentences count things."""

import pytest

from symlab.words import counted


@pytest.mark.parametrize(
    ("n", "things", "told"),
    [
        (1, "groups", "1 group"),
        (1.3, "steps", "1 step"),
        (0, "closest pairs", "0 closest pairs"),
        (1, "networks of one draw of masks", "1 network of one draw of masks"),
        (1, "draws of F", "1 draw of F"),
        (2048, "samples", "2,048 samples"),
        (1, "case", "1 case"),
    ],
)
def test_one_thing_is_told_in_the_singular(n, things, told):
    assert counted(n, things) == told
