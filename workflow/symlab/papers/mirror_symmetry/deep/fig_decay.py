"""What decay does: by which budget, to which pairs of neurons, and without the symmetry, which fixed weights remove."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.deep.fig_03_06_homogeneity import NETWORK, TABLE
from symlab.papers.mirror_symmetry.deep.fig_07_products import (
    LEAST,
    PLAIN,
    PRODUCTS,
    PRUNED,
    SIZES,
    VANISHED,
    opened,
    that_learned,
)
from symlab.plotting.style import Axes, Figure, Look, Style, palette
from symlab.study.card import Drawing
from symlab.study.cases import cases
from symlab.study.claim import Claim, Found, Tables, at_least, at_most, below
from symlab.study.facets import BARS, Panel, assign_looks, draw_grid, draw_rows, labelled
from symlab.study.tables import last_epoch, need, some

PAIRS = "neuron_pairs.csv"
ALIKE, NORM = 0.95, 0.3
"""Correlation from which neurons count as one, and half the norm of a neuron's weights before training."""
SCHEMES = {"standard": "standard", "w_asymmetric": "W", "syre": "syre"}


def strengths(tables: Tables) -> pd.DataFrame:
    """Last rows before the activation, at the largest decay that fixed weights have, with ``label``, their scheme."""
    rows = last_epoch(need(tables, TABLE)).query("kind == 'pre' and scheme in @SCHEMES")
    fixed = rows[rows["scheme"] != "standard"]
    rows = rows[rows["weight_decay"] == fixed["weight_decay"].max()]
    standard = rows["scheme"] == "standard"
    return rows.assign(label=rows["scheme"].map(SCHEMES), sigma_F=rows["sigma_F"].mask(standard, 0.0))


def _merging_and_symmetry(tables: Tables, style: Style) -> Figure:
    rows, pairs = strengths(tables), need(tables, PAIRS)
    pairs = pairs[pairs["weight_decay"] > 0]
    looks = assign_looks(list(dict.fromkeys(rows["label"])), style)
    smallest = rows.loc[rows["sigma_F"] > 0, "sigma_F"].min()
    merged, apart = palette(style, 6)[4:]
    looks |= {"merged pairs": Look(merged, "", "."), "other pairs": Look(apart, "", ".")}
    pairs = pairs.assign(label=np.where(pairs["merged"], "merged pairs", "other pairs"))

    def scale(axis: Axes) -> None:
        if np.isfinite(smallest):
            axis.set_xscale("symlog", linthresh=smallest, linscale=0.5)

    def zero(axis: Axes) -> None:
        axis.axhline(0, color="0.7", linewidth=0.6)
        axis.set_yscale("symlog", linthresh=1e-3)

    networks = {"positive": "share of correlated pairs", "closest": "distance of the closest pair"}
    of_pairs = {"curvature": "curvature with decay", "exponent": "exponent Λ of SGD"}
    strength, distance = "σ_F of fixed weights", "distance of the pair's weights"
    grid = [
        [Panel(rows, "sigma_F", y, labelled(strength, name), more=scale, options=BARS) for y, name in networks.items()],
        [Panel(pairs, "distance", y, labelled(distance, name), draw_rows, more=zero) for y, name in of_pairs.items()],
    ]
    grid = [along for along in grid if len(along[0].rows)]
    return draw_grid(grid, looks, sharex=False, sharey=False, height=2.1)


def holds_apart(rows: pd.DataFrame) -> pd.Series:
    """Whether fixed weights hold neurons whose trained parts are equal farther apart than counts as alike.

    Decay draws the weights w of two neurons to a difference of F_a - F_b, of norm sigma_F sqrt(2p) for p weights. Of
    neurons of norm r cos(w_a, w_b) is then 1 - p sigma_F^2 / r^2; r is 0.6 at torch's start, and half of it is taken.
    Masks (of W) leave two neurons few weights in common, at any sigma_F.
    """
    p = rows["width"] + rows["classes"] + 1
    cosine = 1 - p * rows["sigma_F"] ** 2 / NORM**2
    return (rows["scheme"] == "w_asymmetric") | (cosine < ALIKE)


def _fewer_without_symmetry(tables: Tables) -> list[Found]:
    rows = strengths(tables).sort_values("sigma_F")[lambda of: (of["scheme"] == "standard") | holds_apart(of)]
    names = {scheme: f"{name}, σ_F = {{sigma_F:g}}" for scheme, name in SCHEMES.items()}
    found = cases(rows, "positive", ["scheme", "sigma_F"], NETWORK, lambda key: names[key["scheme"]].format(**key))
    ratios = found.without(scheme="standard").ratios(found.at(scheme="standard").keyed())
    return ratios or ["needs W-asymmetric networks, or syre's of a large sigma_F, with the standard ones' decay"]


