"""The rate of collapse grows with the batch: noise, not the rate alone, is what makes mirrors attract."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.mirror_symmetry.online.law import critical_rate
from symlab.papers.mirror_symmetry.online.product_sgd import PRODUCT
from symlab.papers.mirror_symmetry.online.runs import (
    LAW,
    SHOWN,
    SPARSITY,
    at_end,
    midpoints,
    of_model,
    told_apart,
    with_law,
)
from symlab.plotting.style import Look, Style, line_entry, ordered_colors
from symlab.plotting.types import Axes, Figure
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import cases
from symlab.study.claim import Claim, Found, Tables, at_most, between
from symlab.study.facets import Panel, draw_grid

UNIT = {"unit": ("seed",), "band": False}


def _runs(tables: Tables) -> pd.DataFrame:
    """Final rows of the grid with most batch sizes."""
    rows = of_model(tables, PRODUCT)
    sizes = rows.groupby("grid")["batch"].nunique()
    if sizes.max() < 3:
        raise UserError("it needs mirror_symmetry.sparsity with several batch sizes.")
    rows = with_law(tables, at_end(rows[rows["grid"] == sizes.idxmax()]))
    return rows.assign(label=["all" if math.isinf(size) else f"{size:g}" for size in rows["batch"]])


def sparsity_over_batches(tables: Tables, style: Style) -> Figure:
    """Sparsity against the rate, a colour a batch size; the rate at which half are gone against the size."""
    runs = _runs(tables).sort_values("batch")
    names = list(runs["label"].unique())
    looks = {name: Look(color, "", "o") for name, color in zip(names, ordered_colors(len(names)), strict=True)}
    alone = told_apart(runs, {"alone_6": "alone"}).merge(runs[["batch", "label"]].drop_duplicates(), on="batch")

    def lines(axis: Axes) -> None:
        for name, of in alone.groupby("label_y"):
            axis.plot(of["lr"], of["share"], color=looks[name].color, marker="", linewidth=0.8)

    halves = _halves(runs).merge(runs[["batch", "label"]].drop_duplicates(), on="batch")
    one, sizes = runs.iloc[0], np.geomspace(1, max(halves["batch"].max(), 2), 50)

    def laws(axis: Axes) -> None:
        single = halves.groupby("batch")["alone"].mean()
        axis.plot(single.index, single, color="0.3", marker="", linewidth=0.8)
        critical = [critical_rate(int(one["d"]), one["sigma"], size) for size in sizes]
        axis.plot(sizes, critical, color="0.3", marker="", linestyle="--", linewidth=0.8)

    shares = {"xscale": "log", "xlabel": "rate λ", "ylabel": "share below 1e-6"}
    axes = {"xscale": "log", "yscale": "log", "xlabel": "samples of each step", "ylabel": "rate at half"}
    grid = [
        Panel(runs, "lr", SHOWN, shares, options=UNIT, more=lines),
        Panel(halves, "batch", "half", axes, options=UNIT, more=laws),
    ]
    entries = [line_entry("single products", color="0.3"), line_entry("critical rate", color="0.3", linestyle="--")]
    return draw_grid(
        [grid], looks, sharex=False, sharey=False, height=2.2, entries=entries, note="samples of each step"
    )


def _halves(runs: pd.DataFrame) -> pd.DataFrame:
    return midpoints(runs[np.isfinite(runs["batch"])]).dropna()


def half_over_alone(tables: Tables) -> list[Found]:
    """The rate at which half of the products are gone over that of single products, by batch size."""
    halves = _halves(_runs(tables))
    measured, alone = (cases(halves, name, ["batch"], "seed", "{batch:g} samples") for name in ("half", "alone"))
    return (measured / alone).means() or ["half are gone at no batch size"]


def sparsity_without_noise(tables: Tables) -> list[Found]:
    """The largest sparsity that gradient descent on the expected loss ends with, at the rates of the largest batch."""
    rows = _runs(tables)
    rows = rows[np.isinf(rows["batch"])]
    return cases(rows, SHOWN, (), ["seed", "lr"]).of_all(np.max) if len(rows) else ["needs batch: null"]


FIGURES = (
    Drawing(
        "mirror-batch",
        "The rate of collapse grows with the batch",
        "Left, the share of products below 1e-6 after the same steps against the rate, a colour a number of samples in "
        "each step (all: the gradient of the expected loss), with products simulated one by one as lines. Right, the "
        "rate at which half are gone against the number of samples, with that of single products and, dashed, the "
        "critical rate, from which mirrors attract.",
        sparsity_over_batches,
        seen=Sentence(
            "With 16 samples a step half of the products are gone at {many} times the rate of single ones.",
            {"many": at("mirror-batch-alone", batch=16.0)},
        ),
        differs="The paper says that small batches help and shows no experiment.",
    ),
)
_claim = partial(Claim, tables=(SPARSITY, LAW))
CLAIMS = (
    _claim(
        id="mirror-batch-alone",
        statement="At each batch size half of the products are gone at the rate at which single ones are",
        quantity="rate at half over that of products simulated one by one, mean over seeds",
        bound=between(0.9, 1.1),
        owner="ours",
        origin="pilot",
        reason="A tenth is left for the grid of rates; these runs had been compared with the law near the mirror.",
        measure=half_over_alone,
    ),
    _claim(
        id="mirror-batch-noise",
        statement="Without noise no rate makes products sparse",
        quantity="largest share of products below 1e-6 under gradient descent on the expected loss",
        bound=at_most(0),
        owner="derived",
        origin="derived",
        reason="The expected curvature along one of the two mirrors is negative, so that it repels at every rate.",
        measure=sparsity_without_noise,
    ),
)
