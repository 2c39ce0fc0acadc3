"""Beyond the paper: what a loss certifies, where branches die, too few samples, and networks in practice."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.measures import collapse_bounds as bounds
from symlab.papers.neural_collapse import evidence
from symlab.papers.neural_collapse.evidence import DEPTHS, ENOUGH, METRICS, RUNS, derived_claim, our_claim
from symlab.plotting.style import Axes, Figure, Look, Style, palette
from symlab.study.card import Drawing
from symlab.study.cases import Cases, cases
from symlab.study.claim import Found, Tables, above, at_most, below, between, without_phrases
from symlab.study.facets import BARS, Panel, assign_looks, draw_grid, draw_rows, facets, labelled
from symlab.study.statistics import slope
from symlab.study.tables import need, some
from symlab.words import counted


def certified_scatter(loss: float, d: int, K: int, penalty: float) -> float:
    """The largest tr Sigma_W that a balanced network of this squared error plus penalty / 2 |W_L|^2 can have.

    Ridge regression on features of norm sqrt(d) leaves K penalty / (2 (d - tr Sigma_W + penalty K)) at least, without
    an output bias. Infinite where the loss is that of features without any class, 1/2.
    """
    most = d + penalty * K - K * penalty / (2 * loss)
    return most if most < d else np.inf


CERTIFICATES: dict[str, tuple[str, str, Callable[[float, int, int, float], float], float, str]] = {
    "NC1": ("cross_entropy", "NC1", bounds.certified_collapse, np.inf, "NC1"),
    "NC2": ("cross_entropy", "NC2A", bounds.certified_frame, 1.0, "NC2"),
    "NC3": ("cross_entropy", "NC3_centred", bounds.certified_alignment, 2.0, "NC3, rows centred"),
    "scatter": ("squared_error", "scatter", certified_scatter, np.inf, r"$\mathrm{tr}\,\Sigma_W$"),
}
"""What is bounded: under which loss, its column, the bound from loss and last penalty, a bound that says nothing."""
CRITICAL = "critical_penalty.csv"
DRAWN = {"predicted": "predicted", "born": "born above nothing", "dies": "living ones die"}
CONTROL = 0.0025
"""The paper's penalty of Figure 2's control."""
FEW = {**{name: name for name in METRICS}, "excess": "loss over\nfree features"}
PRACTICE = {"NC1": "NC1, training", "NC1_test": "NC1, test", "accuracy_test": "test accuracy"}
OPTIMIZERS = {"lbfgs": "minimised", "sgd": "SGD, minibatches", "adamw": "AdamW, minibatches"}
LACKS = "needs rn1 on as few samples as the rank of its inputs, and on five times as many"


def certified(tables: Tables) -> pd.DataFrame:
    """For each network and ``quantity`` what is ``measured`` and ``certified``, where a bound says anything."""
    table = evidence.networks(tables)
    table = table[~table["every_token"]].assign(scatter=table["NC1"] * table["between"])
    # A bias takes away what ridge regression leaves.
    table = table[(table["loss"] == "cross_entropy") | ~table["output_bias"]]
    parts = []
    for quantity, (loss, column, bound, nothing, _) in CERTIFICATES.items():
        rows = table[table["loss"] == loss]
        each = zip(rows["fit"] + rows["last"], rows["width"], rows["classes"], rows["last_penalty"], strict=True)
        limits = [bound(float(total), int(d), int(K), float(penalty)) for total, d, K, penalty in each]
        found = rows.assign(quantity=quantity, measured=rows[column], certified=limits)
        parts.append(found[found["certified"] < nothing])
    found = pd.concat(parts, ignore_index=True)
    return found.assign(ratio=found["measured"] / found["certified"])


def measured_against_certified(tables: Tables, style: Style) -> Figure:
    """What a loss bounds against the bound, a panel a quantity, a colour a setting; nothing can lie above the line."""
    table = some(certified(tables), "it needs networks whose loss is below that of constant features.")
    colors = dict(zip(table["title"].unique(), cycle(palette(style))))
    looks = {name: Look(color, "", "o", "white") for name, color in colors.items()}
    panels = [_panel(table[table["quantity"] == quantity], quantity) for quantity in table["quantity"].unique()]
    return draw_grid([panels], looks, line="title", height=2.3, sharex="none", sharey="none", note="a mark a network")


def _panel(rows: pd.DataFrame, quantity: str) -> Panel:
    ends = rows["certified"].min(), rows["certified"].max()

    def diagonal(axis: Axes) -> None:
        axis.plot(ends, ends, color="0.5", linestyle="--", linewidth=0.8, marker="")

    log = "" if quantity == "scatter" else "xy"
    axes = labelled("largest possible", "measured", log, title=CERTIFICATES[quantity][-1])
    return Panel(rows, "certified", "measured", axes, draw_rows, {"markersize": 3.5}, diagonal)


def largest_ratio(tables: Tables) -> list[Found]:
    """What a loss bounds over its certificate, the largest of all networks, a case a quantity."""
    table = certified(tables).rename_axis("network_number").reset_index()
    found = cases(table, "ratio", by=["quantity"], unit="network_number", name="{quantity}")
    return found.of_all(np.max) or ["no loss of a network is low enough to say anything"]


def phase_line(tables: Tables, style: Style) -> Figure:
    """Penalties of hidden weights at which branches are born and die against the last layer's, a panel a depth."""
    table = need(tables, CRITICAL)
    long = table.melt(["L", "last_penalty", "seed"], list(DRAWN), "kind", "penalty")
    long["label"] = long["kind"].map(DRAWN)
    grey, blue, orange = (0.4, 0.4, 0.4), *palette(style, 2)
    looks = dict(zip(DRAWN.values(), (Look(grey, "--", ""), Look(blue), Look(orange, "-", "s")), strict=True))
    ticks = sorted(table["last_penalty"].unique())
    axes = labelled(r"penalty $\lambda$ of the last layer", r"penalty $\lambda$ of hidden weights", "xy", xticks=ticks)
    return facets(
        long, "last_penalty", "penalty", looks, column="L", title="L = {}".format, axes=axes, options=BARS,
        height=2.2, note=f"mean ± std of {counted(table['seed'].nunique(), 'networks')}",
    )  # fmt: skip


