"""Appendix C: what networks leave of a perturbation of collapsed inputs, by its size, place and depth."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.papers.neural_collapse.finals import EQUAL
from symlab.plotting.style import PAGE, Style, legend, line_entry, ordered_colors, panels, set_ticks
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, at_most, below, between, mean_of, ratio_of
from symlab.study.tables import need

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

TABLE = "perturbed_classes.csv"
CLASS_SPACE = "class space"
SMALL = 0.05
"""Largest perturbation that counts as small."""
CONTROL = "rn2 constant"
HALF = 0.5
"""The share of what the control leaves up to which a perturbation counts as removed."""


def perturbed(tables: Tables) -> pd.DataFrame:
    """Networks with what is ``left`` of NC1 at the end, what the last layer has ``seen`` of it, and losses ``above``.

    All are ratios, to NC1 of the first features and to the loss without branches.
    """
    table = need(tables, TABLE)
    total = table["fit"] + table["hidden"] + table["last"]
    seen = table["NC1_row"] / table["NC1_in"]
    return table.assign(left=table["NC1"] / table["NC1_in"], seen=seen, above=total / table["without"])


def left_of_perturbation(tables: Tables, style: Style) -> Figure:
    """NC1 out over NC1 in against the perturbation's size; a row a placement, a column a scheme, a colour a depth."""
    table = perturbed(tables)
    schemes, placements = table["scheme"].unique(), table["placement"].unique()
    figure, axes = panels(len(placements), len(schemes), PAGE, 1.7 * len(placements) + 0.5, sharey="row")
    depths = sorted(table["L"].unique())
    colors = dict(zip(depths, ordered_colors(len(depths)), strict=True))
    for (scheme, placement, L), rows in table.groupby(["scheme", "placement", "L"], sort=False):
        axis = axes[list(placements).index(placement), list(schemes).index(scheme)]
        axis.scatter(rows["eps"], rows["left"], s=8, facecolors="none", edgecolors=[colors[L]], linewidths=0.6)
        means = np.exp(np.log(rows["left"]).groupby(rows["eps"]).mean())
        axis.plot(means.index, means, color=colors[L], linewidth=0.9, marker="")
        if placement == CLASS_SPACE:
            means = np.exp(np.log(rows["seen"]).groupby(rows["eps"]).mean())
            axis.plot(means.index, means, color=colors[L], linewidth=0.9, linestyle=":", marker="")
    for axis in axes.flat:
        axis.axhline(1, color="0.5", linestyle="--", linewidth=0.8)
        axis.set(xscale="log")
        set_ticks(axis.xaxis, sorted(table["eps"].unique()))
    for axis, scheme in zip(axes[0], schemes, strict=True):
        axis.set_title(_name(scheme))
    for axis in axes[-1]:
        axis.set_xlabel(r"$\epsilon$")
    for axis, placement in zip(axes[:, 0], placements, strict=True):
        # What the last layer sees falls by orders of magnitude.
        axis.set_yscale("log" if placement == CLASS_SPACE else "linear")
        axis.set_ylabel(f"NC1 out / in\nE in {placement}")
    entries = [line_entry(f"L = {L}", color=colors[L], marker="o") for L in depths]
    entries.append(line_entry("what the last layer sees", color="0.3", linestyle=":"))
    legend(figure, entries, "circles: networks; dashed: all of it is left")
    return figure


def _see(tables: Tables) -> str:
    table = perturbed(tables)
    deepest = table[(table["L"] == table["L"].max()) & (table["eps"] <= SMALL)]
    told = [
        f"{left:.2g} with {_name(scheme)}, E in {placement}"
        for (scheme, placement), left in deepest.groupby(["scheme", "placement"], sort=False)["left"].mean().items()
    ]
    return f"Of small perturbations the deepest networks leave {'; '.join(told)}."


def left_of_small(
    tables: Tables, schemes: Sequence[str], deepest: bool, value: str = "left", places: Sequence[str] = ()
) -> list[Found]:
    """What is left of small perturbations, a case a placement, scheme (of several) and depth (or the largest alone)."""
    table = perturbed(tables)
    table = table[(table["eps"] <= SMALL) & table["scheme"].isin(schemes)]
    table = table[table["placement"].isin(places or table["placement"])]
    table = table[(table["L"] == table["L"].max()) | (not deepest)]
    if table.empty:
        return [f"needs perturbations of at most {SMALL:g}"]
    cases: list[Found] = []
    for (scheme, placement, L), rows in table.groupby(["scheme", "placement", "L"], sort=False):
        told = f"{rows['above'].mean():.3g} of the loss without branches"
        measured = mean_of(rows[value].to_numpy(), _case(scheme, placement, L), told, "networks")
        cases.append(replace(measured, open=_not_optimal(rows)))
    return cases


