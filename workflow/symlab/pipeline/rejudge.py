"""Judge a kept run again by today's claims: from its tables where they are there, else from the rows of its ledger.

    python -m symlab.pipeline.rejudge results/reference/<run> [--tables <folder>] [--judged <commit>]

The folder holds <study>/tables/* as a results folder does; a kept run with tables is such a folder itself. A claim
that had a verdict keeps a row: where its tables are gone its value is judged by today's bound and rules, and the row
says so. If what the claim measures has another text since, that value is not its own: the row loses value and verdict
and says what was measured. ``--reworded`` tells that texts alone have changed.
"""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from symlab.artifacts import read_table, write_table
from symlab.papers import PAPERS
from symlab.pipeline.ledger import (
    COLUMNS,
    ERROR,
    NOT_RUN,
    NUMBERS,
    STAND_IN,
    UNDECIDED,
    claims_of,
    evaluate_claims,
    judge,
    row_of,
)
from symlab.pipeline.outputs import read_output
from symlab.plotting.numbers import format_value
from symlab.study.card import Paper
from symlab.study.claim import Case, Claim, Measurement, Tables

EARLIER = "judged earlier"
CHANGED = "something else was measured, table not kept"


def rejudge(
    kept: pd.DataFrame,
    tables: Mapping[str, Tables] | None = None,
    judged: str = "",
    papers: tuple[Paper, ...] = PAPERS,
    reworded: bool = False,
) -> pd.DataFrame:
    """The ledger of a kept run by today's claims; claims that are gone since are left out.

    ``tables`` holds by study what is kept of its tables; what a study without any has are its rows. A row that its
    study's tables no longer give, since one is not kept, says that it was judged earlier, ``judged`` (a commit, a date)
    when; where all are kept and no longer decide the claim, it is not run. Nor is it where the kept row is of another
    quantity than today's claim, unless ``reworded``.
    """
    kept = kept.reindex(columns=COLUMNS)
    texts = [name for name in COLUMNS if name not in NUMBERS]
    kept[texts] = kept[texts].astype(object).fillna("")
    known = {claim.id: (paper, claim) for paper in papers for claim in claims_of(paper)}
    kept = kept[kept["claim"].isin(known)]
    fresh = _evaluate(kept, tables or {}, papers)
    names_of = {study: set(of_study) for study, of_study in (tables or {}).items()}
    whole = {(name, study) for name in known for study in names_of if {*known[name][1].tables} <= names_of[study]}
    found = {at for row in fresh if (at := (row["claim"], row["study"])) in whole or row["verdict"] != NOT_RUN}
    rows = []
    for (name, study), of_claim in kept.groupby(["claim", "study"], sort=False):
        changed = of_claim["detail"].str.startswith(CHANGED).any()
        if (name, study) in found or ((of_claim["verdict"] == NOT_RUN).all() and not changed):
            anew = [row for row in fresh if (row["claim"], row["study"]) == (name, study)]
            rows += anew or [_refresh(row, *known[name]) for row in of_claim.to_dict("records")]
        else:
            for row in of_claim.to_dict("records"):
                if not reworded and row["verdict"] != NOT_RUN and row["quantity"] not in ("", known[name][1].quantity):
                    rows.append(_without_value(row, *known[name]))
                    continue
                when = " at ".join(filter(None, [row["verdict"], judged]))
                lacking = row["verdict"] == NOT_RUN
                said = lacking or study not in (tables or {}) or row["detail"].startswith((EARLIER, CHANGED))
                rows.append(_refresh(row, *known[name], "" if said else f"{EARLIER} ({when}), table not kept"))
    there = {(row["claim"], row["study"]) for row in rows}
    rows += [row for row in fresh if row["verdict"] != NOT_RUN and (row["claim"], row["study"]) not in there]
    order = list(known)
    ledger = pd.DataFrame(sorted(rows, key=lambda row: order.index(row["claim"])), columns=COLUMNS)
    return _without_rounding(ledger, kept)


def _without_rounding(ledger: pd.DataFrame, kept: pd.DataFrame) -> pd.DataFrame:
    """The ledger with the kept numbers in rows that differ from theirs by another processor's rounding alone."""
    names = ["claim", "study", "case"]
    before = ledger[names].merge(kept.drop_duplicates(names), how="left", on=names)
    for name in [number for number in NUMBERS if number != "n"]:
        values, earlier = ledger[name].astype(float), before[name].astype(float).set_axis(ledger.index)
        ledger[name] = earlier.where(np.isclose(values, earlier, rtol=1e-9, atol=1e-15), values)
    return ledger


