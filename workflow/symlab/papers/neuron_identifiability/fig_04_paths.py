"""Figs. 4 and 20: train accuracy on the straight line between two networks."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
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
from symlab.papers.neuron_identifiability.looks import variant_looks
from symlab.papers.neuron_identifiability.rows import one_path, same_dataset
from symlab.papers.neuron_identifiability.variants import (
    Mask,
    any_of,
    compared_variants,
    every_row,
    label_rows,
    sigma_mlp,
    split_variants,
    telling_variants,
)
from symlab.plotting import style as plot
from symlab.plotting.pairs import PAIR
from symlab.plotting.units import draw_units, over_pairs
from symlab.study.card import Drawing
from symlab.study.claim import (
    Claim,
    Found,
    Measurement,
    Tables,
    at_least,
    at_most,
    below,
    between,
    difference_of,
    mean,
    mean_of,
    ratio_of,
    standard_error,
)
from symlab.study.tables import chance, independent, need, one_matching, where

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNDER_TRAINED = 60
"""Train accuracy in percent of the networks below which a figure says what it is."""
ZOOM = 4
"""Percentage points below the best networks that the lower row shows."""


def train_accuracy(tables: Tables, style: plot.Style) -> Figure:
    """Fig. 4 (a, c): train accuracy in percent along lambda, a panel unaligned and one aligned, a row a data set."""
    return _train_accuracy(tables, style, {False: "a   unaligned", True: "c   aligned"})


def train_accuracy_of_resnets(tables: Tables, style: plot.Style) -> Figure:
    """Fig. 4 (b, d): as ``train_accuracy``."""
    return _train_accuracy(tables, style, {False: "b   unaligned", True: "d   aligned"})


def unaligned_train_accuracy(tables: Tables, style: plot.Style) -> Figure:
    """Fig. 20: train accuracy in percent along lambda, unaligned, a panel a data set."""
    return _train_accuracy(tables, style, {False: "unaligned"})


def _train_accuracy(tables: Tables, style: plot.Style, titles: dict[bool, str]) -> Figure:
    """A column for each title: that of unaligned paths (False) or of aligned ones (True); one more for sigma-MLPs.

    Where some barriers are deep and others hidden in the line of the endpoints, a second row shows its last few points.
    """
    rows = _percents(tables, titles)
    variants = compared_variants(rows)
    looks = variant_looks(variants, style)
    rows = label_rows(rows, variants)
    kinds = {label: look for label, look in looks.items() if label not in set(rows.loc[sigma_mlp(rows), "label"])}
    datasets = list(rows["dataset"].unique())
    ends = rows[rows["lambda"].isin([0, 1])].groupby("variant")["percent"].mean()
    zoomed = len(datasets) == 1 and ends.min() > 100 - 2 * ZOOM
    n_columns = len(titles) + (len(kinds) < len(looks))
    n_rows = len(datasets) + zoomed
    width = max(plot.PAGE * n_columns / 3, 0.66 * plot.PAGE)
    figure, axes = plot.panels(n_rows, n_columns, width, 1.1 + 1.9 * n_rows, sharey="row")
    for row, dataset in enumerate(datasets * (1 + zoomed)):
        part = rows[rows["dataset"] == dataset]
        for axis, (aligned, title) in zip(axes[row], titles.items(), strict=False):
            for label, look in kinds.items():
                _draw_path(axis, part[(part["label"] == label) & (part["aligned"] == aligned)], look, label)
            if row < len(datasets):
                axis.set_title(f"{title}, {dataset}" if len(datasets) > 1 else title, loc="left")
        if n_columns > len(titles):
            axis = axes[row, -1]
            color = next(look.color for label, look in looks.items() if label not in kinds)
            for aligned, look in ((False, plot.Look(color, ":")), (True, plot.Look(color, "-"))):
                _draw_path(axis, part[sigma_mlp(part) & (part["aligned"] == aligned)], look, titles.get(aligned, ""))
            if row < len(datasets):
                axis.set_title(r"$\sigma$-MLP, both", loc="left")
        for axis in axes[row]:
            axis.set_ylim(0, 102)
    if zoomed:
        top = rows.groupby(["variant", "aligned", "lambda"])["percent"].mean().max()
        for axis in axes[-1]:
            axis.set_ylim(top - ZOOM, top + 0.1 * ZOOM)
        axes[-1, 0].set_title(f"the last {ZOOM} points", loc="left")
    for axis in axes.flat:
        plot.set_ticks(axis.xaxis, (0, 0.5, 1))
        axis.set_xlabel(r"position $\lambda$")
        axis.set_ylabel("train accuracy (%)")
        axis.xaxis.label.set_visible(axis in list(axes[-1]))
        axis.yaxis.label.set_visible(axis in list(axes[:, 0]))
    entries = plot.handles(kinds, marker=False)
    if n_columns > len(titles):
        entries += [plot.line_entry(r"$\sigma$-MLP, unaligned", color=color, linestyle=":")]
        entries += [plot.line_entry(r"$\sigma$-MLP, aligned", color=color)] if len(titles) > 1 else []
    said = f"{over_pairs(rows)}; λ = 0: network A, λ = 1: network B"
    if ends.min() < UNDER_TRAINED:
        said += f"\nunder-trained: the networks reach {ends.min():.0f} to {ends.max():.0f} %"
    plot.legend(figure, entries, said)
    return figure


def _draw_path(axis: Axes, rows: pd.DataFrame, look: plot.Look, label: str) -> None:
    if len(rows):
        draw_units(axis, rows, "lambda", "percent", look, label, band=True, marker=False)


def _percents(tables: Tables, titles: dict[bool, str]) -> pd.DataFrame:
    """Train accuracy in percent on the unaligned paths and, if they have a title, those aligned by the first method.

    Raises:
        UserError: there are none.
    """
    curves = one_matching(need(tables, "curves.csv"))
    train = curves[(curves["split"] == "train") & curves["accuracy"].notna()]
    if train.empty:
        raise UserError(f"it needs a classification data set and train among {where(curves)}.interpolation.splits.")
    train = train[train["aligned"].isin(titles)]
    if train["aligned"].nunique() < len(titles):
        raise UserError(
            f"it needs aligned paths too, so set {where(curves)}.interpolation.aligned to true and add matching."
        )
    return train.assign(percent=100 * train["accuracy"])


def _seen(tables: Tables, titles: dict[bool, str]) -> str:
    """How far the middle lies below the ends, by variant, and at what accuracy the ends are."""
    rows = _percents(tables, titles)
    rows = rows[rows["variant"].isin(telling_variants(rows).index)]
    parts = []
    for aligned in titles:
        chosen = rows[rows["aligned"] == aligned]
        drops = []
        for case, part in split_variants(chosen, every_row):
            means = part.groupby("lambda")["percent"].mean()
            drops.append(f"{max(0.0, means[[0, 1]].mean() - means.min()):.1f} ({case})")
        parts.append(f"{'aligned' if aligned else 'unaligned'} {', '.join(drops)}")
    ends = rows[rows["lambda"].isin([0, 1])].groupby("variant")["percent"].mean()
    reach = f"{ends.min():.3g}" if ends.max() - ends.min() < 0.5 else f"{ends.min():.3g} to {ends.max():.3g}"
    return (
        f"The lowest point of the mean line lies below the networks themselves, which reach {reach} %, by so many "
        f"percentage points: {'; '.join(parts)}."
    )


FIGURES = (
    Drawing(
        "identifiability-4",
        "Train accuracy along the path",
        """\
