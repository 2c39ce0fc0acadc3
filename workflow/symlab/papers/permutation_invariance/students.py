"""The rows of the students' tables that figures and claims are about, and their mean curves; pandas and numpy alone.

A source is how a student came about: "gd" (gradient descent on the population loss), "sgd" (online), or "uniform" (a
uniform sample of the global minima). M is the number of the teacher's neurons, m that of a student's, d the dimension
of the inputs. Pairs are of consecutive seeds and have no student in common, so errors are over pairs, or over students
where these are measured alone. Many thresholds were set after a pilot in NumPy: their reasons say what it had shown.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from symlab.study.claim import Bound
from symlab.study.curves import Curve, curves

UNIFORM, DIRECT = "uniform", "direct"
MATCHINGS = {
    DIRECT: DIRECT,
    "permuted": "Algorithm 1",
    "permuted_hungarian": "linear assignment",
    "lowest": "best of all permutations",
}
"""The columns of barriers by how neurons were matched. Between minima on the axes Algorithm 1 and linear assignment
leave the same barrier, up to rows without a partner; between trained students they need not."""
CASE = ("source", "M", "d", "matching")
"""The key of a case of barriers; of single students it has no matching."""
NO_BARRIER = 1e-4
"""Part of the direct barrier up to which a matched one is none: it has no peak, and what is left of it no place."""
NO_STUDENTS = "needs students, trained or sampled, of whom two reached a minimum"


def keep(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of students that neither diverged nor ended at a spurious minimum."""
    return table[table["kept"].astype(bool)]


def trained(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of trained students, kept or not."""
    return table[table["source"] != UNIFORM]


def uniform(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of uniform samples of the minima."""
    return table[table["source"] == UNIFORM]


def barriers(table: pd.DataFrame) -> pd.DataFrame:
    """The kept pairs, once for each ``matching`` ("direct" among them), samples first.

    Returns:
        Columns ``barrier`` after that matching, ``direct`` beside it, and ``ratio``, m / M. Samples have one matching:
        linear assignment finds no other than Algorithm 1 on the axes, but for ties that all permutations are tried for.
    """
    rows = keep(table).assign(ratio=lambda rows: rows["m"] / rows["M"])
    every = [rows.assign(matching=name, barrier=rows[column]) for column, name in MATCHINGS.items() if column in rows]
    rows = pd.concat(every, ignore_index=True)
    rows = rows.assign(trained=rows["source"] != UNIFORM)
    if "lowest" not in rows:
        rows = rows[rows["trained"] | (rows["matching"] != MATCHINGS["permuted_hungarian"])]
    return rows.sort_values(["trained", "M", "d", "source", "matching"], kind="stable")


def matched(table: pd.DataFrame) -> pd.DataFrame:
    """``barriers`` after matching."""
    rows = barriers(table)
    return rows[rows["matching"] != DIRECT]


def name_students(key: Mapping[str, Any]) -> str:
    """Students for people: ``M = 6, d = 8, Algorithm 1``; where nothing else is said they are trained by descent."""
    source, matching = key.get("source"), key.get("matching", "")
    words = [f"{name} = {key[name]:g}" for name in ("M", "d") if name in key]
    words += {"sgd": ["online SGD"], UNIFORM: ["samples"]}.get(str(source), [])
    words += [matching] if matching and (source != UNIFORM or matching != MATCHINGS["permuted"]) else []
    return ", ".join(words)


def mean_barriers(
    rows: pd.DataFrame, along: str | Sequence[str] = "m", by: Sequence[str] = CASE, **named: Any
) -> list[Curve]:
    """Each case's mean barriers, matched and direct, against the width (or another quantity)."""
    return curves(rows, ("barrier", "direct"), along, by, number="pairs", **{"name": name_students, **named})


def mean_runs(rows: pd.DataFrame, column: str, along: str | Sequence[str]) -> list[Curve]:
    """Each case's mean of a column of the tables of single students."""
    return curves(rows, (column,), along, CASE[:3], name_students, "students")


def without_barrier(curve: Curve) -> str:
    """Says that matching leaves no barrier anywhere; empty where it does leave one."""
    part = curve["barrier"].max() / curve["direct"].max()
    return f"no barrier is left, at most {part:.1g} of the direct one" if part < NO_BARRIER else ""


def last_over_top(curve: Curve) -> tuple[float, str]:
    """Mean barrier at the last width as a fraction of the largest."""
    barrier = curve["barrier"]
    last, top = barrier.iloc[-1], barrier.max()
    return over(last, top), f"{last:.2e} at m = {curve.places[-1]:g}, {top:.2e} at m = {barrier.idxmax():g}"


def beside_samples(rows: pd.DataFrame) -> pd.DataFrame:
    """Trained students and the samples of their M and d at the widths that both have; ``side`` says which."""
    place, key = ["M", "d", "m"], [name for name in ("source", "matching") if name in rows]
    samples, own = uniform(rows), trained(rows)
    there = own[[*key, *place]].drop_duplicates()
    same = samples.drop(columns=key).merge(there, on=place)
    own = own.merge(samples[place].drop_duplicates(), on=place)
    return pd.concat([own.assign(side="trained"), same.assign(side="samples")])


def at_last_width(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each case the rows of its largest width."""
    by = [name for name in CASE if name in rows]
    return rows[rows["m"] == rows.groupby(by)["m"].transform("max")]


def over(value: float, scale: float) -> float:
    """value / scale; NaN where the scale is not above 0, for nothing can be said in units of it."""
    return value / scale if scale > 0 else math.nan


def decades(curves: pd.DataFrame | Curve) -> pd.Series:
    """log10(direct / matched) of mean barriers: infinite where the matched one is 0, NaN where both are."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log10(curves["direct"]) - np.log10(curves["barrier"])


def in_units_of_M(low: float, high: float, text: str, open_below: bool = False) -> Bound:
    """low <= value <= high, or low < value <= high, for widths in units of M."""
    return Bound(text, math.nextafter(low, high) if open_below else low, high)