def _penalties(tables: Tables, value: str) -> Cases:
    return cases(tables[CRITICAL], value, ["dataset", "L", "last_penalty"], name="L = {L}, last λ = {last_penalty:g}")


def bisected(tables: Tables, found: str, base: str, steps: int) -> Iterator[Found]:
    """Penalties over others, mean over seeds, where so many of both were found by bisection.

    They are told as intervals, however well networks agree: what was found lies within half a step to either side, on
    the scale of logarithms. So the interval is that of the mean of the lower ends, at its lower end, and of the upper.
    """
    reach = float(tables[CRITICAL]["step"].max()) ** (steps / 2)
    # Where all networks are at one place of the bisection, what is left of their difference is rounding.
    ratios = (_penalties(tables, found) / _penalties(tables, base)).map(lambda values: values.round(9))
    for each in without_phrases(ratios.means()):
        low, high = each.interval or (np.nan, np.nan)
        yield replace(each, error=None, ends=(low / reach, high * reach) if each.interval else None)


def control_over_predicted(tables: Tables) -> list[Found]:
    """The penalty of Figure 2's control over the critical one at it, which is one for all depths; mean over seeds."""
    by, name = ["dataset", "last_penalty"], "last λ = {last_penalty:g}"
    predicted = cases(need(tables, CRITICAL), "predicted", by, name=name).at(last_penalty=CONTROL)
    found = predicted.map(lambda penalty: CONTROL / penalty).means()
    return found or [f"needs critical_penalty.last_penalty to list {CONTROL:g}"]


def by_samples(tables: Tables) -> pd.DataFrame:
    """Lineages of RN1 with the ``rank`` of what the first layer reads, and samples over it, ``ratio``, few first."""
    need(tables, evidence.SAMPLES)
    rows = evidence.lineages(tables)[evidence.of_rn1]
    rank = evidence.rank_of_inputs(tables, rows)
    labels = [f"{N:,} samples of rank {each:g}" for N, each in zip(rows["N"], rank, strict=True)]
    return rows.assign(label=labels, ratio=rows["N"] / rank).sort_values("ratio", kind="stable")


