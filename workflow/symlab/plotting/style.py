"""One look for all figures: sizes and fonts, the colour of every variant and permutation, labels, legends, files.

matplotlib is imported by the functions that need it: a figure's file, which imports this module, holds its claims too,
and a claims job does not pay for what it does not draw.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.plotting.rows import PAIR, PERMUTATIONS, mean_std
from symlab.plotting.settings import Style

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.typing import LineStyleType

Color = tuple[float, float, float]
Shared = Literal["none", "all", "row", "col"] | bool

COLUMN, PAGE = 3.4, 6.9
"""Widths in inches of a column and of a page of the paper."""
CHARACTER = 0.62
"""Width of a character as a multiple of the font size, on average."""
ERROR_ALPHA = 0.18
DENSE_BYTES, DENSE_POINTS = 300_000, 500
"""Of an SVG file above so many bytes, lines and marks of more than so many points are drawn as pixels."""
FEW = 2
"""Pairs or networks up to which each has a line of its own."""
COLORBLIND = (
    "#0173b2",
    "#de8f05",
    "#029e73",
    "#d55e00",
    "#cc78bc",
    "#ca9161",
    "#fbafe4",
    "#949494",
    "#ece133",
    "#56b4e9",
)
"""seaborn's palette of that name. It is written out, since seaborn costs a second and a half of CPU to import."""
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
TICKS: dict[str, Any] = {
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "axes.edgecolor": ".15",
    "axes.labelcolor": ".15",
    "axes.axisbelow": True,
    "axes.grid": False,
    "grid.color": ".8",
    "grid.linestyle": "-",
    "text.color": ".15",
    "xtick.color": ".15",
    "ytick.color": ".15",
    "xtick.direction": "out",
    "ytick.direction": "out",
    "lines.solid_capstyle": "round",
    "patch.edgecolor": "w",
    "patch.force_edgecolor": True,
}
"""seaborn's style of that name."""


@dataclass(frozen=True)
class Look:
    """How a line (or box) is drawn wherever it appears."""

    color: Color
    linestyle: LineStyleType = "-"
    marker: str = "o"
    face: Color | Literal["white"] | None = None
    """The marker's face if it is not the colour."""


@contextmanager
def apply_style(style: Style) -> Iterator[None]:
    """matplotlib's settings for the length of a block; the ones from before come back after it."""
    size = style.font_size
    settings: Any = {
        **TICKS,
        "font.size": size,
        "axes.labelsize": size,
        "axes.titlesize": size,
        "xtick.labelsize": size - 1,
        "ytick.labelsize": size - 1,
        "legend.fontsize": size - 1,
        "legend.title_fontsize": size - 1,
        "legend.frameon": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.7,
        "xtick.major.width": 0.7,
        "ytick.major.width": 0.7,
        "xtick.major.size": 3,
        "ytick.major.size": 3,
        "lines.linewidth": 1.3,
        "lines.markersize": 3.5,
        "font.family": ["sans-serif"],
        "font.sans-serif": ["DejaVu Sans"],
    }
    import matplotlib

    with matplotlib.rc_context(settings):
        yield


def save(figure: Figure, *paths: str | Path, dpi: int) -> None:
    """Write a figure to files of the kinds that their suffixes name, each whole or not at all, without dates in them.

    What is no vectors, and in an SVG file above ``DENSE_BYTES`` what has many points, has ``dpi`` dots per inch.
    """
    import matplotlib

    from symlab.artifacts import atomic, write_text

    with matplotlib.rc_context({"pdf.fonttype": 42, "svg.hashsalt": "symlab"}):
        for path in map(Path, paths):
            if path.suffix == ".svg":
                write_text(path, _draw_svg(figure, dpi))
            else:
                metadata = {"CreationDate": None} if path.suffix == ".pdf" else {"Software": None}
                with atomic(path) as temporary:
                    figure.savefig(temporary, dpi=dpi, metadata=metadata)
            # The places found for the first file are those of the others: finding them takes longer than drawing.
            figure.set_layout_engine("none")


