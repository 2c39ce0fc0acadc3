"""Made data: Lemma 4.2 with its converse, the example of one dimension, Appendix C's perturbed classes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.neural_collapse.evidence import derived_claim
from symlab.plotting.style import Axes, Figure, Look, Style, ordered_colors, palette
from symlab.plotting.units import draw_units
from symlab.study.card import Drawing
from symlab.study.cases import Cases, cases
from symlab.study.claim import Claim, Found, Measurement, Tables, at_least, at_most, below, between
from symlab.study.facets import Panel, assign_looks, draw_grid, draw_rows, facets, labelled
from symlab.study.statistics import slope
from symlab.study.tables import need
from symlab.words import counted

FREE, SCALAR = "free_features.csv", "scalar_depth.csv"
LAYERS = {1: "one layer a block", 2: "two layers"}
CLOSE = 1e-3
"""The excess and metrics that count as none: L-BFGS ends where it is told to."""
PERTURBED = "perturbed_classes.csv"
CLASS_SPACE = "class space"
SMALL, LARGE = 0.05, 0.2
"""Largest perturbation that counts as small, least that counts as large."""
CONTROL = "RN2 constant"
SEEN = ", seen"


def lemma_and_example(tables: Tables, style: Style) -> Figure:
    """Left: what minimised free features leave of collapse, a mark a start. Right: squared weights of the example."""
    free, scalar = need(tables, FREE), need(tables, SCALAR)
    long = free.melt(["loss", "seed", "excess"], ["NC1", "NC2", "NC3"], "metric", "value")
    long = long.assign(label=long["loss"].str.replace("_", " "), value=long["value"].clip(lower=1e-16))
    losses = list(dict.fromkeys(long["label"]))
    marks = {name: replace(look, linestyle="") for name, look in assign_looks(losses, style).items()}
    places = {"NC1": 0, "NC2": 1, "NC3": 2}
    spread = long.groupby(["metric", "label"], sort=False).ngroup() % len(marks)
    long["x"] = long["metric"].map(places) + 0.2 * (spread - 1)
    axes = labelled("", "metric at the optimum of free features", "y")
    left = Panel(long, "x", "value", axes, draw_rows, more=lambda axis: axis.set_xticks(range(3), list(places)))
    trained = scalar.assign(label=scalar["layers"].map(LAYERS))
    closed = trained.drop_duplicates(["L", "layers"])
    closed = closed.assign(trained=closed["closed"], label=closed["label"] + ", closed form")
    colors = dict(zip(LAYERS.values(), palette(style, 5)[3:], strict=True))
    looks = marks | {name: Look(color, "", "x") for name, color in colors.items()}
    looks |= {f"{name}, closed form": Look(color, "--", "") for name, color in colors.items()}
    axes = labelled("depth L", "squared weights", "xy", xticks=sorted(scalar["L"].unique()))
    right = Panel(pd.concat([trained, closed]), "L", "trained", axes, draw_rows, {"join": True})
    return draw_grid([[left, right]], looks, height=2.4, sharex="none", sharey="none")


def worst_of_loss(tables: Tables, values: tuple[str, ...], less: float = 0.0) -> list[Found]:
    """The largest of some values (less a number) of all starts, a case a loss."""
    worst = (tables[FREE].set_index(["loss", "seed"])[list(values)] - less).abs().max(axis=1, skipna=False)
    return cases(worst, by=["loss"], name=lambda key: key["loss"].replace("_", " ")).of_all(np.max)


def collapsed_at_optimum(tables: Tables) -> Iterator[Found]:
    """The largest metric of all starts, a case a loss; undecided where one has not reached the least loss."""
    far = worst_of_loss(tables, ("excess",))
    for each, over in zip(worst_of_loss(tables, ("NC1", "NC2", "NC3")), far, strict=True):
        assert isinstance(each, Measurement) and isinstance(over, Measurement)
        close = over.value <= CLOSE
        late = "" if close else f"not at an optimum: a start ended {over.value:.2g} of the least loss above it"
        yield replace(each, open=late)


def slope_of_example(tables: Tables, layers: int) -> list[Found]:
    """Slope of log squared weights on log L over all depths, mean over starts."""
    rows = tables[SCALAR].query("layers == @layers").set_index("L")
    return cases(rows, "trained", name=LAYERS[layers], several=slope).means() if len(rows) else ["needs the example"]


def perturbed(tables: Tables) -> pd.DataFrame:
    """Networks with what is ``left`` of NC1 of the first features at the end, and what the last layer has ``seen``."""
    table = need(tables, PERTURBED)
    left, seen = (table[name] / table["NC1_in"] for name in ("NC1", "NC1_row"))
    return table.assign(left=left, seen=seen, scheme=table["scheme"].str.replace("rn", "RN"))


def left_of_perturbation(tables: Tables, style: Style) -> Figure:
    """NC1 out over NC1 in against the perturbation's size; a row a placement, a column a scheme, a colour a depth."""
    table = perturbed(tables)
    depths = sorted(table["L"].unique())
    looks = {f"L = {L}": Look(color) for L, color in zip(depths, ordered_colors(len(depths)), strict=True)}
    looks |= {name + SEEN: Look(look.color, ":", "") for name, look in looks.items()}
    table = table.assign(label=table["L"].map("L = {}".format))
    seen = table[table["placement"] == CLASS_SPACE]
    rows = pd.concat([table, seen.assign(left=seen["seen"], label=seen["label"] + SEEN)])
    return facets(
        rows, "eps", "left", looks, row="placement", column="scheme", draw=_draw, height=1.9,
        axes=labelled(r"$\epsilon$", "NC1 out / in", "xy", xticks=sorted(table["eps"].unique())),
        more=lambda axis, _: axis.axhline(1, color="0.5", linestyle="--", linewidth=0.8),
        rows_named=[f"E in {place}" for place in dict.fromkeys(table["placement"])],
        note=f"mean ± std of {counted(table['seed'].nunique(), 'networks')}; dotted: what the last layer sees",
    )  # fmt: skip


