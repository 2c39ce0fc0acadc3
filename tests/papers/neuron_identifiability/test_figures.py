"""Every figure of the card draws quietly from small tables, and what is drawn is what the tables say."""

import importlib
import warnings
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib import rcParams

from symlab.errors import UserError
from symlab.papers.neuron_identifiability import NEURON_IDENTIFIABILITY
from symlab.papers.neuron_identifiability.points import fails
from symlab.plotting.settings import Style
from symlab.plotting.style import apply_style

PREFIX = "identifiability-"
FIGURES = {figure.id.removeprefix(PREFIX): figure for figure in NEURON_IDENTIFIABILITY.figures}
DRAWINGS = {
    drawing.id.removeprefix(PREFIX): drawing
    for name in dict.fromkeys(figure.module for figure in FIGURES.values())
    for drawing in importlib.import_module(name).FIGURES
}
W_1 = r"W, $\sigma_F$ = 1"
ROUNDING = 1e-9


@pytest.fixture
def draw(tables_for):
    """A function that draws a figure from the tables of its study, or from others; any warning is an error."""

    def drawn(number, **tables):
        given = tables_for(number) | {name.replace("__", "."): table for name, table in tables.items()}
        with warnings.catch_warnings(), apply_style(Style()):
            warnings.simplefilter("error")
            return DRAWINGS[number].draw(given, Style())

    return drawn


def lines(axis):
    """x and y of the labelled lines of a panel."""
    return {line.get_label(): line.get_data() for line in axis.lines if not line.get_label().startswith("_")}


def panels(figure):
    return [axis for axis in figure.axes if axis.get_label() != "<colorbar>"]


def note(figure):
    return " ".join(figure.legends[0].get_title().get_text().split())


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


@pytest.mark.parametrize("number", FIGURES)
def test_draws_with_every_axis_labelled_and_leaves_no_trace(number, draw):
    before = dict(rcParams)
    figure = draw(number)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.canvas.draw()
    assert figure.axes and plt.get_fignums() == [] and dict(rcParams) == before
    for axis in panels(figure):
        assert axis.get_xlabel() and axis.get_ylabel()
    if number in ("4", "12", "13", "thm4.5"):
        assert_texts_fit(figure)


def test_a_figure_without_its_table_names_it(draw):
    for number, figure in FIGURES.items():
        empty = {name.replace(".", "__"): pd.DataFrame() for name in figure.tables}
        with pytest.raises(UserError, match=figure.tables[0]):
            draw(number, **empty)


@pytest.mark.parametrize(
    ("number", "change", "named"),
    [
        ("3a", lambda table: table[table["sigma_F"].isin([1.0])], "two values of sigma_F"),
        ("3a", lambda table: table[table["scheme"] == "standard"], "no W-asymmetric variant"),
        ("3c", lambda table: table[table["epoch"] == 60], "snapshots"),
        ("3c", lambda table: table[table["sigma_F"] != 0], "sigma_F 0"),
        ("4", lambda table: table[table["split"] == "test"], "interpolation.splits"),
        ("4", lambda table: table[~table["aligned"]], "interpolation.aligned"),
        ("5", lambda table: table.assign(k=np.nan), "gmm"),
        ("6", lambda table: table[table["t"] == 1], "coherence.t"),
        ("10", lambda table: table[table["fixed_fraction"] == 0.05], "two values of fixed_fraction"),
        ("11", lambda table: table[table["m"] == 16], "centre_gaps.widths"),
        ("15", lambda table: table[(table["j"] == table["i"] + 1) & (table["i"] % 2 == 0)], "ridge.block"),
        ("2", lambda table: table[table["activation"] == "sigma"], "neither standard nor W-asymmetric"),
        ("17", lambda table: table[table["sigma_F"] != 0], "no variant that is W-asymmetric with sigma_F = 0"),
        ("21", lambda table: table[table["epoch"] == 60], "snapshots"),
        ("ridge", lambda table: table[table["beta"] == 1.0], "ridge.beta"),
        ("thm4.4", lambda table: table.assign(sigma_D2=0.0, b_D=0.0), "no variant with masks"),
        ("thm4.5", lambda table: table[table["leading"] == 0], "output permutations"),
        ("thm4.6", lambda table: table[table["variant"] == "w_widths8"], "two widths"),
        ("thm4.8", lambda table: table[~(table["sigma_F"] > 0)], "sigma_F above 0"),
        ("thm5.1", lambda table: table[table["variant"] == "w_0"], "sigma_F above 0"),
        ("prop5.2", lambda table: table.assign(bound_mid=np.nan), "not Lipschitz"),
        ("sec6", lambda table: table.assign(k=np.nan), "gmm"),
        ("sec4.5", lambda table: table.assign(train_accuracy=np.nan), "no classes"),
        ("thesis", lambda table: table.assign(drop_max_pp=np.nan), "classification"),
    ],
)
def test_a_missing_setting_is_named(number, change, named, draw, tables_for):
    name = FIGURES[number].tables[0]
    with pytest.raises(UserError, match=named):
        draw(number, **{name.replace(".", "__"): change(tables_for(number)[name])})


