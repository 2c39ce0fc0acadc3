"""Write the report from the finished files of a run, and the config that the run had."""

import json
from collections import defaultdict
from pathlib import Path

import yaml

from symlab.pipeline.job import run
from symlab.artifacts import read_header, read_table, write_text
from symlab.pipeline.report import write_page


def by_study(paths):
    """Paths of files in <study>/tables or <study>/figures, by study."""
    found = defaultdict(list)
    for path in map(Path, paths):
        found[path.parents[1].name].append(path)
    return found


def main(snakemake, report):
    given = snakemake.input
    # Through JSON: what Snakemake holds are its own subclasses of dict, which YAML would write as Python objects.
    config = yaml.safe_dump(json.loads(json.dumps(snakemake.params.config)), sort_keys=False)
    write_text(snakemake.output.config, config)
    page = write_page(
        config=config,
        ledger=read_table(given.claims),
        studies=snakemake.params.studies,
        figures=by_study(given.figures),
        tables=by_study(given.tables),
        datasets={Path(path).stem: read_header(path, "dataset") for path in given.data},
        results=Path(snakemake.output.page).parent,
        run=snakemake.params.run,
    )
    write_text(snakemake.output.page, page)
    report(f"{len(page.encode()) / 1e6:.1f} MB")


run(main, snakemake)
