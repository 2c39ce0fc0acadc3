"""One look for all figures: sizes, fonts and colours, grids of panels, labels, legends, files.

matplotlib is imported by the functions that need it: a figure's file, which imports this module, holds its claims too,
and a claims job does not pay for what it does not draw.
"""

import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from symlab.errors import UserError
from symlab.plotting.settings import Style
from symlab.plotting.types import Artist, Axes, Axis, Figure, LineStyleType

Color = tuple[float, float, float]
Shared = Literal["none", "all", "row", "col"] | bool

COLUMN, MIDDLE, PAGE = 3.4, 4.69, 6.0
"""The widths in inches that figures have, and no others: 326, 450 and 576 pixels of a page, so that letters are equally
large in all of them."""
CHARACTER = 0.62
"""Width of a character as a multiple of the font size, on average."""
ERROR_ALPHA = 0.18
DENSE_BYTES, DENSE_POINTS = 300_000, 500
"""Of an SVG file above so many bytes, lines and marks of more than so many points are drawn as pixels."""
MARKERS = "osD^vPX*"
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


def panels(
    n_rows: int, n_columns: int, width: float, height: float, sharex: Shared = True, sharey: Shared = True
) -> tuple[Figure, np.ndarray]:
    """A figure with a grid of axes [n_rows, n_columns], of the height given in inches; pyplot does not know of it.

    It is as wide as the narrowest of ``COLUMN``, ``MIDDLE`` and ``PAGE`` that has room for ``width``, or as the page.

    Raises:
        UserError: the grid is empty.
    """
    if not (n_rows and n_columns):
        raise UserError("the study has none of what it shows; the figure's caption says of which networks that is.")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width = next((each for each in (COLUMN, MIDDLE) if width <= each), PAGE)
    figure = Figure(figsize=(width, height), layout="compressed")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(n_rows, n_columns, sharex=sharex, sharey=sharey, squeeze=False)


def _wrap(lines: Sequence[str], width: float, font_size: float) -> str:
    limit = max(20, int(72 * width / (CHARACTER * font_size)))
    return "\n".join(
        textwrap.fill(text, limit, break_long_words=False, break_on_hyphens=False) for text in lines if text
    )


def name_row(axis: Axes, name: str) -> None:
    """Write a row's name to the right of its last panel."""
    axis.annotate(name, (1.0, 0.5), (6, 0), "axes fraction", "offset points", rotation=270, ha="left", va="center")


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


def legend(figure: Figure, entries: Sequence[Artist], title: str) -> None:
    """One legend above all panels, read row by row, in as few rows as the figure's width allows.

    Each line of its title that is not empty is broken where the figure ends.
    """
    from matplotlib import rcParams

    title = _wrap(title.split("\n"), figure.get_figwidth(), rcParams["legend.title_fontsize"] or rcParams["font.size"])
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
