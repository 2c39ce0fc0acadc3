"""The permutation symmetries of a network, found by following every axis through its forward pass."""
