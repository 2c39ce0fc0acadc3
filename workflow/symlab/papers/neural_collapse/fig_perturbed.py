"""Appendix C: what networks leave of a perturbation of collapsed inputs, by its size, place and depth."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from symlab.papers.neural_collapse.evidence import derived_claim
from symlab.plotting.style import Look, Style, ordered_colors
from symlab.plotting.types import Axes, Figure
from symlab.plotting.units import draw_units
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import Cases, cases
from symlab.study.claim import Claim, Found, Tables, at_most, below, between
from symlab.study.facets import facets, labelled
from symlab.study.tables import need

TABLE = "perturbed_classes.csv"
CLASS_SPACE = "class space"
SMALL, LARGE = 0.05, 0.2
"""Largest perturbation that counts as small, least that counts as large."""
CONTROL = "RN2 constant"
HALF = 0.5
"""The share of what the control leaves up to which a perturbation counts as removed."""
EQUAL = 1e-3
"""Relative difference of losses that counts as none."""
SEEN = ", seen"


def perturbed(tables: Tables) -> pd.DataFrame:
    """Networks with what is ``left`` of NC1 of the first features at the end, and what the last layer has ``seen``."""
    table = need(tables, TABLE)
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
    of_grid: dict[str, Any] = {
        "axes": labelled(r"$\epsilon$", "NC1 out / in", "xy", xticks=sorted(table["eps"].unique())),
        "more": lambda axis, _: axis.axhline(1, color="0.5", linestyle="--", linewidth=0.8),
        "rows_named": [f"E in {place}" for place in dict.fromkeys(table["placement"])],
        "note": f"mean ± std of {table['seed'].nunique()} networks; dotted: what the last layer sees",
    }
    return facets(rows, "eps", "left", looks, row="placement", column="scheme", draw=_draw, height=1.9, **of_grid)


def _draw(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str) -> None:
    if label.endswith(SEEN):
        means = np.exp(np.log(rows[y]).groupby(rows[x]).mean())
        axis.plot(means.index, means, color=look.color, linestyle=":", marker="", linewidth=0.9)
    else:
        draw_units(axis, rows, x, y, look, label, unit=("seed",), band=False)


def _cases(rows: pd.DataFrame, value: str, schemes: Sequence[str], more: str = "") -> Cases:
    """A case a scheme, placement and depth; a seed's perturbation of each size is a network of its own.

    Undecided where a loss is above that without branches.
    """
    rows = rows[rows["scheme"].isin(schemes)]
    late = rows["total"] > (1 + EQUAL) * rows["without"]
    by = ["scheme", "placement", "L", *(["eps"] if more else [])]
    found = cases(rows, value, by, ("seed", "eps"), "{scheme}, E in {placement}, L = {L}" + more)
    why = "not at an optimum: a loss is above that without branches" if late.any() else ""
    return Cases(tuple(replace(each, open=why) for each in found), "networks")


def left_of_small(
    tables: Tables, scheme: str, deepest: bool = True, value: str = "left", place: str = ""
) -> list[Found]:
    """What is left of small perturbations, a case a placement and depth (or the largest alone)."""
    rows = perturbed(tables)
    rows = rows[(rows["eps"] <= SMALL) & ((rows["L"] == rows["L"].max()) | (not deepest))]
    found = _cases(rows[(rows["placement"] == place) | (not place)], value, [scheme])
    return found.means() or [f"needs perturbations of at most {SMALL:g}"]


def left_over_control(tables: Tables, schemes: Sequence[str]) -> list[Found]:
    """What the deepest networks leave of large perturbations over what the control leaves, or over all if that is less.

    What a control adds to a perturbation is not removed by a network that leaves it as it is.
    """
    rows = perturbed(tables)
    rows = rows[(rows["eps"] >= LARGE) & (rows["L"] == rows["L"].max())]
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
        seen=Sentence(
            "Of large perturbations the deepest networks leave {share} of what the control leaves.",
            {"share": at("collapse-perturbed-leaves")},
        ),
        differs="The paper describes these inputs and does not train on them.",
    ),
}


def _claim(value: str = "left", **asked: Any) -> partial[Claim]:
    part = " in the last layer's row space" if value == "seen" else ""
    return partial(
        Claim,
        quantity=f"NC1 of the last features{part} over that of the first, ε ≤ {SMALL:g}, mean over networks",
        tables=(TABLE,),
        measure=partial(left_of_small, value=value, **asked),
    )


STAYS = "The paper says that E stays; a tenth is left for how exactly networks end."
TENTH: dict[str, Any] = {"bound": between(0.9, 1.1), "owner": "paper", "origin": "ours", "reason": STAYS}
CLAIMS = {
    "collapse-perturbed-constant": _claim(scheme=CONTROL, deepest=False)(
        statement="With two linear layers a block and a constant penalty, networks leave a small perturbation as it is",
        **TENTH,
    ),
    "collapse-perturbed-uniform": _claim(scheme="RN2 uniform")(
        statement="With every penalty at λ/L, deep networks leave a small perturbation as it is", **TENTH
    ),
    "collapse-perturbed-seen": _claim("seen", scheme="RN2 uniform", place=CLASS_SPACE)(
        statement="With every penalty at λ/L, deep networks take from sight what of E the last layer reads",
        bound=below(0.5),
        owner="derived",
        origin="pilot",
        reason="The paper counts what is gained without E as of order λ ε². Where E lies in the space of the classes "
        "it is of order ε² whatever λ is, since ridge regression cannot fit it. In a run before, losses had halved.",
    ),
    "collapse-perturbed-leaves": derived_claim(
        statement="Where theorems let deep networks collapse, they remove a perturbation that the control leaves",
        quantity=f"NC1 of the last features over that of the first, ε ≥ {LARGE:g}, mean over networks, over that of "
        f"{CONTROL}, or over 1 where that is less",
        bound=at_most(HALF),
        origin="ours",
        reason="Theorems 4.3 and 4.6 with squared error let scatter vanish from first to last layer; half of what the "
        "control leaves is removal that no scheme which leaves a perturbation as it is can show.",
        tables=(TABLE,),
        measure=partial(left_over_control, schemes=("RN1", "RN2 split")),
    ),
}
