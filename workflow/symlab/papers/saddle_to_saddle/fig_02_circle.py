"""Figs. 2, 5 and 6: escape directions on the circle from random starts, faster than one neuron or not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.papers.saddle_to_saddle.settings import STILL_BELOW
from symlab.papers.saddle_to_saddle.shares import trend_p_value, wilson_interval
from symlab.plotting.style import COLUMN, PAGE, Style, legend, line_entry, mark_entry, palette, panels, set_ticks
from symlab.study.card import Drawing, Sentence, at
from symlab.study.claim import Bound, Case, Claim, Found, Tables, above, below, exact_value, value_of_all
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RUNS, CURVES, LIMITS = "polygon_runs.csv", "polygon_curves.csv", "polygon_limits.csv"
NEEDED = 4
"""Neurons a layer that Example 1 needs for more than the speed of one."""


def on_circle(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the paper's circle: eight points, depth three."""
    return table[(table["N"] == 8) & (table["L"] == 3)]


def successes(runs: pd.DataFrame) -> pd.DataFrame:
    """Of each width: ``hits``, the runs faster than one neuron, of ``n``."""
    found = runs.assign(hit=runs["outcome"] == "success").groupby("width")["hit"].agg(["sum", "size"])
    return found.rename(columns={"sum": "hits", "size": "n"})


def circle(tables: Tables, style: Style) -> Figure:
    """Fig. 2: the points and their gradients, the speed along the descents of one width, successes by width."""
    runs, curves = (on_circle(need(tables, name)) for name in (RUNS, CURVES))
    blue, red, grey = (palette(style)[index] for index in (0, 3, 7))
    figure, axes = panels(1, 3, PAGE, 2.5, sharex=False, sharey=False)
    left, centre, right = axes[0]
    angle = 2 * np.pi * np.arange(1, 9) / 8
    for sign, color in ((1, red), (-1, blue)):
        chosen = (-1.0) ** np.arange(1, 9) == sign
        left.scatter(np.sin(angle[chosen]), np.cos(angle[chosen]), color=color, s=25)
    left.set(aspect="equal", xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), xlabel="$x_1$", ylabel="$x_2$", title="inputs")
    width = _shown_width(runs)
    _draw_descents(centre, curves[curves["width"] == width], runs[runs["width"] == width], (blue, grey))
    centre.set(xlabel="step", ylabel=r"speed $-L_0$", title=f"descents, width {width}")
    found = successes(runs)
    share = found["hits"] / found["n"]
    low, high = np.transpose([wilson_interval(row.hits, row.n) for row in found.itertuples()])
    right.errorbar(found.index, share, yerr=[share - low, high - share], color=blue, marker="o", capsize=2)
    right.axvline(NEEDED, color="0.6", linestyle=":", linewidth=0.8)
    right.set(xscale="log", ylim=(-0.03, 1.03), xlabel="width", ylabel="share of runs")
    right.set_title("successes")
    set_ticks(right.xaxis, found.index)
    entries = [
        mark_entry("G = +1", "o", color=red),
        mark_entry("G = -1", "o", color=blue),
        line_entry("faster than one neuron", color=blue),
        line_entry("not faster", color=grey),
    ]
    legend(figure, entries, _say_runs(found))
    return figure


