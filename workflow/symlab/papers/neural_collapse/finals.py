"""Networks at the end of training: which have converged, how a metric falls with depth, and what they are called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from symlab.papers.neural_collapse.gufm import least_loss, squared_error_optimum
from symlab.study.claim import Found, Measurement
from symlab.study.tables import need

COURSE = "collapse_course.csv"
SAMPLES = "collapse_samples.csv"
ENOUGH = 5
"""Samples for each dimension of the first layer's inputs that make a run evidence."""
METRICS = ("NC1", "NC2", "NC3")
SETTING = ["dataset", "network", "pre_norm", "loss", "by_depth"]
POINT = [*SETTING, "hidden_penalty", "last_penalty", "width", "N", "L"]
RATES = {"NC1": 1.0, "NC2": 0.5, "NC3": 1.0, "excess": 1.0}
"""Powers of 1 / L that bound global optima up to logarithms: all but NC2 are quadratic in the distance to them."""
DEPTHS = 4
"""Depths with blocks that a slope needs."""
LARGE = 5
"""The depth from which on the paper calls its curves log-linear."""
EQUAL = 1e-3
"""Relative difference of losses that counts as none."""
STEADY = 0.02
"""Largest change of log10 NC1 over the last fifth of the steps of a network that has converged."""
CALM = 0.01
"""Largest norm of the objective's gradient at the end of a network that has converged, over that before training.

Set before any such ratio was looked at.
"""


def finals(course: pd.DataFrame) -> pd.DataFrame:
    """The last row of every network, with its ``total`` loss, ``blocks``, ``NC1_half`` and whether it ``converged``.

    ``NC1_half`` is NC1 after half of the steps. Converged: every sample classified, the gradient's norm a hundredth of
    that before training, the mean loss of the last fifth within 5 % of the least, log10 NC1 steady over it, and a loss
    no higher than that of a shallower network of the setting, or of one without blocks at the same penalty, which a
    deeper one can copy with blocks of zeros.
    """
    of_network = [*POINT, "seed"]
    course = course.assign(total=course["fit"] + course["hidden"] + course["last"])
    late = course[course["step"] >= 0.8 * course.groupby(of_network)["step"].transform("max")]
    table = course.groupby(of_network, sort=False).tail(1).set_index(of_network)
    began, least = late.groupby(of_network)["NC1"].first(), course.groupby(of_network)["total"].min()
    steady = np.abs(np.log10(table["NC1"] / began.reindex(table.index))) < STEADY
    low = late.groupby(of_network)["total"].mean() <= 1.05 * least
    calm = table["gradient"] <= CALM * course.groupby(of_network)["gradient"].first().reindex(table.index)
    table["steady"] = steady & calm & low.reindex(table.index) & (table["accuracy"] == 1)
    half = course[course["step"] >= 0.5 * course.groupby(of_network)["step"].transform("max")]
    table["NC1_half"] = half.groupby(of_network)["NC1"].first().reindex(table.index)
    table = table.reset_index()
    # The simplex of cross-entropy; squared error without a bias makes rows orthogonal.
    table["NC2"] = table["NC2A"].where(table["loss"] == "cross_entropy", table["NC2B"])
    table["blocks"] = table["L"] - table["network"].str.startswith("rn").astype(int)
    # Without blocks there is no difference between networks of one layer a block and of two.
    table["kind"] = table["network"].str[0]
    shared = ["dataset", "kind", "loss", "last_penalty", "width", "N"]
    alone = table[table["blocks"] == 0].groupby(shared)["total"].min().rename("alone")
    table = table.merge(alone, how="left", left_on=shared, right_index=True)
    copied = pd.concat([table["alone"].where(table["blocks"] > 0), _best_shallower(table)], axis=1).min(axis=1)
    table["converged"] = table["steady"] & ~(table["total"] > (1 + EQUAL) * copied)
    return table


def _best_shallower(table: pd.DataFrame) -> pd.Series:
    """The least loss of the setting's shallower networks; NaN for the shallowest, and in sweeps of the penalty."""
    apart = [*SETTING, "width", "N"]
    best = table[table["by_depth"] != "swept"].groupby([*apart, "L"])["total"].min().unstack("L")
    before = best.cummin(axis=1).shift(axis=1).stack()
    return pd.Series(before.reindex(pd.MultiIndex.from_frame(table[[*apart, "L"]])).to_numpy(), index=table.index)


