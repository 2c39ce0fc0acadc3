rule claims:
    input:
        rules.tables.input,
    output:
        ledger=f"{RESULTS}/claims.csv",
    log:
        log_of("claims"),
    benchmark:
        benchmark_of("claims")
    group:
        "verdicts"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=retried(6000),
        runtime=retried(10),
    params:
        studies={
            name: {"figures": list(study.figures), "scale": study.scale()}
            | ({"stand_in": study.stand_in} if study.stand_in else {})
            for name, study in STUDIES.items()
        },
        tables={name: tables_of(name) for name in STUDIES},
        code=code_of("scripts.claims", *{f.module for paper in papers_drawn() for f in paper.figures}),
    message:
        "Claims"
    script:
        "../scripts/claims.py"


rule report:
    input:
        claims=rules.claims.output.ledger,
        figures=rules.figures.input,
        tables=rules.tables.input,
        data=sorted({path for study in STUDIES for path in data_of_study(study)}),
    output:
        page=f"{RESULTS}/report.html",
        config=f"{RESULTS}/config.yaml",
    log:
        log_of("report"),
    benchmark:
        benchmark_of("report")
    group:
        "verdicts"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=retried(2000),
        runtime=retried(10),
    params:
        # Where and how it was computed is no part of what was.
        config={key: value for key, value in config.items() if key not in HOW},
        run=", ".join(map(os.path.relpath, workflow.configfiles)),
        studies={name: {"about": s.about(), "scale": s.scale()} for name, s in STUDIES.items()},
        code=code_of("scripts.report", *cards_drawn()),
        pages=digest_of_files(Path(symlab.__file__).with_name("pipeline").glob("page/*.*")),
        kept=digest_of_files(Path(symlab.__file__).parents[2].glob("results/reference/*/claims.csv")),
    message:
        "Report"
    script:
        "../scripts/report.py"
