"""Figure 7: a network whose every parameter is a product of two trains as well, and most of its parameters vanish."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.plotting.style import PAGE, Style, legend, line_entry, palette, panels
from symlab.study.card import Drawing
from symlab.study.claim import (
    Claim,
    Found,
    Measurement,
    Tables,
    above,
    at_least,
    at_most,
    below,
    between,
    difference_of,
    exact_value,
    mean,
    mean_of,
)
from symlab.study.tables import chance, last_epoch, need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES, PRUNED, HISTORY, MEMORY = "magnitudes.csv", "pruned.csv", "history.csv", "mirror_memory.csv"
PARTS = ("parameters", "gradients", "momentum", "activations")
"""What a training step holds."""
VANISHED = 1e-6
"""The paper's threshold."""
SCHEMES = {"standard": "vanilla", "hadamard": "DCS"}


def with_decay(tables: Tables, name: str) -> pd.DataFrame:
    """Rows of a table about vanilla networks and products, with the decay of each."""
    decays = tables[SIZES].drop_duplicates("variant").set_index("variant")["weight_decay"]
    rows = tables[name]
    rows = rows[rows["scheme"].isin(SCHEMES) & rows["variant"].isin(decays.index)]
    return rows.assign(weight_decay=rows["variant"].map(decays))


def shown_decay(tables: Tables) -> float:
    """The smallest decay that both kinds of network have at which a tenth of the products' parameters vanish.

    Raises:
        UserError: both kinds share no decay.
    """
    last = last_epoch(with_decay(tables, SIZES))
    last = last[last["threshold"] == VANISHED]
    both = set.intersection(*(set(last.loc[last["scheme"] == scheme, "weight_decay"]) for scheme in SCHEMES))
    if not both:
        raise UserError("it needs a standard and a hadamard variant with the same recipe.weight_decay.")
    shares = last[last["scheme"] == "hadamard"].groupby("weight_decay")["share"].mean()
    sparse = [decay for decay in sorted(both) if shares[decay] >= 0.1]
    return sparse[0] if sparse else max(both)


def training_and_vanishing(tables: Tables, style: Style) -> Figure:
    """Accuracy against epoch and time, the share of vanished parameters, and accuracy against the share pruned."""
    need(tables, SIZES)
    decay = shown_decay(tables)
    colors = dict(zip(SCHEMES, palette(style), strict=False))
    figure, grid = panels(2, 2, 0.8 * PAGE, 4.4, sharex=False, sharey=False)
    axes = grid.ravel()
    history, sizes, pruned = (with_decay(tables, name) for name in (HISTORY, SIZES, PRUNED))
    for scheme, color in colors.items():
        of = history[(history["scheme"] == scheme) & (history["weight_decay"] == decay)]
        seconds = of.groupby("epoch")["time_s"].mean().cumsum()
        for split, line in (("train", "--"), ("val", "-")):
            accuracy = 100 * of.groupby("epoch")[f"{split}_accuracy"].mean()
            axes[0].plot(accuracy.index, accuracy, color=color, linestyle=line, marker="")
            axes[1].plot(seconds, accuracy, color=color, linestyle=line, marker="")
        below_threshold = sizes[(sizes["scheme"] == scheme) & (sizes["threshold"] == VANISHED)]
        share = below_threshold[below_threshold["weight_decay"] == decay].groupby("epoch")["share"].mean()
        axes[2].plot(share.index, share, color=color, markersize=2.5)
        cut = pruned[(pruned["scheme"] == scheme) & (pruned["weight_decay"] == decay) & pruned["threshold"].isna()]
        mean = cut.groupby("share")["accuracy"].mean()
        axes[3].plot(mean.index, mean, color=color, markersize=2.5)
    low = float(history[history["weight_decay"] == decay]["val_accuracy"].quantile(0.1)) * 100
    for axis in axes[:2]:
        axis.set(ylim=(min(low, 90) - 1, 100.5), ylabel="accuracy in %")
    axes[0].set_xlabel("epoch")
    axes[1].set_xlabel("seconds a network")
    axes[2].set(xlabel="epoch", ylabel="share below $10^{-6}$", ylim=(-0.02, 1))
    axes[3].set(xlabel="share set to 0", ylabel="test accuracy in %")
    entries = [line_entry(name, color=colors[scheme]) for scheme, name in SCHEMES.items()]
    entries += [line_entry("validation", color="0.3"), line_entry("training", color="0.3", linestyle="--")]
    legend(figure, entries, f"decay {decay:g}")
    return figure


