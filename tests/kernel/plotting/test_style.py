"""The look of figures: seaborn's, without seaborn; and how text and points are laid out."""

from xml.etree import ElementTree

import matplotlib
import numpy as np
import pandas as pd
import pytest
import seaborn
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread

from symlab.errors import UserError
from symlab.plotting.log_axes import floor_of, scale_log
from symlab.plotting.settings import Style
from symlab.plotting.style import TICKS, Look, apply_style, legend, ordered_colors, palette, panels, save
from symlab.plotting.svg import shorten
from symlab.plotting.units import draw_units, over_pairs


def test_the_written_out_palette_and_style_are_seaborn_s():
    for n in (3, 10, 12):
        assert palette(Style(), n) == [to_rgb(color) for color in seaborn.color_palette("colorblind", n)]
        assert ordered_colors(n) == [to_rgb(color) for color in seaborn.color_palette("viridis", n + 1)[:n]]
    of_seaborn = seaborn.axes_style("ticks")
    assert {key: of_seaborn[key] for key in TICKS} == TICKS


def test_another_palette_is_seaborn_s_and_an_unknown_one_is_refused():
    assert palette(Style(palette="deep"), 2) == [to_rgb(color) for color in seaborn.color_palette("deep", 2)]
    with pytest.raises(UserError, match=r"style\.palette is 'mud'"):
        palette(Style(palette="mud"))


def test_settings_of_matplotlib_come_back():
    before = dict(matplotlib.rcParams)
    with apply_style(Style(font_size=7)):
        assert matplotlib.rcParams["font.size"] == 7
        for part in ("major.width", "major.size", "labelsize"):
            assert matplotlib.rcParams[f"xtick.{part}"] == matplotlib.rcParams[f"ytick.{part}"] <= 7
    assert dict(matplotlib.rcParams) == before


def test_the_same_figure_gives_the_same_files(tmp_path):
    contents = []
    for folder in (tmp_path / "first", tmp_path / "again"):
        figure, axes = panels(1, 2, 3, 2)
        axes[0, 0].plot([1, 2])
        files = [folder / f"figure.{kind}" for kind in ("svg", "pdf", "png")]
        save(figure, *files, dpi=80)
        contents.append([file.read_bytes() for file in files])
    assert contents[0] == contents[1]
    assert imread(tmp_path / "first" / "figure.png").shape[:2] == (160, 272)
    assert b"<image" not in contents[0][0]


@pytest.mark.parametrize(("asked", "given"), [(2, 326), (3.4, 326), (3.5, 450), (5, 576), (9, 576)])
def test_figures_have_one_of_three_widths(asked, given, tmp_path):
    with apply_style(Style()):
        figure, axes = panels(1, 3, asked, 2)
        axes[0, 0].plot(np.ones((2, 12)), label="a line")
        legend(figure, axes[0, 0].lines, "a title that is much too long for one line of the narrowest of them " * 3)
        save(figure, tmp_path / "a.svg", dpi=50)
    drawing = ElementTree.parse(tmp_path / "a.svg").getroot()
    assert round(float(drawing.attrib["width"].removesuffix("pt")) * 4 / 3) == given
    assert figure.legends[0].get_window_extent().width <= figure.bbox.width


def test_a_shortened_drawing_is_the_same_tree_of_what_is_drawn():
    letters = '<use xlink:href="#a"/><use xlink:href="#a" transform="translate(61.523 0)" style="fill: red; x: 1"/>'
    group = f'<g transform="scale(2)">{letters}</g>'
    # A group without attributes, here around everything, is none.
    path = '<path id="a" d="M 0.123 0.987 Q 1 1 2 0 L 3 0 L 4 1"/>'
    svg = f'<svg xmlns:xlink="x"><g><g id="b"><g/>{path}{group}</g></g></svg>'
    short = shorten(svg)
    assert [each.tag for each in ElementTree.fromstring(short).iter()] == ["svg", "g", "path", "g", "use", "use"]
    assert '<use xlink:href="#n0" x="61.5" style="fill:red;x:1"/>' in short
    assert 'd="M0.1 0.9Q1 1 2 0L3 0 4 1"' in short


