"""Ratios A, B and D: layer by layer at the first escape, near rank one; and where speed is lost, layer by layer."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.saddle_to_saddle import escapes
from symlab.papers.saddle_to_saddle.escapes import EVENTS, LAYERS, NETWORK, at_drop, by_network, descents, escaped
from symlab.plotting.style import COLUMN, PAGE, Axes, Figure, Look, Style, legend, palette, panels
from symlab.study.card import Drawing
from symlab.study.cases import cases
from symlab.study.claim import Claim, Found, Tables, at_least, below
from symlab.study.facets import Panel, assign_looks, draw_each, draw_grid, draw_rows, facets, labelled
from symlab.study.tables import need, some

POLYGON, NEAR = "polygon_budget.csv", "near_rank_one.csv"
NAMES = {"A": "A, weights", "B": "B, hidden activations", "D": "D, what relu cuts"}
BOUND = "bound of Prop. 3.3"
TERMS = {
    "rank": "rank of activations",
    "cut": "cut off by relu",
    "alignment": "weights not aligned with inputs",
    "norms": "unequal norms",
    "output": "outputs not aligned with -G",
}
DEPTH = 6
RATIOS = {"A_change": r"$A_l$ of $W_l - W_l(0)$", "B": r"$B_l$ of activations", "D": r"$D_l$, what relu cuts"}
START, THEN = "at the start", "at a drop of the loss of 1 %"


def smallest(layers: pd.DataFrame) -> pd.DataFrame:
    """The rows of ReLU networks of depth 6 from the smallest weights, at all moments."""
    return descents(layers).query("L == @DEPTH").query("std == std.min()")


def ratios_by_layer(tables: Tables, style: Style) -> Figure:
    lacking = f"it needs ReLU networks of depth {DEPTH}: add {DEPTH} to saddle_escape.descents.L."
    rows = some(smallest(need(tables, LAYERS)), lacking)
    both = pd.concat([at_drop(rows, 0).assign(label=START), at_drop(rows).assign(label=THEN)])
    looks = {START: Look(palette(style)[7]), THEN: Look(palette(style)[0])}
    axes = partial(labelled, "layer $l$", "", "y", xticks=range(1, DEPTH + 1))
    parts = {ratio: both.dropna(subset=[ratio]) for ratio in RATIOS}
    grid = [Panel(rows, "layer", ratio, axes(title=RATIOS[ratio]), draw_each) for ratio, rows in parts.items()]
    return draw_grid([grid], looks, width=PAGE, height=1.8, sharey=False, note="a line a network of depth 6")


def bars_by_layer(tables: Tables, style: Style) -> Figure:
    shown = list(_budgets(tables))
    colors = dict(zip(TERMS, palette(style), strict=False))
    figure, axes = panels(1, len(shown), PAGE, 2.6, sharex=False, sharey=True)
    for axis, (title, table) in zip(axes[0], shown, strict=True):
        _stack(axis, table, colors)
        total = table["lost"].sum()
        axis.set(title=f"{title}\nsum {total:.2f}", xlabel="layer")
    axes[0, 0].set_ylabel(r"lost of $\log(|X||G|/s)$")
    from matplotlib.patches import Patch

    legend(figure, [Patch(color=colors[term], label=name) for term, name in TERMS.items()], "")
    return figure


def _stack(axis: Axes, table: pd.DataFrame, colors: dict[str, tuple[float, float, float]]) -> None:
    layers = np.arange(table["layer"].max() + 1)
    above, under = np.zeros(len(layers)), np.zeros(len(layers))
    for term in TERMS:
        lost = table[table["term"] == term].groupby("layer")["lost"].sum().reindex(layers, fill_value=0).to_numpy()
        axis.bar(layers, lost, bottom=np.where(lost < 0, under, above), color=colors[term], width=0.8)
        above, under = above + lost.clip(min=0), under + lost.clip(max=0)
    axis.axhline(0, color="0.3", linewidth=0.6)
    axis.set_xticks(layers, ["X", *map(str, layers[1:-1]), "Y"])


def _budgets(tables: Tables) -> Iterator[tuple[str, pd.DataFrame]]:
    """Titles and tables of ``term``, ``layer`` and ``lost``: on the circle, then of the networks of each depth."""
    polygon = need(tables, POLYGON)
    circle = polygon[(polygon["N"] == 8) & (polygon["L"] == 3)]
    for of, tables_of in circle.groupby("of"):
        # What a run loses is the less the faster it is.
        width = tables_of.groupby("width")["lost"].sum().idxmin()
        yield ("Example 1" if of == "Example 1" else f"circle, width {width}"), tables_of[tables_of["width"] == width]
    for (name, L), rows in losses(tables).groupby(["dataset", "L"]):
        yield f"{name}, depth {L}", rows.groupby(["term", "layer"], as_index=False)["lost"].mean()


def losses(tables: Tables) -> pd.DataFrame:
    """Terms of ReLU networks from the smallest weights at the escape: ``NETWORK``, ``term``, ``layer``, ``lost``."""
    events, layers = (escapes.small(escaped(need(tables, name))) for name in (EVENTS, LAYERS))
    events, layers = (each[each["std"] == each["std"].min()] for each in (events, layers))
    of_layers = layers.melt([*NETWORK, "layer"], [f"lost_{term}" for term in TERMS if term != "output"], "term", "lost")
    of_layers["term"] = of_layers["term"].str.removeprefix("lost_")
    output = events.rename(columns={"lost_output": "lost"}).assign(term="output", layer=events["L"] + 1)
    # A layer has the terms that belong to it: none has relu after the outputs.
    first, above = of_layers["term"].ne("rank").astype(int), of_layers["term"].isin(["rank", "cut"])
    of_layers = of_layers[of_layers["layer"].between(first, of_layers["L"] - above)]
    return pd.concat([of_layers, output[[*NETWORK, "term", "layer", "lost"]]], ignore_index=True)


def ratios_against_noise(tables: Tables, style: Style) -> Figure:
    rows = need(tables, NEAR).groupby("noise", as_index=False).max()
    lines = [
        rows.assign(label=name, value=largest_ratio(rows, letter).clip(lower=1e-16)) for letter, name in NAMES.items()
    ]
    looks = assign_looks(list(NAMES.values()), style)
    if len(finite := rows[np.isfinite(rows["bound"])]):
        lines.append(finite.assign(label=BOUND, value=finite["bound"]))
        looks[BOUND] = Look("black", "--", "P")  # type: ignore[arg-type]
    axes = labelled("norm of the noise / norm of $uv^T$", "largest over layers", "xy")
    return facets(
        pd.concat(lines), "noise", "value", looks, axes=axes, draw=draw_rows, options={"join": True},
        width=1.3 * COLUMN, note="the largest of all draws",
    )  # fmt: skip


def largest_ratio(rows: pd.DataFrame, letter: str) -> pd.Series:
    """The largest ratio of the hidden layers (B_0 is of the inputs)."""
    return rows[[name for name in rows if name.startswith(f"{letter}_") and name != "B_0"]].max(axis=1, skipna=False)


FIGURES = {
    "saddle-ratios": Drawing(
        "Rank and linearity by layer",
        "How far each layer of the study's networks of depth 6 from the smallest weights is from rank one (A, of the "
        "change of the weights; B, of the activations) and from linear (D: the share that relu cuts), at the start "
        "and when the loss has dropped by 1 %.",
        ratios_by_layer,
        seen="Until the loss has dropped by 1 %, B falls to {first(ratio=B)} of its value at the start in layer 1, D to"
        " {first(ratio=D)}.",
        differs="Not in the paper, whose Theorem 3.1 bounds these ratios; on the circle the "
        "bound says nothing below 1420 layers.",
    ),
    "saddle-budget": Drawing(
        "Where speed is lost",
        "The escape speed s of weights on the sphere is |X| |G| but for what is lost on the way: log(|X| |G| / s) is a "
        "sum over layers of what the activations' rank, relu and the alignment of weights with their inputs cost, of "
        "what unequal norms of the layers do (in sum no gain), and of how far the outputs point from -G. Bars at X are "
        "of the inputs, at Y of the outputs. On the circle: Example 1 and the fastest run; of the study `{study}`: "
        "means over its networks from the smallest weights, when the loss has dropped by 1 %.",
        bars_by_layer,
        seen="Layers from the third on lose {deep:%} of all that networks of depth 6 lose.",
        differs="Not in the paper; the identity is behind its Proposition 3.4.",
    ),
    "saddle-prop3.3": Drawing(
        "Ratios for inputs near rank one",
        "Largest A, B and D over the layers, and over draws, of the fastest escape direction found for inputs uvᵀ + "
        "E, against the norm of E; black, where finite, the bound of Proposition 3.3. Values near 1e-16, the least "
        "drawn, are 0 up to rounding.",
        ratios_against_noise,
        seen="With noise of 0.4 times the norm of the rank-one part, weights are {exact(ratio=A, noise=0.4)} beyond "
        "rank one, activations {exact(ratio=B, noise=0.4)}.",
        differs="Not in the paper, which proves the bound and conjectures exact rank one in most layers.",
    ),
}


def over_start(tables: Tables, layers: Sequence[int]) -> list[Found]:
    rows = smallest(tables[LAYERS]).melt([*NETWORK, "event", "layer"], ["B", "D"], "ratio").query("layer in @layers")
    before, then = (rows[rows["event"] == event] for event in (0, escapes.ESCAPE))
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
    return by_network(escapes.largest(rows, "drift"), "drift", "std").means()


LACKS = f"needs networks of depth {DEPTH}"
_claim = partial(Claim, owner="derived", origin="ours", tables=(LAYERS,))


def lost_in_deep_layers(tables: Tables) -> list[Found]:
    rows = losses(tables).query("L == 6")
    # Example 1, the paper's own, loses speed in the first two.
    inner = rows["term"].isin(["rank", "cut", "alignment"]) & (rows["layer"] >= 3)
    deep, whole = (by_network(of, "lost", several="sum") for of in (rows[inner], rows))
    return (deep / whole).means() or ["needs networks of depth 6 from small weights"]


def beyond_rank_one(tables: Tables) -> list[Found]:
    """The largest A and B over layers, the worst of all draws, a case a norm of the noise below 1."""
    rows = tables[NEAR].query("noise < 1")
    both = pd.concat([rows.assign(ratio=ratio, value=largest_ratio(rows, ratio)) for ratio in "AB"])
    return cases(both, "value", ("ratio", "noise"), "seed", "{ratio}, noise {noise:g}").of_all(np.max)


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
    "saddle-budget-deep": _claim(
        statement="At the first escape, layers from the third on lose next to no speed",
        quantity="their share in log(|X| |G| / s), by rank, relu and alignment, mean over networks of depth 6",
        bound=below(0.1),
        reason="Rank one and linear layers lose none; they are four of six layers.",
        tables=(EVENTS, LAYERS),
        measure=lost_in_deep_layers,
    ),
    "saddle-prop3.3-exact": _claim(
        statement="For inputs near rank one, the fastest direction has weights and activations of exactly rank one",
        quantity="largest A and B over layers of the fastest of all starts, the worst draw",
        bound=below(1e-6),
        owner="ours",
        reason="The paper proves a bound that falls with the noise. Exact rank one it conjectures of any inputs, at "
        "most layers (Section 5), and not of all layers here; 1e-6 is left for descents that have not quite ended.",
        tables=(NEAR,),
        measure=beyond_rank_one,
    ),
}