def _draw_svg(figure: Figure, dpi: int) -> str:
    from symlab.plotting.svg import shorten

    for last in (False, True):
        content = io.StringIO()
        figure.savefig(content, format="svg", dpi=dpi, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
        svg = shorten(content.getvalue())
        if last or len(svg) <= DENSE_BYTES:
            break
        for artist in filter(lambda each: _points(each) > DENSE_POINTS, figure.findobj()):
            artist.set_rasterized(True)
    return svg


def _points(artist: Any) -> int:
    from matplotlib.collections import Collection
    from matplotlib.lines import Line2D

    if isinstance(artist, Collection):
        outlines = [np.asarray(path.vertices) for path in artist.get_paths()]
        return max(len(np.asarray(artist.get_offsets())), sum(map(len, outlines)))
    return len(np.asarray(artist.get_xdata())) if isinstance(artist, Line2D) else 0


def palette(style: Style, n: int = 10) -> list[Color]:
    """The first n colours of the style's palette.

    Raises:
        UserError: seaborn knows no palette of that name.
    """
    from matplotlib.colors import to_rgb

    if style.palette == "colorblind":
        return [to_rgb(color) for color in islice(cycle(COLORBLIND), n)]
    import seaborn as sns

    try:
        return [to_rgb(color) for color in sns.color_palette(style.palette, n)]
    except ValueError:
        raise UserError(
            f"style.palette is {style.palette!r}, which is not a seaborn palette; try colorblind."
        ) from None


def ordered_colors(n: int) -> list[Color]:
    """n colours from dark to light for the values of an ordered quantity such as k."""
    from matplotlib import colormaps
    from matplotlib.colors import to_rgb

    # The lightest is left out; it can hardly be seen on white.
    return [to_rgb(color) for color in colormaps["viridis"](np.linspace(0, 1, n + 3)[1 : n + 1])]


def permutation_looks(style: Style) -> dict[str, Look]:
    """The look of the optimal, the identity and random permutations."""
    colors = palette(style)
    # Where the identity is the optimum, the dashes and open squares of the one leave the other to be seen.
    looks = (
        Look(colors[9], "-", "o"),
        Look(colors[1], (0, (3, 2)), "s", face="white"),
        Look(colors[7], (0, (1, 1.5)), "^"),
    )
    return dict(zip(PERMUTATIONS, looks, strict=True))


def variant_looks(variants: pd.DataFrame, style: Style) -> dict[str, Look]:
    """The look of each variant by label, the same in every figure of every study: that of its scheme and sigma_F.

    A scheme has a hue, a line and a marker; W-asymmetric with sigma_F = 0 has one of its own, and from there on an
    ordered scale. Variants that share both, and differ in a width, say, are shades of their colour. Schemes that are
    not the papers' take the remaining colours in turn.
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
        for label, shade in zip(members, _shades(len(members)), strict=True):
            looks[label] = replace(looks[label], color=_shaded(looks[label].color, shade))
    return looks


def sigma_color(sigma_F: float) -> Color:
    """The colour of W-asymmetric networks with that sigma_F > 0: ``SIGMA_COLORS``, in between by its logarithm."""
    from matplotlib.colors import to_rgb

    places = np.log10(list(SIGMA_COLORS))
    parts = np.transpose([to_rgb(color) for color in SIGMA_COLORS.values()])
    red, green, blue = (float(np.interp(np.log10(sigma_F), places, part)) for part in parts)
    return red, green, blue


def _shades(n: int) -> list[float]:
    return [0.0] if n == 1 else [float(shade) for shade in np.linspace(-0.5, 0.45, n)]


def _shaded(color: Color, shade: float) -> Color:
    """A colour mixed with white (shade < 0) or black (shade > 0)."""
    target = 1.0 if shade < 0 else 0.0
    red, green, blue = ((1 - abs(shade)) * part + abs(shade) * target for part in color)
    return red, green, blue


def panels(
    n_rows: int, n_columns: int, width: float, height: float, sharex: Shared = True, sharey: Shared = True
) -> tuple[Figure, np.ndarray]:
    """A figure of the given size in inches with a grid of axes [n_rows, n_columns]; pyplot does not know of it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="compressed")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(n_rows, n_columns, sharex=sharex, sharey=sharey, squeeze=False)


def name_axes(axes: np.ndarray, x: str, y: str) -> None:
    """Label every axis of a grid; labels that a neighbour's shared axis already shows are kept but hidden."""
    n_rows = len(axes)
    for row, column in np.ndindex(axes.shape):
        axis: Any = axes[row, column]
        axis.set_xlabel(x)
        axis.set_ylabel(y)
        axis.xaxis.label.set_visible(row == n_rows - 1)
        axis.yaxis.label.set_visible(column == 0)


def leave_out(axes: np.ndarray, used: Sequence[int]) -> None:
    """Take all panels but the first ``used`` of each row off a grid; the lowest left in a column shows the x axis."""
    for row, column in np.ndindex(axes.shape):
        axis: Any = axes[row, column]
        if column >= used[row]:
            axis.remove()
        elif all(column >= below for below in used[row + 1 :]):
            axis.xaxis.label.set_visible(True)
            axis.tick_params(labelbottom=True)


def break_text(text: str, width: float, style: Style) -> str:
    """Text in lines that fit into a width in inches, broken after a space, dot, underscore, colon or dash."""
    limit = max(8, int(72 * width / (CHARACTER * style.font_size)))
    lines = [""]
    for piece in re.findall(rf"[ ._:/-]*[^ ._:/-]{{1,{limit}}}[ ._:/-]*|[ ._:/-]+", text):
        if lines[-1] and len(lines[-1] + piece.rstrip()) > limit:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def wrap_sentences(sentences: Sequence[str], width: float, style: Style) -> str:
    """Sentences that are not empty, each beginning a line, in lines that fit into a width in inches."""
    limit = max(20, int(72 * width / (CHARACTER * (style.font_size - 1))))
    return "\n".join(
        textwrap.fill(text, limit, break_long_words=False, break_on_hyphens=False) for text in sentences if text
    )


def name_row(axis: Axes, name: str) -> None:
    """Write a row's name to the right of its last panel."""
    axis.annotate(name, (1.0, 0.5), (6, 0), "axes fraction", "offset points", rotation=270, ha="left", va="center")