def by_optimizer(tables: Tables) -> pd.DataFrame:
    """RN1 grown and minimised, or trained by minibatches."""
    rows = evidence.networks(tables)[evidence.of_rn1].query("not reference and (grown or optimizer != 'lbfgs')")
    return rows.assign(label=rows["optimizer"].map(OPTIMIZERS))


def depth_by_samples(tables: Tables, style: Style) -> Figure:
    """Metrics and the loss over that of free features against depth, a line a number of samples."""
    rows = by_samples(tables)
    if not (rows["ratio"].min() <= 1 and rows["ratio"].max() >= ENOUGH):
        raise UserError(f"it {LACKS}.")
    return against_depth(rows, FEW, style, height=2.0)


def against_depth(
    rows: pd.DataFrame, values: Mapping[str, str], style: Style, height: float, **options: bool
) -> Figure:
    """A panel a value that is above 0 anywhere, a line a label."""
    panels, ticks = [], sorted(rows["L"].unique())
    for value, title in values.items():
        axes = labelled("depth L", "", "x" if value.startswith("accuracy") else "xy", xticks=ticks, title=title)
        if len(above := rows[rows[value] > 0]):
            panels.append(Panel(above, "L", value, axes, options=options))
    looks = assign_looks(list(dict.fromkeys(rows["label"])), style)
    note = f"mean ± std of {counted(rows['seed'].nunique(), 'networks')}"
    return draw_grid([panels], looks, height=height, sharey="none", note=note)


def excess_where_few(tables: Tables) -> list[Found]:
    """Loss over free features over that loss, where samples are as few as the rank: the largest of all networks."""
    rows = by_samples(tables).query("ratio <= 1")
    shares = cases(rows, "excess / free", unit=("setting", "L", "seed"), name="all depths")
    return Cases(shares.of, "networks").of_all(np.max) if len(rows) else [LACKS]


def falls_by_minibatches(tables: Tables) -> list[Found]:
    """Slope of log10 of NC1 on log10 L, mean over networks' seeds, a case a setting and optimizer."""
    rows = by_optimizer(tables).query("optimizer != 'lbfgs'")
    of_network = rows.groupby(["setting", "optimizer", "seed"])["L"]
    rows = rows[of_network.transform("nunique") >= DEPTHS].set_index("L")
    several = rows["setting"].nunique() > 1

    def name(key: Mapping[str, Any]) -> str:
        return OPTIMIZERS[key["optimizer"]] + (f", {key['setting']}" if several else "")

    return cases(rows, "NC1", ["setting", "optimizer"], name=name, several=slope).means() or [evidence.LACKS]


