"""One rule for each measure that the kernel and the papers' cards register (symlab.measures.Measure)."""

for each in MEASURES.values():

    rule:
        name:
            each.name
        input:
            unpack(partial(inputs_of, each)),
        output:
            [files.part(RESULTS, "{study}", "{variant}", output, "{block}") for output in each.outputs],
        log:
            log_of(each.name, "{study}", "{variant}", "{block}"),
        benchmark:
            benchmark_of(each.name, "{study}", "{variant}", "{block}")
        group:
            "analysis" if each.minutes <= 60 else each.name
        conda:
            ENVIRONMENT
        threads: 1
        resources:
            mem_mb=retried(each.memory_mb),
            runtime=retried(each.minutes),
            gpu=GPU if each.gpu else 0,
        params:
            measure=each.name,
            settings=partial(settings_of, each),
            code=code_of("scripts.measure", each.function),
        message:
            f"{each.name.capitalize()} {{wildcards.study}}/{{wildcards.variant}}, block {{wildcards.block}}"
        script:
            "../scripts/measure.py"
