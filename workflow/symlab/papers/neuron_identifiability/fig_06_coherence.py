"""Fig. 6: the barrier of networks with masks alone against the coherence of their data."""

from collections.abc import Iterator
from functools import partial

import pandas as pd

from symlab.plotting.style import COLUMN, PAGE, Axes, Figure, Look, Style, line_entry
from symlab.study.card import Drawing
from symlab.study.cases import cases, cases_of
from symlab.study.claim import Claim, Found, Tables, at_most, below, statistic_of
from symlab.study.facets import draw_rows, facets, labelled
from symlab.study.statistics import rank_correlation
from symlab.study.tables import need, need_several, where
from symlab.words import counted

COLOR = (0.004, 0.451, 0.698)


def barrier_against_nu(tables: Tables, style: Style) -> Figure:
    barriers = need(tables, "coherence_barriers.csv")
    need_several(barriers, "t", f"{where(barriers)}.coherence.t")
    of_masks = barriers.groupby(["embedding", "t", "mask_seed"], sort=False)["barrier_mid"].agg(["mean", "size"])
    of_masks = of_masks.reset_index().assign(nu=lambda rows: 1 / rows["t"], label="mask")

    def draw_mean(axis: Axes, part: pd.DataFrame) -> None:
        means = part.groupby("nu")["mean"].mean()
        axis.plot(means.index, means, color=COLOR, label="mean over masks")

    ylim = (0, 1.05 * of_masks["mean"].max())
    masks, pairs = of_masks["mask_seed"].nunique(), of_masks["size"].max()
    return facets(
        of_masks, "nu", "mean", {"mask": Look(COLOR, "", "o")}, column="embedding", title=_name,
        axes=labelled(r"coherence $\nu(U)$, logarithmic", "midpoint barrier (test MSE)", "x", ylim=ylim),
        draw=draw_rows, options={"alpha": 0.5, "markeredgewidth": 0}, more=draw_mean,
        width=PAGE if of_masks["embedding"].nunique() > 1 else COLUMN,
        entries=[line_entry("mean over masks", color=COLOR)],
        note=f"n = {counted(masks, 'masks')} at each point, {counted(pairs, 'pairs')} of each mask",
    )  # fmt: skip


def _name(embedding: str) -> str:
    return embedding.replace("_", " ")


FIGURES = {
    "identifiability-6": Drawing(
        "Midpoint barrier against coherence",
        "Barrier of the test loss (mean squared error) at the midpoint between two networks with random masks and no "
        "fixed weights, unaligned, against the coherence ν = 1/t of the input subspace, study `{study}`. The panels "
        "are two ways of placing the same two-dimensional data in the input space; ν = 1 is data along two input "
        "axes. A point is the mean over the pairs of one mask.",
        barrier_against_nu,
        seen="The barrier at ν = 1 is {ends} of that at ν = 0.1.",
        differs="Points are masks, where the paper shows mean and spread over all pairs.",
    ),
}


def coherent_over_incoherent(tables: Tables) -> list[Found]:
    """Mean midpoint test-loss barrier at nu = 1 as a fraction of that at nu = 0.1, for each embedding that has both."""
    rows = tables["coherence_barriers.csv"]
    barriers = cases(rows, "barrier_mid", ["embedding", "t"], "mask_seed", lambda key: _name(str(key["embedding"])))
    return barriers.at(t=1).ratios(barriers.at(t=10).keyed("embedding"))


def barrier_against_coherence(tables: Tables) -> Iterator[Found]:
    """Spearman correlation of the mean midpoint test-loss barrier with nu = 1/t; needs three or more levels of nu."""
    for case, rows in cases_of(tables["coherence_barriers.csv"], ["embedding"], lambda key: _name(key["embedding"])):
        masks = rows.groupby(["mask_seed", "t"])["barrier_mid"].mean(skipna=False).unstack()
        nu = 1 / masks.columns.to_numpy()
        if len(nu) >= 3:
            correlate = partial(lambda nu, masks: rank_correlation(masks.mean(axis=0), nu), nu)
            told = f"{len(nu)} levels of ν"
            yield statistic_of(correlate, masks.to_numpy(), case=case, detail=told, unit="masks")


_claim = partial(Claim, owner="paper", origin="pilot", tables=("coherence_barriers.csv",))
CLAIMS = {
    "identifiability-6-ends": _claim(
        statement="Masks alone connect networks where the data lie along the input axes (coherence ν = 1)",
        quantity="midpoint test-loss barrier at ν = 1 as a fraction of that at ν = 0.1",
        bound=below(0.2),
        reason="The paper calls the barrier high at low and low at high coherence; a factor of five tells high from "
        "low. A sketch of these barriers had been seen.",
        measure=coherent_over_incoherent,
    ),
    "identifiability-6-trend": _claim(
        statement="With masks alone, the barrier falls as the coherence ν of the data rises",
        quantity="Spearman correlation of the mean midpoint barrier with ν, over the levels of ν",
        bound=at_most(-0.9),
        reason="The paper says that connectivity depends on coherence in this direction, for both embeddings; -0.9 "
        "lets neighbouring levels change places.",
        measure=barrier_against_coherence,
    ),
}
