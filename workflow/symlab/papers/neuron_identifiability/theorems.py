"""What figures and claims about theorems share: cases as points, and the worst row whose assumptions hold.

A bound is checked where the theorem's assumptions hold. Those of Thms. 4.4, 4.6 and 4.8 hold with a probability; their
proofs bound it by unions over neurons, directions and pairs, so generously that no allowance for chance is made. Points
are hollow where an assumption fails; what is left out is told.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.papers.neuron_identifiability.rows import MODEL
from symlab.papers.neuron_identifiability.variants import names_of
from symlab.plotting.style import Artist, Axes, Look, mark_entry
from symlab.study.claim import Claim, Found, Tables, at_most, exact_value

# The room that double precision needs beside a bound that can be attained.
EXACT = at_most(1 + 1e-9)
# Of the lattice rule, where the bound can be attained: small pre-activations.
QUADRATURE = at_most(1 + 1e-3)
NO_ALLOWANCE = "The theorem states the bound without exception under its assumptions; only rounding is left room."
bound_claim = partial(Claim, bound=EXACT, owner="paper", origin="paper", reason=NO_ALLOWANCE, kind="theorem")

# Rows of a theory table that belong to one place in one network or pair, for people.
_PLACES = ("layer", "side", "permutation", "inputs", "nonlinearity", "pair", "split", "aligned", "matching", "beta")


def assumptions_hold(rows: pd.DataFrame) -> pd.Series:
    """Rows in which all assumptions hold: their ``assumption`` is empty, which a CSV file gives back as NaN."""
    return rows["assumption"].isna() | (rows["assumption"].astype(str).str.strip() == "")


def worst_claim(
    table: str, value: str | Callable[[pd.DataFrame], pd.Series], where: str = "", **of_claim: Any
) -> Claim:
    """A claim that no row of a table, of those of which a query is true, exceeds the bound where assumptions hold.

    Args:
        value: a column, one column over another ("lower / gamma", as ``divide`` has it) or a function of the rows.
        of_claim: further fields of the claim.
    """

    def measure(tables: Tables) -> list[Found]:
        rows = tables[table].query(where) if where else tables[table]
        if callable(value):
            return find_worst(rows, value(rows))
        over, _, bound = value.partition(" / ")
        return find_worst(rows, divide(rows[over], rows[bound]) if bound else rows[over])

    return bound_claim(tables=(table,), measure=measure, **of_claim)


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


# How cases are drawn


point_looks = partial(variant_looks, linestyle="", marker="o")
"""The looks of variants whose cases are points: their colours, one marker, no line."""


def mark_hollow(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with ``hollow``: whether an assumption fails."""
    return rows.assign(hollow=~assumptions_hold(rows))


def draw_cases(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str, **options: Any) -> None:
    """Draw a mark for each row, with a white face where its ``hollow`` is true.

    ``options`` are those of ``Axes.plot``.
    """
    for hollow, part in rows.groupby("hollow"):
        face = "white" if hollow else look.color
        edge = {"marker": look.marker, "markeredgewidth": 0.8, "markeredgecolor": look.color}
        axis.plot(part[x], part[y], markerfacecolor=face, label=label, **{"linestyle": "", **edge, **options})


def line_at(level: float) -> Callable[..., object]:
    """What draws the line of a bound into a panel."""
    return lambda axis, *_: axis.axhline(level, color="0.4", linewidth=0.8, zorder=0)


def dodge(rows: pd.DataFrame, x: str, labels: Sequence[str], spread: float = 0.7) -> pd.Series:
    """x with the labels side by side, over a share of the distance between two of its values."""
    order = [label for label in labels if label in set(rows["label"])]
    return rows[x] + (rows["label"].map(order.index) - (len(order) - 1) / 2) * spread / len(order)


def say_left_out(rows: pd.DataFrame, why: str) -> str:
    """A sentence that names the variants whose rows cannot be drawn; empty if there are none."""
    # A name is not broken into two lines.
    names = [str(name).replace(" ", "\N{NO-BREAK SPACE}") for name in rows["label"].unique()]
    return f"not drawn, {why}: {'; '.join(names)}" if names else ""


def count_left_out(rows: pd.DataFrame, of: pd.DataFrame, why: str) -> str:
    """A sentence that counts the points that cannot be drawn; empty if there are none."""
    return f"{len(rows)} of {len(of)} points not drawn, {why}" if len(rows) else ""


def hollow_entry(rows: pd.DataFrame, name: str = "hollow: an assumption fails") -> list[Artist]:
    """The legend entry of hollow points, if there are any."""
    if not rows["hollow"].any():
        return []
    return [mark_entry(name, "o", markerfacecolor="white", markeredgecolor="0.4")]
