"""The first escape from a ladder of initial scales and depths, in ReLU and in linear networks."""

from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.saddle_to_saddle.escapes import (
    EVENTS,
    LAYERS,
    SMALL,
    at_drop,
    by_depth,
    by_network,
    escaped,
    largest,
    small,
    unless_start_remains,
)
from symlab.plotting.style import Axes, Figure, Look, Shared, Style
from symlab.study.card import Drawing
from symlab.study.cases import Cases
from symlab.study.claim import Claim, Found, Tables, above, at_least, below, between
from symlab.study.facets import Panel, assign_looks, draw_grid, labelled
from symlab.study.tables import need

KINDS = {"identity": "linear", "relu": "ReLU"}


def phase_diagram(tables: Tables, style: Style) -> Figure:
    events, layers = (escaped(need(tables, name)) for name in (EVENTS, LAYERS))
    events = events.eval("relative = speed / one_neuron")
    shown = [
        _panel(events, "residual", "at a drop of 1 %", title="residual"),
        _panel(largest(layers, "second"), "second", title=r"$s_2/s_1$, largest of the layers"),
        _panel(events, "relative", yscale="linear", title="speed over one neuron's"),
    ]
    return _beside(shown, sharey=False)


def linear_beside_relu(tables: Tables, style: Style) -> Figure:
    kinds = {name: largest(escaped(need(tables, LAYERS), kind), "second") for kind, name in KINDS.items()}
    return _beside([_panel(rows, "second", "$s_2/s_1$", title=name) for name, rows in kinds.items()], sharey="row")


def _panel(rows: pd.DataFrame, value: str, ylabel: str = "", **axes: str) -> Panel:
    rows = by_depth(rows).assign(decade=np.log10(rows["std"]))
    return Panel(rows, "decade", value, labelled(r"$\log_{10}$ initial std", ylabel, "y") | axes, _draw_range)


def _beside(shown: list[Panel], sharey: Shared) -> Figure:
    depths = sorted({L for panel in shown for L in panel.rows["L"]})
    looks = assign_looks([f"depth {L}" for L in depths], Style(), ordered=True)
    note = "line: median of the networks; bars: from the least to the most"
    return draw_grid([[panel for panel in shown if len(panel.rows)]], looks, sharey=sharey, note=note)


def _draw_range(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str) -> None:
    """Draw the median of all networks against x as a line, and from the least to the most as bars."""
    found = rows.groupby(x)[y].agg(["median", "min", "max"])
    reach = np.abs(found[["min", "max"]].sub(found["median"], axis=0).to_numpy().T)
    axis.errorbar(
        found.index, found["median"], reach, color=look.color, marker=look.marker, linestyle=look.linestyle,
        label=label, capsize=1.5, linewidth=0.9, elinewidth=0.6,
    )  # fmt: skip


FIGURES = {
    "saddle-ladder": Drawing(
        "The first escape: depth and initial scale",
        "Networks of the study `{study}` that follow gradient flow from small weights, at the moment at which the "
        "loss has dropped by 1 %: how far their direction is from an escape direction, the second over the first "
        "singular value, of the layer where that is largest, and the speed of their direction as a multiple of the "
        "fastest neuron's.",
        phase_diagram,
        seen="From weights of standard deviation 0.0001, the second singular value is at most {rank(L=6, std=1e-4)} of "
        "the first at depth 6 in any layer, and the distance from an escape direction {direction(L=6, std=1e-4)}.",
        differs="Not in the paper, which says that both small weights and depth are needed (Section 5).",
    ),
    "saddle-controls": Drawing(
        "Linear and ReLU networks from smaller and smaller weights",
        "Second over first singular value at a drop of the loss of 1 %, of the layer where it is largest, of linear "
        "and of ReLU networks of the study `{study}`.",
        linear_beside_relu,
        seen="In linear networks of depth 3 the second singular value falls as the power {rank(L=3)} of the initial "
        "scale.",
        differs="Not in the paper, which says that linear networks need small initial weights alone, and ReLU networks "
        "depth besides, without a run of linear ones.",
    ),
}


def residual_at_escape(tables: Tables) -> list[Found]:
    found = by_network(small(escaped(tables[EVENTS])), "residual", "std")
    return unless_start_remains(found, tables[EVENTS], "std").means() or NONE_SMALL


def exponent_of_residual(tables: Tables) -> list[Found]:
    found = exponents(escaped(tables[EVENTS]).query("L > 2"), "residual")
    return unless_start_remains(found, tables[EVENTS]).means() or ["needs several initial scales"]


def second_at_escape(tables: Tables, activation: str, least: int) -> list[Found]:
    rows = largest(small(escaped(tables[LAYERS], activation), least), "second")
    return by_network(rows, "second", "std").means() or NONE_SMALL


def shallow_over_deep(tables: Tables) -> list[Found]:
    rows = largest(small(escaped(tables[LAYERS])), "second", first=2)
    three, four = (by_network(rows[rows["L"] == L], "second", "std").keyed("dataset", "std") for L in (3, 4))
    return three.ratios(four) or ["needs depths 3 and 4 from small weights"]


def exponent_of_second(tables: Tables, activation: str, least: int) -> list[Found]:
    rows = escaped(tables[LAYERS], activation)
    found = exponents(largest(rows[rows["L"] >= least], "second"), "second").means()
    return found or [f"needs several scales of networks of depth {least} and more, activation: {activation}"]


