"""When a network leaves the origin, where its loss lies flat, and how many singular values of a layer stand out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

ESCAPED = 0.97
"""Share of the loss at the origin below which a network has left it."""
FLAT = 0.1
"""Share of the steepest slope of the loss below which it lies flat."""
WINDOW = 0.1
"""Decades of s over which slopes are taken."""
STANDS_OUT = 1.3
"""How many times the first singular value at the start a singular value has to reach to stand out."""

NONE_FLAT = "no network of depth 6 leaves the origin for a moment at which its loss is flat within the steps"
"""Why nothing is said of networks after their first escape."""


def paper_networks(course: pd.DataFrame, L: int) -> pd.DataFrame:
    """The rows of ReLU networks of one depth from the largest initial scale of the table, of its first data set."""
    chosen = course[(course["L"] == L) & (course["activation"] == "relu")]
    chosen = chosen[chosen["dataset"] == chosen["dataset"].iloc[0]] if len(chosen) else chosen
    return chosen[chosen["std"] == chosen["std"].max()]


def networks(course: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    """(seed, rows by step) of each network of ``paper_networks``."""
    for seed, rows in course.groupby("seed"):
        yield int(seed), rows.sort_values("step")  # type: ignore[call-overload]


def slopes(course: pd.DataFrame) -> pd.Series:
    """d loss / d log10 s of one network over a ``WINDOW`` around each moment after the start, by ``s``."""
    rows = course[course["step"] > 0]
    place, loss = np.log10(rows["s"].to_numpy()), rows["loss"].to_numpy()
    low, high = (np.clip(place + side * WINDOW / 2, place[0], place[-1]) for side in (-1, 1))
    rise = np.interp(high, place, loss) - np.interp(low, place, loss)
    return pd.Series(rise / (high - low), index=rows["s"].to_numpy())


def escape_time(course: pd.DataFrame) -> float:
    """s at which one network's loss is first below ``ESCAPED`` times that at the origin; NaN if it never is."""
    rows = course[course["loss"] < ESCAPED * course["loss"].iloc[0]]
    return float(rows["s"].iloc[0]) if len(rows) else float("nan")


def first_snapshot(course: pd.DataFrame) -> float:
    """s of the first moment after the escape whose slope is below ``FLAT`` of the steepest since; NaN if none."""
    slope = slopes(course).abs()
    after = slope[slope.index >= escape_time(course)]
    flat = after[after < FLAT * after.cummax()]
    return float(flat.index[0]) if len(flat) else float("nan")


def at_first_snapshot(course: pd.DataFrame) -> pd.DataFrame:
    """The row of each network at its first snapshot, of those that have one."""
    rows = [rows[rows["s"] == first_snapshot(rows)] for _, rows in networks(course)]
    return pd.concat(rows) if rows else course


def count_at_snapshots(course: pd.DataFrame, layers: pd.DataFrame) -> pd.DataFrame:
    """k_l by layer (rows) of each network at its first snapshot (columns: the seeds of those that have one)."""
    found = {
        row.seed: standing_out(layers[layers["seed"] == row.seed]).loc[row.step]
        for row in at_first_snapshot(course).itertuples()
    }
    return pd.DataFrame(found)


def second_at_snapshots(course: pd.DataFrame, layers: pd.DataFrame) -> pd.Series:
    """Second singular value over the first, of the layer in which it is largest, at each network's first snapshot."""
    rows = layers[layers["layer"] > 0].assign(second=lambda table: table["s2"] / table["s1"])
    largest = rows.groupby(["seed", "step"])["second"].max()
    return pd.Series({row.seed: largest[row.seed, row.step] for row in at_first_snapshot(course).itertuples()})


def say_how_many(found: int, course: pd.DataFrame) -> str:
    """Of how many networks something is said that only those with a first snapshot have; empty if all have one."""
    n = course["seed"].nunique()
    return "" if found == n else f"{found} of {n} have a flat moment after the escape, the others are left out"


def second_plateaus(course: pd.DataFrame) -> pd.DataFrame:
    """Of each network by seed: ``width`` in decades of s of its second plateau, 0 if it has none, and whether it is
    ``left``: where the run has ended on it, or may have ended before it, the width is what there is of it so far."""
    found = {}
    for seed, rows in networks(course):
        after = [(a, b) for a, b in plateaus(rows) if a > escape_time(rows)]
        ended = [(a, b) for a, b in after if b < rows["s"].max()]
        low, high = (ended or after or [(1.0, 1.0)])[0]
        left = bool(ended) or not may_still_leave(rows)
        found[seed] = {"width": float(np.log10(high / low)) if ended or not left else 0.0, "left": left}
    return pd.DataFrame.from_dict(found, orient="index", columns=["width", "left"])


def plateaus(course: pd.DataFrame) -> list[tuple[float, float]]:
    """(start, end) in s of one network's flat stretches, from the start on, the last of which may be cut off."""
    slope = slopes(course).abs()
    flat = (slope < FLAT * slope.max()).to_numpy()
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flat, [False]]).astype(int)))
    s = slope.index.to_numpy()
    stretches = [(float(s[a]), float(s[b - 1])) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return [(a, b) for a, b in stretches if np.log10(b / a) >= WINDOW]


def standing_out(layers: pd.DataFrame) -> pd.DataFrame:
    """k_l of one network by step and layer: how many singular values exceed ``STANDS_OUT`` times the first at 0."""
    values = [f"s{i}" for i in range(1, 11)]
    rows = layers[layers["layer"] > 0]
    edge = rows[rows["step"] == 0].set_index("layer")["s1"]
    above = rows[values].gt(STANDS_OUT * rows["layer"].map(edge), axis=0).sum(axis=1)
    return rows.assign(k=above).pivot(index="step", columns="layer", values="k")


def may_still_leave(course: pd.DataFrame) -> bool:
    """Whether one network's run ended while its loss was still high: what it has not reached it may reach later."""
    return bool(course["loss"].iloc[-1] > course["loss"].iloc[0] / 2)


def decades_from_a_drop(course: pd.DataFrame, step: float) -> float:
    """Distance in decades of s between a step and the nearest moment at which one network's loss is not flat."""
    slope = slopes(course).abs()
    dropping = slope.index[slope >= FLAT * slope.max()].to_numpy()
    s = course.loc[course["step"] == step, "s"].item()
    return float(np.abs(np.log10(dropping / s)).min())
