"""The first escape from a ladder of initial scales and depths, in ReLU and in linear networks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from symlab.papers.saddle_to_saddle.escapes import (
    EVENTS,
    LAYERS,
    SMALL,
    at_drop,
    by_network,
    descents,
    draw_range,
    exponents,
    largest,
    small,
)
from symlab.plotting.style import PAGE, Style
from symlab.plotting.types import Figure
from symlab.study.card import Drawing, Sentence, at
from symlab.study.claim import Claim, Found, Tables, above, at_least, below, between
from symlab.study.facets import Panel, assign_looks, draw_grid
from symlab.study.tables import need

STD = {"yscale": "log", "xlabel": r"$\log_{10}$ initial std"}


def phase_diagram(tables: Tables, style: Style) -> Figure:
    events, layers = (at_drop(descents(need(tables, name))) for name in (EVENTS, LAYERS))
    events = events.assign(relative=events["speed"] / events["one_neuron"])
    shown = [
        (events, "residual", STD | {"ylabel": "at a drop of 1 %", "title": "residual"}),
        (largest(layers, "second"), "second", STD | {"title": r"$s_2/s_1$, largest of the layers"}),
        (events, "relative", STD | {"yscale": "linear", "title": "speed over one neuron's"}),
    ]
    return _panels(shown, sharey=False)


def linear_beside_relu(tables: Tables, style: Style) -> Figure:
    layers, kinds = need(tables, LAYERS), {"identity": "linear", "relu": "ReLU"}
    shown = [
        (largest(at_drop(descents(layers, kind)), "second"), "second", STD | {"ylabel": "$s_2/s_1$", "title": name})
        for kind, name in kinds.items()
    ]
    return _panels(shown, sharey="row")


def _panels(shown: list[tuple[pd.DataFrame, str, dict[str, str]]], sharey: bool | str) -> Figure:
    depths = sorted(pd.concat([rows for rows, _, _ in shown])["L"].unique())
    looks = assign_looks([f"depth {L}" for L in depths], Style(), ordered=True)
    grid = [
        Panel(
            rows.assign(label="depth " + rows["L"].astype(str), decade=np.log10(rows["std"])),
            "decade", value, axes, draw_range,
        )
        for rows, value, axes in shown
    ]  # fmt: skip
    note = "line: median of the networks; bars: from the least to the most"
    return draw_grid([grid], looks, width=PAGE, height=2.0, sharey=sharey, note=note)  # type: ignore[arg-type]


FIGURES = (
    Drawing(
        "saddle-ladder",
        "The first escape: depth and initial scale",
        "Networks of the study `{study}` that follow gradient flow from small weights, at the moment at which the "
        "loss has dropped by 1 %: how far their direction is from an escape direction, the second over the first "
        "singular value, of the layer where that is largest, and the speed of their direction as a multiple of the "
        "fastest neuron's.",
        phase_diagram,
        seen=Sentence(
            "From weights of standard deviation 0.0001, the second singular value is at most {rank} of the first at "
            "depth 6 in any layer, and the distance from an escape direction {residual}.",
            {"rank": at("saddle-ladder-rank", L=6, std=1e-4), "residual": at("saddle-ladder-direction", L=6, std=1e-4)},
        ),
        differs="Not in the paper, which says that both small weights and depth are needed (Section 5).",
    ),
    Drawing(
        "saddle-controls",
        "Linear and ReLU networks from smaller and smaller weights",
        "Second over first singular value at a drop of the loss of 1 %, of the layer where it is largest, of linear "
        "and of ReLU networks of the study `{study}`.",
        linear_beside_relu,
        seen=Sentence(
            "In linear networks of depth 3 the second singular value falls as the power {power} of the initial scale.",
            {"power": at("saddle-controls-rank", L=3)},
        ),
        differs="Not in the paper, which says that linear networks need small initial weights alone, and ReLU networks "
        "depth besides, without a run of linear ones.",
    ),
)


def residual_at_escape(tables: Tables) -> list[Found]:
    return by_network(small(at_drop(descents(tables[EVENTS]))), "residual", "std").means() or NONE_SMALL


def exponent_of_residual(tables: Tables) -> list[Found]:
    """Exponent of the initial scale in the residual at a drop of 1 %."""
    rows = at_drop(descents(tables[EVENTS]))
    return exponents(rows[rows["L"] > 2], "residual").means() or ["needs several initial scales"]


def second_at_escape(activation: str, least: int) -> Callable[[Tables], list[Found]]:
    def measure(tables: Tables) -> list[Found]:
        rows = largest(small(at_drop(descents(tables[LAYERS], activation)), least), "second")
        return by_network(rows, "second", "std").means() or NONE_SMALL

    return measure


def shallow_over_deep(tables: Tables) -> list[Found]:
    rows = largest(small(at_drop(descents(tables[LAYERS]))), "second", first=2)
    three, four = (by_network(rows[rows["L"] == L], "second", "std").keyed("dataset", "std") for L in (3, 4))
    return three.ratios(four) or ["needs depths 3 and 4 from small weights"]


def exponent_of_second(activation: str, least: int) -> Callable[[Tables], list[Found]]:
    def measure(tables: Tables) -> list[Found]:
        rows = at_drop(descents(tables[LAYERS], activation))
        found = exponents(largest(rows[rows["L"] >= least], "second"), "second").means()
        return found or [f"needs several scales of networks of depth {least} and more, activation: {activation}"]

    return measure


def half_steps(tables: Tables) -> list[Found]:
    """Residual by steps of half the length over that by whole ones, of the same networks."""
    events = tables[EVENTS]
    flow = events[(events["rule"] == "flow") & (events["activation"] == "relu")]
    whole = at_drop(descents(events))
    half = at_drop(flow[(flow["h"] < flow["h"].max()) & (flow["ends"] == flow["ends"].min())])
    found = by_network(half, "residual", "std").paired_ratios(by_network(whole, "residual", "std"))
    return found or ["needs steps of two lengths"]


NONE_SMALL: list[Found] = [f"needs networks from initial weights of {SMALL:g} and less"]
CLAIMS = (
    Claim(
        id="saddle-ladder-direction",
        statement="From small weights, networks leave the origin along an escape direction",
        quantity="|∇L0(ρ) + s ρ| / (s √L) at a drop of the loss of 1 %, mean over networks",
        bound=below(0.1),
        owner="paper",
        origin="pilot",
        reason="It is 0 along an escape direction. Another program had 0.03 to 0.08 on the same digits.",
        tables=(EVENTS,),
        measure=residual_at_escape,
    ),
    Claim(
        id="saddle-ladder-falling",
        statement="The smaller the initial weights, the closer to an escape direction networks leave",
        quantity="exponent of the initial scale in |∇L0(ρ) + s ρ| / (s √L) at a drop of 1 %, mean over networks",
        bound=above(0),
        owner="paper",
        origin="paper",
        reason="The paper's theory is of the limit of small weights; no rate is stated.",
        tables=(EVENTS,),
        measure=exponent_of_residual,
    ),
    Claim(
        id="saddle-ladder-rank",
        statement="From small weights, the first escape has rank one in every layer, the first too",
        quantity="second over first singular value at a drop of 1 %, of the layer where it is largest, mean of "
        "networks",
        bound=below(0.05),
        owner="paper",
        origin="pilot",
        reason="The paper says that one often finds exactly rank one in each layer (Section 4), and one dominant "
        "value in every layer (3.3). Another program had 0.02 to 0.03 on the same digits at depth 4 and more.",
        tables=(LAYERS,),
        measure=second_at_escape("relu", 4),
    ),
    Claim(
        id="saddle-ladder-depth",
        statement="From equal weights, deep layers are far closer to rank one at depth 4 than at depth 3",
        quantity="second over first singular value, largest from layer 2 on, at depth 3 as a multiple of that at "
        "depth 4",
        bound=at_least(10),
        owner="derived",
        origin="pilot",
        reason="The paper says that ReLU networks need both small weights and depth (Section 5). Another program had "
        "0.15 against 0.003 on the same digits from weights of 0.0001.",
        tables=(LAYERS,),
        measure=shallow_over_deep,
    ),
    Claim(
        id="saddle-ladder-exponent",
        statement="Beyond depth 3, the second singular value at the escape falls in proportion to the initial weights",
        quantity="exponent of the initial scale in the largest second over first singular value, mean over networks",
        bound=between(0.8, 1.2),
        owner="derived",
        origin="ours",
        reason="Along one direction the first value grows to a size that the loss sets, and the rest stays what it "
        "was.",
        tables=(LAYERS,),
        measure=exponent_of_second("relu", 4),
    ),
    Claim(
        id="saddle-ladder-step",
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
    Claim(
        id="saddle-controls-rank",
        statement="In linear networks, small initial weights alone make every layer rank one, whatever the depth",
        quantity="exponent of the initial scale in the largest second over first singular value, mean over networks",
        bound=between(0.8, 1.2),
        owner="paper",
        origin="derived",
        reason="The paper says that a small enough initialization is sufficient there; by the derivation of "
        "ladder-exponent the value is proportional to it.",
        tables=(LAYERS,),
        measure=exponent_of_second("identity", 3),
    ),
    Claim(
        id="saddle-controls-small",
        statement="From small weights, linear networks have rank one in every layer at the first escape",
        quantity="second over first singular value at a drop of 1 %, of the layer where it is largest, mean of "
        "networks",
        bound=below(0.05),
        owner="paper",
        origin="pilot",
        reason="As for ReLU networks; another program had 0.002 to 0.01 on the same digits.",
        tables=(LAYERS,),
        measure=second_at_escape("identity", 3),
    ),
)
