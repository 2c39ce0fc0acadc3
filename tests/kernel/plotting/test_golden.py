"""Figures and texts are what golden.txt holds, from looks, numbers and tables that have all that they can have.

As tests/kernel/cli/test_golden.py; where they shall be others:

    python -m tests.kernel.plotting.test_golden --store
    git diff tests/kernel/plotting/golden.txt
"""

import math
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.image import imread

from symlab.plotting.log_axes import floor_of, scale_log
from symlab.plotting.numbers import format_briefly, format_number, format_value, typeset
from symlab.plotting.pairs import mean_std
from symlab.plotting.style import (
    Look,
    Style,
    apply_style,
    handles,
    legend,
    line_entry,
    mark_entry,
    name_row,
    ordered_colors,
    palette,
    panels,
    save,
    set_ticks,
)
from symlab.plotting.units import draw_units, over_pairs

from ..golden import differences, picture

GOLDEN, PROMPT = Path(__file__).parent / "golden.txt", "$ "
NUMBERS = (
    0.0,
    -0.0,
    1.0,
    -0.5,
    0.049951,
    29.14,
    999.6,
    1000.4,
    1234567.8,
    2e-5,
    -3.21e-7,
    math.inf,
    -math.inf,
    math.nan,
)
ERRORS = (0.0, 0.0098, 5.13, 0.5, 123.4, 3e-9, 3e-17, math.nan, math.inf)
TEXTS = ("from -0.5 to -.5, x-1 (-2) 3 -4", "2e-05 1e+10 1e3 a1e-05b", "-1e-05")


def rows_of(n, unit="pair"):
    """Two values at each of three places for n pairs, or networks."""
    drawn = [(number, x, (number + 1) * (x + 0.5) ** 2) for number in range(n) for x in (0.0, 1.0, 2.0)]
    return pd.DataFrame(drawn, columns=[unit, "x", "y"]).assign(variant="v", mask_seed=0)


def figures():
    """A grid with everything that is drawn of units, and one with long labels."""
    style = Style(font_size=8)
    colors, ordered = palette(style), ordered_colors(4)
    looks = {
        "one": Look(colors[0]),
        "dashed": Look(colors[1], (0, (4, 1)), "s", "white"),
        "other": Look(ordered[2], "--", "^"),
    }
    with apply_style(style):
        figure, axes = panels(2, 3, 4, 2.5, sharey="row")
        given = [{"band": True}, {"band": False}, {"marker": False}, {}, {"unit": ["seed"]}, {}]
        tables = [rows_of(4), rows_of(3), rows_of(2), rows_of(1), rows_of(3, "seed"), rows_of(3, "seed")]
        for axis, rows, options, look in zip(axes.flat, tables, given, [*looks.values()] * 2, strict=True):
            draw_units(axis, rows, "x", "y", look, over_pairs(rows), **options)
            axis.set_title(over_pairs(rows))
        name_row(axes[0, 2], "a row")
        set_ticks(axes[1, 0].xaxis, (0.5, 1.25))
        scale_log(axes[1:], "y")
        entries = [*handles(looks), *handles(looks, marker=False), line_entry("grey"), line_entry("red", color="r")]
        legend(figure, [*entries, mark_entry("mark", "x", color="b")], "first line\n\nand a second that is long " * 3)
        yield figure
        narrow, (row,) = panels(1, 1, 2, 1)
        row[0].plot([1, 900], [0.002, 0.02])
        scale_log(np.array([row]), "x")
        scale_log(np.array([row]), "y")
        yield narrow


def saved():
    """Of one drawing the SVG file as it is, and of another with many points what it holds; and a picture's size."""
    with tempfile.TemporaryDirectory() as folder, apply_style(Style()):
        for n in (3, 30_000):
            figure, axes = panels(1, 1, 3, 2)
            axes[0, 0].plot(np.linspace(0, 1, n), np.sin(np.arange(n)), "o-", color="#123456")
            axes[0, 0].scatter([0.2, 0.4], [0.1, 0.3], c=["r", "b"], alpha=0.5)
            axes[0, 0].set_axis_off()
            save(figure, *(Path(folder) / f"a.{kind}" for kind in ("svg", "png", "pdf")), dpi=40)
            svg = (Path(folder) / "a.svg").read_text()
            yield f"{svg.count('<image')} images, {imread(Path(folder) / 'a.png').shape}"
            if n == 3:
                yield from svg.replace("><", ">\n<").splitlines()


def transcript():
    lines = [f"{PROMPT}numbers"]
    lines += [f"{each}: {format_number(each)}, {format_briefly(each)}" for each in NUMBERS]
    lines += [f"{each}, {error}: {format_value(each, error)}" for each in NUMBERS[4:9] for error in ERRORS]
    lines += [f"{text}: {typeset(text)}" for text in TEXTS]
    values = ([2.0, 8.0], [0.0, 3.0], [6.0, 1e-9], [1e-3, 1e3, 1e-4], [-1.0], [])
    lines += [f"{each}: {floor_of(each):.5g}" for each in values]
    lines += mean_std(rows_of(3), "x", "y").to_csv(index=False).splitlines()
    for figure in figures():
        lines += ["== figure", *picture(figure).splitlines()]
        for axis in figure.axes:
            for each in (axis.xaxis, axis.yaxis):
                low, high = sorted(each.get_view_interval())
                places = [place for place in each.get_majorticklocs() if low <= place <= high]
                lines += [f"  ticks {each.get_major_formatter().format_ticks(places)}"]
    return "\n".join([*lines, f"{PROMPT}files", *saved()]) + "\n"


def test_figures_numbers_and_files_are_what_they_were():
    found = list(differences(transcript(), GOLDEN.read_text(), PROMPT, rtol=1.01e-4, atol=1e-9))
    assert not found, "\n".join([f"{len(found)} lines are not what they were:", *found[:5]])


if __name__ == "__main__" and "--store" in sys.argv:
    GOLDEN.write_text(transcript())
