"""Which tables the analyses of a study give, and of what these are made."""

from symlab.permutation_invariance.grid import TABLES_OF_ROLE

# Where the parts of each table come from: <study>/<variant>/<folder>/<block>.<suffix>.
PARTS = {
    "history.csv": "history",
    "matching.csv": "matching",
    "curves.csv": "curves",
    "subspaces.csv": "subspaces",
    "swap_costs.parquet": "swap_costs",
    "ridge_swap_costs.parquet": "ridge_swap_costs",
    "ridge_costs.csv": "ridge_costs",
    "gram_deviation.csv": "gram_deviation",
    "sensitivity.csv": "sensitivity",
    "network_gaps.csv": "network_gaps",
    "chord_deviation.csv": "chord_deviation",
}
# Tables of students: which grid of the teacher_student block they are about.
ROLE_OF = {f"{role}_{kind}.csv": role for role, kinds in TABLES_OF_ROLE.items() for kind in kinds}
# Tables of a study that exist only if the analysis of this name is switched on.
ANALYSIS_OF = {
    "matching.csv": "matching",
    "curves.csv": "interpolation",
    "barriers.csv": "interpolation",
    "loss_bounds.csv": "interpolation",
    "trade_off.csv": "matching",
    "subspaces.csv": "identification",
    "swap_costs.parquet": "identification",
    "centre_gaps.csv": "centre_gaps",
    "ridge_swap_costs.parquet": "ridge",
    "ridge_costs.csv": "ridge",
    "estimators.csv": "ridge",
    "gram_deviation.csv": "theory",
    "sensitivity.csv": "theory",
    "network_gaps.csv": "theory",
    "chord_deviation.csv": "theory",
    "overlap.csv": "teacher_student.overlap",
    **{table: f"teacher_student.{role}" for table, role in ROLE_OF.items()},
}
# Tables made from other tables.
DERIVED = {
    "barriers.csv": ("barriers.py", ["curves.csv"]),
    "loss_bounds.csv": ("barriers.py", ["curves.csv"]),
    "trade_off.csv": ("trade_off.py", ["matching.csv", "history.csv"]),
    "estimators.csv": ("estimators.py", ["swap_costs.parquet", "ridge_swap_costs.parquet"]),
}
