"""``symlab collapse``: ``symlab.collapse`` from files to tables and a figure."""

from argparse import Namespace

from matplotlib.figure import Figure

from symlab.artifacts import write_table
from symlab.cli.files import check_folder, computing, written
from symlab.cli.texts import results_of
from symlab.own.collapse import Collapse
from symlab.own.collapse import collapse as collapse_of
from symlab.plotting.log_axes import scale_log
from symlab.plotting.style import PAGE, Style, apply_style, legend, line_entry, palette, panels, save

RESULTS = results_of("collapse")
NAMED = 16
"""Layers whose names the figure has room for."""


def collapse(options: Namespace) -> None:
    """Measure a network's collapse as ``symlab collapse --help`` says; print a summary.

    Raises:
        UserError: something in the options or files is wrong; nothing is written then.
    """
    check_folder(options, RESULTS)
    layers = [each.strip() for each in options.layers.split(",")] if options.layers else []
    measured = {"readout": options.readout, "layers": layers, "token": options.token, "penalty": options.penalty}
    given = {"weights": options.checkpoint, "test": options.test}
    found = collapse_of(options.model, options.data, **given, **measured, **computing(options))
    style = Style()
    with written(options, RESULTS, str(found)) as staged:
        write_table(staged / "layers.csv", found.layers)
        write_table(staged / "parts.csv", found.parts)
        with apply_style(style):
            save(layers_figure(found, style), staged / "collapse.pdf", staged / "collapse.png", dpi=style.dpi)


def layers_figure(found: Collapse, style: Style) -> Figure:
    """NC1 (and its shares in and beyond the readout's row space), NC2 and NC3 by layer, a line a part of the data."""
    layers, colors = list(dict.fromkeys(found.layers["layer"])), palette(style)
    shares = dict(zip(("NC1", "NC1_row", "NC1_null"), colors, strict=False))
    drawn = {"NC1": shares, "NC2": {"NC2": colors[0]}, "NC3": {"NC3": colors[0]}}
    figure, axes = panels(1, 3, PAGE, 2.9, sharey=False)
    for axis, (title, lines) in zip(axes.flat, drawn.items(), strict=True):
        for part, dashes, filled in (("train", "-", "full"), ("test", "--", "none")):
            rows = found.layers[found.layers["part"] == part].set_index("layer").reindex(layers)
            for name, color in lines.items():
                axis.plot(rows[name].to_numpy(), color=color, linestyle=dashes, marker="o", fillstyle=filled)
        if title in found.bounds and title != "NC2":
            axis.plot(len(layers) - 1, found.bounds[title], color="0.4", linestyle="", marker="v")
        axis.set_title(title)
        axis.set_xlabel("layer")
        if len(layers) <= NAMED:
            axis.set_xticks(range(len(layers)), layers, rotation=90)
    scale_log(axes, "y")
    entries = [line_entry("all", color=colors[0]), line_entry("in the readout's row space", color=colors[1]),
               line_entry("beyond it", color=colors[2])]  # fmt: skip
    entries += (
        [line_entry("test", linestyle="--", marker="o", fillstyle="none")]
        if "test" in set(found.layers["part"])
        else []
    )
    entries += [line_entry("largest that the loss allows", linestyle="", marker="v")] if found.bounds else []
    legend(figure, entries, "")
    return figure
