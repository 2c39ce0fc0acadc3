"""In practice: test samples, and minibatches of SGD and AdamW, against depth."""

from dataclasses import replace

import pandas as pd

from symlab.papers.neural_collapse import evidence
from symlab.papers.neural_collapse.evidence import our_claim
from symlab.plotting.style import Style
from symlab.plotting.types import Figure
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import Cases
from symlab.study.claim import Case, Found, Tables, below
from symlab.study.facets import Panel, assign_looks, draw_grid, labelled

OPTIMIZERS = {"lbfgs": "minimised", "sgd": "SGD, minibatches", "adamw": "AdamW, minibatches"}
VALUES = {"NC1": "NC1, training", "NC1_test": "NC1, test", "accuracy_test": "test accuracy"}


def trained(tables: Tables) -> pd.DataFrame:
    """RN1 with a constant penalty under cross-entropy: grown, or trained by minibatches."""
    rows = evidence.networks(tables)
    rows = rows[~rows["reference"] & evidence.of_rn1(rows) & (rows["grown"] | (rows["optimizer"] != "lbfgs"))]
    return rows.assign(label=rows["optimizer"].map(OPTIMIZERS))


def practice_against_depth(tables: Tables, style: Style) -> Figure:
    """NC1 on training and on test samples and test accuracy against depth, a line an optimizer."""
    rows = trained(tables)
    options, ticks = {"unit": ("seed",), "band": False}, sorted(rows["L"].unique())
    logs = {value: "x" if value.startswith("accuracy") else "xy" for value in VALUES}
    grid = [
        Panel(rows, "L", value, labelled("depth L", "", logs[value], xticks=ticks, title=name), options=options)
        for value, name in VALUES.items()
    ]
    looks = assign_looks(list(dict.fromkeys(rows["label"])), style)
    note = f"mean ± std of {rows['seed'].nunique()} networks"
    return draw_grid([grid], looks, height=2.2, sharey="none", note=note)


def falls_on_test_samples(tables: Tables) -> list[Found]:
    """Slope of log10 of NC1 on test samples on log10 L, mean over lineages at an optimum."""
    rows = trained(tables)
    return evidence.slopes_at_optima(rows[rows["optimizer"] == "lbfgs"], ["NC1_test"]).means() or [evidence.LACKS]


def falls_by_minibatches(tables: Tables) -> list[Found]:
    """Slope of log10 of NC1 on log10 L, mean over networks' seeds, a case an optimizer."""
    rows = trained(tables)
    found: list[Found] = []
    for optimizer in ("sgd", "adamw"):
        each = evidence.slopes(rows[rows["optimizer"] == optimizer], ["NC1"], within=False)
        case = Case(OPTIMIZERS[optimizer], optimizer=optimizer)
        found += Cases(tuple(replace(one, case=case) for one in each), "seeds").means()
    return found or [evidence.LACKS]


FIGURES = {
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
    "collapse-practice-test": our_claim(
        statement="Deeper networks at an optimum are closer to collapse on test samples too",
        quantity=f"{SLOPE} lineages at an optimum",
        bound=below(0),
        reason="The theorems are of training samples; a user asks of others.",
        measure=falls_on_test_samples,
    ),
    "collapse-practice-minibatches": our_claim(
        statement="Networks trained by minibatches are closer to collapse the deeper they are",
        quantity=f"{SLOPE} networks",
        bound=below(0),
        reason="Section 5 asks whether gradient descent finds what optima have; a user trains by minibatches.",
        measure=falls_by_minibatches,
    ),
}
