"""Figs. 1 and 2: metrics of neural collapse against depth, and the control that does not collapse."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.papers.neural_collapse import evidence
from symlab.papers.neural_collapse.evidence import DEPTHS, GAP, METRICS, derived_claim, of_kind, paper_claim
from symlab.papers.neural_collapse.found import DATA, NETWORKS, PENALTIES, VALUES
from symlab.plotting.style import Axes, Figure, Look, Style, palette
from symlab.plotting.units import draw_units
from symlab.study.card import Drawing
from symlab.study.cases import Cases, cases
from symlab.study.claim import Found, Tables, above, at_least, below, between
from symlab.study.facets import draw_rows, facets, labelled
from symlab.study.tables import some

BY = {"constant": r"$\lambda$ constant", "uniform": r"$\lambda/L$", "split": r"$\lambda/L$, last $\lambda$"}
ORDER = ("RN1", "T11", "pre-LN T11", "RN2")
"""The paper's rows; others go below."""
ABOVE, REFERENCE = f"more than {GAP:.0%} over the least known loss", "minimised for longer"
SCRATCH = ", from scratch"
RATES = {"NC1": -1.0, "NC2": -0.5, "NC3": -1.0, "excess": -1.0}
"""Powers of L that bound global optima up to logarithms: all but NC2 are quadratic in the distance to them."""
LARGE = 5
"""The depth from which on the paper calls its curves log-linear."""
CONTROLLED = ("rn1", "t11", "rn2")
"""Fig. 2's networks."""


def metrics_against_depth(tables: Tables, style: Style) -> Figure:
    """Fig. 1: a row an architecture, a column a metric, a colour for how penalties fall with depth.

    Those whose labels a simplex does not bound (tokens, margins) are left out. Of an architecture the first data set;
    the control, two layers a block at a constant penalty, is Fig. 2's where there is anything else.
    """
    lacking = f"it needs networks of {DEPTHS} depths: add to neural_collapse.runs.L."
    table = some(minimised(tables).dropna(subset=list(METRICS)), lacking)
    table["architecture"] = table["called"] + table["of_loss"]
    of_each = table.groupby("architecture")
    first = of_each["dataset"].transform("first")
    others = of_each["kind"].transform(lambda kind: (kind != "control").any())
    table = table[(table["dataset"] == first) & ((table["kind"] != "control") | ~others)]
    table["row"] = table["called"] + ", " + table["dataset"] + table["of_loss"].str.replace(", ", "\n")
    place = table["architecture"].map({name: at for at, name in enumerate(ORDER)}).fillna(len(ORDER))
    return draw_metrics(table.iloc[np.argsort(place, kind="stable")], style, "row", "metric")


def minimised(tables: Tables) -> pd.DataFrame:
    """Networks by Adam and L-BFGS, grown or each depth from scratch, where there are depths enough."""
    table = evidence.networks(tables).query("optimizer == 'lbfgs'")
    return table[table.groupby(["setting", "grown"])["L"].transform("nunique") >= DEPTHS]


def of_one_data_set(tables: Tables) -> pd.DataFrame:
    """RN1, T11 and RN2 with a constant penalty and cross-entropy, of the data set that Fig. 2 and its claim are about.

    Of those with RN1 and RN2 from scratch, or, where there is none, with grown ones, it is that with most of the three.

    Raises:
        UserError: none has RN1 and RN2.
    """
    rows = minimised(tables).query("by_depth == 'constant' and loss == 'cross_entropy' and network in @CONTROLLED")
    rows = rows[~rows["pre_norm"] & ~rows["every_token"]]
    for known in (rows[~rows["grown"]], rows):
        there = known.groupby("dataset", sort=False)["network"].agg(set)
        complete = there[[{"rn1", "rn2"} <= names for names in there]]
        if len(complete):
            return rows[rows["dataset"] == complete.map(len).idxmax()]
    raise UserError("it needs rn1 and rn2 with by_depth: constant on one data set (neural_collapse.runs).")


