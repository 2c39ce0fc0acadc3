"""Fig. 15: loss along the path between convolutional networks on CIFAR-10, by width."""

from symlab.errors import UserError
from symlab.papers.permutation_invariance import networks
from symlab.papers.permutation_invariance.drawing import method_looks, path_panel, wrap
from symlab.plotting.style import Figure, Style
from symlab.plotting.units import over_pairs
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Tables, above
from symlab.study.facets import draw_grid
from symlab.study.tables import need, where

TABLE = "barriers.csv"
MOST_PANELS = 9


def paths_by_width(tables: Tables, style: Style) -> Figure:
    rows = networks.drawn(need(tables, "curves.csv"), 1)
    grid = [
        path_panel(part, ", ".join(filter(None, [kind, f"width {width:g}"])))
        for (kind, width), part in rows.groupby(["kind", "width"])
    ]
    if len(grid) > MOST_PANELS:
        raise UserError(
            f"{where(rows)}.variants has {len(grid)} widths, for which there is no room; draw a study of at most "
            f"{MOST_PANELS}."
        )
    return draw_grid(wrap(grid), method_looks(style), line="method", sharey=True, note=over_pairs(rows))


FIGURES = {
    "permutation-15": Drawing(
        "Loss along the path by width multiplier",
        "Train loss (NLL) on the straight line between two networks of a pair, a panel for each width (of "
        "convolutional networks the width multiplier): λ = 0 is the first network, λ = 1 the second, as it is (direct) "
        "or with its neurons permuted to match the first. Lines are means over pairs, bands one standard deviation.",
        paths_by_width,
        seen="Between the ends of the widths the largest matched barrier is {peak} times the larger one at the ends.",
        differs="Exploratory and no faithful rerun: the paper leaves the architecture, the widths and the training of "
        "its network of depth 16 open, and those here are smaller.",
    ),
}

CLAIMS = {
    "permutation-15-peak": Claim(
        statement=networks.UP_AND_DOWN,
        quantity=networks.MIDDLE_OVER_ENDS,
        bound=above(1),
        owner="paper",
        origin="paper",
        reason="'The barrier goes up and then goes down as the width increases', over three widths.",
        tables=(TABLE,),
        measure=lambda tables: networks.middle_over_ends(tables[TABLE]),
        why=f"{networks.EXPLORATORY} for this figure, so three widths need not lie on both sides of the peak; "
        "networks and training here are far smaller than its own, so this is no faithful rerun.",
    ),
}
