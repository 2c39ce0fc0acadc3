"""Fig. 6: the barrier of networks with masks alone against the coherence of their data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.plotting.style import COLUMN, PAGE, Style, legend, line_entry, mark_entry, name_axes, panels, set_ticks
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Measurement, Tables, at_most, below, bootstrap_error, ratio_of
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NU_TICKS = (0.1, 0.2, 0.5, 1.0)
COLOR = "#0173b2"


def barrier_against_nu(tables: Tables, style: Style) -> Figure:
    """Fig. 6: unaligned midpoint barrier of the test loss against nu = 1/t, a panel an embedding, a point a mask."""
    barriers = need(tables, "coherence_barriers.csv")
    if barriers["t"].nunique() < 2:
        raise UserError("it needs students at two values of t or more; list them in the study's coherence.t.")
    embeddings = _embeddings(barriers)
    figure, axes = panels(1, len(embeddings), PAGE if len(embeddings) > 1 else COLUMN, 2.6)
    for axis, (name, of_masks) in zip(axes[0], embeddings, strict=True):
        nu = 1 / of_masks.columns.to_numpy(dtype=float)
        axis.plot(nu, of_masks.mean(), color=COLOR, label="mean over masks")
        for _, of_mask in of_masks.iterrows():
            axis.plot(nu, of_mask, color=COLOR, linestyle="", marker="o", alpha=0.5, markeredgewidth=0, label="mask")
        axis.set_title(name)
        axis.set_xscale("log")
    set_ticks(axes[0, 0].xaxis, NU_TICKS)
    axes[0, 0].set_ylim(bottom=0)
    name_axes(axes, r"coherence $\nu(U)$, logarithmic", "midpoint barrier (test MSE)")
    entries = [mark_entry("one mask", "o", color=COLOR, alpha=0.5), line_entry("mean over masks", color=COLOR)]
    legend(figure, entries, f"n = {_count(barriers)}")
    return figure


def _count(barriers: pd.DataFrame) -> str:
    pairs = barriers.groupby(["embedding", "t", "mask_seed"]).size().max()
    return f"{barriers['mask_seed'].nunique()} masks at each point, {pairs} pairs of each mask"


def _embeddings(barriers: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(embedding, mean midpoint barrier of the pairs of each mask, a row a mask, a column a t)."""
    # A mask with a pair without a barrier has none: pandas would pass over it.
    means = barriers.groupby(["embedding", "mask_seed", "t"], sort=False)["barrier_mid"].agg(
        lambda pairs: pairs.mean(skipna=False)
    )
    return [
        (str(embedding).replace("_", " "), of_one.droplevel("embedding").unstack("t").sort_index(axis="columns"))
        for embedding, of_one in means.groupby("embedding", sort=False)
    ]


def _seen(tables: Tables) -> str:
    told = []
    for name, of_masks in _embeddings(tables["coherence_barriers.csv"]):
        means = of_masks.mean()
        first, last = means.index[0], means.index[-1]
        told.append(
            f"from {means[last]:.2g} at ν = {1 / last:.2g} to {means[first]:.2g} at ν = {1 / first:.2g} ({name})"
        )
    return f"The mean barrier goes {' and '.join(told)}."


FIGURES = (
    Drawing(
        "identifiability-6",
        "Midpoint barrier against coherence",
        """\
Barrier of the test loss (mean squared error) at the midpoint between two networks with random masks and no fixed
weights, unaligned, against the coherence ν = 1/t of the input subspace, study `{study}`. The panels are two ways of
placing the same two-dimensional data in the input space; ν = 1 is data along two input axes. A point is the mean over
the pairs of one mask.
""",
        barrier_against_nu,
        _seen,
        "Points are masks, where the paper shows mean and spread over all pairs.",
    ),
)


def coherent_over_incoherent(tables: Tables) -> list[Measurement]:
    """Mean midpoint test-loss barrier at nu = 1 as a fraction of that at nu = 0.1, for each embedding that has both."""
    measured = []
    for case, of_masks in _embeddings(tables["coherence_barriers.csv"]):
        if {1, 10} <= set(of_masks.columns):
            high, low = of_masks[1].to_numpy(), of_masks[10].to_numpy()
            told = f"ν = 1: {np.mean(high):.3g}, ν = 0.1: {np.mean(low):.3g}"
            measured.append(ratio_of(high, low, case, told, "masks"))
    return measured


def barrier_against_coherence(tables: Tables) -> list[Measurement]:
    """Spearman correlation of the mean midpoint test-loss barrier with nu = 1/t; needs three or more levels of nu."""
    measured = []
    for case, of_masks in _embeddings(tables["coherence_barriers.csv"]):
        if len(of_masks.columns) >= 3:
            nu = pd.Series(1 / of_masks.columns.to_numpy(dtype=float)).rank()

            def correlate(values: np.ndarray, nu: pd.Series = nu) -> float:
                means = pd.Series(values.mean(axis=0))
                # Ranking would pass over a level without a barrier; the claim is about all of them.
                return float("nan") if means.isna().any() or means.nunique() == 1 else float(means.rank().corr(nu))

            values = of_masks.to_numpy()
            error, told = bootstrap_error(correlate, values), f"{values.shape[1]} levels of ν"
            measured.append(Measurement(correlate(values), len(values), None, case, told, error, "masks"))
    return measured


CLAIMS = (
    Claim(
        id="identifiability-6-ends",
        statement="Masks alone connect networks where the data lie along the input axes (coherence ν = 1)",
        quantity="midpoint test-loss barrier at ν = 1 as a fraction of that at ν = 0.1",
        bound=below(0.2),
        owner="paper",
        origin="pilot",
        reason="The paper calls the barrier high at low and low at high coherence; a factor of five tells high from "
        "low. A sketch of these barriers had been seen.",
        tables=("coherence_barriers.csv",),
        measure=coherent_over_incoherent,
    ),
    Claim(
        id="identifiability-6-trend",
        statement="With masks alone, the barrier falls as the coherence ν of the data rises",
        quantity="Spearman correlation of the mean midpoint barrier with ν, over the levels of ν",
        bound=at_most(-0.9),
        owner="paper",
        origin="pilot",
        reason="The paper says that connectivity depends on coherence in this direction, for both embeddings; -0.9 "
        "lets neighbouring levels change places.",
        tables=("coherence_barriers.csv",),
        measure=barrier_against_coherence,
    ),
)
