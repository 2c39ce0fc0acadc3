"""Masks that choose the paper's variants in a table, by the description columns that every table carries.

A figure and its claims choose with the same ones, so that they are about the same rows. Only pandas is imported: a
claims job does not pay for matplotlib.
"""

import math
import operator
from collections.abc import Callable
from functools import reduce

import pandas as pd

Mask = Callable[[pd.DataFrame], pd.Series]
"""Which rows of a table are chosen."""


def every_row(table: pd.DataFrame) -> pd.Series:
    """All rows."""
    return pd.Series(True, index=table.index)


def of_scheme(name: str, low: float = -math.inf, high: float = math.inf) -> Mask:
    """Networks of a scheme with elementwise activations; given bounds, only those with low <= sigma_F <= high."""

    def mask(table: pd.DataFrame) -> pd.Series:
        chosen = (table["scheme"] == name) & (table["activation"] != "sigma")
        if low == -math.inf and high == math.inf:
            return chosen
        return chosen & table["sigma_F"].between(low, high)

    return mask


def sigma_mlp(table: pd.DataFrame) -> pd.Series:
    """Networks whose nonlinearity is x * sigmoid(Cx)."""
    return table["activation"] == "sigma"


def any_of(*masks: Mask) -> Mask:
    """Rows that at least one of the masks chooses."""
    return lambda table: reduce(operator.or_, (mask(table) for mask in masks))


def apart_from_fractions(of: Mask) -> Mask:
    """Of the rows that ``of`` chooses, those of families that do not sweep fixed_fraction; all if there are none.

    A study may sweep the fraction of fixed weights beside its other networks. That sweep is the matter of Fig. 10 and
    says nothing for or against claims about others.
    """

    def mask(table: pd.DataFrame) -> pd.Series:
        chosen = of(table)
        variants = table[chosen].drop_duplicates("variant")
        fractions = variants.groupby("family")["fixed_fraction"].nunique()
        plain = chosen & table["family"].isin(fractions.index[fractions <= 1])
        return plain if plain.any() else chosen

    return mask


def smallest_sigma(of: Mask) -> Mask:
    """Of the rows that ``of`` chooses, those with the smallest sigma_F."""

    def mask(table: pd.DataFrame) -> pd.Series:
        chosen = of(table)
        return chosen & (table["sigma_F"] == table.loc[chosen, "sigma_F"].min())

    return mask


w_asymmetric = of_scheme("w_asymmetric")
STANDARD = of_scheme("standard")
W = apart_from_fractions(w_asymmetric)
W_0 = apart_from_fractions(of_scheme("w_asymmetric", 0, 0))
W_1 = apart_from_fractions(of_scheme("w_asymmetric", 1, 1))
W_FROM_1 = apart_from_fractions(of_scheme("w_asymmetric", 1))
W_FROM_2 = apart_from_fractions(of_scheme("w_asymmetric", 2))
SYRE = of_scheme("syre")
SYRE_1 = of_scheme("syre", 1, 1)
SYRE_FROM_1 = of_scheme("syre", 1)
SPARSE = of_scheme("sparse")
RESIDUAL = of_scheme("residual")
