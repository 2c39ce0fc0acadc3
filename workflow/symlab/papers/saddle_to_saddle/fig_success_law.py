"""How the chance to miss a fast direction falls with the width: exponentially, or as a power."""

from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from symlab.papers.saddle_to_saddle.fig_02_circle import successes
from symlab.plotting.style import COLUMN, Figure, Style, legend, line_entry, palette, panels, set_ticks
from symlab.study.card import Drawing
from symlab.study.claim import Case, Claim, Found, Measurement, Tables, above, share_of
from symlab.study.tables import need

RUNS = "polygon_runs.csv"
Law = Literal["exponential", "power"]
LAWS: tuple[Law, ...] = ("exponential", "power")


class Fit(NamedTuple):
    """-log P(fail) = a + b x, x the width or its logarithm, by maximum likelihood."""

    a: float
    b: float
    fails: np.ndarray
    """P(fail) at each width [widths]."""
    deviance: float


def failures_against_width(tables: Tables, style: Style) -> Figure:
    figure, axes = panels(1, 1, 1.5 * COLUMN, 2.8)
    axis = axes[0, 0]
    entries, top = [], 0.0
    for color, (N, counts) in zip(palette(style), by_polygon(need(tables, RUNS)), strict=False):
        missed, n = counts["n"] - counts["hits"], counts["n"]
        bounds = [share_of(int(k), int(of)).interval or (0, 1) for k, of in zip(missed, n, strict=True)]
        low, high = -np.log(np.array(bounds)[:, 1]), -np.log(np.maximum([low for low, _ in bounds], 1e-9))
        some = (missed > 0).to_numpy()
        top = max(top, np.max(low), np.max(high[some], initial=0))
        share = (missed / n)[some]
        bars = [-np.log(share) - low[some], high[some] + np.log(share)]
        axis.errorbar(share.index, -np.log(share), yerr=bars, color=color, marker="o", linestyle="", capsize=2)
        # Where none fails, only the lower end of the interval is known.
        axis.plot(counts.index[~some], low[~some], "^", color=color, linestyle="")
        for law, linestyle in zip(LAWS, ("-", "--"), strict=True):
            fit = fit_failures(counts, law)
            fine = np.geomspace(counts.index.min(), counts.index.max(), 200)
            axis.plot(fine, fit.a + fit.b * place(fine, law), color=color, linestyle=linestyle, linewidth=0.9)
        entries.append(line_entry(f"N = {N}", color=color, marker="o"))
    axis.set(xscale="log", xlabel="width", ylabel=r"$-\log$ share of failures", ylim=(0, 1.1 * top))
    set_ticks(axis.xaxis, sorted(need(tables, RUNS).query("L == 3")["width"].unique()))
    entries += [line_entry("exponential"), line_entry("power", linestyle="--")]
    legend(figure, entries, "bars are 95 % intervals (exact); a triangle is the lower end where no run failed")
    return figure


def by_polygon(runs: pd.DataFrame) -> list[tuple[int, pd.DataFrame]]:
    """``hits`` of ``n`` by width for each N at depth 3, from the narrowest with a success on, where those are three."""
    found = []
    for N, of_polygon in runs[runs["L"] == 3].groupby("N"):
        counts = successes(of_polygon)
        if counts["hits"].any() and len(counts := counts.loc[(counts["hits"] > 0).idxmax() :]) > 2:
            found.append((int(str(N)), counts))
    return found


def place(width: np.ndarray, law: Law) -> np.ndarray:
    """What -log P(fail) is linear in."""
    return width if law == "exponential" else np.log(width)


