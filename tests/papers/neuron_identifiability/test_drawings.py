"""What figures say where a table does not allow them, and that their texts fit; the contract draws them all."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from symlab.errors import UserError
from symlab.papers.neuron_identifiability import NEURON_IDENTIFIABILITY, fig_thesis
from symlab.plotting.settings import Style
from symlab.plotting.style import COLUMN, apply_style, panels
from symlab.study.card import drawings_of

from .story import story

PREFIX = "identifiability-"
FIGURES = {figure.id.removeprefix(PREFIX): figure for figure in NEURON_IDENTIFIABILITY.figures}


def draw(number, **tables):
    """The figure from the tables of its study, or from others."""
    drawings = drawings_of(FIGURES[number].module)
    with apply_style(Style()):
        return drawings[PREFIX + number].draw(
            story(number) | {n.replace("__", "."): t for n, t in tables.items()}, Style()
        )


def visible_texts(figure):
    for axis in figure.axes:
        yield from (axis.title, axis._left_title, axis.xaxis.label, axis.yaxis.label, *axis.texts)
        for side in (axis.xaxis, axis.yaxis):
            low, high = sorted(side.get_view_interval())
            ticks = [tick for tick in side.get_major_ticks() if low <= tick.get_loc() <= high]
            yield from (label for tick in ticks for label in (tick.label1, tick.label2))
    for legend in figure.legends:
        yield from (legend.get_title(), *legend.get_texts())
    yield from figure.texts


def assert_texts_fit(figure):
    """No two texts overlap, and none leaves the figure."""
    texts = [text for text in visible_texts(figure) if text.get_visible() and text.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    for (name, box), (other_name, other) in combinations(boxes, 2):
        assert not box.padded(-1).overlaps(other.padded(-1)), f"{name!r} overlaps {other_name!r}"
    for name, box in boxes:
        assert figure.bbox.padded(1).count_contains(box.corners()) == 4, f"{name!r} leaves the figure"


@pytest.mark.parametrize("number", ["4", "12", "13", "thm4.5"])
def test_texts_fit(number):
    figure = draw(number)
    figure.canvas.draw()
    assert_texts_fit(figure)


def test_a_figure_without_its_table_names_it():
    for number, figure in FIGURES.items():
        empty = {name.replace(".", "__"): pd.DataFrame() for name in figure.tables}
        with pytest.raises(UserError, match=figure.tables[0]):
            draw(number, **empty)


@pytest.mark.parametrize(
    ("number", "change", "named"),
    [
        ("3a", lambda table: table[table["sigma_F"].isin([1.0])], "two values of sigma_F"),
        ("3c", lambda table: table[table["epoch"] == 60], "snapshots"),
        ("4", lambda table: table[~table["aligned"]], "interpolation.aligned"),
        ("10", lambda table: table[table["fixed_fraction"] == 0.05], "two values of fixed_fraction"),
        ("15", lambda table: table[(table["j"] == table["i"] + 1) & (table["i"] % 2 == 0)], "ridge.block"),
        ("thm4.5", lambda table: table[table["leading"] == 0], "output permutations"),
        ("sec4.5", lambda table: table.assign(train_accuracy=np.nan), "no classes"),
        ("thesis", lambda table: table.assign(drop_max_pp=np.nan), "classification"),
    ],
)
def test_a_missing_setting_is_named(number, change, named):
    name = FIGURES[number].tables[0]
    with pytest.raises(UserError, match=named):
        draw(number, **{name.replace(".", "__"): change(story(number)[name])})


@pytest.mark.parametrize(
    "points", [["stream1", "inner1.1", "stream2", "inner2.1"] * 2, ["a$b$c", "_", "x" * 70], ["0"]]
)
def test_groups_of_any_network_get_their_panels(points):
    one = story("8")["matching.csv"].query("point == 'hidden1'")
    table = pd.concat([one.assign(point=point) for point in dict.fromkeys(points)])
    assert len(draw("8", matching__csv=table).axes) == len(set(points))


def test_maps_of_two_data_sets_are_told_apart():
    here = story("16")["swap_costs.parquet"].query("layer == 1")
    there = here.assign(dataset="mnist", variant=here["variant"] + "_mnist")
    for costs, told in ((here, set()), (pd.concat([here, there]), {"digits", "mnist"})):
        figure = draw("16", swap_costs__parquet=costs, ridge_swap_costs__parquet=costs.head(0))
        rows = [text.get_text() for axis in figure.axes for text in axis.texts]
        assert {row.split("\n")[0] for row in rows} & {"digits", "mnist"} == told


def test_maps_show_the_neurons_all_of_whose_pairs_every_estimator_has():
    tables = story("16")
    ridge = tables["ridge_swap_costs.parquet"]
    for few in (5, 8):
        figure = draw("16", ridge_swap_costs__parquet=ridge[(ridge["j"] < few) | (ridge["j"] == ridge["i"] + 1)])
        assert {image.get_array().shape for axis in figure.axes for image in axis.images} == {(few, few)}


def test_under_trained_networks_are_called_so():
    curves = story("20")["curves.csv"]
    for factor, said in ((1.0, False), (0.4, True)):
        figure = draw("20", curves__csv=curves.assign(accuracy=factor * curves["accuracy"]))
        assert ("under-trained: the networks reach 40" in figure.legends[0].get_title().get_text()) == said


def test_a_name_too_wide_for_its_axis_is_written_on_the_wider_side():
    figure, axes = panels(1, 1, COLUMN, 2.0)
    axes[0, 0].set(xlim=(0, 1), ylim=(0, 1))
    figure.draw_without_rendering()
    fig_thesis._label(axes[0, 0], [(0.3, 0.5, "a" * 60), (0.7, 0.5, "b" * 60), (0.5, 0.2, "short")])
    assert [(text.get_text()[0], text.get_ha()) for text in axes[0, 0].texts] == [
        ("s", "left"), ("a", "left"), ("b", "right"),
    ]  # fmt: skip
