"""What minimised networks tell: which are at an optimum, how values fall with depth, what settings are called."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.neural_collapse.found import DATA, NETWORKS, PENALTIES, VALUES
from symlab.study.cases import Cases, Values, cases
from symlab.study.claim import Case, Claim, Found, Tables
from symlab.study.statistics import slope
from symlab.study.tables import need

RUNS, LAYERS, SAMPLES = (f"collapse_{name}.csv" for name in ("runs", "layers", "samples"))
GAP = 0.05
"""The share by which the loss of a network at an optimum is over the least that is known, at most.

Set after a pilot of RN1 on digits, whose three lineages ended 0.4 to 5.2 % over it.
"""
CALM = 1e-3
"""The share of the loss that the gradient's norm of a network at rest is at most: where L-BFGS is told to end."""
ENOUGH = 5
"""Samples for each dimension of the first layer's inputs that make a run evidence."""
METRICS = ("NC1", "NC2", "NC3")
INPUTS = ["dataset", "N", "pool", "patch", "every_token"]
"""What tells apart what networks read."""
SETTING = ["network", "pre_norm", "loss", "output_bias", "by_depth", "penalty", "width", *INPUTS]
"""What networks of one depth curve have in common."""
APART = ("N", "pool", "patch")
"""Numbers that a setting's name tells where it has several of them."""
DEPTHS, LINEAGES = 4, 3
"""Depths that a slope needs, and lineages that have it: networks grown from one another, from one random start."""
DOCS = "(docs/explanation/papers/neural-collapse.md)"
"""Where a case's explanation is told with its numbers."""
LACKS = f"needs such networks of {DEPTHS} depths"
Statistic = Callable[[pd.Series], float]
"""Of values by depth."""
Chosen = Callable[[pd.DataFrame], pd.Series]
"""Which rows are meant."""
paper_claim = partial(Claim, tables=(RUNS, SAMPLES), owner="paper", origin="paper")
derived_claim = partial(Claim, tables=(RUNS, SAMPLES), owner="derived", origin="derived")
our_claim = partial(Claim, tables=(RUNS, SAMPLES), owner="ours", origin="ours")
"""Claims about minimised networks, by whose they are."""


def networks(tables: Tables) -> pd.DataFrame:
    """All networks, ``named``: NC2 of their loss, the ``excess`` over free features.

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
    """The same rows with their ``setting`` in words, its ``title`` for a picture, and its ``kind``.

    A title is ``RN2 split on mnist, margins``; parts of it are ``called``, RN2, and ``of_loss``. The kind is what the
    paper says: ``plotted`` to collapse, the flat ``control``, ``uniform`` (every penalty at λ/L), or by a ``theorem``.
    """
    network, by, constant = table["network"], table["by_depth"], table["by_depth"] == "constant"
    loss = table["loss"].map({"cross_entropy": "", "squared_error": ", squared error", "margins": ", margins"})
    loss += np.where(table["output_bias"] & (table["loss"] == "squared_error"), " with bias", "")
    plain = (network == "t11") | ((network == "rn1") & ~table["pre_norm"])
    plain &= (table["loss"] == "cross_entropy") & ~table["every_token"]
    control = network.isin(["rn2", "t12", "t22"]) & constant
    kind = np.select([by == "uniform", control, plain], ["uniform", "control", "plotted"], "theorem")
    called = np.where(table["pre_norm"], "pre-LN ", "") + network.str.upper()
    usual = constant & network.isin(["rn1", "t11"])
    title = called + (" " + by).mask(usual, "") + " on " + table["dataset"] + loss
    words = network.map(NETWORKS) + np.where(table["pre_norm"], ", normalised before blocks (pre-LN)", "")
    words += (", " + by.map(PENALTIES)).mask(usual, "") + ", " + table["dataset"].replace(DATA) + loss
    for name in APART:
        several = table[name].groupby(title).transform("nunique") > 1
        each = (f", {name} = " + table[name].astype(str)).where(several, "")
        title, words = title + each, words + each
    return table.assign(setting=words, title=title, called=called, of_loss=loss, kind=kind)


def lineages(tables: Tables) -> pd.DataFrame:
    """Networks that were grown, the references left out."""
    return networks(tables).query("grown and not reference")


def in_lines(title: str) -> str:
    """A setting's title in lines short enough for a panel."""
    return title.replace(" on ", "\non ", 1).replace(", ", ",\n").replace(" with ", "\nwith ")


def counted(table: pd.DataFrame) -> str:
    """``3 to 5 networks``: how many each setting has, references aside."""
    of_each = table[~table["reference"]].groupby("setting")["seed"].nunique()
    return f"{' to '.join(map(str, sorted({of_each.min(), of_each.max()})))} networks"


def of_kind(*kinds: str) -> Chosen:
    """Networks of settings of which the paper says one of these."""
    return lambda rows: rows["kind"].isin(kinds)


