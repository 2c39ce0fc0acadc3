"""Generators follow from names alone, in every process and for ever."""

from symlab.seeds import numpy_rng, stable_seed, torch_generator


def test_seeds_are_the_same_in_every_process():
    # Written down once: a change here would silently turn every stored result into another experiment.
    assert stable_seed("digits", "standard", "init", 0, 3) == 8121132573342833856
    assert stable_seed("a", 1) != stable_seed("a", "1") != stable_seed("a1")
    assert stable_seed("ab", "c") != stable_seed("a", "bc")
    assert numpy_rng("a", 1).integers(10**9) == numpy_rng("a", 1).integers(10**9)
    assert torch_generator("a", 1).initial_seed() == stable_seed("a", 1)
