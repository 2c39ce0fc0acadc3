"""Figures 3 (right) and 6: decay makes neurons of the last hidden layer alike."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import starmap

import numpy as np
import pandas as pd

from symlab.errors import UserError
from symlab.plotting.style import PAGE, Axes, Figure, Look, Style, palette
from symlab.study.card import Drawing
from symlab.study.cases import Cases, Values, cases
from symlab.study.claim import Claim, Found, Measurement, Tables, above, at_least, at_most, exact_value
from symlab.study.facets import BARS, Panel, draw_grid, labelled
from symlab.study.tables import last_epoch, need, some, where

TABLE, MATRICES = "homogeneity.csv", "neuron_correlations.parquet"
KINDS = {"pre": "before the activation", "post": "after the activation"}
SHARES = {"positive": "correlation near 1", "negative": "near -1", "close": "weights merged"}
NETWORK = ["mask_seed", "seed"]
LEVEL = 0.05
"""Of exact tests of counts."""


def of_standard(rows: pd.DataFrame) -> pd.DataFrame:
    """Networks without fixed parts or products.

    Raises:
        UserError: they have one decay alone, or none of 0.
    """
    rows = rows[rows["scheme"] == "standard"]
    if not {0} < {*rows["weight_decay"]}:
        raise UserError(
            f"{where(rows) if len(rows) else 'the study'} needs standard networks with and without decay; give a "
            "standard variant sweep: {recipe.weight_decay: [0, 0.001]}."
        )
    return rows


def matrix_panel(rows: pd.DataFrame, kind: str, decay: float, ylabel: str = "") -> Panel:
    """The correlation matrix of one network."""
    chosen = rows[(rows["kind"] == kind) & (rows["weight_decay"] == decay)]
    chosen = chosen[chosen["variant"] == chosen["variant"].iloc[0]].drop_duplicates(["i", "j"])
    matrix = chosen.pivot(index="i", columns="j", values="correlation").to_numpy()

    def draw(axis: Axes) -> None:
        image = axis.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
        axis.set(xticks=[], yticks=[])
        if decay:
            axis.figure.colorbar(image, ax=axis, fraction=0.04, pad=0.03)

    return Panel(chosen.head(0), "i", "j", {"title": f"decay {decay:g}", "ylabel": ylabel}, more=draw)


def scale_decay(axis: Axes, decays: pd.Series) -> None:
    """A logarithmic axis of decays that has 0 too, with a tick at each."""
    values = sorted(decays.unique())
    positive = [value for value in values if value > 0]
    axis.set_xscale("symlog", linthresh=positive[0], linscale=0.6)
    axis.set_xticks(values, [f"{value:g}" for value in values], rotation=45)
    axis.minorticks_off()


def _matrix_with_decay(tables: Tables, style: Style) -> Figure:
    rows = of_standard(need(tables, MATRICES))
    grid = [[matrix_panel(rows, "pre", decay) for decay in (0.0, rows["weight_decay"].max())]]
    return draw_grid(grid, {}, width=0.75 * PAGE, sharex=False, sharey=False)


def _matrices_and_shares(tables: Tables, style: Style) -> Figure:
    matrices, rows = of_standard(need(tables, MATRICES)), last_epoch(of_standard(need(tables, TABLE)))
    looks = {name: Look(color, "-", "o") for name, color in zip(SHARES.values(), palette(style), strict=False)}
    decays = np.sort(rows["weight_decay"].unique())[1:]
    nearest = float(decays[np.argmin(np.abs(np.log(decays / 1e-3)))])
    grid = []
    for kind, told in KINDS.items():
        of_kind = rows[rows["kind"] == kind]
        shares = pd.concat([of_kind.assign(share=of_kind[name], label=label) for name, label in SHARES.items()])
        axes, scale = labelled("weight decay", "share of pairs"), partial(scale_decay, decays=rows["weight_decay"])
        last = Panel(shares, "weight_decay", "share", axes, options=BARS, more=scale)
        grid.append([matrix_panel(matrices, kind, 0.0, told), matrix_panel(matrices, kind, nearest), last])
    return draw_grid(grid, looks, sharex=False, sharey=False, note="pairs of neurons")


FIGURES = {
    "mirror-3c": Drawing(
        "Neurons grow alike with decay",
        "Correlations of the last hidden layer's live neurons over test samples, before the activation, like neurons "
        "beside each other (average linkage); one network without decay, and one with the study's largest.",
        _matrix_with_decay,
        differs="The paper's is ResNet-18 on CIFAR-10, and does not say its decay.",
    ),
    "mirror-6": Drawing(
        "Correlations of neurons with and without decay",
        "Left and middle: correlations of the last hidden layer's live neurons over test samples, before and after "
        "the activation, like neurons beside each other, of one network each. Right: shares of the pairs of neurons "
        "correlated above `homogeneity.correlated` and below its negative, and of those whose weights and biases are "
        "closer than `homogeneity.close` of the sum of their norms; mean and standard deviation over networks.",
        _matrices_and_shares,
        seen="With the largest decay {blocks(kind=pre):%} more of the pairs are perfectly correlated than without "
        "decay or before training.",
        differs="The paper's is ResNet-18 on CIFAR-10. Shares against the decay are added.",
    ),
}


def by_decay(rows: pd.DataFrame, column: str) -> Cases:
    """A value of each network, a case a decay and side of the activation."""
    rows = rows.sort_values("kind")
    names = {kind: f"decay {{weight_decay:g}}, {told}" for kind, told in KINDS.items()}
    return cases(rows, column, ["kind", "weight_decay"], NETWORK, lambda key: names[key["kind"]].format(**key))


def with_and_without(tables: Tables, column: str) -> tuple[Cases, Cases]:
    """A value at the end of each network that decays, and of those that do not."""
    found = by_decay(last_epoch(of_standard(tables[TABLE])), column)
    return found.without(weight_decay=0.0), found.at(weight_decay=0.0).keyed("kind")


def permutation_test(more: Values, base: Values) -> Measurement:
    """p of more in the one than in the other; where neither that nor of fewer is significant, it decides nothing."""
    p, fewer = (permutation_p(more.array, base.array, side) for side in ("greater", "less"))
    told = f"{more.array.sum():g} in {len(more.array)} networks against {base.array.sum():g} in {len(base.array)}"
    found = exact_value(p, min(len(more.array), len(base.array)), more.case, told, "networks")
    return replace(found, open="neither significantly more nor fewer" if min(p, fewer) > LEVEL else "")


def permutation_p(values: np.ndarray, base: np.ndarray, alternative: str = "greater") -> float:
    """How often relabelled units have a sum in ``values``' place at least as large: the exact one-sided test."""
    # Claims of other figures are imported beside this module, and scipy takes time.
    from scipy.stats import fisher_exact, permutation_test

    both = np.concatenate([values, base])
    if np.isnan(both).any():
        return np.nan
    if np.isin(both, (0, 1)).all():  # The same without a list of all relabellings, of which 24 units have millions.
        table = [(of.sum(), len(of) - of.sum()) for of in (values, base)]
        return float(fisher_exact(np.array(table, dtype=int), alternative).pvalue)
    options = {"n_resamples": np.inf, "alternative": alternative}
    return float(permutation_test((values, base), lambda first, _: first.sum(), **options).pvalue)