def _see(tables: Tables) -> str:
    decay, last = shown_decay(tables), last_epoch(with_decay(tables, SIZES))
    shares = last[(last["threshold"] == VANISHED) & (last["weight_decay"] == decay)].groupby("scheme")["share"].mean()
    accuracies = _accuracies(tables, decay)
    told = [
        f"{name} {100 * shares[scheme]:.3g} % below 1e-6 and {accuracies[scheme].mean():.4g} % accurate"
        for scheme, name in SCHEMES.items()
    ]
    return f"At decay {decay:g}: {', '.join(told)}."


FIGURES = (
    Drawing(
        "mirror-7",
        "Every parameter a product of two",
        "Networks as they are (vanilla) and with every parameter a product of two trained ones (DCS), with the same "
        "recipe: accuracy against epochs and against the time of training a network; share of parameters below 1e-6; "
        "test accuracy when the smallest parameters are set to 0. Means over networks, at the smallest decay at which "
        "a tenth of the products vanish.",
        training_and_vanishing,
        seen=_see,
        differs="The paper's is ResNet-18 on CIFAR-10; it shows no pruning.",
    ),
)


def _accuracies(tables: Tables, decay: float) -> dict[str, np.ndarray]:
    """Test accuracy in percent of every network, nothing set to 0, by scheme."""
    whole = with_decay(tables, PRUNED)
    whole = whole[(whole["share"] == 0) & whole["threshold"].isna() & (whole["weight_decay"] == decay)]
    return {scheme: whole.loc[whole["scheme"] == scheme, "accuracy"].to_numpy() for scheme in SCHEMES}


def _decays(tables: Tables) -> list[float]:
    """Those that both kinds of networks have."""
    rows = with_decay(tables, SIZES)
    both = (set(rows.loc[rows["scheme"] == scheme, "weight_decay"]) for scheme in SCHEMES)
    return sorted(decay for decay in set.intersection(*both) if decay > 0)


def vanished_share(tables: Tables) -> list[Found]:
    """Of products' parameters, a case a decay."""
    rows = last_epoch(with_decay(tables, SIZES))
    rows = rows[(rows["threshold"] == VANISHED) & (rows["scheme"] == "hadamard") & (rows["weight_decay"] > 0)]
    return [
        mean_of(of["share"].to_numpy(), f"decay {decay:g}", unit="networks")
        for decay, of in rows.groupby("weight_decay")
    ] or ["no networks of products"]


def accuracy_gap(tables: Tables) -> list[Found]:
    """Products' test accuracy less vanilla's, a case a decay."""
    found: list[Found] = []
    for decay in _decays(tables):
        of = _accuracies(tables, decay)
        found.append(difference_of(of["hadamard"], of["standard"], f"decay {decay:g}", "", "networks"))
    return found or ["needs vanilla networks and products with the same decay"]


def guessing(tables: Tables, decay: float) -> str:
    """Which networks' mean accuracy has chance in its 95 % interval, or is below; empty if none, or not known."""
    level = chance(tables[PRUNED])
    told = []
    for scheme, values in _accuracies(tables, decay).items():
        low, _ = mean_of(values).interval or (mean(values), math.inf)
        if level is not None and low <= 100 * level:
            told.append(f"{SCHEMES[scheme]} networks guess ({mean(values):.3g} % right of {100 * level:g} % by chance)")
    return " and ".join(told)


def pruned_vanilla(tables: Tables) -> list[Found]:
    """Accuracy that vanilla networks lose, cut to the share that products have below 1e-6, less what products lose.

    Open where either kind guesses, which has nothing to lose.
    """
    found: list[Found] = []
    pruned = with_decay(tables, PRUNED)
    for decay in _decays(tables):
        whole, of = _accuracies(tables, decay), pruned[pruned["weight_decay"] == decay]
        products = of[(of["scheme"] == "hadamard") & (of["threshold"] == VANISHED)]
        share = products["share"].mean()
        if share < 0.1:
            continue
        cut = of[(of["scheme"] == "standard") & of["threshold"].isna()]
        curves = [rows.sort_values("share") for _, rows in cut.groupby(["mask_seed", "seed"])]
        lost = np.array(
            [rows["accuracy"].iloc[0] - np.interp(share, rows["share"], rows["accuracy"]) for rows in curves]
        )
        case = f"decay {decay:g}, {100 * share:.3g} % of the parameters"
        measured = difference_of(lost, whole["hadamard"] - products["accuracy"].to_numpy(), case, "", "networks")
        found.append(replace(measured, open=guessing(tables, decay)))
    return found or ["at no decay a tenth of the parameters of products vanish"]


