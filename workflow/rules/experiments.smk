"""Two rules for each experiment that the papers' cards register: its tables, and a share of its points."""

for each in EXPERIMENTS.values():

    rule:
        name:
            each.key.replace(".", "_")
        input:
            chunks=partial(chunks_of, each),
            data=lambda wildcards, datasets=each.datasets: data_of_study(wildcards.study) if datasets else [],
        output:
            [files.experiment(RESULTS, "{study}", output) for output in each.outputs],
        log:
            log_of(each.key, "{study}"),
        benchmark:
            benchmark_of(each.key, "{study}")
        # Among the longest jobs, and nothing waits for them but tables: begun first, they run beside the chain.
        priority: 10
        conda:
            ENVIRONMENT
        threads: 1
        resources:
            mem_mb=retried(each.memory_mb),
            runtime=retried(each.minutes),
            gpu=GPU if each.gpu else 0,
        params:
            experiment=each.key,
            settings=partial(settings_of, each),
            listed=partial(digest_of_points, each),
            code=partial(code_of_points, each),
            tables=code_of("scripts.experiment", *filter(None, [each.tables])),
            points=files.points(RESULTS, "{study}", each.key),
        message:
            f"Experiment {each.key} of {{wildcards.study}}"
        script:
            "../scripts/experiment.py"

    rule:
        name:
            each.key.replace(".", "_") + "_points"
        input:
            data=lambda wildcards, datasets=each.datasets: data_of_study(wildcards.study) if datasets else [],
        output:
            touch(files.chunk(RESULTS, "{study}", each.key, "{chunk}")),
        log:
            log_of(each.key, "{study}", "{chunk}"),
        benchmark:
            benchmark_of(each.key, "{study}", "{chunk}")
        priority: 10
        conda:
            ENVIRONMENT
        threads: 1
        resources:
            mem_mb=retried(each.memory_mb),
            runtime=retried(each.minutes),
            gpu=GPU if each.gpu else 0,
        params:
            experiment=each.key,
            settings=partial(settings_of, each),
            listed=partial(digest_of_points, each),
            code=partial(code_of_points, each),
            points=files.points(RESULTS, "{study}", each.key),
        message:
            f"Points {{wildcards.chunk}} of {each.key} of {{wildcards.study}}"
        script:
            "../scripts/experiment.py"
