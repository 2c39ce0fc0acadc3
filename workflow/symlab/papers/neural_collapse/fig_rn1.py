"""RN1 where the paper has nothing: on too few samples, on test samples, and trained by minibatches, against depth."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neural_collapse import evidence
from symlab.papers.neural_collapse.evidence import DEPTHS, ENOUGH, METRICS, derived_claim, our_claim
from symlab.plotting.style import Style
from symlab.plotting.types import Figure
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import Cases, cases
from symlab.study.claim import Found, Tables, below, between, slope
from symlab.study.facets import Panel, assign_looks, draw_grid, labelled

FEW = {**{name: name for name in METRICS}, "excess": "loss over\nfree features"}
PRACTICE = {"NC1": "NC1, training", "NC1_test": "NC1, test", "accuracy_test": "test accuracy"}
"""What is drawn, with its title."""
OPTIMIZERS = {"lbfgs": "minimised", "sgd": "SGD, minibatches", "adamw": "AdamW, minibatches"}
LACKS = "needs rn1 on as few samples as the rank of its inputs, and on five times as many"


def by_samples(tables: Tables) -> pd.DataFrame:
    """Lineages of RN1 with the ``rank`` of what the first layer reads, and samples over it, ``ratio``, few first."""
    rows = evidence.lineages(tables)
    rows = rows[evidence.of_rn1(rows)]
    rank = evidence.rank_of_inputs(tables, rows)
    labels = [f"{N:,} samples of rank {each:g}" for N, each in zip(rows["N"], rank, strict=True)]
    return rows.assign(label=labels, ratio=rows["N"] / rank).sort_values("ratio", kind="stable")


def by_optimizer(tables: Tables) -> pd.DataFrame:
    """RN1 grown and minimised, or trained by minibatches."""
    rows = evidence.networks(tables)
    rows = rows[~rows["reference"] & evidence.of_rn1(rows) & (rows["grown"] | (rows["optimizer"] != "lbfgs"))]
    return rows.assign(label=rows["optimizer"].map(OPTIMIZERS))


def depth_by_samples(tables: Tables, style: Style) -> Figure:
    """Metrics and the loss over that of free features against depth, a line a number of samples."""
    rows = by_samples(tables)
    if not (rows["ratio"].min() <= 1 and rows["ratio"].max() >= ENOUGH):
        raise UserError(f"it {LACKS}.")
    return against_depth(rows, FEW, style, height=2.0)


def practice_against_depth(tables: Tables, style: Style) -> Figure:
    """NC1 on training and on test samples and test accuracy against depth, a line an optimizer."""
    return against_depth(by_optimizer(tables), PRACTICE, style, height=2.2, band=False)


def against_depth(
    rows: pd.DataFrame, values: Mapping[str, str], style: Style, height: float, **options: bool
) -> Figure:
    """A panel a value, above 0, a line a label."""
    panels, ticks = [], sorted(rows["L"].unique())
    for value, title in values.items():
        axes = labelled("depth L", "", "x" if value.startswith("accuracy") else "xy", xticks=ticks, title=title)
        panels.append(Panel(rows[rows[value] > 0], "L", value, axes, options={"unit": ("seed",), **options}))
    looks = assign_looks(list(dict.fromkeys(rows["label"])), style)
    note = f"mean ± std of {rows['seed'].nunique()} networks"
    return draw_grid([panels], looks, height=height, sharey="none", note=note)


def excess_where_few(tables: Tables) -> list[Found]:
    """Loss over free features over that loss, where samples are as few as the rank: the largest of all networks."""
    rows = by_samples(tables)
    rows = rows[rows["ratio"] <= 1]
    shares = cases(rows.assign(share=rows["excess"] / rows["free"]), "share", name="all depths", several="max")
    return Cases(shares.of, "networks").of_all(np.max) if len(rows) else [LACKS]


def falls_by_minibatches(tables: Tables) -> list[Found]:
    """Slope of log10 of NC1 on log10 L, mean over networks' seeds, a case a setting and optimizer."""
    rows = by_optimizer(tables)
    rows = rows[rows["optimizer"] != "lbfgs"]
    of_network = rows.groupby(["setting", "optimizer", "seed"])["L"]
    rows = rows[of_network.transform("nunique") >= DEPTHS].set_index("L")
    several = rows["setting"].nunique() > 1

    def name(key: Mapping[str, Any]) -> str:
        return OPTIMIZERS[key["optimizer"]] + (f", {key['setting']}" if several else "")

    return cases(rows, "NC1", ["setting", "optimizer"], name=name, several=slope).means() or [evidence.LACKS]


FIGURES = {
    "collapse-few": Drawing(
        "Too few samples: the loss of free features at every depth",
        "RN1 on as few samples as the first layer reads dimensions, and on more (study `{study}`). On few the first "
        "layer, which has no penalty, can put features anywhere: the optimum is that of free features at every depth.",
        depth_by_samples,
        seen=Sentence(
            "On few samples losses are at most {share:%} above those of free features.",
            {"share": at("collapse-few-optimum")},
        ),
        differs="Not in the paper: what falls with depth here is the optimiser's doing.",
    ),
    "collapse-practice": Drawing(
        "Depth in practice",
        "RN1: NC1 on the training samples and on up to 1000 test samples, and test accuracy, of networks minimised by "
        "L-BFGS, and of networks trained for 300 epochs by minibatches of 32 with SGD (momentum 0.9, the same "
        "penalties) and AdamW (decay of all weights). Study `{study}`.",
        practice_against_depth,
        seen=Sentence(
            "On test samples the slope of log₁₀ NC1 on log₁₀ L is {slope}.", {"slope": at("collapse-practice-test")}
        ),
        differs="Not in the paper, whose metrics are of training samples.",
    ),
}
SLOPE = "slope of log₁₀ of NC1 on log₁₀ L, mean over"
CLAIMS = {
    "collapse-few-optimum": derived_claim(
        statement="Where samples are as few as the rank of the inputs, networks of every depth reach that of free "
        "features",
        quantity="loss over that of free features, as a share of it, largest of all networks",
        bound=between(0, 0.05),
        reason="A linear map of linearly independent inputs gives any features; 5 % is how close a network at an "
        "optimum has to be.",
        measure=excess_where_few,
    ),
    "collapse-practice-test": our_claim(
        statement="Deeper networks at an optimum are closer to collapse on test samples too",
        quantity=f"{SLOPE} lineages at an optimum",
        bound=below(0),
        reason="The theorems are of training samples; a user asks of others.",
        measure=partial(evidence.slopes_of, values=["NC1_test"], chosen=evidence.of_rn1),
    ),
    "collapse-practice-minibatches": our_claim(
        statement="Networks trained by minibatches are closer to collapse the deeper they are",
        quantity=f"{SLOPE} networks",
        bound=below(0),
        reason="Section 5 asks whether gradient descent finds what optima have; a user trains by minibatches.",
        measure=falls_by_minibatches,
    ),
}
