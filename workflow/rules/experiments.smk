"""One rule for each experiment that the papers' cards register (symlab.measures.Experiment)."""


def settings_of_experiment(experiment, wildcards):
    """What the job reads: keys that only tables read leave it as it is."""
    chosen = STUDIES[wildcards.study].settings[experiment.key]
    specs = [
        {key: value for key, value in each.spec().items() if key not in experiment.unused}
        for each in (chosen if isinstance(chosen, list) else [chosen])
    ]
    return specs if isinstance(chosen, list) else specs[0]


for each in EXPERIMENTS.values():

    rule:
        name:
            each.key.replace(".", "_")
        input:
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
        params:
            experiment=each.key,
            settings=partial(settings_of_experiment, each),
            code=code_of(each.function),
            checkpoints=files.checkpoints(RESULTS, "{study}", each.key),
        message:
            f"Experiment {each.key} of {{wildcards.study}}"
        script:
            "../scripts/experiment.py"
