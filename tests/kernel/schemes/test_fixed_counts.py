"""Counts of fixed weights: one value, a list, or a mapping from patterns."""

import pytest
from pydantic import ValidationError

from symlab.errors import UserError
from symlab.schemes import WAsymmetric
from symlab.schemes.fixed_counts import fixed_counts

SIZES = {"stem.weight": 90, "groups.0.0.conv.weight": 40, "groups.0.0.shortcut.weight": 20, "readout.weight": 10}


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ({"n_fixed": 9}, [9, 9, 9, 9]),
        ({"n_fixed": [1, 2, 3, 4]}, [1, 2, 3, 4]),
        ({"fixed_fraction": 0.1}, [9, 4, 2, 1]),
        ({"fixed_fraction": 0.33}, [30, 13, 7, 3]),  # of 29.7, 13.2, 6.6 and 3.3
        ({"fixed_fraction": [0.1, 0.5, 0.5, 0]}, [9, 20, 10, 0]),
        ({"n_fixed": {"stem": 12, "*.shortcut": 3, "groups.*": 7, "readout": 0}}, [12, 7, 3, 0]),
        ({"n_fixed": {"groups.*": 7, "*": 1, "*.shortcut": 3}}, [1, 7, 7, 1]),
        ({"fixed_fraction": {"groups.?.0.conv": 0.5, "*": 0.1}}, [9, 20, 2, 1]),
    ],
)
def test_every_way_to_give_counts(scheme, expected):
    assert list(fixed_counts(WAsymmetric(name="w_asymmetric", sigma_F=1, **scheme), SIZES).items()) == list(
        zip(SIZES, expected, strict=True)
    )


@pytest.mark.parametrize(
    ("amount", "told"),
    [({"n_fixed": 3}, None), ({"fixed_fraction": [0.1, 0.5]}, 0.1), ({"fixed_fraction": {"stem": 0.2, "*": 0.1}}, 0.2)],
)
def test_tables_tell_the_first_fraction(amount, told):
    columns = WAsymmetric(name="w_asymmetric", sigma_F=2, **amount).columns()
    assert columns == {"scheme": "w_asymmetric", "sigma_F": 2, "fixed_fraction": told}


@pytest.mark.parametrize("amounts", [{}, {"n_fixed": 3, "fixed_fraction": 0.1}])
def test_exactly_one_amount_is_given(amounts):
    with pytest.raises(ValidationError, match="exactly one of n_fixed and fixed_fraction"):
        WAsymmetric(name="w_asymmetric", sigma_F=1, **amounts)


@pytest.mark.parametrize(
    ("scheme", "sentence"),
    [
        ({"n_fixed": 10}, "n_fixed = 10 fixes 10 of the 10 weights in a row .* of readout; it must be below"),
        ({"n_fixed": [1, 2]}, "lists 2 values but the network has 4 linear maps and convolutions"),
        ({"n_fixed": {"stem": 1, "groups.*": 2}}, "n_fixed has no pattern that matches readout"),
        ({"fixed_fraction": {"*": 0.1, "group.*": 0.2}}, "pattern 'group.*', which matches no .* (stem, groups"),
        ({"n_fixed": {"Stem": 1, "*": 1}}, "pattern 'Stem', which matches no"),
    ],
)
def test_counts_that_do_not_fit_get_a_sentence(scheme, sentence):
    with pytest.raises(UserError, match=sentence.replace("(", r"\(")):
        fixed_counts(WAsymmetric(name="w_asymmetric", sigma_F=1, **scheme), SIZES)
