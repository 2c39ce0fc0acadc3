"""The places in a network after which neurons are compared: their order and their names."""

import math
import re
from collections.abc import Iterable
from itertools import groupby

from symlab.plotting.style import CHARACTER, Style

LONGEST_LINE, PANELS = 6, 4
"""Panels that stay in one line, and panels of each line where there are more."""
_POINT_NAMES = (
    (r"hidden(\d+)", r"after layer \1"),
    (r"stream(\d+)", r"BG \1 residual stream"),
    (r"inner(\d+\.\d+)", r"layer \1 inner"),
    (r"stream", r"residual stream"),
    (r"mlp(\d+)", r"MLP \1 inner"),
)


def sort_points(names: Iterable[str]) -> list[str]:
    """Distinct recording points from input to output.

    The names that symlab's networks give (hidden2, stream1, inner1.3) tell their places. If there are others, those of
    traced networks, all keep the order in which they come.
    """
    distinct = list(dict.fromkeys(names))
    places = {name: place for name in distinct if (place := _place(name)) is not None}
    return sorted(distinct, key=places.__getitem__) if len(places) == len(distinct) else distinct


def _place(name: str) -> tuple[float, ...] | None:
    """Where a point lies from input to output; None for the name of a traced one."""
    ends = {"input": -1.0, "output": math.inf}
    if name in ends:
        return (ends[name],)
    found = re.fullmatch(r"hidden(\d+)|stream(\d+)|inner(\d+)\.(\d+)", name)
    return None if found is None else tuple(float(number) for number in found.groups() if number is not None)


def in_lines(points: list[str]) -> list[list[str]]:
    """Recording points in lines of panels: one for each block group of a residual network, else of equal length."""
    if len(points) <= LONGEST_LINE:
        return [points]
    found = {point: re.fullmatch(r"(?:stream|inner)(\d+)(?:\.\d+)?", point) for point in points}
    groups = {point: match[1] for point, match in found.items() if match}
    if len(groups) == len(points):
        return [list(line) for _, line in groupby(points, groups.__getitem__)]
    return [points[start : start + PANELS] for start in range(0, len(points), PANELS)]


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
