"""What a stored transcript takes for a difference: the net that other tests hang in has to hold."""

import pytest

from .golden import differences

TOLD, TABLE = "$ symlab x\n", "== x.csv\n"


@pytest.mark.parametrize(
    ("here", "there", "differ"),
    [
        # Cells have commas between them: 0.781 is no part of 46,0.781.
        (TABLE + "48,46,3.9", TABLE + "48,46,0.781", True),
        (TABLE + "46,0.78101", TABLE + "46,0.781", False),
        (TABLE + "46,0.7820", TABLE + "46,0.781", True),
        # Whole numbers are counts up to 1000, and sums of five digits above.
        (TABLE + "999", TABLE + "998", True),
        (TABLE + "48461", TABLE + "48460", False),
        (TABLE + "48490", TABLE + "48460", True),
        # What is printed may have another last digit, in a count never; words are compared to the letter.
        (TOLD + "0.736 of 24", TOLD + "0.737 of 24", False),
        (TOLD + "0.735 of 24", TOLD + "0.737 of 24", True),
        (TOLD + "0.737 of 25", TOLD + "0.737 of 24", True),
        (TOLD + "1,234.5", TOLD + "1,334.5", True),
        (TOLD + "lost", TOLD + "losses", True),
        (TOLD, TOLD + "one line more", True),
    ],
)
def test_differences_beyond_rounding_are_told(here, there, differ):
    assert bool(list(differences(here, there, "$ symlab ", rtol=1e-4, atol=1e-9))) == differ


def test_counts_are_compared_to_the_letter_however_wide_the_rest_is():
    for of in (TOLD, TABLE):
        assert list(differences(of + "batch=25", of + "batch=24", "$ symlab ", rtol=0.05, atol=1e-3))
        assert not list(differences(of + "0.25", of + "0.24", "$ symlab ", rtol=0.05, atol=1e-3))
