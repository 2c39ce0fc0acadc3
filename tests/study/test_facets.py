"""Grids of panels read back: what lines stand in them, where labels are, what the legend names."""

import numpy as np
import pandas as pd
import pytest

from symlab.plotting.style import Style, apply_style, palette
from symlab.study.facets import Panel, assign_looks, draw_each, draw_grid, draw_rows, facets, labelled


@pytest.fixture(autouse=True)
def styled():
    with apply_style(Style()):
        yield


@pytest.fixture
def rows():
    return pd.DataFrame(
        {"L": L, "data": data, "label": label, "seed": seed, "x": x, "y": L * x + seed + 10 * (label == "b")}
        for L in (2, 4)
        for data in ("digits", "mnist")
        for label in ("a", "b")
        for seed in range(4)
        for x in (1, 2, 3)
        if (L, data) != (4, "mnist") or label == "a"
    )


def test_each_panel_has_the_mean_line_of_each_label_there(rows):
    figure = facets(
        rows, "x", "y", assign_looks(["a", "b"], Style()), row="L", column="data", axes=labelled("x", "y", "y"),
        options={"unit": ["seed"]}, note="four seeds",
    )  # fmt: skip
    third, fourth = figure.axes[2:]
    lines = {line.get_label(): line.get_ydata() for line in third.lines if not line.get_label().startswith("_")}
    assert np.allclose(lines["a"], [5.5, 9.5, 13.5]) and np.allclose(lines["b"], [15.5, 19.5, 23.5])
    assert [line.get_label() for line in fourth.lines if not line.get_label().startswith("_")] == ["a"]
    assert [axis.get_title() for axis in figure.axes] == ["digits", "mnist", "", ""]
    assert [axis.xaxis.label.get_visible() for axis in figure.axes] == [False, False, True, True]
    assert [axis.yaxis.label.get_visible() for axis in figure.axes] == [True, False, True, False]
    assert {(axis.get_xscale(), axis.get_yscale()) for axis in figure.axes} == {("linear", "log")}
    assert [text.get_text() for axis in figure.axes for text in axis.texts] == ["2", "4"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]
    assert [entry.get_color() for entry in legend.legend_handles] == palette(Style(), 2)
    assert legend.get_title().get_text() == "four seeds"


def test_panels_of_rows_of_unequal_length_keep_their_scales_and_marks(rows):
    one = rows[(rows["L"] == 2) & (rows["data"] == "digits")]
    added = []
    grid = [
        [Panel(one, "x", "y", {"xscale": "log"}, draw_rows), Panel(one, "y", "x", {"xticks": (10, 20)}, draw_each)],
        [Panel(one, "x", "y", options={"unit": ["seed"]}, more=lambda axis: added.append(axis.axhline(12)))],
    ]
    figure = draw_grid(
        grid, assign_looks(["a", "b", "c"], Style()), sharex=False, sharey=False, rows_named=["up", "down"]
    )
    assert len(figure.axes) == 3 and len(added) == 1
    left, right, _ = figure.axes
    assert left.get_xscale() == "log" and len(left.lines) == 2 and len(right.lines) == 8
    assert list(right.get_xticks()) == [10, 20]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    assert [text.get_text() for axis in figure.axes for text in axis.texts] == ["up", "down"]


def test_looks_are_told_apart_by_colour_and_mark():
    looks = assign_looks(list("abcdef"), Style())
    assert len({look.color for look in looks.values()}) == len({look.marker for look in looks.values()}) == 6
    dark_to_light = [sum(look.color) for look in assign_looks(list("abcd"), Style(), ordered=True).values()]
    assert dark_to_light == sorted(dark_to_light)


def test_panels_beyond_the_most_in_a_row_go_below():
    rows = pd.DataFrame({"x": [0.0, 1.0] * 4, "y": [0.0, 1.0] * 4, "label": "a", "of": np.repeat(list("pqrs"), 2)})
    looks = assign_looks(["a"], Style())
    figure = facets(rows, "x", "y", looks, column="of", most=3, axes={}, draw=draw_rows)
    assert [axis.get_title() for axis in figure.axes] == ["p", "q", "r", "s"]
    tops = [round(axis.get_position().y1, 6) for axis in figure.axes]
    assert len(set(tops[:3])) == 1 and tops[3] < tops[0]
