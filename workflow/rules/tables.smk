rule table:
    input:
        parts=parts_of_table,
    output:
        table=ensure(f"{RESULTS}/{{study}}/tables/{{table}}", non_empty=True),
    log:
        f"{RESULTS}/logs/table/{{study}}/{{table}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/table/{{study}}/{{table}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 6000 * attempt,
        runtime=lambda wildcards, attempt: 10 * attempt,
    params:
        variants=descriptions,
        of_part=variant_of_part,
        library=code_of("table.py"),
        origins=origins,
    message:
        "Table {wildcards.table} of {wildcards.study}"
    script:
        "../scripts/table.py"


rule barriers:
    input:
        curves=f"{RESULTS}/{{study}}/tables/curves.csv",
    output:
        barriers=ensure(f"{RESULTS}/{{study}}/tables/barriers.csv", non_empty=True),
        loss_bounds=ensure(f"{RESULTS}/{{study}}/tables/loss_bounds.csv", non_empty=True),
    log:
        f"{RESULTS}/logs/barriers/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/barriers/{{study}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 6000 * attempt,
        runtime=lambda wildcards, attempt: 10 * attempt,
    params:
        library=code_of("barriers.py"),
        origins=origins,
    message:
        "Barriers of {wildcards.study}"
    script:
        "../scripts/barriers.py"


rule trade_off:
    input:
        matching=f"{RESULTS}/{{study}}/tables/matching.csv",
        history=f"{RESULTS}/{{study}}/tables/history.csv",
    output:
        trade_off=ensure(f"{RESULTS}/{{study}}/tables/trade_off.csv", non_empty=True),
    log:
        f"{RESULTS}/logs/trade_off/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/trade_off/{{study}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 6000 * attempt,
        runtime=lambda wildcards, attempt: 10 * attempt,
    params:
        library=code_of("trade_off.py"),
        origins=origins,
    message:
        "Accuracy against identifiability of {wildcards.study}"
    script:
        "../scripts/trade_off.py"


rule estimators:
    input:
        swap_costs=f"{RESULTS}/{{study}}/tables/swap_costs.parquet",
        ridge_swap_costs=f"{RESULTS}/{{study}}/tables/ridge_swap_costs.parquet",
    output:
        estimators=ensure(f"{RESULTS}/{{study}}/tables/estimators.csv", non_empty=True),
    log:
        f"{RESULTS}/logs/estimators/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/estimators/{{study}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 6000 * attempt,
        runtime=lambda wildcards, attempt: 10 * attempt,
    params:
        library=code_of("estimators.py"),
        origins=origins,
    message:
        "Agreement of the estimators of {wildcards.study}"
    script:
        "../scripts/estimators.py"


rule tables:
    input:
        [table_paths(study, tables_of_study(study)) for study in PROJECT.studies],
    localrule: True
