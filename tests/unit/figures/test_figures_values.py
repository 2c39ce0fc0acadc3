"""What the figures show, read back from the drawn lines, boxes and images, against means taken by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from symlab.figures import draw
from symlab.plotting.tables import compared, in_order, named, sigma_sweep, variant_label, variants_of

from symlab.plotting.style import Style, broken, variant_looks


def lines(axis) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {line.get_label(): line.get_data() for line in axis.lines if not line.get_label().startswith("_")}


def panel(figure, title: str):
    (found,) = [axis for axis in figure.axes if title in (axis.get_title() or axis.get_title(loc="left"))]
    return found


def bars(axis) -> list[np.ndarray]:
    """[lower, upper] of each error bar, a list of bars for each series."""
    return [np.array([[low[1], high[1]] for low, high in bar.get_segments()]) for bar in axis.collections]


def test_figure_3a_is_the_mean_and_std_over_pairs_of_the_layer_mean(matching):
    axis = draw("3a", {"matching.csv": matching}, {}).axes[0]
    drawn, bars_of = lines(axis), dict(zip(("optimal", "identity", "random"), bars(axis), strict=True))
    assert list(drawn) == ["optimal", "identity", "random"]
    for permutation, (x, y) in drawn.items():
        assert list(x) == [0, 1, 3]
        for place, name in enumerate(("w_sigma_F0", "w_sigma_F1", "w_sigma_F3")):
            of_pairs = []
            for pair in range(4):
                rows = matching[(matching["variant"] == name) & (matching["pair"] == pair) & (matching["epoch"] == 60)]
                of_pairs.append(np.mean(rows.loc[rows["permutation"] == permutation, "objective"].to_numpy()))
            mean, std = np.mean(of_pairs), np.std(of_pairs, ddof=1)
            assert y[place] == pytest.approx(mean)
            np.testing.assert_allclose(bars_of[permutation][place], [mean - std, mean + std])


def test_figure_3c_shows_sigma_zero_and_the_smallest_large_one(matching):
    figure = draw("3c", {"matching.csv": matching}, {})
    assert [axis.get_title() for axis in figure.axes] == [r"W, $\sigma_F$ = 0", r"W, $\sigma_F$ = 1"]
    x, y = lines(figure.axes[1])["identity"]
    rows = matching[(matching["variant"] == "w_sigma_F1") & (matching["permutation"] == "identity")]
    assert list(x) == [0, 1, 5, 20, 60]
    np.testing.assert_allclose(y, [rows.loc[rows["epoch"] == epoch, "objective"].mean() for epoch in x])


def test_figure_4_is_the_mean_train_accuracy_of_the_pairs(curves):
    figure = draw("4", {"curves.csv": curves}, {})
    names = {"standard": "standard", r"W, $\sigma_F$ = 1": "w_sigma_F1", r"syre, $\sigma_F$ = 1": "syre"}
    for title, aligned in (("unaligned", False), ("c   aligned", True)):
        drawn = lines(panel(figure, title))
        assert len(drawn) == 6
        for label, name in names.items():
            rows = curves[(curves["variant"] == name) & (curves["aligned"] == aligned) & (curves["split"] == "train")]
            by_pair = rows.sort_values(["pair", "lambda"])["accuracy"].to_numpy().reshape(4, 11)
            np.testing.assert_allclose(drawn[label][0], np.linspace(0, 1, 11))
            np.testing.assert_allclose(drawn[label][1], 100 * by_pair.mean(axis=0))


def test_figure_4b_has_the_paper_s_panels_b_and_d(resnet_curves):
    figure = draw("4b", {"curves.csv": resnet_curves}, {})
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["b   unaligned", "d   aligned"]
    labels = ["standard", r"W, $\sigma_F$ = 0", r"W, $\sigma_F$ = 2", r"syre, $\sigma_F$ = 1"]
    for axis, aligned in zip(figure.axes, (False, True), strict=True):
        drawn = lines(axis)
        assert list(drawn) == labels
        rows = resnet_curves.query("variant == 'syre' and split == 'train' and `lambda` == 0.5")
        middle = rows.loc[rows["aligned"] == aligned, "accuracy"].mean()
        assert drawn[labels[3]][1][12] == pytest.approx(100 * middle)


@pytest.mark.parametrize("also_aligned", [False, True])
def test_figure_20_is_the_mean_train_accuracy_of_unaligned_pairs(also_aligned, vit_curves):
    aligned = vit_curves.assign(aligned=True, accuracy=0.0)
    table = pd.concat([vit_curves, aligned]) if also_aligned else vit_curves
    (axis,) = draw("20", {"curves.csv": table}, {}).axes
    drawn = lines(axis)
    assert list(drawn) == ["standard", r"W, $\sigma_F$ = 0", r"W, $\sigma_F$ = 1"]
    rows = vit_curves[(vit_curves["variant"] == "w_1") & (vit_curves["split"] == "train")]
    by_pair = rows.sort_values(["pair", "lambda"])["accuracy"].to_numpy().reshape(4, 25)
    np.testing.assert_allclose(drawn[r"W, $\sigma_F$ = 1"][1], 100 * by_pair.mean(axis=0))


def test_figure_4_band_is_one_standard_deviation(curves):
    axis = panel(draw("4", {"curves.csv": curves}, {}), "unaligned")
    rows = curves[(curves["variant"] == "standard") & ~curves["aligned"] & (curves["split"] == "train")]
    middle = 100 * rows.loc[np.isclose(rows["lambda"], 0.5), "accuracy"].to_numpy()
    band = axis.collections[0].get_paths()[0].vertices
    heights = sorted(set(band[np.isclose(band[:, 0], 0.5), 1]))
    np.testing.assert_allclose(heights, [middle.mean() - middle.std(ddof=1), middle.mean() + middle.std(ddof=1)])


def test_figure_6_is_the_mean_test_barrier_over_masks_and_pairs(barriers):
    axis = draw("6", {"barriers.csv": barriers}, {}).axes[0]
    drawn = lines(axis)
    assert set(drawn) == {"exact copy", "random frame"}
    for (label, (nu, y)), bar in zip(drawn.items(), bars(axis), strict=True):
        np.testing.assert_allclose(nu, [1 / t for t in range(10, 0, -1)])
        for place, t in enumerate(range(10, 0, -1)):
            rows = barriers[(barriers["embedding"] == label.replace(" ", "_")) & (barriers["t"] == t)]
            values = rows.loc[rows["split"] == "test", "barrier_mid"].to_numpy()
            assert len(values) == 15
            assert y[place] == pytest.approx(values.mean())
            assert bar[place, 1] - bar[place, 0] == pytest.approx(2 * values.std(ddof=1))


def test_figure_7_has_a_row_a_variant_and_a_column_for_all_layers(matching):
    figure = draw("7", {"matching.csv": matching}, {})
    rows = [text.get_text() for axis in figure.axes for text in axis.texts]
    # sigma_F = 3 is left out: it is neither 0 nor the smallest value that is at least 1.
    expected = ["standard", r"W, $\sigma_F$ = 0", r"W, $\sigma_F$ = 1", r"syre, $\sigma_F$ = 1", r"$\sigma$-MLP"]
    assert rows == expected
    assert [axis.get_title() for axis in figure.axes[:4]] == ["all layers"] + [f"after layer {n}" for n in (1, 2, 3)]
    standard = matching[(matching["variant"] == "standard") & (matching["permutation"] == "optimal")]
    for axis, points in zip(figure.axes, (["hidden1", "hidden2", "hidden3"], ["hidden1"]), strict=False):
        x, y = lines(axis)["optimal"]
        chosen = standard[standard["point"].isin(points)]
        np.testing.assert_allclose(y, [chosen.loc[chosen["epoch"] == epoch, "objective"].mean() for epoch in x])


def test_figure_3b_averages_over_streams_and_insides_alike(resnet_matching):
    x, y = lines(draw("3b", {"matching.csv": resnet_matching}, {}).axes[0])["optimal"]
    assert list(x) == [0, 0.25, 0.5, 1, 1.5, 2, 3, 5]
    rows = resnet_matching[(resnet_matching["sigma_F"] == 1.5) & (resnet_matching["permutation"] == "optimal")]
    assert len(rows) == 12 * 4
    assert y[4] == pytest.approx(rows["objective"].mean())


def test_figure_9_has_a_line_a_block_group(resnet_matching):
    figure = draw("9", {"matching.csv": resnet_matching}, {})
    expected = [
        title
        for group in (1, 2, 3)
        for title in (f"BG {group} residual stream", *(f"layer {group}.{block} inner" for block in (1, 2, 3)))
    ]
    assert [axis.get_title() for axis in figure.axes] == expected
    grid = [axis.get_subplotspec() for axis in figure.axes]
    assert [(place.rowspan.start, place.colspan.start) for place in grid] == [(n // 4, n % 4) for n in range(12)]
    for title, point in (("BG 2 residual stream", "stream2"), ("layer 3.1 inner", "inner3.1")):
        x, y = lines(panel(figure, title))["identity"]
        rows = resnet_matching[(resnet_matching["point"] == point) & (resnet_matching["permutation"] == "identity")]
        np.testing.assert_allclose(y, [rows.loc[rows["sigma_F"] == value, "objective"].mean() for value in x])


def test_two_data_sets_are_two_rows_of_figure_9(resnet_matching):
    other = resnet_matching.assign(dataset="cifar100", variant=resnet_matching["variant"] + "_cifar100")
    figure = draw("9", {"matching.csv": pd.concat([resnet_matching, other])}, {})
    assert len(figure.axes) == 24
    assert [text.get_text() for axis in figure.axes for text in axis.texts] == ["cifar", "cifar100"]


def test_figure_10_takes_the_family_that_sweeps_the_fraction(matching):
    figure = draw("10", {"matching.csv": matching}, {})
    x, y = lines(figure.axes[3])["identity"]
    rows = matching[(matching["epoch"] == 60) & (matching["point"] == "hidden1") & (matching["sigma_F"] == 1)]
    rows = rows[rows["permutation"] == "identity"]
    assert list(x) == [0.125, 0.25, 0.5]
    np.testing.assert_allclose(y, [rows.loc[rows["fixed_fraction"] == value, "objective"].mean() for value in x])


def test_figure_11_is_the_mean_gap_and_the_anchored_rate(centre_gaps):
    drawn = lines(draw("11", {"centre_gaps.csv": centre_gaps}, {}).axes[0])
    assert len(drawn) == 12
    for k in (2, 8, 32):
        for fraction in (0.125, 1.0):
            rows = centre_gaps[(centre_gaps["k"] == k) & (centre_gaps["fixed_fraction"] == fraction)]
            m, mean = drawn[f"k = {k}, {fraction:g} fixed"]
            np.testing.assert_allclose(mean, [rows.loc[rows["m"] == width, "gamma_out"].mean() for width in m])
            widths, rate = drawn[f"rate, k = {k}, {fraction:g} fixed"]
            assert (widths[0], rate[0]) == (16, pytest.approx(mean[0]))
            np.testing.assert_allclose(np.diff(np.log(rate)) / np.diff(np.log(widths)), -2 / k)


def test_figure_5_shows_the_first_networks_first_layer(gmm_swap_costs):
    figure = draw("5", {"swap_costs.parquet": gmm_swap_costs}, {})
    images = [axis.images[0] for axis in figure.axes if axis.get_label() != "<colorbar>"]
    assert len(images) == 6
    rows = gmm_swap_costs[(gmm_swap_costs["sigma_F"] == 1) & (gmm_swap_costs["k"] == 32)]
    rows = rows[(rows["layer"] == 1) & (rows["seed"] == 0)]
    shown = images[5].get_array()
    assert shown.shape == (64, 64)
    np.testing.assert_array_equal(shown, shown.T)
    np.testing.assert_array_equal(np.diag(shown), 0)
    for row in rows.sample(50, random_state=0).itertuples():
        assert shown[row.i, row.j] == pytest.approx(np.sign(row.swap_cost) * abs(row.swap_cost) ** 0.5)
    masked = np.ma.getmaskarray(images[0].get_array())
    assert masked[:8, 8:].all() and not masked[8:, 8:].any()
    norms = {(image.norm.vmin, image.norm.vmax) for image in images}
    ((low, high),) = norms
    assert low == -high
    assert images[0].norm(0.0) == pytest.approx(0.5)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["infinite cost"]


def test_figures_16_to_19_share_their_colours_and_cut_to_128_neurons(swap_costs):
    images = {}
    for figure_id in ("16", "17", "18", "19"):
        figure = draw(figure_id, {"swap_costs.parquet": swap_costs}, {})
        images[figure_id] = [axis.images[0] for axis in figure.axes if axis.get_label() != "<colorbar>"]
        assert [image.get_array().shape for image in images[figure_id]] == [(128, 128), (60, 60), (60, 60)]
    assert len({image.norm.vmax for row in images.values() for image in row}) == 1
    rows = swap_costs[(swap_costs["variant"] == "syre") & (swap_costs["layer"] == 2) & (swap_costs["seed"] == 0)]
    expected = rows.loc[(rows["i"] == 3) & (rows["j"] == 40), "swap_cost"].item()
    assert images["19"][1].get_array()[40, 3] == pytest.approx(np.sqrt(expected))


def test_figure_12_boxes_are_of_disjoint_consecutive_pairs(swap_costs):
    axis = draw("12", {"swap_costs.parquet": swap_costs}, {}).axes[1]
    medians = sorted(
        (line.get_ydata().mean(), line.get_xdata()[0]) for line in axis.lines if line.get_linewidth() == 1.2
    )
    names = ["standard", "w_sigma_F0", "w_sigma_F1", "w_sigma_F3", "syre", "sigma_mlp"]
    assert len(medians) == len(names)
    for name, (_, median) in zip(names, medians, strict=True):
        rows = swap_costs[(swap_costs["variant"] == name) & (swap_costs["layer"] == 2)]
        costs = np.concatenate(
            [rows.loc[(rows["i"] == i) & (rows["j"] == i + 1), "swap_cost"].to_numpy() for i in range(0, 60, 2)]
        )
        assert len(costs) == 60
        assert median == pytest.approx(np.median(np.sign(costs) * np.sqrt(np.abs(costs))))


def test_figure_13_says_how_many_costs_are_infinite(gmm_swap_costs):
    axis = draw("13", {"swap_costs.parquet": gmm_swap_costs}, {}).axes[0]
    # Pairs (0, 1) to (6, 7) of 32 are infinite at k = 2, sigma_F = 0.
    assert [text.get_text() for text in axis.texts] == [r"12 % $\infty$"]


def test_figure_21_is_the_mean_over_networks(subspaces):
    figure = draw("21", {"subspaces.csv": subspaces}, {})
    titles = ["model inputs", "layer 2 inputs", "layer 3 inputs", "layer 4 inputs", "model outputs"]
    assert [axis.get_title() for axis in figure.axes] == titles
    x, y = lines(figure.axes[2])[r"syre, $\sigma_F$ = 1"]
    rows = subspaces[(subspaces["variant"] == "syre") & (subspaces["point"] == "hidden2")]
    np.testing.assert_allclose(y, [rows.loc[rows["epoch"] == epoch, "nu"].mean() for epoch in x])


def test_a_second_data_set_gets_its_own_panels(matching, curves):
    doubled = [
        pd.concat([table, table.assign(dataset="mnist", variant=table["variant"] + "_mnist")])
        for table in (matching, curves)
    ]
    assert [axis.get_title() for axis in draw("3a", {"matching.csv": doubled[0]}, {}).axes] == ["digits", "mnist"]
    figure = draw("4", {"curves.csv": doubled[1]}, {})
    assert [axis.get_title(loc="left") for axis in figure.axes][2:] == ["a   unaligned, mnist", "c   aligned, mnist"]
    assert all(len(lines(axis)) == 6 for axis in figure.axes)


def test_a_single_pair_has_no_error_bar_but_a_mean(matching):
    axis = draw("3a", {"matching.csv": matching[matching["pair"] == 2]}, {}).axes[0]
    for bar in bars(axis):
        np.testing.assert_array_equal(bar[:, 0], bar[:, 1])


def test_variants_look_the_same_in_every_figure(curves, swap_costs):
    figure = draw("4", {"curves.csv": curves}, {})
    colors = {line.get_label(): to_hex(line.get_color()) for line in figure.axes[0].lines}
    looks = variant_looks(compared(swap_costs), Style())
    assert colors == {label: to_hex(look.color) for label, look in looks.items()}
    assert len(set(colors.values())) == 6


def test_labels_and_order_of_variants(matching):
    variants = compared(matching)
    expected = [r"W, $\sigma_F$ = 0", r"W, $\sigma_F$ = 1", r"W, $\sigma_F$ = 3"]
    assert list(variants["label"]) == ["standard", *expected, r"syre, $\sigma_F$ = 1", r"$\sigma$-MLP"]
    assert list(sigma_sweep(matching)["label"]) == expected
    sparse = {"scheme": "sparse", "sigma_F": np.nan, "activation": np.nan}
    assert variant_label(pd.Series(sparse)) == "sparse"
    by_head = {"scheme": "w_asymmetric_heads", "sigma_F": 1.0, "activation": np.nan}
    assert variant_label(pd.Series(by_head)) == r"W by head, $\sigma_F$ = 1"


def test_variants_of_one_label_are_told_apart_by_what_differs(matching):
    table = pd.concat([matching, matching.assign(variant=matching["variant"] + "_bn", norm="batchnorm")])
    labels = named(variants_of(table))["label"]
    assert labels.is_unique
    assert labels["standard_bn"] == "standard (batchnorm)"
    assert labels["fractions_0.25_1.0"] == r"W, $\sigma_F$ = 1 (fractions) (0.25) (layernorm)"


def test_points_come_in_the_order_of_the_network():
    assert in_order(["output", "hidden10", "hidden2", "input", "hidden2"]) == ["input", "hidden2", "hidden10", "output"]


def test_block_groups_come_one_after_another_and_foreign_points_as_they_are():
    found = in_order(["inner1.1", "stream1", "inner1.10", "inner1.2", "inner2.1", "stream2", "stream1"])
    assert found == ["stream1", "inner1.1", "inner1.2", "inner1.10", "stream2", "inner2.1"]
    assert in_order(["stem", "hidden2", "blocks.0", "stem", "hidden1"]) == ["stem", "hidden2", "blocks.0", "hidden1"]


@pytest.mark.parametrize(
    ("text", "width", "lines_of_it"),
    [
        ("features.0", 1.7, ["features.0"]),
        ("blocks.0.attention.query:1", 1.7, ["blocks.0.attention.", "query:1"]),
        ("layer 1.1 inner", 1.1, ["layer 1.1", "inner"]),
        ("x" * 20, 1.0, ["x" * 12, "x" * 8]),
        ("_hidden", 1.7, ["_hidden"]),
        ("_", 1.7, ["_"]),
        ("", 1.7, [""]),
    ],
)
def test_names_are_broken_at_their_joints(text, width, lines_of_it):
    assert broken(text, width, Style()).split("\n") == lines_of_it
