"""Figures 1, 2 and 5: a mirror in the plane, Hessians on mirrors, descents that start on them, and their rounding."""

from functools import partial

import numpy as np
import pandas as pd

from symlab.papers.mirror_symmetry.small.lines import LOSSES, RESCALING, ROTATION
from symlab.plotting.style import COLUMN, PAGE, Axes, Figure, Look, Style, palette, panels
from symlab.study.card import Drawing
from symlab.study.cases import cases
from symlab.study.claim import Claim, Found, Tables, above, at_most, between, exact_value
from symlab.study.facets import Panel, draw_grid, draw_rows, labelled
from symlab.study.tables import need

LINES, OPTIMIZERS = "mirror_lines.csv", "mirror_optimizers.csv"
ADAM, NEURONS = "Adam", "equal neurons"
TITLES = {RESCALING: "$(wu - 1)^2$", ROTATION: r"$-|\theta|^2 + |\theta|^4$"}
TITLE = "$n^T W = 0$ of $|W^T W - C|^2$"
FIRST = 200
"""Steps in which rounding has not grown to anything."""
GROWN = {"double": 1e-13, "single": 1e-4}, 1e-3
"""Distances between which rounding's growth is measured: a thousandfold what a step adds, and below what bends it."""
FLOOR = 1e-18
"""Where zeros are drawn."""


def _descents_on_mirrors(tables: Tables, style: Style) -> Figure:
    rows = need(tables, LINES)
    blue, red = palette(style)[0], palette(style)[3]
    beside = f"from {rows['offset'].max():g} beside it"
    looks = {"from a mirror": Look(blue, "-", ""), beside: Look(red, ":", "")}
    rows = rows.assign(label=np.where(rows["offset"] > 0, beside, "from a mirror"))
    grid = [[_field(rows[rows["loss_of"] == kind], kind) for kind in LOSSES]]
    off = need(tables, OPTIMIZERS).assign(label=lambda of: of["optimizer"])
    turned = off[off["mirror"] == ROTATION]
    others = [color for place, color in enumerate(palette(style, 10)) if place not in (0, 3)]
    looks |= {name: Look(color, "-", "") for name, color in zip(turned["label"].unique(), others, strict=False)}
    left = rows[(rows["mirror"] == "u = -w") & (rows["radius"] > 0)]
    left = left[left["radius"] == left["radius"].min()].assign(off=left["off"].abs().clip(lower=FLOOR))
    axes = partial(labelled, "step", "distance from the mirror", "y")
    turned = turned.assign(off=turned["off"].clip(lower=FLOOR))
    below = (left, axes(title="u = -w of the left loss", xlim=(0, 400))), (turned, axes(title=TITLE))
    grid.append([Panel(of, "step", "off", each, draw_rows, {"join": True}) for of, each in below])
    return draw_grid(grid, looks, sharex=False, sharey=False, width=0.8 * PAGE, height=2.5)


def _field(rows: pd.DataFrame, kind: str) -> Panel:
    def draw(axis: Axes) -> None:
        u, w = draw_contours(axis, kind, -EDGE)
        few = (slice(6, None, 12), slice(6, None, 12))
        gu, gw = (-part[few] for part in LOSSES[kind][1](u, w))
        length = np.hypot(gu, gw)
        axis.quiver(u[few], w[few], gu / length, gw / length, color="0.6", width=0.003, scale=28, pivot="mid")
        starts = rows[(rows["step"] == 0) & (rows["offset"] == 0)]
        axis.plot(starts["u"], starts["w"], color="black", marker="o", markersize=3, linestyle="")

    return Panel(rows, "u", "w", {"title": TITLES[kind]}, _draw_paths, more=draw)


def _draw_paths(axis: Axes, rows: pd.DataFrame, x: str, y: str, look: Look, label: str) -> None:
    for _, path in rows.groupby(["mirror", "radius"]):
        axis.plot(path[x], path[y], color=look.color, linestyle=look.linestyle, marker="", linewidth=1.6)


def farthest(tables: Tables, mirror: str, named: str, steps: float = np.inf, grown: bool = False) -> list[Found]:
    """The largest distance over steps from a mirror over the weights' norm, of optimizers with such a name.

    With ``grown`` over what linear order makes of a first step beside it, where that grows.
    """
    rows = tables[OPTIMIZERS]
    rows = rows[(rows["mirror"] == mirror) & (rows["step"] <= steps) & rows["optimizer"].str.fullmatch(named)]
    if grown:
        rows = rows.assign(off=rows["off"] / rows["tangent"].clip(lower=1))
    return cases(rows, "off", ["optimizer"], "mirror", "{optimizer}", several="max").exact()


