"""What a picture holds, but for its layout, in three numbers."""

import zlib

import numpy as np
from matplotlib.collections import Collection
from matplotlib.colors import to_rgba
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from symlab.plotting.style import Style, apply_style
from symlab.study.card import drawings_of

from .stories import story_of

STYLE = Style()


def draw(paper, figure):
    """A figure of a card, from its story with no two measured numbers alike."""
    with apply_style(STYLE):
        return drawings_of(figure.module)[figure.id].draw(story_of(paper.slug, paper.number(figure.id)), STYLE)


def held_by(figure):
    """A digest of all words, how many coordinates, colours and values are drawn, and a sum that depends on their order.

    Not ticks and limits, nor where words stand: they depend on fonts and on the version of matplotlib.
    """
    words = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    parts = []
    for axis in figure.axes:
        legend = axis.get_legend()
        words += [axis.title, axis.xaxis.label, axis.yaxis.label, *axis.texts, *(legend.get_texts() if legend else [])]
        for artist in [*axis.lines, *axis.collections, *axis.patches, *axis.images]:
            parts += _numbers(artist)
        parts += [np.array([axis.get_xscale() == "log", axis.get_yscale() == "log"])]
    values = np.concatenate([np.ma.filled(np.ma.asarray(part, dtype=float), np.nan).ravel() for part in parts])
    values = np.arcsinh(1e6 * values[np.isfinite(values)])
    told = zlib.crc32("\n".join(word.get_text() for word in words).encode())
    return [told, len(values), round(float(values @ np.cos(np.arange(len(values)))), 3)]


def looks_of(figure):
    """A digest of what tells lines apart beside colours, of legends' notes and entries, and of what pixels draw."""
    legends = [*figure.legends, *(axis.get_legend() for axis in figure.axes if axis.get_legend())]
    entries = [entry for legend in legends for entry in legend.legend_handles]
    drawn = [artist for axis in figure.axes for artist in [*axis.lines, *axis.collections, *axis.patches]]
    looks = [
        [bool(artist.get_rasterized()), artist.get_hatch() if isinstance(artist, Patch) else ""] for artist in drawn
    ]
    looks += [[line.get_linestyle(), line.get_marker()] for line in [*drawn, *entries] if isinstance(line, Line2D)]
    looks += [[f"{number:.4f}" for part in _numbers(entry)[-1:] for number in np.ravel(part)] for entry in entries]
    looks += [legend.get_title().get_text() for legend in legends]
    return zlib.crc32(repr(looks).encode())


def _numbers(artist):
    match artist:
        case Line2D():
            return [artist.get_xydata(), to_rgba(artist.get_color())]
        case Collection():
            vertices = [path.vertices for path in artist.get_paths()]
            array = artist.get_array()
            return [artist.get_offsets(), *vertices, artist.get_facecolor() if array is None else array]
        case Patch():
            return [artist.get_patch_transform().transform(artist.get_path().vertices), artist.get_facecolor()]
        case AxesImage():
            return [artist.get_array()]
    return []
