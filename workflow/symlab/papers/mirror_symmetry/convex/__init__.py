"""Factors with weight decay and the convex problems that they stand for (Section 2.6, Figure 8)."""