def _evaluate(kept: pd.DataFrame, tables: Mapping[str, Tables], papers: tuple[Paper, ...]) -> list[dict[str, Any]]:
    """What the kept tables give of the figures that their studies drew, but for tables that cannot be read any more."""
    known = [claim for paper in papers for claim in claims_of(paper) if claim.id in set(kept["claim"])]
    studies = {
        study: {
            "figures": _figures_drawn([claim for claim in known if claim.id in set(rows["claim"])], known),
            "scale": max(rows["scale"], key=len),
            "stand_in": (rows["owner"] == STAND_IN).any(),
        }
        for study, rows in kept.groupby("study")
        if study in tables
    }
    rows = evaluate_claims(studies, tables, papers).to_dict("records")
    return [row for row in rows if row["verdict"] != ERROR]


def _figures_drawn(judged: Sequence[Claim], known: Sequence[Claim]) -> list[str]:
    """The figures that a study drew, from the claims that it has rows of, among those that its ledger knew.

    A claim about several figures tells of that one of which fewest claims have no row.
    """

    def lacking(figure: str) -> int:
        return sum(claim.is_about([figure]) and claim not in judged for claim in known)

    return list(dict.fromkeys(min((claim.figure, *claim.also), key=lacking) for claim in judged))


def _without_value(row: Mapping[str, Any], paper: Paper, claim: Claim) -> dict[str, Any]:
    """A row of a claim that measures something else today: not run, with what was measured in words."""
    measured = format_value(row["value"], row["error"])
    detail = "; ".join(filter(None, [f"{CHANGED}: {row['quantity']}: {measured} ({row['verdict']})", row["detail"]]))
    empty = dict.fromkeys(NUMBERS, math.nan) | {"n": 0, "unit": "", "verdict": NOT_RUN, "detail": detail}
    return _refresh({**row, **empty}, paper, claim)


def _refresh(row: Mapping[str, Any], paper: Paper, claim: Claim, gone: str = "") -> dict[str, Any]:
    """A row with today's texts of its claim, and the verdict that its value, error and n have by today's rules.

    What was undecided stays so: why a value was open is not in its row.
    """
    ends = None if math.isnan(row["low"]) else (row["low"], row["high"])
    spread, error = (None if math.isnan(row[name]) else row[name] for name in ("spread", "error"))
    detail = "; ".join(filter(None, [gone, row["detail"]]))
    case = Case(row["case"], **json.loads(row["key"])) if row["key"] else row["case"]
    measured = Measurement(
        row["value"], int(row["n"]), spread, case, detail, error, row["unit"], "", ends, why=row["why"]
    )
    verdict = row["verdict"] if row["verdict"] in (NOT_RUN, UNDECIDED, ERROR) else judge(claim, measured)
    return row_of(paper, claim, row["study"], row["scale"], measured, verdict, row["owner"] == STAND_IN)


def table_of(path: Path) -> str:
    """The table that a file holds: a kept run has as parquet what the run wrote as CSV."""
    known = {table for paper in PAPERS for claim in claims_of(paper) for table in claim.tables}
    as_csv = f"{path.stem}.csv"
    return as_csv if as_csv in known else path.name


def main() -> None:
    """Write the run's claims.csv anew."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("run", type=Path, help="folder of a kept run, with its claims.csv")
    parser.add_argument("--tables", type=Path, help="a results folder of the run: <study>/tables/*.csv")
    parser.add_argument("--judged", default="", help="commit or date of the verdicts that the run has now")
    parser.add_argument("--reworded", action="store_true", help="claims measure what they did, in other words")
    arguments = parser.parse_args()
    tables: dict[str, dict[str, pd.DataFrame]] = {}
    for path in sorted(arguments.tables.glob("*/tables/*")) if arguments.tables else []:
        tables.setdefault(path.parts[-3], {})[table_of(path)] = read_output(path)
    ledger = arguments.run / "claims.csv"
    write_table(ledger, rejudge(read_table(ledger), tables, arguments.judged, reworded=arguments.reworded))


if __name__ == "__main__":
    main()
