"""The look of figures: seaborn's, without seaborn; and how text and points are laid out."""

import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
import seaborn
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from symlab.errors import UserError
from symlab.plotting.points import floor_of
from symlab.plotting.settings import Style
from symlab.plotting.style import TICKS, apply_style, break_text, ordered_colors, palette, panels, save, variant_looks


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


def test_drawing_imports_neither_seaborn_nor_scipy_and_reading_rows_no_matplotlib():
    code = (
        "import sys, symlab.plotting.points; assert 'matplotlib' not in sys.modules; "
        "from symlab.plotting.style import *; apply_style(Style()).__enter__(); palette(Style()); panels(1, 1, 2, 2); "
        "sys.exit(bool({'seaborn', 'scipy', 'torch'} & sys.modules.keys()))"
    )
    workflow = Path(__file__).parents[3] / "workflow"
    assert subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(workflow)}).returncode == 0


def test_settings_of_matplotlib_come_back():
    before = dict(matplotlib.rcParams)
    with apply_style(Style(font_size=7)):
        assert matplotlib.rcParams["font.size"] == 7
    assert dict(matplotlib.rcParams) == before


def test_the_same_figure_gives_the_same_files(tmp_path):
    contents = []
    for folder in (tmp_path / "first", tmp_path / "again"):
        figure, axes = panels(1, 2, 3, 2)
        axes[0, 0].plot([1, 2])
        save(figure, folder / "figure.pdf", folder / "figure.png", 80)
        contents.append([(folder / name).read_bytes() for name in ("figure.pdf", "figure.png")])
    assert contents[0] == contents[1]
    assert imread(tmp_path / "first" / "figure.png").shape[:2] == (160, 240)


def test_each_variant_has_a_look_of_its_own():
    rows = [
        ("standard", np.nan),
        ("w_asymmetric", 0.0),
        ("w_asymmetric", 1.0),
        ("w_asymmetric", 3.0),
        ("sparse", np.nan),
    ]
    variants = pd.DataFrame(rows, columns=["scheme", "sigma_F"]).assign(activation="gelu", label=list("abcde"))
    looks = variant_looks(variants, Style())
    assert list(looks) == list("abcde") and len({look.color for look in looks.values()}) == 5
    assert looks["c"].marker == looks["d"].marker != looks["b"].marker


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("features.0", 1.7, ["features.0"]),
        ("blocks.0.attention.query:1", 1.7, ["blocks.0.attention.", "query:1"]),
        ("layer 1.1 inner", 1.1, ["layer 1.1", "inner"]),
        ("x" * 20, 1.0, ["x" * 12, "x" * 8]),
        ("_", 1.7, ["_"]),
        ("", 1.7, [""]),
    ],
)
def test_names_are_broken_at_their_joints(text, width, lines):
    assert break_text(text, width, Style()).split("\n") == lines


@pytest.mark.parametrize(
    ("values", "floor"), [([2.0, 8.0], 2), ([0.0, 3.0], 1), ([6.0, 1e-9, np.nan, np.inf], 2), ([0.0], 1), ([], 1)]
)
def test_the_edge_of_a_logarithmic_axis_is_below_all_but_rounding(values, floor):
    assert floor_of(values) == pytest.approx(floor)
