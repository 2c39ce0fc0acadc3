"""Depth where the optimum does not depend on it: as many samples as dimensions, beside enough of them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neural_collapse.evidence import ENOUGH, METRICS, SAMPLES, derived_claim, lineages, our_claim, slopes
from symlab.plotting.style import Style
from symlab.plotting.types import Figure
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import Cases, cases
from symlab.study.claim import Found, Tables, between
from symlab.study.facets import Panel, assign_looks, draw_grid, labelled
from symlab.study.tables import need

VALUES = {**{name: name for name in METRICS}, "excess": "loss over\nfree features"}


def by_samples(tables: Tables) -> pd.DataFrame:
    """RN1 with a constant penalty under cross-entropy, with the ``rank`` of what the first layer reads, few first."""
    rows = lineages(tables)
    rows = rows[(rows["network"] == "rn1") & (rows["by_depth"] == "constant") & (rows["loss"] == "cross_entropy")]
    ranks = need(tables, SAMPLES).set_index(["dataset", "N"])["rank"]
    rank = ranks.reindex(pd.MultiIndex.from_frame(rows[["dataset", "N"]])).to_numpy()
    rows = rows.assign(rank=rank, ratio=rows["N"] / rank)
    return rows[~rows["pre_norm"]].sort_values("ratio", kind="stable")


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


def fall(values: pd.Series) -> float:
    """By how much values by depth fall from the least depth to the greatest."""
    of_depth = values.sort_index()
    return float(of_depth.iloc[0] - of_depth.iloc[-1])


def fall_where_few(tables: Tables) -> list[Found]:
    """Fall of a metric with depth where samples are as few as the rank, over that where they are enough.

    Not of its logarithm: at the optimum of few samples the metrics are 0, whose logarithm has no slope.
    All networks count: where the optimum is that of free features, a loss within a share of it is no sign of the place.
    """
    rows = by_samples(tables)
    few, enough = (
        slopes(part, METRICS, within=False, several=fall).keyed("value")
        for part in (rows[rows["ratio"] <= 1], rows[rows["ratio"] >= ENOUGH])
    )
    falling = enough.where(lambda each: each.mean > 0)
    return few.ratios(falling) or ["needs rn1 on as few samples as the rank, and on five times as many where it falls"]


def excess_where_few(tables: Tables) -> list[Found]:
    """Loss over free features over that loss, where samples are as few as the rank: the largest of all networks."""
    rows = by_samples(tables)
    rows = rows[rows["ratio"] <= 1]
    shares = cases(rows.assign(share=rows["excess"] / rows["free"]), "share", name="all depths", several="max")
    return Cases(shares.of, "networks").of_all(np.max) if len(rows) else ["needs rn1 on as few samples as the rank"]


FIGURES = (
    Drawing(
        "collapse-few",
        "Too few samples: depth changes nothing",
        "RN1 on as few samples as the first layer reads dimensions, and on more (study `{study}`). On few the first "
        "layer, which has no penalty, can put features anywhere: the optimum is that of free features at every depth.",
        depth_by_samples,
        seen=Sentence(
            "From the least depth to the greatest, NC1 falls on few samples by {share:.2f} of what it does on enough.",
            {"share": at("collapse-few-flat", value="NC1")},
        ),
        differs="Not in the paper: what falls with depth here is the optimiser's doing.",
    ),
)
CLAIMS = (
    our_claim(
        id="collapse-few-flat",
        statement="Where samples are as few as the rank of the inputs, metrics fall with depth by little of what "
        "they do on enough",
        quantity="fall of the metric from the least depth to the greatest over that on enough samples, means over "
        "lineages",
        bound=between(-0.25, 0.25),
        reason="The optimum is collapsed without any block; a quarter of what depth gives otherwise is left for noise. "
        "It was asked of slopes of the logarithm first, and failed by far: at an optimum of 0 these say nothing. The "
        "quantity was changed after that was seen, the threshold not.",
        origin="pilot",
        measure=fall_where_few,
    ),
    derived_claim(
        id="collapse-few-optimum",
        statement="Where samples are as few as the rank of the inputs, networks of every depth reach that of free "
        "features",
        quantity="loss over that of free features, as a share of it, largest of all networks",
        bound=between(0, 0.05),
        reason="A linear map of linearly independent inputs gives any features; 5 % is how close a network at an "
        "optimum has to be.",
        measure=excess_where_few,
    ),
)
