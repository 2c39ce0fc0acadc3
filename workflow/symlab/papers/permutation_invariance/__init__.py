"""Two-layer ReLU students of a teacher with orthonormal neurons (Zhan, Li, Wu: permutation invariance and LMC)."""