def _draw(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str) -> None:
    if label.endswith(SEEN):
        means = np.exp(np.log(rows[y]).groupby(rows[x]).mean())
        axis.plot(means.index, means, color=look.color, linestyle=":", marker="", linewidth=0.9)
    else:
        draw_units(axis, rows, x, y, look, label, band=False)


def _cases(rows: pd.DataFrame, value: str, schemes: Sequence[str], more: str = "") -> Cases:
    """A case a scheme, placement and depth; a seed's perturbation of each size is a network of its own.

    Undecided where a loss is above that without branches.
    """
    rows = rows[rows["scheme"].isin(schemes)]
    late = rows["total"] > 1.001 * rows["without"]  # A thousandth counts as none.
    by = ["scheme", "placement", "L", *(["eps"] if more else [])]
    found = cases(rows, value, by, ("seed", "eps"), "{scheme}, E in {placement}, L = {L}" + more)
    why = "not at an optimum: a loss is above that without branches" if late.any() else ""
    return Cases(tuple(replace(each, open=why) for each in found), "networks")


def left_of_small(tables: Tables, scheme: str) -> list[Found]:
    """What the deepest networks leave of small perturbations, a case a placement."""
    rows = perturbed(tables).query("eps <= @SMALL and L == L.max()")
    return _cases(rows, "left", [scheme]).means() or [f"needs perturbations of at most {SMALL:g}"]


def seen_of_small(tables: Tables, scheme: str) -> list[Found]:
    """What the last layer of the deepest networks sees of small perturbations of class space, a case a size."""
    rows = perturbed(tables).query("eps <= @SMALL and L == L.max() and placement == @CLASS_SPACE")
    found = _cases(rows, "seen", [scheme], ", ε = {eps:g}")
    return found.means() or [f"needs perturbations of at most {SMALL:g}"]


def left_over_control(tables: Tables, schemes: Sequence[str]) -> list[Found]:
    """What the deepest networks leave of large perturbations over what the control leaves, or over all if that is less.

    What a control adds to a perturbation is not removed by a network that leaves it as it is.
    """
    rows = perturbed(tables).query("eps >= @LARGE and L == L.max()")
    left = _cases(rows, "left", [*schemes, CONTROL], ", ε = {eps:g}")
    control = left.at(scheme=CONTROL).map(lambda values: values.clip(upper=1)).keyed("placement", "L", "eps")
    found = left.without(scheme=CONTROL).ratios(control)
    return found or [f"needs perturbations of at least {LARGE:g} and {CONTROL}"]


FIGURES = {
    "collapse-perturbed": Drawing(
        "Appendix C: inputs next to collapse",
        "NC1 of the last features over that of the first, of networks trained by squared error on one point a class "
        "and a perturbation E of norm ε, through an embedding that is not trained (study `{study}`). E lies in the "
        "space of the classes, or in other dimensions. Networks begin at the optimum of those without branches, with "
        "branches of a hundredth of random weights. Dotted: the part of NC1 in the last layer's row space.",
        left_of_perturbation,
        seen="Of large perturbations the deepest networks leave {leaves} of what the control leaves.",
        differs="The paper describes these inputs and does not train on them.",
    ),
    "collapse-lemmas": Drawing(
        "Free features collapse, and what depth costs in one dimension",
        "Left: NC1, NC2 and NC3 of free features and a last layer that L-BFGS has minimised from random starts "
        "(study `{study}`). Right: least squared weights with which residual networks of one dimension multiply by e, "
        "trained, and in closed form: L (e^(1/L) − 1)² with one layer a block, 2 L (e^(1/L) − 1) with two.",
        lemma_and_example,
        seen="The slope of the squared weights on the depth is {one} with one layer and {two} with two.",
        differs="The paper proves the one and counts the other; of two layers it counts one matrix.",
    ),
}


def _of_small(measure: Callable[..., Sequence[Found]], scheme: str, part: str = "") -> partial[Claim]:
    return partial(
        Claim,
        quantity=f"NC1 of the last features{part} over that of the first, ε ≤ {SMALL:g}, mean over the deepest "
        "networks",
        tables=(PERTURBED,),
        measure=partial(measure, scheme=scheme),
    )


