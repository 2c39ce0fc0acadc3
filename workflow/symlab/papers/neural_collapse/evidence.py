"""What minimised networks tell: which are at an optimum, how values fall with depth, what settings are called."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from symlab.study.cases import Cases, Values, cases
from symlab.study.claim import Case, Claim, Found, slope
from symlab.study.tables import need

RUNS, LAYERS, SAMPLES, OPTIMA = (f"collapse_{name}.csv" for name in ("runs", "layers", "samples", "optima"))
GAP = 0.05
"""The share by which the loss of a network at an optimum is over the least that is known, at most.

Set after a pilot of RN1 on digits, whose three lineages ended 0.4 to 5.2 % over it.
"""
CALM = 1e-3
"""The share of the loss that the gradient's norm of a network at rest is at most: where L-BFGS is told to end."""
ENOUGH = 5
"""Samples for each dimension of the first layer's inputs that make a run evidence."""
METRICS = {"NC1": 1.0, "NC2": 1.0, "NC3": 1.0}
"""What is divided by what where slopes are told."""
INPUTS = ["dataset", "N", "pool", "patch", "every_token"]
"""What tells apart what networks read."""
SETTING = ["network", "pre_norm", "loss", "output_bias", "by_depth", "penalty", "width", *INPUTS]
"""What networks of one depth curve have in common."""
APART = ("N", "pool", "patch")
"""Numbers that a setting's name tells where it has several of them."""
DEPTHS, LINEAGES = 4, 3
"""Depths that a slope needs, and lineages that have it: networks grown from one another, from one random start."""
LARGE = 5
"""The depth from which on the paper calls its curves log-linear."""
paper_claim = partial(Claim, tables=(RUNS, SAMPLES), owner="paper", origin="paper")
derived_claim = partial(Claim, tables=(RUNS, SAMPLES), owner="derived", origin="derived")
our_claim = partial(Claim, tables=(RUNS, SAMPLES), owner="ours", origin="ours")
"""Claims about minimised networks, by whose they are."""


