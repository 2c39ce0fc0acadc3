"""Products under Adam beside SGD: how sparse they are at which error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.mirror_symmetry.sparse_runs import SHOWN, at_end, of_model
from symlab.papers.mirror_symmetry.sparsity import PRODUCT
from symlab.plotting.style import PAGE, Style, legend, line_entry, palette, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Tables
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ADAM = "mirror_adam.csv"
SGD = "SGD"


def by_optimizer(tables: Tables) -> pd.DataFrame:
    """Final rows of Adam and of SGD at the same size and noise, with ``optimizer``."""
    adam = need(tables, ADAM)
    one = adam.iloc[0]
    sgd = at_end(of_model(tables, PRODUCT))
    sgd = sgd[(sgd["d"] == one["d"]) & np.isclose(sgd["sigma"], one["sigma"]) & (sgd["batch"] == 1)]
    if sgd.empty:
        raise UserError("it needs mirror_symmetry.sparsity at the d and sigma of mirror_symmetry.adam.")
    named = adam.assign(optimizer=[f"Adam({beta:g}, .999)" for beta in adam["beta1"]])
    return pd.concat([sgd[sgd["grid"] == sgd["grid"].min()].assign(optimizer=SGD), named], ignore_index=True)


def sparsity_against_error(tables: Tables, style: Style) -> Figure:
    """Left, sparsity against the error of the coefficients, a point a rate; right, against the rate."""
    rows = by_optimizer(tables)
    figure, axes = panels(1, 2, PAGE, 2.5, sharex=False)
    names = sorted(rows["optimizer"].unique(), key=lambda name: (name != SGD, name))
    colors = dict(zip(names, palette(style), strict=False))
    for name, of in rows.groupby("optimizer"):
        mean = of.groupby("lr")[["excess", SHOWN]].mean()
        axes[0, 0].plot(mean["excess"], mean[SHOWN], color=colors[name], marker="o", linewidth=0.7)
        axes[0, 1].plot(mean.index, mean[SHOWN], color=colors[name], marker="o", linewidth=0.7)
    axes[0, 0].axvline(1 / rows["d"].iloc[0], color="0.3", linestyle="--", linewidth=0.8)
    axes[0, 0].set(xscale="log", xlabel=r"error of the coefficients $|\theta - 1/d|^2$", ylabel="share below 1e-6")
    axes[0, 1].set(xscale="log", xlabel=r"rate $\lambda$")
    entries = [line_entry(name, color=colors[name], marker="o") for name in names]
    legend(figure, [*entries, line_entry("all 0", color="0.3", linestyle="--")], "")
    return figure


def sparsity_at(rows: pd.DataFrame, excess: float) -> float:
    """Mean sparsity where the mean error rises through a value with the rate, past its least; NaN if it does not."""
    mean = rows.groupby("lr")[["excess", SHOWN]].mean()
    mean = mean.loc[mean["excess"].idxmin() :]
    errors = np.maximum.accumulate(mean["excess"].to_numpy())
    return float(np.interp(excess, errors, mean[SHOWN].to_numpy(), left=np.nan, right=np.nan))


def _see(tables: Tables) -> str:
    rows = by_optimizer(tables)
    least = rows.groupby(["optimizer", "lr"])["excess"].mean().groupby("optimizer").min()
    matched = least.max()
    told = [f"{sparsity_at(of, matched):.2g} for {name}" for name, of in rows.groupby("optimizer")]
    return (
        f"Least errors are {', '.join(f'{value:.2g} ({name})' for name, value in least.items())}, that of all zeros "
        f"{1 / rows['d'].iloc[0]:.2g}; at the largest of them sparsity is {', '.join(told)}."
    )


FIGURES = (
    Drawing(
        "mirror-adam",
        "Products under Adam",
        "The regression of products under Adam with and without momentum, and under SGD with the same noise (σ as "
        "study `{study}` has it): the share of products below 1e-6 against the error of the coefficients (left, "
        "dashed: that of all zeros) and against the rate (right). Each point is a rate, mean over seeds.",
        sparsity_against_error,
        seen=_see,
        differs="The paper says that the same happens under Adam and shows no experiment.",
    ),
)
CLAIMS: tuple[Claim, ...] = ()
