"""Section 6, Q3: the cheapest swaps of wider layers (Theorem 4.6)."""

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neuron_identifiability.masks import W_1
from symlab.papers.neuron_identifiability.rows import MODEL, describe, signed_sqrt
from symlab.papers.neuron_identifiability.swap_costs import MAHALANOBIS, SMALL, costs_by_network, is_below
from symlab.papers.neuron_identifiability.swap_panels import need_k
from symlab.plotting import style as plot
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, above
from symlab.study.facets import assign_looks, draw_each, facets, labelled
from symlab.study.tables import need, where


def cheapest_by_width(tables: Tables, style: plot.Style) -> plot.Figure:
    cheapest = _cheapest(need_k(need(tables, MAHALANOBIS)))
    widths = sorted(cheapest["m"].unique())
    if len(widths) < 2:
        raise UserError(
            f"{where(tables[MAHALANOBIS])}.variants needs W-asymmetric variants with sigma_F 1 of two widths or more; "
            "add sweep: {network.widths: [[16], [64]]}."
        )
    rows = cheapest.assign(root=signed_sqrt(cheapest["swap_cost"]), label=cheapest["m"].map("$m$ = {}".format))
    rows["share"] = rows.groupby(MODEL)["root"].rank(method="first", pct=True)
    mixtures = rows["k"].map("Gaussian mixture, $k$ = {:g}".format)
    rows["panel"] = rows["dataset"].mask(rows["source"] == "gmm", mixtures)
    looks = assign_looks([f"$m$ = {m}" for m in widths], style, ordered=True, marked=False)
    networks = rows[MODEL].drop_duplicates().groupby("variant").size().max()
    label = "cost of a neuron's cheapest swap,\nsigned square root (weight norm)"
    return facets(
        rows, "root", "share", looks, column="panel", axes=labelled(label, "share of neurons", ylim=(0, 1)),
        draw=draw_each, options={"unit": MODEL, "marker": "", "drawstyle": "steps-post", "alpha": 0.7},
        more=lambda axis, _: axis.axvline(0, color="0.7", linewidth=0.6, zorder=0),
        width=plot.PAGE if rows["dataset"].nunique() > 1 else 1.3 * plot.COLUMN,
        note=f"a line a network, n = {networks}",
    )  # fmt: skip


def _cheapest(costs: pd.DataFrame) -> pd.DataFrame:
    """The cost of each first-layer neuron's cheapest swap, at W 1, with the number m of neurons."""
    rows = costs[W_1(costs) & (costs["layer"] == 1)]
    either = pd.concat([rows.assign(neuron=rows["i"]), rows.assign(neuron=rows["j"])])
    least = either.groupby([*MODEL, "neuron"], sort=False)["swap_cost"].agg(lambda each: each.min(skipna=False))
    found = describe(least.reset_index(), costs)
    return found.assign(m=found.groupby(MODEL)["neuron"].transform("size"))


FIGURES = {
    "identifiability-thm4.6": Drawing(
        "Cheapest swaps by width (Section 6, Q3; Thm. 4.6)",
        "Cost of each first-layer neuron's cheapest swap in W-asymmetric networks with σ_F = 1, as a distribution "
        "over the neurons of a network, by the layer's width m at fixed k, study `{study}`. Shown is sign(Δ)·√|Δ|, "
        "in units of weight norm.",
        cheapest_by_width,
        seen="The share of neurons with a cheap swap is {width:%} larger in the widest networks than in the narrowest.",
        differs="The paper has no such figure.",
    ),
}


def accessible_by_width(tables: Tables) -> list[Found]:
    costs = tables[MAHALANOBIS].dropna(subset="k")
    first = costs[W_1(costs) & (costs["layer"] == 1)]
    level = SMALL * first.groupby(MODEL)["swap_cost"].agg(lambda each: np.median(each)).rename("level")
    cheapest = _cheapest(costs).join(level, on=MODEL)
    low = is_below(cheapest["swap_cost"], cheapest["level"])
    shares = costs_by_network(cheapest.assign(swap_cost=low), np.mean, by=("m",), name="k = {k:g}")
    return [
        difference
        for k, widths in cheapest.groupby("k")["m"]
        if widths.max() > widths.min()
        for difference in shares.at(k=k, m=widths.max()).differences(shares.at(k=k, m=widths.min()).keyed("k"))
    ]


CLAIMS = {
    "identifiability-thm4.6-width": Claim(
        statement="At fixed low k, more neurons make swaps cheap again",
        quantity="share of layer-1 neurons with a swap below a tenth of the layer's median cost, at σ_F = 1: of the "
        "widest networks less that of the narrowest",
        bound=above(0),
        owner="paper",
        origin="pilot",
        reason="Q3: “for low k and high-enough m, neuron swaps again become accessible at lower weight cost”; no size "
        "is stated. Low cost is read as for Fig. 5. A pilot with one hidden layer asked for the cost of the cheapest "
        "swap instead, which was negative at every width.",
        tables=(MAHALANOBIS,),
        measure=accessible_by_width,
    ),
}
