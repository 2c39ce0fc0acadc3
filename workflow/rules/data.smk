rule data:
    output:
        data=f"{RESULTS}/data/{{dataset}}.safetensors",
    log:
        f"{RESULTS}/logs/data/{{dataset}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/data/{{dataset}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        spec=lambda wildcards: PROJECT.datasets[wildcards.dataset],
        library=code_of_source,
        origins=origins,
    message:
        "Data set {wildcards.dataset}"
    script:
        "../scripts/prepare_data.py"
