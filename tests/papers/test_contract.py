"""What holds of every claim, figure and sentence of every paper.

No list is kept by hand here: all comes from the cards, and from one file a paper, its room's ``story.py``, which has

- ``story(name)``: tables by file name of the study that judges a claim or draws a figure ("4a-barrier", "4a"), small,
  on which the paper is right; values of seeds and of layers differ;
- ``SPOILED``: for each claim how a table is changed so that the claim fails: a function that changes the table which
  the claim reads first, in place or by returning another, or (name of the table, function);
- ``VERDICTS``, where there are any: claims whose verdict on the story is not "held", and which it is;
- ``simulate(name, generator)`` and ``SIMULATED``, where theory can make the data: tables drawn from the theory itself
  for each of these claims, with the numbers of units, the noise and the sizes of a run; ``VIOLATED``, in the form of
  ``SPOILED``: how such a table is changed so that the claim fails;
- ``ROUGHLY``, where something takes long: (module, name, value) of a constant that is to be smaller in tests.

What they measure on it is worked out in planted.py or recomputed in a test of the room, and to the last digit kept in
``values.json`` of each room, beside what its pictures hold (pictures.py).
Claims are judged on the story with each measured number changed by up to a thousandth, so that no two units, layers or
moments are alike. Where they are to measure something else, write their values down anew with
``python -m tests.papers.test_contract --store``, and say why they changed.
"""

import functools
import json
import math
import re
import sys
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib import rcParams

from symlab.artifacts import read_table
from symlab.errors import UserError
from symlab.measures import is_table
from symlab.papers import PAPERS
from symlab.pipeline.docs import REFERENCE
from symlab.pipeline.ledger import COLUMNS, STAND_IN, claims_of, evaluate_claim, group_claims, row_of
from symlab.pipeline.registry import EXPERIMENTS, MEASURES, TABLES
from symlab.pipeline.telling import Told, cases_at
from symlab.plotting.style import apply_style
from symlab.study.card import At, drawings_of

from .pictures import STYLE, draw, held_by, looks_of
from .planted import PLANTED, RECOMPUTED, ROUGHLY
from .planted import SPOILED as WHERE_SPOILED
from .stories import (
    CARDS,
    CLAIMS,
    HERE,
    draw_few,
    judged,
    judged_where_spoiled,
    room,
    spoiled,
    story_of,
    verdicts,
    with_few,
)

FIGURES = [(paper, figure) for paper in PAPERS for figure in paper.figures]
SENTENCES = [(paper, sentence) for paper in PAPERS for sentence in (*paper.headline, *paper.found)] + [
    (paper, drawing.sentence)
    for paper in PAPERS
    for module in dict.fromkeys(figure.module for figure in paper.figures)
    for drawing in drawings_of(module).values()
    if drawing.sentence
]
MADE = {
    "history.csv",
    *TABLES,
    *(name for maker in (*MEASURES.values(), *EXPERIMENTS.values()) for name in maker.outputs),
}

pytestmark = pytest.mark.usefixtures("roughly")
each_claim = pytest.mark.parametrize(("paper", "claim"), CLAIMS, ids=lambda each: getattr(each, "id", ""))
each_figure = pytest.mark.parametrize(("paper", "figure"), FIGURES, ids=lambda each: getattr(each, "id", ""))
each_sentence = pytest.mark.parametrize(
    ("paper", "sentence"), SENTENCES, ids=lambda each: getattr(each, "text", "")[:40]
)


@each_claim
def test_a_claim_holds_on_its_story(paper, claim):
    found = judged(paper, claim)
    assert verdicts(found) == {getattr(room(paper), "VERDICTS", {}).get(paper.number(claim.id), "held")}, found
    cases = [measured.case for measured, _ in found]
    assert len(set(cases)) == len(cases), "Two values have one case."
    for measured, _ in found:
        assert measured.n >= 1 and measured.unit
        assert measured.interval is not None or measured.n == 1, (
            "Give the value an error, an interval, or make it exact."
        )


def folder(paper):
    return HERE / paper.slug.replace("-", "_")


def kept_values(paper):
    return folder(paper) / "values.json"


def as_kept(paper, claim):
    """Of each case value, standard error, number of units, and the value where spoiled, as JSON holds them."""
    after = {measured.case: measured.value for measured, _ in judged_where_spoiled(paper.slug, claim.id)}
    return {
        str(each.case): [
            None if number is None else float(f"{number:.9g}")
            for number in (each.value, each.error, each.n, after[each.case])
        ]
        for each, _ in judged(paper, claim)
    }


def units_of(paper, claim):
    return ", ".join(dict.fromkeys(measured.unit for measured, _ in judged(paper, claim)))


