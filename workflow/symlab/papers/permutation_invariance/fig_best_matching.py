"""Beside Algorithm 1: the barrier that the best of all permutations leaves, where all can be tried."""

from dataclasses import replace
from functools import partial

from symlab.papers.permutation_invariance import drawing
from symlab.papers.permutation_invariance.students import MATCHINGS, matched
from symlab.plotting.style import Figure, Style
from symlab.study.card import Drawing
from symlab.study.cases import Cases, cases
from symlab.study.claim import Claim, Found, Tables, at_most, without_phrases
from symlab.study.tables import need

TABLE = "all_permutations_barriers.csv"
LOWEST = MATCHINGS["lowest"]


def against_width(tables: Tables, style: Style) -> Figure:
    table = need(tables, TABLE)
    return drawing.draw_barriers(table, "m", ["M", "d"], "all_permutations", style, only_matched=True, marks=())


FIGURES = {
    "permutation-best": Drawing(
        "Algorithm 1 beside the best of all permutations",
        "Mean loss barrier between uniform samples of the global minima of a small teacher against their width m: with "
        "neurons matched by Algorithm 1, by linear assignment, and by that of all m! permutations which leaves the "
        "lowest barrier.",
        against_width,
        seen="The barrier after Algorithm 1 is {algorithm-1} times the lowest.",
        differs="The paper calls Algorithm 1 the best permutation, and has no such figure.",
    ),
}


def over_lowest(tables: Tables, matching: str) -> list[Found]:
    """Mean barrier after a matching as a multiple of the mean of the lowest that any permutation leaves, by width.

    The detail says what is left if neurons without a partner of their type are paired for the lowest barrier.
    """
    rows = matched(tables[TABLE]).query("ratio > 1")

    def by_width(name: str, column: str = "barrier") -> Cases:
        return cases(rows[rows["matching"] == name], column, ["M", "d", "m"], "pair", "M = {M}, d = {d}, m = {m}")

    lowest = by_width(LOWEST)
    found = by_width(matching).paired_ratios(lowest)
    if "leftovers" not in rows:
        return found
    anew = by_width(LOWEST, "leftovers").paired_ratios(lowest)
    return [
        replace(each, detail=f"{each.detail}; {other.value:.3g} with neurons left over paired anew")
        for each, other in zip(without_phrases(found), without_phrases(anew), strict=True)
    ]


_of_matching = partial(
    Claim,
    quantity="mean barrier between samples as a multiple of the mean of the lowest over all permutations",
    bound=at_most(1.05),
    origin="pilot",
    tables=(TABLE,),
)
CLAIMS = {
    "permutation-best-algorithm-1": _of_matching(
        statement="Algorithm 1 leaves the lowest barrier that any permutation leaves",
        owner="derived",
        reason="The paper proves no optimality. 'Find the best permutation for global minima', the heading of "
        "Algorithm 1, and 'the optimal permutation using the aforementioned Algorithm 1' are read as a ratio "
        "of 1, though it also says 'we try to find the best permutation'; a twentieth is left for what is "
        "hardly seen. A reader had 1.18 to 1.42 before this was written.",
        measure=partial(over_lowest, matching=MATCHINGS["permuted"]),
        why="Only neurons without a partner of their type leave a barrier. Algorithm 1 pairs these in order of "
        "storage; paired for the lowest barrier, they leave nearly the lowest of all (told beside each value).",
    ),
    "permutation-best-assignment": _of_matching(
        statement="Linear assignment leaves the lowest barrier that any permutation leaves",
        owner="ours",
        reason="As for Algorithm 1. A reader had 1.12 to 1.34 before this was written.",
        measure=partial(over_lowest, matching=MATCHINGS["permuted_hungarian"]),
        why="Only neurons without a partner of their type leave a barrier, and of two types all inner products are "
        "0, so that assignment pairs these in any order.",
    ),
}
