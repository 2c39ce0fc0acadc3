"""The looks of the paper's variants."""

import numpy as np
import pandas as pd
import pytest

from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.plotting.settings import Style

SIGMAS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)


def looks_of(*rows):
    """Looks of (scheme, sigma_F) and, where it is given, width."""
    variants = pd.DataFrame([(*row, 8)[:3] for row in rows], columns=["scheme", "sigma_F", "width"])
    looks = variant_looks(variants.assign(activation="gelu", label=[str(row) for row in rows]), Style())
    assert list(looks) == [str(row) for row in rows]
    return list(looks.values())


def test_a_scheme_and_sigma_F_have_one_colour_in_every_study():
    every = [("standard", np.nan), *(("w_asymmetric", sigma) for sigma in SIGMAS), ("syre", 1.0), ("sparse", np.nan)]
    together = looks_of(*every)
    assert together == [looks_of(variant)[0] for variant in every]
    assert len({look.color for look in together}) == len(every)


def test_colours_of_sigma_F_go_from_light_to_dark_also_between_those_that_are_listed():
    sums = [sum(look.color) for look in looks_of(*(("w_asymmetric", sigma) for sigma in (0.1, 0.7, 1.0, 1.5, 2.5, 40)))]
    assert sums == sorted(sums, reverse=True) and len(set(sums)) == len(sums)


def test_variants_of_one_scheme_and_sigma_F_are_shades():
    narrow, wide, other = looks_of(("w_asymmetric", 1.0, 8), ("w_asymmetric", 1.0, 16), ("w_asymmetric", 3.0, 8))
    assert narrow.color != wide.color and other == looks_of(("w_asymmetric", 3.0))[0]
    base, narrow, wide = (np.array(look.color) for look in (looks_of(("w_asymmetric", 1.0))[0], narrow, wide))
    # One is the same share of the way to white in all of red, green and blue, the other of the way to black.
    for share in ((1 - narrow) / (1 - base), wide / base):
        assert 0 < share[0] < 1 and share == pytest.approx(share[0])
