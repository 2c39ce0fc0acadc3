"""Theorem 1 and Corollary 1 at trained networks: gradients, Hessians and SGD on mirrors and off them."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd

from symlab.plotting.style import Axes, Figure, Look, Style, palette
from symlab.study.card import Drawing
from symlab.study.claim import Case, Claim, Found, Tables, above, at_most, exact_value
from symlab.study.facets import Panel, draw_grid, draw_rows, labelled
from symlab.study.tables import need
from symlab.words import counted

TABLE = "network_mirrors.csv"
FLOOR = 1e-18
NAMES = {"gradient": "gradient", "hessian": "Hessian × within", "left": "after SGD", "second_order": "Eq. 6"}
ON, OFF = "on mirrors", "off mirrors"


def _on_and_off_mirrors(tables: Tables, style: Style) -> Figure:
    rows = need(tables, TABLE)
    looks = {ON: Look(palette(style, 4)[0], "", "o"), OFF: Look(palette(style, 4)[3], "", "o")}
    shown = []
    for place, quantity in enumerate(NAMES):
        of = rows[rows["quantity"] == quantity]
        spread = np.linspace(-0.1, 0.1, len(of))
        for shift, label, column in ((-0.15, ON, "on"), (0.15, OFF, "off")):
            values = of[column].clip(lower=FLOOR)
            shown.append(pd.DataFrame({"x": place + shift + spread, "share": values, "label": label}))

    def name_columns(axis: Axes) -> None:
        axis.axhline(FLOOR, color="0.8", linewidth=0.6)
        axis.set_xticks(range(len(NAMES)), list(NAMES.values()), rotation=25, ha="right")

    growth = rows[rows["quantity"] == "growth"].assign(label=ON)

    def diagonal(axis: Axes) -> None:
        ends = [growth[["on", "off"]].min().min(), growth[["on", "off"]].max().max()]
        axis.plot(ends, ends, color="0.6", linestyle=":", marker="")
        axis.locator_params(nbins=4)

    share = labelled("", "share off the mirror", "y")
    square = labelled("predicted ln growth", "measured", box_aspect=1)
    grid = [
        Panel(pd.concat(shown), "x", "share", share, draw_rows, {"markersize": 2.5}, name_columns),
        Panel(growth, "off", "on", square, draw_rows, more=diagonal),
    ]
    return draw_grid([grid], looks, sharex=False, sharey=False)


FIGURES = {
    "mirror-thm1": Drawing(
        "Theorem 1 at trained networks",
        "Mirrors of trained networks, a dot each: of pairs of neurons, of rotations within a head of attention layers, "
        "and of rescalings that take both signs (of a norm's gain and what reads it, of a head's maps). Left, on the "
        "mirror (the network's projection) and off it (the network itself): the share of a batch's gradient that "
        "points off the mirror, the same of the Hessian's product with a random direction within, how far SGD gets "
        "from the mirror that started on it and 1e-9 beside it, and how far the loss is from the second order of Eq. 6 "
        "in a direction off the mirror and in one within. Zeros are at the grey line. Right: growth of the distance "
        "from a mirror in SGD that starts beside it, against the prediction of Hessians along the mirror's descent.",
        _on_and_off_mirrors,
        seen="On mirrors at most {gradient} of a batch's gradient points off, at networks at least {gradient-off}.",
        differs="Not in the paper, which proves it.",
    ),
}


def worst(tables: Tables, quantity: str, value: str, choose: str) -> Iterator[Found]:
    """The largest or smallest value over all mirrors, networks and pairs, a case a network and kind of mirror."""
    rows = tables[TABLE][tables[TABLE]["quantity"] == quantity]
    rows = rows.assign(apart=(rows["on"] - rows["off"]).abs())
    for (network, mirror), of in rows.groupby(["variant", "mirror"], sort=False):
        case = Case(f"{network}, {mirror}", variant=network, mirror=mirror)
        networks = len(of.drop_duplicates(["mask_seed", "seed"]))
        told = f"{counted(len(of), 'mirrors')} of {counted(networks, 'networks')}"
        if quantity == "second_order":
            told += f", {of['samples'].min():.0f} to {of['samples'].max():.0f} samples without a kink in the step"
        yield exact_value(float(getattr(of[value], choose)(skipna=False)), networks, case, told, "networks")


_theorem = partial(Claim, tables=(TABLE,), kind="theorem", owner="paper", origin="derived")
ROUNDING = "The theorem says 0; double precision leaves 1e-16."
CLAIMS = {
    "mirror-thm1-gradient": _theorem(
        statement="On a mirror the gradient of every batch lies within it",
        quantity="largest share of a gradient off the mirror",
        bound=at_most(1e-12),
        reason=ROUNDING,
        measure=partial(worst, quantity="gradient", value="on", choose="max"),
    ),
    "mirror-thm1-gradient-off": _theorem(
        statement="Off a mirror it does not",
        quantity="smallest share of a gradient off the mirror",
        bound=above(1e-6),
        reason="What has no symmetry there has no reason to be 0.",
        measure=partial(worst, quantity="gradient", value="off", choose="min"),
        owner="ours",
        origin="pilot",
    ),
    "mirror-thm1-hessian": _theorem(
        statement="On a mirror the Hessian takes directions within it to directions within it",
        quantity="largest share of H m off the mirror, m within it",
        bound=at_most(1e-10),
        reason=ROUNDING,
        measure=partial(worst, quantity="hessian", value="on", choose="max"),
    ),
    "mirror-thm1-stays": _theorem(
        statement="SGD that starts on a mirror stays on it",
        quantity="largest |P θ| / |θ| at the end",
        bound=at_most(1e-12),
        reason="The theorem says 0; rounding has not grown to this in so few steps (mirror-5-rounding).",
        measure=partial(worst, quantity="left", value="on", choose="max"),
    ),
    "mirror-thm1-growth": _theorem(
        statement="Beside a mirror SGD leaves it or comes back as the Hessian says",
        quantity="largest difference of ln |P θ| at the end from its prediction",
        bound=at_most(0.01),
        reason="The linear order along the mirror's own descent; 1e-9 beside it the next one is 1e-9 of it.",
        measure=partial(worst, quantity="growth", value="apart", choose="max"),
        owner="derived",
        origin="pilot",
    ),
    "mirror-thm1-second-order": _theorem(
        statement="Off a mirror the loss begins with the second order",
        quantity="largest |L(s) - L(0) - s² nᵀHn / 2| over s² |Hn| / 2",
        bound=at_most(1e-5),
        reason="Eq. 6, of losses with two derivatives: samples of which a ReLU changes sides are left out. At s = 1e-5 "
        "|θ| one rounding of the loss is at most 2e-8 of s² |Hn| / 2; a few hundred are left.",
        measure=partial(worst, quantity="second_order", value="on", choose="max"),
    ),
}
