"""What claims say in words: sentences with measured values in them, counts of verdicts, and what kept runs say else."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from string import Formatter

import pandas as pd

from symlab.artifacts import read_table
from symlab.pipeline.ledger import (
    COLUMNS,
    ERROR,
    FAILED,
    FINDING,
    HELD,
    NOT_RUN,
    ONE_UNIT,
    OWNERS,
    STAND_IN,
    UNDECIDED,
    VERDICTS,
    Case,
    Judged,
    claims_of,
    evaluate_claim,
    group_claims,
    row_of,
)
from symlab.plotting.numbers import format_briefly, format_value
from symlab.study.card import At, Paper, Sentence
from symlab.study.claim import Tables

NAMED = 3
"""How many of the claims that failed in a kept run are named."""

MANY = 4
"""From how many on cases that are told alike are counted, not named."""

Kept = Mapping[str, Sequence[Judged]]
"""The claims of each finished run, by its name."""


class Told:
    """Measured values in a sentence, in the forms that ``Sentence.text`` describes.

    Several are listed with what tells their cases apart, ``MANY`` equal ones with their number instead; ``judged``
    ones are followed by their verdict, unless they held.
    """

    def __init__(self, cases: Sequence[Case], judged: bool = False) -> None:
        self.cases = cases
        self.judged = judged

    def __format__(self, kind: str) -> str:
        named = len(self.cases) > 1
        alike = {_format_case(case, kind) for case in self.cases}
        if named and len(alike) == 1 and not (self.judged and any(case.verdict != HELD for case in self.cases)):
            return f"{alike.pop()} (all {len(self.cases)} cases)"
        told: dict[tuple[str, str], list[str]] = {}
        for case, name in zip(self.cases, _without_shared([case.name for case in self.cases]), strict=True):
            verdict = case.verdict if self.judged and case.verdict != HELD else ""
            told.setdefault((_format_case(case, kind), verdict), []).append(name if named else "")
        texts = []
        for (value, verdict), names in told.items():
            for name in names if len(names) < MANY else [f"{len(names)} cases"]:
                notes = ", ".join(filter(None, (name, verdict)))
                texts.append(value + (f" ({notes})" if notes else ""))
        return ", ".join(texts)


def _without_shared(names: Sequence[str]) -> list[str]:
    """The names without the first parts that all share: "RN1 on mnist", "RN1 on imdb" are "mnist", "imdb"."""
    parts = [re.split(r"(?<=, )|(?<= on )", name) for name in names]
    shared = 0
    while all(len(each) > shared + 1 and each[shared] == parts[0][shared] for each in parts):
        shared += 1
    return ["".join(each[shared:]) for each in parts]


def _format_case(case: Case, kind: str) -> str:
    if not kind:
        return case.measured
    scale, unit = (100, " %") if "%" in kind else (1, "")
    if kind.startswith("^"):
        return format_briefly(int(kind[1:] or 10) ** case.value)
    if "~" in kind:
        return format_briefly(scale * case.value) + unit
    return format_value(scale * case.value, scale * case.error) + unit


def cases_at(place: At | tuple[str, str], claims: Sequence[Judged]) -> list[Case]:
    """The measured cases of the claim that a place names whose key holds the place's, or that have its name.

    Names that several studies share end with the study.
    """
    claim, name = (place.claim, None) if isinstance(place, At) else place
    key = place.key if isinstance(place, At) else {}
    found = [
        (each.study, case)
        for each in claims
        if each.claim == claim
        for case in each.cases
        if case.verdict != NOT_RUN and name in (None, case.name) and key.items() <= case.key.items()
    ]
    studies: dict[str, set[str]] = {}
    for study, case in found:
        studies.setdefault(case.name, set()).add(study)

    def told(study: str, case: Case) -> Case:
        named = ", ".join(filter(None, (case.name, f"study {study}")))
        return replace(case, name=named) if len(studies[case.name]) > 1 else case

    return [told(*each) for each in found]


def tell(sentences: Sequence[Sentence], claims: Sequence[Judged]) -> list[str]:
    """Those of the sentences for which one study's claims have every value, with the values in them.

    Where its values have several verdicts, each that did not hold has its own after it.
    """
    told = []
    for sentence in sentences:
        found = {name: cases_at(place, claims) for name, place in sentence.values.items()}
        if all(found.values()):
            verdicts = _verdicts_of(sentence, claims)
            text = sentence.otherwise if sentence.otherwise and verdicts != {HELD} else sentence.text
            told.append(text.format(**{name: Told(cases, len(verdicts) > 1) for name, cases in found.items()}))
    return told


def doubt_of(sentence: Sentence, claims: Sequence[Judged]) -> str:
    """The verdict of all values in a sentence; empty where all held, or where each has its own after it."""
    verdicts = _verdicts_of(sentence, claims)
    return "".join(verdicts - {HELD}) if len(verdicts) == 1 else ""


def _verdicts_of(sentence: Sentence, claims: Sequence[Judged]) -> set[str]:
    return {case.verdict for place in sentence.values.values() for case in cases_at(place, claims)}


def tell_headline(paper: Paper, claims: Sequence[Judged], kept: Kept | None = None, run: str = "demo") -> str:
    """What was found, in a paragraph; after each sentence the verdict of its values, and what kept runs say else.

    The claims are those of ``run``, which is not among what is told else.
    """
    told = []
    for sentence in paper.headline:
        doubt = doubt_of(sentence, claims)
        if doubt in (UNDECIDED, FAILED) and ":^" not in sentence.text:
            # What is asked of a logarithm would be no threshold of the factor that is told of it.
            asked = dict.fromkeys(
                each.threshold for place in sentence.values.values() for each in claims if cases_at(place, [each])
            )
            doubt = f"{doubt}; threshold: {', '.join(asked)}"
        for text in tell([sentence], claims):
            told += [
                f"{text.rstrip('.')} ({doubt})." if doubt else text,
                tell_elsewhere(sentence, claims, kept or {}, run),
            ]
    return " ".join(filter(None, told))


def tell_largest(paper: Paper, kept: Kept, run: str = "demo") -> str:
    """Each sentence of the headline from the paper's largest kept run or else from ``run``, named where they change."""
    told, before = [], ""
    for sentence in paper.headline:
        for name in filter(None, (paper.largest, run)):
            if text := tell_headline(replace(paper, headline=(sentence,)), kept.get(name, ()), kept, name):
                told.append(text if name == before else f"*{name}:* {text}")
                before = name
                break
    return " ".join(told)


