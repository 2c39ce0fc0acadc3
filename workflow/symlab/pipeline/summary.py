"""What a run says on the terminal: what will come, and what was found.

The Snakefile imports this module on every start, so pandas is imported where it is needed.
"""

import textwrap
from pathlib import Path

from symlab.papers import PAPERS
from symlab.pipeline.studies import Project
from symlab.words import counted

WIDTH = 100


def announce(project: Project) -> str:
    """What is about to run, where its results go, and that it may be stopped."""
    figures = sum(len(study.figures) for study in project.studies.values())
    studies = "study" if len(project.studies) == 1 else "studies"
    return (
        f"{len(project.studies)} {studies} ({', '.join(project.studies)}), "
        f"{counted(figures, 'figures')}; results go to {project.results}/, logs to {project.results}/logs/.\n"
        "It may be stopped at any time: the same command goes on where it was."
    )


def summarise(ledger: Path, page: Path) -> str:
    """What each paper says and what was found of it, then the totals and the address of the report."""
    from symlab.artifacts import read_table
    from symlab.pipeline.ledger import group_claims
    from symlab.pipeline.telling import count_findings, describe_counts, tell_headline

    claims = group_claims(read_table(ledger))
    lines = []
    for paper in PAPERS:
        if told := tell_headline(paper, [claim for claim in claims if claim.paper == paper.slug]):
            lines += [
                f"{paper.heading} ({paper.short}):",
                textwrap.fill(told.replace("**", ""), WIDTH, initial_indent="  ", subsequent_indent="  "),
            ]
    lines.append(f"The papers' own claims: {describe_counts(count_findings(claims, owners=('paper',)))}.")
    lines.append(f"The report: {page.resolve().as_uri()}")
    return "\n".join(lines)