def test_a_drawing_of_very_many_points_is_pixels_where_they_are(tmp_path):
    figure, axes = panels(1, 1, 3, 2)
    axes[0, 0].scatter(*np.random.default_rng(0).normal(size=(2, 20_000)))
    save(figure, tmp_path / "dense.svg", dpi=80)
    svg = (tmp_path / "dense.svg").read_text()
    # The axes stay vectors.
    assert len(svg) < 100_000 and svg.count("<image") == 1 and "<path" in svg


@pytest.mark.parametrize(
    ("n", "text", "n_lines"), [(4, "mean ± std, 4 pairs", 1), (2, "2 pairs, each drawn", 2), (1, "1 pair", 1)]
)
def test_two_pairs_are_lines_and_more_are_a_mean(n, text, n_lines):
    rows = pd.DataFrame([(pair, x, pair + x) for pair in range(n) for x in (0.0, 1.0)], columns=["pair", "x", "y"])
    rows = rows.assign(variant="v", mask_seed=0)
    _, axes = panels(1, 2, 2, 2)
    for axis, band in zip(axes.flat, (True, False), strict=True):
        draw_units(axis, rows, "x", "y", Look((0, 0, 0)), "v", band=band)
        assert over_pairs(rows) == text and len(axis.lines) == n_lines + (0 if band or n <= 2 else 2)
        mean, std = 1 + (n - 1) / 2 if n > 2 else 1, np.std(range(n), ddof=1) if n > 2 else 0
        assert axis.lines[0].get_ydata()[1] == pytest.approx(mean)
        if n > 2:
            (spread,) = axis.collections
            ends = [path.vertices[path.vertices[:, 0] == 1, 1] for path in spread.get_paths()][-1]
            assert (ends.min(), ends.max()) == pytest.approx((mean - std, mean + std))


@pytest.mark.parametrize(
    ("values", "floor"), [([2.0, 8.0], 2), ([0.0, 3.0], 1), ([6.0, 1e-9, np.nan, np.inf], 2), ([0.0], 1), ([], 1)]
)
def test_the_edge_of_a_logarithmic_axis_is_below_all_but_rounding(values, floor):
    assert floor_of(values) == pytest.approx(floor)


@pytest.mark.parametrize(
    ("which", "low", "high", "labelled", "plain"),
    [
        ("y", 2, 3, [2, 2.25, 2.5, 2.75, 3], True), ("y", 0.55, 1.9, [0.8, 1.2, 1.6], True),
        ("y", 1, 90, [1, 2, 5, 10, 20, 50], True),
        ("x", 1, 90, [1, 3, 10, 30], True), ("x", 1, 9e3, [1, 10, 100, 1000], False),
        ("y", 1e-4, 9e-3, [1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3], False),
    ],
)  # fmt: skip
def test_a_logarithmic_axis_has_labels_within_few_decades_and_powers_where_it_is_long(
    which, low, high, labelled, plain
):
    _, axes = panels(1, 1, 3, 2)
    axes[0, 0].set(**{f"{which}lim": (low, high)})
    scale_log(axes, which)
    axis = getattr(axes[0, 0], f"{which}axis")
    found = [at for at in axis.get_majorticklocs() if low <= at <= high]
    assert found == pytest.approx(labelled)
    for at, label in zip(found, axis.get_major_formatter().format_ticks(found), strict=True):
        assert label == f"{at:g}" if plain else "10^" in label


@pytest.mark.parametrize("asked", ["figure.autolayout", "figure.constrained_layout.use"])
def test_files_of_a_figure_are_laid_out_alike_whatever_matplotlibrc_asks_for(tmp_path, asked):
    with apply_style(Style()), matplotlib.rc_context({asked: True}):
        figure = Figure(layout="compressed")
        axes = figure.subplots()
        figure.colorbar(axes.imshow([[0, 1], [2, 3]]))
        save(figure, tmp_path / "a.svg", dpi=50)
        before = axes.get_position().bounds
        save(figure, tmp_path / "b.svg", tmp_path / "b.pdf", dpi=50)
    assert (tmp_path / "b.pdf").stat().st_size and axes.get_position().bounds == before