def fit_failures(counts: pd.DataFrame, law: Law) -> Fit:
    """The law under which the counts of failures are likeliest, and its deviance from the shares themselves."""
    from scipy.optimize import minimize
    from scipy.special import xlogy

    n, missed = counts["n"].to_numpy(dtype=float), (counts["n"] - counts["hits"]).to_numpy(dtype=float)
    x = place(counts.index.to_numpy(dtype=float), law)

    def at_ends(logarithms: np.ndarray) -> np.ndarray:
        """-log P(fail) of a line that is above 0 at both ends, and so nowhere a chance above 1."""
        low, high = np.exp(np.clip(logarithms, -20, 6))
        return low + (high - low) * (x - x[0]) / (x[-1] - x[0])

    def deviance(logarithms: np.ndarray) -> float:
        line = at_ends(logarithms)
        saturated = xlogy(missed, missed / n) + xlogy(n - missed, 1 - missed / n)
        return float(2 * (saturated + missed * line - xlogy(n - missed, -np.expm1(-line))).sum())

    ends = -np.log((missed[[0, -1]] + 0.5) / (n[[0, -1]] + 1))
    best = minimize(deviance, np.log(ends), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-8})
    line = at_ends(best.x)
    slope = float((line[-1] - line[0]) / (x[-1] - x[0]))
    return Fit(float(line[0] - slope * x[0]), slope, np.exp(-line), float(best.fun))


def power_minus_exponential(counts: pd.DataFrame) -> tuple[float, float]:
    """Deviance of the power law minus that of the exponential, and its standard error (Vuong 1989).

    It is twice a sum over runs of the logarithm of the ratio of both likelihoods, of which each width has two values.
    """
    exponential, power = (fit_failures(counts, law) for law in LAWS)
    n, missed = counts["n"].to_numpy(dtype=float), (counts["n"] - counts["hits"]).to_numpy(dtype=float)
    of_miss = np.log(exponential.fails / power.fails)
    of_hit = np.log(np.expm1(np.log(exponential.fails)) / np.expm1(np.log(power.fails)))
    total = (missed * of_miss + (n - missed) * of_hit).sum()
    squares = (missed * of_miss**2 + (n - missed) * of_hit**2).sum()
    return power.deviance - exponential.deviance, 2 * float(np.sqrt(squares - total**2 / n.sum()))


FIGURES = {
    "saddle-success": Drawing(
        "How failures vanish with the width",
        "Minus the logarithm of the share of runs that find no direction faster than one neuron, against the width, "
        "for polygons of N corners at depth 3. Lines are the likeliest exponential law, P(fail) = exp(-a - b w), and "
        "the likeliest power law, P(fail) = exp(-a) / w^b, from the narrowest width with a success on. A curve that "
        "bends upwards over the logarithmic axis is exponential.",
        failures_against_width,
        seen="The exponential law's deviance is smaller than the power law's by {exponential}.",
        differs="Not in the paper, which says that wider networks find such directions more often.",
    ),
}


def exponential_rather_than_power(tables: Tables) -> list[Found]:
    """Deviance of the power law minus that of the exponential, a case a polygon with three widths and more."""
    found: list[Found] = []
    for N, counts in by_polygon(tables[RUNS]):
        value, error = power_minus_exponential(counts)
        exponential, power = (fit_failures(counts, law) for law in LAWS)
        told = (
            f"{power.deviance:.3g} and {exponential.deviance:.3g} with {len(counts) - 2} degrees of freedom; "
            f"{exponential.b:.3g} a neuron"
        )
        n = int(counts["n"].sum())
        found.append(Measurement(value, n, None, Case(f"N = {N}", N=N), told, error, "runs"))
    return found or ["needs three widths of one polygon with successes"]


CLAIMS = {
    "saddle-success-exponential": Claim(
        statement="The chance to miss a fast direction falls exponentially with the width rather than as a power",
        quantity="deviance of the power law minus that of the exponential law (standard error after Vuong)",
        bound=above(0),
        owner="ours",
        origin="derived",
        reason="Both laws have two numbers; the one with the smaller deviance makes the runs likelier.",
        tables=(RUNS,),
        measure=exponential_rather_than_power,
    ),
}
