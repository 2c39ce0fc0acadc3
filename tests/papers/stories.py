"""Each claim on its room's story, where it is right, and spoiled, where it is wrong: tables and verdicts, kept once."""

import functools
import importlib
import zlib
from pathlib import Path

import numpy as np
import pandas as pd

from symlab.papers import PAPERS
from symlab.pipeline.ledger import claims_of, evaluate_claim
from symlab.study.claim import statistic_of
from symlab.study.statistics import bootstrap_error

HERE = Path(__file__).parent
CARDS = {paper.slug: paper for paper in PAPERS}
CLAIMS = [(paper, claim) for paper in PAPERS for claim in claims_of(paper)]
BY_ID = {claim.id: claim for _, claim in CLAIMS}

# Columns that say where something was measured, or how: names of places, settings and closed forms.
PLACES = [
    *("sigma_F", "fixed_fraction", "lambda", "beta", "scale", "bias", "lr", "c", "sigma", "batch", "mu", "noise"),
    *("penalty", "hidden_penalty", "last_penalty", "h", "ends", "std", "event", "width", "gamma", "decay", "budget"),
    *("weight_decay", "threshold", "strength", "gamma_over_critical", "init_std", "time", "beta1", "depth", "share"),
    *("mean", "expected", "distance", "drop", "plateau_drop", "s", "plateau_s", "measured", "predicted", "certified"),
    *("eps", "free", "without", "total", "d", "k", "t", "delta"),
]

# Columns that tell networks (or draws) apart which are independent though they have the same number.
APART = (
    *("variant", "dataset", "source", "network", "scheme", "placement", "eps", "by_depth", "hidden_penalty"),
    *("last_penalty", "classes", "N", "L", "k", "d", "M", "m", "width", "depth", "lr", "mu", "sigma", "batch", "grid"),
    *("model", "matrix", "fixed_fraction", "optimizer", "layers", "decay", "labels", "problem", "start", "noise"),
)


def room(paper):
    return importlib.import_module(f".{paper.slug.replace('-', '_')}.story", __package__)


ROUGHENED = {}


@functools.cache
def story_of(slug, name):
    """The tables of a claim's story, no two measured numbers of which are alike."""
    return {table: roughened(table, rows) for table, rows in room(CARDS[slug]).story(name).items()}


def roughened(table, rows):
    """A table with each measured number changed by up to a thousandth; once of a table that many claims read."""
    if (table, id(rows)) not in ROUGHENED:
        changed = rows.copy()
        for column in rows.select_dtypes(float).columns.difference(PLACES):
            generator = np.random.default_rng(zlib.crc32(f"{table}/{column}".encode()))
            changed[column] *= 1 + 1e-3 * generator.uniform(-1, 1, len(rows))
        ROUGHENED[table, id(rows)] = rows, changed  # The rows too: no other table is to get their id.
    return ROUGHENED[table, id(rows)][1]


def draw_few(resamples, monkeypatch):
    for function in (bootstrap_error, statistic_of):
        monkeypatch.setitem(function.__kwdefaults__, "resamples", resamples)


def verdicts(found):
    return {verdict for _, verdict in found}


def judged(paper, claim):
    """The claim's cases on the story, with their verdicts; it is given the tables alone that it says it reads."""
    return judged_by_id(paper.slug, claim.id)


@functools.cache
def judged_by_id(slug, claim_id):
    paper, claim = CARDS[slug], BY_ID[claim_id]
    given = story_of(slug, paper.number(claim.id))
    missing = [name for name in claim.tables if name not in given]
    assert not missing, f"The story of {claim.id} lacks {missing}: let story({paper.number(claim.id)!r}) give them."
    tables = {name: given[name] for name in claim.tables}
    copies = {name: rows.copy() for name, rows in tables.items()}
    found = evaluate_claim(claim, tables)
    for name, rows in tables.items():
        assert rows.equals(copies[name])  # Other claims, and figures, read the same tables.
    return found


@functools.cache
def judged_where_spoiled(slug, claim_id):
    return evaluate_claim(BY_ID[claim_id], spoiled(CARDS[slug], BY_ID[claim_id])[0])


def spoiled(paper, claim):
    """The tables that a claim reads with one changed, and that one's name."""
    name, place = paper.number(claim.id), room(paper)
    assert name in place.SPOILED, (
        f"{claim.id} has nothing to fail on: add {name!r} to SPOILED, which {place.__file__} holds or imports."
    )
    change = place.SPOILED[name]
    table, change = change if isinstance(change, tuple) else (claim.tables[0], change)
    tables = {each: story_of(paper.slug, name)[each] for each in claim.tables}
    changed = tables[table].copy()
    returned = change(changed)
    return tables | {table: returned if isinstance(returned, pd.DataFrame) else changed}, table


FEW = {}


def with_few(tables, count):
    """The tables with the first so many values alone of each column that tells networks apart."""
    return {name: few_of(rows, count) for name, rows in tables.items()}


def few_of(rows, count):
    """Made once of a table that many claims read."""
    if (id(rows), count) not in FEW:
        few = [rows[column].isin(rows[column].unique()[:count]) for column in rows.columns.intersection(APART)]
        FEW[id(rows), count] = rows, rows[np.logical_and.reduce(few)] if few else rows
    return FEW[id(rows), count][1]
