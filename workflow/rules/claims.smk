rule claims:
    input:
        tables=claim_tables,
    output:
        csv=report(
            ensure(f"{RESULTS}/claims.csv", non_empty=True),
            caption="../report/claims.rst",
            category="Claims",
            labels={"table": "All verdicts, as CSV"},
        ),
        html=report(
            f"{RESULTS}/claims.html",
            caption="../report/claims.rst",
            category="Claims",
            labels={"table": "All verdicts"},
        ),
    log:
        f"{RESULTS}/logs/claims.log",
    benchmark:
        f"{RESULTS}/benchmarks/claims.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 6000 * attempt,
        runtime=30,
    params:
        studies=scales,
        library=library("claims.py"),
    message:
        "Claims"
    script:
        "../scripts/claims.py"