def mean_line(axis: Axes, stats: pd.DataFrame, look: Look, label: str, *, band: bool) -> None:
    """Draw columns x (the first), mean and std as a line with a band, or with error bars where the points are few."""
    x, mean, std = stats.iloc[:, 0].to_numpy(dtype=float), stats["mean"].to_numpy(), stats["std"].to_numpy()
    axis.plot(
        x, mean, color=look.color, linestyle=look.linestyle, marker=look.marker, markerfacecolor=look.face, label=label
    )
    if band:
        axis.fill_between(x, mean - std, mean + std, color=look.color, alpha=ERROR_ALPHA, linewidth=0)
    else:
        axis.errorbar(x, mean, yerr=std, fmt="none", ecolor=look.color, capsize=2, elinewidth=0.8)


def over_pairs(rows: pd.DataFrame) -> str:
    """What ``draw_units`` draws, with the number: mean ± std, 4 pairs (or networks)."""
    name, ids = _units(rows)
    low, high = (
        each(rows.groupby("variant")[ids].apply(lambda part: len(part.drop_duplicates()))) for each in (min, max)
    )
    n = f"{high}" if low == high else f"{low} to {high}"
    return f"1 {name[:-1]}" if high == 1 else f"{n} {name}, each drawn" if high <= FEW else f"mean ± std, {n} {name}"


def draw_units(
    axis: Axes, rows: pd.DataFrame, x: str, value: str, look: Look, label: str, *, band: bool, marker: bool = True
) -> None:
    """Draw ``value`` against ``x``: the mean over pairs (or networks) with its std, or, of up to two, each as a line.

    The standard deviation of two values is no estimate of anything, and the two can be shown.
    """
    _, ids = _units(rows)
    if not marker:
        look = replace(look, marker="")
    units = list(rows.groupby(ids, sort=False))
    if len(units) > FEW:
        mean_line(axis, mean_std(rows, x, value), look, label, band=band)
        return
    for number, (_, unit) in enumerate(units):
        line = mean_std(unit, x, value)
        axis.plot(
            line[x],
            line["mean"],
            color=look.color,
            linestyle=look.linestyle,
            marker=look.marker,
            linewidth=0.8,
            markersize=3,
            markerfacecolor=look.face,
            label=label if number == 0 else "_",
        )


def draw_over_sigma(axis: Axes, rows: pd.DataFrame, value: str, look: Look, label: str) -> None:
    """As ``draw_units`` against sigma_F on an axis of ``tick_sigma``; 0 is not joined with the values above it."""
    placed = rows.assign(place=rows["sigma_F"].map(_sigma_places(rows["sigma_F"])))
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


def tick_epochs(axis: Axes) -> None:
    """Tick an axis at whole epochs."""
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(4, integer=True))


def _units(rows: pd.DataFrame) -> tuple[str, list[str]]:
    """What was drawn independently of one another, and the columns that tell one from another."""
    return ("pairs", PAIR) if "pair" in rows else ("networks", ["mask_seed", "seed"])


def set_ticks(axis: Axis, values: Iterable[float]) -> None:
    """Tick an axis at the given values and nowhere else, with plain numbers as labels."""
    from matplotlib.ticker import FixedLocator, NullLocator

    axis.set_major_locator(FixedLocator(list(values)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter("{x:g}")


def line_entry(label: str, **look: Any) -> Artist:
    """The legend entry of a line or a marker, grey unless ``look`` (keywords of matplotlib's Line2D) has a colour."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **{"color": "0.4", **look})


def mark_entry(label: str, marker: str, **look: Any) -> Artist:
    """The legend entry of a marker without a line."""
    return line_entry(label, linestyle="", marker=marker, **look)


def handles(looks: dict[str, Look], *, marker: bool = True) -> list[Artist]:
    """Legend entries of lines."""
    return [
        line_entry(
            label,
            color=look.color,
            linestyle=look.linestyle,
            marker=look.marker if marker else "",
            markerfacecolor=look.face,
        )
        for label, look in looks.items()
    ]


def patches(looks: dict[str, Look]) -> list[Artist]:
    """Legend entries of filled boxes."""
    from matplotlib.patches import Patch

    return [Patch(facecolor=look.color, edgecolor="black", linewidth=0.5, label=label) for label, look in looks.items()]


def legend(figure: Figure, entries: Sequence[Artist], title: str) -> None:
    """One legend above all panels, read row by row, in as few rows as the figure's width allows."""
    # At other resolutions than the one measured at, hinted letters may be a little wider.
    n, room = len(entries), 0.97 * figure.bbox.width
    for n_rows in range(1, n + 1):
        columns = -(-n // n_rows)
        # matplotlib fills a legend column by column.
        by_row = [entries[index] for column in range(columns) for index in range(column, n, columns)]
        drawn = figure.legend(handles=by_row, loc="outside upper center", ncols=columns, title=title)
        drawn.get_title().set_multialignment("center")
        if columns == 1 or drawn.get_window_extent().width <= room:
            return
        drawn.remove()
