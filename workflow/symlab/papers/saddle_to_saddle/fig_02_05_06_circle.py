"""Figs. 2, 5 and 6: escape directions on the circle from random starts, faster than one neuron or not."""

import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from symlab.papers.saddle_to_saddle.settings import STILL_BELOW
from symlab.plotting.style import COLUMN, Axes, Figure, Look, Style, palette, panels
from symlab.study.card import Drawing
from symlab.study.cases import Cases, cases
from symlab.study.claim import Bound, Claim, Found, Tables, above, below, exact_value, share_of, value_of_all
from symlab.study.facets import Panel, draw_grid, draw_rows, labelled, wrap
from symlab.study.tables import need, some
from symlab.words import counted

RUNS, CURVES, LIMITS = "polygon_runs.csv", "polygon_curves.csv", "polygon_limits.csv"
FASTER, SLOWER, SHARE = "faster than one neuron", "not faster", "share of runs"
LIMITS_TOLD = "dashed: one neuron, 0.414; dotted: the certified limit, 1/2"
NEEDED = 4
"""Neurons a layer that Example 1 needs for more than the speed of one."""


def on_circle(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the paper's circle: eight points, depth three.

    Raises:
        UserError: there are none.
    """
    lacking = "it needs the circle at depth 3: add 8 to saddle_escape.polygons.N and 3 to its L."
    return some(table[(table["N"] == 8) & (table["L"] == 3)], lacking)


def successes(runs: pd.DataFrame) -> pd.DataFrame:
    """Of each width: ``hits``, the runs faster than one neuron, of ``n``."""
    found = runs.assign(hit=runs["outcome"] == "success").groupby("width")["hit"].agg(["sum", "size"])
    return found.rename(columns={"sum": "hits", "size": "n"})


def intervals(hits: pd.Series, n: pd.Series) -> np.ndarray:
    """Lower and upper ends of the exact 95 % intervals of shares, a row each; from 0 to 1 of single runs."""
    return np.transpose([share_of(int(hit), int(of)).interval or (0, 1) for hit, of in zip(hits, n, strict=True)])


def circle(tables: Tables, style: Style) -> Figure:
    runs, curves = (on_circle(need(tables, name)) for name in (RUNS, CURVES))
    found = successes(runs)
    # Where both ends are to be seen.
    width = (found["hits"] / found["n"] - 0.5).abs().idxmin()
    angle, sign = 2 * np.pi * np.arange(1, 9) / 8, np.arange(1, 9) % 2
    points = pd.DataFrame({"x": np.sin(angle), "y": np.cos(angle), "label": np.where(sign, "G = -1", "G = +1")})
    shares = found.reset_index().eval("share = hits / n").assign(label=SHARE)

    def needed(axis: Axes) -> None:
        axis.axvline(NEEDED, color="0.6", linestyle=":", linewidth=0.8)

    plane = labelled("$x_1$", "$x_2$", aspect="equal", xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), title="inputs")
    of_width = labelled("width", "", "x", ylim=(-0.03, 1.03), xticks=found.index, title="successes")
    grid = [
        Panel(points, "x", "y", plane, draw_rows, {"markersize": 5}),
        _descents(curves, runs, width, f"descents, width {width}"),
        Panel(shares, "width", "share", of_width, _draw_shares, more=needed),
    ]
    note = f"{LIMITS_TOLD}\nbars: 95 % intervals (exact)"
    return draw_grid([grid], _looks(style), sharex=False, sharey=False, note=note)


def all_descents(tables: Tables, style: Style) -> Figure:
    runs, curves = (on_circle(need(tables, name)) for name in (RUNS, CURVES))
    counts = runs.groupby("width").size()
    shown = [_descents(curves, runs, width, f"width {width}, {counted(n, 'runs')}") for width, n in counts.items()]
    return draw_grid(wrap(shown), _looks(style), height=1.6, sharex=False, sharey=True, note=LIMITS_TOLD)


def _looks(style: Style) -> dict[str, Look]:
    blue, red, grey = (palette(style)[index] for index in (0, 3, 7))
    points = {"G = +1": Look(red, ""), "G = -1": Look(blue, "")}
    return points | {FASTER: Look(blue, marker=""), SLOWER: Look(grey, marker=""), SHARE: Look(blue)}


def _descents(curves: pd.DataFrame, runs: pd.DataFrame, width: Any, title: str) -> Panel:
    """The speed along all descents of a width."""
    hit = runs[runs["width"] == width].set_index("run")["outcome"] == "success"
    rows = curves[curves["width"] == width]
    rows = rows.assign(label=np.where(rows["run"].map(hit), FASTER, SLOWER))
    axes = labelled("step", r"speed $-L_0$", title=title)
    return Panel(rows, "step", "speed", axes, _draw_lines, more=_draw_limits)


def _draw_lines(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str) -> None:
    from matplotlib.collections import LineCollection

    lines = [curve[[x, y]].to_numpy() for _, curve in rows.groupby("run")]
    # Hundreds of lines are pixels within a drawing.
    axis.add_collection(LineCollection(lines, colors=[look.color], linewidths=0.4, alpha=0.6, rasterized=True))
    axis.autoscale()


def _draw_shares(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str) -> None:
    low, high = intervals(rows["hits"], rows["n"])
    bars = [rows[y] - low, high - rows[y]]
    axis.errorbar(rows[x], rows[y], yerr=bars, color=look.color, marker=look.marker, capsize=2)


def speed_against_direction(tables: Tables, style: Style) -> Figure:
    import torch

    from symlab.papers.saddle_to_saddle.polygon import rank_one_speed

    phi = np.linspace(0, 2 * np.pi, 1601)
    figure, axes = panels(1, 1, 1.3 * COLUMN, 2.2)
    axis = axes[0, 0]
    axis.plot(phi, rank_one_speed(8, torch.from_numpy(phi)).numpy(), color=palette(style)[0])
    _draw_limits(axis)
    axis.annotate("wider networks: 1/2", (0, 0.5), (3, -3), textcoords="offset points", va="top")
    axis.set(xlabel=r"direction $\varphi$", ylabel="speed $s$", ylim=(0, 0.53), xlim=(0, 2 * np.pi))
    axis.set_xticks(np.pi / 2 * np.arange(5), ["0", r"$\pi/2$", r"$\pi$", r"$3\pi/2$", r"$2\pi$"])
    return figure


def _draw_limits(axis: Axes) -> None:
    axis.axhline(math.sqrt(2) - 1, color="black", linestyle="--", linewidth=0.8)
    axis.axhline(0.5, color="black", linestyle=":", linewidth=0.8)


FIGURES = {
    "saddle-2": Drawing(
        "Escape directions on the circle",
        "Left: eight inputs on the unit circle, coloured by the gradient of the cost at output 0. Centre: speed -L0 "
        "along projected gradient descent on the sphere |θ|² = 3 from random starts, networks of depth 3. Right: share "
        "of the runs that end faster than any network of one neuron a layer, √2 - 1, against the width.",
        circle,
        seen="The share of runs faster than one neuron is {wide(width=4):%} at width 4, {wide(width=8):%} at width 8 "
        "and {wide(width=32):%} at width 32.",
        differs="The paper names neither the width of the centre panel nor the number of runs; the width nearest to a "
        "share of one half is shown. The limit 1/2 is certified here by linear programs; the paper doubts that "
        "there is a faster direction and leaves it open.",
    ),
    "saddle-6": Drawing(
        "All descents on the circle",
        "Speed -L0 along every projected gradient descent on the sphere |θ|² = 3 from random starts, for eight inputs "
        "on the unit circle and networks of depth 3, a panel a width; blue ones end above √2 - 1, the most that one "
        "neuron a layer reaches.",
        all_descents,
    ),
    "saddle-5": Drawing(
        "Speed of one neuron against its direction",
        "Escape speed on the circle of a network of one neuron a layer, against the direction φ of its input weights "
        "(Equation 6). It is √2 - 1 at most (dashed), where φ points at an input, and 0 between two; dotted is what "
        "wider networks reach at depth 3.",
        speed_against_direction,
    ),
}


def rise_with_width(tables: Tables) -> list[Found]:
    """p-value of the trend of successes over log2 of the width."""
    found = successes(on_circle(tables[RUNS]))
    if len(found) < 3:
        return ["needs three widths"]
    p = trend_p_value(found["hits"].to_numpy(), found["n"].to_numpy(), np.log2(found.index.to_numpy(dtype=float)))
    told = ", ".join(f"{width}: {row.hits}/{row.n}" for width, row in found.iterrows())
    return [exact_value(p, int(found["n"].sum()), detail=told, unit="runs")]


def trend_p_value(hits: np.ndarray, n: np.ndarray, x: np.ndarray) -> float:
    """One-sided p-value of Cochran and Armitage's test that shares rise with x; 1 where all are 0 or all 1."""
    share = hits.sum() / n.sum()
    variance = share * (1 - share) * ((n * x**2).sum() - (n * x).sum() ** 2 / n.sum())
    if variance <= 0:
        return 1.0
    return 0.5 * math.erfc(float((x * (hits - n * share)).sum() / math.sqrt(2 * variance)))


def _hits(tables: Tables, chosen: str) -> Cases:
    runs = on_circle(tables[RUNS]).query(chosen)
    return cases(runs.assign(hit=runs["outcome"] == "success"), "hit", ("width",), "run", "width {width}")


def _second_values(tables: Tables, layer: int, worst: str) -> list[Found]:
    chosen = on_circle(tables[RUNS]).query("outcome == 'success' and @NEEDED <= width <= 2 * @NEEDED")
    ended = some(chosen[chosen["slope"] <= STILL_BELOW], "needs a success at a width of 4 to 8 that has ended")
    told = f"{len(chosen) - len(ended)} more still move at the last step"
    return [value_of_all(float(ended[f"second_{layer}"].agg(worst)), len(ended), detail=told, unit="runs")]


_claim = partial(Claim, origin="ours", tables=(RUNS,), also=("saddle-6",))
CLAIMS = {
    "saddle-2-trend": _claim(
        statement="The wider the network, the more often descent finds a direction faster than one neuron",
        quantity="p-value of the trend over log2 of the width (Cochran and Armitage, one-sided)",
        bound=below(0.01),
        owner="paper",
        origin="derived",
        reason="The paper says that success increases with width; chance gives this p-value once in a hundred.",
        measure=rise_with_width,
    ),
    "saddle-2-narrow": _claim(
        statement="With fewer than four neurons a layer, no run is faster than one neuron",
        quantity="number of successes",
        bound=Bound("0 runs", 0, 0),
        owner="ours",
        reason="The paper's direction needs four neurons in the first layer; that fewer cannot be faster is our guess.",
        measure=lambda tables: _hits(tables, f"width < {NEEDED}").of_all(np.sum),
    ),
    "saddle-2-wide": _claim(
        statement="From four neurons a layer on, some runs are faster than one neuron",
        quantity="share of successes",
        bound=above(0),
        owner="paper",
        origin="paper",
        reason="The paper gives a faster direction for every hidden width of at least four.",
        measure=lambda tables: _hits(tables, f"width >= {NEEDED}").of_all(np.mean),
    ),
    "saddle-2-first-layer": _claim(
        statement="Where descent is faster than one neuron, the first layer has two equal singular values",
        quantity="second over first singular value of W_1, smallest of all successes of widths 4 to 8 that have ended",
        bound=above(0.95),
        owner="derived",
        reason="Example 1 has 1; 0.05 is left for descents that have not quite ended.",
        measure=partial(_second_values, layer=1, worst="min"),
    ),
    "saddle-2-second-layer": _claim(
        statement="Where descent is faster than one neuron, the second layer has rank one",
        quantity="second over first singular value of W_2, largest of all successes of widths 4 to 8 that have ended",
        bound=below(0.1),
        owner="derived",
        reason="Example 1 has 0; a tenth is left for descents that have not quite ended.",
        measure=partial(_second_values, layer=2, worst="max"),
    ),
}
