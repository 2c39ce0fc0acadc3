"""Which descents from near the origin a figure or a claim is about, and their values by case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from symlab.plotting.types import Axes
from symlab.study.cases import Cases, cases

if TYPE_CHECKING:
    from symlab.plotting.style import Look

EVENTS, LAYERS = "escape_events.csv", "escape_layers.csv"
ESCAPE = 1e-2
"""Drop of the loss, as a share of log k, at which an escape is read: later the full loss turns the weights."""
SMALL = 1e-4
"""Standard deviation of initial weights from which on they count as small."""
NETWORK = ["dataset", "L", "std", "activation", "rule", "h", "ends", "seed"]


def descents(table: pd.DataFrame, activation: str = "relu", rule: str = "flow") -> pd.DataFrame:
    """The rows of one kind of networks, by the longest steps (shorter ones check them), of the first escape alone."""
    chosen = table[(table["activation"] == activation) & (table["rule"] == rule)]
    return chosen[(chosen["h"] == chosen["h"].max()) & (chosen["ends"] == chosen["ends"].min())]


def at_drop(table: pd.DataFrame, event: float = ESCAPE) -> pd.DataFrame:
    """Each network's row, or rows by layer, at a drop of the loss; undefined of one that has not come so far."""
    by = [*NETWORK, *(["layer"] if "layer" in table else [])]
    every = table.loc[table["event"] == 0, by]
    return every.merge(table[table["event"] == event], how="left", on=by)


def small(rows: pd.DataFrame, least: int = 3) -> pd.DataFrame:
    """The rows of networks from small weights, of a depth from ``least`` on."""
    return rows[(rows["std"] <= SMALL) & (rows["L"] >= least)]


def by_network(rows: pd.DataFrame, value: str, *by: str) -> Cases:
    """A value of each seed, by data set and depth, and by other columns."""
    names = {"std": "std {std:g}", "layer": "layer {layer}", "ratio": "{ratio}"}
    name = ", ".join(["{dataset}, depth {L}", *(names[each] for each in by)])
    return cases(rows, value, ("dataset", "L", *by), "seed", name)


def largest(layers: pd.DataFrame, value: str, first: int = 1) -> pd.DataFrame:
    """Of each network the layer, from ``first`` on, in which a value is largest."""
    rows = layers[layers["layer"] >= first]
    found = rows.groupby(NETWORK, sort=False)[value].agg(lambda of: of.max(skipna=False))
    return found.reset_index()


def exponents(rows: pd.DataFrame, value: str) -> Cases:
    """Least-squares exponent of the initial scale in a value, of each seed over all scales."""

    def exponent(line: pd.DataFrame) -> float:
        defined = line[value].notna().all()
        return float(np.polyfit(np.log(line["std"]), np.log(line[value]), 1)[0]) if defined else np.nan

    rows = rows[rows.groupby(["dataset", "L", "seed"])["std"].transform("nunique") > 1]
    if rows.empty:
        return Cases(())
    found = rows.groupby(["dataset", "L", "seed"])[["std", value]].apply(exponent)
    return by_network(found.rename("exponent").reset_index(), "exponent")


def draw_range(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str, **options: Any) -> None:
    """Draw the median of all networks against x as a line, and from the least to the most as bars."""
    found = rows.groupby(x)[y].agg(["median", "min", "max"])
    reach = np.abs(found[["min", "max"]].sub(found["median"], axis=0).to_numpy().T)
    axis.errorbar(
        found.index, found["median"], reach, color=look.color, marker=look.marker, linestyle=look.linestyle,
        label=label, capsize=1.5, linewidth=0.9, elinewidth=0.6, **options,
    )  # fmt: skip
