"""Mirrors of trained networks: Theorem 1, alike neurons, vanishing parameters (Figures 3 right, 6, 7)."""
