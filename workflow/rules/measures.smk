"""One rule for each measure that the kernel and the papers' cards register (symlab.measures.Measure)."""


def inputs_of(measure, wildcards):
    """Data, models, and the outputs of other measures that it needs with these settings."""
    settings = STUDIES[wildcards.study].settings[measure.key]
    needed = [*measure.needs, *(output for output, key in measure.needs_if.items() if getattr(settings, key))]
    given = {
        "data": data_of_variant(wildcards),
        "models": files.part(RESULTS, wildcards.study, wildcards.variant, "models.safetensors", wildcards.block),
        "needed": [
            files.part(RESULTS, wildcards.study, wildcards.variant, output, wildcards.block) for output in needed
        ],
    }
    return given | ({"symmetries": files.symmetries(RESULTS, wildcards.study)} if measure.symmetries else {})


def settings_of(measure, wildcards):
    return spec_of(STUDIES[wildcards.study].settings[measure.key])


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
            code=code_of(each.function),
        message:
            f"{each.name.capitalize()} {{wildcards.study}}/{{wildcards.variant}}, block {{wildcards.block}}"
        script:
            "../scripts/measure.py"