def time_ratio(tables: Tables) -> list[Found]:
    """Seconds of an epoch of products over those of vanilla networks, a case a decay."""
    rows = with_decay(tables, HISTORY)
    means = rows.groupby(["weight_decay", "scheme"])["time_s"].median()
    return [
        Measurement(float(means[decay, "hadamard"] / means[decay, "standard"]), 1, case=f"decay {decay:g}", unit="runs")
        for decay in _decays(tables)
    ] or ["needs vanilla networks and products with the same decay"]


def memory_ratios(tables: Tables) -> dict[int, float]:
    """Bytes of products over those of vanilla networks, by batch size."""
    rows = tables[MEMORY].set_index(["batch", "scheme"])[list(PARTS)].sum(axis=1).unstack("scheme")
    return dict((rows["hadamard"] / rows["standard"]).items())


def memory_of_one(tables: Tables) -> list[Found]:
    """At a batch of one sample."""
    return [
        exact_value(ratio, case=f"batch {n}", unit="networks") for n, ratio in memory_ratios(tables).items() if n == 1
    ]


def memory_of_many(tables: Tables) -> list[Found]:
    """At the largest batch."""
    ratios = memory_ratios(tables)
    return [exact_value(ratios[max(ratios)], case=f"batch {max(ratios)}", unit="networks")]


CLAIMS = (
    Claim(
        id="mirror-7-memory",
        statement="At a batch of one sample products take twice the memory",
        quantity="bytes of parameters, gradients, momentum and saved activations over those of a vanilla network",
        bound=between(1.5, 2.5),
        owner="paper",
        origin="ours",
        reason="Appendix B.4 says twice; a quarter is left for how products are computed.",
        tables=(MEMORY,),
        why={
            "": "Two factors with gradients and momentum are 6 numbers a parameter; composed parameters and their "
            "gradients, which an own buffer holds here, are 2 more, against 3 of a vanilla network."
        },
        measure=memory_of_one,
    ),
    Claim(
        id="mirror-7-memory-large",
        statement="At a large batch they take hardly more",
        quantity="bytes of parameters, gradients, momentum and saved activations over those of a vanilla network",
        bound=below(1.1),
        owner="paper",
        origin="paper",
        reason="Appendix B.4: less than 10 % at a batch of 128.",
        tables=(MEMORY,),
        why={
            "": "ResNet-18 saves 574 MiB of activations at a batch of 128; parameters, gradients and momentum are "
            "128 MiB: products add more than a tenth however they are computed. The paper's peak on a GPU counts "
            "temporary buffers besides."
        },
        measure=memory_of_many,
    ),
    Claim(
        id="mirror-7-sparse",
        statement="Many parameters of products vanish",
        quantity="share of parameters below 1e-6 at the end",
        bound=at_least(0.1),
        owner="paper",
        origin="ours",
        reason="The paper calls its parameters very sparse; a tenth is the least that would be called so.",
        tables=(SIZES,),
        why={
            "decay 0.0005": "Decay takes each factor down by exp(-rate decay steps / (1 - momentum)) and a product by "
            "its square, 2,700 in 7,900 steps: 45 % are below 1e-5 and still falling.",
            "decay 0.001": "A product falls by 220 in the 2,700 steps of the convolutional network.",
        },
        measure=vanished_share,
    ),
    Claim(
        id="mirror-7-accurate",
        statement="Products reach the accuracy of vanilla networks",
        quantity="test accuracy of products less that of vanilla networks, in percentage points",
        bound=at_least(-1),
        owner="paper",
        origin="ours",
        reason="The paper: both about 93 %, products higher by a small margin; a point is left for the difference.",
        tables=(SIZES, PRUNED),
        why={
            "": "On 10,000 MNIST images products fit the training set (99.9 % at 0.0005) and generalise less: the "
            "decay is an L1 penalty of the same number on their product. At 0.003 a ResNet20 of products on digits "
            "dies block by block: convolutions fall to 1e-8 and the gains of their norms to 1e-6, where vanilla ones "
            "keep 1e-3 and more. Not measured on ResNet-18, nor with augmented images."
        },
        measure=accuracy_gap,
    ),
    Claim(
        id="mirror-7-pruned",
        statement="Vanilla networks cut to the sparsity of products lose more",
        quantity="percentage points that vanilla networks lose, less those that products lose",
        bound=above(0),
        owner="ours",
        origin="ours",
        reason="A constraint that training knows of must cost less than one imposed afterwards.",
        tables=(SIZES, PRUNED),
        measure=pruned_vanilla,
    ),
    Claim(
        id="mirror-7-time",
        statement="Products train in a similar time",
        quantity="seconds of an epoch over those of a vanilla network",
        bound=at_most(1.5),
        owner="paper",
        origin="ours",
        reason="The paper says similar.",
        tables=(SIZES, HISTORY),
        measure=time_ratio,
    ),
)
