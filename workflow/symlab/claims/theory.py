"""Measurements on the tables of bounds: what a theorem bounds, against its bound, where its assumptions hold."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd

from symlab.claims.centres import slope
from symlab.papers.claim import Bound, Measurement, Tables, Verdict, mean, mean_of, spread
from symlab.claims.variants import MODEL, PAIR, Mask, every_row, same_dataset, split_variants

# Rows of a theory table that belong to one place in one network or pair, for people.
_PLACES = ("layer", "side", "permutation", "inputs", "nonlinearity", "pair", "split", "aligned", "matching", "beta")


def exceedance(tables: Tables) -> Verdict:
    """Largest share of neurons above Thm. 4.4's bound for one neuron, of any variant, layer and kind of masks.

    Own and fresh masks count apart; shares are means over models. It holds if no share is above the delta of its rows.
    Layers with constant masks sample nothing and are left out.
    """
    table = _sampled(tables["gram_deviation.csv"])
    return _largest_share(table, table["share_above"])


def exceedance_anywhere(tables: Tables) -> Verdict:
    """Largest share of networks with a neuron above Thm. 4.4's bound for all neurons, as in ``exceedance``."""
    table = _sampled(tables["gram_deviation.csv"])
    ratio = _ratio(table["deviation_max"], table["bound_all"])
    told = f"largest deviation in units of its bound: {ratio[_assumed(table)].max():.3g}; "
    verdict = _largest_share(table, (ratio > 1).astype(float).where(ratio.notna()))
    return verdict if verdict.holds is None else replace(verdict, detail=told + verdict.detail)


def _largest_share(table: pd.DataFrame, shares: pd.Series) -> Verdict:
    rows = table.assign(share=shares)[_assumed(table)]
    if rows.empty:
        return _not_run(table)
    groups = [
        (f"{name}, layer {layer}, {masks} masks", of_group["share"].to_numpy(), of_group["delta"].max())
        for name, of_variant in split_variants(rows, every_row)
        for (layer, masks), of_group in of_variant.groupby(["layer", "masks"])
    ]
    # A share that is not a number ranks first, so that it is not passed over.
    place, values, _ = max(groups, key=lambda each: (np.isnan(mean(each[1])), mean(each[1])))
    holds = all(mean(of_group) <= delta for _, of_group, delta in groups)
    told = f"{place}; delta = {rows['delta'].max():g}; {_count(table)}"
    return Verdict(mean(values), holds, len(values), spread(values), detail=told)


def deviation_from_leading(tables: Tables, side: str, bound: Bound) -> Verdict:
    """Largest |cost / leading term - 1| of a permutation in units of its bound (Thms. 4.5 and 4.7)."""
    table = tables["sensitivity.csv"]
    table = table[table["side"] == side]
    deviation = (table["cost"] / table["leading"] - 1).abs()
    return _worst(table, _ratio(deviation, table["bound"]), bound)


def cost_in_leading_terms(tables: Tables, side: str, largest_rho: float, bound: Bound) -> list[Verdict]:
    """Median cost of a permutation in units of the leading term, for each variant, where rho is small.

    Whether the theorem's other assumption, the concentration of the Gram matrices, holds is told, not asked for.
    """
    table = tables["sensitivity.csv"]
    table = table[table["side"] == side]
    rows = table[table["rho"] <= largest_rho]
    if rows.empty:
        finite = table["rho"][np.isfinite(table["rho"])]
        nearest = "there are no fixed weights" if finite.empty else f"the smallest rho is {finite.min():.3g}"
        return [_without_rows(f"no permutation with rho <= {largest_rho:g}; {nearest}")]
    found = []
    for name, of_variant in split_variants(rows, every_row):
        ratios = (of_variant["cost"] / of_variant["leading"]).to_numpy()
        value = float(np.median(ratios)) if np.isfinite(ratios).all() else float("nan")
        told = f"{np.min(ratios):.3g} to {np.max(ratios):.3g}; {_count(of_variant)}"
        found.append(Verdict(value, bound.allows(value), len(ratios), spread(ratios), name, told))
    return found


def gap_of_neurons(tables: Tables, bound: Bound) -> Verdict:
    """Largest ratio of Thm. 4.6's lower bound to gamma_out."""
    table = tables["network_gaps.csv"]
    table = table[table["gap"] == "out"]
    return _worst(table, _ratio(table["lower"], table["gamma"]), bound)


