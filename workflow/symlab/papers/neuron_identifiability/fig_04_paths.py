"""Figs. 4 and 20: train accuracy on the straight line between two networks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import (
    Measurement,
    Tables,
    at_least,
    at_most,
    below,
    between,
    fraction_of,
    mean,
    mean_of,
    spread,
    stated,
)
from symlab.papers.neuron_identifiability.architectures import (
    STANDARD,
    SYRE,
    SYRE_FROM_1,
    W_0,
    W_1,
    W_FROM_1,
    W_FROM_2,
    W,
)
from symlab.plotting.rows import (
    Mask,
    any_of,
    compared_variants,
    label_rows,
    mean_std,
    need,
    one_matching,
    one_path,
    same_dataset,
    split_variants,
    where,
)
from symlab.plotting.style import (
    COLUMN,
    OVER_PAIRS,
    PAGE,
    Style,
    handles,
    legend,
    mean_line,
    name_axes,
    panels,
    variant_looks,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def train_accuracy(tables: Tables, style: Style) -> Figure:
    """Fig. 4 (a, c): train accuracy in percent along lambda, a panel unaligned and one aligned, a row a data set."""
    return _train_accuracy(tables, style, {False: "a   unaligned", True: "c   aligned"})


def train_accuracy_of_resnets(tables: Tables, style: Style) -> Figure:
    """Fig. 4 (b, d): as ``train_accuracy``."""
    return _train_accuracy(tables, style, {False: "b   unaligned", True: "d   aligned"})


def unaligned_train_accuracy(tables: Tables, style: Style) -> Figure:
    """Fig. 20: train accuracy in percent along lambda, unaligned, a panel a data set."""
    return _train_accuracy(tables, style, {False: ""})


def _train_accuracy(tables: Tables, style: Style, titles: dict[bool, str]) -> Figure:
    """A column for each title: that of unaligned paths (False) or of aligned ones (True)."""
    curves = one_matching(need(tables, "curves.csv"))
    train = curves[(curves["split"] == "train") & curves["accuracy"].notna()]
    if train.empty:
        raise UserError(f"it needs a classification data set and train among {where(curves)}.interpolation.splits.")
    if train.loc[train["aligned"].isin(titles), "aligned"].nunique() < len(titles):
        raise UserError(
            f"it needs aligned paths too, so set {where(curves)}.interpolation.aligned to true and add matching."
        )
    variants = compared_variants(train)
    looks = variant_looks(variants, style)
    rows = label_rows(train, variants)
    rows = rows.assign(percent=100 * rows["accuracy"])
    datasets = list(rows["dataset"].unique())
    width = 1.3 * COLUMN if len(titles) == 1 else PAGE if len(looks) > 4 else 1.7 * COLUMN
    figure, axes = panels(len(datasets), len(titles), width, 1.0 + 2.0 * len(datasets))
    for row, dataset in enumerate(datasets):
        for column, (aligned, title) in enumerate(titles.items()):
            axis = axes[row, column]
            part = rows[(rows["dataset"] == dataset) & (rows["aligned"] == aligned)]
            for label, look in looks.items():
                mean_line(axis, mean_std(part[part["label"] == label], "lambda", "percent"), look, label, band=True)
            named = [title, dataset] if len(datasets) > 1 else [title]
            axis.set_title(", ".join(filter(None, named)), loc="left")
            for line in axis.lines:
                line.set_marker("")
    name_axes(axes, r"position $\lambda$ (0: network A, 1: network B)", "train accuracy (%)")
    legend(figure, handles(looks, marker=False), OVER_PAIRS)
    return figure


FIGURES = (
    Drawing(
        "identifiability-4",
        "Train accuracy along the path",
        """\
Train accuracy (percent) on the straight line between two networks of a pair, study `{study}`: λ = 0 is the first
network, λ = 1 the second, in panel c with its neurons permuted to match the first (by the first of the study's
matching methods, if it has two). Lines are means over pairs, bands one standard deviation.

A sagging line is a barrier. Unaligned, standard networks and W-asymmetric ones with σ_F = 0 should sag, those with
large fixed weights should not; aligned, all lines should be nearly flat.
""",
        train_accuracy,
    ),
    Drawing(
        "identifiability-4b",
        "Train accuracy along the path, ResNets (b, d)",
        """\
Train accuracy (percent) on the straight line between two ResNets of a pair, study `{study}`: λ = 0 is the first
network, λ = 1 the second, in panel d with its neurons permuted to match the first. Lines are means over pairs, bands
one standard deviation.

A sagging line is a barrier. Unaligned, standard networks and W-asymmetric ones with σ_F = 0 should sag most, those
with large fixed weights clearly less; aligned, all lines should sag little. That aligning helps syre networks, whose
symmetries are broken, is the surprise.
""",
        train_accuracy_of_resnets,
    ),
    Drawing(
        "identifiability-20",
        "Train accuracy along the unaligned path, ViTs",
        """\
