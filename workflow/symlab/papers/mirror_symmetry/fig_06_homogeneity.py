"""Figures 3 (right) and 6: decay makes neurons of the last hidden layer alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.plotting.style import PAGE, Style, legend, line_entry, palette, panels
from symlab.study.card import Drawing
from symlab.study.claim import Bound, Claim, Found, Tables, above, at_least, at_most, below, mean_of
from symlab.study.claim import difference_of as difference
from symlab.study.tables import need, where

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TABLE, MATRICES = "homogeneity.csv", "neuron_correlations.parquet"
KINDS = {"pre": "before the activation", "post": "after the activation"}
SHARES = {"positive": "correlation near 1", "negative": "near -1", "close": "weights merged"}
PAPERS_DECAY = 1e-3


def of_standard(rows: pd.DataFrame) -> pd.DataFrame:
    """Networks without fixed parts or products.

    Raises:
        UserError: they have one decay alone, or none of 0.
    """
    rows = rows[rows["scheme"] == "standard"]
    decays = rows["weight_decay"].unique()
    if 0 not in decays or len(decays) < 2:
        raise UserError(
            f"{where(rows) if len(rows) else 'the study'} needs standard networks with and without decay; give a "
            "standard variant sweep: {recipe.weight_decay: [0, 0.001]}."
        )
    return rows


def draw_matrix(axis: Axes, rows: pd.DataFrame, kind: str, decay: float) -> Any:
    """The correlation matrix of one network."""
    chosen = rows[(rows["kind"] == kind) & (rows["weight_decay"] == decay)]
    chosen = chosen[chosen["variant"] == chosen["variant"].iloc[0]].drop_duplicates(["i", "j"])
    matrix = chosen.pivot(index="i", columns="j", values="correlation").to_numpy()
    axis.set(xticks=[], yticks=[])
    return axis.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)


def scale_decay(axis: Axes, decays: pd.Series) -> None:
    """A logarithmic axis of decays that has 0 too, with a tick for each decade."""
    positive = decays[decays > 0]
    axis.set_xscale("symlog", linthresh=positive.min(), linscale=0.6)
    tens = 10.0 ** np.arange(np.ceil(np.log10(positive.min())), np.floor(np.log10(positive.max())) + 1)
    axis.set_xticks([0, *tens])


def decays_to_show(rows: pd.DataFrame) -> tuple[float, float]:
    """None, and the one nearest to the paper's 0.001."""
    decays = np.sort(rows["weight_decay"].unique())[1:]
    return 0.0, float(decays[np.argmin(np.abs(np.log(decays / PAPERS_DECAY)))])


def matrix_with_decay(tables: Tables, style: Style) -> Figure:
    """With the largest decay, and without."""
    rows = of_standard(need(tables, MATRICES))
    figure, axes = panels(1, 2, 0.75 * PAGE, 2.6)
    for axis, decay in zip(axes[0], (rows["weight_decay"].max(), 0.0), strict=True):
        image = draw_matrix(axis, rows, "pre", decay)
        axis.set_title(f"decay {decay:g}")
    figure.colorbar(image, ax=axes[0, 1], fraction=0.04, pad=0.03, label="correlation")
    return figure


def matrices_and_shares(tables: Tables, style: Style) -> Figure:
    """A row a side of the activation: matrices without decay and with it, and shares of pairs against the decay."""
    matrices, rows = of_standard(need(tables, MATRICES)), of_standard(need(tables, TABLE))
    figure, axes = panels(2, 3, PAGE, 4.4, sharex=False, sharey=False)
    colors = palette(style)
    for row, (kind, told) in zip(axes, KINDS.items(), strict=True):
        for axis, decay in zip(row, decays_to_show(rows), strict=False):
            image = draw_matrix(axis, matrices, kind, decay)
            axis.set_title(f"decay {decay:g}")
        row[0].set_ylabel(told)
        figure.colorbar(image, ax=row[1], fraction=0.04, pad=0.03)
        of_kind = rows[rows["kind"] == kind].groupby("weight_decay")
        for color, share in zip(colors, SHARES, strict=False):
            mean, error = of_kind[share].mean(), of_kind[share].sem()
            row[2].errorbar(mean.index, mean, yerr=error, color=color, marker="o", capsize=2)
        scale_decay(row[2], rows["weight_decay"])
        row[2].set(ylabel="share of pairs", box_aspect=1)
    axes[1, 2].set_xlabel("weight decay")
    entries = [line_entry(name, color=color, marker="o") for name, color in zip(SHARES.values(), colors, strict=False)]
    legend(figure, entries, "pairs of neurons")
    return figure


def _see(tables: Tables) -> str:
    rows = of_standard(tables[TABLE])
    means = rows[rows["kind"] == "pre"].groupby("weight_decay")[["positive", "close", "dead"]].mean()
    none, most = means.loc[0], means.iloc[-1]
    return (
        f"Before the activation {100 * none['positive']:.2g} % of the pairs of live neurons correlate without decay "
        f"and {100 * most['positive']:.2g} % at {means.index[-1]:g}, where {100 * most['close']:.2g} % have merged "
        f"weights and {most['dead']:.3g} neurons are dead."
    )


