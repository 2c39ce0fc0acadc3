rule train:
    input:
        data=data_of_variant,
    output:
        models=f"{RESULTS}/{{study}}/{{variant}}/models/{{block}}.safetensors",
        history=ensure(f"{RESULTS}/{{study}}/{{variant}}/history/{{block}}.csv", non_empty=True),
    log:
        f"{RESULTS}/logs/train/{{study}}/{{variant}}/{{block}}.log",
    benchmark:
        f"{RESULTS}/benchmarks/train/{{study}}/{{variant}}/{{block}}.tsv"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: 4000 * attempt,
        runtime=lambda wildcards, attempt: 720 * attempt,
        gpu=GPU,
    params:
        spec=spec_of_training,
        # No output: Snakemake removes those of a job that failed or was killed.
        checkpoint=lambda wildcards, output: checkpoint_of(output.models),
        library=code_of_training,
        origins=origins,
    message:
        "Train {wildcards.study}/{wildcards.variant}, block {wildcards.block}"
    script:
        "../scripts/train.py"