def growth_of_rounding(tables: Tables) -> list[Found]:
    """Growth of the distance's logarithm over the tangent's, between the first and the last step within ``GROWN``."""
    rows = tables[OPTIMIZERS].query("mirror == @ROTATION and optimizer != @ADAM")
    ratios = {}
    for name, path in rows.groupby("optimizer", sort=False):
        low = GROWN[0]["single" if "single" in str(name) else "double"]
        last = path.index[path["off"] > GROWN[1]]
        within = path[(path["off"] > low) & (path.index < (last[0] if len(last) else path.index[-1] + 1))]
        if path[["off", "tangent"]].isna().any(axis=None):
            ratios[name] = np.nan
        elif len(within) > 1:
            grown = np.log(within[["off", "tangent"]].iloc[-1] / within[["off", "tangent"]].iloc[0])
            ratios[name] = float(grown["off"] / grown["tangent"])
    found = pd.DataFrame(ratios.items(), columns=["optimizer", "ratio"]).assign(mirror=ROTATION)
    lacking = "no distance grows to a thousandfold of rounding in these steps"
    return cases(found, "ratio", ["optimizer"], "mirror", "{optimizer}").exact() or [lacking]


EDGE = 1.8
"""Half of each panel's side."""


def _mirror_in_the_plane(tables: Tables, style: Style) -> Figure:
    figure, axes = panels(1, 1, 1.1 * COLUMN, 3.4)
    axis, color = axes[0, 0], palette(style)[0]
    draw_contours(axis, RESCALING, -0.6)
    axis.plot([-0.6, EDGE], [-0.6, EDGE], color=color, marker="")
    A = np.array([1.3, 0.3])
    places = {"A": A, "C": np.full(2, A.mean()), "B": A[::-1]}
    axis.plot(*zip(*places.values(), strict=True), color="0.5", linestyle=":", marker="")
    for name, place in places.items():
        axis.plot(*place, color="black", marker="o", markersize=4)
        axis.annotate(name, place, xytext=(5, 5), textcoords="offset points")
    along = np.array([-0.35, 0.3, 1.5])
    du, dw = (-part for part in LOSSES[RESCALING][1](along, along))
    axis.quiver(along, along, np.sign(du), np.sign(dw), color=color, width=0.012, scale=11, zorder=3)
    return figure


def draw_contours(axis: Axes, kind: str, low: float) -> tuple[np.ndarray, np.ndarray]:
    """Contours of a loss from ``low`` to the edge in both directions; the grid they are drawn on."""
    side = np.linspace(low, EDGE, 121)
    u, w = np.meshgrid(side, side)
    values = LOSSES[kind][0](u, w)
    axis.contour(u, w, values, levels=np.quantile(values, np.linspace(0.02, 0.95, 14)), cmap="Greys", linewidths=0.5)
    axis.set(xlabel="$u$", ylabel="$w$", aspect="equal", xlim=(low, EDGE), ylim=(low, EDGE))
    return u, w


HESSIAN, DECAY, THEOREM = "mirror_hessian.csv", "mirror_decay.csv", "mirror_theorem.csv"


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
    """Where the squared norm, linear in decays below it, comes to 0, over the predicted decay; NaN without two."""
    alive = rows[rows["gamma_over_critical"] < 1].tail(4)
    if len(alive) < 2:
        return np.nan
    slope, start = np.polyfit(alive["gamma_over_critical"], alive["norm"] ** 2, 1)
    return float(-start / slope)


def _largest_between_blocks(tables: Tables) -> list[Found]:
    matrix, blocks = in_basis_of_mirrors(tables[HESSIAN])
    apart = np.abs(matrix[blocks[:, None] != blocks[None, :]])
    return [exact_value(float(apart.max() / np.abs(matrix).max()), unit="networks")]


