"""Section 4.5: identifiability and accuracy against the scale of the fixed weights."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Claim, Tables, Verdict, mean
from symlab.papers.neuron_identifiability.architectures import W
from symlab.papers.neuron_identifiability.objectives import SIGMA_F
from symlab.plotting.rows import (
    Mask,
    every_row,
    label_rows,
    mean_std,
    need,
    same_dataset,
    sigma_sweep,
    split_variants,
    where,
)
from symlab.plotting.style import (
    COLUMN,
    OVER_PAIRS,
    Look,
    Style,
    handles,
    legend,
    line_entry,
    mean_line,
    name_axes,
    palette,
    panels,
    permutation_looks,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def against_sigma_F(tables: Tables, style: Style) -> Figure:
    """Figure sec4.5: identity / optimal objective above, train and validation accuracy below, a column a data set.

    W-asymmetric networks after the last epoch; dotted lines are the standard networks' mean accuracy.
    """
    table = need(tables, "trade_off.csv")
    sweep = sigma_sweep(table)
    if sweep["sigma_F"].nunique() < 2:
        raise UserError(
            f"{where(table)}.variants needs a W-asymmetric variant with at least two values of sigma_F; "
            "give it sweep: {scheme.sigma_F: [0, 1]}."
        )
    if table["train_accuracy"].isna().all():
        raise UserError(f"{where(table)}.dataset has no classes, so there is no accuracy to trade; use another.")
    rows = label_rows(table, sweep)
    plain = table[(table["scheme"] == "standard") & (table["activation"] != "sigma")]
    colors = palette(style)
    accuracies = {
        "train accuracy": ("train_accuracy", Look(colors[2], "-", "o")),
        "validation accuracy": ("val_accuracy", Look(colors[3], "--", "s")),
    }
    datasets = list(rows["dataset"].unique())
    figure, axes = panels(2, len(datasets), max(1.35 * COLUMN, 2.4 * len(datasets)), 4.4, sharey="row")
    ratio_look = permutation_looks(style)["identity"]
    for column, dataset in enumerate(datasets):
        part, reference = rows[rows["dataset"] == dataset], plain[plain["dataset"] == dataset]
        axes[0, column].axhline(1, color="0.85", linewidth=0.7, zorder=0)
        mean_line(axes[0, column], mean_std(part, "sigma_F", "identity_ratio"), ratio_look, "identity", band=False)
        for name, (accuracy, look) in accuracies.items():
            percent = part.assign(percent=100 * part[accuracy])
            mean_line(axes[1, column], mean_std(percent, "sigma_F", "percent"), look, name, band=False)
            if len(reference):
                level = 100 * reference[accuracy].mean()
                axes[1, column].axhline(level, color=look.color, linestyle=":", label=f"standard, {name}")
        if len(datasets) > 1:
            axes[0, column].set_title(dataset)
    axes[0, 0].set_ylim(min(-0.05, axes[0, 0].get_ylim()[0]), 1.08)
    name_axes(axes, SIGMA_F, "accuracy (%)")
    for axis in axes[0]:
        axis.set_ylabel("identity / optimal\nobjective")
    entries = handles({name: look for name, (_, look) in accuracies.items()})
    if len(plain):
        entries.append(line_entry("standard network", linestyle=":"))
    legend(figure, entries, OVER_PAIRS)
    return figure


FIGURES = (
    Drawing(
        "identifiability-sec4.5",
        "Identifiability against accuracy (Sec. 4.5)",
        """\
Identifiability against accuracy in W-asymmetric networks after the last epoch, study `{study}` (Section 4.5). Above,
the matching objective of the identity over that of the optimal permutation, averaged over layers, against the scale
σ_F of the fixed weights: 1 says that neurons have the same role in every run, 0 that they do not. Below, train and
validation accuracy (percent) of the same networks; dotted lines are those of the study's standard networks, if it has
any. Train accuracy is the mean over the last epoch, while the weights still change, so in short runs it may lie below
validation accuracy. Error bars are one standard deviation over pairs.

The ratio should rise towards 1 as σ_F grows. If identifiability has a price, accuracy falls as it rises; what a
reader looks for is a σ_F at which the ratio is close to 1 and accuracy still that of standard networks.
""",
        against_sigma_F,
    ),
)


def accuracy_lost(tables: Tables, which: Mask, errors: float, ratio_margin: float) -> list[Verdict]:
    """By how many percentage points validation accuracy at the largest sigma_F is below the best of the sweep.

    One value a data set with three values of sigma_F or more and two pairs at each. It holds if the loss is ``errors``
    standard errors or more, while the ratio of identity to optimal objective is at most ``ratio_margin`` below that of
    the most accurate networks. The standard error comes from the deviations between pairs, pooled over the sweep.
    """
    table = tables["trade_off.csv"]
    found = []
    for _, first in split_variants(table[which(table)].drop_duplicates("dataset"), every_row):
        rows = same_dataset(table[which(table)], first)
        by_sigma = rows.groupby("sigma_F")
        accuracy = 100 * by_sigma["val_accuracy"].agg(_mean)
        ratio = by_sigma["identity_ratio"].agg(_mean)
        n = by_sigma.size()
        if len(n) >= 3 and n.min() >= 2:
            # An accuracy that is not a number counts as the best: the loss is then undefined.
            best = accuracy.isna().idxmax() if accuracy.isna().any() else accuracy.idxmax()
            last = accuracy.index.max()
            residuals = 100 * rows["val_accuracy"] - rows["sigma_F"].map(accuracy)
            variance = np.sum(residuals**2) / (len(rows) - len(n))
            error = float(np.sqrt(variance * (1 / n[best] + 1 / n[last])))
            lost = float(accuracy[best] - accuracy[last])
            holds = bool(lost > 0 and lost >= errors * error and ratio[last] >= ratio[best] - ratio_margin)
            told = (
                f"sigma_F = {best:g}: {accuracy[best]:.4g} %, ratio {ratio[best]:.3g}; "
                f"sigma_F = {last:g}: {accuracy[last]:.4g} %, ratio {ratio[last]:.3g}; standard error {error:.2g} pp"
            )
            case = str(first["dataset"].iloc[0]) if table["dataset"].nunique() > 1 else ""
            found.append(Verdict(lost, holds, int(n.min()), None, case, told))
    return found or [Verdict(math.nan, None, 0, detail="needs three values of sigma_F and two pairs at each")]


def _mean(values: pd.Series) -> float:
    return mean(values.to_numpy())


CLAIMS = (
    Claim(
        "identifiability-sec4.5-trade-off",
        "identifiability-sec4.5",
        "Strong symmetry breaking comes with reduced feature learning: by how many percentage points validation "
        "accuracy at the largest sigma_F is below the best of the sweep, at no lower ratio of identity to optimal "
        "objective",
        "at least 3 standard errors, ratio at most 0.05 lower",
        "The paper posits the loss without a size. It is to be more than chance: three standard errors, because the "
        "best is picked out of several. A ratio 0.05 lower is within the noise of the objectives in Fig. 3.",
        ("trade_off.csv",),
        partial(accuracy_lost, which=W, errors=3, ratio_margin=0.05),
    ),
)
