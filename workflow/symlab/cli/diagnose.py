"""``symlab diagnose``: ``symlab.diagnose`` from files to a table and a figure."""

from argparse import Namespace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from symlab.artifacts import write_table
from symlab.cli.files import check_folder, computing, written
from symlab.cli.texts import results_of
from symlab.own.diagnose import diagnose as diagnose_networks
from symlab.plotting.style import COLUMN, Style, apply_style, legend, mark_entry, palette, panels, save

RESULTS = results_of("diagnose")
MOST_PANELS = 12


def diagnose(options: Namespace) -> None:
    """Diagnose two networks as ``symlab diagnose --help`` says; print a summary.

    Raises:
        UserError: something in the options or files is wrong; nothing is written then.
    """
    check_folder(options, RESULTS)
    found = diagnose_networks(options.model, options.A, options.B, options.data, **computing(options))
    style = Style()
    with written(options, RESULTS, str(found)) as staged:
        write_table(staged / "neurons.csv", found.neurons)
        with apply_style(style):
            save(neurons_figure(found.neurons, style), staged / "neurons.pdf", staged / "neurons.png", dpi=style.dpi)


def neurons_figure(neurons: pd.DataFrame, style: Style) -> Figure:
    """Each neuron's correlation with that of its own number in the other network against that with its partner.

    A panel a group, of the first ``MOST_PANELS``; neurons that are their own partners lie on the diagonal.
    """
    groups = list(dict.fromkeys(neurons["group"]))[:MOST_PANELS]
    columns = min(3, len(groups))
    n_rows = -(-len(groups) // columns)
    figure, axes = panels(n_rows, columns, max(COLUMN, 2.3 * columns), 0.9 + 2.1 * n_rows)
    kept, moved, *_ = palette(style)
    for at, (axis, group) in enumerate(zip(axes.flat, groups, strict=False)):
        rows = neurons[neurons["group"] == group]
        axis.axline((0, 0), slope=1, color="0.85", linewidth=0.8, zorder=0)
        for itself, color in ((True, kept), (False, moved)):
            part = rows[rows["itself"] == itself]
            axis.plot(part["correlation"], part["own_correlation"], "o", color=color, markersize=3, alpha=0.7)
        axis.set_title(f"{str(group).replace('$', '')}: {np.mean(rows['itself']):.0%} in place")
        # Below a panel of the last row but one there may be none.
        if at + columns >= len(groups):
            axis.set_xlabel("correlation with the partner")
            axis.tick_params(labelbottom=True)
        if at % columns == 0:
            axis.set_ylabel("with its own number")
    for axis in axes.flat[len(groups) :]:
        axis.remove()
    entries = [mark_entry("its own partner", "o", color=kept), mark_entry("another's", "o", color=moved)]
    legend(figure, entries, "a point a neuron of A")
    return figure