TENTH = "A tenth is left for how exactly networks end."
_of_lemma = partial(Claim, owner="paper", origin="derived", tables=(FREE,))
EXAMPLE = "slope of log squared weights on log L, mean over random starts"
_of_example = partial(_of_lemma, quantity=EXAMPLE, tables=(SCALAR,))
CLAIMS = {
    "collapse-perturbed-constant": _of_small(left_of_small, CONTROL)(
        statement="With two linear layers a block and a constant penalty, deep networks leave a small perturbation as "
        "it is",
        bound=between(0.9, 1.1),
        owner="derived",
        origin="ours",
        reason="Appendix C argues of any inputs, as depth grows, that a scatter that is small enough stays; it has "
        f"these inputs for λ/L alone. {TENTH} Judged so since 28 November 2026, after values were seen: as the "
        "paper's claim it was asked of every depth, and failed at L = 2, of which the argument says nothing.",
    ),
    "collapse-perturbed-uniform": _of_small(left_of_small, "RN2 uniform")(
        statement="With every penalty at λ/L, deep networks leave a small perturbation as it is",
        bound=between(0.9, 1.1),
        owner="paper",
        origin="ours",
        reason=f"Appendix C: of these inputs E stays where ε is small enough; it does not say how small. {TENTH}",
    ),
    "collapse-perturbed-seen": _of_small(seen_of_small, "RN2 uniform", " in the last layer's row space")(
        statement="With every penalty at λ/L, deep networks take from sight what of E the last layer reads",
        bound=below(0.5),
        owner="derived",
        origin="pilot",
        reason="The paper counts what is gained without E as of order λ ε². Where E lies in the space of the classes "
        "it is of order ε² whatever λ is, since ridge regression cannot fit it. In a run before, losses had halved. "
        "Judged so since 28 November 2026, after values were seen: a size of E a case, of which there was one mean.",
    ),
    "collapse-perturbed-leaves": derived_claim(
        statement="Where theorems let deep networks collapse, they remove a perturbation that the control leaves",
        quantity=f"NC1 of the last features over that of the first, ε ≥ {LARGE:g}, mean over networks, over that of "
        f"{CONTROL}, or over 1 where that is less",
        bound=at_most(0.5),
        origin="ours",
        reason="Theorems 4.3 and 4.6 with squared error let scatter vanish from first to last layer; half of what the "
        "control leaves is removal that no scheme which leaves a perturbation as it is can show.",
        why="Why is not known. The theorems are of limits, and need not tell of these depths.",
        tables=(PERTURBED,),
        measure=partial(left_over_control, schemes=("RN1", "RN2 split")),
    ),
    "collapse-lemmas-optimum": _of_lemma(
        bound=at_most(CLOSE),
        statement="Free features reach the closed form of the least loss, and none below it",
        quantity="minimised loss over the closed form, less 1, largest of all random starts",
        reason="Proof of Lemma 4.2, with the norm of W's rows under squared error corrected.",
        measure=partial(worst_of_loss, values=("excess",)),
    ),
    "collapse-lemmas-collapsed": _of_lemma(
        bound=at_most(10 * CLOSE),
        statement="At that optimum free features are collapsed",
        quantity="the largest of NC1, NC2 and NC3, of all random starts",
        reason="Lemma 4.2: all of them are 0 at an optimum; NC2 is linear in the distance to it, and the "
        "loss quadratic.",
        measure=collapsed_at_optimum,
    ),
    "collapse-lemmas-converse": _of_lemma(
        bound=at_most(CLOSE),
        statement="A collapsed pair is optimal at one scale of the last layer",
        quantity="loss at the best scale over the closed form, less 1, largest of all random pairs",
        reason="The converse of Lemma 4.2.",
        measure=partial(worst_of_loss, values=("scaled_excess",)),
    ),
    "collapse-lemmas-unique": _of_lemma(
        bound=at_most(0),
        statement="No other scale of a collapsed pair is a local minimum",
        quantity="local minima of the loss along the scale, less 1, largest of all random pairs",
        reason="The converse of Lemma 4.2: the scale is unique.",
        measure=partial(worst_of_loss, values=("minima",), less=1.0),
    ),
    "collapse-lemmas-one": _of_example(
        bound=at_most(-0.95),
        statement="In one dimension, with one layer a block, depth makes a given map cheap",
        reason="Section 4.2: (1 + a/L)^L goes to e^a, at a cost of a²/L; the closed form's slope is steeper at "
        "finite depth.",
        measure=partial(slope_of_example, layers=1),
    ),
    "collapse-lemmas-two": _of_example(
        bound=at_least(-0.15),
        statement="In one dimension, with two layers a block, depth makes nothing cheap",
        reason="Section 4.3: the cost stays (2 a of both matrices); at finite depth the closed form falls a little.",
        measure=partial(slope_of_example, layers=2),
    ),
}