def gap_of_inputs(tables: Tables, bound: Bound) -> Verdict:
    """Largest ratio of Thm. 4.8's lower bound to gamma_in, or of gamma_in to its upper bound."""
    table = tables["network_gaps.csv"]
    table = table[table["gap"] == "in"]
    ratios = pd.DataFrame(
        {"low": _ratio(table["lower"], table["gamma"]), "high": _ratio(table["gamma"], table["upper"])}
    )
    return _worst(table, ratios.max(axis="columns", skipna=False), bound)


def growth_of_gamma_in(tables: Tables, bound: Bound) -> list[Verdict]:
    """Least-squares slope of log(mean gamma_in over draws) against log m, for each setting of F and data set.

    Over the widths m >= 12 (1/p + 1) log(d^2), p the fraction of fixed entries: Thm. 4.8 needs m to be large beside
    log(d^2) and the fourth moment of F's entries. The difference z of two entries has E z^4 / (E z^2)^2 =
    1.5 (1/p + 1), and from that width on, the least of the d^2 / 2 sums of m squares is above half its mean.
    """
    table = tables["centre_gaps.csv"]
    enough = 12 * (1 / table["fixed_fraction"] + 1) * np.log(table["d"].astype(float) ** 2)
    found, narrow = [], []
    for (dataset, sigma_F, fraction), rows in table.groupby(["dataset", "sigma_F", "fixed_fraction"], sort=False):
        case = f"{dataset}, sigma_F = {sigma_F:g}, fixed_fraction = {fraction:g}"
        gaps = rows[rows["m"] >= enough[rows.index]].pivot(index="m", columns="draw", values="gamma_in")
        if len(gaps) < 2:
            narrow.append(f"{case} from m = {enough[rows.index].min():.0f}")
            continue
        of_draws = np.array([slope(gaps[draw]) for draw in gaps])
        value = slope(gaps.mean(axis="columns", skipna=False))
        told = f"m = {gaps.index.min():g} to {gaps.index.max():g}"
        found.append(Verdict(value, bound.allows(value), len(of_draws), spread(of_draws), case, told))
    left = f"no two widths are large enough: {'; '.join(narrow)}"
    if not found:
        return [_without_rows(left)]
    return [replace(verdict, detail=f"{verdict.detail}; {left}" if narrow else verdict.detail) for verdict in found]


def chord_over_bound(tables: Tables, nonlinearity: str, bound: Bound) -> Verdict:
    """Largest chord deviation of a layer in units of its bound (Thms. 5.1 and D.1)."""
    table = tables["chord_deviation.csv"]
    table = table[table["nonlinearity"] == nonlinearity]
    return _worst(table, _ratio(table["chord"], table["bound"]), bound)


def chord_exponent(tables: Tables, nonlinearity: str, largest_beta: float) -> list[Measurement]:
    """Least-squares slope of log chord deviation against log beta, mean over the layers of all pairs.

    From Gaussian inputs and the scales with beta up to ``largest_beta``; a layer with fewer than two is left out.
    """
    table = tables["chord_deviation.csv"]
    rows = table[(table["nonlinearity"] == nonlinearity) & (table["inputs"] == "gaussian") & _assumed(table)]
    # The negation keeps a beta that is not a number, which is to show.
    rows = rows[~(rows["beta"] > largest_beta)]
    slopes = [
        slope(layer.set_index("beta")["chord"])
        for _, layer in rows.groupby(["variant", *PAIR, "layer"])
        if len(layer) > 1
    ]
    if not slopes:
        return []
    told = f"beta = {rows['beta'].min():.2g} to {rows['beta'].max():.2g}"
    return [mean_of(np.array(slopes), detail=told)]


def excess_over_chord(tables: Tables, bound: Bound) -> Verdict:
    """Largest excess of a path's loss gap over Prop. 5.2's bound, in units of the bound there, or of 1 if smaller."""
    table = tables["loss_bounds.csv"]
    # An infinite bound shows nothing.
    verdict = _worst(table, table["excess_max"].where(np.isfinite(table["bound_at_max"])), bound)
    share = (table["barrier_max"] / table["bound_at_max"]).to_numpy()
    defined = share[np.isfinite(share)]
    typical = f"; median barrier in units of its bound: {np.median(defined):.3g}" if len(defined) else ""
    return verdict if verdict.holds is None else replace(verdict, detail=verdict.detail + typical)


def cost_over_surrogate(tables: Tables, bound: Bound) -> Verdict:
    """Largest ratio of a relaxed realization cost to the bound of Thm. E.4."""
    table = tables["ridge_costs.csv"]
    return _worst(table, table["bound_ratio_max"], bound)


