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
        mem_mb=lambda wildcards, attempt: 1000 * attempt,
        runtime=lambda wildcards, attempt: 10 * attempt,
    params:
        # Where and how it was computed is no part of what was.
        config={k: v for k, v in config.items() if k not in ("device", "data_dir", "checkpoint_minutes")},
    message:
        "The config of this run, overrides from the command line included"
    script:
        "../scripts/config_used.py"


rule report:
    input:
        config=rules.config_used.output[0],
        claims=rules.claims.output.csv,
        figures=figure_paths(),
        pdfs=[path.removesuffix("png") + "pdf" for path in figure_paths()],
        tables=rules.tables.input,
        datasets=list(dict.fromkeys(data_path(name) for study in PROJECT.studies.values() for name in study.datasets())),
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
        runtime=lambda wildcards, attempt: 10 * attempt,
    params:
        library=code_of("report.py"),
        texts=digest_of_texts("pages", "figures", "tables.yaml"),
        origins=origins,
    message:
        "Report"
    script:
        "../scripts/report.py"
