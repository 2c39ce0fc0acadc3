"""What a budget of decay does to parameters and neurons, over widths."""

from dataclasses import replace

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.deep.fig_06_homogeneity import NETWORK
from symlab.papers.mirror_symmetry.deep.fig_07_products import (
    LEAST,
    PLAIN,
    PRODUCTS,
    PRUNED,
    SIZES,
    VANISHED,
    mean_shares,
    that_learned,
)
from symlab.plotting.style import Style
from symlab.plotting.types import Figure
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Found, Tables, at_most
from symlab.study.facets import Panel, assign_looks, draw_grid
from symlab.study.tables import last_epoch, need

ALIKE = "homogeneity.csv"


def _width(rows: pd.DataFrame) -> pd.Series:
    return rows["width"].map(lambda width: "" if pd.isna(width) else f", width {width:g}")


def vanished_of_all(tables: Tables) -> pd.DataFrame:
    """Share of parameters below 1e-6 at the end, of standard networks and products of every width that learned."""
    rows = last_epoch(need(tables, SIZES))
    rows = rows[np.isclose(rows["threshold"], VANISHED) & rows["trained_as"].isin((PLAIN, PRODUCTS))]
    rows = rows[rows["scheme"].isin(("standard", "hadamard"))].assign(label=lambda of: of["trained_as"] + _width(of))
    return that_learned(tables, rows)


def _against_budget(tables: Tables, style: Style) -> Figure:
    sizes = vanished_of_all(tables).query("undecided == ''")
    alike = last_epoch(need(tables, ALIKE))
    alike = alike[(alike["kind"] == "pre") & (alike["scheme"] == "standard")]
    alike = alike.assign(label=PLAIN + _width(alike))
    names = list(dict.fromkeys([*sizes["label"], *alike["label"]]))

    def panel(rows: pd.DataFrame, column: str, share: str) -> Panel:
        axes = {"xlabel": "budget of decay B", "ylabel": f"share of {share}"}
        return Panel(rows, "budget", column, axes, options={"unit": NETWORK, "band": False})

    first = panel(sizes, "share", "|θ| < 1e-6")
    first = replace(first, more=lambda axis: axis.axvline(LEAST, color="0.5", linestyle="--", linewidth=0.7))
    grid = [first, panel(alike, "positive", "correlated pairs"), panel(alike, "close", "merged pairs")]
    return draw_grid([grid], assign_looks(names, style), sharey=False)


def beyond_decay(tables: Tables) -> list[Found]:
    """Share of products below 1e-6 at the end, less what lay below 1e-6 e^(2B) before training, of small budgets.

    Open where the table does not tell the latter.
    """
    rows = vanished_of_all(tables)
    rows = rows[(rows["trained_as"] == PRODUCTS) & (rows["budget"] < LEAST)].sort_values("budget")
    start = need(tables, SIZES).query("epoch == 0")
    curves = {key: of.set_index("threshold")["share"].sort_index() for key, of in start.groupby(["variant", *NETWORK])}
    by_decay = [
        _below(curves.get((row.variant, row.mask_seed, row.seed)), VANISHED * np.exp(2 * row.budget))
        for row in rows.itertuples()
    ]
    shares, lacking = zip(*by_decay, strict=True) if by_decay else ((), ())
    undecided = rows["undecided"].where(rows["undecided"] != "", list(lacking))
    by = ["label", "budget"]
    # A single network that is open leaves its case open.
    undecided = undecided.groupby([rows[name] for name in by]).transform("max")
    rows = rows.assign(share=rows["share"] - np.array(shares), undecided=undecided)
    found = mean_shares(rows, by, lambda key: f"{key['label']}, B = {key['budget']:.3g}")
    return found or [f"needs products at a budget below {LEAST:.3g}"]


def _below(curve: pd.Series | None, size: float) -> tuple[float, str]:
    """The share below a size, linear between thresholds, as of a density steady next to 0; or NaN and why."""
    if curve is None:
        return np.nan, "no snapshot of epoch 0 tells what decay alone takes to 0"
    if size > (last := curve.index[-1]):
        return np.nan, f"decay alone takes all below {size:.2g} to 0, of which the start is known up to {last:.2g}"
    return float(np.interp(size, [0, *curve.index], [0, *curve])), ""


FIGURES = {
    "mirror-budget": Drawing(
        "What a budget of decay does",
        "B = sum of the rates times decay over (1 - momentum): decay alone takes parameters down by exp(-B) and "
        "products by exp(-2B). Share of parameters below 1e-6 (of networks that do not guess), of perfectly correlated "
        "and of merged pairs of neurons of the last hidden layer at the end, against B; mean and standard deviation "
        "over networks. Dashed: below it decay alone takes no product of size 1 below 1e-6.",
        _against_budget,
        seen="At budgets below that, {least:%} more of the products vanish than decay alone takes there.",
        differs="Not in the paper.",
    ),
}
CLAIMS = {
    "mirror-budget-least": Claim(
        statement="Below a budget of ln(1e6)/2 hardly more products vanish than decay takes to 0 from their start",
        quantity="share of parameters of products below 1e-6 at the end, less that below 1e-6 exp(2B) before "
        "training, of networks that do not guess",
        bound=at_most(0.05),
        tables=(SIZES, PRUNED),
        origin="pilot",
        owner="derived",
        reason="Decay takes products down by exp(-2B); a twentieth is left for those that gradients push to 0. A "
        "twentieth in all was asked until a run had been seen: B = 3.95 takes 7.5 % of a layer of 784 inputs there.",
        measure=beyond_decay,
    ),
}