def tell_elsewhere(sentence: Sentence, claims: Sequence[Judged], kept: Kept, but: str = "demo") -> str:
    """The values of a sentence that kept runs but one decided otherwise, or not at all; empty if there are none.

    Of several with one verdict, the least and the largest: "Other runs: 14 to 29 (appendix and demo, held)."
    """
    kinds = {name: kind or "" for _, name, kind, _ in Formatter().parse(sentence.text) if name}
    told = []
    for name, place in sentence.values.items():
        known = {ONE_UNIT, ERROR, *(case.verdict for case in cases_at(place, claims))}
        values: dict[str, list[Case]] = {}
        runs: dict[str, dict[str, None]] = {}
        for run in [each for each in kept if each != but]:
            found = [(each.study, case) for each in kept[run] for case in cases_at(place, [each])]
            one = len({case.verdict for _, case in found}) == 1
            for study, case in found:
                values.setdefault(case.verdict, []).append(case)
                runs.setdefault(case.verdict, {})[run if one else f"study {study} of {run}"] = None
        for verdict in [each for each in VERDICTS if each in values and each not in known]:
            cases = sorted(values[verdict], key=lambda case: case.value)
            ends = dict.fromkeys(_format_case(case, kinds[name]) for case in (cases[0], cases[-1]))
            # Where one of several cases is told, which.
            names = {case.name for case in cases} if len(cases_at(place, claims)) > 1 else set()
            of = [" and ".join(sorted(runs[verdict])), *(names if len(names) == 1 else []), verdict]
            told.append(f"{' to '.join(ends)} ({', '.join(of)})")
    return f"Other runs: {', '.join(told)}." if told else ""