def settings_of(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Networks of each setting, by its name, that were trained at enough depths, those without blocks left out."""
    chosen = table[(table["blocks"] > 0) & (table["by_depth"] != "swept")]
    for keys, rows in chosen.groupby(SETTING, sort=False):
        if rows["L"].nunique() >= DEPTHS:
            yield name_setting(dict(zip(SETTING, keys, strict=True))), rows


def name_setting(of: Mapping[str, object]) -> str:
    """``RN2 split on mnist``."""
    pre = "pre-LN " if of["pre_norm"] else ""
    by = "" if of["by_depth"] == "constant" and of["network"] in ("rn1", "t11") else f" {of['by_depth']}"
    loss = ", squared error" if of["loss"] == "squared_error" else ""
    return f"{pre}{str(of['network']).upper()}{by} on {of['dataset']}{loss}"


def ended(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """``finals`` of a study's table, and in ``open`` why a network is no evidence, if it is not."""
    table = finals(need(tables, COURSE))
    return table.assign(open=[missing_evidence(tables, dataset) for dataset in table["dataset"]])


def least_possible(row: pd.Series) -> float:
    """The optimum of the unconstrained features model at a network's last penalty, by its loss."""
    width, classes, penalty = int(row["width"]), int(row["classes"]), float(row["last_penalty"])
    if row.get("loss") == "squared_error":
        return squared_error_optimum(width, classes, penalty)[0]
    return least_loss(width, classes, penalty)


def add_excess(rows: pd.DataFrame) -> pd.DataFrame:
    """Networks with the ``excess`` of their total loss over the least possible."""
    return rows.assign(excess=rows["total"] - rows.apply(least_possible, axis=1)) if len(rows) else rows


def kind_of(rows: pd.DataFrame) -> str:
    """What the paper says of a setting: ``plotted`` to collapse, the flat ``control``, ``uniform``, or by a theorem."""
    one = rows.iloc[0]
    if one["by_depth"] == "uniform":
        return "uniform"
    if one["network"] in ("rn2", "t12", "t22") and one["by_depth"] == "constant":
        return "control"
    plotted = one["network"] == "t11" or (one["network"] == "rn1" and not one["pre_norm"])
    plotted &= one["by_depth"] == "constant" and one["loss"] == "cross_entropy"
    return "plotted" if plotted else "theorem"


def slope_with_depth(rows: pd.DataFrame, value: str, case: str, over: float = 1.0, least: int = 0) -> Found | None:
    """Least-squares slope of log10 of the value against log10 L over all networks, divided by ``over``.

    Its standard error is that of the residuals, which hold what a straight line misses. None where networks of fewer
    than four depths, from ``least`` on, have a value above 0.
    """
    rows = rows[(rows["L"] >= least) & (rows[value] > 0)]
    if rows["L"].nunique() < DEPTHS:
        return None
    x, y = (np.log10(rows[name].to_numpy(dtype=float)) for name in ("L", value))
    x, y = x - x.mean(), y - y.mean()
    slope = float(x @ y / (x @ x))
    error = float(np.sqrt(np.sum((y - slope * x) ** 2) / (len(x) - 2) / (x @ x)))
    told = f"slope {slope:.3g}"
    if "converged" in rows:
        told += f", {int(rows['converged'].sum())} of {len(rows)} networks converged"
    late = rows["open"].iloc[0] if "open" in rows else ""
    return Measurement(
        slope / over, len(rows), None, case, told, abs(error / over), "networks", late, degrees=len(rows) - 2
    )


def rates_over_bound(rows: pd.DataFrame, of: str = "") -> list[Found]:
    """Slope over that of the bound of the metrics and the excess loss, from L = 5 on, a case each; 1 if as fast."""
    large = add_excess(rows)
    cases = [slope_with_depth(large, value, f"{value}{of}", -bound, LARGE) for value, bound in RATES.items()]
    return [case for case in cases if case is not None]


def missing_evidence(tables: Mapping[str, pd.DataFrame], dataset: object) -> str:
    """Why runs on a data set are no evidence: fewer samples than five times the rank of what the first layer reads.

    That layer has no penalty; where samples are as few as the rank it collapses them alone, without any depth.
    """
    rows = tables[SAMPLES] if SAMPLES in tables else pd.DataFrame(columns=["dataset", "N", "rank"])
    rows = rows[rows["dataset"] == dataset]
    if rows.empty:
        return "no evidence: the rank of what the first layer reads is not known"
    ratio = float((rows["N"] / rows["rank"]).min())
    return "" if ratio >= ENOUGH else f"no evidence: {ratio:.2g} samples for each dimension that the first layer reads"
