"""The looks of the paper's variants and permutations, the same in every figure; axes of sigma_F and of epochs."""

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd

from symlab.plotting.style import Axes, Color, Look, Style, palette
from symlab.plotting.units import draw_units

PERMUTATIONS = ("optimal", "identity", "random")
SIGMA_COLORS = {
    0.1: "#e0c20a",
    0.25: "#a3c522",
    0.5: "#57b53c",
    1.0: "#029e73",
    2.0: "#0d7f78",
    3.0: "#0f5d57",
    5.0: "#153f3c",
    10.0: "#141c1b",
}
"""W-asymmetric networks by sigma_F: from light to dark and from yellow over green to black."""


def permutation_looks(style: Style) -> dict[str, Look]:
    """The look of the optimal, the identity and random permutations."""
    colors = palette(style)
    # Where the identity is the optimum, its dashes leave the other's line to be seen.
    looks = (
        Look(colors[9], "-", "o"),
        Look(colors[1], (0, (3, 2)), "s", face="white"),
        Look(colors[7], (0, (1, 1.5)), "^"),
    )
    return dict(zip(PERMUTATIONS, looks, strict=True))


def variant_looks(variants: pd.DataFrame, style: Style, **shown: Any) -> dict[str, Look]:
    """The look of each variant by label, the same in every figure of every study: that of its scheme and sigma_F.

    A scheme has a hue, a line and a marker; W-asymmetric with sigma_F = 0 has one of its own, and from there on an
    ordered scale. Variants that share both, and differ in a width, say, are shades of their colour. Schemes that are
    not the papers' take the remaining colours in turn. ``shown`` replaces parts of all looks.
    """
    colors = palette(style)
    base: dict[str, Look] = {
        "standard": Look(colors[0], "-", "o"),
        "w_asymmetric at 0": Look(colors[3], (0, (5, 2)), "s"),
        "w_asymmetric": Look(colors[2], "-", "^"),
        "syre": Look(colors[4], (0, (5, 1, 1, 1)), "D"),
        "sigma": Look(colors[5], (0, (1, 1)), "v"),
        "sparse": Look(colors[9], "-", "P"),
        "w_asymmetric_heads": Look(colors[1], "-", "X"),
    }
    others = cycle(colors[index] for index in (7, 6))
    looks: dict[str, Look] = {}
    alike: dict[tuple[str, float], list[str]] = {}
    for variant in variants.drop_duplicates("label").itertuples():
        sigma_F = math.nan if pd.isna(variant.sigma_F) else float(variant.sigma_F)
        at_zero = variant.scheme == "w_asymmetric" and sigma_F == 0
        key = "sigma" if variant.activation == "sigma" else "w_asymmetric at 0" if at_zero else str(variant.scheme)
        if key not in base:
            base[key] = Look(next(others), "-", "P")
        look = base[key]
        if key == "w_asymmetric":
            look = replace(look, color=sigma_color(sigma_F))
        elif key != "w_asymmetric at 0" and sigma_F >= 0:
            look = replace(look, color=_shaded(look.color, np.clip(0.4 * np.log10(max(sigma_F, 0.1)), -0.4, 0.4)))
        looks[str(variant.label)] = look
        # Two values that are not a number would be two keys.
        alike.setdefault((key, -1.0 if math.isnan(sigma_F) else sigma_F), []).append(str(variant.label))
    for members in alike.values():
        for label, shade in zip(members, np.linspace(-0.5, 0.45, len(members)) if members[1:] else [0.0], strict=True):
            looks[label] = replace(looks[label], color=_shaded(looks[label].color, shade), **shown)
    return looks


def sigma_color(sigma_F: float) -> Color:
    """The colour of W-asymmetric networks with that sigma_F > 0: ``SIGMA_COLORS``, in between by its logarithm."""
    from matplotlib.colors import to_rgb

    places = np.log10(list(SIGMA_COLORS))
    parts = np.transpose([to_rgb(color) for color in SIGMA_COLORS.values()])
    red, green, blue = (float(np.interp(np.log10(sigma_F), places, part)) for part in parts)
    return red, green, blue


def _shaded(color: Color, shade: float) -> Color:
    """A colour mixed with white (shade < 0) or black (shade > 0)."""
    target = 1.0 if shade < 0 else 0.0
    red, green, blue = ((1 - abs(shade)) * part + abs(shade) * target for part in color)
    return red, green, blue


def draw_over_sigma(axis: Axes, rows: pd.DataFrame, x: str, value: str, look: Look, label: str) -> None:
    """As ``draw_units`` against x = sigma_F on an axis of ``tick_sigma``; 0 is not joined with the values above it."""
    placed = rows.assign(place=rows[x].map(_sigma_places(rows[x])))
    for part, name in ((placed[placed["sigma_F"] > 0], label), (placed[placed["sigma_F"] == 0], "_")):
        if len(part):
            draw_units(axis, part, "place", value, look, name, band=False)


def tick_sigma(axis: Axes, values: Iterable[float]) -> None:
    """Tick an axis at values of sigma_F: logarithmic, broken to the left of the smallest where 0 stands apart."""
    from matplotlib.ticker import NullLocator

    places = _sigma_places(values)
    low, high = min(places.values()), max(places.values())
    pad = 0.08 * max(high - low, 0.5)
    axis.set_xlim(low - pad, high + pad)
    # Ends, 0 and 1 have their labels first; what would touch one of those has a tick alone.
    room = 21 / max(axis.bbox.width * 72 / axis.figure.dpi, 1) * (high - low + 2 * pad)
    labelled: list[float] = []
    for value in sorted(places, key=lambda value: (value not in (min(places), max(places), 1), value)):
        if all(abs(places[value] - places[other]) >= room for other in labelled):
            labelled.append(value)
    axis.set_xticks(list(places.values()), [f"{value:g}" if value in labelled else "" for value in places])
    axis.xaxis.set_minor_locator(NullLocator())
    positive = [place for value, place in places.items() if value > 0]
    if 0.0 in places and positive:
        middle, width = (places[0.0] + min(positive)) / 2, 0.15 * pad
        for shift in (-width, width):
            x = [middle + shift - width, middle + shift + width]
            axis.plot(
                x, [-0.03, 0.03], color="0.15", linewidth=0.7, transform=axis.get_xaxis_transform(), clip_on=False
            )


def _sigma_places(values: Iterable[float]) -> dict[float, float]:
    """Where values of sigma_F lie: at their logarithm to base 10, and 0 apart from them to the left."""
    distinct = sorted({float(value) for value in values})
    places = {value: math.log10(value) for value in distinct if value > 0}
    if 0.0 in distinct:
        logs = list(places.values()) or [0.0]
        places = {0.0: min(logs) - max(0.3, 0.2 * (max(logs) - min(logs)))} | places
    return places
