"""The paper's card: two-layer ReLU students of a teacher with orthonormal neurons."""

from symlab.papers.permutation_invariance import settings
from symlab.papers.permutation_invariance.found import FOUND, HEADING, HEADLINE, SCALE, SUBJECTS, TERMS, THUMBNAIL
from symlab.study.card import Figure, Paper
from symlab.study.experiment import experiments_under

_ROOM = "symlab.papers.permutation_invariance"
_GRIDS: tuple[tuple[type[settings.Grid], str, tuple[str, ...]], ...] = (
    (settings.Widths, "tabulate_runs_and_barriers", ("runs", "barriers")),
    (settings.Sparsity, "tabulate_runs", ("runs",)),
    (settings.LearningRates, "tabulate_runs_and_barriers", ("runs", "barriers")),
    (settings.DoubledTypes, "tabulate_runs", ("runs",)),
    (settings.Column, "tabulate_entries", ("entries",)),
    (settings.Dimensions, "tabulate_barriers", ("barriers",)),
    (settings.Teachers, "tabulate_barriers", ("barriers",)),
)
"""Of each grid of trained students what makes its tables, and which these are."""
_asked = experiments_under("teacher_student", _ROOM)
_EXPERIMENTS = (
    _asked("overlap", settings.Overlap, "type_overlap:measure_overlap", ("overlap.csv",)),
    _asked("ratios", settings.Ratios, "student_tables:draw_ratios", ("ratios_barriers.csv",), several=True),
    _asked(
        "all_permutations",
        settings.AllPermutations,
        "student_tables:try_all_permutations",
        ("all_permutations_barriers.csv",),
    ),
    *(
        _asked(
            grid.role,
            grid,
            "student_training:train_point",
            tuple(f"{grid.role}_{table}.csv" for table in tables),
            tables=f"{_ROOM}.student_tables:{function}",
            several=True,
            unused=("uniform_pairs", "lambdas"),
        )
        for grid, function, tables in _GRIDS
    ),
)
_BARRIERS = (
    "Loss barriers between students, one row a pair. `source` is gd or sgd for trained students, uniform for "
    "uniform samples of the global minima, of which a row is the mean over so many `pairs` where there are over 100; "
    "`direct` is the barrier as they are, `permuted` after Algorithm 1, `permuted_hungarian` after linear assignment "
    "(of trained students). All are in units of the population loss. `kept` says that neither run diverged or, from "
    "m = M on, ended with a loss above 1e-5."
)
_RUNS = (
    "Students, one row a run or uniform sample: learning rate `lr` and `c` = lr m / d, final population loss, "
    "whether it diverged and whether it was kept, number of zero rows (norm below 0.01), PQ indices of row norms "
    "(`pq_rows`) and of all entries (`pq_entries`, in `pq_entries_cleaned` without those below 1e-3), how unevenly "
    "neurons are spread over types, the type with most rows (`doubled_type`, 0 if several have), and the stability "
    "limit of gradient descent, 2 over the largest eigenvalue of the Hessian."
)

PERMUTATION_INVARIANCE = Paper(
    slug="permutation-invariance",
    prefix="permutation",
    authors="Zhan, Li, Wu",
    short="Zhan et al.",
    title="Analyzing the Role of Permutation Invariance in Linear Mode Connectivity",
    where="AISTATS 2025",
    link="https://arxiv.org/abs/2503.06001",
    figures=(
        Figure("permutation-1", f"{_ROOM}.fig_01_overlap", ("overlap.csv",)),
        Figure("permutation-2", f"{_ROOM}.fig_02_04_10_widths", ("widths_barriers.csv",)),
        Figure("permutation-3", f"{_ROOM}.fig_03_samples", ("ratios_barriers.csv",)),
        Figure("permutation-4", f"{_ROOM}.fig_02_04_10_widths", ("widths_barriers.csv",)),
        Figure("permutation-5", f"{_ROOM}.fig_05_sparsity", ("sparsity_runs.csv",)),
        Figure("permutation-6", f"{_ROOM}.fig_06_13_learning_rates", ("learning_rates_runs.csv",)),
        Figure("permutation-7", f"{_ROOM}.fig_07_08_15_networks", ("barriers.csv",)),
        Figure("permutation-8", f"{_ROOM}.fig_07_08_15_networks", ("curves.csv",)),
        Figure("permutation-9", f"{_ROOM}.fig_09_minima", ("doubled_types_runs.csv", "column_entries.csv")),
        Figure("permutation-10", f"{_ROOM}.fig_02_04_10_widths", ("widths_barriers.csv",)),
        Figure("permutation-11", f"{_ROOM}.fig_11_12_dimensions", ("dimensions_barriers.csv",)),
        Figure("permutation-12", f"{_ROOM}.fig_11_12_dimensions", ("teachers_barriers.csv",)),
        Figure("permutation-13", f"{_ROOM}.fig_06_13_learning_rates", ("learning_rates_barriers.csv",)),
        Figure("permutation-14", f"{_ROOM}.fig_14_depths", ("barriers.csv",)),
        Figure("permutation-15", f"{_ROOM}.fig_07_08_15_networks", ("curves.csv",)),
        Figure("permutation-best", f"{_ROOM}.fig_03_samples", ("all_permutations_barriers.csv",)),
    ),
    found=FOUND,
    terms=TERMS,
    scale=SCALE,
    subjects=SUBJECTS,
    heading=HEADING,
    headline=HEADLINE,
    largest="permutation",
    thumbnail=THUMBNAIL,
    experiments=_EXPERIMENTS,
    captions={
        "overlap.csv": "Overlap of the types of two students drawn uniformly from the global minima, for each "
        "teacher's width M and student's width m: `overlap_mean` and its standard error over draws, the exact "
        "expectation `overlap`, the lower bound of Theorem 5a, and two limits at this ratio m/M, the one printed in "
        "Theorem 5b (`gaussian_limit`) and the one that is reached (`poisson_limit`).",
        "ratios_barriers.csv": _BARRIERS,
        "all_permutations_barriers.csv": f"{_BARRIERS} `lowest` is the barrier after the best of all permutations, "
        "`leftovers` that after the best of those that keep Algorithm 1's pairs of neurons of one type.",
        **{f"{grid.role}_runs.csv": _RUNS for grid, _, tables in _GRIDS if "runs" in tables},
        **{f"{grid.role}_barriers.csv": _BARRIERS for grid, _, tables in _GRIDS if "barriers" in tables},
        "column_entries.csv": "Sorted entries of the column of W that sums to the one neuron of the teacher: mean and "
        "standard deviation over runs, and the expectation for the uniform distribution on the "
        "simplex.",
    },
)