def exponents(rows: pd.DataFrame, value: str) -> Cases:
    """Least-squares exponent of the initial scale in a value, of each seed over all scales."""

    def exponent(values: pd.Series) -> float:
        return float(np.polyfit(np.log(values.index), np.log(values), 1)[0]) if values.notna().all() else np.nan

    by = ["dataset", "L", "seed"]
    rows = rows[rows.groupby(by)["std"].transform("nunique") > 1].sort_values(by, kind="stable")
    return by_network(rows.set_index("std"), value, several=exponent)


def half_steps(tables: Tables) -> list[Found]:
    """Residual by steps of half the length over that by whole ones, of the same networks."""
    events = tables[EVENTS]
    flow = events.query("rule == 'flow' and activation == 'relu'")
    half = at_drop(flow.query("h < h.max() and ends == ends.min()"))
    by_halves, by_whole = (by_network(rows, "residual", "std") for rows in (half, escaped(events)))
    return by_halves.paired_ratios(by_whole) or ["needs steps of two lengths"]


NONE_SMALL: list[Found] = [f"needs networks from initial weights of {SMALL:g} and less"]
_claim = partial(Claim, owner="paper", origin="pilot", tables=(LAYERS,))
CLAIMS = {
    "saddle-ladder-direction": _claim(
        statement="From small weights, networks leave the origin along an escape direction",
        quantity="|∇L0(ρ) + s ρ| / (s √L) at a drop of the loss of 1 %, mean over networks",
        bound=below(0.1),
        reason="It is 0 along an escape direction. Another program had 0.03 to 0.08 on the same digits. Where the "
        "norm of the initial weights is over a tenth of that at the escape, they are not small, and it is open. Judged "
        "so since 28 November 2026, after values were seen: the standard deviation alone let the width decide.",
        tables=(EVENTS,),
        measure=residual_at_escape,
    ),
    "saddle-ladder-falling": _claim(
        statement="The smaller the initial weights, the closer to an escape direction networks leave",
        quantity="exponent of the initial scale in |∇L0(ρ) + s ρ| / (s √L) at a drop of 1 %, mean over networks",
        bound=above(0),
        origin="paper",
        reason="The paper's theory is of the limit of small weights; no rate is stated. Where at the smallest scale "
        "the norm of the initial weights is over a tenth of that at the escape, it is open: they hide the direction. "
        "Judged so since 28 November 2026, after values were seen.",
        tables=(EVENTS,),
        measure=exponent_of_residual,
    ),
    "saddle-ladder-rank": _claim(
        statement="From small weights, the first escape has rank one in every layer, the first too",
        quantity="second over first singular value at a drop of 1 %, of the layer where it is largest, mean of "
        "networks",
        bound=below(0.05),
        reason="The paper says that one often finds exactly rank one in each layer (Section 4), and one dominant "
        "value in every layer (3.3). Another program had 0.02 to 0.03 on the same digits at depth 4 and more.",
        measure=partial(second_at_escape, activation="relu", least=4),
    ),
    "saddle-ladder-depth": _claim(
        statement="From equal weights, deep layers are far closer to rank one at depth 4 than at depth 3",
        quantity="second over first singular value, largest from layer 2 on, at depth 3 as a multiple of that at "
        "depth 4",
        bound=at_least(10),
        owner="derived",
        reason="The paper says that ReLU networks need both small weights and depth (Section 5). Another program had "
        "0.15 against 0.003 on the same digits from weights of 0.0001.",
        measure=shallow_over_deep,
        why="The reason is not known.",
    ),
    "saddle-ladder-exponent": _claim(
        statement="Beyond depth 3, the second singular value at the escape falls in proportion to the initial weights",
        quantity="exponent of the initial scale, over all of the ladder, in the largest second over first singular "
        "value, mean over networks",
        bound=between(0.8, 1.2),
        owner="derived",
        origin="ours",
        reason="Along one direction the first value grows to a size that the loss sets, and the rest stays what it "
        "was.",
        measure=partial(exponent_of_second, activation="relu", least=4),
        why="The reason is not known.",
    ),
    "saddle-ladder-step": _claim(
        statement="Steps are short enough",
        quantity="residual at a drop of 1 % by steps of half the length, as a multiple",
        bound=between(0.9, 1.1),
        kind="check",
        owner="ours",
        origin="ours",
        reason="A tenth is far less than what claims ask for.",
        tables=(EVENTS,),
        measure=half_steps,
    ),
    "saddle-controls-rank": _claim(
        statement="In linear networks, small initial weights alone make every layer rank one, whatever the depth",
        quantity="exponent of the initial scale, over all of the ladder, in the largest second over first singular "
        "value, mean over networks",
        bound=between(0.8, 1.2),
        origin="derived",
        reason="The paper says that a small enough initialization is sufficient there; by the derivation of "
        "ladder-exponent the value is proportional to it.",
        measure=partial(exponent_of_second, activation="identity", least=3),
    ),
    "saddle-controls-small": _claim(
        statement="From small weights, linear networks have rank one in every layer at the first escape",
        quantity="second over first singular value at a drop of 1 %, of the layer where it is largest, mean of "
        "networks",
        bound=below(0.05),
        reason="As for ReLU networks; another program had 0.002 to 0.01 on the same digits.",
        measure=partial(second_at_escape, activation="identity", least=3),
    ),
}