@functools.cache
def values_kept(slug):
    return json.loads(kept_values(CARDS[slug]).read_text())


def roundings(kept):
    """What rounding may change of a case's numbers: a part in 1e13 of the largest value of any case, as the story's
    numbers go; where spoiled of the larger one of these and those there."""
    sizes = np.abs([[numbers[0], numbers[3]] for numbers in kept.values()])
    whole, spoiled = np.where(np.isfinite(sizes), sizes, 0).max(axis=0) * 1e-13
    return [whole or spoiled] * 3 + [max(whole, spoiled)]


@each_claim
def test_a_claim_measures_what_is_planted_in_its_story(paper, claim):
    """To three standard errors and two thousandths; and exactly what it measured, of as many units of the same name,
    when its values were written down."""
    name, after = paper.number(claim.id), judged_where_spoiled(paper.slug, claim.id)
    test = RECOMPUTED[paper.prefix].get(name)
    known = f'"{name}"' in (folder(paper) / test).read_text() if test else name in PLANTED[paper.prefix]
    lacks = f"{claim.id} is not named in {test}" if test else f"{claim.id} has no line in planted.py"
    assert known, (
        f"{lacks}: work out what it measures on its story, or recompute it in a test of its room and name that file in "
        "RECOMPUTED."
    )
    for found, planted in ((judged(paper, claim), PLANTED), (after, WHERE_SPOILED)):
        values = planted[paper.prefix].get(name, [measured.value for measured, _ in found])
        values = values if isinstance(values, (list, tuple)) else [values] * len(found)
        assert len(values) == len(found), [measured.case for measured, _ in found]
        for (measured, _), value in zip(found, values, strict=True):
            reach = 3 * (measured.error or 0) + (ROUGHLY.get(claim.id, 2e-3) * abs(value) or 2e-3)
            assert measured.value == pytest.approx(value, abs=reach, nan_ok=True), (measured, value)
    assert units_of(paper, claim) == values_kept(paper.slug)["units"].get(name), "Write the units down: see above."
    kept, now = values_kept(paper.slug).get(name), as_kept(paper, claim)
    assert kept is not None and list(kept) == list(now), "Write the values down: see above."
    for case, numbers in now.items():
        for before, number, floor in zip(kept[case], numbers, roundings(kept), strict=True):
            same = number is before is None or number == pytest.approx(before, rel=1e-5, abs=floor, nan_ok=True)
            assert same, (case, "value, error, number of units, value where spoiled", numbers, kept[case])


@each_claim
@pytest.mark.filterwarnings("error")
def test_a_claim_fails_where_its_story_is_spoiled(paper, claim):
    before, after = judged(paper, claim), judged_where_spoiled(paper.slug, claim.id)
    assert [measured.case for measured, _ in after] == [measured.case for measured, _ in before]
    if verdicts(before) == {"held"}:
        assert "failed" in verdicts(after), after
    else:
        assert "held" not in verdicts(after)


def changed_numbers(before, after):
    """Of each column of numbers that differs the first row where it does."""
    for name in before.columns[before.dtypes.map(pd.api.types.is_numeric_dtype)]:
        values = (table[name].to_numpy(dtype=float) for table in (before, after))
        if len(places := np.flatnonzero(~np.isclose(*values, rtol=1e-12, atol=0, equal_nan=True))):
            yield name, places[0]


@each_claim
@pytest.mark.filterwarnings("error")
def test_a_claim_never_holds_on_undefined_values(paper, claim, monkeypatch):
    """Where its spoiled story differs: all of these values undefined, or one. What is measured is then undefined, or as
    it was where it reads none of them; nothing is passed over in a mean, an extreme or a count."""
    draw_few(2, monkeypatch)
    tables, name = spoiled(paper, claim)
    failed = {measured.case for measured, verdict in judged_where_spoiled(paper.slug, claim.id) if verdict == "failed"}
    before = {measured.case: measured.value for measured, _ in judged(paper, claim)}
    whole = story_of(paper.slug, paper.number(claim.id))[name]
    all_undefined, one_undefined = whole.copy(), whole.copy()
    if not (changed := list(changed_numbers(whole, tables[name]))):
        return  # What is spoiled is a word: an outcome.
    for column, first in changed:
        all_undefined[column] = np.nan
        one_undefined[column] = whole[column].astype(float).where(np.arange(len(whole)) != first)
    for rows in (one_undefined, all_undefined):
        for measured, verdict in evaluate_claim(claim, tables | {name: rows}):
            assert verdict != "error", measured
            assert math.isnan(measured.value) or measured.value == before.get(measured.case), measured
            assert verdict != "held" or measured.case not in failed or rows is one_undefined, measured


