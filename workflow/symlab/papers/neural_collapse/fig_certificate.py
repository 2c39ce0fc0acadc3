"""What the loss of a network certifies about its collapse, against what was measured, run by run."""

import math
from collections.abc import Callable
from itertools import cycle

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.measures.collapse_bounds import certified_alignment, certified_collapse, certified_frame
from symlab.papers.neural_collapse.evidence import RUNS, derived_claim, networks
from symlab.plotting.style import Look, Style, palette
from symlab.plotting.types import Axes, Figure
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import cases
from symlab.study.claim import Found, Tables, at_most
from symlab.study.facets import Panel, draw_grid, draw_rows, labelled


def certified_scatter(loss: float, d: int, K: int, penalty: float) -> float:
    """The largest tr Sigma_W that a balanced network of this squared error plus penalty / 2 |W_L|^2 can have.

    Ridge regression on features of norm sqrt(d) leaves K penalty / (2 (d - tr Sigma_W + penalty K)) at least, without
    an output bias. Infinite where the loss is that of features without any class, 1/2.
    """
    most = d + penalty * K - K * penalty / (2 * loss)
    return most if most < d else math.inf


CERTIFICATES: dict[str, tuple[str, str, Callable[[float, int, int, float], float], float, str]] = {
    "NC1": ("cross_entropy", "NC1", certified_collapse, np.inf, "NC1"),
    "NC2": ("cross_entropy", "NC2A", certified_frame, 1.0, "NC2"),
    "NC3": ("cross_entropy", "NC3_centred", certified_alignment, 2.0, "NC3, rows centred"),
    "scatter": ("squared_error", "scatter", certified_scatter, np.inf, r"$\mathrm{tr}\,\Sigma_W$"),
}
"""What is bounded: under which loss, its column, the bound from loss and last penalty, a bound that says nothing."""


def certified(tables: Tables) -> pd.DataFrame:
    """For each network and ``quantity`` what is ``measured`` and ``certified``, where a bound says anything."""
    table = networks(tables)
    table = table[~table["every_token"]].assign(scatter=table["NC1"] * table["between"])
    # A bias takes away what ridge regression leaves.
    table = table[(table["loss"] == "cross_entropy") | ~table["output_bias"]]
    parts = []
    for quantity, (loss, column, bound, nothing, _) in CERTIFICATES.items():
        rows = table[table["loss"] == loss]
        each = zip(rows["fit"] + rows["last"], rows["width"], rows["classes"], rows["last_penalty"], strict=True)
        limits = [bound(float(total), int(d), int(K), float(penalty)) for total, d, K, penalty in each]
        found = rows.assign(quantity=quantity, measured=rows[column], certified=limits)
        parts.append(found[found["certified"] < nothing])
    found = pd.concat(parts, ignore_index=True)
    return found.assign(ratio=found["measured"] / found["certified"])


def measured_against_certified(tables: Tables, style: Style) -> Figure:
    """What a loss bounds against the bound, a panel a quantity, a colour a setting; nothing can lie above the line."""
    table = certified(tables)
    if table.empty:
        raise UserError("it needs networks whose loss is below that of constant features.")
    colors = dict(zip(table["title"].unique(), cycle(palette(style))))
    looks = {name: Look(color, "", "o", "white") for name, color in colors.items()}
    panels = [_panel(table[table["quantity"] == quantity], quantity) for quantity in table["quantity"].unique()]
    return draw_grid([panels], looks, line="title", height=2.3, sharex="none", sharey="none", note="a mark a network")


def _panel(rows: pd.DataFrame, quantity: str) -> Panel:
    ends = np.array([rows["certified"].min(), rows["certified"].max()])

    def diagonal(axis: Axes) -> None:
        axis.plot(ends, ends, color="0.5", linestyle="--", linewidth=0.8, marker="")

    log = "" if quantity == "scatter" else "xy"
    axes = labelled("largest possible", "measured", log, title=CERTIFICATES[quantity][-1])
    return Panel(rows, "certified", "measured", axes, draw_rows, {"markersize": 3.5}, diagonal)


def largest_ratio(tables: Tables) -> list[Found]:
    """What a loss bounds over its certificate, the largest of all networks, a case a quantity."""
    table = certified(tables).rename_axis("network_number").reset_index()
    # An undefined ratio is the largest, so that it is not passed over.
    largest = table["ratio"].fillna(np.inf).groupby(table["quantity"]).idxmax()
    worst = table.loc[largest] if len(table) else table
    return cases(worst, "ratio", by=["quantity"], unit="network_number", name="{quantity}").exact() or [
        "no loss of a network is low enough to say anything"
    ]


FIGURES = {
    "collapse-certificate": Drawing(
        "What a loss certifies",
        "NC1, NC2 and NC3 (with the last layer's mean row taken off) of every network of the study `{study}`, against "
        "the largest that any network of the same cross-entropy and last-layer penalty can have, classes being "
        "balanced; of networks trained by squared error without a bias the scatter within classes, tr Σ_W.",
        measured_against_certified,
        seen=Sentence("The closest network has {share:%} of its bound.", {"share": at("collapse-certificate-holds")}),
        differs="Not in the paper, whose theorems are asymptotic: this bound holds for every single network.",
    ),
}
CLAIMS = {
    "collapse-certificate-holds": derived_claim(
        statement="A network's loss bounds how far it is from collapse",
        quantity="what is measured over the largest that the loss allows, largest of all networks",
        bound=at_most(1),
        reason="NC1: Jensen's inequality within classes, and the unconstrained features model at a given scatter of "
        "means. NC2: what the loss leaves for margins that differ and for class means off their rows. NC3: Jensen over "
        "samples and wrong classes, then Cauchy. Under squared error ridge regression.",
        kind="theorem",
        tables=(RUNS,),
        measure=largest_ratio,
    ),
}