def area_under_curve(pairs: pd.DataFrame, column: str) -> float:
    """The chance that of a merged and a separate pair the merged has the larger value; NaN without both."""
    merged, apart = (pairs.loc[pairs["merged"] == is_so, column].to_numpy() for is_so in (True, False))
    if not len(merged) or not len(apart) or pairs[["merged", column]].isna().any(axis=None):
        return float("nan")
    wins = merged[:, None] - apart[None, :]
    return float(np.mean((wins > 0) + (wins == 0) / 2))


def _tells_drawn(tables: Tables) -> list[Found]:
    """Of the closest pairs, those that are one left out, which draw nearer by the end, by the exponent before."""
    pairs = tables[PAIRS]
    drawn = pairs.assign(merged=(pairs["change"] < 0).where(pairs["change"].notna()), score=-pairs["exponent"])
    return _areas(drawn[drawn["near"] & (drawn["distance"] > 0)])


def why_not_told(tables: Tables) -> Iterator[tuple[str, str]]:
    """How far the closest pairs go until the end, and would by the curvature; whether distance tells which merge."""
    pairs = tables[PAIRS].assign(score=-tables[PAIRS]["distance"], last=tables[TABLE]["epoch"].max())
    of_networks = pairs.groupby(["weight_decay", *NETWORK])
    areas = of_networks.apply(area_under_curve, column="score", include_groups=False).groupby(level=0).mean()
    # At one rate the budget over the decay is the sum of rates / (1 - momentum), of the whole training.
    pairs["told"] = pairs.eval("curvature * budget / weight_decay * (1 - epoch / last)")
    for decay, of in pairs.query("near and distance > 0 and weight_decay > 0").groupby("weight_decay"):
        gone, told = of[["change", "told"]].abs().median()
        if np.isnan(gone):
            continue
        known = "Pairs do not go as far as" if gone < told / 2 else "Not known: pairs go as far as"
        area = f"; distance tells before which merge (area {areas[decay]:.2g})" if areas[decay] > 0.8 else ""
        moved = f"ln|θ_a - θ_b| of the {len(of)} closest changes by {gone:.2g} until the end, in the median"
        yield f"decay {decay:g}", f"{known} the curvature at that moment says: {moved}, and would by {told:.2g}{area}."


def _areas(pairs: pd.DataFrame) -> list[Found]:
    both = pairs.groupby([*NETWORK, "weight_decay"])["merged"].transform("nunique") == 2
    of_both = some(pairs[both], "no network has merged and separate pairs").groupby(["weight_decay", *NETWORK])
    areas = of_both.apply(area_under_curve, column="score", include_groups=False)
    return cases(areas, by=["weight_decay"], unit=NETWORK, name="decay {weight_decay:g}").means()


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
    alike = last_epoch(need(tables, TABLE)).query("kind == 'pre' and scheme == 'standard'")
    alike = alike.assign(label=PLAIN + _width(alike))
    names = list(dict.fromkeys([*sizes["label"], *alike["label"]]))

    shown = (sizes, "share", "|θ| < 1e-6"), (alike, "positive", "correlated pairs"), (alike, "close", "merged pairs")
    budget = partial(labelled, "budget of decay B")
    first, *others = (Panel(rows, "budget", of, budget(f"share of {share}"), options=BARS) for rows, of, share in shown)
    first = replace(first, more=lambda axis: axis.axvline(LEAST, color="0.5", linestyle="--", linewidth=0.7))
    return draw_grid([[first, *others]], assign_looks(names, style), sharey=False)


def beyond_decay(tables: Tables) -> list[Found]:
    """Share of products below 1e-6 at the end, less what lay below 1e-6 e^(2B) before training, of small budgets."""
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
    found = opened(rows, "share", by, lambda key: f"{key['label']}, B = {key['budget']:.3g}")
    return found.means() or [f"needs products at a budget below {LEAST:.3g}"]


def _below(curve: pd.Series | None, size: float) -> tuple[float, str]:
    """The share below a size, linear between thresholds, as of a density steady next to 0; or NaN and why."""
    if curve is None:
        return np.nan, "no snapshot of epoch 0 tells what decay alone takes to 0"
    if size > (last := curve.index[-1]):
        return np.nan, f"decay alone takes all below {size:.2g} to 0, of which the start is known up to {last:.2g}"
    return float(np.interp(size, [0, *curve.index], [0, *curve])), ""


