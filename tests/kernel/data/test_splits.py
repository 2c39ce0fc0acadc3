import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symlab.data.splits import balanced_subset
from symlab.errors import UserError

LABELS = np.repeat(np.arange(4), [5, 9, 7, 6])


@given(per_class=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_subset_is_balanced_and_part_of_every_larger_one(per_class, seed):
    y = np.random.default_rng(seed).permutation(LABELS)
    subset = balanced_subset(y, 4 * per_class, 4, np.random.default_rng(seed))
    assert np.bincount(y[subset]).tolist() == [per_class] * 4
    assert len(set(subset)) == len(subset) and (np.diff(subset) > 0).all()
    assert set(subset) <= set(balanced_subset(y, 20, 4, np.random.default_rng(seed)))


def test_every_sample_of_a_class_is_drawn_equally_often():
    drawn = np.concatenate([balanced_subset(LABELS, 8, 4, np.random.default_rng(seed)) for seed in range(900)])
    frequency = np.bincount(drawn, minlength=len(LABELS)) / 900
    np.testing.assert_allclose(frequency, 2 / np.bincount(LABELS)[LABELS], atol=0.07)


def test_more_than_the_smallest_class_allows():
    with pytest.raises(UserError, match=r"data\.n_samples = 24 is more than the 20 samples"):
        balanced_subset(LABELS, 24, 4, np.random.default_rng(0))
