"""Names of rows that experiments write into tables and figures look for; free of torch, for jobs of claims."""

LABELS = "y = Ax", "y = x"
"""Targets of two linear layers (Fig. 8)."""
ADAM, DESCENT = "Adam", "gradient descent"
FACTORS, ISTA, FISTA, SUBGRADIENT = "factors", "ISTA", "FISTA", "subgradient"
UNEQUAL, EQUAL, RANDOM = "unequal", "equal", "random"
"""How factors of a lasso start: with one magnitude for all w and u = v / w, on mirrors |u| = |w|, or drawn each."""
