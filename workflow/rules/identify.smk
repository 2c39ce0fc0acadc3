rule identify:
    input:
        data=data_of_variant,
        models=rules.train.output.models,
    output:
        subspaces=ensure(f"{RESULTS}/{{study}}/{{variant}}/subspaces/{{block}}.csv", non_empty=True),
        swap_costs=ensure(f"{RESULTS}/{{study}}/{{variant}}/swap_costs/{{block}}.parquet", non_empty=True),
    log:
        f"{RESULTS}/logs/identify/{{study}}/{{variant}}/{{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/identify/{{study}}/{{variant}}/{{block}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 120 * attempt,
        gpu=GPU,
    params:
        settings=analysis("identification"),
        library=library("identify.py"),
    message:
        "Swap costs of {wildcards.study}/{wildcards.variant}, block {wildcards.block}"
    script:
        "../scripts/identify.py"


rule centre_gaps:
    input:
        data=data_of_study,
    output:
        table=report(
            ensure(f"{RESULTS}/{{study}}/tables/centre_gaps.csv", non_empty=True),
            caption="../report/centre_gaps.rst",
            category="Tables",
            labels={"study": "{study}", "table": "centre gaps"},
        ),
    log:
        f"{RESULTS}/logs/centre_gaps/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/centre_gaps/{{study}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=60,
    params:
        spec=analysis("centre_gaps"),
        datasets=lambda wildcards: PROJECT.studies[wildcards.study].datasets(),
        library=library("centre_gaps.py"),
    message:
        "Centre gaps of {wildcards.study}"
    script:
        "../scripts/centre_gaps.py"