def test_figure_3a_is_the_mean_and_std_over_pairs_of_the_layer_mean(draw, tables_for):
    axis = draw("3a").axes[0]
    rows = tables_for("3a")["matching.csv"].query("epoch == 60 and permutation == 'identity'")
    (x, y), bars = lines(axis)["identity"], axis.collections[2].get_segments()
    # Without 0, which is not joined with the others.
    np.testing.assert_allclose(x, np.log10([1, 3]))
    for place, variant in enumerate(("w_1", "w_3")):
        of_pairs = rows[rows["variant"] == variant].groupby("pair")["objective"].mean()
        assert y[place] == pytest.approx(of_pairs.mean())
        half = np.diff([point[1] for point in bars[place]])[0] / 2
        assert half == pytest.approx(np.std(of_pairs, ddof=1))


def test_figure_4_is_the_mean_train_accuracy_of_the_pairs_by_the_first_matching(draw, tables_for):
    rows = tables_for("4")["curves.csv"].assign(matching="activation")
    other = rows[rows["aligned"]].assign(matching="weight", accuracy=0.0)
    figure = draw("4", curves__csv=pd.concat([rows, other]))
    for axis, aligned in zip(figure.axes[:2], (False, True), strict=True):
        drawn = lines(axis)
        assert len(drawn) == 5
        chosen = rows[(rows["variant"] == "w_1") & (rows["aligned"] == aligned) & (rows["split"] == "train")]
        np.testing.assert_allclose(drawn[W_1][1], 100 * chosen.groupby("lambda")["accuracy"].mean())


@pytest.mark.parametrize("number", ["5", "15"])
def test_figures_5_and_15_show_the_first_network_at_the_reported_beta(number, draw, tables_for):
    figure = draw(number)
    rows = tables_for(number)[FIGURES[number].tables[0]].query("seed == 0 and k == 32 and sigma_F == 1")
    if number == "15":
        rows = rows[rows["beta"] == 0.01]
        assert r"$\beta$ = 0.01" in figure.get_suptitle()
    rows = rows.query("layer == 1 and mask_seed == 0")
    shown = panels(figure)[5].images[0].get_array()
    expected = np.sign(rows["swap_cost"]) * np.sqrt(rows["swap_cost"].abs())
    np.testing.assert_allclose(shown[rows["i"], rows["j"]], expected)
    np.testing.assert_array_equal(shown, shown.T)
    assert len(rows) == 20 * 19 / 2
    # In the units of the table, and its sign.
    assert panels(figure)[5].get_title() == f"median Δ = {rows['swap_cost'].median():.2g}\n0 % below 0"
    negative = (tables_for(number)[FIGURES[number].tables[0]].query("sigma_F == 0")["swap_cost"] < 0).mean()
    assert panels(figure)[0].get_title().endswith(f"{100 * negative:.0f} % below 0")


def test_each_sigma_of_figure_5_has_a_colour_scale_in_which_its_signs_are_seen(draw):
    limits = [axis.images[0].norm.vmax for axis in panels(draw("5"))]
    assert limits[0] == limits[1] == limits[2] < 0.05 * limits[3]


def test_figure_16_shows_ridge_costs_alone(draw):
    assert len(panels(draw("16"))) == 3 and len(panels(draw("17"))) == 6


