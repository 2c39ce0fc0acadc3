"""Figure 2: on a mirror the Hessian falls into blocks, and decay decides whether the mirror is a minimum across it."""

from functools import partial

import numpy as np
import pandas as pd

from symlab.plotting.style import PAGE, Style, palette, panels
from symlab.plotting.types import Figure
from symlab.study.card import Drawing
from symlab.study.cases import cases
from symlab.study.claim import Claim, Found, Tables, above, at_most, between, exact_value
from symlab.study.tables import need

HESSIAN, DECAY, THEOREM = "mirror_hessian.csv", "mirror_decay.csv", "mirror_theorem.csv"
FLOOR = 1e-18
"""Where zeros are drawn."""


def _blocks_and_wells(tables: Tables, style: Style) -> Figure:
    figure, axes = panels(1, 4, PAGE, 2.1, sharex=False, sharey=False)
    blue, edge_color = palette(style, 4)[0], palette(style, 4)[3]
    matrix, blocks = in_basis_of_mirrors(need(tables, HESSIAN))
    image = axes[0, 0].imshow(np.log10(np.abs(matrix) + FLOOR), cmap="Greys", vmin=-18, vmax=0)
    bar = figure.colorbar(image, ax=axes[0, 0], location="bottom", fraction=0.05, pad=0.08, ticks=[-18, -9, 0])
    bar.ax.set_xticklabels(["0", "1e-9", "1"])
    for edge in np.flatnonzero(blocks[1:] != blocks[:-1]):
        for line in (axes[0, 0].axhline, axes[0, 0].axvline):
            line(edge + 0.5, color=edge_color, linewidth=0.5)
    axes[0, 0].set(xticks=[], yticks=[], title="|Hessian|")
    s = np.linspace(-2, 2, 201)
    for axis, gamma in zip(axes[0, 1:3], (0.5, 1.5), strict=True):
        axis.plot(s, 1 - s**2 + s**4 / 4 + gamma * s**2, color=blue, marker="")
        axis.axvline(0, color="0.7", linewidth=0.6, linestyle=":")
        axis.set(xlabel="$s$", title=rf"loss, $\gamma = {gamma:g}$", box_aspect=1)
    axis = axes[0, 3]
    for _, rows in need(tables, DECAY).groupby("seed"):
        axis.plot(rows["gamma_over_critical"], rows["norm"], color=blue, alpha=0.6, markersize=2.5)
    axis.axvline(1, color="0.7", linewidth=0.6, linestyle=":")
    axis.set(xlabel=r"$\gamma\;/\;\gamma_c$", title=r"$|\theta|$ at the end", box_aspect=1)
    return figure