FIGURES = {
    "mirror-removed": Drawing(
        "Alike neurons with the symmetry and without",
        "Against the strength σ_F of fixed weights that remove the permutation symmetry (0: standard networks), where "
        "networks have them: the share of the pairs of live neurons of the last hidden layer that are correlated above "
        "`homogeneity.correlated`, and the distance of the closest pair, at the same decay; mean and standard "
        "deviation over networks. Against the distance of their weights, of the closest pairs and as many others in "
        "standard networks with decay, at the last snapshot before the end: the curvature of loss and decay at their "
        "mean in the direction in which both neurons differ, and the exponent by which SGD's batches take them apart; "
        "pairs that have merged at the end have a colour of their own. In the mean loss the mirror attracts where the "
        "curvature is positive, under SGD where the exponent is negative.",
        _merging_and_symmetry,
        seen="Of the standard networks' correlated pairs fixed weights leave {fewer:%}.",
        differs="Not in the paper, which has no control.",
    ),
    "mirror-budget": Drawing(
        "What a budget of decay does",
        "B = sum of the rates times decay over (1 - momentum): decay alone takes parameters down by exp(-B) and "
        "products by exp(-2B). Against B, at the end: the share of parameters below 1e-6 (of networks that do not "
        "guess), and of pairs of neurons of the last hidden layer that are correlated above `homogeneity.correlated` "
        "or have merged; mean and standard deviation over networks. Dashed: below it decay alone takes no product of "
        "size 1 below 1e-6.",
        _against_budget,
        seen="At budgets below that, {least:%} more of the products vanish than decay alone takes there.",
        differs="Not in the paper.",
    ),
}
_claim = partial(Claim, tables=(PAIRS, TABLE), owner="derived", origin="ours")
CLAIMS = {
    "mirror-removed-fewer": Claim(
        statement="Where fixed weights hold neurons apart fewer grow alike",
        quantity="share of correlated pairs as a part of that of standard networks with the same decay, at strengths "
        "at which neurons of equal trained weights are no more alike than 0.95",
        bound=below(0.5),
        owner="ours",
        origin="pilot",
        reason="Decay draws neurons to the difference of their fixed weights, and below σ_F = 0.3 sqrt(0.05 / weights "
        "of a neuron) two at that difference still count as one, if their norm is half of that at the start; masks "
        "leave few weights in common at any σ_F. Half is our word for fewer. All strengths were judged until the run "
        "had been seen: what is left out failed there.",
        tables=(TABLE,),
        measure=_fewer_without_symmetry,
    ),
    "mirror-removed-curvature": _claim(
        statement="The pairs that merge are those at whose mirror the curvature is positive",
        quantity="area under the curve: merged against separate pairs, by n^T H n + decay at the pair's mean",
        bound=at_least(0.8),
        reason="Section 2.4 calls a mirror attractive where this is positive; 0.5 would be chance.",
        measure=lambda tables: _areas(tables[PAIRS].eval("score = curvature")),
        why=why_not_told,
    ),
    "mirror-removed-exponent": _claim(
        statement="The pairs that merge are those that SGD's batches draw together",
        quantity="area under the curve: merged against separate pairs, by -E log|1 - lr (n^T H n + decay)| of batches",
        bound=at_least(0.8),
        reason="Theorem 5: SGD ends where its noise, not the mean loss, decides; 0.5 would be chance.",
        measure=lambda tables: _areas(tables[PAIRS].eval("score = -exponent")),
        why=why_not_told,
    ),
    "mirror-removed-drawn": _claim(
        statement="Of the pairs that differ least those draw nearer that the exponent says",
        quantity="area under the curve: pairs that are nearer at the end against those that are not, of the closest at "
        "the last snapshot before it, by -E log|1 - lr (n^T H n + decay)| there",
        bound=at_least(0.8),
        reason="The exponent is that of the distance next to the mirror: of close pairs; 0.5 would be chance.",
        measure=_tells_drawn,
        why=why_not_told,
    ),
    "mirror-budget-least": _claim(
        statement="Below a budget of ln(1e6)/2 hardly more products vanish than decay takes to 0 from their start",
        quantity="share of parameters of products below 1e-6 at the end, less that below 1e-6 exp(2B) before "
        "training, of networks that do not guess",
        bound=at_most(0.05),
        tables=(SIZES, PRUNED),
        origin="pilot",
        reason="Decay takes products down by exp(-2B); a twentieth is left for those that gradients push to 0. A "
        "twentieth in all was asked until a run had been seen: B = 3.95 takes 7.5 % of a layer of 784 inputs there.",
        measure=beyond_decay,
    ),
}