def numbers_off(tables: Tables, part: str, relative: bool = True) -> list[Found]:
    """The largest distance of a part's numbers from what theory says, over that if ``relative``, by case."""
    off = "abs(measured - predicted)" + " / abs(predicted)" * relative
    return cases(tables[THEOREM].query("part == @part"), off, ["case"], "case", "{case}", several="max").exact()


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
    "mirror-5": Drawing(
        "Descents that start on a mirror stay on it, up to rounding",
        "Above: contours and directions of descent of two losses, and gradient descents from points (dots) on their "
        "mirrors and, dotted, from right beside them. Left, the mirrors are u = w and u = -w; along u = -w a descent "
        "ends at the saddle 0 unless it starts beside it. Right, every line through 0 is a mirror. Below, left: how "
        "far the descents get from u = -w. Right: how far optimizers get off a mirror nᵀW = 0 of rotations on which "
        "they start. Adam divides every entry by its own scale, which rotations do not leave as it is; the others "
        "leave it because rounding grows where the Hessian across it is negative. Zeros are at 1e-18.",
        _descents_on_mirrors,
        seen="Rounding grows {rounding} times as fast as Hessians along the path predict.",
        differs="The paper draws two fields. Descents, controls from beside the mirrors and optimizers are added.",
    ),
    "mirror-1": Drawing(
        "A mirror of a loss",
        "Contours of (wu - 1)² and its mirror u = w. A and B have the same loss; C, the point of the mirror between "
        "them, is nearer to 0, so that decay prefers it. On the mirror gradients (arrows: descent) point along it.",
        _mirror_in_the_plane,
        differs="The paper's is a sketch.",
    ),
}
_theorem = partial(Claim, tables=(THEOREM,), origin="derived", kind="theorem", owner="paper")
_claim = partial(Claim, tables=(OPTIMIZERS,), owner="derived", origin="pilot")
CLAIMS = {
    "mirror-2-blocks": _theorem(
        statement="On mirrors the Hessian has no entries between their directions and those within",
        quantity="largest entry between blocks over the largest of all",
        bound=at_most(1e-10),
        reason="Theorem 1 says 0; double precision leaves 1e-16.",
        tables=(HESSIAN,),
        measure=_largest_between_blocks,
    ),
    "mirror-2-threshold": _claim(
        statement="A tanh network dies at the decay |E xy| / 2",
        quantity="decay at which the squared norm extrapolates to 0, over |E xy| / 2",
        bound=between(0.98, 1.02),
        reason="The Hessian at 0 has eigenvalues ± E xy (Eq. 2), decay adds 2 γ; 2 % is left for the extrapolation.",
        tables=(DECAY,),
        measure=lambda tables: cases(
            tables[DECAY].groupby("seed")[["gamma_over_critical", "norm"]].apply(measured_threshold)
        ).means(),
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
        reason="Sec. 2.5 says that it diverges; how fast is ours: where a first order is left the quotient is the "
        "slope over the square root of z.",
        owner="paper",
        measure=partial(numbers_off, part="eq_6_without", relative=False),
    ),
    "mirror-2-no-reflection": _theorem(
        statement="A continuous symmetry without a reflection holds descent on no line",
        quantity="least gradient across any line through 0",
        bound=above(1e-3),
        reason="Footnote 3's control: a loss of the direction alone, that is not even.",
        owner="derived",
        measure=lambda tables: cases(
            tables[THEOREM].query("case == 'no line is a mirror'"), "measured", unit="case"
        ).exact(),
    ),
    "mirror-5-stays": _claim(
        statement="SGD that starts on a mirror of rotations stays there, with momentum and decay too",
        quantity="largest |nᵀW| / |W| in 200 steps over the growth, if any, of an infinitesimal step beside the mirror",
        bound=at_most(1e-10),
        owner="paper",
        reason="Corollary 1 says 0; in double precision 200 steps round to 1e-15, and momentum carries some of it on. "
        "What the Hessian across the mirror makes of that is mirror-5-rounding's; with momentum it takes one of ten "
        "other losses beyond this bound.",
        kind="theorem",
        measure=partial(farthest, mirror=ROTATION, named=r"SGD((?!single).)*", steps=FIRST, grown=True),
    ),
    "mirror-5-rounding": _claim(
        statement="In floating point SGD leaves an unstable mirror as the Hessian across it says",
        quantity="growth of ln |nᵀW| over that of an infinitesimal step beside the mirror, along the same path",
        bound=between(0.9, 1.1),
        origin="ours",
        reason="Corollary 1 is about real numbers: rounding puts a step beside the mirror, which then grows as the "
        "linear order says; a tenth is left for what rounding adds on the way.",
        measure=growth_of_rounding,
    ),
    "mirror-5-equal": _claim(
        statement="Two equal neurons stay equal to the last bit under SGD, momentum, decay and Adam, in any precision",
        quantity="largest distance of the neurons over the weights' norm in all steps",
        bound=at_most(0),
        origin="derived",
        reason="Both are rounded alike, as long as nothing random tells them apart.",
        kind="theorem",
        measure=partial(farthest, mirror=NEURONS, named=r"((?!dropout).)*"),
    ),
    "mirror-5-dropout": _claim(
        statement="Dropout takes equal neurons apart",
        quantity="largest distance of the neurons over the weights' norm in all steps",
        bound=above(1e-10),
        owner="ours",
        reason="It drops one of the two: a step's loss has no symmetry. Corollary 1 does not say how far: beyond what "
        "mirror-5-stays allows. Half of other losses do not reach 0.001, asked before.",
        measure=partial(farthest, mirror=NEURONS, named=".*dropout.*"),
    ),
    "mirror-5-adam": _claim(
        statement="Adam leaves a mirror of rotations on which it starts",
        quantity="largest |nᵀW| / |W| in 200 steps",
        bound=above(1e-3),
        owner="ours",
        reason="Its first step changes every entry by the rate, 0.001. The paper says that its results hold for "
        "Adam-type dynamics as well, which is so for mirrors of permutations and signs alone.",
        measure=partial(farthest, mirror=ROTATION, named=ADAM, steps=FIRST),
    ),
}