def test_figure_2_draws_what_weights_reach_and_what_runs_learned(draw, tables_for):
    figure = draw("2")
    titles = [axis.get_title().partition("\n")[0] for axis in figure.axes]
    assert titles == ["standard", r"W, $\sigma_F$ = 0", W_1]
    rows = tables_for("2")["neurons.csv"].query("variant == 'w_1' and neuron == 1").sort_values("seed")
    drawn = [line for line in figure.axes[2].lines if line.get_label() in ("run A", "run B")][2:4]
    np.testing.assert_allclose([line.get_xydata()[0] for line in drawn], rows[["a_1", "a_2"]])
    # The learned functions lie at distance 1 from their centres, in the norm that S = 1 gives: so do the ellipses.
    reach = [line for line in figure.axes[2].lines if line.get_label() == "_reach"][1].get_xydata()
    np.testing.assert_allclose(np.linalg.norm(reach - [3.0, 0.0], axis=1), 1)


def test_figure_12_boxes_are_of_disjoint_consecutive_pairs(draw, tables_for):
    axis = draw("12").axes[1]
    medians = [line.get_xdata()[0] for line in axis.lines if line.get_linewidth() == 1.2]
    rows = tables_for("12")["swap_costs.parquet"].query("layer == 2 and j == i + 1 and i % 2 == 0")
    # Swaps of the sigma-MLP's neurons have no cost, and of sigma_F >= 1 the smallest is the paper's.
    for variant, median in zip(("standard", "w_0", "w_1", "syre"), medians, strict=True):
        costs = rows.loc[rows["variant"] == variant, "swap_cost"]
        assert median == pytest.approx(np.median(np.sign(costs) * np.sqrt(costs.abs())))


def test_figure_13_says_how_many_costs_are_infinite(draw, tables_for):
    costs = tables_for("13")["swap_costs.parquet"]
    hit = (costs["k"] == 2) & (costs["sigma_F"] == 0) & (costs["i"] == 0) & (costs["layer"] == 1)
    costs["swap_cost"] = costs["swap_cost"].mask(hit, np.inf)
    texts = draw("13", swap_costs__parquet=costs).axes[0].texts
    assert r"10 % $\infty$" in [text.get_text() for text in texts]


def test_figure_11_draws_the_rate_through_the_smallest_width(draw, tables_for):
    drawn = lines(draw("11").axes[0])
    rows = tables_for("11")["centre_gaps.csv"].query("k == 8 and fixed_fraction == 1")
    _, mean = drawn["k = 8"]
    np.testing.assert_allclose(mean, rows.groupby("m")["gamma_out"].mean())
    widths, rate = drawn["rate, k = 8"]
    assert rate[0] == pytest.approx(mean[0])
    np.testing.assert_allclose(np.diff(np.log(rate)) / np.diff(np.log(widths)), -2 / 8)


@pytest.mark.parametrize(
    "points", [["stream1", "inner1.1", "stream2", "inner2.1"] * 2, ["a$b$c", "_", "x" * 70], ["0"]]
)
def test_groups_of_any_network_get_their_panels(points, draw, tables_for):
    one = tables_for("8")["matching.csv"].query("point == 'hidden1'")
    table = pd.concat([one.assign(point=point) for point in dict.fromkeys(points)])
    assert len(draw("8", matching__csv=table).axes) == len(set(points))


def test_figure_7_shows_the_smallest_large_sigma_alone(draw):
    named = [text.get_text() for axis in draw("7").axes for text in axis.texts]
    assert named == ["standard", r"W, $\sigma_F$ = 0", W_1, r"syre, $\sigma_F$ = 1", r"$\sigma$-MLP"]


def test_two_data_sets_have_their_own_panels(draw, tables_for):
    rows = tables_for("3a")["matching.csv"]
    both = pd.concat([rows, rows.assign(dataset="mnist", variant=rows["variant"] + "_mnist")])
    assert [axis.get_title() for axis in draw("3a", matching__csv=both).axes] == ["digits", "mnist"]


def test_figure_ridge_names_what_is_undefined(draw, tables_for):
    table = tables_for("ridge")["estimators.csv"]
    table.loc[table["variant"] == "standard", "spearman"] = np.nan
    table.loc[(table["variant"] == "w_0") & (table["layer"] == 3), "spearman"] = np.nan
    figure = draw("ridge", estimators__csv=table)
    assert note(figure).endswith(r"constant or infinite): standard; W, $\sigma_F$ = 0 in layer 3")


