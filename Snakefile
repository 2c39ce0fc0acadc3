"""symlab, run from its own folder: Snakemake finds this file by itself."""


include: "workflow/Snakefile"


# Snakemake forgets the default target of a file that is included.
workflow.default_target = "all"