def control_beside_others(tables: Tables, style: Style) -> Figure:
    """Fig. 2: columns RN1, T11 and RN2 with a constant penalty on one data set, a row a metric."""
    rows = of_one_data_set(tables).sort_values("network", key=lambda names: names.map(CONTROLLED.index), kind="stable")
    return draw_metrics(rows.assign(column=rows["called"] + ", " + rows["dataset"]), style, "metric", "column")


def draw_metrics(table: pd.DataFrame, style: Style, row: str, column: str) -> Figure:
    """Metrics of networks against depth, by the columns ``row`` and ``column``, of which one is "metric"."""
    long = table.melt([name for name in table.columns if name not in METRICS], list(METRICS), "metric", "value")
    long["value"] = np.log10(long["value"].clip(lower=1e-12))
    long["label"] = long["by_depth"].map(BY).where(long["grown"], long["by_depth"].map(BY) + SCRATCH)
    long = pd.concat([long[~long["reference"]], long[long["reference"]].assign(label=REFERENCE),
                      long[~long["within"] & long["grown"]].assign(label=ABOVE)])  # fmt: skip
    colors = dict(zip(BY.values(), palette(style), strict=False))
    looks = {name: Look(color, "-", "o") for name, color in colors.items()}
    looks |= {name + SCRATCH: Look(color, "--", "s") for name, color in colors.items()}
    looks |= {REFERENCE: Look((0.3, 0.3, 0.3), "", "x"), ABOVE: Look((0.5, 0.5, 0.5), "", "o", "white")}
    depths = sorted(table["L"].unique())
    if len(depths) > 6:  # Every other is named on the axis.
        depths = depths[(len(depths) + 1) % 2 :: 2]
    axes = labelled("depth L", r"$\log_{10}$", "x", xticks=depths)
    note = f"mean ± std of {evidence.counted(table)}"
    by: dict[str, Any] = {"row": row, "column": column, "rows_named": tuple(dict.fromkeys(long[row]))}
    by |= {"sharex": "row", "sharey": "none"} if column == "metric" else {"sharey": "row"}
    return facets(long, "L", "value", looks, **by, axes=axes, draw=_draw, height=1.6, note=note)


def _draw(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str) -> None:
    if label in (REFERENCE, ABOVE):
        draw_rows(axis, rows, x, y, look, label, markersize=3.5, markeredgewidth=0.6)
    else:
        draw_units(axis, rows, x, y, look, label)


def _better_in_log_depth(metric: pd.Series) -> float:
    """R2 of a line in log L less that of a line in L of log10 of a metric; not a number where it does not fall."""
    y, L = np.log10(metric.to_numpy()), metric.index.to_numpy(dtype=float)
    in_log, in_depth = (np.corrcoef(x, y)[0, 1] for x in (np.log10(L), L))
    return in_log**2 - in_depth**2 if in_log < 0 else np.nan


def _large_residual(rows: pd.DataFrame) -> pd.Series:
    return rows["network"].str.startswith("rn") & rows["kind"].isin(["plotted", "uniform"]) & (rows["L"] >= LARGE)


def rate_of_optima(tables: Tables) -> list[Found]:
    """Slope over that of the bound, of post-LN RN1's networks from L = 5 on; of squared error NC2 is NC2B."""
    rows = evidence.lineages(tables).query("network == 'rn1' and not pre_norm and loss != 'margins' and L >= @LARGE")
    found = evidence.slopes_at_optima(rows, tuple(RATES))
    rates = tuple(replace(each, values=each.values / RATES[each.case.key["value"]]) for each in found)
    return Cases(rates, "lineages").means() or [evidence.LACKS]


def share_calm(tables: Tables) -> list[Found]:
    """Share of each lineage's networks at an optimum whose gradient is small too, mean over lineages."""
    rows = evidence.lineages(tables).query("within")
    calm = (rows["gradient"] <= evidence.CALM).astype(float).where(rows["gradient"].notna())
    each = cases(rows.assign(calm=calm), "calm", unit=("setting", "seed"))
    return Cases(each.of, "lineages").means() if len(rows) else ["no network is at an optimum"]