FIGURES = {
    "collapse-certificate": Drawing(
        "What a loss certifies",
        "NC1, NC2 and NC3 (with the last layer's mean row taken off) of every network of the study `{study}`, against "
        "the largest that any network of the same cross-entropy and last-layer penalty can have, classes being "
        "balanced; of networks trained by squared error without a bias the scatter within classes, tr Σ_W.",
        measured_against_certified,
        seen="The closest network has {holds:%} of its bound.",
        differs="Not in the paper, whose theorems are asymptotic: this bound holds for every single network.",
    ),
    "collapse-critical": Drawing(
        "The penalty above which branches vanish",
        "The penalty of hidden weights below which the best small neuron grows in a network without branches, and "
        "below which living branches stay, found by bisection, against the penalty of the last layer, in networks with "
        "two linear layers in each block (study `{study}`). Dashed: above it a single neuron costs more than it gains.",
        phase_line,
        seen="Found over predicted is {switch}, and living branches hold out to {hysteresis} times the penalty.",
        differs="Not in the paper; whether metrics depend on depth it does not say, since living branches may stay.",
    ),
    "collapse-few": Drawing(
        "Too few samples: the loss of free features at every depth",
        "RN1 on as few samples as the first layer reads dimensions, and on more (study `{study}`). On few the first "
        "layer, which has no penalty, can put features anywhere: the optimum is that of free features at every depth.",
        depth_by_samples,
        seen="On few samples losses are at most {optimum:%} above those of free features.",
        differs="Not in the paper: what falls with depth here is the optimiser's doing.",
    ),
    "collapse-practice": Drawing(
        "Depth in practice",
        "RN1: NC1 on the training samples and on up to 1000 test samples, and test accuracy, of networks minimised by "
        "L-BFGS, and of networks trained for 300 epochs by minibatches of 32 with SGD (momentum 0.9, the same "
        "penalties) and AdamW (decay of all weights). Study `{study}`.",
        lambda tables, style: against_depth(by_optimizer(tables), PRACTICE, style, height=2.2, band=False),
        seen="On test samples the slope of log₁₀ NC1 on log₁₀ L is {test}.",
        differs="Not in the paper, whose metrics are of training samples.",
    ),
}
_claim = partial(our_claim, tables=(CRITICAL,))
SLOPE = "slope of log₁₀ of NC1 on log₁₀ L, mean over"
CLAIMS = {
    "collapse-certificate-holds": derived_claim(
        statement="A network's loss bounds how far it is from collapse",
        quantity="what is measured over the largest that the loss allows, largest of all networks",
        bound=at_most(1),
        reason="NC1: Jensen's inequality within classes, and the unconstrained features model at a given scatter of "
        "means. NC2: what the loss leaves for margins that differ and for class means off their rows. NC3: Jensen over "
        "samples and wrong classes, then Cauchy. Under squared error ridge regression.",
        kind="theorem",
        tables=(RUNS,),
        measure=largest_ratio,
    ),
    "collapse-critical-switch": _claim(
        statement="In networks without branches new ones grow below the predicted penalty alone, at every depth",
        quantity="penalty above which the best small neuron vanishes over the predicted one, mean over networks, "
        "widened by half a step of the bisection to either side",
        bound=between(1 / 1.25, 1.25),
        origin="pilot",
        reason="The network without branches is a local minimum above S alone, by a first-order expansion. A quarter "
        "is left for the step of the bisection and for blocks that add biases; chosen after one network of a pilot.",
        measure=partial(bisected, found="born", base="predicted", steps=1),
    ),
    "collapse-critical-hysteresis": _claim(
        statement="Branches that live hold out to a higher penalty than that at which new ones grow",
        quantity="penalty at which living branches die over that at which new ones vanish, mean over networks, "
        "widened by half a step of either bisection",
        bound=above(1),
        reason="Above the critical penalty the network without branches is a local minimum, which says nothing of "
        "others: one with branches may be a minimum too.",
        measure=partial(bisected, found="dies", base="born", steps=2),
    ),
    "collapse-critical-control": _claim(
        statement="At the penalty of Figure 2's control new branches cannot grow from nothing",
        quantity="λ of the control over the predicted one at that λ of the last layer, mean over networks",
        bound=above(1),
        origin="derived",
        reason="Above the predicted penalty a small neuron costs more than it gains. Living branches may stay "
        "(collapse-critical-hysteresis), so that this says nothing of whether the control is flat, as it was said to "
        "until 28 November 2026. The predicted penalty is the best that a search finds: a better one makes the value "
        "smaller. Figure 2 is of MNIST.",
        measure=control_over_predicted,
    ),
    "collapse-few-optimum": derived_claim(
        statement="Where samples are as few as the rank of the inputs, networks of every depth reach that of free "
        "features",
        quantity="loss over that of free features, as a share of it, largest of all networks",
        bound=between(0, 0.05),
        reason="A linear map of linearly independent inputs gives any features; 5 % is how close a network at an "
        "optimum has to be.",
        measure=excess_where_few,
    ),
    "collapse-practice-test": our_claim(
        statement="Deeper networks at an optimum are closer to collapse on test samples too",
        quantity=f"{SLOPE} lineages at an optimum",
        bound=below(0),
        reason="The theorems are of training samples; a user asks of others.",
        measure=partial(evidence.slopes_of, values=["NC1_test"], chosen=evidence.of_rn1),
    ),
    "collapse-practice-minibatches": our_claim(
        statement="Networks trained by minibatches are closer to collapse the deeper they are",
        quantity=f"{SLOPE} networks",
        bound=below(0),
        reason="Section 5 asks whether gradient descent finds what optima have; a user trains by minibatches.",
        measure=falls_by_minibatches,
    ),
}
