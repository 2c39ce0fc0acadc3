"""How sure claims are: errors against leaving out units of their story, verdicts on data that the theory itself makes.

What each room gives for it is said in test_contract.py.
"""

import functools
import math

import numpy as np
import pandas as pd
import pytest

from symlab.papers import PAPERS
from symlab.pipeline.ledger import evaluate_claim

from .stories import APART, BY_ID, CARDS, CLAIMS, room, verdicts

pytestmark = pytest.mark.usefixtures("roughly")

# Columns that number the independent units, the first that a table has.
UNITS = ("mask_seed", "pair", "seed", "run", "draw")

# Claims whose error is not what leaving out a unit tells, by why.
OTHERWISE = dict.fromkeys(
    [
        *("permutation-2-trained-below-uniform", "permutation-5-uniform-smallest", "permutation-7-direct"),
        *("identifiability-thesis-identity", "permutation-13-rise"),
    ],
    "The smallest or largest of several, or a rank: leaving out a unit of its story changes nothing or which it is.",
)


def numbered(table, unit, apart, generator):
    """Of each row the number of its unit among those of its stratum, in an order drawn for each stratum; or None."""
    if unit not in table:
        return None
    strata = table.groupby([name for name in apart if name in table] or (lambda _: 0), dropna=False).ngroup()
    numbers = np.empty(len(table), dtype=int)
    for stratum in strata.unique():
        rows = np.flatnonzero(strata == stratum)
        places = pd.factorize(table[unit].iloc[rows])[0]
        order = generator.permutation(places.max() + 1) if apart else np.arange(places.max() + 1)
        numbers[rows] = order[places]
    return numbers


def errors_by_leaving_out(claim, tables, values, unit, apart):
    """Standard errors by case from what the claim measures without each unit, or each twentieth of many, in turn.

    Units of the same number are left out together: with ``apart``, in several random numberings of those of each
    stratum, so that independent strata are not taken for paired ones.
    """
    generator, squares, rounds = np.random.default_rng(0), dict.fromkeys(values, 0.0), 0
    while rounds == 0 or (apart and rounds * count < 50):
        numbers = {name: numbered(table, unit, apart, generator) for name, table in tables.items()}
        count = max((each.max() + 1 for each in numbers.values() if each is not None), default=0)
        if count > 60:
            numbers, count = {name: None if each is None else each % 20 for name, each in numbers.items()}, 20
        if count < 2:
            return {}
        for left_out in range(count):
            rest = {
                name: tables[name] if each is None else tables[name][each != left_out] for name, each in numbers.items()
            }
            for measured, _ in evaluate_claim(claim, rest):
                if measured.case in values:
                    squares[measured.case] += (measured.value - values[measured.case]) ** 2 * (count - 1) / count
        rounds += 1
    return {case: math.sqrt(square / rounds) for case, square in squares.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("paper", "claim"), CLAIMS, ids=lambda each: getattr(each, "id", ""))
def test_the_error_of_a_claim_is_what_leaving_out_units_tells(paper, claim, monkeypatch):
    """To less than a factor of √2, by one of the ways in which units may be independent: variants apart, or paired."""
    given = room(paper).story(paper.number(claim.id))
    tables = {name: given[name] for name in claim.tables}
    measured = {each.case: each for each, _ in evaluate_claim(claim, tables) if (each.error or 0) > 1e-9}
    monkeypatch.setattr("symlab.study.claim.bootstrap_error", lambda *_, **__: None)
    values = {case: each.value for case, each in measured.items()}
    found = {case: [] for case in measured if claim.id not in OTHERWISE}
    for unit in UNITS:
        for apart in ((), APART):
            if found and any(unit in table for table in tables.values()):
                errors = errors_by_leaving_out(claim, tables, values, unit, apart)
                for case, error in errors.items():
                    found[case].append(error / measured[case].error)
    wrong = {str(case): ratios for case, ratios in found.items() if not any(0.72 < ratio < 1.38 for ratio in ratios)}
    assert not wrong


SIMULATED = [
    (paper, BY_ID[f"{paper.prefix}-{name}"]) for paper in PAPERS for name in getattr(room(paper), "SIMULATED", ())
]


@functools.lru_cache(3 * len(SIMULATED))
def made_by_theory(slug, name, seed):
    """The tables of a draw, not to be changed."""
    return room(CARDS[slug]).simulate(name, np.random.default_rng(seed))


def few_or_more(count):
    return pytest.mark.parametrize(
        "seeds", [range(3), pytest.param(range(3, count), marks=pytest.mark.slow)], ids=["few", "more"]
    )


@few_or_more(10)
@pytest.mark.parametrize(("paper", "claim"), SIMULATED, ids=lambda each: getattr(each, "id", ""))
def test_a_claim_holds_on_data_of_the_theory_itself(paper, claim, seeds):
    """In each of ten draws: a yardstick that fails perfect theory for its noise alone is wrong.

    One that does so in a tenth, a fifth or three tenths of all draws is seen by this with 65, 89 and 97 %, as by 19 of
    twenty (61, 93 and 99 %). A fault of the code shows in the first three already.
    """
    for seed in seeds:
        found = evaluate_claim(claim, made_by_theory(paper.slug, paper.number(claim.id), seed))
        assert verdicts(found) == {"held"}, (seed, found)


VIOLATED = [each for each in SIMULATED if each[0].number(each[1].id) in getattr(room(each[0]), "VIOLATED", ())]


@few_or_more(5)
@pytest.mark.parametrize(("paper", "claim"), VIOLATED, ids=lambda each: getattr(each, "id", ""))
def test_a_claim_fails_on_data_that_violate_the_theory(paper, claim, seeds):
    name = paper.number(claim.id)
    change = room(paper).VIOLATED[name]
    table, change = change if isinstance(change, tuple) else (claim.tables[0], change)
    for seed in seeds:
        tables = {each: rows.copy() for each, rows in made_by_theory(paper.slug, name, seed).items()}
        if (returned := change(tables[table])) is not None:
            tables[table] = returned
        assert "failed" in verdicts(evaluate_claim(claim, tables)), seed