Train accuracy on the straight line between two networks of a pair, study `{study}`: λ = 0 is the first network, λ = 1
the second, in panel c with its neurons permuted to match the first (by the first of the study's matching methods, if it
has two). The deeper a line sags, the less the two networks can be averaged.
""",
        train_accuracy,
        partial(_seen, titles={False: "", True: ""}),
        "The last panel shows σ-MLPs, which the paper leaves out; a second row shows the last points before 100 %.",
    ),
    Drawing(
        "identifiability-4b",
        "Train accuracy along the path, ResNets (b, d)",
        """\
Train accuracy on the straight line between two ResNets of a pair, study `{study}`: λ = 0 is the first network, λ = 1
the second, in panel d with its neurons permuted to match the first. A line that sags is a barrier.
""",
        train_accuracy_of_resnets,
        partial(_seen, titles={False: "", True: ""}),
    ),
    Drawing(
        "identifiability-20",
        "Train accuracy along the unaligned path, ViTs",
        """\
Train accuracy on the straight line between two vision transformers of a pair, unaligned, study `{study}`: λ = 0 is the
first network, λ = 1 the second. A line that sags is a barrier.
""",
        unaligned_train_accuracy,
        partial(_seen, titles={False: ""}),
    ),
)


def accuracy_drop(tables: Tables, which: Mask, aligned: bool, column: str = "drop_max_pp") -> list[Measurement]:
    """Drop of train accuracy between the networks of a pair in percentage points, mean over pairs, for each variant."""
    rows = one_path(tables["barriers.csv"], "train", aligned)
    return [_mean_of(_by_pair(of_variant, column), case) for case, of_variant in split_variants(rows, which)]


def share_lost(tables: Tables, which: Mask, aligned: bool, column: str = "drop_max_pp") -> list[Found]:
    """Drop of train accuracy as a share of what the pair's networks have over chance, mean over pairs, by variant."""
    curves = one_path(tables["curves.csv"], "train", aligned)
    rows = one_path(tables["barriers.csv"], "train", aligned)
    found: list[Found] = []
    for case, of_variant in split_variants(rows, which):
        over = _over_chance(curves[curves["variant"] == of_variant["variant"].iloc[0]])
        if isinstance(over, str):
            found.append(over)
            continue
        drops = _by_pair(of_variant, column)
        shares = drops / over.reindex(drops.index)
        told = f"{mean(drops.to_numpy()):.3g} pp of {mean(over.to_numpy()):.3g} over chance"
        found.append(_mean_of(shares, case, told))
    return found


