"""Figs. 8 and 9: matching objectives layer by layer against sigma_F."""

from functools import partial

from symlab.papers.neuron_identifiability import objectives
from symlab.papers.neuron_identifiability.looks import draw_over_sigma, permutation_looks
from symlab.papers.neuron_identifiability.recording_points import break_text, in_lines, name_point, sort_points
from symlab.plotting import style as plot
from symlab.plotting.units import over_pairs
from symlab.study.card import Drawing
from symlab.study.claim import Tables
from symlab.study.facets import Panel, draw_grid, labelled
from symlab.study.tables import last_epoch, need

NARROWEST = 1.6
"""Least width of a panel in inches, so that the name of its x axis fits."""


def layers_against_sigma_F(tables: Tables, style: plot.Style) -> plot.Figure:
    rows = last_epoch(objectives.sweep_rows(need(tables, "matching.csv")))
    lines = in_lines(sort_points(rows["point"]))
    columns = max(map(len, lines))
    width = max(plot.PAGE, NARROWEST * columns) if columns > 2 else 2.6 * columns
    datasets = list(rows["dataset"].unique())

    def panel(dataset: str, point: str) -> Panel:
        part = rows[(rows["dataset"] == dataset) & (rows["point"] == point)]
        title = break_text(name_point(point), width / columns, style)
        axes = labelled(objectives.SIGMA_F, objectives.OBJECTIVE, title=title)
        finish = partial(objectives.mark_zero, rows=part, x="sigma_F")
        return Panel(part, "sigma_F", "objective", axes, draw_over_sigma, more=finish)

    grid = [[panel(dataset, point) for point in line] for dataset in datasets for line in lines]
    rows_named = [dataset for dataset in datasets for _ in lines] if len(datasets) > 1 else ()
    return draw_grid(
        grid, permutation_looks(style), line="permutation", width=width, height=1.7, sharey=True,
        rows_named=rows_named, note=over_pairs(rows),
    )  # fmt: skip


SEEN = (
    "In the worst layer the identity comes {unbroken:%} of the way from random permutations to the optimal one at "
    "σ_F = 0, and {identifiable:%} at large σ_F."
)


FIGURES = {
    "identifiability-8": Drawing(
        "Matching objective by layer against σ_F",
        f"""\
Matching objective of W-asymmetric networks after the last epoch against the scale σ_F of their fixed weights, one panel
for each hidden layer, study `{{study}}`. {objectives.DEFINITION}
""",
        layers_against_sigma_F,
        SEEN,
        objectives.BROKEN_AXIS,
    ),
    "identifiability-9": Drawing(
        "Matching objective by layer, ResNets",
        f"""\
Matching objective of W-asymmetric ResNets after the last epoch against the scale σ_F of their fixed weights, one panel
for each group of neurons that are permuted together, study `{{study}}`. {objectives.DEFINITION} For ResNet20 each line
is a block group (BG): its residual stream, whose permutation all its blocks share, then the inside of each block.
""",
        layers_against_sigma_F,
        SEEN,
        objectives.BROKEN_AXIS,
    ),
}
CLAIMS = {
    **objectives.claims_against_sigma_F("identifiability-8", layerwise=True, large=1),
    **objectives.claims_against_sigma_F("identifiability-9", layerwise=True, large=2),
}