def of_rn1(rows: pd.DataFrame) -> pd.Series:
    """RN1 as the paper plots it: post-LN, under cross-entropy, with a constant penalty."""
    return (rows["network"] == "rn1") & (rows["kind"] == "plotted") & (rows["by_depth"] == "constant")


def slopes(rows: pd.DataFrame, values: Sequence[str], several: Statistic = slope) -> Cases:
    """Least-squares slope of log10 of each value on log10 L, or ``several``, in each lineage.

    A case a setting and value, a unit a lineage; one that has fewer than four depths has no slope.
    """
    rows = rows[rows.groupby(["setting", "seed"])["L"].transform("nunique") >= DEPTHS]
    key = ["setting", *SETTING]
    long = rows.melt([*key, "seed", "L"], list(values), "value", "measured", ignore_index=False)
    long = long.sort_index(kind="stable").set_index("L")
    # What a setting does not have is left out; one undefined value makes the slope of its lineage undefined.
    long = long[long.groupby(["setting", "seed", "value"])["measured"].transform("count") > 0]
    name = lambda key: f"{VALUES[key['value']]}, {key['setting']}"  # noqa: E731
    found = cases(long, "measured", ["value", *key], name=name, several=several)
    return replace(found, unit="lineages")


def slopes_at_optima(rows: pd.DataFrame, values: Sequence[str], several: Statistic = slope) -> Cases:
    """``slopes`` of lineages at an optimum, or of all, which then decide nothing, where these are too few."""
    chosen: list[Values] = []
    best = {each.case: each for each in slopes(rows[rows["within"]], values, several)}
    for every in slopes(rows, values, several):
        of_setting = rows[rows["setting"] == every.case.key["setting"]]
        told = f"{int(of_setting['within'].sum())} of {len(of_setting)} networks within {GAP:.0%} of the least known"
        each = replace(every, open=f"not at an optimum: {told}")
        if every.case in best and len(best[every.case].values) >= min(LINEAGES, len(every.values)):
            each = replace(best[every.case], told=told)
        chosen.append(replace(each, open=of_setting["open"].iloc[0] or each.open))
    return Cases(tuple(chosen), "lineages")


def slopes_of(tables: Tables, values: Sequence[str], chosen: Chosen, several: Statistic = slope) -> list[Found]:
    """Mean ``slopes_at_optima`` over ``lineages``, of each setting and value."""
    return slopes_at_optima(lineages(tables)[chosen], values, several).means() or [LACKS]


def slopes_from_scratch(
    tables: Tables, values: Sequence[str], chosen: Chosen, several: Statistic = slope
) -> list[Found]:
    """Mean ``slopes`` over seeds, of networks that the paper's way trains, each depth by itself, whatever their loss.

    Where some do not fit every sample, once more of the others: the paper leaves out runs that did not converge.
    """
    rows = networks(tables)
    rows = rows[~rows["grown"] & (rows["optimizer"] == "lbfgs") & chosen(rows)]
    fits, found = rows["accuracy"] == 1, list[Values]()
    some = rows["setting"].isin(rows.loc[~fits, "setting"])
    for kept, name, fitting in ((rows, "", False), (rows[fits & some], ", of those that fit", True)):
        for each in slopes(kept, values, several):
            of = rows[rows["setting"] == each.case.key["setting"]]
            told = f"{int(fits[of.index].sum())} of {len(of)} networks fit every sample; losses over the least known: "
            told += f"{of['gap'].median():.0%} in the median"
            case = Case(f"{each.case}{name}", **each.case.key, fitting=fitting)
            found.append(replace(each, case=case, told=told, open=of["open"].iloc[0]))
    return Cases(tuple(found), "seeds").means() or [f"{LACKS}, each trained from scratch (grown: false)"]


def rank_of_inputs(tables: Tables, rows: pd.DataFrame) -> pd.Series:
    """The rank of what the first layer of each network reads; not a number where it is not known."""
    ranks = tables[SAMPLES] if SAMPLES in tables else pd.DataFrame(columns=[*INPUTS, "rank"])
    known = ranks.groupby(INPUTS)["rank"].max()
    return pd.Series(known.reindex(pd.MultiIndex.from_frame(rows[INPUTS])).to_numpy(float), rows.index)


def missing_evidence(tables: Tables, rows: pd.DataFrame) -> pd.Series:
    """Why networks are no evidence, if so: fewer samples than five times the rank of what the first layer reads.

    That layer has no penalty; where samples are as few as the rank it collapses them alone, without any depth.
    """
    ratio = rows["N"] / rank_of_inputs(tables, rows)
    few = ratio.map("no evidence: {:.2g} samples for each dimension that the first layer reads".format)
    unknown = "no evidence: the rank of what the first layer reads is not known"
    return few.where(ratio < ENOUGH, "").mask(ratio.isna(), unknown)
