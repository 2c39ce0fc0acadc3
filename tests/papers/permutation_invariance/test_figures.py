"""What the figures of the paper on permutation invariance show, read back from what is drawn, against means by hand."""

from __future__ import annotations

import warnings
from importlib import import_module
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from symlab.errors import UserError
from symlab.papers.permutation_invariance import PERMUTATION_INVARIANCE
from symlab.plotting.style import Style, apply_style

FIGURES = {figure.id: figure for figure in PERMUTATION_INVARIANCE.figures}
STYLE = Style()


def draw(figure_id: str, tables: dict[str, pd.DataFrame]):
    """The figure, any warning being an error."""
    drawings = {drawing.id: drawing for drawing in import_module(FIGURES[figure_id].module).FIGURES}
    with warnings.catch_warnings(), apply_style(STYLE):
        warnings.simplefilter("error")
        figure = drawings[figure_id].draw(tables, STYLE)
        told = drawings[figure_id].seen(tables)
    assert told.endswith(".") and "nan" not in told
    return figure


def lines(axis) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {line.get_label(): line.get_data() for line in axis.lines if not line.get_label().startswith("_")}


def ends_of_bars(axis) -> list[np.ndarray]:
    """[lower, upper] of each error bar, a list of bars for each line that has some."""
    return [np.array([[low[1], high[1]] for low, high in bar.get_segments()]) for bar in axis.collections]


def marks(axis) -> dict[str, float]:
    """Positions of the vertical lines."""
    found = [line for line in axis.lines if len(line.get_xdata()) == 2 and len(set(line.get_xdata())) == 1]
    return {line.get_label().strip("_"): line.get_xdata()[0] for line in found}


def titles(figure) -> list[str]:
    return [axis.get_title(loc="left") for axis in figure.axes]


def note(figure) -> str:
    return figure.legends[0].get_title().get_text().replace("\n", " ")


