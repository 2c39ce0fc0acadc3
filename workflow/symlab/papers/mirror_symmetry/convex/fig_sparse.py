"""Eq. 7's factors in networks beside proximal SGD and magnitude pruning, at equal sparsity and steps."""

from __future__ import annotations

from functools import partial

import pandas as pd

from symlab.papers.mirror_symmetry.settings import FACTORS, PROXIMAL, PRUNED
from symlab.plotting.style import Style
from symlab.plotting.types import Figure
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import Cases, cases
from symlab.study.claim import Claim, Found, Tables, at_least
from symlab.study.facets import assign_looks, facets
from symlab.study.tables import need

TABLE = "mirror_sparse.csv"
JUDGED = 0.9
"""The share at which methods are compared."""
CELL = ["structure", "seed", "method", "share"]


def at_best_strength(tables: Tables) -> pd.DataFrame:
    """Of each method and share the run that is best on training samples; pruning has the strength of its share."""
    rows = need(tables, TABLE)
    rows = rows[(rows["method"] != PRUNED) | (rows["strength"] == rows["share"])]
    rows = rows.sort_values("train", ascending=False, kind="stable", na_position="first")
    return rows.drop_duplicates(CELL).sort_values(CELL)


def _accuracy_against_share(tables: Tables, style: Style) -> Figure:
    rows = at_best_strength(tables)
    rows = rows.assign(label=rows["method"], zero=100 * rows["share"])
    looks = assign_looks([FACTORS, PROXIMAL, PRUNED], style)
    axes = {"xlabel": "set to 0 in %", "ylabel": "test accuracy in %"}
    options = {"unit": ("seed",), "band": False}
    return facets(rows, "zero", "test", looks, column="structure", axes=axes, options=options, height=2.2)


def _accuracy(tables: Tables, method: str) -> Cases:
    rows = at_best_strength(tables)
    rows = rows[(rows["method"] == method) & (rows["share"] == JUDGED)]
    return cases(rows, "test", ["structure"], "seed", "{structure}")


def _better_than(tables: Tables, method: str) -> list[Found]:
    return (_accuracy(tables, FACTORS) - _accuracy(tables, method)).means() or [f"needs {JUDGED} among the shares"]


FIGURES = (
    Drawing(
        "mirror-sparse",
        "Factors, proximal steps and pruning in networks",
        "Networks of one hidden layer of relu. Of the first layer's weights the smallest are set to 0: entries, whole "
        "neurons, differences of pairs of neurons, or coordinates in two-dimensional cosines, which the scheme dcs "
        "reads from a file. Test accuracy against their share, after equally many steps of SGD: on factors with decay "
        "(Eq. 7), with the proximal map of the same penalty (lasso, and group lasso of neurons), and with the smallest "
        "set to 0 after half of the steps and the rest trained on. Penalties are chosen by training accuracy at each "
        "share. Mean and standard deviation over seeds.",
        _accuracy_against_share,
        seen=Sentence(
            "With nine tenths set to 0 factors are {proximal} percentage points more accurate than proximal SGD, and "
            "{pruned} than pruning.",
            {"proximal": at("mirror-sparse-proximal"), "pruned": at("mirror-sparse-pruned")},
        ),
        differs="Not in the paper, which compares with no other way to a constraint.",
    ),
)
_claim = partial(
    Claim,
    tables=(TABLE,),
    bound=at_least(-1),
    origin="ours",
    quantity="test accuracy of factors less the other's with nine tenths set to 0, in percentage points",
)
CLAIMS = (
    _claim(
        id="mirror-sparse-proximal",
        statement="Factors with decay are as accurate as proximal SGD of the same penalty, as sparse and as long",
        owner="derived",
        reason="Sec. 2.6: both have the same minimum; a point is left for what steps have not reached.",
        measure=partial(_better_than, method=PROXIMAL),
    ),
    _claim(
        id="mirror-sparse-pruned",
        statement="They are as accurate as networks that are pruned by magnitude and trained on, as sparse and as long",
        owner="ours",
        reason="A point, as for proximal SGD: who adds a symmetry should not lose by it.",
        measure=partial(_better_than, method=PRUNED),
    ),
)
