rule config_used:
    output:
        f"{RESULTS}/config.yaml",
    log:
        f"{RESULTS}/logs/config_used.log",
    benchmark:
        f"{RESULTS}/benchmarks/config_used.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=500,
        runtime=10,
    params:
        # The device and the data folder are no part of what was computed.
        config={key: value for key, value in config.items() if key not in ("device", "data_dir")},
    message:
        "The config of this run, overrides from the command line included"
    script:
        "../scripts/config_used.py"


rule report:
    input:
        config=rules.config_used.output,
        claims=rules.claims.output,
        figures=figure_paths(),
    output:
        f"{RESULTS}/report.html",
    log:
        f"{RESULTS}/logs/report.log",
    benchmark:
        f"{RESULTS}/benchmarks/report.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=30,
    params:
        snakefile=os.path.relpath(workflow.main_snakefile),
    message:
        "Report"
    # Snakemake writes reports only when called for one. The second call reads the finished jobs' records and runs nothing;
    # the first one holds the lock, which is why it must not ask for it.
    shell:
        "snakemake --snakefile {params.snakefile:q} --configfile {input.config:q} --report {output:q} --nolock"
        " --cores 1 figures claims > {log:q} 2>&1"