def _over_chance(curves: pd.DataFrame) -> pd.Series | str:
    """What the two networks of each pair have over chance, in percentage points; a phrase if chance is not known."""
    level = chance(curves)
    if level is None:
        return "the number of classes is not known"
    ends = curves[curves["lambda"].isin([0, 1])]
    return 100 * (ends.groupby(PAIR)["accuracy"].mean() - level)


def drop_over_baseline(tables: Tables, which: Mask, baseline: Mask) -> list[Measurement]:
    """Largest drop of train accuracy on the unaligned path as a fraction of the baseline's, mean over pairs.

    One value a variant; of several baselines on its data set, the one with the smallest drop counts.
    """
    rows = one_path(tables["barriers.csv"], "train", aligned=False)
    measured = []
    for case, of_variant in split_variants(rows, which):
        levels = [
            independent(_by_pair(other, "drop_max_pp"))[0]
            for _, other in split_variants(same_dataset(rows, of_variant), baseline)
        ]
        if levels:
            values, unit = independent(_by_pair(of_variant, "drop_max_pp"))
            base = min(levels, key=mean)
            told = f"{mean(values):.3g} pp against {mean(base):.3g} pp"
            measured.append(ratio_of(values, base, case, told, unit))
    return measured


def drop_left_by_alignment(tables: Tables, which: Mask) -> list[Measurement]:
    """Largest drop of train accuracy on the aligned path as a fraction of that on the unaligned one, for each variant.

    Both are means over the same pairs.
    """
    aligned = one_path(tables["barriers.csv"], "train", aligned=True)
    unaligned = one_path(tables["barriers.csv"], "train", aligned=False)
    before = {variant: _by_pair(rows, "drop_max_pp") for variant, rows in unaligned.groupby("variant")}
    return [
        _left(_by_pair(rows, "drop_max_pp"), before[rows["variant"].iloc[0]], case)
        for case, rows in split_variants(aligned, which)
        if rows["variant"].iloc[0] in before
    ]


