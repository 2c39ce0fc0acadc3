"""symlab, run from its own folder: Snakemake finds this file by itself."""


include: "workflow/Snakefile"