def all_descents(tables: Tables, style: Style) -> Figure:
    """Fig. 6: the speed along all descents, a panel a width."""
    runs, curves = (on_circle(need(tables, name)) for name in (RUNS, CURVES))
    blue, grey = palette(style)[0], palette(style)[7]
    widths = sorted(runs["width"].unique())
    columns = min(4, len(widths))
    rows = -(-len(widths) // columns)
    figure, axes = panels(rows, columns, PAGE, 0.8 + 1.6 * rows, sharex=False)
    for axis, width in zip(axes.flat, widths, strict=False):
        of_width = runs[runs["width"] == width]
        _draw_descents(axis, curves[curves["width"] == width], of_width, (blue, grey))
        axis.set_title(f"width {width}, {len(of_width)} runs")
        axis.locator_params(axis="x", nbins=3)
    for axis in axes.flat[len(widths) :]:
        axis.remove()
    figure.supxlabel("step", fontsize=style.font_size)
    figure.supylabel(r"speed $-L_0$", fontsize=style.font_size)
    entries = [line_entry("faster than one neuron", color=blue), line_entry("not faster", color=grey)]
    legend(figure, entries, "dashed: the speed of one neuron, 0.414; dotted: the certified limit, 1/2")
    return figure


def _shown_width(runs: pd.DataFrame) -> int:
    """The width whose share of successes is nearest to one half: there both ends are to be seen."""
    found = successes(runs)
    return int((found["hits"] / found["n"] - 0.5).abs().idxmin())


def _draw_descents(axis: Axes, curves: pd.DataFrame, runs: pd.DataFrame, colors: tuple[object, object]) -> None:
    hit = runs.set_index("run")["outcome"] == "success"
    from matplotlib.collections import LineCollection

    lines = {run: curve[["step", "speed"]].to_numpy() for run, curve in curves.groupby("run")}
    # Hundreds of lines are pixels within a drawing.
    drawn = LineCollection(
        list(lines.values()),
        colors=[colors[0] if hit[run] else colors[1] for run in lines],
        linewidths=0.4,
        alpha=0.6,
        rasterized=True,
    )
    axis.add_collection(drawn)
    axis.autoscale()
    _draw_limits(axis)


def _say_runs(found: pd.DataFrame) -> str:
    counts = found["n"].unique()
    each = f"{counts[0]} runs a width" if len(counts) == 1 else f"{counts.min()} to {counts.max()} runs a width"
    return f"{each}, bars are 95 % intervals (Wilson); dashed: one neuron, 0.414; dotted: the certified limit, 1/2"


def speed_against_direction(tables: Tables, style: Style) -> Figure:
    """Fig. 5: the speed of one neuron on the circle for each direction of its input weights (Equation 6)."""
    import torch

    from symlab.papers.saddle_to_saddle.polygon import rank_one_speed

    phi = np.linspace(0, 2 * np.pi, 1601)
    figure, axes = panels(1, 1, 1.3 * COLUMN, 2.2)
    axis = axes[0, 0]
    axis.plot(phi, rank_one_speed(8, torch.from_numpy(phi)).numpy(), color=palette(style)[0])
    _draw_limits(axis)
    axis.annotate("any width: 1/2", (0, 0.5), (3, -3), textcoords="offset points", va="top")
    axis.set(xlabel=r"direction $\varphi$", ylabel="speed $s$", ylim=(0, 0.53), xlim=(0, 2 * np.pi))
    axis.set_xticks(np.pi / 2 * np.arange(5), ["0", r"$\pi/2$", r"$\pi$", r"$3\pi/2$", r"$2\pi$"])
    return figure


def _draw_limits(axis: Axes) -> None:
    axis.axhline(math.sqrt(2) - 1, color="black", linestyle="--", linewidth=0.8)
    axis.axhline(0.5, color="black", linestyle=":", linewidth=0.8)


FIGURES = (
    Drawing(
        "saddle-2",
        "Escape directions on the circle",
        """\
Left: eight inputs on the unit circle, coloured by the gradient of the cost at output 0. Centre: speed -L0 along
projected gradient descent on the sphere |θ|² = 3 from random starts, networks of depth 3. Right: share of the runs that
end faster than any network of one neuron a layer, √2 - 1, against the width.
""",
        circle,
        seen=Sentence(
            "The share of runs faster than one neuron is {four:%} at width 4, {eight:%} at width 8 and {most:%} at "
            "width 32.",
            {name: at("saddle-2-wide", width=width) for name, width in (("four", 4), ("eight", 8), ("most", 32))},
        ),
        differs="The paper names neither the width of the centre panel nor the number of runs; the width nearest to a "
        "share of one half is shown. The limit 1/2 is certified here by linear programs, the paper conjectures it.",
    ),
    Drawing(
        "saddle-6",
        "All descents on the circle",
        "Speed -L0 along every descent of Figure 2, a panel a width; blue ones end above √2 - 1.",
        all_descents,
    ),
    Drawing(
        "saddle-5",
        "Speed of one neuron against its direction",
        "Escape speed on the circle of a network of one neuron a layer, against the direction φ of its input weights "
        "(Equation 6). It is √2 - 1 at most (dashed), where φ points at an input, and 0 between two; dotted is what "
        "wider networks reach at depth 3.",
        speed_against_direction,
    ),
)


def rise_with_width(tables: Tables) -> list[Found]:
    """p-value of the trend of successes over log2 of the width."""
    found = successes(on_circle(tables[RUNS]))
    if len(found) < 3:
        return ["needs three widths"]
    p = trend_p_value(found["hits"].to_numpy(), found["n"].to_numpy(), np.log2(found.index.to_numpy(dtype=float)))
    told = ", ".join(f"{width}: {row.hits}/{row.n}" for width, row in found.iterrows())
    return [exact_value(p, int(found["n"].sum()), detail=told, unit="runs")]


def _of_widths(tables: Tables, chosen: Callable[[int], bool]) -> Iterator[tuple[Case, int, int]]:
    for width, row in successes(on_circle(tables[RUNS])).iterrows():
        if chosen(int(str(width))):
            yield Case(f"width {width}", width=int(str(width))), int(row.hits), int(row.n)


def hits_of_narrow(tables: Tables) -> list[Found]:
    """Successes at each width below four."""
    return [
        value_of_all(float(hits), n, case, f"at most {wilson_interval(hits, n)[1]:.2g}", "runs")
        for case, hits, n in _of_widths(tables, lambda width: width < NEEDED)
    ]


def hits_of_wide(tables: Tables) -> list[Found]:
    """Share of successes at each width from four on."""
    return [
        value_of_all(hits / n, n, case, f"{hits} runs", "runs")
        for case, hits, n in _of_widths(tables, lambda width: width >= NEEDED)
    ]


def _second_values(tables: Tables, layer: int, worst: str) -> list[Found]:
    runs = on_circle(tables[RUNS])
    chosen = runs[(runs["outcome"] == "success") & runs["width"].between(NEEDED, 2 * NEEDED)]
    ended = chosen[chosen["slope"] <= STILL_BELOW]
    if ended.empty:
        return ["needs a success at a width of 4 to 8 that has ended"]
    told = f"{len(chosen) - len(ended)} more still move at the last step"
    return [value_of_all(float(ended[f"second_{layer}"].agg(worst)), len(ended), detail=told, unit="runs")]


def smallest_of_first_layer(tables: Tables) -> list[Found]:
    """Second over first singular value of W_1, the smallest of all successes at widths 4 to 8 that have ended."""
    return _second_values(tables, 1, "min")


def largest_of_second_layer(tables: Tables) -> list[Found]:
    """Second over first singular value of W_2, the largest of all successes at widths 4 to 8 that have ended."""
    return _second_values(tables, 2, "max")


CLAIMS = (
    Claim(
        id="saddle-2-trend",
        statement="The wider the network, the more often descent finds a direction faster than one neuron",
        quantity="p-value of the trend over log2 of the width (Cochran and Armitage, one-sided)",
        bound=below(0.01),
        owner="paper",
        origin="derived",
        reason="The paper says that success increases with width; chance gives this p-value once in a hundred.",
        tables=(RUNS,),
        measure=rise_with_width,
        also=("saddle-6",),
    ),
    Claim(
        id="saddle-2-narrow",
        statement="With fewer than four neurons a layer, no run is faster than one neuron",
        quantity="number of successes",
        bound=Bound("0 runs", 0, 0),
        owner="ours",
        origin="ours",
        reason="The paper's direction needs four neurons a layer; that fewer cannot be faster is our guess.",
        tables=(RUNS,),
        measure=hits_of_narrow,
        also=("saddle-6",),
    ),
    Claim(
        id="saddle-2-wide",
        statement="From four neurons a layer on, some runs are faster than one neuron",
        quantity="share of successes",
        bound=above(0),
        owner="paper",
        origin="paper",
        reason="The paper gives a faster direction for every hidden width of at least four.",
        tables=(RUNS,),
        measure=hits_of_wide,
        also=("saddle-6",),
    ),
    Claim(
        id="saddle-2-first-layer",
        statement="Where descent is faster than one neuron, the first layer has two equal singular values",
        quantity="second over first singular value of W_1, smallest of all successes of widths 4 to 8 that have ended",
        bound=above(0.95),
        owner="derived",
        origin="ours",
        reason="Example 1 has 1; 0.05 is left for descents that have not quite ended.",
        tables=(RUNS,),
        measure=smallest_of_first_layer,
        also=("saddle-6",),
    ),
    Claim(
        id="saddle-2-second-layer",
        statement="Where descent is faster than one neuron, the second layer has rank one",
        quantity="second over first singular value of W_2, largest of all successes of widths 4 to 8 that have ended",
        bound=below(0.1),
        owner="derived",
        origin="ours",
        reason="Example 1 has 0; a tenth is left for descents that have not quite ended.",
        tables=(RUNS,),
        measure=largest_of_second_layer,
        also=("saddle-6",),
    ),
)
