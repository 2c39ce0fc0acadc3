"""Theorem C.10 by example: random first weights that training hardly moves cannot do what one neuron does."""

import math
from itertools import pairwise

import numpy as np
import pandas as pd

from symlab.papers.neuron_identifiability.theorems import bound_claim
from symlab.plotting import style as plot
from symlab.study.card import Drawing
from symlab.study.cases import cases
from symlab.study.claim import Claim, Found, Tables, above, exact_value
from symlab.study.facets import assign_looks, facets, labelled
from symlab.study.tables import need
from symlab.words import counted

TABLE = "hardness.csv"
BUDGET = 1 / (10 * math.sqrt(2))
"""The theorem's |alpha| |W|_F at most, and its bound on the error: what W moves is no more than the budget."""


def error_by_width(tables: Tables, style: plot.Style) -> plot.Figure:
    rows = hardest(tables)
    rows = rows.assign(label=rows["d"].map("$d$ = {:g}".format))
    looks = assign_looks(list(dict.fromkeys(rows.sort_values("d")["label"])), style, ordered=True)
    axes = labelled("width $m$ (neurons)", "least error / norm of the target", ylim=(0, 1))
    return facets(
        rows, "m", "share", looks, axes=axes, more=lambda axis, _: axis.set_xscale("log", base=2),
        options={"band": False, "unit": ["draw"]}, width=1.35 * plot.COLUMN,
        note=f"mean of n = {counted(rows['draw'].nunique(), 'draws')} of $F$",
    )  # fmt: skip


def hardest(tables: Tables) -> pd.DataFrame:
    """The rows at the bias with the largest share of the norm left, for each d, m and draw."""
    rows = need(tables, TABLE)
    rows = rows.assign(share=rows["error"] / rows["norm"])
    # An undefined share is the largest, so that it is not passed over.
    return rows.loc[rows.fillna({"share": np.inf}).groupby(["d", "m", "draw"])["share"].idxmax()]


def bound_over_error(tables: Tables) -> list[Found]:
    """The theorem's bound over the least error less what W may change, at the hardest bias; largest of all draws."""
    errors = tables[TABLE].pivot(index=["d", "m", "draw"], columns="bias", values="error")
    left = errors.max(axis="columns", skipna=False) - BUDGET
    shares = (BUDGET / left).where(left > 0, np.inf).where(left.notna())
    worst = shares.fillna(np.inf).idxmax()
    told = "largest at d = {}, m = {}".format(*worst)
    return [exact_value(float(shares[worst]), len(shares), detail=told, unit="draws")]


def rise_with_dimension(tables: Tables) -> list[Found]:
    """By how much the share left at the largest width rises from a dimension to the next, for each but the first."""
    rows = hardest(tables)
    widest = cases(rows[rows["m"] == rows["m"].max()], "share", ["d"], ["draw"], "d = {d}")
    by_dimension = [widest.at(d=d) for d in sorted(rows["d"].unique())]
    return [found for low, high in pairwise(by_dimension) for found in high.differences(low.keyed())]


FIGURES = {
    "identifiability-thmC.10": Drawing(
        "One neuron by random features (Theorem C.10)",
        "The least error at which a sum of m neurons with random, fixed first weights and any output weights can do "
        "what one neuron relu(w · x + b) with |w| = d² does on Gaussian inputs, as a share of its norm, against m, "
        "study `{study}`. Of several biases b the hardest counts. A neuron whose weights are trained has no error.",
        error_by_width,
        seen="From one dimension d to the next the share left at the largest width rises by {rise:%}.",
        differs="The paper proves that the number of neurons or their output weights grow exponentially with d; its "
        "constant is not known, so only the error is compared.",
    ),
}
CLAIMS = {
    "identifiability-thmC.10-error": bound_claim(
        statement="Networks within the budgets of Theorem C.10 miss a single neuron by more than 1/(10√2)",
        quantity="1/(10√2) over the least error of random features less what the trained part may change, largest of "
        "all draws",
        tables=(TABLE,),
        measure=bound_over_error,
    ),
    "identifiability-thmC.10-rise": Claim(
        statement="The higher the dimension, the less of a single neuron random features can do",
        quantity="rise of the share of its norm that is left at the largest width, from a dimension to the next",
        bound=above(0),
        owner="derived",
        origin="derived",
        reason="What Theorem C.9 asks of m and of the output weights grows with d, so at one m more is left; no size "
        "follows for a given m.",
        tables=(TABLE,),
        measure=rise_with_dimension,
    ),
}
