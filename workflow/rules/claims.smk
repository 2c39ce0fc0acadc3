from symlab.html import digest_of_texts


rule claims:
    input:
        tables=claim_tables,
    output:
        csv=ensure(f"{RESULTS}/claims.csv", non_empty=True),
        html=f"{RESULTS}/claims.html",
    log:
        f"{RESULTS}/logs/claims.log",
    benchmark:
        f"{RESULTS}/benchmarks/claims.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 6000 * attempt,
        runtime=lambda wildcards, attempt: 10 * attempt,
    params:
        studies=scales,
        library=code_of("claims.py"),
        pages=digest_of_texts("pages"),
        origins=origins,
    message:
        "Claims"
    script:
        "../scripts/claims.py"