def test_figure_thm45_shows_shares_of_the_bound_hollow_where_an_assumption_fails(draw, tables_for):
    rows = tables_for("thm4.5")["sensitivity.csv"].query("side == 'output' and layer == 1")
    axis = draw("thm4.5").axes[0]
    for variant, label, face in (("w_1", W_1, False), ("syre", r"syre, $\sigma_F$ = 1", True)):
        of_variant = rows[(rows["variant"] == variant) & rows["bound"].notna()]
        drawn = [line for line in axis.lines if line.get_label() == label]
        assert len(drawn) == bool(len(of_variant))
        for line in drawn:
            assert (line.get_markerfacecolor() == "white") == face == fails(of_variant).all()
            expected = (of_variant["cost"] / of_variant["leading"] - 1).abs() / of_variant["bound"]
            np.testing.assert_allclose(line.get_ydata(), expected)


def test_figure_thm48_adds_the_growth_with_width_where_it_is_measured(draw, tables_for):
    assert len(draw("thm4.8").axes) == 3
    assert len(draw("thm4.8", centre_gaps__csv=pd.DataFrame()).axes) == 2


def test_figure_thm51_shows_the_powers_and_shares_of_the_bound(draw):
    above, _, below, _ = draw("thm5.1").axes
    filled = next(line for line in above.lines if line.get_label() == r"W, $\sigma_F$ = 3")
    np.testing.assert_allclose(filled.get_ydata(), 1.5)
    # The bound is 4 beta^1.5, and the deviation beta^1.5.
    filled = next(line for line in below.lines if line.get_label() == r"W, $\sigma_F$ = 3")
    np.testing.assert_allclose(filled.get_ydata(), 0.25)


def test_figure_prop52_has_pairs_without_a_barrier_in_a_strip_of_their_own(draw):
    axis = draw("prop5.2").axes[0]
    drawn = lines(axis)
    _, barriers = drawn["standard, unaligned"]
    np.testing.assert_allclose(barriers, 0.5)
    _, none = drawn["standard, aligned"]
    assert axis.get_ylim()[0] < none[0] < 0.2 * barriers[0]
    assert [text.get_text() for text in axis.texts] == ["no barrier"]


def test_figure_prop52_says_by_how_much_a_bound_is_exceeded(draw, tables_for):
    table = tables_for("prop5.2")["loss_bounds.csv"]
    table.loc[table["split"] == "train", "excess_max"] = 0.25
    table.loc[table["split"] == "test", "excess_max"] = ROUNDING
    titles = [axis.get_title() for axis in draw("prop5.2", loss_bounds__csv=table).axes]
    assert titles == [r"train: bound exceeded at some $\lambda$ (by 0.25)", r"test: bound holds at every $\lambda$"]


def test_the_thesis_is_drawn_of_what_a_study_has(draw):
    labels = [axis.get_xlabel().split()[0] for axis in draw("thesis").axes]
    assert labels == ["identity", "median"]
    assert len(draw("thesis", swap_costs__parquet=pd.DataFrame()).axes) == 1
    with pytest.raises(UserError, match=r"swap_costs\.parquet"):
        draw("thesis", swap_costs__parquet=pd.DataFrame(), matching__csv=pd.DataFrame())


@pytest.mark.parametrize("number", [number for number, drawing in DRAWINGS.items() if drawing.seen])
def test_what_is_seen_is_said_with_numbers(number, tables_for):
    said = DRAWINGS[number].seen(tables_for(number))
    assert said.endswith(".") and any(letter.isdigit() for letter in said) and "nan" not in said


def test_under_trained_networks_are_called_so(draw, tables_for):
    curves = tables_for("20")["curves.csv"]
    assert "under-trained" not in note(draw("20"))
    curves["accuracy"] *= 0.4
    assert "under-trained: the networks reach 40 to 40 %" in note(draw("20", curves__csv=curves))


def test_figure_sec45_has_the_ratio_above_both_accuracies(draw, tables_for):
    rows = tables_for("sec4.5")["trade_off.csv"]
    above, below = (lines(axis) for axis in draw("sec4.5").axes)
    means = rows[rows["scheme"] == "w_asymmetric"].groupby("sigma_F").mean(numeric_only=True)
    np.testing.assert_allclose(above["identity"][1], means["identity_ratio"][means.index > 0])
    np.testing.assert_allclose(below["validation accuracy"][1], 100 * means["val_accuracy"][means.index > 0])
    np.testing.assert_allclose(below["standard, validation accuracy"][1], 99)