def accuracy_lost(tables: Tables, which: Mask, errors: float, ratio_margin: float) -> list[Verdict]:
    """By how many percentage points validation accuracy at the largest sigma_F is below the best of the sweep.

    One value a data set with three values of sigma_F or more and two pairs at each. It holds if the loss is ``errors``
    standard errors or more, while the ratio of identity to optimal objective is at most ``ratio_margin`` below that of
    the most accurate networks. The standard error comes from the deviations between pairs, pooled over the sweep.
    """
    table = tables["trade_off.csv"]
    found = []
    for _, first in split_variants(table[which(table)].drop_duplicates("dataset"), every_row):
        rows = same_dataset(table[which(table)], first)
        by_sigma = rows.groupby("sigma_F")
        accuracy = 100 * by_sigma["val_accuracy"].agg(_mean)
        ratio = by_sigma["identity_ratio"].agg(_mean)
        n = by_sigma.size()
        if len(n) >= 3 and n.min() >= 2:
            # An accuracy that is not a number counts as the best: the loss is then undefined.
            best = accuracy.isna().idxmax() if accuracy.isna().any() else accuracy.idxmax()
            last = accuracy.index.max()
            residuals = 100 * rows["val_accuracy"] - rows["sigma_F"].map(accuracy)
            variance = np.sum(residuals**2) / (len(rows) - len(n))
            error = float(np.sqrt(variance * (1 / n[best] + 1 / n[last])))
            lost = float(accuracy[best] - accuracy[last])
            holds = bool(lost > 0 and lost >= errors * error and ratio[last] >= ratio[best] - ratio_margin)
            told = (
                f"sigma_F = {best:g}: {accuracy[best]:.4g} %, ratio {ratio[best]:.3g}; "
                f"sigma_F = {last:g}: {accuracy[last]:.4g} %, ratio {ratio[last]:.3g}; standard error {error:.2g} pp"
            )
            case = str(first["dataset"].iloc[0]) if table["dataset"].nunique() > 1 else ""
            found.append(Verdict(lost, holds, int(n.min()), None, case, told))
    return found or [_without_rows("needs three values of sigma_F and two pairs at each")]


def _mean(values: pd.Series) -> float:
    return mean(values.to_numpy())


def _sampled(gram: pd.DataFrame) -> pd.DataFrame:
    return gram[gram["sigma_D2"] != 0]


def _assumed(table: pd.DataFrame) -> pd.Series:
    """Rows in which all assumptions hold: an empty phrase, which a CSV file gives back as NaN."""
    return table["assumption"].isna() | (table["assumption"] == "")


def _ratio(value: pd.Series, bound: pd.Series) -> pd.Series:
    """value / bound; NaN if either is not finite, because an infinite bound shows nothing."""
    return (value / bound).where(np.isfinite(value) & np.isfinite(bound))


def _worst(table: pd.DataFrame, values: pd.Series, bound: Bound) -> Verdict:
    """The largest of one value a row among rows whose assumptions hold, where it is, and how many rows those are."""
    rows = table[_assumed(table)] if "assumption" in table else table
    if rows.empty:
        return _not_run(table)
    chosen = values[rows.index]
    # Not a number is the worst there is, where idxmax would pass it over.
    at = chosen.isna().idxmax() if chosen.isna().any() else chosen.idxmax()
    value = float(chosen[at])
    told = f"largest at {_place(rows, at)}" + (f"; {_count(table)}" if "assumption" in table else "")
    return Verdict(value, bound.allows(value), len(rows), None, detail=told)


def _place(rows: pd.DataFrame, at: int) -> str:
    variant = rows.loc[at, "variant"]
    (name,) = (name for name, of_variant in split_variants(rows, every_row) if of_variant["variant"].iloc[0] == variant)
    places = [f"{column} {_short(rows.loc[at, column])}" for column in _PLACES if column in rows]
    return ", ".join([name, *places])


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _count(table: pd.DataFrame) -> str:
    models = len(table.groupby([column for column in (*MODEL, "pair") if column in table]))
    kind = "pairs" if "pair" in table else "networks"
    return f"assumptions hold in {int(_assumed(table).sum())} of {len(table)} rows of {models} {kind}"


def _not_run(table: pd.DataFrame) -> Verdict:
    if table.empty:
        return _without_rows("nothing is sampled in these networks")
    # Numbers differ from row to row; the phrases around them are few.
    phrases = table["assumption"].str.replace(r"-?\d+(\.\d+)?(e[+-]?\d+)?", "...", regex=True, flags=re.IGNORECASE)
    told = ", ".join(f"{phrase} ({count})" for phrase, count in phrases.value_counts().head(3).items())
    return _without_rows(f"{_count(table)}: {told}")


def _without_rows(reason: str) -> Verdict:
    return Verdict(float("nan"), None, 0, detail=reason)
