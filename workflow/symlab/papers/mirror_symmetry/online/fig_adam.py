"""Products under Adam beside SGD: how sparse they are at which error."""

from __future__ import annotations

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.mirror_symmetry.online.product_sgd import PRODUCT
from symlab.papers.mirror_symmetry.online.runs import SHOWN, at_end, of_model
from symlab.plotting.style import Style, line_entry
from symlab.plotting.types import Axes, Figure
from symlab.study.card import Drawing, Sentence, at
from symlab.study.cases import cases
from symlab.study.claim import Claim, Found, Tables, at_least
from symlab.study.facets import Panel, assign_looks, draw_grid, draw_rows
from symlab.study.tables import need

ADAM, SPARSITY = "mirror_adam.csv", "mirror_sparsity.csv"
SGD = "SGD"


def by_optimizer(tables: Tables) -> pd.DataFrame:
    """Final rows of Adam and of SGD at the same size and noise, with ``label``, the optimizer."""
    adam = need(tables, ADAM)
    one = adam.iloc[0]
    sgd = at_end(of_model(tables, PRODUCT))
    sgd = sgd[(sgd["d"] == one["d"]) & np.isclose(sgd["sigma"], one["sigma"]) & (sgd["batch"] == 1)]
    if sgd.empty:
        raise UserError("it needs mirror_symmetry.sparsity at the d and sigma of mirror_symmetry.adam.")
    named = adam.assign(label=[f"Adam({beta:g}, .999)" for beta in adam["beta1"]])
    return pd.concat([sgd[sgd["grid"] == sgd["grid"].min()].assign(label=SGD), named], ignore_index=True)


def _sparsity_against_error(tables: Tables, style: Style) -> Figure:
    rows = by_optimizer(tables)
    means = rows.groupby(["label", "lr"], sort=False)[["excess", SHOWN]].mean().reset_index()
    looks = assign_looks(list(rows["label"].unique()), style)

    def of_zeros(axis: Axes) -> None:
        axis.axvline(1 / rows["d"].iloc[0], color="0.3", linestyle="--", linewidth=0.8)

    def in_order_of_rates(axis: Axes, of: pd.DataFrame, x: str, y: str, look: object, label: str) -> None:
        draw_rows(axis, of.sort_values("lr"), x, y, looks[label], label, linestyle="-", linewidth=0.7)

    error = {"xscale": "log", "xlabel": "error of the coefficients |θ - 1/d|²", "ylabel": "share below 1e-6"}
    grid = [
        Panel(means, "excess", SHOWN, error, in_order_of_rates, more=of_zeros),
        Panel(means, "lr", SHOWN, {"xscale": "log", "xlabel": "rate λ"}, in_order_of_rates),
    ]
    return draw_grid([grid], looks, sharex=False, entries=[line_entry("all 0", color="0.3", linestyle="--")])


def _most_sparse(tables: Tables) -> list[Found]:
    rows = tables[ADAM]
    rows = rows[rows["lr"] == rows["lr"].max()]
    return cases(rows, SHOWN, ["beta1"], "seed", "β1 = {beta1:g}").means()


FIGURES = (
    Drawing(
        "mirror-adam",
        "Products under Adam",
        "The regression of products under Adam with and without momentum, and under SGD with the same noise (σ as "
        "study `{study}` has it): the share of products below 1e-6 against the error of the coefficients (left, "
        "dashed: that of all zeros) and against the rate (right). Each point is a rate, mean over seeds.",
        _sparsity_against_error,
        seen=Sentence(
            "At its largest rate Adam leaves {share:%} of the products below 1e-6.", {"share": at("mirror-adam-sparse")}
        ),
        differs="The paper says that the same happens under Adam and shows no experiment.",
    ),
)
CLAIMS = (
    Claim(
        id="mirror-adam-sparse",
        statement="Under Adam products become sparse at high rates too",
        quantity="share of products below 1e-6 at the largest rate, mean over seeds",
        bound=at_least(0.5),
        owner="paper",
        origin="ours",
        reason="Sec. 2.4: it happens for Adam-type dynamics as well; the paper gives no share, half is our word for "
        "it.",
        tables=(ADAM,),
        measure=_most_sparse,
    ),
)
