"""Depth where the optimum does not depend on it: as many samples as dimensions, beside enough of them."""

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neural_collapse import evidence
from symlab.papers.neural_collapse.evidence import ENOUGH, METRICS, derived_claim, our_claim
from symlab.plotting.style import Style
from symlab.plotting.types import Figure
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import Cases, cases
from symlab.study.claim import Found, Tables, at_most, between
from symlab.study.facets import Panel, assign_looks, draw_grid, labelled

VALUES = {**{name: name for name in METRICS}, "excess": "loss over\nfree features"}


def by_samples(tables: Tables) -> pd.DataFrame:
    """Lineages of RN1 with the ``rank`` of what the first layer reads, and samples over it, ``ratio``, few first."""
    rows = evidence.lineages(tables)
    rows = rows[evidence.of_rn1(rows)]
    rank = evidence.rank_of_inputs(tables, rows)
    return rows.assign(rank=rank, ratio=rows["N"] / rank).sort_values("ratio", kind="stable")


def depth_by_samples(tables: Tables, style: Style) -> Figure:
    """Metrics and the loss over that of free features against depth, a line a number of samples."""
    rows = by_samples(tables)
    if not (rows["ratio"].min() <= 1 and rows["ratio"].max() >= ENOUGH):
        raise UserError("it needs rn1 on as few samples as the rank of its inputs, and on five times as many.")
    labels = [f"{N:,} samples of rank {rank:g}" for N, rank in zip(rows["N"], rows["rank"], strict=True)]
    rows = rows.assign(label=labels)
    axes, unit = labelled("depth L", "", "xy", xticks=sorted(rows["L"].unique())), {"unit": ("seed",)}
    grid = [
        Panel(rows[rows[value] > 0], "L", value, axes | {"title": name}, options=unit) for value, name in VALUES.items()
    ]
    looks = assign_looks(list(dict.fromkeys(rows["label"])), style)
    note = f"mean ± std of {rows['seed'].nunique()} networks"
    return draw_grid([grid], looks, sharey="none", note=note)


def range_where_few(tables: Tables) -> list[Found]:
    """How far a metric goes over the depths where samples are as few as the rank, over that where they are enough.

    Not its logarithm: at the optimum of few samples the metrics are 0, whose logarithm has no slope.
    All networks count: where the optimum is that of free features, a loss within a share of it is no sign of the place.
    """
    rows = by_samples(tables)
    few, enough = (
        evidence.slopes(part, METRICS, within=False, several=np.ptp).keyed("value")
        for part in (rows[rows["ratio"] <= 1], rows[rows["ratio"] >= ENOUGH])
    )
    return few.ratios(enough) or ["needs rn1 on as few samples as the rank, and on five times as many"]


def excess_where_few(tables: Tables) -> list[Found]:
    """Loss over free features over that loss, where samples are as few as the rank: the largest of all networks."""
    rows = by_samples(tables)
    rows = rows[rows["ratio"] <= 1]
    shares = cases(rows.assign(share=rows["excess"] / rows["free"]), "share", name="all depths", several="max")
    return Cases(shares.of, "networks").of_all(np.max) if len(rows) else ["needs rn1 on as few samples as the rank"]


FIGURES = {
    "collapse-few": Drawing(
        "Too few samples: depth changes nothing",
        "RN1 on as few samples as the first layer reads dimensions, and on more (study `{study}`). On few the first "
        "layer, which has no penalty, can put features anywhere: the optimum is that of free features at every depth.",
        depth_by_samples,
        seen=Sentence(
            "Over the depths NC1 varies on few samples by {share:.2g} of what it does on enough.",
            {"share": at("collapse-few-flat", value="NC1")},
        ),
        differs="Not in the paper: what falls with depth here is the optimiser's doing.",
    ),
}
CLAIMS = {
    "collapse-few-flat": our_claim(
        statement="Where samples are as few as the rank of the inputs, metrics vary with depth by little of what "
        "they do on enough",
        quantity="range of the metric over the depths of a lineage, over that on enough samples, means over lineages",
        bound=at_most(0.25),
        reason="The optimum is collapsed without any block; a quarter of what depth changes otherwise is left for "
        "noise. It was asked of slopes of the logarithm first, which at an optimum of 0 say nothing, then of the fall "
        "from the first depth to the last, which on enough samples there was not. The quantity was changed after "
        "either was seen, the threshold not.",
        origin="pilot",
        measure=range_where_few,
    ),
    "collapse-few-optimum": derived_claim(
        statement="Where samples are as few as the rank of the inputs, networks of every depth reach that of free "
        "features",
        quantity="loss over that of free features, as a share of it, largest of all networks",
        bound=between(0, 0.05),
        reason="A linear map of linearly independent inputs gives any features; 5 % is how close a network at an "
        "optimum has to be.",
        measure=excess_where_few,
    ),
}
