"""A panel a setting: the loss over free features, its penalty of blocks and scatter against depth; NC1 by layer."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neural_collapse import evidence
from symlab.papers.neural_collapse.evidence import DEPTHS, derived_claim, our_claim, paper_claim
from symlab.papers.neural_collapse.found import DATA, NETWORKS
from symlab.plotting.style import Axes, Figure, Look, Style, palette
from symlab.plotting.units import draw_units
from symlab.study.card import Drawing
from symlab.study.cases import Cases, Values, cases
from symlab.study.claim import Bound, Case, Claim, Found, Tables, at_least, below
from symlab.study.facets import Panel, assign_looks, draw_each, draw_grid, facets, labelled
from symlab.study.statistics import slope
from symlab.study.tables import need, some

QUANTITIES = {"excess": "loss over free features", "hidden": "penalty of blocks", "scatter": "NC1"}
SEEN, UNSEEN = "NC1 that the last layer sees", "NC1 that it does not see"
GROWN, SCRATCH, BARE = "grown", "from scratch", "without branches"
LIKE = r"$\propto\ \ln^2 L\,/\,L$"
ACROSS = 4
"""Settings beside each other; more go below."""
FALLING = 8
"""The depth from which on ln² L / L falls: it is largest at e², 7.4, and rises over depths of 2 to 13 as a whole."""


def losses_against_depth(tables: Tables, style: Style) -> Figure:
    """A column a setting: the loss over that of free features, the penalty of blocks, both parts of NC1."""
    table = evidence.networks(tables).query("not reference and optimizer == 'lbfgs' and loss != 'squared_error'")
    depths = table[table["grown"]].groupby("title", sort=False)["L"].nunique()
    settings = list(depths.index[depths >= DEPTHS])
    if not settings:
        raise UserError(f"it needs networks of {DEPTHS} depths (neural_collapse.runs).")
    table = table.assign(label=np.where(table["grown"], GROWN, SCRATCH))
    blue, orange, green, red, *_, grey = palette(style, 8)
    looks = {GROWN: Look(blue), SCRATCH: Look(orange, "", "s"), BARE: Look(grey, "--", ""), LIKE: Look(grey, ":", "")}
    looks |= {SEEN: Look(green), UNSEEN: Look(red)}
    ticks = sorted(table["L"].unique())
    grid = [
        [_panel(table[table["title"] == name], quantity, ticks) for name in settings[at : at + ACROSS]]
        for at in range(0, len(settings), ACROSS)
        for quantity in QUANTITIES
    ]
    return draw_grid(grid, looks, height=1.5, sharex="col", note=f"mean ± std of {evidence.counted(table)}")


def _panel(rows: pd.DataFrame, quantity: str, ticks: Sequence[int]) -> Panel:
    axes, told = labelled("depth L", QUANTITIES[quantity], "xy", xticks=ticks), None
    if quantity == "excess":
        axes["title"] = evidence.in_lines(rows["title"].iloc[0])
        bare = rows.drop_duplicates("L").assign(label=BARE, excess=rows["without"] - rows["free"], seed=0)
        rows = pd.concat([rows, bare[bare["excess"] > 0]])
    if quantity == "hidden":
        L = np.unique(rows["L"])
        L = L[L > 1]
        level = rows.loc[rows["L"] == L.max(), "hidden"].mean() / law_of(L)[-1]
        bound = pd.DataFrame({"L": L, "hidden": level * law_of(L), "label": LIKE, "seed": 0})
        rows = pd.concat([rows[rows["label"] == GROWN], bound])
    if quantity == "scatter":
        grown = rows[rows["label"] == GROWN]
        parts = {SEEN: "NC1_row", UNSEEN: "NC1_null"}
        rows = pd.concat([grown.assign(label=label, scatter=grown[part]) for label, part in parts.items()])
        if rows["scatter"].isna().all():
            mixed = "labels are mixed:\nnot defined"
            told = lambda axis: axis.text(0.5, 0.5, mixed, ha="center", va="center", transform=axis.transAxes)  # noqa: E731
    return Panel(rows.dropna(subset=quantity), "L", quantity, axes, _draw, more=told)


def _draw(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str) -> None:
    if label in (BARE, LIKE):
        axis.plot(rows[x], rows[y], color=look.color, linestyle=look.linestyle, marker="", linewidth=0.9)
    elif y == "hidden":
        # Of two layers a block some networks have branches and others none: there a mean is no network's.
        draw_each(axis, rows, x, y, look, label)
    else:
        draw_units(axis, rows, x, y, look, label, band=label != SCRATCH)


def grown_over_scratch(tables: Tables) -> list[Found]:
    """Loss over free features of grown networks over that of those from scratch with as many gradients, by depth.

    The first depth of a setting is left out: its lineages begin at random weights too.
    """
    table = evidence.networks(tables).query("optimizer == 'lbfgs' and not reference")
    first = table["L"].where(table["grown"]).groupby(table["setting"]).transform("min")
    table = table[table["L"] != first]
    spent = table.groupby(["setting", "L", "grown"])["work"].mean().unstack("grown").reindex(columns=[True, False])
    equal = spent.index[(spent[True] / spent[False] - 1).abs() <= 0.2]
    table = table[pd.MultiIndex.from_frame(table[["setting", "L"]]).isin(equal)]
    grown, scratch = (
        cases(rows, "excess", ["setting", "L"], name="{setting}, L = {L}")
        for rows in (table[table["grown"]], table[~table["grown"]])
    )
    return grown.ratios(scratch) or ["needs networks from scratch with as many gradients as grown ones"]


def law_of(L: np.ndarray) -> np.ndarray:
    """ln² L / L, by which the proof of Theorem 4.3 bounds the penalty of blocks but for a constant."""
    return np.log(L) ** 2 / L


def slope_over_law(penalty: pd.Series) -> float:
    """Slope of the logarithm of a penalty by depth over that of ln² L / L at the same depths."""
    return slope(penalty) / slope(pd.Series(law_of(penalty.index.to_numpy(float)), index=penalty.index))


def _deep_rn1(rows: pd.DataFrame) -> pd.Series:
    """RN1 of any loss, where ln² L / L falls."""
    plain = (rows["network"] == "rn1") & (rows["by_depth"] == "constant") & ~rows["pre_norm"]
    return plain & (rows["L"] >= FALLING)


def grown_layers(tables: Tables) -> pd.DataFrame:
    """Layers of lineages that have several depths, with what is told of their networks.

    ``before``: how many layers are between a layer and the last one; ``place``: from 0, the first, to 1, the last.
    """
    networks = evidence.lineages(tables).drop(columns="NC1")
    table = need(tables, evidence.LAYERS)
    table = table.merge(networks, on=list(table.columns.intersection(networks.columns)), validate="many_to_one")
    table = table[table.groupby(evidence.SETTING)["L"].transform("nunique") >= DEPTHS]
    last = table.groupby([*evidence.SETTING, "L", "seed"])["layer"].transform("max")
    return table.assign(before=last - table["layer"], place=(table["layer"] - 1) / (last - 1).clip(lower=1))


def collapse_by_layer(tables: Tables, style: Style) -> Figure:
    """A panel a setting: NC1 against the layer over the last one, a line a depth, mean over lineages."""
    table = some(grown_layers(tables), f"it needs networks of {DEPTHS} depths (neural_collapse.runs.L).")
    table = table.assign(label=table["L"].map("L = {}".format), log=np.log10(table["NC1"]))
    axes = labelled("place of layer", r"$\log_{10}$ NC1")
    means = table.groupby(["title", "L", "label", "place"], sort=False)["log"].mean().reset_index().assign(seed=0)
    looks = assign_looks([f"L = {L}" for L in sorted(table["L"].unique())], style, ordered=True, marked=False)
    return facets(
        means, "place", "log", looks, column="title", axes=axes, title=evidence.in_lines,
        most=ACROSS, height=1.7, sharey="none", note="mean over networks",
    )  # fmt: skip


def falls_before_the_last(tables: Tables) -> list[Found]:
    """Slope of log10 NC1 on log10 L of the first and second layer before the last, mean over lineages at an optimum."""
    table = grown_layers(tables)[evidence.of_kind("plotted", "theorem")].query("layer > 1")
    found: list[Values] = []
    for before, place in ((1, "one layer"), (2, "2 layers")):
        for each in evidence.slopes_at_optima(table[table["before"] == before], ["NC1"]):
            key = each.case.key
            found.append(replace(each, case=Case(f"{place} before the last, {key['setting']}", **key, before=before)))
    return Cases(tuple(found), "lineages").means() or [evidence.LACKS]


FIGURES = {
    "collapse-loss": Drawing(
        "Loss over the optimum, its penalty, and the scatter that is left",
        "Above: how far the loss is over the optimum of free features with the same last penalty; without branches, "
        "hidden weights are 0. Middle: the penalty of the blocks, a line a network, with the order that the proof "
        "bounds it by, drawn through the last depth. Below: NC1 split into scatter that the last layer sees (in its "
        "row space) and scatter that it does not. Study `{study}`; squared error is left out.",
        losses_against_depth,
        seen="The slope of log₁₀ of the loss over free features on log₁₀ L is {falls(value=excess)}.",
        differs="Not in the paper; the penalty's cost is what its proofs bound.",
    ),
    "collapse-layers": Drawing(
        "Collapse layer by layer",
        "log₁₀ NC1 of the features after every layer, from the first (0) to the last (1), for each depth (study "
        "`{study}`).",
        collapse_by_layer,
        seen="One layer before the last the slope of log₁₀ NC1 on log₁₀ L is {before-last(before=1)}.",
        differs="Not in the paper, which remarks that the last layers collapse too.",
    ),
}


def _scatter(part: str, by: tuple[str, ...], bound: Bound, statement: str) -> Claim:
    where = "in the last layer's row space" if part == "NC1_row" else "beyond the last layer's row space"
    chosen = lambda rows: rows["by_depth"].isin(by) & (rows["loss"] == "cross_entropy")  # noqa: E731
    return derived_claim(
        statement=statement,
        bound=bound,
        quantity=f"slope of log₁₀ of NC1 {where} on log₁₀ L, mean over lineages at an optimum",
        reason="Appendix C, corrected: scatter in the row space costs loss whatever λ is, scatter beyond it only in "
        "proportion to λ.",
        measure=partial(evidence.slopes_of, values=[part], chosen=chosen),
    )


SEEN_GOES = "Where hidden penalties vanish, scatter that the last layer sees goes"
UNSEEN_STAYS = "Where the last layer's penalty vanishes too, scatter that it does not see stays"
UNSEEN_GOES = "Where the last layer's penalty stays, scatter that it does not see goes too"
CLAIMS = {
    "collapse-loss-falls": paper_claim(
        statement="Deeper networks come closer to the least loss of free features, whatever the loss",
        quantity="slope of log₁₀ of the loss over free features on log₁₀ L, mean over lineages at an optimum",
        bound=below(0),
        reason="Theorems 4.3 and 4.6, of any continuous loss: here cross-entropy, squared error and unequal margins. "
        "By their proofs the least loss does not rise with depth.",
        measure=partial(evidence.slopes_of, values=["excess"], chosen=evidence.of_kind("plotted", "theorem")),
    ),
    "collapse-loss-hidden": derived_claim(
        statement="With one linear layer a block the penalty of all blocks together falls as its bound does",
        quantity=f"slope of log₁₀ of the penalty of hidden weights on log₁₀ L over that of ln² L / L at the same "
        f"depths, L ≥ {FALLING}, mean over lineages at an optimum",
        bound=at_least(0.5),
        origin="pilot",
        reason="Proof of Theorem 4.3: it is of order ln² L / L at most. A half is left since an order says nothing of "
        "any two depths; chosen before this ratio was computed of any run, but with penalties of some in sight.",
        measure=partial(evidence.slopes_of, values=["hidden"], chosen=_deep_rn1, several=slope_over_law),
    ),
    "collapse-loss-grown": our_claim(
        statement="Growing depths from one another ends at a lower loss than training from scratch",
        quantity="loss over free features over that from scratch with as many gradients, means over networks",
        bound=below(1),
        reason="A split spends less penalty on the same map, so that deeper networks begin where shallower ones ended. "
        "Judged so since 28 November 2026, after values were seen: a lineage's first depth, which begins at random "
        "weights too, is left out.",
        why={
            f"{NETWORKS['rn1']}, {DATA['digits']}, L = 3": "Lineages are of the higher of two kinds of solutions, "
            f"and networks from scratch of the lower {evidence.DOCS}."
        },
        measure=grown_over_scratch,
    ),
    "collapse-loss-seen": _scatter("NC1_row", ("uniform", "split"), below(0), SEEN_GOES),
    "collapse-loss-unseen-kept": _scatter("NC1_null", ("uniform",), at_least(0), UNSEEN_STAYS),
    "collapse-loss-unseen-goes": _scatter("NC1_null", ("split",), below(0), UNSEEN_GOES),
    "collapse-layers-before-last": derived_claim(
        statement="The layers before the last collapse with depth too",
        quantity="slope of log₁₀ NC1 on log₁₀ L, mean over lineages at an optimum",
        bound=below(0),
        reason="Section 4.2: any finite number of layers at the end converges to collapse. That is of a limit, and "
        "says nothing of any one depth: the paper's claim until 28 November 2026, changed after values were seen.",
        tables=(evidence.LAYERS, evidence.RUNS, evidence.SAMPLES),
        measure=falls_before_the_last,
    ),
}
