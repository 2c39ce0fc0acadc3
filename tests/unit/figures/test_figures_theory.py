"""What the figures of theorems and of the two cost estimators show, read back from what is drawn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from symlab.figures import draw

from symlab.plotting.points import fails, floor_of

W1, SYRE = r"W, $\sigma_F$ = 1", r"syre, $\sigma_F$ = 1"


def panels_of(figure):
    return [axis for axis in figure.axes if axis.get_label() != "<colorbar>"]


def drawn_points(axis, label: str) -> tuple[np.ndarray, np.ndarray]:
    """[x, y] of a label's filled and of its hollow points."""
    found = {True: [], False: []}
    for line in axis.lines:
        if line.get_label() == label and line.get_linestyle() == "None":
            found[to_hex(line.get_markerfacecolor()) == "#ffffff"].append(line.get_xydata())
    filled, hollow = (np.concatenate(found[key] or [np.empty((0, 2))]) for key in (False, True))
    return filled, hollow


def by_rows(values: np.ndarray) -> np.ndarray:
    return values[np.lexsort(values.T)]


def check_points(axis, label: str, rows: pd.DataFrame, x: str, y) -> None:
    """The label's filled points are the rows whose assumptions hold, the hollow ones the others."""
    for chosen, seen in zip(
        (rows["assumption"] == "", rows["assumption"] != ""), drawn_points(axis, label), strict=True
    ):
        expected = np.column_stack([rows.loc[chosen, x], y(rows[chosen])])
        np.testing.assert_allclose(by_rows(seen), by_rows(expected))


def note(figure) -> str:
    return figure.legends[0].get_title().get_text().replace("\n", " ").replace("\N{NO-BREAK SPACE}", " ")