def left_over_control(tables: Tables, schemes: Sequence[str]) -> list[Found]:
    """What the deepest networks leave of small perturbations over what the control leaves, or over all if that is less.

    What a control adds to a perturbation is not removed by a network that leaves it as it is.
    """
    table = perturbed(tables)
    table = table[(table["eps"] <= SMALL) & (table["L"] == table["L"].max())]
    cases: list[Found] = []
    for (scheme, placement, L), rows in table.groupby(["scheme", "placement", "L"], sort=False):
        control = table[(table["scheme"] == CONTROL) & (table["placement"] == placement)]
        if scheme not in schemes or control.empty:
            continue
        base = control["left"].clip(upper=1).to_numpy()
        left = rows["left"].to_numpy()
        told = f"{left.mean():.3g} left, of the control {control['left'].mean():.3g}"
        measured = ratio_of(left, base, _case(scheme, placement, L), told, "networks")
        cases.append(replace(measured, open=_not_optimal(pd.concat([rows, control]))))
    return cases or [f"needs perturbations of at most {SMALL:g} and {_name(CONTROL)}"]


def _name(scheme: str) -> str:
    return scheme.replace("rn", "RN")


def _case(scheme: str, placement: str, L: int) -> str:
    return f"{_name(scheme)}, E in {placement}, L = {L}"


def _not_optimal(rows: pd.DataFrame) -> str:
    return "" if (rows["above"] <= 1 + EQUAL).all() else "not at an optimum: a loss is above that without branches"


FIGURES = (
    Drawing(
        "collapse-perturbed",
        "Appendix C: inputs next to collapse",
        "NC1 of the last features over that of the first, of networks trained by squared error on one point a class "
        "and a perturbation E of norm ε, through an embedding that is not trained (study `{study}`). E lies in the "
        "space of the classes, or in other dimensions. Networks begin at the optimum of those without branches, with "
        "branches of a hundredth of random weights. Dotted: the part of NC1 in the last layer's row space.",
        left_of_perturbation,
        seen=_see,
        differs="The paper describes these inputs and does not train on them.",
    ),
)


def _claim(
    name: str, schemes: Sequence[str], deepest: bool, value: str = "left", places: Sequence[str] = (), **texts: object
) -> Claim:
    part = " in the last layer's row space" if value == "seen" else ""
    return Claim(
        id=f"collapse-perturbed-{name}",
        quantity=f"NC1 of the last features{part} over that of the first, ε ≤ {SMALL:g}, mean over networks",
        tables=(TABLE,),
        measure=partial(left_of_small, schemes=schemes, deepest=deepest, value=value, places=places),
        **texts,  # type: ignore[arg-type]
    )


TENTH = "The paper says that E stays; a tenth is left for how exactly networks end."
CLAIMS = (
    _claim(
        "constant",
        (CONTROL,),
        deepest=False,
        statement="With two linear layers a block and a constant penalty, networks leave a small perturbation as it is",
        bound=between(0.9, 1.1),
        owner="paper",
        origin="ours",
        reason=TENTH,
    ),
    _claim(
        "uniform",
        ("rn2 uniform",),
        deepest=True,
        statement="With every penalty at λ/L, deep networks leave a small perturbation as it is",
        bound=between(0.9, 1.1),
        owner="paper",
        origin="ours",
        reason=TENTH,
    ),
    _claim(
        "seen",
        ("rn2 uniform",),
        deepest=True,
        value="seen",
        places=(CLASS_SPACE,),
        statement="With every penalty at λ/L, deep networks take from sight what of E the last layer reads",
        bound=below(0.5),
        owner="derived",
        origin="pilot",
        reason="The paper counts what is gained without E as of order λ ε². Where E lies in the space of the classes "
        "it is of order ε² whatever λ is, since ridge regression cannot fit it. In a run before, losses had halved.",
    ),
    Claim(
        id="collapse-perturbed-leaves",
        statement="Where theorems let deep networks collapse, they remove a small perturbation",
        quantity=f"NC1 of the last features over that of the first, ε ≤ {SMALL:g}, mean over networks, over that of "
        f"{_name(CONTROL)}, or over 1 where that is less",
        bound=at_most(HALF),
        owner="derived",
        origin="ours",
        reason="Theorems 4.3 and 4.6 with squared error let scatter vanish from first to last layer; half of what the "
        "control leaves is removal that no scheme which leaves a perturbation as it is can show.",
        why={
            "": "Perturbations this small are left nearly whole by every scheme where they lie in other dimensions; "
            "schemes separate at larger ones (figure)."
        },
        tables=(TABLE,),
        measure=partial(left_over_control, schemes=("rn1", "rn2 split")),
    ),
)
