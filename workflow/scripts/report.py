"""Write the report from the finished files of a run."""

from collections import defaultdict
from pathlib import Path

from symlab.artifacts import read_table, write_text
from symlab.job import run
from symlab.report.page import report_page


def by_study(paths):
    """Paths of files in <study>/tables or <study>/figures, by study."""
    found = defaultdict(list)
    for path in map(Path, paths):
        found[path.parents[1].name].append(path)
    return found


def main(snakemake, report):
    page = report_page(
        config=Path(snakemake.input.config).read_text(),
        ledger=read_table(snakemake.input.claims),
        figures=by_study(snakemake.input.figures),
        tables=by_study(snakemake.input.tables),
        datasets=[Path(path) for path in snakemake.input.datasets],
        results=Path(snakemake.output[0]).parent,
        device=snakemake.config["device"],
    )
    write_text(snakemake.output[0], page)
    report(f"{len(page.encode()) / 1e6:.1f} MB")


run(main, snakemake)