FIGURES = (
    Drawing(
        "mirror-3c",
        "Neurons grow alike with decay",
        "Correlations of the last hidden layer's live neurons over test samples, before the activation, in the order "
        "of the matrix's leading eigenvector; one network with the study's largest decay, and one without.",
        matrix_with_decay,
        differs="The paper's is ResNet-18 on CIFAR-10, and does not say its decay.",
    ),
    Drawing(
        "mirror-6",
        "Correlations of neurons with and without decay",
        "Left and middle: correlations of the last hidden layer's live neurons over test samples, before and after "
        "the activation, in the order of the leading eigenvector, of one network each. Right: shares of the pairs of "
        "neurons with correlations above 0.95 and below -0.95, and of those whose incoming and outgoing weights and "
        "biases are closer than a twentieth of the sum of their norms; mean and standard error over networks.",
        matrices_and_shares,
        seen=_see,
        differs="The paper's is ResNet-18 on CIFAR-10. Shares against the decay are added.",
    ),
)


def _against_none(column: str) -> Callable[[Tables], list[Found]]:
    """Mean over networks less that of networks without decay, a case a decay and side of the activation."""

    def measure(tables: Tables) -> list[Found]:
        try:
            rows = of_standard(tables[TABLE])
        except UserError as error:
            return [str(error)]
        found: list[Found] = []
        for (kind, decay), of in rows[rows["weight_decay"] > 0].groupby(["kind", "weight_decay"]):
            base = rows[(rows["kind"] == kind) & (rows["weight_decay"] == 0)][column].to_numpy()
            dead = f"{of['dead'].mean():.3g} of {of['dead'].iloc[0] + of['live'].iloc[0]} neurons dead"
            case = f"decay {decay:g}, {KINDS[str(kind)]}"
            found.append(difference(of[column].to_numpy(), base, case, dead, "networks"))
        return found

    return measure


def largest_decay(tables: Tables, column: str) -> list[Found]:
    """The mean over networks at the largest decay, a case a side of the activation."""
    try:
        rows = of_standard(tables[TABLE])
    except UserError as error:
        return [str(error)]
    rows = rows[rows["weight_decay"] == rows["weight_decay"].max()]
    return [
        mean_of(of[column].to_numpy(), f"decay {of['weight_decay'].iloc[0]:g}, {KINDS[str(kind)]}", unit="networks")
        for kind, of in rows.groupby("kind")
    ]


def negative_less_positive(tables: Tables) -> list[Found]:
    """Share of pairs near -1 less a tenth of that near 1, at the largest decay."""
    table = tables[TABLE]
    shares = table.assign(excess=table["negative"] - table["positive"] / 10)
    return largest_decay({TABLE: shares}, "excess")


def _claim(name: str, statement: str, quantity: str, bound: Bound, reason: str, measure: Any, **more: Any) -> Claim:
    fields = {"owner": "paper", "origin": "paper", "tables": (TABLE,), "also": ("mirror-3c",)} | more
    return Claim(
        id=f"mirror-6-{name}",
        statement=statement,
        quantity=quantity,
        bound=bound,
        reason=reason,
        measure=measure,
        **fields,
    )


CLAIMS = (
    _claim(
        "correlated",
        "With decay more pairs of neurons are perfectly correlated",
        "share of pairs with correlation above 0.95, less that without decay",
        above(0),
        "Figs. 3 and 6 show blocks with decay and few without.",
        _against_none("positive"),
    ),
    _claim(
        "merged",
        "With decay more pairs of neurons have the same weights",
        "share of pairs with weights closer than 0.05, less that without decay",
        above(0),
        "Theorem 4 is about weights: correlations alone also come from a low rank.",
        _against_none("close"),
        owner="derived",
        origin="derived",
        why={
            f"decay 0.0005, {told}": "Merging takes decay times steps, and 100 epochs are too few here: the closest "
            "pair of a network is at a distance of 0.26, 0.15 and 0.11 after 40, 80 and 100 epochs (means), and at "
            "0.09 after 10 at a decay of 0.005."
            for told in KINDS.values()
        },
    ),
    _claim(
        "participation",
        "With decay activations take fewer dimensions",
        "participation of the correlation matrix, less that without decay",
        below(0),
        "Blocks of equal neurons leave fewer directions.",
        _against_none("participation"),
        owner="derived",
    ),
    _claim(
        "sign",
        "Neurons grow alike, not opposite",
        "share of pairs near -1 less a tenth of that near 1",
        at_most(0),
        "On the mirror θ_a = θ_b correlations are +1; a tenth as many near -1 are allowed for.",
        negative_less_positive,
        owner="derived",
        origin="ours",
    ),
    _claim(
        "blocks",
        "With the largest decay neurons form blocks",
        "share of pairs with correlation above 0.95",
        at_least(0.05),
        "One block of a fifth of all neurons has 4 % of the pairs; fewer are not seen as blocks.",
        lambda tables: largest_decay(tables, "positive"),
        owner="paper",
        origin="ours",
        why={"": "MNIST networks have many groups of a few neurons (2.6 % of the pairs), not one or two large ones."},
    ),
)
