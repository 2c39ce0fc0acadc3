"""Figs. 1, 3 and 4, and the next saddle: losses and singular values of networks that leave the origin."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.saddle_to_saddle.escapes import LAYERS, NETWORK, at_drop, by_depth, by_network
from symlab.papers.saddle_to_saddle.settings import LEFT
from symlab.plotting.style import PAGE, Figure, Look, Style, palette
from symlab.study.card import Drawing
from symlab.study.cases import Cases
from symlab.study.claim import Case, Claim, Found, Tables, above, at_least, below, not_measured, share_of
from symlab.study.facets import Panel, assign_looks, draw_each, draw_grid, draw_rows, labelled
from symlab.study.tables import need, some
from symlab.words import counted

COURSE, SPECTRA, NEXT = "escape_course.csv", "escape_spectra.csv", "escape_next.csv"
VALUES = [f"s{place}" for place in range(1, 11)]
NAMES, OTHERS = {"s1": "$s_1$", "s2": "$s_2$"}, "$s_3$ to $s_{10}$"
STEPS = "gradients"


def farthest(table: pd.DataFrame, L: int | None = None) -> pd.DataFrame:
    """The rows of the ReLU networks that go farthest, of a depth or of all, from the largest weights, by the flow."""
    chosen = table.query("activation == 'relu' and rule == 'flow'").query("ends == ends.max()")
    chosen = chosen.query("std == std.max()")
    chosen = chosen if L is None else chosen[chosen["L"] == L]
    return chosen[chosen["dataset"] == chosen["dataset"].iloc[0]] if len(chosen) else chosen


def late_in_escape(layers: pd.DataFrame) -> pd.DataFrame:
    """The layers at the last drop that was measured of the first escape, before the plateau that follows."""
    return at_drop(layers, layers.loc[layers["event"] <= LEFT, "event"].max()) if len(layers) else layers


def two_escapes(tables: Tables, style: Style) -> Figure:
    lacking = "it needs ReLU networks that follow the flow: add those to saddle_escape.descents."
    course, spectra = (some(farthest(need(tables, name)), lacking) for name in (COURSE, SPECTRA))
    L = int(course["L"].max())
    course, spectra = course[course["L"] == L], spectra[spectra["L"] == L]
    course = course.assign(loss=1 - course["drop"], label="a network")
    long = spectra.melt(["gradients", "drop", "layer"], VALUES, "place", "value").dropna()
    long = long.assign(index=long["place"].str[1:].astype(int), label="layer " + long["layer"].astype(str))
    first, end = long.loc[long["drop"] >= min(LEFT, long["drop"].max()), "gradients"].min(), long["gradients"].max()
    looks = {"a network": Look(palette(style)[7], marker="")}
    looks |= assign_looks([f"layer {layer}" for layer in range(1, L + 1)], style, ordered=True)
    axes = partial(labelled, "index", "singular value", xticks=[1, 5, 10], ylim=(0, None))
    grid = [Panel(course, "gradients", "loss", labelled(STEPS, r"loss / $\log k$", title="a"), draw_each)]
    # A run that ends in the first escape has no second moment.
    moments = {first: "b"} if first == end else {first: "b", end: "c"}
    for moment, letter in moments.items():
        rows = long[long["gradients"] == moment]
        title = f"{letter}: at a drop of {rows['drop'].iloc[0]:.2g}"
        grid.append(Panel(rows, "index", "value", axes(title=title), draw_rows, {"join": True}))
    shown = ", ".join(moments.values())
    note = f"depth {L}, {counted(course['seed'].nunique(), 'networks')}; {shown}: the first of them"
    return draw_grid([grid], looks, width=PAGE, height=2.0, sharex=False, sharey=False, note=note)


def singular_values_over_training(tables: Tables, style: Style, L: int) -> Figure:
    lacking = f"it needs networks of depth {L}: add {L} to saddle_escape.descents.L."
    spectra, course = (some(farthest(need(tables, name), L), lacking) for name in (SPECTRA, COURSE))
    long = spectra.melt(["gradients", "layer"], VALUES, "place", "value").dropna()
    long["label"] = long["place"].map(NAMES).fillna(OTHERS)
    loss = course[course["seed"] == course["seed"].min()].assign(label="loss", loss=lambda rows: 1 - rows["drop"])
    blue, red, grey = (palette(style)[place] for place in (0, 3, 7))
    colors = {OTHERS: grey, NAMES["s1"]: blue, NAMES["s2"]: red, "loss": (0, 0, 0)}
    looks = {name: Look(color, marker="") for name, color in colors.items()}
    half = -(-L // 2)
    layers = []
    for layer, rows in long.groupby("layer"):
        axes = labelled(STEPS, "" if layer % half != 1 else "singular value", title=f"layer {layer}")
        layers.append(Panel(rows, "gradients", "value", axes, draw_each, {"unit": ["place"]}))
    axes = labelled(STEPS, "", title=r"loss / $\log k$")
    of_loss = Panel(loss, "gradients", "loss", axes, draw_rows, {"join": True, "linewidth": 0.8})
    grid = [[*layers[:half], of_loss], layers[half:]]
    return draw_grid(grid, looks, width=PAGE, height=1.5, sharey=False, note=f"one network of depth {L}")


def left(table: pd.DataFrame) -> pd.DataFrame:
    """The networks that have left the second plateau within the run."""
    return table[(table["ends"] == table["ends"].max()) & (table["left"] == 1)]


def predicted_and_gained(tables: Tables, style: Style) -> Figure:
    rows = by_depth(left(need(tables, NEXT))).eval("relative = gained_speed / next_speed")
    looks = assign_looks(list(rows["label"].unique()), style, ordered=True)
    shown = {
        "cosine": "cosine to new neuron",
        "relative": "speed over its speed",
        "second_gained": "$s_2/s_1$ of what is gained",
    }
    axes = partial(labelled, "depth $L$", "", ylim=(-0.05, 1.05), xticks=sorted(rows["L"].unique()))
    grid = [Panel(rows, "L", value, axes(title=title), draw_rows) for value, title in shown.items()]
    return draw_grid([grid], looks, width=PAGE, height=1.8, note="a mark a network that has left the second plateau")


FIGURES = {
    "saddle-1": Drawing(
        "Losses and singular values on the way from the origin",
        "Networks of the study `{study}` of the greatest depth that follow gradient flow from small weights. (a) "
        "Training loss over that of the outputs 0 against the gradients taken, a line a network; then the ten largest "
        "singular values of each layer of one network: (b) when the loss has dropped by 0.1 of that of the outputs 0, "
        "or at the end of a run that ends before, and (c) at the end of one that goes on.",
        two_escapes,
        seen="At the last measured drop of the loss of up to 10 % the second singular value of the last layer is "
        "{one-value(L=6, layer=6)} of the first, of the first layer {one-value(L=6, layer=1)}.",
        differs="The paper trains by SGD for 1000 epochs; here networks follow gradient flow. Singular values are of "
        "the first network; the claim on a second one is of those networks, of depths 4 and 6, that left the second "
        "plateau within their run.",
    ),
    **{
        figure: Drawing(
            f"Singular values over training, depth {L}",
            "The ten largest singular values s of each layer, a panel each, and the training loss over that of the "
            f"outputs 0, of one network of depth {L} of the study `{{study}}` that follows gradient flow from small "
            "weights, against the gradients taken: steps of 3 % of |θ|, shorter ones where the path turns.",
            partial(singular_values_over_training, L=L),
            differs="The paper trains by SGD. The network drawn is the first, which need not be one that the claim is "
            "of.",
        )
        for figure, L in (("saddle-3", 6), ("saddle-4", 4))
    },
    "saddle-next": Drawing(
        "The second escape, and a new neuron at the second plateau",
        "Networks of the study `{study}` between the second plateau, where the loss is flattest over log s after the "
        "first escape, and the end of their runs: what their weights have gained. It is set beside the fastest neuron "
        "for the cost's gradient at the plateau, which would leave if it stood beside the network.",
        predicted_and_gained,
        seen="The first layer's gain has a cosine of {neuron(L=3)} to the new neuron at depth 3.",
        differs="Not in the paper, which conjectures that saddles of growing bottleneck rank follow (Section 5).",
    ),
}


def second_late_in_escape(tables: Tables) -> list[Found]:
    rows = late_in_escape(farthest(tables[LAYERS], 6))
    return _at_last_drop(by_network(rows[rows["layer"] > 0], "second", "layer"), rows).means() or [LACKS]


def _at_last_drop(found: Cases, rows: pd.DataFrame) -> Cases:
    """Values with the drop of the loss at which they were measured as their detail."""
    return found.detailed(lambda _: f"at a drop of {rows['event'].max():g}")


def second_on_plateau(tables: Tables) -> list[Found]:
    """The largest second over first singular value after a drop of ``LEFT``, of networks that stay on the plateau."""
    stay = farthest(tables[NEXT], 6).query("left == 0")[NETWORK]
    rows = farthest(tables[SPECTRA], 6).query("drop > @LEFT").merge(stay)
    found = by_network(rows, "s2 / s1", "layer", several="max").means()
    return found or ["needs spectra of networks of depth 6 that stay on the second plateau"]


def deeper_layers_less_spread(tables: Tables) -> list[Found]:
    """Mean A of dW_4 and dW_5 minus that of dW_2 and dW_3 late in the first escape, networks of depth 6."""
    rows = late_in_escape(farthest(tables[LAYERS], 6))
    deep, shallow = (by_network(rows[rows["layer"].isin(layers)], "A_change") for layers in ((4, 5), (2, 3)))
    return (deep - shallow).means() or [LACKS]


def second_gained(tables: Tables) -> Iterator[Found]:
    """Second over first singular value at the end over that late in the first escape, of networks that leave twice."""
    runs = {L: farthest(tables[LAYERS], L) for L in (4, 6)}
    beyond = {L: rows for L, rows in runs.items() if (rows["ends"] > LEFT).any()}
    if not beyond:
        yield "needs runs beyond the first escape"
    for L, rows in beyond.items():
        end = rows[rows["event"] == rows["ends"]]
        if end.empty:
            yield not_measured(Case(f"depth {L}", L=L), "no network leaves the second plateau within its run")
            continue
        after = late_in_escape(rows).merge(end[NETWORK].drop_duplicates())
        both = (by_network(each[each["layer"] > 0], "second", "layer") for each in (end, after))
        yield from (next(both) / next(both)).means()


def wider_at_depth_6(tables: Tables) -> list[Found]:
    """Share of the seeds whose second plateau is wider, in decades of s, at depth 6 than at depth 4.

    A plateau on which the run ends is at least so wide; a seed of which that leaves the answer open is undefined.
    """
    six, four = (_plateaus(tables, L) for L in (6, 4))
    both = six.add_suffix("_six").join(four.add_suffix("_four"), how="inner")
    both = some(both, "needs runs of depths 6 and 4 beyond the first escape")
    wider = both["decades_six"] > both["decades_four"]
    defined = both[["decades_six", "decades_four"]].notna().all(axis=1)
    known = np.where(wider, both["left_four"], both["left_six"]).astype(bool) & defined
    told = ", ".join(f"{row.decades_six:.2g} against {row.decades_four:.2g}" for row in both.itertuples())
    if not known.all():
        return [f"runs are too short to tell: decades of s {told}, of which some are undefined or not yet over"]
    return [share_of(int(wider.sum()), len(both), detail=f"decades of s: {told}", unit="seeds")]


def _plateaus(tables: Tables, L: int) -> pd.DataFrame:
    """``decades`` of s from the first escape to the end, and whether the network has ``left``, by seed."""
    ends, course = (farthest(tables[name], L) for name in (NEXT, COURSE))
    if ends.empty or not (ends["ends"] > LEFT).any():
        return pd.DataFrame(columns=["decades", "left"])
    start = course[course["drop"] >= LEFT].groupby("seed")["s"].min()
    rows = ends.set_index("seed")
    return pd.DataFrame({"decades": np.log10(rows["s"] / start), "left": rows["left"]})


LACKS = "needs networks of depth 6"


def of_those_that_left(tables: Tables, value: str) -> list[Found]:
    return by_network(left(tables[NEXT]), value).means() or ["no network has left the second plateau within its run"]


LATE = "at the last measured drop of the loss of up to 10 %"
READ = (
    "The paper reads the first escape after it, at an iteration marked in Fig. 1; here it is read before the plateau. "
    "Told so since 28 November 2026, after values were seen."
)
NOT_ITS_MOMENT = f"{READ} Until then the claim was booked as the paper's."
_claim = partial(Claim, owner="paper", origin="ours", tables=(LAYERS,))
NO_SADDLE = (
    "The loss is flattest at the second plateau, not still: weights go on growing there, and what they gain may hold "
    "growth along the old direction."
)
_next_claim = partial(Claim, owner="ours", origin="ours", tables=(NEXT,))
CLAIMS = {
    "saddle-1-one-value": _claim(
        statement="Late in the first escape one singular value dominates every layer",
        quantity=f"second over first singular value {LATE}, mean over networks of depth 6",
        bound=below(0.5),
        reason="The paper sees a single dominant singular value in every layer; what dominates is twice as large. "
        + NOT_ITS_MOMENT,
        owner="derived",
        measure=second_late_in_escape,
    ),
    "saddle-1-plateau": _claim(
        statement="After the first escape one singular value dominates every layer",
        quantity="second over first singular value, its largest from a drop of the loss of 10 % to the end of a run "
        "that stays on the second plateau, mean over networks of depth 6 whose spectra are kept",
        bound=below(0.5),
        reason="The paper sees a single dominant singular value in every layer; what dominates is twice as large. A "
        "claim since 28 November 2026, after values were seen.",
        origin="pilot",
        tables=(SPECTRA, NEXT),
        measure=second_on_plateau,
    ),
    "saddle-1-deeper": _claim(
        statement="Late in the first escape, deeper layers are closer to rank one",
        quantity=f"A of W - W(0) {LATE}, layers 4 and 5 minus layers 2 and 3, mean over networks of depth 6",
        bound=below(0),
        origin="paper",
        owner="derived",
        reason="The paper says more pronounced in layers 4 to 6; layers of equal shape are compared, and the change of "
        f"the weights, which holds no initial noise. {NOT_ITS_MOMENT}",
        measure=deeper_layers_less_spread,
    ),
    "saddle-3-second": _claim(
        statement="With the second escape a second singular value appears in every layer",
        quantity=f"second over first singular value at the end as a multiple of that {LATE}, mean of networks",
        bound=above(2),
        reason=f"The paper sees a second dominant singular value at the end; it does not say how large. {READ}",
        measure=second_gained,
        also=("saddle-1", "saddle-4"),
    ),
    "saddle-4-longer-plateau": _claim(
        statement="The second plateau is more distinct at depth 6 than at depth 4",
        quantity="share of seeds whose second plateau is wider in decades of s",
        bound=at_least(0.8),
        reason="The paper says more distinct plateaus; four of five seeds. Times are compared in log10 of s, because "
        "the rate makes depth 4 leave the origin ten thousand times sooner.",
        tables=(COURSE, NEXT),
        measure=wider_at_depth_6,
    ),
    "saddle-next-neuron": _next_claim(
        statement="The second escape is that of the fastest new neuron at the second plateau",
        quantity="cosine of what the first layer gains in it to that neuron's input weights, mean over networks",
        bound=at_least(0.9),
        reason="What the paper's theory of the origin would say if new neurons left beside a network that stays as "
        "it is.",
        measure=partial(of_those_that_left, value="cosine"),
        why=NO_SADDLE,
    ),
    "saddle-next-rank": _next_claim(
        statement="The second escape has rank one in every layer",
        quantity="second over first singular value of what weights gain, of the layer where it is largest, mean of "
        "networks",
        bound=below(0.2),
        reason="A new neuron a layer adds one; a fifth is left for what the first one still gains.",
        measure=partial(of_those_that_left, value="second_gained"),
        why=NO_SADDLE,
    ),
}