def networks(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """All networks: their ``setting`` in words, ``kind``, NC2 of their loss, the ``excess`` over free features.

    ``within``: whether the loss is within ``GAP`` of the least known. ``open``: why they are no evidence, if so.
    """
    table = need(tables, RUNS)
    # The simplex; squared error without a bias makes rows orthogonal.
    orthogonal = (table["loss"] == "squared_error") & ~table["output_bias"]
    mixed = table["every_token"] | (table["loss"] == "margins")
    table = table.assign(
        NC2=table["NC2A"].where(~orthogonal, table["NC2B"]).mask(mixed),
        NC3=table["NC3"].mask(mixed),
        excess=table["total"] - table["free"],
        within=table["gap"] <= GAP,
    )
    return named(table).assign(open=missing_evidence(tables, table))


def named(table: pd.DataFrame) -> pd.DataFrame:
    """The same rows with their ``setting`` in words and its ``kind``."""
    rows = table.to_dict("records")
    names = pd.Series([name_setting(row) for row in rows], table.index, object)
    for name in APART:
        several = table[name].groupby(names).transform("nunique") > 1
        names = names.mask(several, names + f", {name} = " + table[name].astype(str))
    return table.assign(setting=names, kind=[kind_of(row) for row in rows])


def lineages(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Networks that were grown, the references left out."""
    table = networks(tables)
    return table[table["grown"] & ~table["reference"]]


def name_setting(row: Mapping[str, Any]) -> str:
    """``RN2 split on mnist``."""
    pre = "pre-LN " if row["pre_norm"] else ""
    by = "" if row["by_depth"] == "constant" and row["network"] in ("rn1", "t11") else f" {row['by_depth']}"
    loss = {"squared_error": ", squared error", "margins": ", margins"}.get(row["loss"], "")
    bias = " with bias" if row["loss"] == "squared_error" and row["output_bias"] else ""
    return f"{pre}{str(row['network']).upper()}{by} on {row['dataset']}{loss}{bias}"


def in_lines(setting: str) -> str:
    """A setting's name in lines short enough for the title of a panel."""
    return setting.replace(" on ", "\non ", 1).replace(", ", ",\n").replace(" with ", "\nwith ")


def counted(table: pd.DataFrame) -> str:
    """``3 to 5 networks``: how many each setting has, references aside."""
    of_each = table[~table["reference"]].groupby("setting")["seed"].nunique()
    return f"{' to '.join(map(str, sorted({of_each.min(), of_each.max()})))} networks"


def kind_of(row: Mapping[str, Any]) -> str:
    """What the paper says of a setting: ``plotted`` to collapse, the flat ``control``, ``uniform``, or by a theorem."""
    if row["by_depth"] == "uniform":
        return "uniform"
    if row["network"] in ("rn2", "t12", "t22") and row["by_depth"] == "constant":
        return "control"
    plotted = row["network"] == "t11" or (row["network"] == "rn1" and not row["pre_norm"])
    plotted = plotted and row["loss"] == "cross_entropy" and not row["every_token"]
    return "plotted" if plotted else "theorem"


def slopes(
    rows: pd.DataFrame,
    values: Mapping[str, float],
    least: int = 0,
    within: bool = True,
    several: Callable[[pd.Series], float] = slope,
) -> Cases:
    """Least-squares slope of log10 of each value on log10 L, or ``several``, in each lineage over depths at an optimum.

    A case a setting and value, a unit a lineage; one that has fewer than four depths has no slope.

    Args:
        values: the columns, and what the slope of each is divided by.
        least: the first depth that counts.
        within: whether only networks at an optimum count.
        several: another statistic than the slope, of values by depth.
    """
    rows = rows[(rows["L"] >= least) & (rows["within"] | (not within))]
    rows = rows[rows.groupby(["setting", "seed"])["L"].transform("nunique") >= DEPTHS]
    key = ["setting", *(name for name in SETTING if name in rows)]
    long = rows.melt([*key, "seed", "L"], list(values), "value", "measured", ignore_index=False)
    long = long.sort_index(kind="stable").set_index("L")
    # What a setting does not have is left out; one undefined value makes the slope of its lineage undefined.
    long = long[long.groupby(["setting", "seed", "value"])["measured"].transform("count") > 0]
    each = cases(long, "measured", ["value", *key], name="{value}, {setting}", several=several)
    return Cases(tuple(replace(one, values=one.values / values[one.case.key["value"]]) for one in each), "lineages")


def slopes_at_optima(
    rows: pd.DataFrame,
    values: Mapping[str, float],
    least: int = 0,
    several: Callable[[pd.Series], float] = slope,
) -> Cases:
    """``slopes`` of lineages at an optimum, or of all, which then decide nothing, where these are too few."""
    chosen: list[Values] = []
    best = {each.case: each for each in slopes(rows, values, least, several=several)}
    for every in slopes(rows, values, least, within=False, several=several):
        of_setting = rows[(rows["setting"] == every.case.key["setting"]) & (rows["L"] >= least)]
        told = f"{int(of_setting['within'].sum())} of {len(of_setting)} networks within {GAP:.0%} of the least known"
        at_optimum = best.get(every.case, every)
        enough = every.case in best and len(at_optimum.values) >= min(LINEAGES, len(every.values))
        each = replace(at_optimum, told=told) if enough else replace(every, open=f"not at an optimum: {told}")
        chosen.append(replace(each, open=of_setting["open"].iloc[0] or each.open))
    return Cases(tuple(chosen), "lineages")


def slopes_of(
    tables: Mapping[str, pd.DataFrame],
    values: Mapping[str, float],
    chosen: Callable[[pd.DataFrame], pd.Series],
    least: int = 0,
    several: Callable[[pd.Series], float] = slope,
) -> list[Found]:
    """Mean slope over lineages of each setting and value; undecided where too few lineages are at an optimum.

    Args:
        chosen: which rows of ``lineages`` are meant.
    """
    rows = lineages(tables)
    rows = rows[chosen(rows)]
    if rows.empty:
        return ["no such networks in this study"]
    found = slopes_at_optima(rows, values, least, several).means()
    return found or [f"needs networks of {DEPTHS} depths{f' from {least} on' if least else ''}"]


def from_scratch(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Networks of each depth from random weights by Adam and L-BFGS, as the paper trains each by itself."""
    table = networks(tables)
    return table[~table["grown"] & (table["optimizer"] == "lbfgs")]


def slopes_from_scratch(
    rows: pd.DataFrame,
    values: Mapping[str, float],
    least: int = 0,
    several: Callable[[pd.Series], float] = slope,
) -> Cases:
    """``slopes`` of networks of each depth by itself, a unit a seed, whatever their loss.

    Where some do not fit every sample, once more of the others: the paper leaves out runs that did not converge.
    """
    rows = rows[rows["L"] >= least]
    fits, found = rows["accuracy"] == 1, list[Values]()
    some = rows["setting"].isin(rows.loc[~fits, "setting"])
    for kept, name, fitting in ((rows, "", False), (rows[fits & some], ", of those that fit", True)):
        for each in slopes(kept, values, within=False, several=several):
            of = rows[rows["setting"] == each.case.key["setting"]]
            told = f"{int(fits[of.index].sum())} of {len(of)} networks fit every sample; losses over the least known: "
            told += f"{of['gap'].median():.0%} in the median"
            case = Case(f"{each.case}{name}", **each.case.key, fitting=fitting)
            found.append(replace(each, case=case, told=told, open=of["open"].iloc[0]))
    return Cases(tuple(found), "seeds")


def rank_of_inputs(tables: Mapping[str, pd.DataFrame], rows: pd.DataFrame) -> pd.Series:
    """The rank of what the first layer of each network reads; not a number where it is not known."""
    ranks = tables[SAMPLES] if SAMPLES in tables else pd.DataFrame(columns=[*INPUTS, "rank"])
    known = ranks.groupby(INPUTS)["rank"].max()
    return pd.Series(known.reindex(pd.MultiIndex.from_frame(rows[INPUTS])).to_numpy(float), rows.index)


def missing_evidence(tables: Mapping[str, pd.DataFrame], rows: pd.DataFrame) -> pd.Series:
    """Why networks are no evidence, if so: fewer samples than five times the rank of what the first layer reads.

    That layer has no penalty; where samples are as few as the rank it collapses them alone, without any depth.
    """
    ratio = rows["N"] / rank_of_inputs(tables, rows)
    few = ratio.map("no evidence: {:.2g} samples for each dimension that the first layer reads".format)
    told = few.where(ratio < ENOUGH, "")
    return told.mask(ratio.isna(), "no evidence: the rank of what the first layer reads is not known")
