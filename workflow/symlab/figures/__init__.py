"""The paper's figures by number: tidy tables in, a matplotlib Figure out. A new figure is one function and one line.

The Snakefile imports this module on every start, so it imports neither matplotlib nor pandas.
"""

from __future__ import annotations

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from symlab.errors import UserError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class FigureSpec:
    """How a figure is drawn: ``draw`` is "module:function" of (tables, Style), ``tables`` the file names it reads."""

    draw: str
    tables: tuple[str, ...]
    title: str


_MATCHING = ("matching.csv",)
_CURVES = ("curves.csv",)
_SWAPS = ("swap_costs.parquet",)

FIGURES: dict[str, FigureSpec] = {
    "3a": FigureSpec("symlab.figures.matching:against_sigma_F", _MATCHING, "Matching objective against sigma_F"),
    "3b": FigureSpec(
        "symlab.figures.matching:against_sigma_F", _MATCHING, "Matching objective against sigma_F, ResNets"
    ),
    "3c": FigureSpec("symlab.figures.matching:against_epoch", _MATCHING, "Matching objective over training"),
    "4": FigureSpec("symlab.figures.paths:train_accuracy", _CURVES, "Train accuracy along the path"),
    "4b": FigureSpec(
        "symlab.figures.paths:train_accuracy_of_resnets", _CURVES, "Train accuracy along the path, ResNets (b, d)"
    ),
    "5": FigureSpec("symlab.figures.swap_costs:maps_by_k", _SWAPS, "Swap costs by k and sigma_F (also Fig. 14)"),
    "6": FigureSpec(
        "symlab.figures.coherence:barrier_against_nu", ("barriers.csv",), "Midpoint barrier against coherence"
    ),
    "7": FigureSpec(
        "symlab.figures.matching:layers_against_epoch", _MATCHING, "Matching objective by layer over training"
    ),
    "8": FigureSpec(
        "symlab.figures.matching:layers_against_sigma_F", _MATCHING, "Matching objective by layer against sigma_F"
    ),
    "9": FigureSpec(
        "symlab.figures.matching:layers_against_sigma_F", _MATCHING, "Matching objective by layer, ResNets"
    ),
    "10": FigureSpec(
        "symlab.figures.matching:layers_against_fraction", _MATCHING, "Matching objective against fixed weights"
    ),
    "11": FigureSpec("symlab.figures.centre_gaps:against_width", ("centre_gaps.csv",), "Centre gap against width"),
    "12": FigureSpec("symlab.figures.swap_costs:boxes_by_variant", _SWAPS, "Swap-cost distributions by variant"),
    "13": FigureSpec("symlab.figures.swap_costs:boxes_by_k", _SWAPS, "Swap-cost distributions by k and sigma_F"),
    "16": FigureSpec("symlab.figures.swap_costs:maps_standard", _SWAPS, "Swap costs, standard network"),
    "17": FigureSpec("symlab.figures.swap_costs:maps_w_zero", _SWAPS, "Swap costs, W-asymmetric network, sigma_F = 0"),
    "18": FigureSpec(
        "symlab.figures.swap_costs:maps_w_large", _SWAPS, "Swap costs, W-asymmetric network, sigma_F >= 1"
    ),
    "19": FigureSpec("symlab.figures.swap_costs:maps_syre", _SWAPS, "Swap costs, syre network"),
    "20": FigureSpec(
        "symlab.figures.paths:unaligned_train_accuracy", _CURVES, "Train accuracy along the unaligned path, ViTs"
    ),
    "21": FigureSpec(
        "symlab.figures.coherence:nu_against_epoch", ("subspaces.csv",), "Subspace coherence over training"
    ),
}


def draw(figure_id: str, tables: dict[str, pd.DataFrame], style: dict[str, Any]) -> Figure:
    """Draw one figure.

    Args:
        figure_id: a key of ``FIGURES``.
        tables: the study's tables by file name, at least those named in the figure's ``tables``.
        style: the config's style (font_size in points, dpi, palette); missing keys take their defaults.

    Raises:
        UserError: the number is not in ``FIGURES``, or the tables lack what the figure shows (the sentence names the
            study's key to set).
    """
    if figure_id not in FIGURES:
        raise UserError(f"There is no figure {figure_id!r}; figures that can be drawn are {', '.join(FIGURES)}.")
    from symlab.figures.style import Style, applied

    look = Style(**style)
    try:
        with applied(look):
            figure: Figure = resolve_name(FIGURES[figure_id].draw)(tables, look)
    except UserError as error:
        raise UserError(f"Figure {figure_id} cannot be drawn: {error}") from None
    return figure
