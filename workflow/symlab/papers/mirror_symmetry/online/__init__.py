"""Online SGD of small models whose mirrors and laws are known: Figure 3 left and mid, Theorem 5."""
