"""Activation-matching objectives of the optimal, the identity and random permutations: what Figs. 3 and 7 to 10 share.

Objectives of two networks are <P, S>_F / d, the mean correlation between the neurons that P pairs.
"""

import operator
import re
from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from typing import Any

import pandas as pd

from symlab.papers.neuron_identifiability import masks
from symlab.papers.neuron_identifiability.looks import permutation_looks, tick_sigma
from symlab.papers.neuron_identifiability.rows import PLACE, pair_objectives
from symlab.papers.neuron_identifiability.variants import by_variant, label_rows, sigma_sweep
from symlab.plotting.style import CHARACTER, Axes, Figure, Style
from symlab.plotting.units import over_pairs
from symlab.study.claim import Claim, Found, Tables, worst_of_each
from symlab.study.facets import facets, labelled
from symlab.study.tables import last_epoch, need, need_several, where

Moments = Callable[[pd.DataFrame], pd.DataFrame]
Score = Callable[[float], float]
"""The worst of several layers or epochs is the one with the largest score."""
LARGEST: Score = operator.pos
SMALLEST: Score = operator.neg

OBJECTIVE = r"objective $\langle P, S\rangle_F\,/\,d$"
SIGMA_F = r"fixed-weight scale $\sigma_F$"
DEFINITION = """\
⟨P, S⟩_F / d is the mean correlation between the neurons of two networks that a permutation P pairs: the optimal one,
the identity, or a random one. Where the identity is the optimal one, its squares cover the other's dots."""
BROKEN_AXIS = "σ_F = 0 stands apart from the rest, which is on a logarithmic scale."
WAY = "how far the identity comes on the way from random permutations (0) to the optimal one (1), by objective"
"""The quantity of most claims."""
FAR, NEAR = 0.15, 0.9
"""Shares of the way from random permutations to the optimal one that count as far from it and as nearly there."""
NEARLY_OPTIMAL = (
    "The paper calls the identity nearly optimal for large enough σ_F; a tenth is left for noise between runs. A "
    "sketch on digits had been seen."
)
_POINT_NAMES = (
    (r"hidden(\d+)", r"after layer \1"),
    (r"stream(\d+)", r"BG \1 residual stream"),
    (r"inner(\d+\.\d+)", r"layer \1 inner"),
    (r"stream", r"residual stream"),
    (r"mlp(\d+)", r"MLP \1 inner"),
)


# What is drawn


def sweep_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the W-asymmetric sweep over sigma_F, with their labels.

    Raises:
        UserError: it has a single value of sigma_F.
    """
    sweep = sigma_sweep(table)
    need_several(sweep, "sigma_F", f"{where(table)}.variants: give one sweep: {{scheme.sigma_F: [0, 1]}}")
    return label_rows(table, sweep)


def need_epochs(tables: Tables) -> pd.DataFrame:
    """The objectives of networks of several epochs.

    Raises:
        UserError: there are those of a single epoch.
    """
    matching = need(tables, "matching.csv")
    need_several(matching, "epoch", f"{where(matching)}.snapshots")
    return matching


def mark_zero(axis: Axes, rows: pd.DataFrame, x: str = "") -> None:
    """Draw the line of no correlation; tick an axis of sigma_F, or one of epochs at whole ones."""
    from matplotlib.ticker import MaxNLocator

    axis.axhline(0, color="0.85", linewidth=0.7, zorder=0)
    if x == "sigma_F":
        tick_sigma(axis, rows["sigma_F"])
    if x == "epoch":
        axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))


def draw_objectives(
    rows: pd.DataFrame, x: str, x_label: str, style: Style, row: str = "dataset", **options: object
) -> Figure:
    """A panel for each value of the columns ``row`` and ``column``, in it a line for each kind of permutation."""
    looks, axes = permutation_looks(style), labelled(x_label, OBJECTIVE)
    given: dict[str, Any] = {"row": row, "axes": axes, "more": partial(mark_zero, x=x), "note": over_pairs(rows)}
    return facets(rows, x, "objective", looks, line="permutation", **(given | options))


# What is measured


def at_worst(
    tables: Tables, value: str, which: masks.Mask, score: Score, layerwise: bool, moments: Moments = last_epoch
) -> list[Found]:
    """A column of ``pair_objectives``, mean over pairs, of each variant at the last epoch, or the worst of ``moments``.

    Of objectives averaged over layers, or, layerwise, in the worst layer.
    """
    rows = pair_objectives(moments(tables["matching.csv"]), layerwise)
    return worst_of_each(by_variant(rows, value, which, PLACE).means(), score, *PLACE)


def while_training(matching: pd.DataFrame) -> pd.DataFrame:
    """The rows after training has begun, of the variants that have two snapshots there."""
    rows = matching[matching["epoch"] > 0]
    return rows[rows.groupby("variant")["epoch"].transform("nunique") > 1]


AT_THE_END = partial(at_worst, value="way", layerwise=True)
CLAIM = partial(Claim, owner="paper", origin="pilot", tables=("matching.csv",))


# Names of the places after which neurons are compared


def sort_points(names: Iterable[str]) -> list[str]:
    """Distinct recording points from input to output.

    The names that symlab's networks give (hidden2, stream1, inner1.3) tell their places by their numbers. If there are
    others, those of traced networks, all keep the order in which they come.
    """
    distinct = list(dict.fromkeys(names))
    if not all(re.fullmatch(r"(hidden|stream|inner)[\d.]+", name) for name in distinct):
        return distinct
    return sorted(distinct, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])


def in_lines(points: list[str]) -> list[list[str]]:
    """Recording points in lines of panels: up to six in one, else one for each block group, or lines of four."""
    if len(points) <= 6:
        return [points]
    found = {point: re.fullmatch(r"(?:stream|inner)(\d+)(?:\.\d+)?", point) for point in points}
    groups = {point: match[1] for point, match in found.items() if match}
    if len(groups) == len(points):
        return [list(line) for _, line in groupby(points, groups.__getitem__)]
    return [points[start : start + 4] for start in range(0, len(points), 4)]


def name_point(point: str) -> str:
    """The name for people of a recording point after which neurons are compared; a traced one's is its own."""
    for pattern, name in _POINT_NAMES:
        if found := re.fullmatch(pattern, point):
            return found.expand(name)
    # Two dollar signs would be read as mathematics.
    return point.replace("$", r"\$")


def break_text(text: str, width: float, style: Style) -> str:
    """Text in lines that fit into a width in inches, broken after a space, dot, underscore, colon or dash."""
    limit = max(8, int(72 * width / (CHARACTER * style.font_size)))
    lines = [""]
    for piece in re.findall(rf"[ ._:/-]*[^ ._:/-]{{1,{limit}}}[ ._:/-]*|[ ._:/-]+", text):
        if lines[-1] and len(lines[-1] + piece.rstrip()) > limit:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)
