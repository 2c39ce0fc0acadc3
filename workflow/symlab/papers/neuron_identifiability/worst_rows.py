"""What the claims about theorems share: the worst row whose assumptions hold, and where it is.

A bound is checked where the theorem's assumptions hold. Those of Thms. 4.4, 4.6 and 4.8 hold with a probability; their
proofs bound it by unions over neurons, directions and pairs, so generously that no allowance for chance is made.
"""

import re
from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.neuron_identifiability.rows import MODEL, assumptions_hold
from symlab.papers.neuron_identifiability.variants import names_of
from symlab.study.claim import Claim, Found, Tables, at_most, exact_value

# The room that double precision needs beside a bound that can be attained.
EXACT = at_most(1 + 1e-9)
# Of the lattice rule, where the bound can be attained: small pre-activations.
QUADRATURE = at_most(1 + 1e-3)
NO_ALLOWANCE = "The theorem states the bound without exception under its assumptions; only rounding is left room."
bound_claim = partial(Claim, bound=EXACT, owner="paper", origin="paper", reason=NO_ALLOWANCE, kind="theorem")


# Rows of a theory table that belong to one place in one network or pair, for people.
_PLACES = ("layer", "side", "permutation", "inputs", "nonlinearity", "pair", "split", "aligned", "matching", "beta")


def worst_of(table: str, values: Callable[[pd.DataFrame], pd.Series], **where: str) -> Callable[[Tables], list[Found]]:
    """The measurement of the largest of one value a row of a table, of the rows whose columns hold what is given."""

    def measure(tables: Tables) -> list[Found]:
        rows = tables[table]
        for column, value in where.items():
            rows = rows[rows[column] == value]
        return find_worst(rows, values(rows))

    return measure


def find_worst(table: pd.DataFrame, values: pd.Series) -> list[Found]:
    """The largest of one value a row among rows whose assumptions hold, where it is, and how many rows those are.

    Where they hold in none, what fails instead.
    """
    rows = table[assumptions_hold(table)] if "assumption" in table else table
    if rows.empty:
        return [say_what_fails(table)]
    chosen = values[rows.index]
    # Not a number is the worst there is, where idxmax would pass it over.
    at = chosen.isna().idxmax() if chosen.isna().any() else chosen.idxmax()
    value = float(chosen[at])
    told = (f"{count_held(table)}; " if "assumption" in table else "") + f"largest at {_place(rows, at)}"
    return [exact_value(value, len(rows), detail=told, unit="cases")]


def divide(value: pd.Series, bound: pd.Series) -> pd.Series:
    """value / bound; NaN if either is not finite, because an infinite bound shows nothing."""
    return (value / bound).where(np.isfinite(value) & np.isfinite(bound))


def _place(rows: pd.DataFrame, at: int) -> str:
    """The variant and the place of a row, for people."""
    row = rows.loc[at]
    named = [f"{name} {_short(row[name])}" for name in _PLACES if name in rows]
    return ", ".join([names_of(rows)[str(row["variant"])], *named])


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def count_held(table: pd.DataFrame) -> str:
    """Of how many cases, in how many networks or pairs, all assumptions hold and the theorem is checked, for people."""
    models = len(table.groupby([column for column in (*MODEL, "pair") if column in table]))
    kind = "pairs" if "pair" in table else "networks"
    return f"assumptions hold in {int(assumptions_hold(table).sum())} of {len(table)} cases of {models} {kind}"


def say_what_fails(table: pd.DataFrame) -> str:
    """Why no row of a theory table counts: how many rows there are, and the assumptions that fail most often."""
    if table.empty:
        return "nothing is sampled in these networks"
    # Numbers differ from row to row; the phrases around them are few.
    phrases = table["assumption"].str.replace(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "...", regex=True, flags=re.IGNORECASE)
    told = ", ".join(f"{phrase} ({count})" for phrase, count in phrases.value_counts().head(3).items())
    return f"{count_held(table)}: {told}"
