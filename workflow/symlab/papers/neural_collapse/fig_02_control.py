"""Fig. 2: networks that collapse with depth, and the control that does not."""

from __future__ import annotations

import pandas as pd

from symlab.errors import UserError
from symlab.papers.neural_collapse.evidence import (
    DEPTHS,
    METRICS,
    lineages,
    networks,
    opened,
    paper_claim,
    slopes_at_optima,
)
from symlab.papers.neural_collapse.fig_01_depth import draw_metrics
from symlab.plotting.style import Style
from symlab.plotting.types import Figure
from symlab.study.card import Drawing, Sentence, at
from symlab.study.claim import Found, Tables, between

NETWORKS = ("rn1", "t11", "rn2")


def columns_of(table: pd.DataFrame) -> pd.DataFrame:
    """RN1, T11 and RN2 with a constant penalty and cross-entropy, of the data set that has most of them.

    Raises:
        UserError: none has RN1 and RN2.
    """
    chosen = table[(table["by_depth"] == "constant") & (table["loss"] == "cross_entropy") & table["grown"]]
    chosen = chosen[chosen["network"].isin(NETWORKS) & ~chosen["pre_norm"] & ~chosen["every_token"]]
    there = chosen.groupby("dataset", sort=False)["network"].agg(set)
    complete = there[there.map(lambda names: {"rn1", "rn2"} <= names)]
    if complete.empty:
        raise UserError("it needs rn1 and rn2 with by_depth: constant on one data set (neural_collapse.runs).")
    chosen = chosen[chosen["dataset"] == complete.map(len).idxmax()]
    name = chosen["network"].str.upper() + ", " + chosen["dataset"]
    return chosen.assign(column=name).sort_values("network", key=lambda names: names.map(NETWORKS.index), kind="stable")


def control_beside_others(tables: Tables, style: Style) -> Figure:
    """Columns RN1, T11 and RN2 with a constant penalty on one data set, a row a metric."""
    return draw_metrics(columns_of(networks(tables)), style, "metric", "column")


def slope_of_control(tables: Tables) -> list[Found]:
    """The control's slope of log10 metric over that of RN1 on the same data; 0 if it does not depend on depth."""
    try:
        rows = columns_of(lineages(tables))
    except UserError as reason:
        return [str(reason)]
    falls, late = slopes_at_optima(rows, METRICS)
    control, rn1 = ((-1 * falls).at(network=network).keyed("value") for network in ("rn2", "rn1"))
    # Undecided where either is.
    both: dict[str, str] = {each.case: late[each.case] or late[base.case] for each, base in control.beside(rn1)}
    return opened(control.ratios(rn1), both) or [f"needs networks of {DEPTHS} depths"]


FIGURES = {
    "collapse-2": Drawing(
        "Networks that collapse with depth, and one that does not",
        "As Figure 1, on one data set: one linear layer a block (RN1, T11), and two with a constant penalty (RN2).",
        control_beside_others,
        seen=Sentence(
            "The slope of the control over that of RN1 is {ratio}.", {"ratio": at("collapse-2-control", value="NC1")}
        ),
        differs="The paper prints three images of three metrics; here they are one.",
    ),
}
CLAIMS = {
    "collapse-2-control": paper_claim(
        statement="With two linear layers a block and a constant penalty, the metrics do not depend on depth",
        quantity="slope of log₁₀ of the metric on log₁₀ L over that of RN1 on the same samples, at an optimum",
        bound=between(-0.25, 0.25),
        origin="ours",
        reason="Figure 2 shows the control flat; a quarter of what one layer a block gives is left for noise.",
        measure=slope_of_control,
    ),
}
