"""What the room's figures show beyond lines of means: errors, zeros, peaks, and tables that they refuse."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from symlab.errors import UserError
from symlab.papers.permutation_invariance import PERMUTATION_INVARIANCE
from symlab.papers.permutation_invariance.drawing import draw_means, say_pairs
from symlab.papers.permutation_invariance.fig_09_minima import name_init
from symlab.plotting.style import Look, Style, apply_style
from symlab.study.card import drawings_of

from .story import network_barriers, story

FIGURES = {figure.id: figure for figure in PERMUTATION_INVARIANCE.figures}


def draw(number, tables):
    figure = FIGURES[f"permutation-{number}"]
    drawings = drawings_of(figure.module)
    with apply_style(Style()):
        return drawings[figure.id].draw(tables, Style())


def lines(axis):
    return {line.get_label(): line.get_data() for line in axis.lines if not line.get_label().startswith("_")}


def test_means_have_bars_of_a_standard_error_and_zeros_stand_on_the_axis():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"m": m, "B": m * rng.lognormal()} for m in (1, 2, 4) for _ in range(25))
    rows = pd.concat([rows, pd.DataFrame({"m": [3, 3], "B": [1e-12, 3e-12]})])
    axis = Figure().subplots()
    draw_means(axis, rows, "m", "B", Look((0, 0, 1)), "name", floor=1e-6)
    x, mean = lines(axis)["name"]
    assert list(x) == [1, 2, 3, 4] and np.isnan(mean[2])
    (bars,) = axis.collections
    segments = [each for each in bars.get_segments() if len(each) and np.isfinite(each).all()]
    for at, segment in zip((0, 1, 3), segments, strict=True):
        values = rows.loc[rows["m"] == x[at], "B"]
        error = values.std() / 5
        assert mean[at] == pytest.approx(values.mean())
        assert segment[:, 1] == pytest.approx([max(mean[at] - error, 5e-7), mean[at] + error])
    (zeros,) = [line for line in axis.lines if line.get_markerfacecolor() == "white"]
    assert zeros.get_xdata() == [3] and zeros.get_transform() == axis.get_xaxis_transform()


def test_the_note_counts_pairs_by_source_and_those_not_kept():
    rows = pd.DataFrame(
        {"source": source, "M": 6, "d": 8, "m": m, "pairs": pairs, "kept": kept}
        for source, m, pairs, kept in (
            ("gd", 7, 1, True), ("gd", 7, 1, True), ("gd", 8, 1, True), ("gd", 8, 1, False), ("uniform", 7, 200, True),
            ("uniform", 7, 200, True),
        )
    )  # fmt: skip
    assert "GD 1 to 2" in say_pairs(rows) and "samples 400" in say_pairs(rows) and "1 of 404 pairs" in say_pairs(rows)


def test_lines_are_means_of_kept_pairs_and_samples_end_with_the_widest_trained_students():
    tables = story("10")
    table = tables["widths_barriers.csv"]
    wider = table[table["source"] == "uniform"].assign(m=lambda rows: rows["m"] + 1000)
    figure = draw("10", tables | {"widths_barriers.csv": pd.concat([table, wider])})
    for axis, (M, d) in zip(figure.axes, ((6, 8), (12, 20)), strict=True):
        kept = table[table["kept"] & (table["M"] == M) & (table["d"] == d) & (table["m"] > M)]
        for label, source, column in (
            ("GD, direct", "gd", "direct"), ("GD, Algorithm 1", "gd", "permuted"),
            ("samples, Algorithm 1", "uniform", "permuted"),
        ):  # fmt: skip
            expected = kept[kept["source"] == source].groupby("m")[column].mean()
            np.testing.assert_array_equal(lines(axis)[label][0], expected.index)
            np.testing.assert_allclose(lines(axis)[label][1], expected)


def test_fractions_are_ratios_of_means_with_the_error_of_one():
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {"study": "s", "source": "uniform", "M": 4, "d": 4, "m": m, "pair": pair, "kept": True, "direct": direct}
        | {"permuted": 0.02 * m * direct * rng.lognormal(0, 0.3)}
        for m in (6, 8, 12)
        for pair, direct in enumerate(rng.lognormal(0, 0.3, 400))
    )
    (axis,) = draw("3", {"ratios_barriers.csv": rows}).axes
    (bars,) = axis.collections
    for m, mean, bar in zip((6, 8, 12), lines(axis)["$M$ = 4"][1], bars.get_segments(), strict=True):
        part = rows[rows["m"] == m]
        drawn = [part.sample(frac=1, replace=True, random_state=seed) for seed in range(300)]
        error = np.std([each["permuted"].mean() / each["direct"].mean() for each in drawn])
        assert mean == pytest.approx(part["permuted"].mean() / part["direct"].mean())
        assert np.diff(bar[:, 1]) / 2 == pytest.approx(error, rel=0.2)


def test_bands_of_networks_run_from_the_10th_to_the_90th_percentile():
    tables = story("7")
    figure = draw("7", tables)
    assert [axis.get_title() for axis in figure.axes][:2] == ["mnist, 3 layers", "mnist, 4 layers"]
    rows = network_barriers().query("split == 'train' and source == 'mnist' and depth == 4 and matching == 'none'")
    groups = rows.dropna(subset="width").groupby("width")["barrier_max"]
    axis = figure.axes[1]
    np.testing.assert_allclose(lines(axis)["direct"][1], groups.mean())
    edges = axis.collections[0].get_paths()[0].vertices[:, 1]
    assert (edges.min(), edges.max()) == pytest.approx((groups.quantile(0.1).min(), groups.quantile(0.9).max()))


def test_a_largest_barrier_at_an_end_of_the_widths_is_hollow():
    falling = network_barriers()
    falling.loc[falling["depth"] == 3, "barrier_max"] = 1 / falling["width"]
    last = draw("14", {"barriers.csv": falling}).axes[-1]
    marks = [(line.get_xdata(), line.get_markerfacecolor()) for line in last.lines if line.get_label() == "_peaks"]
    assert {tuple(x) for x, face in marks if face == "white"} == {(3,)}
    assert {tuple(x) for x, face in marks if face != "white"} == {(4,)}


@pytest.mark.parametrize(
    ("number", "change", "words"),
    [
        ("1", lambda table: table[table["m"] == 20], "teacher_student.overlap .*raise up_to"),
        ("2", lambda table: table.assign(kept=False), "no pair of .*teacher_student.widths was kept"),
        ("5", lambda table: table[table["c"] == 1], "needs two values of c or more"),
        ("7", lambda table: table.drop(columns=["width", "depth"]), "three widths .*network.widths"),
        ("8", lambda table: table[table["matching"] == "none"], "interpolation.aligned to true"),
        ("14", lambda table: table.assign(depth=np.nan), "networks of one depth only"),
    ],
)
def test_tables_that_lack_what_is_shown_are_refused(number, change, words):
    tables, (name, *_) = story(number), FIGURES[f"permutation-{number}"].tables
    with pytest.raises(UserError, match=words):
        draw(number, tables | {name: change(tables[name])})


@pytest.mark.parametrize(("init_std", "name"), [(1 / 36, "1/(md)"), (1 / 3, "1/√d"), (0.05, "0.05")])
def test_initial_weights_are_called_by_their_formula(init_std, name):
    assert name_init(pd.Series({"m": 4, "d": 9, "init_std": init_std})) == name


def test_the_two_descents_are_drawn_of_the_first_teacher_that_has_both():
    table = story("4")["widths_barriers.csv"]
    first = table["M"] == 6
    for lacking in (table["m"] < 6, table["m"] > 6):
        (axis, *_) = draw("4", {"widths_barriers.csv": table[~(first & lacking)]}).axes
        drawn = {x for widths, _ in lines(axis).values() for x in widths}
        assert drawn & {3, 6, 9} and max(drawn) == 60


def test_figure_2_draws_the_first_teacher_alone():
    table = story("2")["widths_barriers.csv"]
    titles = [axis.get_title() for axis in draw("2", {"widths_barriers.csv": table}).axes]
    for others in ({"d": 99}, {"M": 99}):
        further = pd.concat([table, table[table["m"] < 9].assign(**others)])
        assert [axis.get_title() for axis in draw("2", {"widths_barriers.csv": further}).axes] == titles


def test_each_panel_of_figure_5_marks_twice_the_neurons_of_its_teacher():
    table = story("5")["sparsity_runs.csv"]
    twice = table.assign(M=2 * table["M"])
    axes = draw("5", {"sparsity_runs.csv": pd.concat([table, twice])}).axes
    marked = [line.get_xdata()[0] for axis in axes for line in axis.lines if line.get_label() == "_$m = 2M$"]
    assert marked == [2 * table["M"].iloc[0], 4 * table["M"].iloc[0]]
