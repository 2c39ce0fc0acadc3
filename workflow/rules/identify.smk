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
        runtime=lambda wildcards, attempt: 60 * attempt,
        gpu=GPU,
    params:
        settings=analysis("identification"),
        library=code_of("identify.py"),
        origins=origins,
    message:
        "Swap costs of {wildcards.study}/{wildcards.variant}, block {wildcards.block}"
    script:
        "../scripts/identify.py"


rule ridge:
    input:
        data=data_of_variant,
        models=rules.train.output.models,
    output:
        ridge_swap_costs=ensure(f"{RESULTS}/{{study}}/{{variant}}/ridge_swap_costs/{{block}}.parquet", non_empty=True),
        ridge_costs=ensure(f"{RESULTS}/{{study}}/{{variant}}/ridge_costs/{{block}}.csv", non_empty=True),
    log:
        f"{RESULTS}/logs/ridge/{{study}}/{{variant}}/{{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/ridge/{{study}}/{{variant}}/{{block}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 240 * attempt,
        gpu=GPU,
    params:
        settings=analysis("ridge"),
        library=code_of("ridge.py"),
        origins=origins,
    message:
        "Swap costs by ridge regression of {wildcards.study}/{wildcards.variant}, block {wildcards.block}"
    script:
        "../scripts/ridge.py"


rule theory:
    input:
        data=data_of_variant,
        models=rules.train.output.models,
    output:
        gram_deviation=ensure(f"{RESULTS}/{{study}}/{{variant}}/gram_deviation/{{block}}.csv", non_empty=True),
        sensitivity=ensure(f"{RESULTS}/{{study}}/{{variant}}/sensitivity/{{block}}.csv", non_empty=True),
        network_gaps=ensure(f"{RESULTS}/{{study}}/{{variant}}/network_gaps/{{block}}.csv", non_empty=True),
    log:
        f"{RESULTS}/logs/theory/{{study}}/{{variant}}/{{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/theory/{{study}}/{{variant}}/{{block}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 60 * attempt,
        gpu=GPU,
    params:
        settings=analysis("theory"),
        scheme=scheme_of_variant,
        library=code_of("theory.py"),
        origins=origins,
    message:
        "Bounds and what they bound of {wildcards.study}/{wildcards.variant}, block {wildcards.block}"
    script:
        "../scripts/theory.py"


rule centre_gaps:
    input:
        data=data_of_study,
    output:
        table=ensure(f"{RESULTS}/{{study}}/tables/centre_gaps.csv", non_empty=True),
    log:
        f"{RESULTS}/logs/centre_gaps/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/centre_gaps/{{study}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 2000 * attempt,
        runtime=lambda wildcards, attempt: 30 * attempt,
    params:
        spec=analysis("centre_gaps"),
        datasets=lambda wildcards: PROJECT.studies[wildcards.study].datasets(),
        library=code_of("centre_gaps.py"),
        origins=origins,
    message:
        "Centre gaps of {wildcards.study}"
    script:
        "../scripts/centre_gaps.py"
