"""symlab: from data to verdicts. Stages are in workflow/rules, the library in workflow/symlab."""

import os
import sys

from snakemake.utils import min_version

min_version("9.0")

# A config given with --configfile replaces the default study instead of being mixed into it.
if "studies" not in config:

    configfile: "config.yaml"


LIBRARY_PATH = os.path.join(workflow.basedir, "workflow")
sys.path.insert(0, LIBRARY_PATH)


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/align.smk"
include: "workflow/rules/interpolate.smk"
include: "workflow/rules/identify.smk"
include: "workflow/rules/students.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/claims.smk"
include: "workflow/rules/report.smk"


# Once a training job has finished for Snakemake too, its checkpoint is of no more use.
JOBS = Jobs(finished=forget_checkpoints)
logger.addHandler(JOBS)


onstart:
    try:
        hold_results(RESULTS)
    except UserError as error:
        raise WorkflowError(str(error)) from None


onsuccess:
    if os.path.exists(rules.report.output[0]):
        print(outcome(RESULTS))


onerror:
    JOBS.tell_at_exit()


rule all:
    default_target: True
    input:
        rules.tables.input,
        rules.figures.input,
        rules.claims.output,
        rules.report.output,
    localrule: True