def _left(after: pd.Series, before: pd.Series, case: str) -> Measurement:
    """Ratio of the means of two values of each unit; not a number unless the second is above 0."""
    (left, unit), (whole, _) = independent(after), independent(before.reindex(after.index))
    told = f"{mean(left):.3g} pp against {mean(whole):.3g} pp"
    if not mean(whole) > 0:
        return Measurement(math.nan, len(left), None, case, told, None, unit)
    share = mean(left) / mean(whole)
    # To first order, the ratio's error is that of the mean of these.
    error = standard_error((left - share * whole) / mean(whole))
    return Measurement(share, len(left), None, case, told, error, unit)


def left_beside_standard(tables: Tables, which: Mask) -> list[Measurement]:
    """The fraction of the barrier that alignment leaves, less that of standard networks, for each variant."""
    standard = drop_left_by_alignment(tables, STANDARD)
    measured = []
    for each in drop_left_by_alignment(tables, which):
        for other in standard[:1]:
            errors = each.error, other.error
            error = None if errors[0] is None or errors[1] is None else math.hypot(errors[0], errors[1])
            told = f"{each.value:.3g} ({each.detail}); standard: {other.value:.3g} ({other.detail})"
            n = min(each.n, other.n)
            measured.append(Measurement(each.value - other.value, n, None, each.case, told, error, each.unit))
    return measured


def midpoint_gain(
    tables: Tables, which: Mask, baselines: tuple[Mask, ...], worst: Callable[[np.ndarray], np.ndarray]
) -> list[Found]:
    """By how much the train accuracy at the unaligned midpoint exceeds a baseline's, as a share of what that one's
    networks have over chance.

    One value a variant: of the gains over all baselines on its data set, that with the largest score ``worst``. Every
    kind of baseline is needed.
    """
    curves = one_path(tables["curves.csv"], "train", aligned=False)
    middle = curves[curves["lambda"] == 0.5]
    found: list[Found] = []
    for case, of_variant in split_variants(middle, which):
        near = same_dataset(middle, of_variant)
        kinds = [split_variants(near, baseline) for baseline in baselines]
        if not all(kinds):
            continue
        values, unit = independent(100 * _by_pair(of_variant, "accuracy"))
        gains, levels = [], {"here": mean(values)}
        for name, rows in (each for kind in kinds for each in kind):
            over = _over_chance(curves[curves["variant"] == rows["variant"].iloc[0]])
            if isinstance(over, str):
                return [over]
            base, _ = independent(100 * _by_pair(rows, "accuracy"))
            levels[name] = mean(base)
            scale = mean(over.to_numpy())
            gains.append(difference_of(values / scale, base / scale, case, unit=unit))
        # argmax takes an undefined gain for the worst.
        gain = gains[int(np.argmax(worst(np.array([each.value for each in gains]))))]
        told = "at the midpoint, " + ", ".join(f"{name}: {level:.3g} %" for name, level in levels.items())
        found.append(Measurement(gain.value, gain.n, gain.spread, case, told, gain.error, unit))
    return found


def _by_pair(rows: pd.DataFrame, column: str) -> pd.Series:
    return rows.set_index(PAIR)[column]


def _mean_of(values: pd.Series, case: str, detail: str = "") -> Measurement:
    units, unit = independent(values)
    return mean_of(units, case, detail, unit)


TRAINED = "ten of the ninety percentage points that fully trained networks of ten classes have over chance"
HIGH, LOW = 1 / 3, 1 / 9
"""Shares of what the networks have over chance whose loss counts as a high barrier and as a low one."""

