"""Claims of the papers: tables in, verdicts out. A new paper is one module and one line in ``papers.PAPERS``."""

from symlab.papers.claim import Claim, Verdict
from symlab.claims.evaluate import evaluate_study, ledger, tables_of_claims
from symlab.claims.papers import PAPERS
from symlab.claims.render import to_html, to_markdown

__all__ = ["PAPERS", "Claim", "Verdict", "evaluate_study", "ledger", "tables_of_claims", "to_html", "to_markdown"]
