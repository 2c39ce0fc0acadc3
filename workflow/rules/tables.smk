"""One job a study: its tables, put together from the variants' blocks or made from other tables."""

for each in STUDIES.values():
    if made_tables(each):

        rule:
            name:
                f"tables_{each.name}"
            input:
                parts=[path for paths in parts_of(each).values() for path in paths],
                experiments=list(experiments_of(each).values()),
            output:
                report(
                    [files.table(RESULTS, each.name, table) for table in made_tables(each)],
                    category=each.name,
                    subcategory="tables",
                ),
            log:
                log_of("tables", each.name),
            benchmark:
                benchmark_of("tables", each.name)
            group:
                "tables"
            conda:
                ENVIRONMENT
            threads: 1
            resources:
                mem_mb=retried(6000),
                runtime=retried(60),
            params:
                study=each.name,
                parts=parts_of(each),
                experiments=experiments_of(each),
                variants={name: variant.columns() for name, variant in each.variants.items()},
                of_part=[name for name in each.variants for _ in each.blocks()],
                derived=[table.name for table in each.derived_tables()],
                code=code_of("scripts.tables", *(table.function for table in each.derived_tables())),
            message:
                f"Tables of {each.name}"
            script:
                "../scripts/tables.py"


rule tables:
    input:
        [tables_of(study) for study in STUDIES],
    localrule: True
