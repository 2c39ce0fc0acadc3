"""Check every claim against the studies' tables and write the ledger."""

from pathlib import Path

from symlab.pipeline.job import run
from symlab.artifacts import write_table
from symlab.errors import UserError
from symlab.pipeline.ledger import errors_of, evaluate_claims
from symlab.pipeline.outputs import read_output


def main(snakemake, report):
    paths = snakemake.params.tables
    tables = {study: {Path(path).name: read_output(path) for path in of_study} for study, of_study in paths.items()}
    ledger = evaluate_claims(snakemake.params.studies, tables)
    for verdict, rows in ledger.groupby("verdict"):
        report(f"{len(rows)} {verdict}")
    # Snakemake removes the outputs of a job that fails, so a ledger with errors is kept beside them, for reading.
    with_errors = Path(snakemake.output.ledger).with_stem("claims_with_errors")
    if errors := errors_of(ledger):
        write_table(with_errors, ledger)
        raise UserError(f"{errors} The ledger is in {with_errors}.")
    with_errors.unlink(missing_ok=True)
    write_table(snakemake.output.ledger, ledger)


run(main, snakemake)