def entries(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_figure_12_has_a_row_of_each_estimator_over_the_same_networks(optional_tables_of, swap_costs, ridge_swap_costs):
    figure = draw("12", optional_tables_of("12"), {})
    axes = panels_of(figure)
    assert len(axes) == 6
    for row, costs in ((0, swap_costs), (1, ridge_swap_costs[ridge_swap_costs["beta"] == 0.01])):
        rows = costs[(costs["variant"] == "w_sigma_F1") & (costs["layer"] == 2) & (costs["seed"] == 0)]
        rows = rows[(rows["j"] == rows["i"] + 1) & (rows["i"] % 2 == 0)]
        assert len(rows) == 30
        (median,) = [
            line.get_xdata()[0]
            for line in axes[3 * row + 1].lines
            if line.get_linewidth() == 1.2 and line.get_ydata().mean() == pytest.approx(2)
        ]
        assert median == pytest.approx(np.median(np.sign(rows["swap_cost"]) * np.sqrt(rows["swap_cost"].abs())))
    assert [text.get_text() for text in axes[4].texts] == ["not measured"]
    assert [text.get_text() for axis in (axes[2], axes[5]) for text in axis.texts if text.get_rotation()] == [
        "Mahalanobis",
        "ridge",
    ]
    assert r"ridge: $\beta$ = 0.01" in figure.get_suptitle()
    assert axes[0].get_xlim() != axes[3].get_xlim()


def test_figure_13_has_a_row_of_each_estimator(optional_tables_of):
    figure = draw("13", optional_tables_of("13"), {})
    axes = panels_of(figure)
    assert len(axes) == 6
    # No ridge cost is infinite.
    assert [any("infty" in text.get_text() for text in axis.texts) for axis in axes] == [True] * 3 + [False] * 3
    assert axes[0].get_ylim() == axes[1].get_ylim() != axes[3].get_ylim() == axes[5].get_ylim()
    assert r"$\beta$ = 0.01" in note(figure)


def test_figures_16_to_19_share_colours_for_each_estimator_on_the_neurons_of_both(optional_tables_of, ridge_swap_costs):
    limits = {0: set(), 1: set()}
    for figure_id in ("16", "17", "18", "19"):
        figure = draw(figure_id, optional_tables_of(figure_id), {})
        images = [axis.images[0] for axis in panels_of(figure)]
        assert [image.get_array().shape for image in images] == [(40, 40)] * 6
        assert len(figure.axes) == 8
        for number, image in enumerate(images):
            limits[number // 3].add(image.norm.vmax)
    assert len(limits[0]) == len(limits[1]) == 1
    assert limits[0] != limits[1]
    rows = ridge_swap_costs[(ridge_swap_costs["variant"] == "syre") & (ridge_swap_costs["layer"] == 2)]
    rows = rows[(rows["beta"] == 0.01) & (rows["i"] == 3) & (rows["j"] == 30)]
    assert images[4].get_array()[30, 3] == pytest.approx(np.sqrt(rows["swap_cost"].item()))
    assert r"ridge: $\beta$ = 0.01" in figure.get_suptitle()


def test_a_variant_without_ridge_costs_has_no_heat_map_of_them(optional_tables_of):
    tables = optional_tables_of("19")
    ridge = tables["ridge_swap_costs.parquet"]
    with pytest.raises(Exception, match=r"no ridge costs of its variant that is syre .* from the same run"):
        draw("19", tables | {"ridge_swap_costs.parquet": ridge[ridge["scheme"] != "syre"]}, {})


def test_figure_15_shows_ridge_costs_and_their_distributions(gmm_ridge_swap_costs):
    figure = draw("15", {"ridge_swap_costs.parquet": gmm_ridge_swap_costs}, {})
    maps, boxes = panels_of(figure)[:6], panels_of(figure)[6:]
    rows = gmm_ridge_swap_costs[(gmm_ridge_swap_costs["beta"] == 0.01) & (gmm_ridge_swap_costs["layer"] == 1)]
    rows = rows[(rows["k"] == 32) & (rows["sigma_F"] == 1)]
    assert len(rows) == 64 * 63 / 2
    shown = np.sign(rows["swap_cost"]) * np.sqrt(rows["swap_cost"].abs())
    image = maps[5].images[0].get_array()
    np.testing.assert_allclose(image[rows["i"], rows["j"]], shown)
    medians = [line.get_ydata()[0] for line in boxes[2].lines if line.get_linewidth() == 1.2]
    assert medians[1] == pytest.approx(np.median(shown))
    assert len({axis.get_ylim() for axis in boxes}) == 1
    assert r"$\beta$ = 0.01" in figure.get_suptitle()


def test_figure_ridge_is_the_mean_over_networks_and_names_what_is_undefined(estimators):
    figure = draw("ridge", {"estimators.csv": estimators}, {})
    for axis, layer in zip(figure.axes, (1, 2, 3), strict=True):
        drawn = {line.get_label(): line.get_data() for line in axis.lines}
        x, y = drawn[W1]
        rows = estimators[(estimators["variant"] == "w_sigma_F1") & (estimators["layer"] == layer)]
        rows = rows[rows["pairs"] == "consecutive"]
        assert list(x) == [0.001, 0.01, 0.1, 1]
        np.testing.assert_allclose(y, [rows.loc[rows["beta"] == beta, "spearman"].mean() for beta in x])
        assert axis.get_xscale() == "log"
    assert note(figure).endswith(r"constant or infinite): standard; W, $\sigma_F$ = 0 in layer 3")
    assert "standard" not in entries(figure)


def test_undefined_correlations_of_two_data_sets_are_told_apart(estimators):
    table = pd.concat([estimators, estimators.assign(dataset="mnist", variant=estimators["variant"] + "_mnist")])
    figure = draw("ridge", {"estimators.csv": table}, {})
    assert note(figure).endswith(r": standard; W, $\sigma_F$ = 0 in layer 3")
    assert len(figure.axes) == 6
    both = estimators["variant"].map(lambda name: name + "_mnist").isin(["standard_mnist", "w_sigma_F0_mnist"])
    other = estimators.assign(dataset="mnist", variant=estimators["variant"] + "_mnist")
    other["spearman"] = other["spearman"].mask(both, 0.5)
    note_of_one = note(draw("ridge", {"estimators.csv": pd.concat([estimators, other])}, {}))
    assert note_of_one.endswith(r": standard on digits; W, $\sigma_F$ = 0 on digits in layer 3")


@pytest.mark.parametrize("masks", ["own", "fresh"])
def test_figure_thm44_shows_deviations_and_bounds_over_mu_D(masks, gram_deviation):
    figure = draw("thm4.4", {"gram_deviation.csv": gram_deviation}, {})
    (axis,) = [axis for axis in figure.axes if axis.get_title() == f"{masks} masks"]
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    rows = gram_deviation[(gram_deviation["masks"] == masks) & (gram_deviation["variant"] == "w_sigma_F1")]
    for column in ("deviation_median", "deviation_max"):
        check_points(axis, f"{W1} {column}", rows, "nu", lambda rows, c=column: rows[c] / rows["mu_D"])
    for column in ("bound", "bound_all"):
        (line,) = [line for line in axis.lines if line.get_label() == f"{W1} {column}"]
        np.testing.assert_allclose(line.get_ydata(), rows[column] / rows["mu_D"])
    assert note(figure).endswith("so deviation and bound are 0: standard")
    assert any(entry.startswith("hollow") for entry in entries(figure))


@pytest.mark.parametrize(("figure_id", "side"), [("thm4.5", "output"), ("thm4.7", "input")])
def test_figures_of_sensitivity_show_the_ratio_with_its_bound(figure_id, side, sensitivity):
    figure = draw(figure_id, {"sensitivity.csv": sensitivity}, {})
    assert [axis.get_title() for axis in figure.axes] == ["layer 1", "layer 2", "layer 3", "", "", ""]
    for number, axis in enumerate(figure.axes):
        rows = sensitivity[(sensitivity["side"] == side) & (sensitivity["layer"] == number % 3 + 1)]
        rows = rows[rows["permutation"] == ("transposition", "random")[number // 3]]
        for label, name in ((W1, "w_sigma_F1"), (SYRE, "syre")):
            of_variant = rows[rows["variant"] == name]
            check_points(axis, label, of_variant, "rho", lambda rows: rows["cost"] / rows["leading"])
        low, high = axis.get_ylim()
        ratios = (rows["cost"] / rows["leading"])[rows["leading"] > 0]
        assert low < ratios.min() and ratios.max() < high
        bars = np.array([segment for bars in axis.collections for segment in bars.get_segments() if len(segment)])
        bounded = rows[rows["bound"].notna()].sort_values("rho")
        bars = bars[np.isfinite(bars).all(axis=(1, 2))]
        bars = bars[np.argsort(bars[:, 0, 0])]
        np.testing.assert_allclose(bars[:, 0, 0], bounded["rho"])
        np.testing.assert_allclose(bars[:, :, 1], np.column_stack([1 - bounded["bound"], 1 + bounded["bound"]]))
    assert note(figure) == r"not drawn, F = 0 and with it the leading term: standard; W, $\sigma_F$ = 0"


def test_huge_ratios_keep_a_readable_axis(sensitivity):
    table = sensitivity.assign(cost=sensitivity["cost"].where(sensitivity["draw"] > 0, -500 * sensitivity["leading"]))
    figure = draw("thm4.5", {"sensitivity.csv": table}, {})
    figure.canvas.draw()
    ticks = figure.axes[0].get_yticks()
    assert {-100, -10, 0, 1} <= set(ticks)
    assert figure.axes[0].get_ylim()[0] < -500


def test_infinite_costs_of_permutations_are_named(sensitivity):
    hit = (sensitivity["variant"] == "syre") & (sensitivity["layer"] == 2) & (sensitivity["draw"] == 0)
    table = sensitivity.assign(cost=sensitivity["cost"].mask(hit, np.inf))
    assert "infinite cost" in note(figure := draw("thm4.5", {"sensitivity.csv": table}, {}))
    assert rf"{SYRE} in layer 2" in note(figure)


def test_figure_thm48_shows_gaps_within_bounds_and_zeros_at_the_edge(network_gaps):
    figure = draw("thm4.8", {"network_gaps.csv": network_gaps}, {})
    for axis, gap in zip(figure.axes, ("out", "in"), strict=True):
        rows = network_gaps[(network_gaps["gap"] == gap) & (network_gaps["variant"] == "w_sigma_F3")]
        rows = rows[(rows["gap"] == "out") | (rows["layer"] > 1)]
        filled, hollow = drawn_points(axis, r"W, $\sigma_F$ = 3")
        above = filled[filled[:, 1] > axis.get_ylim()[0] * 1.5]
        np.testing.assert_allclose(sorted(above[:, 1]), sorted(rows.loc[rows["assumption"] == "", "gamma"]))
        np.testing.assert_allclose(sorted(hollow[:, 1]), sorted(rows.loc[rows["assumption"] != "", "gamma"]))
        assert set(np.round(hollow[:, 0])) == {3}
        (lower,) = [line for line in axis.lines if line.get_label() == r"W, $\sigma_F$ = 3 lower"]
        np.testing.assert_allclose(sorted(lower.get_ydata())[-4:], sorted(rows["lower"])[-4:])
    edges = [line for line in figure.axes[1].lines if line.get_marker() == "v"]
    assert len(edges) == 3
    assert all(len(line.get_xdata()) == 2 and len(set(line.get_ydata())) == 1 for line in edges)
    assert "at the edge: 0 up to rounding" in entries(figure)
    assert note(figure).endswith(r"standard; W, $\sigma_F$ = 0")


def test_figure_thm48_adds_the_growth_with_width(network_gaps, centre_gaps_in, centre_gaps):
    tables = {"network_gaps.csv": network_gaps}
    axis = draw("thm4.8", tables | {"centre_gaps.csv": centre_gaps_in}, {}).axes[-1]
    drawn = {line.get_label(): line.get_data() for line in axis.lines}
    rows = centre_gaps_in[(centre_gaps_in["k"] == 8) & (centre_gaps_in["fixed_fraction"] == 1)]
    m, mean = drawn["k = 8, 1 fixed"]
    np.testing.assert_allclose(mean, [rows.loc[rows["m"] == width, "gamma_in"].mean() for width in m])
    widths, rate = drawn["rate, k = 8, 1 fixed"]
    assert rate[0] == pytest.approx(mean[0])
    np.testing.assert_allclose(np.diff(np.log(rate)) / np.diff(np.log(widths)), 0.5)
    # A table of an earlier version has no gaps of inputs.
    assert len(draw("thm4.8", tables | {"centre_gaps.csv": centre_gaps}, {}).axes) == 2


def test_figure_thm51_shows_chords_in_units_of_the_fixed_weights(chord_deviation):
    figure = draw("thm5.1", {"chord_deviation.csv": chord_deviation}, {})
    cells = [(kind, inputs) for kind in ("relu", "gelu") for inputs in ("gaussian", "data")]
    for axis, (kind, inputs) in zip(figure.axes, cells, strict=True):
        rows = chord_deviation[(chord_deviation["nonlinearity"] == kind) & (chord_deviation["inputs"] == inputs)]
        rows = rows[(rows["variant"] == "w_sigma_F1") & (rows["layer"] == 2)]
        check_points(axis, f"{W1}, layer 2", rows, "beta", lambda rows: rows["chord"] / rows["norm_F"])
        (bound,) = [line for line in axis.lines if line.get_label() == f"bound, {W1}, layer 2"]
        np.testing.assert_allclose(bound.get_ydata(), rows["bound"] / rows["norm_F"])
        for name, slope in (("slope 3/2", 1.5), ("slope 2", 2)):
            (line,) = [line for line in axis.lines if line.get_label() == name]
            assert np.diff(np.log(line.get_ydata())) / np.diff(np.log(line.get_xdata())) == pytest.approx(slope)
    assert r"standard; W, $\sigma_F$ = 0" in note(figure)


def test_data_sets_of_one_label_keep_their_own_lines(chord_deviation):
    other = chord_deviation.assign(dataset="mnist", variant=chord_deviation["variant"] + "_mnist")
    table = pd.concat([chord_deviation, other.assign(beta=2 * other["beta"])])
    axis = draw("thm5.1", {"chord_deviation.csv": table}, {}).axes[0]
    assert sum(line.get_label() == f"line, {W1}, layer 2" for line in axis.lines) == 2


def test_figure_prop52_is_the_largest_barrier_against_its_bound(loss_bounds):
    figure = draw("prop5.2", {"loss_bounds.csv": loss_bounds}, {})
    for axis, split in zip(figure.axes, ("train", "test"), strict=True):
        assert axis.get_title() == rf"{split}: bound holds at every $\lambda$"
        rows = loss_bounds[(loss_bounds["split"] == split) & (loss_bounds["variant"] == "standard")]
        for aligned, name in ((False, "unaligned"), (True, "aligned")):
            seen, _ = drawn_points(axis, f"standard, {name}")
            expected = rows.loc[rows["aligned"] == aligned, ["bound_at_max", "barrier_max"]].to_numpy()
            np.testing.assert_allclose(by_rows(seen), by_rows(expected))
        (diagonal,) = [line for line in axis.lines if line.get_label() == "bound"]
        np.testing.assert_array_equal(*diagonal.get_data())
        zeros, _ = drawn_points(axis, r"W, $\sigma_F$ = 3, aligned")
        np.testing.assert_allclose(zeros, axis.get_ylim()[0])
    assert note(figure) == "one point a pair points on an axis: 0 up to rounding"


def test_figure_prop52_says_by_how_much_a_bound_is_exceeded(loss_bounds):
    table = loss_bounds.assign(excess_max=loss_bounds["excess_max"].where(loss_bounds["split"] == "test", 0.25))
    figure = draw("prop5.2", {"loss_bounds.csv": table}, {})
    assert figure.axes[0].get_title() == r"train: bound exceeded at some $\lambda$ (by 0.25)"
    assert "holds" in figure.axes[1].get_title()
    rounded = draw("prop5.2", {"loss_bounds.csv": loss_bounds.assign(excess_max=1e-8)}, {})
    assert all("holds" in axis.get_title() for axis in rounded.axes)


def test_figure_sec45_has_the_ratio_above_both_accuracies(trade_off):
    figure = draw("sec4.5", {"trade_off.csv": trade_off}, {})
    drawn = [{line.get_label(): line.get_data() for line in axis.lines} for axis in figure.axes]
    names = ["w_sigma_F0", "w_sigma_F1", "w_sigma_F3"]
    means = trade_off.groupby("variant").mean(numeric_only=True)
    x, y = drawn[0]["identity"]
    assert list(x) == [0, 1, 3]
    np.testing.assert_allclose(y, means.loc[names, "identity_ratio"])
    for label, column in (("train accuracy", "train_accuracy"), ("validation accuracy", "val_accuracy")):
        np.testing.assert_allclose(drawn[1][label][1], 100 * means.loc[names, column])
        np.testing.assert_allclose(drawn[1][f"standard, {label}"][1], 100 * means.loc["standard", column])
    assert entries(figure) == ["train accuracy", "validation accuracy", "standard network"]


def test_an_assumption_fails_where_a_phrase_says_so():
    table = pd.DataFrame({"assumption": ["", np.nan, None, " ", "rho = 2 > 1"]})
    assert list(fails(table)) == [False, False, False, False, True]


@pytest.mark.parametrize(
    ("values", "floor"), [([2.0, 8.0], 2), ([0.0, 3.0], 1), ([6.0, 1e-9, np.nan, np.inf], 2), ([0.0], 1), ([], 1)]
)
def test_the_edge_of_a_logarithmic_axis_is_below_all_but_rounding(values, floor):
    assert floor_of(values) == pytest.approx(floor)
