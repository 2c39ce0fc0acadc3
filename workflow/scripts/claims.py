"""Check every claim against the studies' tables and write the ledger."""

from pathlib import Path

from symlab.artifacts import read_table, write_table
from symlab.errors import UserError
from symlab.pipeline.job import run
from symlab.pipeline.ledger import errors_of, evaluate_claims


def main(snakemake, report):
    tables = {
        study: {Path(path).name: read_table(path) for path in paths} for study, paths in snakemake.params.tables.items()
    }
    ledger = evaluate_claims(snakemake.params.studies, tables)
    for verdict, rows in ledger.groupby("verdict"):
        report(f"{len(rows)} {verdict}")
    write_table(snakemake.output.ledger, ledger)
    if errors := errors_of(ledger):
        raise UserError(errors)


run(main, snakemake)
