"""Branches of two-layer blocks die above a critical penalty, which hardly depends on depth."""

from dataclasses import replace
from functools import partial
from typing import Any

from symlab.papers.neural_collapse.evidence import our_claim
from symlab.plotting.style import Look, Style, palette
from symlab.plotting.types import Figure
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import Cases, cases
from symlab.study.claim import Found, Tables, above, between, without_phrases
from symlab.study.facets import facets, labelled
from symlab.study.tables import need

TABLE = "critical_penalty.csv"
MOST = 1.25
"""By how much prediction and switch may differ."""
DRAWN = {"predicted": "predicted", "born": "born above nothing", "dies": "living ones die"}
CONTROL = 0.0025
"""The paper's penalty of Figure 2's control."""


def phase_line(tables: Tables, style: Style) -> Figure:
    """Penalties of hidden weights at which branches are born and die against the last layer's, a panel a depth."""
    table = need(tables, TABLE)
    long = table.melt(["L", "last_penalty", "seed"], list(DRAWN), "kind", "penalty")
    long["label"] = long["kind"].map(DRAWN)
    grey, blue, orange = (0.4, 0.4, 0.4), *palette(style, 2)
    looks = dict(zip(DRAWN.values(), (Look(grey, "--", ""), Look(blue), Look(orange, "-", "s")), strict=True))
    ticks = sorted(table["last_penalty"].unique())
    axes = labelled(r"penalty $\lambda$ of the last layer", r"penalty $\lambda$ of hidden weights", "xy", xticks=ticks)
    options, note = {"unit": ("seed",), "band": False}, f"mean ± std of {table['seed'].nunique()} networks"
    long["depth"] = long["L"].map("L = {}".format)
    of_grid: dict[str, Any] = {"axes": axes, "options": options, "height": 2.2, "note": note}
    return facets(long, "last_penalty", "penalty", looks, column="depth", **of_grid)


def _found(tables: Tables, value: str) -> Cases:
    return cases(tables[TABLE], value, ["dataset", "L", "last_penalty"], name="L = {L}, last λ = {last_penalty:g}")


def bisected(tables: Tables, found: str, base: str, steps: int) -> list[Found]:
    """Penalties over others, mean over seeds, where so many of both were found by bisection.

    They are told as intervals, however well networks agree: what was found lies within half a step to either side, on
    the scale of logarithms. So the interval is that of the mean of the lower ends, at its lower end, and of the upper.
    """
    reach = float(tables[TABLE]["step"].max()) ** (steps / 2)
    # Where all networks are at one place of the bisection, what is left of their difference is rounding.
    ratios = (_found(tables, found) / _found(tables, base)).map(lambda values: values.round(9))
    means = [(each, each.interval) for each in without_phrases(ratios.means())]
    return [
        replace(each, error=None, ends=None if ends is None else (ends[0] / reach, ends[1] * reach))
        for each, ends in means
    ]


def control_over_predicted(tables: Tables) -> list[Found]:
    """The penalty of Figure 2's control over the critical one at it, mean over seeds."""
    over = _found(tables, "predicted").at(last_penalty=CONTROL).map(lambda predicted: CONTROL / predicted)
    return over.means() or [f"needs critical_penalty.last_penalty to list {CONTROL:g}"]


FIGURES = {
    "collapse-critical": Drawing(
        "The penalty above which branches vanish",
        "The penalty of hidden weights below which the best small neuron grows in a network without branches, and "
        "below which living branches stay, found by bisection, against the penalty of the last layer, in networks with "
        "two linear layers in each block (study `{study}`). Dashed: above it a single neuron costs more than it gains.",
        phase_line,
        seen=Sentence(
            "Found over predicted is {ratio}, and living branches hold out to {more} times the penalty.",
            {"ratio": at("collapse-critical-switch"), "more": at("collapse-critical-hysteresis")},
        ),
        differs="Not in the paper; it predicts whether Figure 2's control can depend on depth.",
    ),
}
_claim = partial(our_claim, tables=(TABLE,))
CLAIMS = {
    "collapse-critical-switch": _claim(
        statement="In networks without branches new ones grow below the predicted penalty alone, at every depth",
        quantity="penalty above which the best small neuron vanishes over the predicted one, mean over networks, "
        "widened by half a step of the bisection to either side",
        bound=between(1 / MOST, MOST),
        origin="pilot",
        reason="The network without branches is a local minimum above S alone, by a first-order expansion. A quarter "
        "is left for the step of the bisection and for blocks that add biases; chosen after one network of a pilot.",
        measure=partial(bisected, found="born", base="predicted", steps=1),
    ),
    "collapse-critical-hysteresis": _claim(
        statement="Branches that live hold out to a higher penalty than that at which new ones grow",
        quantity="penalty at which living branches die over that at which new ones vanish, mean over networks, "
        "widened by half a step of either bisection",
        bound=above(1),
        reason="Above the critical penalty the network without branches is a local minimum, which says nothing of "
        "others: one with branches may be a minimum too.",
        measure=partial(bisected, found="dies", base="born", steps=2),
    ),
    "collapse-critical-control": _claim(
        statement="The penalty of Figure 2's control is above the critical one",
        quantity="λ of the control over the predicted one at that λ of the last layer, mean over networks",
        bound=above(1),
        origin="derived",
        reason="Where its branches are dead, a network of any depth is one without blocks, and the control is flat.",
        measure=control_over_predicted,
    ),
}
