"""The papers' figures by number: tidy tables in, a matplotlib Figure out. A new figure is one function and one line.

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
    """How a figure is drawn: ``draw`` is "module:function" of (tables, Style), ``tables`` the file names it reads.

    Tables in ``optional`` are read where the study's analyses give them; without them the figure shows less.
    """

    draw: str
    tables: tuple[str, ...]
    title: str
    optional: tuple[str, ...] = ()


_MATCHING = ("matching.csv",)
_CURVES = ("curves.csv",)
_SWAPS = ("swap_costs.parquet",)
_RIDGE = ("ridge_swap_costs.parquet",)
_SENSITIVITY = ("sensitivity.csv",)
_BARRIERS = ("barriers.csv",)
_STUDENTS = ("widths_barriers.csv",)
# Figures of the second paper, Zhan, Li, Wu on permutation invariance, have its name before their number.
_PERMUTATION = "symlab.figures.permutation_invariance"

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
    "12": FigureSpec(
        "symlab.figures.swap_costs:boxes_by_variant", _SWAPS, "Swap-cost distributions by variant", _RIDGE
    ),
    "13": FigureSpec(
        "symlab.figures.swap_costs:boxes_by_k", _SWAPS, "Swap-cost distributions by k and sigma_F", _RIDGE
    ),
    "15": FigureSpec("symlab.figures.swap_costs:ridge_maps_by_k", _RIDGE, "Ridge swap costs by k and sigma_F"),
    "16": FigureSpec("symlab.figures.swap_costs:maps_standard", _SWAPS, "Swap costs, standard network", _RIDGE),
    "17": FigureSpec(
        "symlab.figures.swap_costs:maps_w_zero", _SWAPS, "Swap costs, W-asymmetric network, sigma_F = 0", _RIDGE
    ),
    "18": FigureSpec(
        "symlab.figures.swap_costs:maps_w_large", _SWAPS, "Swap costs, W-asymmetric network, sigma_F >= 1", _RIDGE
    ),
    "19": FigureSpec("symlab.figures.swap_costs:maps_syre", _SWAPS, "Swap costs, syre network", _RIDGE),
    "20": FigureSpec(
        "symlab.figures.paths:unaligned_train_accuracy", _CURVES, "Train accuracy along the unaligned path, ViTs"
    ),
    "21": FigureSpec(
        "symlab.figures.coherence:nu_against_epoch", ("subspaces.csv",), "Subspace coherence over training"
    ),
    "ridge": FigureSpec(
        "symlab.figures.estimators:rank_correlation", ("estimators.csv",), "Agreement of the two swap-cost estimators"
    ),
    "thm4.4": FigureSpec(
        "symlab.figures.concentration:against_nu", ("gram_deviation.csv",), "Concentration of S_i (Thm. 4.4)"
    ),
    "sec4.5": FigureSpec(
        "symlab.figures.trade_off:against_sigma_F", ("trade_off.csv",), "Identifiability against accuracy (Sec. 4.5)"
    ),
    "thm4.5": FigureSpec(
        "symlab.figures.sensitivity:of_outputs", _SENSITIVITY, "Cost of output permutations (Thm. 4.5)"
    ),
    "thm4.7": FigureSpec("symlab.figures.sensitivity:of_inputs", _SENSITIVITY, "Cost of input permutations (Thm. 4.7)"),
    "thm4.8": FigureSpec(
        "symlab.figures.network_gaps:against_bounds",
        ("network_gaps.csv",),
        "Gaps of trained networks and their bounds (Thms. 4.6, 4.8)",
        ("centre_gaps.csv",),
    ),
    "thm5.1": FigureSpec(
        "symlab.figures.chords:against_beta", ("chord_deviation.csv",), "Chord deviation against beta (Thms. 5.1, D.1)"
    ),
    "prop5.2": FigureSpec(
        "symlab.figures.chords:barrier_against_bound", ("loss_bounds.csv",), "Loss barrier and its bound (Prop. 5.2)"
    ),
    "permutation-1": FigureSpec(
        f"{_PERMUTATION}.overlap:against_width", ("overlap.csv",), "Overlap of types against student width"
    ),
    "permutation-2": FigureSpec(
        f"{_PERMUTATION}.student_barriers:against_width", _STUDENTS, "Barrier between students against width"
    ),
    "permutation-3": FigureSpec(
        f"{_PERMUTATION}.student_barriers:ratio_against_relative_width",
        ("ratios_barriers.csv",),
        "Permuted over direct barrier against relative width",
    ),
    "permutation-4": FigureSpec(
        f"{_PERMUTATION}.student_barriers:below_and_above",
        _STUDENTS,
        "Barrier of students narrower and wider than the teacher",
    ),
    "permutation-5": FigureSpec(
        f"{_PERMUTATION}.sparsity:by_neuron_against_width",
        ("sparsity_runs.csv",),
        "Sparsity by neuron against student width",
    ),
    "permutation-6": FigureSpec(
        f"{_PERMUTATION}.sparsity:against_learning_rate",
        ("learning_rates_runs.csv",),
        "Sparsity and zero rows against the learning rate",
    ),
    "permutation-7": FigureSpec(
        f"{_PERMUTATION}.network_widths:barrier_against_width", _BARRIERS, "Barrier of the loss against network width"
    ),
    "permutation-8": FigureSpec(
        f"{_PERMUTATION}.network_widths:paths_at_three_widths", _CURVES, "Loss along the path at three widths"
    ),
    "permutation-9": FigureSpec(
        f"{_PERMUTATION}.minima:doubled_types_and_entries",
        ("doubled_types_runs.csv", "column_entries.csv"),
        "Which minima gradient descent finds (a, b)",
    ),
    "permutation-10": FigureSpec(
        f"{_PERMUTATION}.student_barriers:by_teacher", _STUDENTS, "Barrier between students against width, by teacher"
    ),
    "permutation-11": FigureSpec(
        f"{_PERMUTATION}.dimensions:by_dimension",
        ("dimensions_barriers.csv",),
        "Barrier between students by input dimension",
    ),
    "permutation-12": FigureSpec(
        f"{_PERMUTATION}.dimensions:by_teacher_width",
        ("teachers_barriers.csv",),
        "Barrier between students by teacher width",
    ),
    "permutation-13": FigureSpec(
        f"{_PERMUTATION}.sparsity:barrier_against_learning_rate",
        ("learning_rates_barriers.csv",),
        "Permuted barrier against the learning rate",
    ),
    "permutation-14": FigureSpec(
        f"{_PERMUTATION}.network_widths:peak_against_depth", _BARRIERS, "Width of the largest barrier against depth"
    ),
    "permutation-15": FigureSpec(
        f"{_PERMUTATION}.network_widths:paths_by_width", _CURVES, "Loss along the path by width multiplier"
    ),
}


def draw(figure_id: str, tables: dict[str, pd.DataFrame], style: dict[str, Any]) -> Figure:
    """Draw one figure.

    Args:
        figure_id: a key of ``FIGURES``.
        tables: the study's tables by file name, at least those named in the figure's ``tables``; those in its
            ``optional`` where they exist.
        style: the config's style (font_size in points, dpi, palette); missing keys take their defaults.

    Raises:
        UserError: the number is not in ``FIGURES``, or the tables lack what the figure shows (the sentence names the
            study's key to set).
    """
    if figure_id not in FIGURES:
        raise UserError(f"There is no figure {figure_id!r}; figures that can be drawn are {', '.join(FIGURES)}.")
    from symlab.plotting.style import Style, applied

    look = Style(**style)
    try:
        with applied(look):
            figure: Figure = resolve_name(FIGURES[figure_id].draw)(tables, look)
    except UserError as error:
        raise UserError(f"Figure {figure_id} cannot be drawn: {error}") from None
    return figure