Train accuracy (percent) on the straight line between two vision transformers of a pair, unaligned, study `{study}`: λ
= 0 is the first network, λ = 1 the second. Lines are means over pairs, bands one standard deviation.

Standard networks and W-asymmetric ones with σ_F = 0 should have the same deep barrier. With σ_F = 1 the middle should
lie clearly higher, though still below the ends.
""",
        unaligned_train_accuracy,
    ),
)


def accuracy_drop(tables: Tables, which: Mask, aligned: bool, column: str = "drop_max_pp") -> list[Measurement]:
    """Drop of train accuracy between the networks of a pair in percentage points, mean over pairs, for each variant."""
    rows = one_path(tables["barriers.csv"], "train", aligned)
    return [mean_of(of_variant[column].to_numpy(), case) for case, of_variant in split_variants(rows, which)]


def drop_over_baseline(tables: Tables, which: Mask, baseline: Mask) -> list[Measurement]:
    """Largest drop of train accuracy on the unaligned path as a fraction of the baseline's, mean over pairs.

    One value a variant; of several baselines on its data set, the one with the smallest drop counts.
    """
    rows = one_path(tables["barriers.csv"], "train", aligned=False)
    measured = []
    for case, of_variant in split_variants(rows, which):
        levels = [
            mean(other["drop_max_pp"].to_numpy())
            for _, other in split_variants(same_dataset(rows, of_variant), baseline)
        ]
        if levels:
            measured.append(_in_pp(of_variant["drop_max_pp"].to_numpy(), float(np.min(levels)), case))
    return measured


def drop_left_by_alignment(tables: Tables, which: Mask) -> list[Measurement]:
    """Largest drop of train accuracy on the aligned path as a fraction of that on the unaligned one, for each variant.

    Both are means over pairs.
    """
    aligned = one_path(tables["barriers.csv"], "train", aligned=True)
    unaligned = one_path(tables["barriers.csv"], "train", aligned=False)
    before = {variant: rows["drop_max_pp"].to_numpy() for variant, rows in unaligned.groupby("variant")}
    return [
        _in_pp(rows["drop_max_pp"].to_numpy(), mean(before[rows["variant"].iloc[0]]), case)
        for case, rows in split_variants(aligned, which)
        if rows["variant"].iloc[0] in before
    ]


def _in_pp(values: np.ndarray, level: float, case: str) -> Measurement:
    return fraction_of(values, level, case, f"{mean(values):.3g} pp against {level:.3g} pp")


def midpoint_gain(
    tables: Tables, which: Mask, baselines: tuple[Mask, ...], worst: Callable[[np.ndarray], np.ndarray]
) -> list[Measurement]:
    """By how many percentage points the train accuracy at the unaligned midpoint exceeds a baseline's, mean over pairs.

    One value a variant: of the gains over all baselines on its data set, that with the largest score ``worst``. Every
    kind of baseline is needed.
    """
    curves = one_path(tables["curves.csv"], "train", aligned=False)
    middle = curves[curves["lambda"] == 0.5]
    measured = []
    for case, of_variant in split_variants(middle, which):
        near = same_dataset(middle, of_variant)
        kinds = [split_variants(near, baseline) for baseline in baselines]
        if all(kinds):
            levels = {name: 100 * mean(rows["accuracy"].to_numpy()) for kind in kinds for name, rows in kind}
            values = 100 * of_variant["accuracy"].to_numpy()
            gains = mean(values) - np.array(list(levels.values()))
            told = ", ".join(f"{name}: {level:.3g} %" for name, level in {"here": mean(values), **levels}.items())
            # argmax takes an undefined gain for the worst.
            gain = float(gains[np.argmax(worst(gains))])
            measured.append(Measurement(gain, len(values), spread(values), case, told))
    return measured


FIG_4 = (
    stated(
        "identifiability-4a-barrier",
        "identifiability-4a",
        "Unaligned, two standard networks or two with sigma_F = 0 cannot be averaged: largest "
        "drop of train accuracy on the line between them, mean over pairs",
        at_least(10, "pp"),
        "The paper calls these barriers high; ten percentage points are far more than networks of one kind differ by.",
        "barriers.csv",
        partial(accuracy_drop, which=any_of(STANDARD, W_0), aligned=False),
        also=("identifiability-4",),
    ),
    stated(
        "identifiability-4a-connected",
        "identifiability-4a",
        "Unaligned, two networks with sigma_F of 1 and more can be averaged: largest drop "
        "of train accuracy on the line between them, mean over pairs",
        at_most(3, "pp"),
        "The paper says unaligned connectivity is achieved for large sigma_F; "
        "connected is read as less than a third of a high barrier.",
        "barriers.csv",
        partial(accuracy_drop, which=any_of(W_FROM_1, SYRE_FROM_1), aligned=False),
        also=("identifiability-4",),
    ),
    stated(
        "identifiability-4c-aligned",
        "identifiability-4c",
        "Aligned, every pair of networks can be averaged: largest drop of train "
        "accuracy on the line between them, mean over pairs",
        at_most(3, "pp"),
        "The paper says all models have reasonably low barriers once aligned; "
        "the same few points as for the identifiable ones.",
        "barriers.csv",
        partial(accuracy_drop, which=any_of(STANDARD, W, SYRE), aligned=True),
        also=("identifiability-4",),
    ),
)
FIG_4_RESNETS = (
    stated(
        "identifiability-4b-barrier",
        "identifiability-4b",
        "Unaligned, two standard ResNets or two with sigma_F = 0 cannot be averaged: largest "
        "drop of train accuracy on the line between them, mean over pairs",
        at_least(10, "pp"),
        "The paper calls these barriers high; for large sigma_F it claims "
        "connectivity only to some degree, so no bound is set there.",
        "barriers.csv",
        partial(accuracy_drop, which=any_of(STANDARD, W_0), aligned=False),
    ),
    stated(
        "identifiability-4b-lowered",
        "identifiability-4b",
        "Unaligned, W-asymmetric ResNets with sigma_F of 2 and more have a clearly lower barrier than standard ones: "
        "largest drop of train accuracy as a fraction of theirs",
        at_most(0.5),
        "The paper says unaligned connectivity is achieved to some degree; without a size stated, that is "
        "read as at least half of the standard barrier being gone.",
        "barriers.csv",
        partial(drop_over_baseline, which=W_FROM_2, baseline=STANDARD),
    ),
    stated(
        "identifiability-4d-aligned",
        "identifiability-4d",
        "Aligned, every pair of ResNets can be averaged: largest drop of train "
        "accuracy on the line between them, mean over pairs",
        at_most(10, "pp"),
        "The paper calls the aligned barriers reasonably low: below what counts as high in Fig. 4b.",
        "barriers.csv",
        partial(accuracy_drop, which=any_of(STANDARD, W_0, W_FROM_2, SYRE), aligned=True),
        also=("identifiability-4b",),
    ),
    stated(
        "identifiability-4d-lowered",
        "identifiability-4d",
        "Alignment lowers the barrier of standard ResNets and of those with sigma_F = 0: "
        "largest drop of train accuracy as a fraction of the unaligned one",
        at_most(0.5),
        "The paper says alignment reduces both barriers similarly well, from high to reasonably low; "
        "half is the least that high and low differ by.",
        "barriers.csv",
        partial(drop_left_by_alignment, which=any_of(STANDARD, W_0)),
        also=("identifiability-4b",),
    ),
    stated(
        "identifiability-4d-syre",
        "identifiability-4d",
        "Alignment lowers the barrier of syre ResNets, whose symmetries are broken: "
        "largest drop of train accuracy as a fraction of the unaligned one",
        below(1),
        "The paper finds, to its surprise, that alignment reduces this barrier; "
        "no size is stated, so only the order is asked for.",
        "barriers.csv",
        partial(drop_left_by_alignment, which=SYRE),
        also=("identifiability-4b",),
    ),
)
FIG_20 = (
    stated(
        "identifiability-20-barrier",
        "identifiability-20",
        "Unaligned, standard vision transformers and those with sigma_F = 0 have a "
        "pronounced barrier: midpoint drop of train accuracy, mean over pairs",
        at_least(10, "pp"),
        "The paper calls the barrier pronounced and finds masks alone to match it; ten points as in Fig. 4.",
        "barriers.csv",
        partial(accuracy_drop, which=any_of(STANDARD, W_0), aligned=False, column="drop_mid_pp"),
    ),
    stated(
        "identifiability-20-alike",
        "identifiability-20",
        "Unaligned, vision transformers with sigma_F = 0 are like standard ones: "
        "difference of the train accuracies at the midpoint, mean over pairs",
        between(-5, 5, "pp"),
        "The paper says they closely match; close is read as half of what counts as a barrier.",
        "curves.csv",
        partial(midpoint_gain, which=W_0, baselines=(STANDARD,), worst=np.abs),
    ),
    stated(
        "identifiability-20-higher",
        "identifiability-20",
        "Unaligned, vision transformers with sigma_F = 1 are better at the midpoint than standard ones and those with "
        "sigma_F = 0: gain in train accuracy over the higher of the two, mean over pairs",
        at_least(10, "pp"),
        "The paper says substantially higher; a difference as large as what counts as a barrier is substantial.",
        "curves.csv",
        partial(midpoint_gain, which=W_1, baselines=(STANDARD, W_0), worst=np.negative),
    ),
    stated(
        "identifiability-20-remaining",
        "identifiability-20",
        "Unaligned, vision transformers with sigma_F = 1 still have a barrier: "
        "midpoint drop of train accuracy, mean over pairs",
        at_least(10, "pp"),
        "The paper says the midpoint remains well below the endpoints; ten points, as for the other barriers.",
        "barriers.csv",
        partial(accuracy_drop, which=W_1, aligned=False, column="drop_mid_pp"),
    ),
)


CLAIMS = (*FIG_4, *FIG_4_RESNETS, *FIG_20)
