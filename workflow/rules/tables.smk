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
        runtime=30,
    params:
        variants=descriptions,
        of_part=variant_of_part,
        library=library("table.py"),
    message:
        "Table {wildcards.table} of {wildcards.study}"
    script:
        "../scripts/table.py"


rule barriers:
    input:
        curves=f"{RESULTS}/{{study}}/tables/curves.csv",
    output:
        barriers=report(
            ensure(f"{RESULTS}/{{study}}/tables/barriers.csv", non_empty=True),
            caption="../report/barriers.rst",
            category="Tables",
            labels={"study": "{study}", "table": "barriers"},
        ),
    log:
        f"{RESULTS}/logs/barriers/{{study}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/barriers/{{study}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 6000 * attempt,
        runtime=30,
    params:
        library=library("barriers.py"),
    message:
        "Barriers of {wildcards.study}"
    script:
        "../scripts/barriers.py"


rule tables:
    input:
        [table_paths(study, tables_of_study(study)) for study in PROJECT.studies],
    localrule: True