def in_basis_of_mirrors(entries: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """The Hessian, and the block of each of its columns; earlier tables have it in a random basis too."""
    rows = entries[entries["basis"] == "mirrors"].sort_values(["i", "j"])
    size = int(rows["i"].max()) + 1
    return rows["value"].to_numpy().reshape(size, size), rows["block"].to_numpy()[::size]


def measured_threshold(rows: pd.DataFrame) -> float:
    """Where the squared norm, linear in the decay below it, comes to 0, in units of the predicted decay.

    Undefined without two decays below.
    """
    alive = rows[rows["gamma_over_critical"] < 1].tail(4)
    if len(alive) < 2:
        return np.nan
    slope, start = np.polyfit(alive["gamma_over_critical"], alive["norm"] ** 2, 1)
    return float(-start / slope)


FIGURES = {
    "mirror-2": Drawing(
        "Hessians on mirrors, and what decay makes of them",
        "Left: entries of the Hessian of a tanh network on three mirrors (two pairs of equal neurons, one neuron at "
        "0), in a basis of their columns and, last, of directions within all of them; coloured lines part the blocks. "
        "Middle: (uw - 1)² + γ(u² + w²) along u = w = s/√2 for a decay below and above γ = 1, where s = 0 turns from "
        "maximum to minimum. Right: norm of a tanh network's parameters at the end of descent against the decay, a "
        "line a draw of data; 0 is predicted to be stable from γ_c = |E xy|/2 on.",
        _blocks_and_wells,
        seen="Between blocks the largest entry is {blocks} of the largest of all; the norm comes to 0 at {threshold} "
        "times the predicted decay.",
        differs="The paper's block Hessian is a sketch; the right panel is added.",
    ),
}


def _largest_between_blocks(tables: Tables) -> list[Found]:
    matrix, blocks = in_basis_of_mirrors(tables[HESSIAN])
    apart = np.abs(matrix[blocks[:, None] != blocks[None, :]])
    return [exact_value(float(apart.max() / np.abs(matrix).max()), unit="networks")]


def _threshold_of_decay(tables: Tables) -> list[Found]:
    ends = tables[DECAY].groupby("seed")[["gamma_over_critical", "norm"]].apply(measured_threshold)
    return cases(ends.rename("threshold").reset_index(), "threshold").means()


def numbers_off(tables: Tables, part: str, relative: bool = True) -> list[Found]:
    """The largest distance of a part's numbers from what theory says, over that if ``relative``, by case."""
    rows = tables[THEOREM][tables[THEOREM]["part"] == part]
    off = (rows["measured"] - rows["predicted"]).abs() / (rows["predicted"].abs() if relative else 1)
    return cases(rows.assign(off=off), "off", ["case"], "case", "{case}", several="max").exact()


def _least_pull(tables: Tables) -> list[Found]:
    rows = tables[THEOREM][tables[THEOREM]["part"] == "no_reflection"]
    return cases(rows[rows["case"] == "no line is a mirror"], "measured", unit="case").exact()


_theorem = partial(Claim, tables=(THEOREM,), origin="derived", kind="theorem", owner="paper")
CLAIMS = {
    "mirror-2-blocks": _theorem(
        statement="On mirrors the Hessian has no entries between their directions and those within",
        quantity="largest entry between blocks over the largest of all",
        bound=at_most(1e-10),
        reason="Theorem 1 says 0; double precision leaves 1e-16.",
        tables=(HESSIAN,),
        measure=_largest_between_blocks,
    ),
    "mirror-2-threshold": Claim(
        statement="A tanh network dies at the decay |E xy| / 2",
        quantity="decay at which the squared norm extrapolates to 0, over |E xy| / 2",
        bound=between(0.98, 1.02),
        owner="derived",
        origin="pilot",
        reason="The Hessian at 0 has eigenvalues ± E xy (Eq. 2), decay adds 2 γ; 2 % is left for the extrapolation.",
        tables=(DECAY,),
        measure=_threshold_of_decay,
    ),
    "mirror-2-gamma-0": _theorem(
        statement="From the decay of Eq. 31 on, a point's projection on a mirror has the lower loss",
        quantity="largest distance of the decay at which both losses are equal from Eq. 31's, as a share of it",
        bound=at_most(1e-6),
        reason="Theorem 1, part 3, and part 2 of Theorems 2 to 4; bisection ends at 1e-14 of the decay.",
        measure=partial(numbers_off, part="gamma_0"),
    ),
    "mirror-2-gamma-1": _theorem(
        statement="The minimum lies on the mirror from a decay of half the most negative curvature across it on",
        quantity="largest distance of that decay from k²/2 for 1 + cos ks, as a share of it",
        bound=at_most(1e-4),
        reason="Theorem 1, part 4, with the factor of its proof; losses differ by rounding next to the threshold.",
        owner="derived",
        measure=partial(numbers_off, part="gamma_1"),
    ),
    "mirror-2-eq-2": _theorem(
        statement="At 0 the Hessian of a tanh network falls into d blocks of two, for every sample",
        quantity="largest distance of the Hessian from Eq. 2's, over its largest entry",
        bound=at_most(1e-12),
        reason="Eq. 2; double precision leaves 1e-16.",
        measure=partial(numbers_off, part="eq_2", relative=False),
    ),
    "mirror-2-eq-6": _theorem(
        statement="Across a mirror the loss has a right derivative in the squared distance",
        quantity="largest distance of (l(z) - l(0)) / z at z = 1e-6 from half the curvature, as a share of it",
        bound=at_most(1e-3),
        reason="Eq. 6: an L1 penalty on z can hold a model at z = 0; the next order in z is left.",
        measure=partial(numbers_off, part="eq_6"),
    ),
    "mirror-2-eq-6-without": _theorem(
        statement="Beside no mirror that derivative diverges",
        quantity="largest distance of the power of z with which the quotient grows from -1/2",
        bound=at_most(0.01),
        reason="Where a first order is left the quotient is the slope over the square root of z.",
        owner="derived",
        measure=partial(numbers_off, part="eq_6_without", relative=False),
    ),
    "mirror-2-no-reflection": _theorem(
        statement="A continuous symmetry without a reflection holds descent on no line",
        quantity="least gradient across any line through 0",
        bound=above(1e-3),
        reason="Footnote 3's control: a loss of the direction alone, that is not even.",
        owner="derived",
        measure=_least_pull,
    ),
}