ALIKE_CLAIM = partial(
    Claim,
    bound=between(-0.1, 0.1),
    owner="paper",
    origin="pilot",
    tables=("barriers.csv",),
    measure=partial(left_beside_standard, which=W_0),
)
DROP_CLAIM = partial(
    Claim,
    quantity="largest drop of train accuracy on the line between them, mean over pairs",
    tables=("barriers.csv",),
    also=("identifiability-4",),
)
FIG_4 = (
    DROP_CLAIM(
        id="identifiability-4a-barrier",
        statement="Unaligned, two standard networks or two with σ_F = 0 cannot be averaged",
        bound=at_least(10, "pp"),
        owner="paper",
        origin="pilot",
        reason="The paper calls these barriers high; ten percentage points are far more than networks of one kind "
        "differ by. A sketch on digits had been seen.",
        measure=partial(accuracy_drop, which=any_of(STANDARD, W_0), aligned=False),
    ),
    DROP_CLAIM(
        id="identifiability-4a-connected",
        statement="Unaligned, two networks with σ_F of 1 and more can be averaged",
        bound=at_most(3, "pp"),
        owner="paper",
        origin="pilot",
        reason="The paper says unaligned connectivity is achieved for large σ_F; connected is read as less than a "
        "third of a high barrier. A sketch on digits had been seen.",
        measure=partial(accuracy_drop, which=any_of(W_FROM_1, SYRE_FROM_1), aligned=False),
    ),
    DROP_CLAIM(
        id="identifiability-4c-aligned",
        statement="Aligned, two standard, two W-asymmetric (whatever σ_F) and two syre networks can be averaged",
        bound=at_most(3, "pp"),
        owner="paper",
        origin="pilot",
        reason="The paper says that all models, which are of these three kinds, have reasonably low barriers once "
        "aligned; the same few points as for the identifiable ones. A sketch on digits had been seen.",
        measure=partial(accuracy_drop, which=any_of(STANDARD, W, SYRE), aligned=True),
    ),
    DROP_CLAIM(
        id="identifiability-4c-sigma",
        statement="Aligned, two σ-MLPs can be averaged too",
        bound=at_most(3, "pp"),
        owner="ours",
        origin="pilot",
        reason="The paper does not say so: its Fig. 4 has no σ-MLPs, whose neurons it finds as little identifiable as "
        "random ones (Fig. 7). The same few points as for the other kinds.",
        measure=partial(accuracy_drop, which=sigma_mlp, aligned=True),
        why={
            "": "The fixed matrix C of the nonlinearity x * sigmoid(Cx) belongs to the numbering of the neurons: "
            "permuting them permutes C as well, and the two networks on the line then differ in it."
        },
    ),
    ALIKE_CLAIM(
        id="identifiability-4c-alike",
        statement="Alignment helps networks with σ_F = 0 as much as standard ones",
        quantity="fraction of the unaligned barrier that alignment leaves, less that of standard networks",
        reason="The paper (Section 6, Q1): alignment reduces the barrier of W-asymmetric architectures with σ_F = 0 "
        "similarly well; similar is read as within a tenth of the barrier.",
        also=("identifiability-4",),
    ),
)
ALIGNED_CLAIM = partial(
    Claim,
    quantity="largest drop of train accuracy as a fraction of the unaligned one",
    owner="paper",
    origin="ours",
    tables=("barriers.csv",),
    also=("identifiability-4b",),
)
FIG_4_RESNETS = (
    Claim(
        id="identifiability-4b-barrier",
        statement="Unaligned, two standard ResNets or two with σ_F = 0 cannot be averaged",
        quantity="largest drop of train accuracy on the line between them as a share of what they have over chance",
        bound=at_least(HIGH),
        owner="paper",
        origin="pilot",
        reason="The paper calls these barriers high; a third is three times what counts as low in Fig. 4d. For large "
        "σ_F the paper claims connectivity only to some degree, so no bound is set there.",
        tables=("barriers.csv", "curves.csv"),
        measure=partial(share_lost, which=any_of(STANDARD, W_0), aligned=False),
    ),
    Claim(
        id="identifiability-4b-lowered",
        statement=(
            "Unaligned, W-asymmetric ResNets with σ_F of 2 and more have a clearly lower barrier than standard ones"
        ),
        quantity="largest drop of train accuracy as a fraction of theirs",
        bound=at_most(0.5),
        owner="paper",
        origin="ours",
        reason="The paper says unaligned connectivity is achieved to some degree; without a size stated, that is read "
        "as at least half of the standard barrier being gone.",
        tables=("barriers.csv",),
        measure=partial(drop_over_baseline, which=W_FROM_2, baseline=STANDARD),
    ),
    Claim(
        id="identifiability-4d-aligned",
        statement="Aligned, two ResNets can be averaged: standard ones, with σ_F of 0 or of 2 and more, and syre ones",
        quantity="largest drop of train accuracy on the line between them as a share of what they have over chance",
        bound=at_most(LOW),
        owner="paper",
        origin="derived",
        reason=f"The paper calls the aligned barriers reasonably low: {TRAINED}.",
        tables=("barriers.csv", "curves.csv"),
        measure=partial(share_lost, which=any_of(STANDARD, W_0, W_FROM_2, SYRE), aligned=True),
        also=("identifiability-4b",),
        why={"": "Of under-trained networks (the figure says how far they are), a few points are a large part."},
    ),
    ALIKE_CLAIM(
        id="identifiability-4d-alike",
        statement="Alignment helps ResNets with σ_F = 0 as much as standard ones",
        quantity="fraction of the unaligned barrier that alignment leaves, less that of standard ResNets",
        reason="As for MLPs in Fig. 4c.",
        also=("identifiability-4b",),
    ),
    ALIGNED_CLAIM(
        id="identifiability-4d-lowered",
        statement="Alignment lowers the barrier of standard ResNets and of those with σ_F = 0",
        bound=at_most(0.5),
        reason="The paper says alignment reduces both barriers similarly well, from high to reasonably low; half is "
        "the least that high and low differ by.",
        measure=partial(drop_left_by_alignment, which=any_of(STANDARD, W_0)),
    ),
    ALIGNED_CLAIM(
        id="identifiability-4d-syre",
        statement="Alignment lowers the barrier of syre ResNets, whose symmetries are broken",
        bound=below(1),
        reason="The paper finds, to its surprise, that alignment reduces this barrier; no size is stated, so only the "
        "order is asked for.",
        measure=partial(drop_left_by_alignment, which=SYRE),
    ),
)
MIDPOINT_CLAIM = partial(
    Claim,
    quantity="midpoint drop of train accuracy as a share of what the networks have over chance",
    bound=at_least(HIGH),
    owner="paper",
    origin="pilot",
    tables=("barriers.csv", "curves.csv"),
)
FIG_20 = (
    MIDPOINT_CLAIM(
        id="identifiability-20-barrier",
        statement="Unaligned, standard vision transformers and those with σ_F = 0 have a pronounced barrier",
        reason="The paper calls the barrier pronounced and finds masks alone to match it; a third, as in Fig. 4b.",
        measure=partial(share_lost, which=any_of(STANDARD, W_0), aligned=False, column="drop_mid_pp"),
    ),
    Claim(
        id="identifiability-20-alike",
        statement="Unaligned, vision transformers with σ_F = 0 are like standard ones",
        quantity="difference of the train accuracies at the midpoint as a share of what standard networks have over "
        "chance",
        bound=between(-LOW / 2, LOW / 2),
        owner="paper",
        origin="derived",
        reason=f"The paper says that they closely match; close is read as half of what counts as low: {TRAINED}.",
        tables=("curves.csv",),
        measure=partial(midpoint_gain, which=W_0, baselines=(STANDARD,), worst=np.abs),
    ),
    Claim(
        id="identifiability-20-higher",
        statement="Unaligned, vision transformers with σ_F = 1 are better at the midpoint than standard ones and "
        "those with σ_F = 0",
        quantity="gain in train accuracy over the higher of the two as a share of what that one's networks have over "
        "chance",
        bound=at_least(LOW),
        owner="paper",
        origin="derived",
        reason=f"The paper says substantially higher midpoint accuracy: at least {TRAINED}.",
        tables=("curves.csv",),
        measure=partial(midpoint_gain, which=W_1, baselines=(STANDARD, W_0), worst=np.negative),
        why={"": "In short training, transformers with σ_F = 1 reach less themselves; so does the middle between two."},
    ),
    MIDPOINT_CLAIM(
        id="identifiability-20-remaining",
        statement="Unaligned, vision transformers with σ_F = 1 still have a barrier",
        reason="The paper says that the curve remains well below the endpoints; a third, as for the other barriers.",
        measure=partial(share_lost, which=W_1, aligned=False, column="drop_mid_pp"),
    ),
)


CLAIMS = (*FIG_4, *FIG_4_RESNETS, *FIG_20)