def entries(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def of(table: pd.DataFrame, **values: object) -> pd.DataFrame:
    for column, value in values.items():
        table = table[table[column] == value]
    return table


def tidy(figure) -> None:
    """Every axis is labelled, no two texts overlap, and none leaves the figure."""
    figure.canvas.draw()
    texts = [text for legend in figure.legends for text in (legend.get_title(), *legend.get_texts())]
    for axis in figure.axes:
        assert axis.get_xlabel() and axis.get_ylabel()
        texts += [axis.title, axis._left_title, axis.xaxis.label, axis.yaxis.label]
        for side in (axis.xaxis, axis.yaxis):
            low, high = sorted(side.get_view_interval())
            texts += [tick.label1 for tick in side.get_major_ticks() if low <= tick.get_loc() <= high]
    seen = [text for text in texts if text.get_visible() and text.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in seen]
    for (name, box), (other_name, other) in combinations(boxes, 2):
        assert not box.padded(-1).overlaps(other.padded(-1)), f"{name!r} overlaps {other_name!r}"
    for name, box in boxes:
        assert figure.bbox.padded(1).count_contains(box.corners()) == 4, f"{name!r} leaves the figure"


@pytest.mark.parametrize("figure_id", FIGURES)
def test_every_figure_is_drawn_from_its_tables(figure_id, tables_of):
    tables = {name: tables_of(figure_id)[name] for name in FIGURES[figure_id].tables}
    figure = draw(figure_id, tables)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.canvas.draw()
    assert all(axis.get_xlabel() and axis.get_ylabel() for axis in figure.axes)
    if figure_id in ("permutation-8", "permutation-11"):
        tidy(figure)


def test_figure_1_is_the_overlap_with_its_exact_minimum(student_tables):
    figure = draw("permutation-1", student_tables)
    assert titles(figure) == ["a   $M$ = 6", "b   $M$ = 20"]
    for axis, M, argmin, lowest in zip(figure.axes, (6, 20), (13, 46), (0.7561, 0.7411), strict=True):
        rows = of(student_tables["overlap.csv"], M=M)
        found = lines(axis)
        np.testing.assert_array_equal(found["exact"], rows[["m", "overlap"]].to_numpy().T)
        x, y = found["minimum"]
        assert (x[0], y[0]) == (argmin, pytest.approx(lowest, abs=5e-5))
        assert marks(axis)["2M"] == 2 * M
        (points,) = [bar.lines[0].get_ydata() for bar in axis.containers]
        some = rows.iloc[:: -(-len(rows) // 12)]
        np.testing.assert_array_equal(points, some["overlap_mean"])
        np.testing.assert_allclose(np.diff(ends_of_bars(axis)[0]).ravel(), 2 * some["overlap_se"], atol=1e-12)
        _, bound = found["lower bound (Thm. 5a)"]
        assert bound[rows["m"].to_list().index(2 * M)] == pytest.approx(1 - np.sqrt(2 * M * (M - 1)) / (4 * M))


def test_figure_1_over_many_widths_is_logarithmic(student_tables):
    rows = student_tables["overlap.csv"]
    far = rows[rows["M"] == 6].assign(m=lambda table: 6 * (table["m"] - 5))
    assert draw("permutation-1", {"overlap.csv": far}).axes[0].get_xscale() == "log"


def test_figure_2_is_the_mean_of_kept_pairs_above_M_with_standard_errors(student_tables):
    figure = draw("permutation-2", student_tables)
    axis, wide = figure.axes
    table = of(student_tables["widths_barriers.csv"], M=6, d=8)
    paths = {"direct": "direct", "Algorithm 1": "permuted", "linear assignment": "permuted_hungarian"}
    bars = iter(ends_of_bars(axis))
    for name, source in {"GD": "gd", "samples": "uniform"}.items():
        for label, path in list(paths.items())[: 3 if source == "gd" else 2]:
            x, y = lines(axis)[f"{name}, {label}"]
            np.testing.assert_array_equal(x, range(7, 37))
            of_bars = next(bars)
            for place, m in enumerate(range(7, 37)):
                values = of(table, source=source, m=m, kept=True)[path].to_numpy()
                assert len(values) == (19 if (source, m) == ("gd", 7) else 20 if source == "gd" else 40)
                se = np.std(values, ddof=1) / np.sqrt(len(values))
                assert y[place] == pytest.approx(values.mean())
                np.testing.assert_allclose(of_bars[place], [values.mean() - se, values.mean() + se])
    assert axis.get_yscale() == "log"
    assert marks(axis) == {"$m = M$": 6, "$m = 2M$": 12}
    assert "1 of 1800 pairs not drawn" in note(figure)
    assert "GD 19 to 20, samples 40 at each point" in note(figure)
    x, y = lines(wide)[r"$\propto m^{-1/2}$ (Theorem 6)"]
    assert np.diff(np.log(y)) / np.diff(np.log(x)) == pytest.approx(-0.5)


def test_samples_wider_than_all_students_are_shown_beside_and_not_in_their_panel(student_tables):
    table = student_tables["widths_barriers.csv"]
    table = table[(table["source"] == "uniform") | (table["m"] <= 24)]
    panel, wide = draw("permutation-2", {"widths_barriers.csv": table}).axes
    assert lines(panel)["samples, Algorithm 1"][0].max() == 24
    assert wide.containers[0].lines[0].get_xdata().max() == 36


@pytest.mark.parametrize(
    ("figure_id", "left"),
    [("permutation-2", "uniform"), ("permutation-10", "gd"), ("permutation-11", "uniform"), ("permutation-12", "gd")],
)
def test_a_source_that_is_missing_is_not_in_the_legend(figure_id, left, student_tables):
    name = FIGURES[figure_id].tables[0]
    figure = draw(figure_id, {name: of(student_tables[name], source=left)})
    absent = {"gd": "samples", "uniform": "GD"}[left]
    assert not any(absent in entry for entry in entries(figure))
    assert sum("Algorithm 1" in entry for entry in entries(figure)) == 1


def test_three_sources_are_eight_curves(student_tables):
    table = student_tables["widths_barriers.csv"]
    online = of(table, source="gd", M=6).assign(source="sgd")
    figure = draw("permutation-2", {"widths_barriers.csv": pd.concat([table, online])})
    assert sum("," in label for label in lines(figure.axes[0])) == 8
    figure = draw("permutation-4", {"widths_barriers.csv": pd.concat([table, online])})
    assert "online SGD, Algorithm 1" in entries(figure)


def test_one_pair_at_each_width_has_no_bars(student_tables):
    table = of(student_tables["widths_barriers.csv"], pair=1)
    for bars in ends_of_bars(draw("permutation-2", {"widths_barriers.csv": table}).axes[0]):
        np.testing.assert_array_equal(bars[:, 0], bars[:, 1])


def test_other_learning_rates_than_the_first_are_left_out_and_named(student_tables):
    table = student_tables["widths_barriers.csv"]
    faster = of(table, source="gd").assign(c=2.0, lr=table["lr"] * 2, permuted=9.0)
    figure = draw("permutation-2", {"widths_barriers.csv": pd.concat([table, faster])})
    assert "trained with $c$ = 1, others not drawn" in note(figure)
    assert lines(figure.axes[0])["GD, Algorithm 1"][1].max() < 0.01


def test_each_teacher_has_its_own_learning_rate(student_tables):
    table = student_tables["widths_barriers.csv"]
    rates = table["c"].mask(table["c"].notna() & (table["M"] == 12), 1.5)
    changed = table.assign(c=rates, lr=rates * table["d"] / table["m"])
    figure = draw("permutation-10", {"widths_barriers.csv": changed})
    assert "trained with $c$ = 1, $c$ = 1.5, $c$ = 1 (by panel)" in note(figure)
    assert all("GD, Algorithm 1" in lines(axis) for axis in figure.axes)


def test_figure_3_is_the_ratio_of_means_with_a_linearised_standard_error(student_tables):
    figure = draw("permutation-3", student_tables)
    (axis,) = figure.axes
    assert list(lines(axis))[:4] == [f"$M$ = {M}" for M in (4, 20, 100, 500)]
    assert marks(axis)["$m = 2M$"] == 2
    rows = of(student_tables["ratios_barriers.csv"], M=20, m=50)
    x, y = lines(axis)["$M$ = 20"]
    place = list(x).index(2.5)
    assert 1 not in x
    direct, permuted = rows["direct"].to_numpy(), rows["permuted"].to_numpy()
    assert y[place] == pytest.approx(permuted.mean() / direct.mean())
    # The jackknife knows nothing of linearisation.
    without = [np.delete(permuted, pair).mean() / np.delete(direct, pair).mean() for pair in range(len(rows))]
    jackknife = np.sqrt((len(rows) - 1) * np.var(without))
    low, high = ends_of_bars(axis)[1][place]
    assert (high - low) / 2 == pytest.approx(jackknife, rel=0.05)


def test_figure_4_has_both_branches_and_puts_zeros_at_the_bottom(student_tables):
    figure = draw("permutation-4", student_tables)
    left, right = figure.axes
    table = of(student_tables["widths_barriers.csv"], M=6, d=8, source="gd", kept=True)
    for label, column in (("GD, Algorithm 1", "permuted"), ("GD, linear assignment", "permuted_hungarian")):
        x, y = lines(left)[label]
        np.testing.assert_array_equal(x, range(1, 37))
        for m in (2, 3, 7, 20):
            assert y[m - 1] == pytest.approx(of(table, m=m)[column].mean())
        assert list(x[np.isnan(y)]) == [1, 6]
        x, y = lines(right)[label]
        np.testing.assert_array_equal(x, range(6, 37))
        assert y[0] == pytest.approx(0, abs=1e-9)
    zeros = [line for line in left.lines if line.get_label() == "_zeros" and line.get_marker() != "None"]
    assert [list(line.get_xdata()) for line in zeros] == [[1, 6]] * 2
    assert (
        dict(zip(left.get_yticks(), (text.get_text() for text in left.get_yticklabels()), strict=True))[
            zeros[0].get_ydata()[0]
        ]
        == "0"
    )
    # The strip lies below all that is measured.
    measured = np.concatenate([y for label, (_, y) in lines(left).items() if "GD" in label])
    assert zeros[0].get_ydata()[0] < np.nanmin(measured)
    assert (left.get_yscale(), right.get_yscale()) == ("log", "linear")
    assert right.get_ylim()[0] <= 0


def test_figure_5_leaves_out_diverged_runs_and_crosses_widths_without_any_other(student_tables):
    figure = draw("permutation-5", student_tables)
    (axis,) = figure.axes
    table = student_tables["sparsity_runs.csv"]
    found = lines(axis)
    for c in (0.15, 1, 2, 2.5, 3):
        x, y = found[f"$c$ = {c:g}"]
        rows = of(table, source="gd", c=c, diverged=False)
        assert list(x) == [8, 12, 18, 24, 36]
        np.testing.assert_allclose(y, [of(rows, m=m)["pq_rows"].mean() for m in x])
    assert list(found["$c$ = 3.5"][0]) == [8, 12]
    assert list(found["crosses"][0]) == [18, 24, 36]
    np.testing.assert_allclose(
        found["samples"][1], [of(table, source="uniform", m=m)["pq_rows"].mean() for m in (8, 12, 18, 24, 36)]
    )
    assert "5 of 50 at $c$ = 3, 30 of 50 at $c$ = 3.5" in note(figure)
    assert "$c$ = 3.5: no run kept" in entries(figure)
    (crosses,) = [line for line in axis.lines if line.get_label() == "crosses"]
    highest = max(y.max() for label, (_, y) in found.items() if "=" in label or "samples" in label)
    to_data = axis.transData.inverted().transform(crosses.get_transform().transform(crosses.get_xydata()))
    assert (to_data[:, 1] > highest).all()


def test_figure_5_by_lr_and_without_uniform_samples_or_divergence(student_tables):
    table = student_tables["sparsity_runs.csv"]
    rows = of(table, source="gd", diverged=False)
    rows = rows[rows["c"] < 3].assign(lr=lambda part: part["c"], c=lambda part: part["lr"] * part["m"])
    figure = draw("permutation-5", {"sparsity_runs.csv": pd.concat([rows, rows.assign(M=12, d=20)])})
    assert entries(figure) == [*(f"lr = {value:g}" for value in (0.15, 1, 2, 2.5)), "$m = M$", "$m = 2M$"]
    assert len(figure.axes) == 2


def test_figure_6_shows_the_threshold_and_no_means_over_diverged_runs(student_tables):
    figure = draw("permutation-6", student_tables)
    above, middle, below = figure.axes
    table = of(student_tables["learning_rates_runs.csv"], diverged=False)
    x, zero = lines(below)["zero rows"]
    assert list(x) == pytest.approx([0.1, 0.3, 0.5, 1, 1.5, 1.8, 1.9, 2, 2.1, 2.2])
    assert list(zero) == [0] * 7 + [1, 2, 2]
    for label, column in (("all entries", "pq_entries"), ("entries below $10^{-3}$ set to 0", "pq_entries_cleaned")):
        np.testing.assert_allclose(lines(above)[label][1], [of(table, lr=lr)[column].mean() for lr in x])
    np.testing.assert_allclose(lines(middle)["row norms"][1], [of(table, lr=lr)["pq_rows"].mean() for lr in x])
    assert list(lines(above)["crosses"][0]) == pytest.approx([2.2, 2.3])
    dense = table[table["zero_rows"] == 0]["stability_limit"].mean()
    assert marks(above)["stability limit (mean)"] == pytest.approx(dense)
    assert dense == pytest.approx(2.75 * 8 / 12, rel=0.01)


def test_figure_6_without_stability_limits_and_for_two_widths(student_tables):
    table = student_tables["learning_rates_runs.csv"].assign(stability_limit=np.nan)
    figure = draw("permutation-6", {"learning_rates_runs.csv": pd.concat([table, table.assign(m=24)])})
    assert len(figure.axes) == 6
    assert not any("lambda" in entry for entry in entries(figure))


def test_figure_7_is_the_mean_and_percentiles_by_matching(width_tables):
    figure = draw("permutation-7", width_tables)
    (axis,) = figure.axes
    assert list(lines(axis)) == ["direct", "permuted, by weights", "permuted, by activations"]
    assert "over 6 pairs" in note(figure)
    rows = of(width_tables["barriers.csv"], matching="weight", split="train")
    x, y = lines(axis)["permuted, by weights"]
    assert list(x) == [15, 20, 25, 30, 40, 50, 75, 100]
    band = axis.collections[1].get_paths()[0].vertices
    for width, mean in zip(x, y, strict=True):
        values = np.sort(of(rows, width=width)["barrier_max"])
        assert mean == pytest.approx(values.mean())
        # Of six values, the 10th percentile lies halfway between the first two.
        ends = [values[:2].mean(), values[-2:].mean()]
        np.testing.assert_allclose(sorted(set(band[band[:, 0] == width, 1])), ends)


def test_figures_of_runs_that_know_one_matching_call_it_permuted(width_tables):
    old = {name: table[table["matching"] != "weight"].drop(columns="matching") for name, table in width_tables.items()}
    for figure_id in ("permutation-7", "permutation-8"):
        assert entries(draw(figure_id, old)) == ["direct", "permuted"]


def test_figure_8_shows_the_ends_of_the_widths_and_the_paper_s_peak_between(width_tables):
    figure = draw("permutation-8", width_tables)
    curves = of(width_tables["curves.csv"], split="train")
    assert [axis.get_title() for axis in figure.axes] == ["width 15", "width 25", "width 100"]
    for axis, width in zip(figure.axes, (15, 25, 100), strict=True):
        for label, matching in (("direct", "none"), ("permuted, by activations", "activation")):
            x, y = lines(axis)[label]
            np.testing.assert_allclose(x, np.linspace(0, 1, 11))
            rows = of(curves, width=width, matching=matching).sort_values(["pair", "lambda"])
            np.testing.assert_allclose(y, rows["loss"].to_numpy().reshape(6, 11).mean(axis=0))


def test_depths_and_data_sets_have_panels_of_their_own(depth_tables):
    named = {f"{dataset}, {depth} layers" for dataset, depth in (("mnist", 3), ("mnist", 4), ("mnist", 5))}
    figure = draw("permutation-7", {"barriers.csv": depth_tables["barriers.csv"].query("dataset == 'mnist'")})
    assert {axis.get_title() for axis in figure.axes[:3]} == {title.removeprefix("mnist, ") for title in named}
    figure = draw("permutation-8", depth_tables)
    assert {text.get_text() for axis in figure.axes for text in axis.texts} > named
    with pytest.raises(UserError, match="25 widths, for which there is no room"):
        draw("permutation-15", depth_tables)


def test_figure_9_counts_types_and_draws_the_entries(student_tables):
    figure = draw("permutation-9", student_tables)
    a, b = figure.axes
    runs = student_tables["doubled_types_runs.csv"]
    counted = runs[runs["kept"] & (runs["doubled_type"] > 0)]
    assert len(counted) == 496
    assert [bar.get_height() for bar in a.patches[:5]] == [(counted["doubled_type"] == j).sum() for j in range(1, 6)]
    assert lines(a)["expected"][1][0] == pytest.approx(496 / 5)
    low, high = (a.patches[5].get_y(), a.patches[5].get_y() + a.patches[5].get_height())
    assert (high - low) / 2 == pytest.approx(np.sqrt(496 * 0.2 * 0.8))
    assert "4 of 500 runs of a not drawn" in note(figure)
    found = lines(b)
    table = student_tables["column_entries.csv"]
    for std, name in ((0.01, "1/(md)"), (10**-0.5, "1/√d")):
        rows = table[np.isclose(table["init_std"], std)]
        np.testing.assert_array_equal(found[f"b: initial weights of {name}"], rows[["rank", "mean"]].to_numpy().T)
        np.testing.assert_array_equal(found["expected"], rows[["rank", "expected"]].to_numpy().T)
    assert found["expected"][1][0] == pytest.approx(0.2929, abs=1e-4)


def test_figure_10_has_a_panel_a_teacher(student_tables):
    figure = draw("permutation-10", student_tables)
    named = ["a   $M$ = 6, $d$ = 8", "b   $M$ = 12, $d$ = 20", "c   $M$ = 30, $d$ = 40"]
    assert titles(figure) == named
    rows = of(student_tables["widths_barriers.csv"], M=30, d=40, source="uniform", m=60)
    x, y = lines(figure.axes[2])["samples, Algorithm 1"]
    assert list(x) == [36, 45, 52, 60, 75, 90, 120]
    assert y[3] == pytest.approx(rows["permuted"].mean())
    assert marks(figure.axes[2]) == {"$m = M$": 30, "$m = 2M$": 60}


def test_figure_11_ends_with_barriers_against_d(student_tables):
    figure = draw("permutation-11", student_tables)
    assert titles(figure) == ["a   $d$ = 4", "b   $d$ = 16", "c   $d$ = 64", "d   $d$ = 128", "e   $m$ = 8"]
    table = student_tables["dimensions_barriers.csv"]
    last = figure.axes[-1]
    assert (last.get_xscale(), last.get_yscale()) == ("log", "log")
    for label, source, path, dimensions in (
        ("samples, direct", "uniform", "direct", [4, 16, 64, 128]),
        ("GD, Algorithm 1", "gd", "permuted", [16, 64]),
        ("GD, linear assignment", "gd", "permuted_hungarian", [16, 64]),
    ):
        x, y = lines(last)[label]
        assert list(x) == dimensions
        np.testing.assert_allclose(y, [of(table, source=source, d=d, m=8)[path].mean() for d in x])
    x, y = lines(last)[r"slope $-1$"]
    assert np.diff(np.log(y)) / np.diff(np.log(x)) == pytest.approx(-1)


def test_figure_11_has_the_paper_s_panels_and_all_dimensions_in_the_last(student_tables):
    table = of(student_tables["dimensions_barriers.csv"], source="uniform")
    more = pd.concat([table, *(of(table, d=4).assign(d=d) for d in (8, 32))])
    figure = draw("permutation-11", {"dimensions_barriers.csv": more})
    assert len(figure.axes) == 5
    assert list(lines(figure.axes[-1])["samples, direct"][0]) == [4, 8, 16, 32, 64, 128]
    others = more[~more["d"].isin([16, 64, 128])]
    assert len(draw("permutation-11", {"dimensions_barriers.csv": others}).axes) == 4


def test_figure_12_is_against_m_over_M(student_tables):
    figure = draw("permutation-12", student_tables)
    assert titles(figure) == ["a   $M$ = 4", "b   $M$ = 8", "c   $M$ = 16"]
    x, y = lines(figure.axes[1])["samples, direct"]
    assert list(x) == [1.25, 1.5, 1.75, 2, 2.5, 3, 4]
    rows = of(student_tables["teachers_barriers.csv"], M=8, m=16, source="uniform")
    assert y[3] == pytest.approx(rows["direct"].mean())


def test_figure_13_is_the_mean_permuted_barrier_of_kept_pairs(student_tables):
    figure = draw("permutation-13", student_tables)
    table = student_tables["learning_rates_barriers.csv"]
    x, y = lines(figure.axes[0])["GD, Algorithm 1"]
    assert list(x) == [0.3, 0.5, 1, 1.5, 1.8, 1.9, 2, 2.1, 2.2]
    np.testing.assert_allclose(y, [of(table, lr=lr, kept=True)["permuted"].mean() for lr in x])
    _, assigned = lines(figure.axes[0])["GD, linear assignment"]
    np.testing.assert_allclose(assigned, [of(table, lr=lr, kept=True)["permuted_hungarian"].mean() for lr in x])
    assert "56 of 220 pairs not drawn" in note(figure)


def test_figure_14_is_the_width_of_the_largest_mean_barrier(depth_tables):
    figure = draw("permutation-14", depth_tables)
    assert [axis.get_title() for axis in figure.axes] == ["mnist", "cifar10", ""]
    rows = of(depth_tables["barriers.csv"], matching="weight", split="train")
    for dataset, depths in (("mnist", [3, 4, 5]), ("cifar10", [3, 4])):
        x, y = lines(figure.axes[-1])[dataset]
        assert list(x) == depths
        for depth, width in zip(x, y, strict=True):
            means = of(rows, dataset=dataset, depth=depth).groupby("width")["barrier_max"].mean()
            assert width == means.idxmax()
    assert not any("no peak" in entry for entry in entries(figure))


def test_a_largest_barrier_at_the_end_of_the_widths_is_no_peak(depth_tables):
    rows = depth_tables["barriers.csv"]
    narrow = rows[rows["width"] <= 40]
    figure = draw("permutation-14", {"barriers.csv": narrow})
    assert "at an end of the widths: no peak" in entries(figure)
    points = [line for line in figure.axes[-1].lines if line.get_label().startswith("_")]
    hollow = [line.get_markerfacecolor() == "white" for line in points]
    assert hollow == [line.get_ydata()[0] == 40 for line in points] and any(hollow) and not all(hollow)


def test_figure_15_has_a_panel_a_width(convolutional_tables):
    figure = draw("permutation-15", convolutional_tables)
    assert [axis.get_title() for axis in figure.axes] == ["width 4", "width 16", "width 64"]
    rows = of(convolutional_tables["curves.csv"], split="train", width=16, matching="none").sort_values("lambda")
    expected = rows.groupby("lambda")["loss"].mean()
    np.testing.assert_allclose(lines(figure.axes[1])["direct"][1], expected)


@pytest.mark.parametrize(
    ("figure_id", "change", "words"),
    [
        ("permutation-1", lambda table: table[table["m"] == 20], "teacher_student.overlap .*raise up_to"),
        ("permutation-2", lambda table: table[table["m"] < 9], "three widths m above M = 6"),
        ("permutation-2", lambda table: table.assign(kept=False), "no pair of .*teacher_student.widths was kept"),
        ("permutation-3", lambda table: table.assign(source="gd"), "needs uniform pairs"),
        ("permutation-4", lambda table: table[table["source"] == "uniform"], "set runs"),
        ("permutation-5", lambda table: table[table["c"] == 1], "at least two values of c"),
        ("permutation-6", lambda table: table[table["lr"] < 0.5], "three values of lr"),
        ("permutation-7", lambda table: table.drop(columns=["width", "depth"]), "three widths .*network.widths"),
        ("permutation-8", lambda table: table[~table["aligned"]], "interpolation.aligned to true"),
        ("permutation-9", lambda table: table.assign(source="uniform"), "doubled_types has no trained runs"),
        ("permutation-10", lambda table: table[table["M"] == 6], "one teacher"),
        ("permutation-11", lambda table: table[table["d"] == 16], "two values of d"),
        ("permutation-12", lambda table: table[table["M"] == 8], "two values of M"),
        ("permutation-13", lambda table: table[table["lr"] < 0.5], "three values of lr"),
        ("permutation-14", lambda table: table.assign(depth=np.nan), "networks of one depth only"),
        ("permutation-15", lambda table: table.assign(width=np.nan), "at least one width"),
    ],
)
def test_tables_that_lack_what_is_shown_are_refused(figure_id, change, words, tables_of):
    tables = {name: tables_of(figure_id)[name] for name in FIGURES[figure_id].tables}
    name = FIGURES[figure_id].tables[0]
    with pytest.raises(UserError, match=words):
        draw(figure_id, tables | {name: change(tables[name])})


@pytest.mark.parametrize("figure_id", ["permutation-7", "permutation-8"])
def test_every_matching_has_a_look_of_its_own_that_does_not_depend_on_the_others(width_tables, figure_id):
    def looks(tables):
        axes = draw(figure_id, tables).axes
        return {line.get_label(): (line.get_color(), line.get_linestyle()) for line in axes[0].lines}

    both = looks(width_tables)
    assert len(set(both.values())) == len(both) >= 3
    alone = {name: table[table["matching"] != "weight"] for name, table in width_tables.items()}
    assert looks(alone).items() <= both.items()
