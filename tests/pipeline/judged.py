"""Claims of papers that do not exist, and the ledger that they give."""

import pandas as pd

from symlab.pipeline.ledger import evaluate_claims
from symlab.study.claim import Claim, at_most

TABLE = pd.DataFrame({"x": [1.0]})
TABLES = {"s": {"a.csv": TABLE}}
STUDIES = {"s": {"figures": ["test-1"], "scale": "1 pair"}}


def claim(name, found, figure="test-1", tables=("a.csv",), **fields):
    measure = found if callable(found) else lambda tables: found
    fields = {"statement": f"{name} holds", "bound": at_most(1), "owner": "paper", "origin": "ours"} | fields
    return Claim(id=f"{figure}-{name}", reason="because", tables=tables, measure=measure, **fields)


def judged(card, *claims, **fields):
    return evaluate_claims(STUDIES, TABLES, [card(claims, **fields)])