@each_claim
def test_a_claim_is_not_run_without_a_table(paper, claim):
    assert set(claim.tables) <= MADE, f"{claim.id} reads a table that nothing makes."
    given = room(paper).story(paper.number(claim.id))
    for name in claim.tables:
        for lacking in ({}, {name: given[name].head(0)}):
            rest = {each: given[each] for each in claim.tables if each != name}
            assert verdicts(evaluate_claim(claim, rest | lacking)) == {"not run"}


@functools.cache
def kept_thresholds():
    """By claim the threshold, whose it and the statement are, and the kind, of every row of finished runs."""
    columns = ["claim", "threshold", "owner", "origin", "kind"]
    rows = pd.concat([read_table(path)[columns] for path in sorted(REFERENCE.glob("*/claims.csv"))])
    # A stand-in of a paper's networks is the run's.
    rows["owner"] = rows["owner"].replace(STAND_IN, "paper")
    return {name: {*of.itertuples(index=False, name=None)} for name, of in rows.set_index("claim").groupby(level=0)}


@each_claim
def test_a_threshold_is_that_of_its_words_and_of_finished_runs(paper, claim):
    """So that none moves unseen, nor whose it is said to be, once there are values that it decides of."""
    told = list(map(float, re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", claim.bound.text.partition("(")[0])))
    ends = [end for end in dict.fromkeys((claim.bound.low, claim.bound.high)) if math.isfinite(end)]
    assert ends == pytest.approx(told, rel=1e-3)
    assert claim.bound.strict == bool(re.match("above|below", claim.bound.text)) or len(ends) > 1
    now = {(claim.bound.text, claim.owner, claim.origin, claim.kind)}
    assert kept_thresholds().get(claim.id, now) == now, "It moved after a run: say why in CHANGELOG.md."


def verdicts_of_few(paper, claim):
    """With one, two and three values of each column: which verdicts the claim's cases then have."""
    given = story_of(paper.slug, paper.number(claim.id))
    tables = {name: given[name] for name in claim.tables}
    return [" ".join(sorted(verdicts(evaluate_claim(claim, with_few(tables, count))))) for count in (1, 2, 3)]


@each_claim
def test_a_claim_about_few_networks_says_what_it_did_when_it_was_written_down(paper, claim):
    """So that a number of widths, depths or rates that it needs does not change unseen; it never raises."""
    now = verdicts_of_few(paper, claim)
    assert not any("error" in told for told in now)
    assert now == values_kept(paper.slug)["with few networks"].get(paper.number(claim.id)), (
        "Write them down: see above."
    )


@pytest.mark.parametrize("count", [1, 2])
@each_figure
def test_a_figure_of_few_networks_is_drawn_or_says_what_it_lacks(paper, figure, count):
    tables = with_few(story_of(paper.slug, paper.number(figure.id)), count)
    try:
        with apply_style(STYLE):
            drawn = drawings_of(figure.module)[figure.id].draw(tables, STYLE)
    except UserError as error:
        assert str(error).endswith(".")
    else:
        assert all(axis.has_data() for axis in drawn.axes), "A panel is empty."


@each_figure
def test_a_figure_without_a_table_is_drawn_or_names_it(paper, figure):
    """Drawn where its claims alone read what the card lists."""
    given = story_of(paper.slug, paper.number(figure.id))
    for name in figure.tables:
        for lacking in ({}, {name: given[name].head(0)}):
            rest = {each: rows for each, rows in given.items() if each != name}
            try:
                with apply_style(STYLE):
                    drawings_of(figure.module)[figure.id].draw(rest | lacking, STYLE)
            except UserError as error:
                assert name in str(error)


@each_figure
def test_a_figure_is_drawn_from_its_story_and_holds_what_it_did_when_it_was_written_down(paper, figure):
    """What it holds finds changes, not errors; with no two measured numbers alike, a change of any is seen."""
    drawings = drawings_of(figure.module)
    assert figure.id in drawings, f"{figure.module} draws no {figure.id}: add it to FIGURES there."
    drawing, before = drawings[figure.id], dict(rcParams)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = draw(paper, figure)
        held = held_by(drawn)
        with apply_style(STYLE):
            # Where things stand is decided of by the next test, which takes three times as long.
            drawn.set_layout_engine("none")
            drawn.draw_without_rendering()
    assert plt.get_fignums() == [] and dict(rcParams) == before
    assert drawn.axes and drawing.title and drawing.caption
    assert not re.search(r"\bFig(ures?|s?\.) \d", drawing.caption), "a caption is read without other figures"
    kept = values_kept(paper.slug)["pictures"].get(paper.number(figure.id))
    told = "Look at the picture, and write down what it holds: see above."
    assert kept is not None and held[:2] == kept[:2], told
    assert held[2] == pytest.approx(kept[2], abs=2e-3), told
    assert looks_of(drawn) == values_kept(paper.slug)["looks"].get(paper.number(figure.id)), told


@pytest.mark.slow
@each_figure
@pytest.mark.filterwarnings("error")
def test_there_is_room_for_all_that_a_figure_holds(paper, figure):
    drawn = draw(paper, figure)
    with apply_style(STYLE):
        drawn.draw_without_rendering()


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.slug)
def test_what_is_drawn_is_on_the_card(paper):
    assert all((paper.found, paper.terms, paper.scale, paper.heading, paper.headline, paper.captions))
    made = {table.name for table in paper.tables}
    made |= {name for maker in (*paper.measures, *paper.experiments) for name in maker.outputs if is_table(name)}
    assert made == paper.captions.keys(), "Each table has a caption on the card, under its name."
    assert paper.thumbnail[0] in {figure.id for figure in paper.figures}
    files = dict.fromkeys(figure.module for figure in paper.figures)
    drawn = [drawing for name in files for drawing in drawings_of(name)]
    assert sorted(drawn) == sorted(figure.id for figure in paper.figures)
    named = {*room(paper).SPOILED}.union(*(each[paper.prefix] for each in (PLANTED, RECOMPUTED, WHERE_SPOILED)))
    unknown = named - {paper.number(claim.id) for claim in claims_of(paper)}
    assert not unknown, f"planted.py, or SPOILED in {room(paper).__file__}, names claims that there are not: {unknown}."


@functools.cache
def kept_claims():
    """What finished runs measured, whose studies have cases that a small story need not have."""
    return [claim for path in sorted(REFERENCE.glob("*/claims.csv")) for claim in group_claims(read_table(path))]


def key_of(sentence):
    """Its text, and which claims it is about: several figures have one text."""
    claims = (place.claim if isinstance(place, At) else place[0] for place in sentence.values.values())
    return f"{sentence.text} ({', '.join(claims)})"


def filled(paper, sentence):
    """A sentence with what is measured of its claims' stories, or where these lack a case, in a finished run."""
    claims = {claim.id: claim for claim in claims_of(paper)}
    told = {}
    for name, place in sentence.values.items():
        claim = claims[place.claim if isinstance(place, At) else place[0]]
        rows = [row_of(paper, claim, "", "", *case) for case in judged(paper, claim)]
        of_story = group_claims(pd.DataFrame(rows, columns=COLUMNS))
        found = cases_at(place, of_story) or cases_at(place, kept_claims())
        assert found, f"No case of {claim.id} is at {place}; its story has {[row['case'] for row in rows]}."
        told[name] = Told(found[:1])
    return [text.format(**told) for text in (sentence.text, sentence.otherwise)]


@each_sentence
def test_a_sentence_finds_each_of_its_cases_and_tells_them_as_it_did(paper, sentence):
    """So that a case that was renamed takes no sentence away in silence, and none tells another number than it says."""
    now = filled(paper, sentence)
    assert "{" not in "".join(now)
    assert now == values_kept(paper.slug)["sentences"].get(key_of(sentence)), "Read it, and write it down: see above."


if __name__ == "__main__":
    if sys.argv[1:2] != ["--store"]:
        sys.exit("Give --store, which writes down what every claim measures, or --store and the prefixes of papers.")
    draw_few(40, pytest.MonkeyPatch())
    for paper in (each for each in PAPERS if each.prefix in (sys.argv[2:] or each.prefix)):
        for module, name, value in getattr(room(paper), "ROUGHLY", ()):
            setattr(module, name, value)
        values = {paper.number(claim.id): as_kept(paper, claim) for claim in claims_of(paper)}
        few = {paper.number(claim.id): verdicts_of_few(paper, claim) for claim in claims_of(paper)}
        pictures = {paper.number(figure.id): draw(paper, figure) for figure in paper.figures}
        values["units"] = {paper.number(claim.id): units_of(paper, claim) for claim in claims_of(paper)}
        values["looks"] = {name: looks_of(picture) for name, picture in pictures.items()}
        values["with few networks"] = few
        values["sentences"] = {key_of(each): filled(paper, each) for of, each in SENTENCES if of is paper}
        values["pictures"] = {name: held_by(picture) for name, picture in pictures.items()}
        lines = (f"{json.dumps(name)}: {json.dumps(kept, ensure_ascii=False)}" for name, kept in values.items())
        kept_values(paper).write_text("{\n" + ",\n".join(lines) + "\n}\n")