def tell_seen(sentence: Sentence, paper: Paper, tables: Tables) -> str:
    """A sentence with the values that the claims it names measure in a study's tables; empty where one is missing."""
    named = {place.claim if isinstance(place, At) else place[0] for place in sentence.values.values()}
    rows = [
        row_of(paper, claim, "", "", measured, verdict)
        for claim in claims_of(paper)
        if claim.id in named
        for measured, verdict in evaluate_claim(claim, tables)
    ]
    return "".join(tell([sentence], group_claims(pd.DataFrame(rows, columns=COLUMNS))))


def count_findings(
    claims: Sequence[Judged], kinds: Sequence[str] = (FINDING,), owners: Sequence[str] = tuple(OWNERS)
) -> dict[str, int]:
    """How many findings of some owners, a row a claim and study, have each verdict, in the order of ``VERDICTS``."""
    counts = Counter(claim.verdict for claim in claims if claim.kind in kinds and claim.owner in owners)
    return {verdict: counts[verdict] for verdict in VERDICTS}


def read_kept(reference: Path) -> Kept:
    """The claims of finished runs, from <reference>/<run>/claims.csv."""
    return {path.parent.name: group_claims(read_table(path)) for path in sorted(reference.glob("*/claims.csv"))}


def kept_verdicts(kept: Kept) -> dict[str, dict[str, str]]:
    """Of each claim the worst of the verdicts that it had in each finished run: {claim: {run: verdict}}."""
    verdicts: dict[str, dict[str, str]] = {}
    for run, claims in kept.items():
        for claim in sorted((each for each in claims if each.verdict != NOT_RUN), key=_severity, reverse=True):
            verdicts.setdefault(claim.claim, {})[run] = claim.verdict
    return verdicts


def _severity(claim: Judged) -> int:
    return VERDICTS.index(claim.verdict)


def tell_kept(claims: Sequence[Judged], kept: Kept) -> dict[str, str]:
    """In words, how each kept run but the demo judged the papers' own findings among the claims, and what failed.

    Those of stand-ins are told after the others. At most ``NAMED`` are named, first those that the claims do not find
    failed: there the runs contradict each other.
    """
    owners = {"paper": "", STAND_IN: "as a stand-in "}
    own = {claim.claim for claim in claims if claim.owner in owners and claim.kind == FINDING}
    failed = {claim.claim for claim in claims if claim.verdict == FAILED}
    told = {}
    for run in sorted(set(kept) - {"demo"}):
        judged = {owner: [each for each in kept[run] if each.claim in own and each.owner == owner] for owner in owners}
        words = {owner: _tell_verdicts(of_owner, failed) for owner, of_owner in judged.items()}
        if any(words.values()):
            told[run] = "; ".join(f"{owners[owner]}{found}" for owner, found in words.items() if found)
    return told


def _tell_verdicts(claims: Sequence[Judged], failed: set[str]) -> str:
    """Counts of the claims by the worst of their verdicts, and what failed, last what ``failed`` names."""
    counts = Counter(runs[""] for runs in kept_verdicts({"": claims}).values())
    missed = sorted((each for each in claims if each.verdict == FAILED), key=lambda each: each.claim in failed)
    names = list(dict.fromkeys(claim.statement for claim in missed))
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    failures = counts.pop(FAILED, 0)
    words = [describe_counts(counts, all_of_them=False)] if counts else []
    words += [f"{failures} failed: {'; '.join(names[:NAMED] + more)}"] if failures else []
    return ", ".join(words)


def describe_counts(counts: Mapping[str, int], all_of_them: bool = True) -> str:
    """The numbers in words: 40 held, 7 failed, 3 undecided, 12 not run; errors and one unit only if there are any.

    Unless ``all_of_them``, nor the others.
    """
    told = [HELD, FAILED, UNDECIDED, ONE_UNIT, NOT_RUN]
    always = (HELD, FAILED, UNDECIDED, NOT_RUN) if all_of_them else ()
    words = [f"{counts[verdict]} {verdict}" for verdict in told if counts[verdict] or verdict in always]
    errors = counts[ERROR]
    return ", ".join([f"{errors} error{'s' if errors > 1 else ''}", *words] if errors else words)
