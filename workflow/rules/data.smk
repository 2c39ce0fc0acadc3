rule data:
    input:
        lambda wildcards: PROJECT.datasets[wildcards.dataset].reads,
    output:
        files.dataset(RESULTS, "{dataset}"),
    log:
        log_of("data", "{dataset}"),
    benchmark:
        benchmark_of("data", "{dataset}")
    group:
        "data"
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=retried(2000),
        runtime=retried(30),
    params:
        spec=lambda wildcards: PROJECT.datasets[wildcards.dataset].spec(),
        code=lambda wildcards: code_of("scripts.data", PROJECT.datasets[wildcards.dataset].loader),
    message:
        "Data set {wildcards.dataset}"
    script:
        "../scripts/data.py"
