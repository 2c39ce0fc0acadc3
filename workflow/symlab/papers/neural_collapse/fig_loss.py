"""Losses over the optimum of the unconstrained features model against depth, and where scatter stays."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neural_collapse.finals import (
    COURSE,
    DEPTHS,
    SAMPLES,
    add_excess,
    ended,
    settings_of,
    slope_with_depth,
)
from symlab.plotting.style import PAGE, Style, legend, line_entry, palette, panels, set_ticks
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Measurement, Tables, at_least, at_most, below, bootstrap_error

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = {"excess": "all, over the optimum", "hidden": "penalty of blocks"}
SCATTER = {"NC1_row": "NC1 that the last layer sees", "NC1_null": "NC1 that it does not see"}


def over_the_optimum(tables: Tables) -> dict[str, pd.DataFrame]:
    """Networks trained by cross-entropy by the name of their setting, with the ``excess`` of their loss."""
    found = ended(tables)
    named = settings_of(found[found["loss"] == "cross_entropy"])
    return {name: add_excess(rows) for name, rows in named}


def losses_against_depth(tables: Tables, style: Style) -> Figure:
    """Above the excess loss and what of it penalises blocks, below both parts of NC1; a column a setting."""
    settings = over_the_optimum(tables)
    if not settings:
        raise UserError(f"it needs networks of {DEPTHS} depths trained by cross-entropy (neural_collapse.runs).")
    depths = sorted({L for rows in settings.values() for L in rows["L"].unique()})
    figure, axes = panels(2, len(settings), max(PAGE, 1.5 * len(settings)), 3.6, sharey="row")
    for place, (name, rows) in enumerate(settings.items()):
        for axis, quantities in zip(axes[:, place], (PARTS, SCATTER), strict=True):
            for color, quantity in zip(palette(style), quantities, strict=False):
                shown = rows[rows[quantity] > 0]
                axis.plot(shown["L"], shown[quantity], color=color, linestyle="", marker="o", markersize=2.5)
                means = shown.groupby("L")[quantity].mean()
                axis.plot(means.index, means, color=color, linewidth=0.8, marker="")
            axis.set(xscale="log", yscale="log")
            set_ticks(axis.xaxis, depths)
        axes[0, place].set_title(name.replace(" on ", "\n"))
        axes[1, place].set_xlabel("depth L")
    axes[0, 0].set_ylabel("loss")
    axes[1, 0].set_ylabel("NC1")
    both = [*zip(palette(style), PARTS.values(), strict=False), *zip(palette(style), SCATTER.values(), strict=False)]
    rowed = [(f"{'above' if text in PARTS.values() else 'below'}: {text}", color) for color, text in both]
    legend(figure, [line_entry(text, color=color, marker="o") for text, color in rowed], "points: networks")
    return figure


def _see(tables: Tables) -> str:
    told = []
    for name, rows in over_the_optimum(tables).items():
        means = rows.groupby("L")["excess"].mean()
        told.append(f"{means.iloc[0]:.4f} to {means.iloc[-1]:.4f} for {name}")
    return f"With depth the excess over the optimum goes from {'; '.join(told)}."


def largest_rise(tables: Tables) -> list[Found]:
    """Largest rise of the best seed's total loss from a depth to the next, over the loss; a case a setting."""
    cases: list[Found] = []
    for name, rows in over_the_optimum(tables).items():
        best = rows.groupby("L")["total"].min()
        rises = best.diff().dropna() / best.shift().dropna()
        seeds = int(rows.groupby("L")["seed"].nunique().min())
        told = f"to L = {rises.idxmax()}"
        error = bootstrap_error(_largest_rise_of, *(of["total"].to_numpy() for _, of in rows.groupby("L")))
        cases.append(Measurement(float(rises.max()), seeds, None, name, told, error, "seeds", rows["open"].iloc[0]))
    return cases or [f"needs networks of {DEPTHS} depths"]


def _largest_rise_of(*losses: np.ndarray) -> float:
    best = np.array([of_depth.min() for of_depth in losses])
    return float(np.max(np.diff(best) / best[:-1]))


def scatter_slopes(tables: Tables, part: str, by: tuple[str, ...]) -> list[Found]:
    """Slope of log10 of a part of NC1 on log10 L of networks with two layers a block, a case a setting."""
    found = [
        slope_with_depth(rows, part, name)
        for name, rows in over_the_optimum(tables).items()
        if rows["by_depth"].iloc[0] in by
    ]
    return [case for case in found if case is not None] or [f"needs rn2 with by_depth: {' or '.join(by)}"]


FIGURES = (
    Drawing(
        "collapse-loss",
        "Loss over the optimum, and the scatter that is left",
        "Above: how far the loss is over the optimum of the unconstrained features model with the same last penalty, "
        "and the penalty of the blocks. Below: NC1 split into scatter that the last layer sees (in its row space) and "
        "scatter that it does not. Study `{study}`, every network a point.",
        losses_against_depth,
        seen=_see,
        differs="Not in the paper; the penalty's cost is what its proofs bound.",
    ),
)


def _scatter(name: str, **texts: object) -> Claim:
    return Claim(
        id=f"collapse-loss-{name}",
        owner="derived",
        origin="derived",
        reason="Appendix C, corrected: scatter in the row space costs loss whatever λ is, scatter beyond it only in "
        "proportion to λ.",
        tables=(COURSE, SAMPLES),
        **texts,  # type: ignore[arg-type]
    )


CLAIMS = (
    Claim(
        id="collapse-loss-monotone",
        statement="Deeper networks reach a lower loss",
        quantity="largest rise of the best seed's loss from a depth to the next, over the loss",
        bound=at_most(0),
        owner="derived",
        origin="derived",
        reason="Proof of Theorem 4.3: a block of zeros is the identity, so the optimum cannot rise with depth; trained "
        "networks can.",
        why={"": "Training did not reach the optimum at that depth: a deeper network could copy the shallower one."},
        tables=(COURSE, SAMPLES),
        measure=largest_rise,
    ),
    _scatter(
        "seen",
        statement="Where hidden penalties vanish, scatter that the last layer sees goes",
        quantity="slope on log₁₀ L of NC1 in the last layer's row space, over all networks",
        bound=below(0),
        measure=partial(scatter_slopes, part="NC1_row", by=("uniform", "split")),
    ),
    _scatter(
        "unseen-kept",
        statement="Where the last layer's penalty vanishes too, scatter that it does not see stays",
        quantity="slope on log₁₀ L of NC1 beyond the last layer's row space, over all networks",
        bound=at_least(0),
        measure=partial(scatter_slopes, part="NC1_null", by=("uniform",)),
    ),
    _scatter(
        "unseen-goes",
        statement="Where the last layer's penalty stays, scatter that it does not see goes too",
        quantity="slope on log₁₀ L of NC1 beyond the last layer's row space, over all networks",
        bound=below(0),
        measure=partial(scatter_slopes, part="NC1_null", by=("split",)),
    ),
)
