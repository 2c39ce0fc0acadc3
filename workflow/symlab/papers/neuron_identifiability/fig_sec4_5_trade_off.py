"""Section 4.5: identifiability and accuracy against the scale of the fixed weights."""

import math
from functools import partial

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.looks import draw_over_sigma, permutation_looks, tick_sigma
from symlab.papers.neuron_identifiability.masks import STANDARD, Mask, W
from symlab.papers.neuron_identifiability.objectives import BROKEN_AXIS, SIGMA_F, WAY, sweep_rows
from symlab.plotting import style as plot
from symlab.plotting.units import over_pairs
from symlab.study.card import Drawing
from symlab.study.claim import Case, Claim, Found, Measurement, Tables, above
from symlab.study.facets import Panel, draw_grid, labelled
from symlab.study.statistics import CONFIDENCE
from symlab.study.tables import need, where

ACCURACIES = {
    "train accuracy": ("train_accuracy", plot.Look((0.55, 0.55, 0.55), "-", "o")),
    "validation accuracy": ("val_accuracy", plot.Look((0.1, 0.1, 0.1), "-", "D")),
}


def against_sigma_F(tables: Tables, style: plot.Style) -> plot.Figure:
    table = need(tables, "trade_off.csv")
    rows = sweep_rows(table)
    if table["train_accuracy"].isna().all():
        raise UserError(f"{where(table)}.dataset has no classes, so there is no accuracy to trade; use another.")
    looks = {"identity": permutation_looks(style)["identity"], **{name: look for name, (_, look) in ACCURACIES.items()}}
    values = {"identity": rows["identity_ratio"], **{name: 100 * rows[of] for name, (of, _) in ACCURACIES.items()}}
    rows = pd.concat(rows.assign(value=each, label=name) for name, each in values.items())
    datasets = list(rows["dataset"].unique())

    def panel(dataset: str, identity: bool) -> Panel:
        part = rows[(rows["dataset"] == dataset) & ((rows["label"] == "identity") == identity)]
        plain = table[STANDARD(table) & (table["dataset"] == dataset)]

        def finish(axis: plot.Axes) -> None:
            tick_sigma(axis, part["sigma_F"])
            if identity:
                axis.axhline(1, color="0.85", linewidth=0.7, zorder=0)
            for accuracy, look in () if identity or plain.empty else ACCURACIES.values():
                axis.axhline(100 * plain[accuracy].mean(), color=look.color, linestyle=":")

        title = dataset if identity and len(datasets) > 1 else ""
        label = "way from random to\noptimal (objective)" if identity else "accuracy (%)"
        axes = labelled(SIGMA_F, label, title=title)
        return Panel(part, "sigma_F", "value", axes, draw_over_sigma, more=finish)

    return draw_grid(
        [[panel(dataset, identity) for dataset in datasets] for identity in (True, False)], looks,
        width=max(1.35 * plot.COLUMN, 2.4 * len(datasets)), height=1.75,
        entries=[plot.line_entry("standard network", linestyle=":")], note=over_pairs(rows),
    )  # fmt: skip


FIGURES = {
    "identifiability-sec4.5": Drawing(
        "Identifiability against accuracy (Sec. 4.5)",
        "W-asymmetric networks after the last epoch against the scale σ_F of their fixed weights, study `{study}` "
        "(Section 4.5). Above, how far the identity comes from random permutations to the optimal one by matching "
        "objective, averaged over layers: 1 says that neurons have the same role in every run, 0 that they do not. "
        "Below, train and validation accuracy of the same networks; dotted lines are those of standard networks. "
        "Train accuracy is the mean over the last epoch, while the weights still change, so in short runs it may lie "
        "below validation accuracy.",
        against_sigma_F,
        seen="At the largest σ_F validation accuracy is {trade-off} points below the best of the sweep.",
        differs="The paper has no such figure: it posits the trade-off and proves it for random features. "
        f"{BROKEN_AXIS}",
    ),
}


def accuracy_lost(tables: Tables, which: Mask, margin: float) -> list[Found]:
    """By how many percentage points validation accuracy at the largest sigma_F is below the best of the others.

    One value a data set with three values of sigma_F or more and two pairs at each; its sign is turned where the
    identity comes less far there than in the best networks, by more than ``margin``. The standard error comes from the
    deviations between pairs, pooled over the sweep; the interval is that of all differences from the largest sigma_F at
    once (Bonferroni), because the best is picked out of them.
    """
    from scipy.special import stdtrit

    table = tables["trade_off.csv"]
    chosen = table[which(table)]
    found: list[Found] = []
    for dataset, rows in chosen.groupby("dataset", sort=False):
        by_sigma = rows.groupby("sigma_F")
        accuracy, way = 100 * by_sigma["val_accuracy"].mean(skipna=False), by_sigma["identity_ratio"].mean(skipna=False)
        n = by_sigma.size()
        if len(n) < 3 or n.min() < 2:
            continue
        last, degrees = accuracy.index.max(), len(rows) - len(n)
        others = accuracy.drop(last)
        # An accuracy that is not a number counts as the best: the loss is then undefined.
        best = others.isna().idxmax() if others.isna().any() else others.idxmax()
        variance = np.sum((100 * rows["val_accuracy"] - rows["sigma_F"].map(accuracy)) ** 2) / degrees
        error = float(np.sqrt(variance * (1 / n[best] + 1 / n[last])))
        # What is more identifiable is more accurate too: nothing was lost to identifiability.
        sign = math.copysign(1, way[last] - way[best] + margin) if math.isfinite(way[last] - way[best]) else math.nan
        lost = sign * float(accuracy[best] - accuracy[last])
        reach = error * float(stdtrit(degrees, 1 - (1 - CONFIDENCE) / 2 / (len(n) - 1)))
        told = "; ".join(f"σ_F = {at_:g}: {accuracy[at_]:.4g} %, way {way[at_]:.3g}" for at_ in (best, last))
        case = Case(str(dataset) if chosen["dataset"].nunique() > 1 else "", dataset=str(dataset))
        ends = None if math.isnan(lost) else (lost - reach, lost + reach)
        found.append(Measurement(lost, int(n.min()), None, case, told, error, ends=ends))
    return found or ["needs three values of sigma_F and two pairs at each"]


CLAIMS = {
    "identifiability-sec4.5-trade-off": Claim(
        statement="The most strongly identifiable networks are less accurate on validation data than the best of the "
        "sweep over σ_F",
        quantity="by how many percentage points validation accuracy at the largest σ_F is below the best of the sweep "
        f"(below 0 if it is less identifiable there: {WAY})",
        bound=above(0, "pp"),
        owner="ours",
        origin="ours",
        reason="The paper posits that strong symmetry breaking comes with reduced feature learning, which it bounds in "
        "norm; accuracy is what is measured here for it. The interval makes up for the best being picked out of "
        "several; 0.05 of the way is within the noise of the objectives in Fig. 3.",
        tables=("trade_off.csv",),
        measure=partial(accuracy_lost, which=W, margin=0.05),
    ),
}
