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
CONTROL = "rn2 constant"
HALF = 0.5
"""The share of what the control leaves up to which a perturbation counts as removed."""
EQUAL = 1e-3
"""Relative difference of losses that counts as none."""
SEEN = ", seen"


def perturbed(tables: Tables) -> pd.DataFrame:
    """Networks with what is ``left`` of NC1 at the end, what the last layer has ``seen`` of it, and losses ``above``.

    All are ratios, to NC1 of the first features and to the loss without branches.
    """
    table = need(tables, TABLE)
    seen = table["NC1_row"] / table["NC1_in"]
    above = table["total"] / table["without"]
    return table.assign(left=table["NC1"] / table["NC1_in"], seen=seen, above=above)


def left_of_perturbation(tables: Tables, style: Style) -> Figure:
    """NC1 out over NC1 in against the perturbation's size; a row a placement, a column a scheme, a colour a depth."""
    table = perturbed(tables)
    depths = sorted(table["L"].unique())
    looks = {f"L = {L}": Look(color) for L, color in zip(depths, ordered_colors(len(depths)), strict=True)}
    table = table.assign(label=table["L"].map("L = {}".format), title=table["scheme"].map(_name))
    seen = table[table["placement"] == CLASS_SPACE]
    seen = seen.assign(left=seen["seen"], label=seen["label"] + SEEN)
    looks |= {name + SEEN: Look(look.color, ":", "") for name, look in looks.items()}
    of_grid: dict[str, Any] = {
        "axes": labelled(r"$\epsilon$", "NC1 out / in", "xy", xticks=sorted(table["eps"].unique())),
        "more": lambda axis, _: axis.axhline(1, color="0.5", linestyle="--", linewidth=0.8),
        "rows_named": [f"E in {place}" for place in dict.fromkeys(table["placement"])],
        "note": f"mean ± std of {table['seed'].nunique()} networks; dotted: what the last layer sees",
    }
    rows = pd.concat([table, seen])
    return facets(rows, "eps", "left", looks, row="placement", column="title", draw=_draw, height=1.9, **of_grid)


def _draw(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str) -> None:
    if label.endswith(SEEN):
        means = np.exp(np.log(rows[y]).groupby(rows[x]).mean())
        axis.plot(means.index, means, color=look.color, linestyle=":", marker="", linewidth=0.9)
    else:
        draw_units(axis, rows, x, y, look, label, unit=("seed",), band=False)


def _chosen(tables: Tables, schemes: Sequence[str], deepest: bool, large: bool) -> pd.DataFrame:
    table = perturbed(tables)
    table = table[(table["eps"] >= LARGE) if large else (table["eps"] <= SMALL)]
    table = table[table["scheme"].isin(schemes) & ((table["L"] == table["L"].max()) | (not deepest))]
    return table.assign(unit=table["seed"].astype(str) + table["eps"].astype(str))


def _cases(table: pd.DataFrame, value: str, *more: str) -> Cases:
    """A case a scheme, placement and depth: of a seed's perturbations of several sizes each is a network of its own."""
    by = ["scheme", "placement", "L", *more]

    def name(key: Any) -> str:
        eps = f", ε = {key['eps']:g}" if "eps" in key else ""
        return f"{_name(key['scheme'])}, E in {key['placement']}, L = {key['L']}{eps}"

    found = cases(table, value, by=by, unit="unit", name=name)
    return Cases(found.of, "networks")


def left_of_small(
    tables: Tables, schemes: Sequence[str], deepest: bool, value: str = "left", place: str = ""
) -> list[Found]:
    """What is left of small perturbations, a case a placement, scheme and depth (or the largest alone)."""
    table = _chosen(tables, schemes, deepest, large=False)
    table = table[(table["placement"] == place) | (not place)]
    if table.empty:
        return [f"needs perturbations of at most {SMALL:g}"]
    return _open(_cases(table, value).means(), table)


def left_over_control(tables: Tables, schemes: Sequence[str]) -> list[Found]:
    """What the deepest networks leave of large perturbations over what the control leaves, or over all if that is less.

    What a control adds to a perturbation is not removed by a network that leaves it as it is.
    """
    table = _chosen(tables, [*schemes, CONTROL], deepest=True, large=True)
    left = _cases(table, "left", "eps")
    control = left.at(scheme=CONTROL).map(lambda values: values.clip(upper=1)).keyed("placement", "L", "eps")
    chosen = left.where(lambda each: each.case.key["scheme"] in schemes)
    found = chosen.ratios(control) or [f"needs perturbations of at least {LARGE:g} and {_name(CONTROL)}"]
    return _open(found, table)


def _open(found: list[Found], table: pd.DataFrame) -> list[Found]:
    """Undecided where a loss is above that without branches."""
    late = "" if (table["above"] <= 1 + EQUAL).all() else "not at an optimum: a loss is above that without branches"
    return [each if isinstance(each, str) else replace(each, open=late) for each in found]


def _name(scheme: str) -> str:
    return scheme.replace("rn", "RN")


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


def _claim(scheme: str, deepest: bool, value: str = "left", place: str = "", **texts: Any) -> Claim:
    part = " in the last layer's row space" if value == "seen" else ""
    return Claim(
        quantity=f"NC1 of the last features{part} over that of the first, ε ≤ {SMALL:g}, mean over networks",
        tables=(TABLE,),
        measure=partial(left_of_small, schemes=(scheme,), deepest=deepest, value=value, place=place),
        **texts,
    )


STAYS = "The paper says that E stays; a tenth is left for how exactly networks end."
TENTH: dict[str, Any] = {"bound": between(0.9, 1.1), "owner": "paper", "origin": "ours", "reason": STAYS}
CLAIMS = {
    "collapse-perturbed-constant": _claim(
        CONTROL,
        deepest=False,
        statement="With two linear layers a block and a constant penalty, networks leave a small perturbation as it is",
        **TENTH,
    ),
    "collapse-perturbed-uniform": _claim(
        "rn2 uniform",
        deepest=True,
        statement="With every penalty at λ/L, deep networks leave a small perturbation as it is",
        **TENTH,
    ),
    "collapse-perturbed-seen": _claim(
        "rn2 uniform",
        deepest=True,
        value="seen",
        place=CLASS_SPACE,
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
        f"{_name(CONTROL)}, or over 1 where that is less",
        bound=at_most(HALF),
        origin="ours",
        reason="Theorems 4.3 and 4.6 with squared error let scatter vanish from first to last layer; half of what the "
        "control leaves is removal that no scheme which leaves a perturbation as it is can show.",
        tables=(TABLE,),
        measure=partial(left_over_control, schemes=("rn1", "rn2 split")),
    ),
}
