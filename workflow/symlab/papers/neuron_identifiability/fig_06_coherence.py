"""Fig. 6: the barrier of networks with masks alone against the coherence of their data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.card import Drawing
from symlab.papers.claim import Measurement, Tables, at_most, below, fraction_of, mean, stated
from symlab.plotting.rows import mean_std, need
from symlab.plotting.style import (
    COLUMN,
    OVER_PAIRS,
    Look,
    Style,
    handles,
    legend,
    mean_line,
    name_axes,
    ordered_colors,
    panels,
    set_ticks,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NU = r"coherence $\nu(U)$"
NU_TICKS = (0.1, 0.2, 0.5, 1.0)


def barrier_against_nu(tables: Tables, style: Style) -> Figure:
    """Fig. 6: unaligned midpoint barrier of the test loss against nu = 1/t, a line an embedding."""
    barriers = need(tables, "coherence_barriers.csv")
    if barriers["t"].nunique() < 2:
        raise UserError("it needs students at two values of t or more; list them in the study's coherence.t.")
    rows = barriers.assign(nu=1 / barriers["t"])
    embeddings = list(rows["embedding"].unique())
    looks = {
        name: Look(color, "--" if index % 2 else "-", "os"[index % 2])
        for index, (name, color) in enumerate(zip(embeddings, ordered_colors(len(embeddings)), strict=True))
    }
    figure, axes = panels(1, 1, COLUMN, 2.5)
    axis = axes[0, 0]
    for embedding, look in looks.items():
        chosen = rows[rows["embedding"] == embedding]
        mean_line(axis, mean_std(chosen, "nu", "barrier_mid"), look, embedding.replace("_", " "), band=False)
    axis.set_xscale("log")
    set_ticks(axis.xaxis, NU_TICKS)
    name_axes(axes, NU, "midpoint barrier (test MSE)")
    legend(figure, handles({name.replace("_", " "): look for name, look in looks.items()}), OVER_PAIRS)
    return figure


FIGURES = (
    Drawing(
        "identifiability-6",
        "Midpoint barrier against coherence",
        """\
Barrier of the test loss (mean squared error) at the midpoint between two networks, unaligned, against the coherence ν
= 1/t of the input subspace, study `{study}`. The two lines are two ways of placing the same two-dimensional data in
the input space. Points are means, error bars one standard deviation over all pairs of all masks.

The networks have random masks but no fixed weights. Masks should suffice where the data lie along the axes (ν = 1),
and fail where each direction is spread over many inputs.
""",
        barrier_against_nu,
    ),
)


def coherent_over_incoherent(tables: Tables) -> list[Measurement]:
    """Mean midpoint test-loss barrier at nu = 1 as a fraction of that at nu = 0.1, for each embedding that has both."""
    measured = []
    for case, by_t in _embeddings(tables["coherence_barriers.csv"]):
        if {1, 10} <= by_t.keys():
            high, low = by_t[1], by_t[10]
            told = f"nu = 1: {mean(high):.3g}, nu = 0.1: {mean(low):.3g}"
            measured.append(fraction_of(high, mean(low), case, told))
    return measured


def barrier_against_coherence(tables: Tables) -> list[Measurement]:
    """Spearman correlation of the mean midpoint test-loss barrier with nu = 1/t; needs three or more levels of nu."""
    measured = []
    for case, by_t in _embeddings(tables["coherence_barriers.csv"]):
        if len(by_t) >= 3:
            barriers = pd.Series({1 / t: mean(values) for t, values in by_t.items()})
            # Ranking would pass over a level without a barrier; the claim is about all of them.
            complete = not barriers.isna().any()
            rank_of_nu = pd.Series(barriers.index, index=barriers.index).rank()
            rho = float(barriers.rank().corr(rank_of_nu)) if complete else float("nan")
            n = min(len(values) for values in by_t.values())
            measured.append(Measurement(rho, n, None, case, f"{len(by_t)} levels of nu"))
    return measured


def _embeddings(barriers: pd.DataFrame) -> list[tuple[str, dict[int, np.ndarray]]]:
    """(embedding, midpoint barriers of the pairs at each t)."""
    return [
        (
            str(embedding).replace("_", " "),
            {int(t): level["barrier_mid"].to_numpy() for t, level in group.groupby("t")},
        )
        for embedding, group in barriers.groupby("embedding", sort=False)
    ]


CLAIMS = (
    stated(
        "identifiability-6-ends",
        "identifiability-6",
        "With F = 0, coherent data make networks connected: midpoint test-loss "
        "barrier at nu = 1 as a fraction of that at nu = 0.1",
        below(0.2),
        "The paper calls the barrier high at low and low at high coherence; a factor of five tells high from low.",
        "coherence_barriers.csv",
        coherent_over_incoherent,
    ),
    stated(
        "identifiability-6-trend",
        "identifiability-6",
        "With F = 0, the mean midpoint barrier falls as nu rises: Spearman correlation over the levels of nu",
        at_most(-0.9),
        "The paper says connectivity depends on coherence in this direction, for both "
        "embeddings; -0.9 lets neighbouring levels change places.",
        "coherence_barriers.csv",
        barrier_against_coherence,
    ),
)