def beyond_controls(tables: Tables) -> list[Found]:
    """Share of correlated pairs at the largest decay less the larger of that without decay and that before training."""
    rows = of_standard(tables[TABLE])
    last = last_epoch(rows)
    largest = rows["weight_decay"].max()
    end, none = (by_decay(last[last["weight_decay"] == decay], "positive") for decay in (largest, 0))
    start = some(rows[(rows["epoch"] == 0) & (rows["weight_decay"] == largest)], "needs a snapshot of epoch 0")
    untrained = by_decay(start, "positive")
    return replace(end, unit="networks").differences(Cases((*none, *untrained)).extreme(float, "kind"))


def why_no_blocks(tables: Tables) -> Iterator[tuple[str, str]]:
    """Whether the share of correlated pairs still rises in proportion to decay, from the largest but one."""
    rows = last_epoch(of_standard(tables[TABLE]))
    decays = np.sort(rows.loc[rows["weight_decay"] > 0, "weight_decay"].unique())[-2:]
    if len(decays) < 2:
        return
    weaker, largest = decays
    shares = rows.groupby(["width", "weight_decay"], dropna=False)["positive"].mean().unstack()[decays].dropna().mean()
    rises = shares[largest] * weaker > shares[weaker] * largest
    known = "The largest decay is too small" if rises else "Not known, but more decay alone would hardly do"
    told = " and ".join(f"{share:.2g} at {decay:g}" for decay, share in shares.items())
    yield "", f"{known}: the share of correlated pairs is {told}, of networks of one width."


_claim = partial(Claim, tables=(TABLE,), also=("mirror-3c",), owner="derived", origin="paper")
CLAIMS = {
    "mirror-6-correlated": _claim(
        statement="With decay more pairs of neurons are perfectly correlated",
        quantity="share of correlated pairs, less that without decay",
        bound=above(0),
        reason="Figs. 3 and 6 show blocks with decay and few without.",
        measure=lambda tables: Cases.differences(*with_and_without(tables, "positive")),
        owner="paper",
    ),
    "mirror-6-merged": _claim(
        statement="With decay more pairs of neurons have the same weights",
        quantity="p of an exact permutation test of the networks' numbers of merged pairs, with decay and without",
        bound=at_most(0.05),
        reason="Theorem 4 is about weights; correlations also come from a low rank. Few pairs merge: counts.",
        measure=lambda tables: list(starmap(permutation_test, Cases.beside(*with_and_without(tables, "merged")))),
        origin="derived",
    ),
    "mirror-6-blocks": _claim(
        statement="With the largest decay neurons form blocks, which they do not without decay or before training",
        quantity="share of correlated pairs, less the larger of that without decay and that of the untrained networks",
        bound=at_least(0.05),
        reason="A block of 22 % of all neurons has 5 % of the pairs; controls may have some for other reasons.",
        measure=beyond_controls,
        why=why_no_blocks,
        owner="paper",
        origin="ours",
    ),
}
