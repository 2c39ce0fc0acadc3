rule train:
    input:
        data=data_of_variant,
    output:
        models=files.part(RESULTS, "{study}", "{variant}", "models.safetensors", "{block}"),
        history=files.part(RESULTS, "{study}", "{variant}", "history.csv", "{block}"),
    log:
        log_of("train", "{study}", "{variant}", "{block}"),
    benchmark:
        benchmark_of("train", "{study}", "{variant}", "{block}")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=retried(4000),
        runtime=retried(720),
        gpu=GPU,
    params:
        spec=lambda wildcards: STUDIES[wildcards.study].training_spec(wildcards.variant, int(wildcards.block)),
        code=code_of_training,
        checkpoint=files.checkpoints(RESULTS, "{study}", "{variant}", "{block}"),
    message:
        "Train {wildcards.study}/{wildcards.variant}, block {wildcards.block}"
    script:
        "../scripts/train.py"


rule trace:
    input:
        data=lambda wildcards: files.dataset(RESULTS, shape_of(wildcards).dataset),
    output:
        files.symmetries(RESULTS, "{study}", "{shape}"),
    log:
        log_of("trace", "{study}", "{shape}"),
    benchmark:
        benchmark_of("trace", "{study}", "{shape}")
    conda:
        ENVIRONMENT
    threads: 1
    resources:
        mem_mb=retried(4000),
        runtime=retried(30),
    params:
        network=lambda wildcards: shape_of(wildcards).network.spec(),
        code=lambda wildcards: code_of("scripts.trace", shape_of(wildcards).network.module),
    message:
        "Permutation symmetries of {wildcards.shape} in {wildcards.study}"
    script:
        "../scripts/trace.py"
