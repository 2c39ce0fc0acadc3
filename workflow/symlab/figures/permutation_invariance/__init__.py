"""The figures of Zhan, Li, Wu, "Analyzing the Role of Permutation Invariance in Linear Mode Connectivity" (2025)."""
