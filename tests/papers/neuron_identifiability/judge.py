"""Verdicts of the room's claims."""

import pandas as pd

from symlab.papers.neuron_identifiability import NEURON_IDENTIFIABILITY
from symlab.pipeline.ledger import claims_of, evaluate_claim

PREFIX = "identifiability-"
CLAIMS = {claim.id.removeprefix(PREFIX): claim for claim in claims_of(NEURON_IDENTIFIABILITY)}
COLUMNS = ["case", "value", "spread", "n", "verdict", "detail", "error", "unit"]


def verdicts(claim_id, tables):
    """A row for each verdict of one claim on a study's tables."""
    rows = [
        (each.case, each.value, each.spread, each.n, verdict, each.detail, each.error, each.unit)
        for each, verdict in evaluate_claim(CLAIMS[claim_id], tables)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def about(figure):
    """The claims about a figure, by their ids."""
    return {name for name, claim in CLAIMS.items() if claim.is_about([PREFIX + figure])}


def tables_of(claim_id, tables_for):
    """The tables of the study that draws the claim's figure."""
    return tables_for(CLAIMS[claim_id].figure.removeprefix(PREFIX))


def only_value(claim_id, tables):
    (row,) = verdicts(claim_id, tables).to_dict("records")
    return row
