"""The verdicts on a claim, in words.

A check held or failed. A statement that is only reported agrees or disagrees with what was measured, which fails
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

HELD, FAILED, NOT_RUN = "held", "failed", "not run at this scale"
AGREES, DISAGREES = "agrees", "disagrees"

# Worst first; values are the names of their styles.
VERDICTS = {FAILED: "failed", DISAGREES: "disagrees", HELD: "held", AGREES: "agrees", NOT_RUN: "not-run"}


def counted(verdict: str, count: int) -> str:
    """A number of verdicts in words: 2 held, 1 disagrees, 2 disagree."""
    return f"{count} {verdict.removesuffix('s') if verdict in (AGREES, DISAGREES) and count != 1 else verdict}"


def summary(counts: Mapping[str, int], order: Sequence[str]) -> str:
    """The numbers of verdicts in words, in that order."""
    return ", ".join(counted(verdict, counts[verdict]) for verdict in order)
