"""symlab: from data to verdicts. Stages are in workflow/rules, the library in workflow/symlab."""

import shutil
from pathlib import Path

from snakemake.utils import min_version

min_version("9.0")

# A config given with --configfile replaces the default study instead of being mixed into it.
if "studies" not in config:

    configfile: "config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/measures.smk"
include: "workflow/rules/experiments.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/claims.smk"


onsuccess:
    # What a job kept to go on from is of no more use where its output is there.
    for kept, output in (pair for study in STUDIES.values() for pair in checkpoints_of(study)):
        if Path(output).exists():
            shutil.rmtree(kept, ignore_errors=True)
            Path(kept).unlink(missing_ok=True)
    if Path(rules.report.output.page).exists():
        print(f"The report: {rules.report.output.page}")


rule all:
    default_target: True
    input:
        rules.tables.input,
        rules.figures.input,
        rules.claims.output,
        rules.report.output,
    localrule: True
