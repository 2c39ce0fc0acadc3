"""A_l, B_l and D_l layer by layer at the first escape, beside their values at the start, and what goes with them."""

from collections.abc import Sequence
from functools import partial

import pandas as pd

from symlab.papers.saddle_to_saddle.escapes import ESCAPE, LAYERS, NETWORK, at_drop, by_network, descents, largest
from symlab.plotting.style import PAGE, Figure, Look, Style, palette
from symlab.study.card import Drawing, Sentence, at
from symlab.study.claim import Claim, Found, Tables, at_least, below
from symlab.study.facets import Panel, draw_each, draw_grid
from symlab.study.tables import need

DEPTH = 6
RATIOS = {"A_change": r"$A_l$ of $W_l - W_l(0)$", "B": r"$B_l$ of activations", "D": r"$D_l$, what relu cuts"}
START, THEN = "at the start", "at a drop of the loss of 1 %"


def smallest(layers: pd.DataFrame) -> pd.DataFrame:
    """The rows of ReLU networks of depth 6 from the smallest weights, at all moments."""
    rows = descents(layers)
    rows = rows[rows["L"] == DEPTH]
    return rows[rows["std"] == rows["std"].min()]


def ratios_by_layer(tables: Tables, style: Style) -> Figure:
    rows = smallest(need(tables, LAYERS))
    both = pd.concat([at_drop(rows, 0).assign(label=START), at_drop(rows).assign(label=THEN)])
    looks = {START: Look(palette(style)[7]), THEN: Look(palette(style)[0])}
    grid = [
        Panel(
            both.dropna(subset=[ratio]), "layer", ratio,
            {"yscale": "log", "xlabel": "layer $l$", "title": title, "xticks": range(1, DEPTH + 1)}, draw_each,
        )
        for ratio, title in RATIOS.items()
    ]  # fmt: skip
    return draw_grid([grid], looks, width=PAGE, height=1.8, sharey=False, note="a line a network of depth 6")


FIGURES = {
    "saddle-ratios": Drawing(
        "Rank and linearity by layer",
        "How far each layer of the study's networks of depth 6 from the smallest weights is from rank one (A, of the "
        "change of the weights; B, of the activations) and from linear (D: the share that relu cuts), at the start "
        "and when the loss has dropped by 1 %.",
        ratios_by_layer,
        seen=Sentence(
            "Until the loss has dropped by 1 %, B falls to {B1} of its value at the start in layer 1, D to {D1}.",
            {"B1": at("saddle-ratios-first", ratio="B"), "D1": at("saddle-ratios-first", ratio="D")},
        ),
        differs="Not in the paper, whose Theorem 3.1 bounds these ratios; on the circle the "
        "bound says nothing below 1420 layers.",
    ),
}


def over_start(tables: Tables, layers: Sequence[int]) -> list[Found]:
    rows = smallest(tables[LAYERS]).melt([*NETWORK, "event", "layer"], ["B", "D"], "ratio")
    rows = rows[rows["layer"].isin(layers)]
    before, then = (rows[rows["event"] == event] for event in (0, ESCAPE))
    then = before[[*NETWORK, "layer", "ratio"]].merge(then, how="left")
    each, base = (by_network(of, "value", "ratio", "layer") for of in (then, before))
    return (each / base).means() or [LACKS]


def at_escape(tables: Tables, value: str, layers: Sequence[int]) -> list[Found]:
    """A value of layers at a drop of 1 %, mean over networks, a case a layer."""
    rows = at_drop(smallest(tables[LAYERS]))
    return by_network(rows[rows["layer"].isin(layers)], value, "layer").means() or [LACKS]


def drift_at_end(tables: Tables) -> list[Found]:
    """Change of weak balancedness at a run's last drop, of the layer where it is largest."""
    rows = descents(tables[LAYERS])
    rows = at_drop(rows[rows["layer"].between(1, rows["L"] - 1)], rows["ends"].max())
    return by_network(largest(rows, "drift"), "drift", "std").means()


LACKS = f"needs networks of depth {DEPTH}"
_claim = partial(Claim, owner="derived", origin="ours", tables=(LAYERS,))
CLAIMS = {
    "saddle-ratios-deep": _claim(
        statement="The first escape makes all layers but the first nearly rank one and linear",
        quantity="B_l and D_l at a drop of the loss of 1 % as multiples of those at the start, mean over networks",
        bound=below(0.1),
        owner="paper",
        reason="The paper says approximately; a tenth of what random weights of this depth have, because B falls with "
        "the layer without any training.",
        measure=partial(over_start, layers=(2, 3, 4, 5)),
    ),
    "saddle-ratios-first": _claim(
        statement="It makes the first layer so too, where one neuron is the fastest",
        quantity="B_1 and D_1 at a drop of the loss of 1 % as multiples of those at the start, mean over networks",
        bound=below(0.1),
        origin="pilot",
        reason="One neuron a layer is rank one in every layer; another program had 0.001 for B_1 and 0.005 for D_1.",
        measure=partial(over_start, layers=(1,)),
    ),
    "saddle-ratios-sign": _claim(
        statement="From the second layer on, the first input direction of the weights has one sign",
        quantity="share of its square in the entries of one sign, mean over networks",
        bound=at_least(0.99),
        reason="It is that of activations, which are nowhere negative (Lemma A.6); a random direction has about 0.5.",
        measure=partial(at_escape, value="one_sign", layers=range(2, DEPTH + 1)),
    ),
    "saddle-ratios-balanced": _claim(
        statement="At the escape, neighbouring layers are strongly balanced",
        quantity="|W_{l+1}ᵀ W_{l+1} - W_l W_lᵀ| over |W_l W_lᵀ|, mean over networks",
        bound=below(0.1),
        reason="The paper says that strong balancedness holds where pre-activations are not negative (Section 5), "
        "which D_l near 0 is; random weights have about 1.",
        measure=partial(at_escape, value="strong", layers=range(1, DEPTH)),
    ),
    "saddle-ratios-conserved": _claim(
        statement="The descent conserves weak balancedness, as gradient flow does",
        quantity="change of the diagonal of W_{l+1}ᵀ W_{l+1} - W_l W_lᵀ over |θ|² / L, mean over networks",
        bound=below(1e-2),
        kind="check",
        owner="paper",
        reason="Gradient flow conserves it exactly (Section 5); what changes it are the lengths of steps.",
        measure=drift_at_end,
        also=("saddle-3", "saddle-4"),
    ),
}