_slopes_from_scratch = partial(evidence.slopes_from_scratch, values=METRICS)


def slopes_of_control(tables: Tables) -> list[Found]:
    """Slope of log10 of each metric on log10 L, mean over seeds, of the control that Fig. 2 draws."""
    drawn = of_one_data_set(tables).index
    return _slopes_from_scratch(tables, chosen=lambda rows: (rows["kind"] == "control") & rows.index.isin(drawn))


FIGURES = {
    "collapse-1": Drawing(
        "Metrics of collapse against depth",
        "A column a metric, a row an architecture on its first data set: log₁₀ of NC1, NC2 (NC2A; of squared error "
        "without a bias NC2B) and NC3 of the last features against the depth L (study `{study}`); the lower, the "
        "nearer to collapse. Solid lines are of networks that begin with those of the depth before, some blocks split "
        "in two: hollow circles are those more than 5 % over the least loss that is known, crosses the best of each "
        "depth, minimised for longer. Dashed, *from scratch*, networks of each depth are trained by themselves, by "
        "Adam and as many iterations of L-BFGS at every depth. A colour says how penalties depend on L: `λ/L` divides "
        "every one by L, `λ/L, last λ` those of hidden weights alone.",
        metrics_against_depth,
        seen="The slope of log₁₀ NC1 on log₁₀ L is {falls(value=NC1, fitting=False)}.",
        differs="Samples and seeds are fewer than the paper's, and networks are minimised by Adam and L-BFGS, not for "
        "its 5000 epochs; `λ/L, last λ`, the setting of Theorem 4.6, is drawn beside the paper's λ/L.",
    ),
    "collapse-2": Drawing(
        "Networks that collapse with depth, and one that does not",
        "A row a metric, a column an architecture on one data set: log₁₀ of NC1, NC2 and NC3 of the last features "
        "against the depth L (study `{study}`); the lower, the nearer to collapse. RN1 and T11 have one linear layer a "
        "block; RN2 is the control, which has two and a constant penalty. Solid lines are of networks that begin with "
        "those of the depth before, some blocks split in two: hollow circles are those more than 5 % over the least "
        "loss that is known, crosses the best of each depth, minimised for longer. Dashed, *from scratch*, networks of "
        "each depth are trained by themselves, by Adam and as many iterations of L-BFGS at every depth.",
        control_beside_others,
        seen="The slope of the control's log₁₀ NC1 on log₁₀ L is {control(value=NC1, fitting=False)}.",
        differs="The paper prints three images of three metrics; here they are one.",
    ),
}
_RN1 = f"{NETWORKS['rn1']}, {DATA['mnist']}"
_RN2 = f"{NETWORKS['rn2']}, {PENALTIES['constant']}, {DATA['mnist']}"
_WHY_RISEN = dict.fromkeys(
    (f"{VALUES[value]}, {_RN1}" for value in ("NC1", "NC3")),
    "With depth blocks come to cost less at more scatter, so that on these samples metrics rise at first and fall from "
    f"L = 5 on: two kinds of solutions {evidence.DOCS}.",
)
_TEXTS = f"{VALUES['NC2']}, {NETWORKS['t11']}, normalised before blocks (pre-LN), {DATA['imdb']}"
_WHY_RISEN[_TEXTS] = (
    "Deep networks have not converged: their losses rise with depth, though a deeper network contains a shallower one. "
    "Whether NC2 falls at convergence is not known."
)
_WHY_RISEN[""] = "Why is not known."
SLOPE = "slope of log₁₀ of the metric on log₁₀ L, each depth from scratch, mean over seeds"
JUDGED = "Judged so since 26 November 2026, after values at optima were seen, and none from scratch on these samples."
CLAIMS = {
    "collapse-1-falls": paper_claim(
        statement="Deeper networks with one linear layer a block are closer to collapse",
        quantity=SLOPE,
        bound=below(0),
        reason="Section 5: at convergence the metrics decrease with depth, of networks trained each by itself. "
        f"{JUDGED}",
        why=_WHY_RISEN,
        also=("collapse-2",),
        measure=partial(_slopes_from_scratch, chosen=of_kind("plotted")),
    ),
    "collapse-1-falls-uniform": paper_claim(
        statement="With every penalty at λ/L, deeper networks with two linear layers a block are closer to collapse",
        quantity=SLOPE,
        bound=below(0),
        reason="Figure 1, row 4, with Section 5's λ/L read of every layer. Appendix C argues that networks need not "
        f"collapse so. {JUDGED}",
        measure=partial(_slopes_from_scratch, chosen=of_kind("uniform")),
    ),
    "collapse-1-falls-theorems": derived_claim(
        statement="Where theorems let deep networks collapse, deeper ones are closer to it",
        quantity="slope of log₁₀ of the metric on log₁₀ L over depths at an optimum, mean over lineages",
        bound=below(0),
        reason="Corollaries 4.5 and 4.7: optima converge to collapse, under squared error too, and each token of a "
        "text may be a sample. They are of limits, and say nothing of any one depth.",
        measure=partial(evidence.slopes_of, values=METRICS, chosen=of_kind("plotted", "theorem")),
    ),
    "collapse-1-log-linear": paper_claim(
        statement="For large depth, log₁₀ of a metric is straighter in log L than in L",
        quantity="R² of a line in log L less R² of a line in L, L ≥ 5, each depth from scratch, mean over seeds",
        bound=above(0),
        origin="ours",
        reason="Section 5: polynomial dependence, log-linear for large enough depth; a straight line in L is the other "
        f"simple law. Any curve that flattens is straighter in log L. {JUDGED}",
        measure=partial(_slopes_from_scratch, chosen=_large_residual, several=_better_in_log_depth),
    ),
    "collapse-1-rate": derived_claim(
        statement="Networks approach collapse as fast as the bound on global optima",
        quantity="slope on log₁₀ L over that of the bound (−1; −1/2 for NC2), L ≥ 5, mean over lineages",
        bound=at_least(1),
        reason="Theorem 4.3's distance to the optimum is at most of order L^(−1/2) up to logarithms; NC1, NC3 and the "
        "excess loss are quadratic in it, NC2 is linear. Slower networks are not optimal, or not yet asymptotic.",
        why="Which of these is not known; the bound has no constants, so that slower is no contradiction.",
        measure=rate_of_optima,
    ),
    "collapse-1-calm": evidence.our_claim(
        statement="Networks whose loss is next to the least known have a small gradient too",
        quantity="share of a lineage's networks at an optimum whose gradient's norm is at most "
        f"{evidence.CALM:g} of the loss, mean over lineages",
        bound=at_least(0.95),
        origin="pilot",
        reason="Where a loss is smooth its gradient vanishes at a minimum, and L-BFGS is told to end there. That few "
        "networks of a kept run have one so small was known.",
        why="They still descend, slowly; that ReLU has kinks, where the gradient of one side is told, explains "
        "little of it (docs/explanation/papers/neural-collapse.md has both in numbers).",
        measure=share_calm,
    ),
    "collapse-2-control": paper_claim(
        statement="With two linear layers a block and a constant penalty, the metrics do not depend on depth",
        quantity=SLOPE,
        bound=between(-0.1, 0.1),
        origin="pilot",
        reason="Figure 2 shows the control flat; a quarter of the −0.4 that RN1 had on digits at first is "
        "left for noise. It was a share of RN1's slope until 26 November 2026, when RN1 was seen to rise on MNIST.",
        why=dict.fromkeys(
            (f"{VALUES[value]}, {_RN2}" for value in ("NC1", "NC3")),
            "From L = 5 on losses rise with depth, though a deeper network contains a shallower one: deep networks "
            f"from scratch are at worse minima. Lineages, whose losses do not rise, are nearly level {evidence.DOCS}.",
        ),
        measure=slopes_of_control,
    ),
}
