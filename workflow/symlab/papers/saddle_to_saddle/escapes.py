"""Which descents from near the origin a figure or a claim is about, and their values by case."""

from dataclasses import replace
from typing import Any

import pandas as pd

from symlab.study.cases import Cases, cases

EVENTS, LAYERS = "escape_events.csv", "escape_layers.csv"
ESCAPE = 1e-2
"""Drop of the loss, as a share of log k, at which an escape is read: later the full loss turns the weights."""
SMALL = 1e-4
"""Standard deviation of initial weights from which on they count as small."""
REMAINS = 0.1
"""Share of the norm at the escape above which that of the initial weights hides along what the network leaves."""
NETWORK = ["dataset", "L", "std", "activation", "rule", "h", "ends", "seed"]


def descents(table: pd.DataFrame, activation: str = "relu", rule: str = "flow") -> pd.DataFrame:
    """The rows of one kind of networks, by the longest steps (shorter ones check them), of the first escape alone."""
    chosen = table.query("activation == @activation and rule == @rule")
    return chosen.query("h == h.max() and ends == ends.min()")


def at_drop(table: pd.DataFrame, event: float = ESCAPE) -> pd.DataFrame:
    """Each network's row, or rows by layer, at a drop of the loss; undefined of one that has not come so far."""
    by = [*NETWORK, *(["layer"] if "layer" in table else [])]
    every = table.loc[table["event"] == 0, by]
    return every.merge(table[table["event"] == event], how="left", on=by)


def escaped(table: pd.DataFrame, activation: str = "relu", rule: str = "flow", event: float = ESCAPE) -> pd.DataFrame:
    """The rows of ``descents`` at the escape, or at another drop of the loss."""
    return at_drop(descents(table, activation, rule), event)


def small(rows: pd.DataFrame, least: int = 3) -> pd.DataFrame:
    """The rows of networks from small weights, of a depth from ``least`` on."""
    return rows[(rows["std"] <= SMALL) & (rows["L"] >= least)]


def unless_start_remains(found: Cases, events: pd.DataFrame, *by: str) -> Cases:
    """Values of networks from small weights; open where over ``REMAINS`` of the norm is that of the start.

    By scale, if ``by`` is "std"; of values of all scales together at the smallest.
    """
    start, then = (small(escaped(events, event=event))[[*NETWORK, "norm"]] for event in (0, ESCAPE))
    both = start.merge(then, on=NETWORK, suffixes=("_start", ""))
    both = both if by else both[both["std"] == both.groupby(["dataset", "L"])["std"].transform("min")]
    shares = {each.case: each.mean for each in by_network(both, "norm_start / norm", *by)}
    told = "at the escape the norm of the initial weights is still {:.2g} of all"
    remaining = {case: told.format(share) for case, share in shares.items() if share > REMAINS}
    return replace(found, of=tuple(replace(each, open=remaining.get(each.case, each.open)) for each in found))


def by_network(rows: pd.DataFrame, value: str, *by: str, **several: Any) -> Cases:
    """A value of each seed, by data set and depth, and by other columns; ``several`` as of ``cases``."""
    names = {"std": "std {std:g}", "layer": "layer {layer}", "ratio": "{ratio}"}
    name = ", ".join(["{dataset}, depth {L}", *(names[each] for each in by)])
    return cases(rows, value, ("dataset", "L", *by), "seed", name, **several)


def by_depth(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with their depth as ``label``."""
    return rows.assign(label="depth " + rows["L"].astype(str))


def largest(layers: pd.DataFrame, value: str, first: int = 1) -> pd.DataFrame:
    """Of each network the layer, from ``first`` on, in which a value is largest."""
    of_network = layers[layers["layer"] >= first].groupby(NETWORK, sort=False)[value]
    return of_network.max(skipna=False).reset_index()
