"""Check every claim against the studies' tables and write the ledger."""

from collections import defaultdict
from pathlib import Path

from symlab.artifacts import read_table, write_table, write_text
from symlab.claims import ledger, to_html
from symlab.job import run


def main(snakemake, report):
    tables = defaultdict(dict)
    for path in map(Path, snakemake.input.tables):
        tables[path.parents[1].name][path.name] = read_table(path)
    verdicts = ledger(snakemake.params.studies, tables)
    for verdict, rows in verdicts.groupby("verdict"):
        report(f"{len(rows)} {verdict}")
    write_table(snakemake.output.csv, verdicts)
    write_text(snakemake.output.html, to_html(verdicts))


run(main, snakemake)
